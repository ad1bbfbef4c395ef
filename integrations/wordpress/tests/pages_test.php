<?php
/** The parts of the page cache: keys, pages, the purge log, files. */

declare(strict_types=1);

use Petasos\Objects\ApcuBackend;
use Petasos\Objects\Codec;
use Petasos\Pages\Address;
use Petasos\Pages\BackendStore;
use Petasos\Pages\FileStore;
use Petasos\Pages\Page;
use Petasos\Pages\PageCache;
use Petasos\Pages\PurgeLog;

$key = static fn (string $target, array $more = [], array $parameters = []): ?string => Address::of(
    $more + ['HTTP_HOST' => 'a.test', 'REQUEST_URI' => $target],
    $parameters
)->key ?? null;
$page = static fn (string $key, int $number, array $tags = ['site']): Page => new Page($key, $number, 1, 2, ['A: b'], $tags, "<html>\n</html>");

return [
    'scheme, host and target are the key' => static function () use ($key): void {
        same($key('/a/?paged=2'), 'http://a.test/a/?paged=2');
        same($key('/', ['HTTP_HOST' => 'A.test:8080']), 'http://a.test:8080/');
        same($key('/', ['HTTPS' => 'on']), 'https://a.test/');
        same($key('/', ['HTTPS' => 'off']), 'http://a.test/');
        same($key('/', ['SERVER_PORT' => '443']), 'https://a.test/');
        same($key('/%C3%A4/'), 'http://a.test/%C3%A4/');
    },
    'what is no page for the cache' => static function () use ($key): void {
        $targets = [
            '', 'a', 'http://a.test/', '/?s=x', '/?a=b', '/?p=1&preview=true', '/wp-admin/', '/wp-login.php', '/x.php', '/wp-json/wp/v2/posts',
            '/?rest_route=/', '//evil.test/', '/a b', "/\x00", '/ä', '/' . str_repeat('x', 2000), '/%77p-admin/', '/xmlrpc.php', '/?p[]=1',
        ];
        foreach ($targets as $target) {
            same($key($target), null, $target);
        }
        foreach (['', 'a b', 'a/b', 'a.test:x', "a.test\r\n"] as $host) {
            same($key('/', ['HTTP_HOST' => $host]), null, $host);
        }
        same($key('/?a=b', [], ['a']), 'http://a.test/?a=b');
    },
    'where a visitor comes from makes no other page, and no page' => static function (): void {
        $address = Address::of(['HTTP_HOST' => 'a.test', 'REQUEST_URI' => '/?utm_source=x&paged=2&gclid=y']);
        same([$address->key ?? null, $address->isKept ?? null], ['http://a.test/?paged=2', false]);
        same(Address::of(['HTTP_HOST' => 'a.test', 'REQUEST_URI' => '/'])->isKept ?? null, true);
    },
    'a page comes back as it was' => static function () use ($page): void {
        $one = $page('k', 7, ['a', '404']);
        same(Page::decode($one->encode(), 'k') == $one, true);
        same(Page::decode($one->encode(), 'l'), null, 'another key');
        same(Page::decode(substr($one->encode(), 0, -1), 'k'), null, 'cut');
        foreach (['', "\n", '{}', "{}\n", "null\nx", serialize($one)] as $text) {
            same(Page::decode($text, 'k'), null, $text);
        }
    },
    'a purge meets what was begun before it, and nothing else' => static function (): void {
        $log = PurgeLog::fresh(1000);
        $before = $log->number();
        $log->purge(['post-1']);
        same($log->allows($before, ['post-1', 'site']), false);
        same($log->allows($before, ['post-10', 'site']), true);
        same($log->allows($log->number(), ['post-1']), true);
        $log->purge([]);
        same($log->allows($log->number() - 1, ['other']), false, 'everything');
        same(PurgeLog::decode($log->encode())->encode(), $log->encode());
    },
    'what the log forgets is purged' => static function (): void {
        $log = PurgeLog::fresh(1000);
        $log->purge(['first']);
        $begun = $log->number();
        $log->purge(['second']);
        foreach (range(1, 999) as $number) {
            $log->purge(["post-$number"]);
        }
        same($log->allows($begun, ['third']), true, 'all are remembered');
        foreach (range(1000, 1001) as $number) {
            $log->purge(["post-$number"]);
        }
        same($log->allows($begun, ['third']), false, 'it does not know any more');
        same(strlen($log->encode()) < 100_000, true);
    },
    'a lost log allows nothing' => static function (): void {
        $old = PurgeLog::fresh(1000);
        $new = PurgeLog::fresh(2000);
        same($new->allows($old->number(), []), false);
        same($old->allows($new->number(), []), false, 'a page from a log that is gone');
        foreach (['', '[]', '{"number":"1","floor":0}', 'x'] as $text) {
            same(PurgeLog::decode($text), null, $text);
        }
    },
    'files keep, forget and go' => static function () use ($page): void {
        $directory = directory();
        $store = new FileStore("$directory/pages", 640, 6_400_000);
        $log = $store->log();
        same($log->number(), $store->log()->number(), 'the log is kept');
        $store->write('k', $page('k', $log->number())->encode(), 10);
        same(Page::decode((string) $store->read('k'), 'k')->body, "<html>\n</html>");
        same($store->read('l'), null);
        [$file] = glob("$directory/pages/*/*.page") ?: [''];
        same([fileperms($file) & 0777, basename($file) === hash('sha256', 'k') . '.page'], [0600, false]);
        foreach (['index.php', '.htaccess'] as $name) {
            same(is_file("$directory/pages/$name"), true, $name);
        }
        same($store->purge(['site']), true);
        same($store->log()->allows($log->number(), ['site']), false);
        $store->remove();
        same(scandir($directory), ['.', '..']);
    },
    'files keep to their bounds' => static function () use ($page): void {
        $directory = directory();
        $store = new FileStore($directory, 128, 1_000_000_000);
        foreach (range(1, 600) as $number) {
            $store->write("k$number", $page("k$number", 1)->encode(), 10);
        }
        same($store->read('k600') === null, false, 'the newest stays');
        same(count(glob("$directory/*/*") ?: []) <= 128, true);
        $small = new FileStore($directory, 1_000_000, 64 * 3000);
        foreach (range(1, 300) as $number) {
            $small->write("k$number", str_repeat('x', 1000), 10);
        }
        same(array_sum(array_map('filesize', glob("$directory/*/*") ?: [])) <= 64 * 3000, true);
        $small->write('large', str_repeat('x', 10_000), 10);
        same(strlen((string) $small->read('large')), 10_000, 'one page is always kept');
    },
    'a directory that cannot be written keeps nothing and says so' => static function (): void {
        $directory = directory();
        file_put_contents("$directory/file", '');
        $store = new FileStore("$directory/file/pages", 64, 1_000_000);
        same([$store->log(), $store->purge(['a']), $store->read('k')], [null, false, null]);
        $store->write('k', 'x', 10);
    },
    'many processes purge at once and none is lost' => static function (): void {
        $directory = directory();
        $store = new FileStore($directory, 64, 1_000_000);
        $begun = $store->log()->number();
        $children = [];
        foreach (range(1, 4) as $child) {
            $code = sprintf(
                'require %s; $s = new Petasos\Pages\FileStore(%s, 64, 1000000); foreach (range(1, 25) as $n) { $s->purge(["c%d-$n"]) || exit(1); }',
                var_export(dirname(__DIR__) . '/petasos/src/autoload.php', true),
                var_export($directory, true),
                $child
            );
            $children[] = proc_open([PHP_BINARY, '-r', $code], [], $pipes);
        }
        same(array_map('proc_close', $children), [0, 0, 0, 0]);
        same($store->log()->number(), $begun + 100);
        foreach (range(1, 4) as $child) {
            same($store->log()->allows($begun, ["c$child-25"]), false);
        }
    },
    'pages with the objects' => static function () use ($page): void {
        $store = new BackendStore(new ApcuBackend(new Codec('secret')), 'test-' . bin2hex(random_bytes(4)));
        $begun = (int) $store->log()->number();
        $store->write('k', $page('k', $begun)->encode(), 10);
        same(Page::decode((string) $store->read('k'), 'k')->number, $begun);
        same($store->purge(['site']), true);
        same($store->log()->allows($begun, ['site']), false);
        $store->remove();
        same($store->log()->allows($begun, []), false);
    },
    'what may be kept, and how long' => static function (): void {
        $html = '<html></html>';
        $type = ['content-type' => 'text/html; charset=UTF-8'];
        $life = static fn (array $headers, string $body = '<html></html>', int $status = 200): int => PageCache::life($status, $headers + $type, $body);
        same($life([]), 300);
        same($life(['cache-control' => 'public, max-age=0, s-maxage=60']), 60);
        same($life(['cache-control' => 'max-age=60']), 60);
        same($life(['cache-control' => 'max-age=0']), 0);
        same($life(['cache-control' => 's-maxage=99999999999999999999']), 36_000);
        foreach (['private', 'no-store', 'no-cache, must-revalidate, max-age=0', 'Private, s-maxage=60'] as $control) {
            same($life(['cache-control' => $control]), 0, $control);
        }
        same($life(['set-cookie' => 'a=b']), 0);
        same($life(['vary' => 'Cookie']), 0);
        same($life(['vary' => 'Accept-Encoding']), 300);
        foreach ([201, 204, 301, 302, 304, 404, 500, 503] as $status) {
            same($life([], $html, $status), 0, (string) $status);
        }
        same($life([], '<html>cut'), 0);
        same($life([], ''), 0);
        same($life(['content-type' => 'application/rss+xml'], '<rss/>'), 300);
        same($life(['content-type' => 'application/json'], '{}'), 0);
        same($life([], str_repeat('x', 2_000_001) . $html), 0);
    },
    'If-None-Match' => static function (): void {
        same(PageCache::matches('W/"a"', '"a"'), true);
        same(PageCache::matches('"b", W/"a"', 'W/"a"'), true);
        same(PageCache::matches('*', '"a"'), true);
        same(PageCache::matches('', '"a"'), false);
        same(PageCache::matches('"ab"', '"a"'), false);
    },
];
