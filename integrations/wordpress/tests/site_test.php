<?php
/** What the plugin does on a site: settings, exclusions, shops, languages, files. */

declare(strict_types=1);

use Petasos\Actions;
use Petasos\Cleanup;
use Petasos\ConfigFile;
use Petasos\DropIns;
use Petasos\Edge;
use Petasos\Exclusions;
use Petasos\Ladder;
use Petasos\Languages;
use Petasos\Measurement;
use Petasos\Objects\ObjectCache;
use Petasos\Objects\Router;
use Petasos\Pages\Address;
use Petasos\Pages\PageCache;
use Petasos\Probe;
use Petasos\Purges;
use Petasos\Settings;
use Petasos\Shop;
use Petasos\Stored;
use Petasos\Text;
use Petasos\Visitor;

require_once __DIR__ . '/stubs.php';

$get = ['REQUEST_METHOD' => 'GET'];
/** The files in wp-content, without those in directories. */
$content = static fn (): array => array_values(array_map('basename', array_filter(glob(WP_CONTENT_DIR . '/*') ?: [], 'is_file')));

return [
    'a constant wins over the environment, and that over the screen' => static function (): void {
        Site::reset();
        Settings::adopt(['PETASOS_TOKEN' => 'stored', 'PETASOS_PAGES' => 'files', 'PETASOS_TTL' => '60']);
        same(Settings::text('PETASOS_TOKEN'), 'stored');
        putenv('PETASOS_TOKEN=environment');
        same([Settings::text('PETASOS_TOKEN'), Settings::isFixed('PETASOS_TOKEN')], ['environment', true]);
        putenv('PETASOS_TOKEN');
        define('PETASOS_SITE', 'constant');
        putenv('PETASOS_SITE=environment');
        same(Settings::text('PETASOS_SITE'), 'constant');
        putenv('PETASOS_SITE');
        same([Settings::pages(), Settings::isFixed('PETASOS_PAGES')], ['files', false]);
        same(Settings::number('PETASOS_TTL', 3600, 0, 9999), 3600, 'a text is no number');
    },
    'no global function is defined for other plugins' => static function (): void {
        $code = sprintf('require %s; new Petasos\\Settings(); echo implode(" ", get_defined_functions()["user"]);', var_export(dirname(__DIR__) . '/petasos/src/autoload.php', true));
        same(shell_exec(escapeshellarg(PHP_BINARY) . ' -r ' . escapeshellarg($code)), null);
        same(array_map([Text::class, 'contains'], ['abc', 'abc', ''], ['b', 'd', '']), [true, false, true]);
        same(array_map([Text::class, 'startsWith'], ['abc', 'abc', 'a'], ['ab', 'bc', '']), [true, false, true]);
        same(array_map([Text::class, 'endsWith'], ['abc', 'abc', 'c', 'c'], ['bc', 'ab', '', 'bc']), [true, false, true, false]);
    },
    'paths are excluded with and without a slash at the end' => static function (): void {
        foreach (['/cart', '/cart/', '/cart?x=1', '/%63art/'] as $target) {
            same(Exclusions::hasPath($target, ['/cart/']), true, $target);
        }
        same(Exclusions::hasPath('/cart/more', ['/cart/']), false);
        same(Exclusions::hasPath('/members/a?b', ['/members/*']), true);
        same(Exclusions::hasPath('/x/members/', ['/members/*']), false);
        same(Exclusions::hasPath('/?page_id=7', ['/?page_id=7']), true);
        same(Exclusions::hasPath('/?page_id=71', ['/?page_id=7']), false);
        same(Exclusions::hasPath('/caf%C3%A9', ['/café']), true);
        same(Exclusions::hasPath('/a.b', ['/a#b', '/a(b']), false, 'no part is an expression');
    },
    'stars match any text between the parts' => static function (): void {
        same(Exclusions::hasPath('/a/x/b/y/c', ['/a*b*c']), true);
        same(Exclusions::hasPath('/a/c', ['/a*b*c']), false);
        same(Exclusions::hasPath('/aba', ['/ab*ba']), false, 'the parts do not overlap');
        same(Exclusions::hasPath('/abxab', ['/*ab*ab*ab']), false);
        same(Exclusions::hasPath('/shop/de/cart/', ['*/cart']), true);
        same(Exclusions::hasPath('/b' . str_repeat('a', 100_000), ['/' . str_repeat('*a', 90) . 'b']), false);
    },
    'cookies are excluded by name or beginning' => static function (): void {
        same(Exclusions::hasCookie(['_ga'], ['_ga']), true);
        same(Exclusions::hasCookie(['_gat'], ['_ga']), false);
        same(Exclusions::hasCookie(['my_plan_7'], ['my.plan_*']), true, 'as PHP writes the name');
        same(Exclusions::hasCookie([7], ['7']), true);
    },
    'what a form may contain' => static function (): void {
        same(Exclusions::paths("/a/*\n/b\r\n\n/a/*"), [['/a/*', '/b'], []]);
        same(Exclusions::paths("b\n/\x01\n/" . str_repeat('x', 200))[0], []);
        same(Exclusions::cookies("a*\nb;c\nd=e\n*"), [['a*'], ['b;c', 'd=e', '*']]);
        same(count(Exclusions::paths(implode("\n", array_map(static fn (int $n): string => "/$n", range(1, 300))))[0]), 100);
    },
    'cookies of shops and sessions are never harmless' => static function () use ($get): void {
        $all = ['*', 'woocommerce_*', 'wordpress_logged_in_*'];
        foreach (['woocommerce_cart_hash', 'woocommerce_items_in_cart', 'wp_woocommerce_session_0a', 'wordpress_logged_in_0a', 'edd_items_in_cart', 'wp-postpass_0a'] as $name) {
            same(Visitor::isAnonymous($get, [$name => '1'], $all), false, $name);
        }
        same(Visitor::isAnonymous($get, ['pll_language' => 'de']), true);
    },
    'each language of visitors has a page of its own' => static function (): void {
        $server = ['HTTP_HOST' => 'a.test', 'REQUEST_URI' => '/'];
        $of = static fn (array $cookies): ?Address => Address::of($server, [], $cookies);
        $keys = array_map(static fn (array $cookies): string => $of($cookies)->key, [[], ['pll_language' => 'de'], ['pll_language' => 'pt_BR'], ['wp-wpml_current_language' => 'de']]);
        same(count(array_unique($keys)), 4);
        same([$of(['pll_language' => 'de'])->tag, $of(['_ga' => 'x'])->key], [$of([])->tag, $of([])->key]);
        foreach (['d e', '../x', str_repeat('a', 99), ['de']] as $value) {
            same($of(['pll_language' => $value]), null);
        }
        same(Address::of(['REQUEST_URI' => '/?lang=de'] + $server)->key, 'http://a.test/?lang=de');
    },
    'the tag of a URL is that of its requests' => static function (): void {
        $server = ['HTTP_HOST' => 'a.test:8080', 'REQUEST_URI' => '/b/?paged=2', 'HTTPS' => 'on'];
        same(Address::ofUrl('https://a.test:8080/b/?paged=2')->tag, Address::of($server)->tag);
        same(Address::ofUrl('/b') === null, true, 'no host');
    },
    'Polylang: a page whose language follows from the browser is personal' => static function (): void {
        Site::reset();
        same(Languages::isPersonal(), false, 'not set up');
        Site::$options['polylang'] = ['force_lang' => 1, 'browser' => 1];
        same(Languages::isPersonal(), false);
        Site::$is['is_front_page'] = true;
        same(Languages::isPersonal(), true);
        Site::$options['polylang'] = ['force_lang' => 0, 'browser' => 0];
        same(Languages::isPersonal(), true, 'the language is a property of the content');
        Site::$is['is_singular'] = true;
        same(Languages::isPersonal(), false);
    },
    'Polylang is told of the cache' => static function (): void {
        Site::reset();
        Languages::begin();
        same(Site::$hooks['pll_is_cache_active'], ['__return_true']);
    },
    'WooCommerce: cart, checkout, account and their actions are personal' => static function (): void {
        Site::reset();
        same(Shop::isPersonal(), false);
        foreach (['is_cart', 'is_checkout', 'is_account_page', 'is_wc_endpoint_url'] as $name) {
            Site::$is = [$name => true];
            same(Shop::isPersonal(), true, $name);
        }
        Site::$is = [];
        foreach (['add-to-cart', 'remove_item', 'wc-ajax', 'edd_action'] as $name) {
            $_GET = [$name => '1'];
            same(Shop::isPersonal(), true, $name);
        }
    },
    'WooCommerce: prices by address make every page personal' => static function (): void {
        Site::reset();
        Site::$options['woocommerce_default_customer_address'] = 'geolocation_ajax';
        same(Shop::isPersonal(), false);
        Site::$options['woocommerce_default_customer_address'] = 'geolocation';
        same(Shop::isPersonal(), true);
    },
    'WooCommerce: a change of stock purges product, lists and parent' => static function (): void {
        Site::reset();
        $purges = new Purges('');
        Shop::begin($purges);
        foreach (Site::$hooks['woocommerce_updated_product_stock'] as $changed) {
            $changed(8);
        }
        $tags = new ReflectionProperty($purges, 'tags');
        $tags->setAccessible(true);
        same($tags->getValue($purges)->all(), ['post-8', 'type-product', 'post-7']);
    },
    'only the site itself makes probes, for a short time' => static function (): void {
        $value = (string) Probe::value(['pages', 'opcode'], 1000);
        same(Probe::read($value, 1000), ['pages', 'opcode']);
        same(Probe::read((string) Probe::value([], 1000), 1000), []);
        same([Probe::read($value, 1121), Probe::read($value, 800)], [null, null], 'too late, too early');
        foreach ([str_replace('opcode', 'objects', $value), str_replace(';1120;', ';1121;', $value), "$value\n", '', ';;', 'pages;1120;' . str_repeat('0', 64)] as $forged) {
            same(Probe::read($forged, 1000), null, $forged);
        }
    },
    'the line in wp-config.php goes as it came' => static function (): void {
        foreach (["<?php\n\$a = 1;\n", "<?php\r\n/** x */\r\n", "<?php\n"] as $text) {
            $with = (string) ConfigFile::with($text);
            same(substr_count($with, ConfigFile::LINE), 1);
            same([ConfigFile::without($with), ConfigFile::with($with)], [$text, $with]);
        }
    },
    'a wp-config.php that is not understood stays' => static function (): void {
        $texts = [
            "<?php\ndefine('WP_CACHE', false);\n", "<?php\ndeclare(strict_types=1);\n", "<?php\nnamespace a;\n", "<?php\n\$a = ;\n",
            "<?php define('A', 1);\n", "\n<?php\n", '',
        ];
        foreach ($texts as $text) {
            same([ConfigFile::with($text), ConfigFile::without($text)], [null, $text], $text);
        }
    },
    'drop-ins come with their settings and go without a trace' => static function () use ($content): void {
        Site::reset();
        file_put_contents(ABSPATH . 'wp-config.php', "<?php\n");
        chmod(ABSPATH . 'wp-config.php', 0600);
        same(DropIns::install('pages', ''), []);
        same(DropIns::install('objects', 'apcu'), []);
        same($content(), ['advanced-cache.php', 'object-cache.php', 'petasos-settings.php']);
        same(fileperms(ABSPATH . 'wp-config.php') & 0777, 0600);
        $passed_on = require WP_CONTENT_DIR . '/petasos-settings.php';
        same([$passed_on['PETASOS_PAGES'], $passed_on['PETASOS_OBJECTS']], ['files', ['*' => 'apcu']]);
        same(is_dir(WP_CONTENT_DIR . '/cache/petasos'), true);
        Cleanup::deactivate();
        same([$content(), is_dir(WP_CONTENT_DIR . '/cache'), file_get_contents(ABSPATH . 'wp-config.php')], [[], false, "<?php\n"]);
        same(array_filter(Stored::read()), []);
    },
    'a new object cache does not find the objects of an old one' => static function (): void {
        Site::reset();
        DropIns::install('objects', 'apcu');
        $first = Settings::text('PETASOS_OBJECTS_PREFIX');
        DropIns::remove('objects');
        DropIns::install('objects', 'apcu');
        same($first !== '' && Settings::text('PETASOS_OBJECTS_PREFIX') !== $first, true);
        DropIns::remove('objects');
    },
    'the token is not in the file of the drop-ins' => static function (): void {
        Site::reset();
        Stored::write(['PETASOS_TOKEN' => 'very-secret']);
        DropIns::install('objects', 'apcu');
        same(strpos((string) file_get_contents(WP_CONTENT_DIR . '/petasos-settings.php'), 'very-secret'), false);
        DropIns::remove('objects');
        same(Settings::text('PETASOS_TOKEN'), 'very-secret');
    },
    'a drop-in of another plugin is never touched' => static function (): void {
        Site::reset();
        file_put_contents(DropIns::target('pages'), "<?php\n// Another cache.\n");
        same(count(DropIns::install('pages', '')), 1);
        same(Stored::read(), []);
        DropIns::remove('pages');
        same(file_get_contents(DropIns::target('pages')), "<?php\n// Another cache.\n");
        unlink(DropIns::target('pages'));
    },
    'what may not be written is said' => static function () use ($content): void {
        Site::reset();
        file_put_contents(ABSPATH . 'wp-config.php', "<?php\n");
        Site::$may_write = false;
        $left = DropIns::install('pages', '');
        same(count($left), 3, implode("\n", $left));
        foreach (['petasos-settings.php', 'advanced-cache.php', ConfigFile::LINE] as $number => $text) {
            same(strpos($left[$number], $text) !== false, true, $left[$number]);
        }
        same([$content(), file_get_contents(ABSPATH . 'wp-config.php')], [[], "<?php\n"]);
        Site::$may_write = true;
        DropIns::remove('pages');
    },
    'a layer that cannot be removed is still purged' => static function () use ($content): void {
        Site::reset();
        DropIns::install('pages', '');
        $begun = (int) PageCache::store()->log()->number();
        Site::$may_write = false;
        Cleanup::deactivate();
        same([Settings::pages(), DropIns::installed(), count($content())], ['files', ['pages'], 2]);
        same(PageCache::store()->log()->allows($begun, []), false, 'stored pages are not served');
        $begun = (int) PageCache::store()->log()->number();
        same([count(DropIns::remove('pages')), PageCache::store()->log()->allows($begun, [])], [2, false]);
        Site::$may_write = true;
        same([DropIns::remove('pages'), DropIns::installed(), $content(), Settings::pages()], [[], [], [], 'off']);
        same(is_dir(WP_CONTENT_DIR . '/cache'), false);
    },
    'the line in wp-config.php stays for another page cache' => static function (): void {
        Site::reset();
        file_put_contents(ABSPATH . 'wp-config.php', "<?php\n");
        DropIns::install('pages', '');
        file_put_contents(DropIns::target('pages'), "<?php\n// Another cache.\n");
        DropIns::remove('pages');
        same([DropIns::installed(), strpos((string) file_get_contents(ABSPATH . 'wp-config.php'), ConfigFile::LINE) !== false], [[], true]);
        unlink(DropIns::target('pages'));
        file_put_contents(ABSPATH . 'wp-config.php', "<?php\n");
    },
    'a copied site runs its own copy of the plugin' => static function (): void {
        $run = static fn (string $drop_in): string => (string) shell_exec(escapeshellarg(PHP_BINARY) . ' ' . escapeshellarg($drop_in));
        $content = directory();
        mkdir("$content/elsewhere/src", 0777, true);
        mkdir("$content/plugins/petasos/src", 0777, true);
        copy(DropIns::source('pages'), "$content/advanced-cache.php");
        foreach (['elsewhere', 'plugins/petasos'] as $plugin) {
            file_put_contents("$content/$plugin/src/autoload.php", "<?php echo '$plugin'; exit;");
        }
        foreach (['elsewhere' => 'elsewhere', '/nowhere/petasos' => 'plugins/petasos', "$content/elsewhere" => 'elsewhere'] as $stored => $plugin) {
            file_put_contents("$content/petasos-settings.php", '<?php return ' . var_export(['PETASOS_DIR' => $stored], true) . ';');
            same($run("$content/advanced-cache.php"), $plugin, $stored);
        }
        unlink("$content/petasos-settings.php");
        same($run("$content/advanced-cache.php"), 'plugins/petasos');
    },
    'a file that is read-only or of another user is not replaced' => static function (): void {
        Site::reset();
        $path = ABSPATH . 'wp-config.php';
        file_put_contents($path, "<?php\n");
        $is_root = posix_geteuid() === 0;
        // Root may write everything, but a new file would have another owner.
        $is_root ? chown($path, 12_345) : chmod($path, 0400);
        same(ConfigFile::add(), false);
        same([file_get_contents($path), glob(ABSPATH . 'petasos*')], ["<?php\n", []]);
        $is_root ? chown($path, 0) && chgrp($path, 12_345) : chmod($path, 0600);
        same(ConfigFile::add(), true);
        clearstatcache();
        same(filegroup($path), $is_root ? 12_345 : posix_getegid());
        unlink($path);
        file_put_contents($path, "<?php\n");
    },
    'a network: one site leaves the drop-ins to the others' => static function () use ($content): void {
        Site::reset();
        Site::$is_network = true;
        DropIns::install('objects', 'apcu');
        Cleanup::deactivate(false);
        same($content(), ['object-cache.php', 'petasos-settings.php']);
        same(Actions::rightToSettings(), 'manage_network_options');
        Cleanup::deactivate(true);
        same($content(), []);
        Site::$is_network = false;
        same(Actions::rightToSettings(), 'manage_options');
    },
    'a network: an administrator of one site purges only that' => static function (): void {
        foreach ([[false, []], [true, ['b2.site']]] as [$is_network, $tags]) {
            Site::reset();
            Site::$is_network = $is_network;
            same([(new Purges('b2.'))->everything(), Site::$done], [true, [['petasos_purged', $tags]]]);
        }
        Site::reset();
    },
    'an address that is no page of the site purges nothing' => static function (): void {
        $purge = new ReflectionMethod(Actions::class, 'purge');
        $purge->setAccessible(true);
        foreach ([false, true] as $is_network) {
            Site::reset();
            Site::$is_network = $is_network;
            foreach (['javascript:1', 'http://evil.test/', '0', '/', ['http://a.test/']] as $url) {
                $_REQUEST['url'] = $url;
                $error = '';
                try {
                    $purge->invoke(new Actions(new Purges('')));
                } catch (DomainException $refused) {
                    $error = $refused->getMessage();
                }
                same([$error, Site::$done], ['This is no page of this site.', []]);
            }
        }
        unset($_REQUEST['url']);
        Site::reset();
    },
    'pages of an inactive plugin are not served' => static function (): void {
        foreach ([false, true] as $is_network) {
            Site::reset();
            Site::$is_network = $is_network;
            // The drop-in was copied by hand, or belongs to other sites too.
            Settings::adopt(['PETASOS_PAGES' => 'files']);
            $begun = (int) PageCache::store()->log()->number();
            Cleanup::deactivate(false);
            same(PageCache::store()->log()->allows($begun, []), false);
            PageCache::store()->remove();
        }
        rmdir(WP_CONTENT_DIR . '/cache');
        Site::reset();
    },
    'a measurement empties the object cache that it has passed' => static function (): void {
        Site::reset();
        same([Measurement::run(new Purges(''))['error'], in_array(['wp_cache_flush'], Site::$done, true)], ['no loopback', false]);
        $GLOBALS['wp_object_cache'] = new ObjectCache(new Router([]), 's', 1, false);
        Measurement::run(new Purges(''));
        same(in_array(['wp_cache_flush'], Site::$done, true), true);
        unset($GLOBALS['wp_object_cache']);
    },
    'APCu is proposed where nothing passes it' => static function (): void {
        same([DropIns::proposed(['redis', 'apcu']), DropIns::proposed(['apcu']), DropIns::proposed([])], ['redis', 'apcu', null]);
        define('DISABLE_WP_CRON', true);
        same([DropIns::proposed(['redis', 'apcu']), DropIns::proposed(['apcu'])], ['redis', null]);
    },
    'a token goes only where its owner has sent it' => static function (): void {
        $token = static function (): string {
            $property = new ReflectionProperty(Edge::class, 'token');
            $property->setAccessible(true);
            return $property->getValue(Edge::all()[0]);
        };
        Site::reset();
        Settings::adopt(['PETASOS_ADMIN' => 'http://127.0.0.1:8081', 'PETASOS_TOKEN' => 'stored']);
        same($token(), 'stored');
        putenv('PETASOS_TOKEN=environment');
        same($token(), '', 'the address is of the screen');
        putenv('PETASOS_EDGE=http://127.0.0.1:8080');
        same($token(), '', 'the other address is not used');
        putenv('PETASOS_ADMIN=http://127.0.0.1:8081');
        same($token(), 'environment');
        foreach (['TOKEN', 'EDGE', 'ADMIN'] as $name) {
            putenv("PETASOS_$name");
        }
    },
    'the ladder states measured times only' => static function (): void {
        $on = ['opcode' => 'on', 'pages' => 'on', 'objects' => 'off', 'edge' => 'on'];
        $ms = ['compiled' => 300.0, 'plain' => 80.0, 'generated' => 60.0, 'inside' => 6.0, 'visitor' => 2.0];
        $rows = Ladder::rows($on, ['ms' => $ms, 'pages' => true, 'edge' => false], []);
        same([$rows['opcode']['without'], $rows['opcode']['with']], [300.0, 80.0]);
        same([$rows['pages']['without'], $rows['pages']['with']], [60.0, 6.0]);
        same([$rows['objects']['with'], $rows['edge']['with']], [null, null], 'off; no hit was seen');
        same(Ladder::rows($on, null, [])['pages']['with'], null);
        foreach (['off', 'foreign', 'broken', 'old'] as $state) {
            foreach (Ladder::rows(array_fill_keys(array_keys($on), $state), null, []) as $layer => $row) {
                same($row['fix'] !== '', true, "$layer $state");
            }
        }
    },
];
