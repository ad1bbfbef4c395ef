<?php
/** The webhook of a content delivery network: what it is told, and that no secret leaves. */

declare(strict_types=1);

use Petasos\OldUrls;
use Petasos\Purges;
use Petasos\Settings;
use Petasos\SiteHealth;
use Petasos\Webhook;

require_once __DIR__ . '/stubs.php';

/**
 * Starts a server process that answers one request with this text.
 *
 * @return array{0: string, 1: callable} its address, and a function that returns the request. The
 *         function ends the process if no request came.
 */
function network(string $answer): array
{
    $code = sprintf(
        '$s = stream_socket_server("tcp://127.0.0.1:0"); echo stream_socket_get_name($s, false), "\n";
        $c = stream_socket_accept($s, 20); $got = "";
        while (!preg_match("/\r\n\r\n/", $got) || strlen(explode("\r\n\r\n", $got, 2)[1]) < (preg_match("/Content-Length: (\d+)/", $got, $m) ? (int) $m[1] : 0)) { $got .= fread($c, 9999); }
        fwrite($c, %s); fclose($c); echo $got;',
        var_export($answer, true)
    );
    $process = proc_open([PHP_BINARY, '-r', $code], [1 => ['pipe', 'w']], $pipes);
    $address = trim((string) fgets($pipes[1]));
    return ["http://$address", static function (bool $came = true) use ($process, $pipes): string {
        $came || proc_terminate($process);
        $got = (string) stream_get_contents($pipes[1]);
        proc_close($process);
        return $got;
    }];
}

$ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
$body = static fn (string $request): string => explode("\r\n\r\n", $request, 2)[1] ?? '';
$values = ['PETASOS_WEBHOOK_BODY' => '{"files": {urls}}', 'PETASOS_WEBHOOK_BODY_ALL' => '{"purge_everything": true}'];

return [
    'a change names its posts after the edge has purged' => static function () use ($ok, $body, $values): void {
        Site::reset();
        [$edge, $edge_got] = network($ok);
        [$network, $network_got] = network($ok);
        Settings::adopt(['PETASOS_ADMIN' => $edge, 'PETASOS_WEBHOOK_URL' => "$network/zone?x=1", 'PETASOS_WEBHOOK_HEADER' => 'X-Key: k3y'] + $values);
        $purges = new Purges('');
        $purges->add('post-7', 'feed');
        $purges->send();
        same(json_decode($body($edge_got()), true)['type'], 'tag');
        $request = $network_got();
        same(strncmp($request, "POST /zone?x=1 HTTP/1.1\r\nHost: " . substr($network, 7) . "\r\n", 40), 0, $request);
        same(strpos($request, "\r\nX-Key: k3y\r\n") !== false, true, $request);
        same($body($request), '{"files": ["http://a.test/","http://a.test/?p=7"]}');
        same([Site::$options['petasos_webhook'] ?? null, Site::$options[Purges::FAILURE] ?? null], [null, null]);
    },
    'everything, too many pages and one page have their own content' => static function () use ($ok, $body, $values): void {
        foreach ([[[], [], '{"purge_everything": true}'], [['post-1'], [], '{"purge_everything": true}'], [[], ['http://a.test/b'], '{"files": ["http://a.test/b"]}']] as [$tags, $urls, $content]) {
            Site::reset();
            [$network, $got] = network($ok);
            Settings::adopt(['PETASOS_WEBHOOK_URL' => $network, 'PETASOS_WEBHOOK_METHOD' => 'PUT'] + $values);
            same(Webhook::send($tags, $urls), null);
            $request = $got();
            same([$body($request), strncmp($request, 'PUT / ', 6)], [$content, 0]);
        }
        $tags = array_map(static fn (int $number): string => "post-$number", range(1, 31));
        $old = new OldUrls();
        same([count(Webhook::urlsOf(array_slice($tags, 0, 29), '', $old)), Webhook::urlsOf($tags, '', $old), Webhook::urlsOf([], '', $old)], [30, [], []]);
        same(Webhook::urlsOf(['b2.post-7', 'b2.link-9', 'b2.posts'], 'b2.', $old), ['http://a.test/', 'http://a.test/?p=7']);
    },
    'no content has only empty lists' => static function () use ($ok, $body): void {
        $url = 'http://a.test/b';
        foreach ([
            [[], [$url], '{"tags": {tags}}', '{"all": 1}', '{"all": 1}'],
            [['mine'], [], '{"files": {urls}}', '{"all": 1}', '{"all": 1}'],
            [['mine'], [], '{"files": {urls}, "all": {everything}}', null, '{"files": [], "all": true}'],
            [[], [$url], '{"all": 2}', null, '{"all": 2}'],
            [['mine'], [$url], '{"tags": {tags}}', '{"all": 1}', '{"tags": ["mine"]}'],
        ] as [$tags, $urls, $template, $for_all, $content]) {
            Site::reset();
            [$network, $got] = network($ok);
            Settings::adopt(array_filter(['PETASOS_WEBHOOK_URL' => $network, 'PETASOS_WEBHOOK_BODY' => $template, 'PETASOS_WEBHOOK_BODY_ALL' => $for_all]));
            same(Webhook::send($tags, $urls), null);
            same($body($got()), $content);
        }
    },
    'a URL that is no UTF-8 is a failure, not a fatal error' => static function (): void {
        Site::reset();
        Settings::adopt(['PETASOS_WEBHOOK_URL' => 'http://127.0.0.1:1']);
        same(strpos((string) Webhook::send([], ["http://a.test/\xff"]), 'UTF-8') !== false, true);
        same(isset(Site::$options[Webhook::FAILURE]), true);
    },
    'a tag of pages all over the site purges everything' => static function () use ($ok, $body, $values): void {
        foreach (['site', 'menu', 'menu-3', 'widgets', 'term-2', 'author-1', 'author-3', 'mine', 'post-99', 'post-50'] as $tag) {
            Site::reset();
            [$network, $got] = network($ok);
            Settings::adopt(['PETASOS_WEBHOOK_URL' => $network] + $values);
            Site::$posts[50] = new WP_Post(50, 'publish', '', 'wp_block');
            $purges = new Purges('');
            $purges->add($tag, 'post-7');
            $purges->send();
            same($body($got()), '{"purge_everything": true}', $tag);
        }
        Site::reset();
        Site::$is_network = true;
        [$network, $got] = network($ok);
        Settings::adopt(['PETASOS_WEBHOOK_URL' => $network] + $values);
        same((new Purges('b2.'))->everything(), true);
        same($body($got()), '{"purge_everything": true}');
    },
    'comments and product variations have a page, customers have none' => static function () use ($ok, $body, $values): void {
        foreach ([
            ['comments-7', 'type-comment', '["http://a.test/","http://a.test/?p=7"]'],
            ['post-8', 'type-product', '["http://a.test/","http://a.test/?p=8"]'],
            ['author-2', 'feed', '["http://a.test/"]'],
        ] as [$tag, $other, $urls]) {
            Site::reset();
            [$network, $got] = network($ok);
            Settings::adopt(['PETASOS_WEBHOOK_URL' => $network] + $values);
            Site::$posts[8] = new WP_Post(8, 'publish', '', 'product_variation');
            $purges = new Purges('');
            $purges->add($tag, $other);
            $purges->send();
            same($body($got()), "{\"files\": $urls}", $tag);
        }
    },
    'a post that is no longer at its URL is purged there' => static function () use ($ok, $body, $values): void {
        $post = static fn (string $status, string $name): WP_Post => new WP_Post(7, $status, $name);
        $public = $post('publish', 'old');
        foreach ([
            ['wp_trash_post', [7], $post('trash', 'old__trashed'), ['old/']],
            ['pre_post_update', [7], $post('draft', 'old'), ['old/']],
            ['pre_post_update', [7], $post('publish', 'new'), ['old/', 'new/']],
            ['post_updated', [7, $post('trash', 'x'), $public], $post('trash', 'x'), ['old/']],
            ['before_delete_post', [7], null, ['old/']],
            ['delete_attachment', [7], null, ['old/']],
            ['add_term_relationship', [7], $post('publish', 'term/old'), ['old/', 'term/old/']],
            ['no_hook', [7], $post('trash', 'old__trashed'), null],
        ] as [$hook, $arguments, $after, $paths]) {
            Site::reset();
            [$network, $got] = network($ok);
            Settings::adopt(['PETASOS_WEBHOOK_URL' => $network] + $values);
            $purges = new Purges('');
            $purges->begin();
            Site::$posts[7] = $public;
            foreach (Site::$hooks[$hook] ?? [] as $run) {
                $run(...$arguments);
            }
            Site::$posts[7] = $after;
            $purges->add('post-7', 'link-7', 'feed', '404');
            $purges->send();
            $urls = array_map(static fn (string $path): string => "http://a.test/$path", ['', ...($paths ?? [])]);
            $content = $paths === null ? '{"purge_everything": true}' : '{"files": ' . json_encode($urls, JSON_UNESCAPED_SLASHES) . '}';
            same($body($got()), $content, $hook);
        }
    },
    'a retry, which knows no old URL, purges everything' => static function () use ($ok, $body, $values): void {
        Site::reset();
        [$network, $got] = network($ok);
        Settings::adopt(['PETASOS_WEBHOOK_URL' => $network] + $values);
        Site::$options[Purges::FAILURE] = ['why' => ['webhook' => 'x'], 'tags' => ['post-7'], 'since' => 1, 'tries' => 1];
        $purges = new Purges('');
        $purges->begin();
        Site::$hooks[Purges::RETRY][0]();
        same($body($got()), '{"purge_everything": true}');
        same(Site::$options[Purges::FAILURE] ?? null, null);
    },
    'a tag is text, whatever is in it' => static function () use ($ok, $body): void {
        Site::reset();
        [$network, $got] = network($ok);
        Settings::adopt(['PETASOS_WEBHOOK_URL' => $network]);
        same(Webhook::send(['a"b', '{urls}'], []), null);
        same(json_decode($body($got()), true), ['tags' => ['a"b', '{urls}'], 'urls' => [], 'everything' => false]);
    },
    'no secret follows a redirect' => static function (): void {
        Site::reset();
        [$thief, $stolen] = network('');
        [$network, $got] = network("HTTP/1.1 302 Found\r\nLocation: $thief/\r\nContent-Length: 0\r\n\r\n");
        Settings::adopt(['PETASOS_WEBHOOK_URL' => $network, 'PETASOS_WEBHOOK_HEADER' => 'Authorization: Bearer s3cret']);
        same(Webhook::send([], []), 'it answered 302');
        same(strpos($got(), 's3cret') !== false, true);
        same($stolen(false), '');
    },
    'a secret of the environment goes only to a URL of the environment' => static function () use ($ok): void {
        foreach ([false, true] as $has_url) {
            Site::reset();
            [$network, $got] = network($ok);
            Settings::adopt(['PETASOS_WEBHOOK_URL' => $network]);
            putenv('PETASOS_WEBHOOK_HEADER=Authorization: Bearer s3cret');
            $has_url && putenv("PETASOS_WEBHOOK_URL=$network");
            same(Webhook::send([], []), null);
            same(strpos($got(), 's3cret') !== false, $has_url);
            putenv('PETASOS_WEBHOOK_HEADER');
            putenv('PETASOS_WEBHOOK_URL');
        }
    },
    'a failure is shown without the secret, until a purge succeeds' => static function () use ($ok): void {
        Site::reset();
        same(SiteHealth::webhook()['status'], 'good');
        [$network, $got] = network("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n");
        Settings::adopt(['PETASOS_WEBHOOK_URL' => $network, 'PETASOS_WEBHOOK_HEADER' => 'X-Key: s3cret']);
        same((new Purges(''))->everything(), false);
        $got();
        same(Site::$options[Purges::FAILURE]['why'], ['webhook' => 'it answered 403']);
        $health = SiteHealth::webhook();
        same([$health['status'], strpos($health['description'], 'it answered 403') !== false], ['critical', true]);
        same(strpos(serialize(Site::$options), 's3cret'), false);
        [$network, $got] = network($ok);
        Settings::adopt(['PETASOS_WEBHOOK_URL' => $network]);
        same((new Purges(''))->page('http://a.test/x'), true);
        $got();
        same(SiteHealth::webhook()['status'], 'good');
    },
    'a failure of the webhook does not hide one of an edge' => static function (): void {
        Site::reset();
        $has_failed = new ReflectionMethod(Purges::class, 'hasFailed');
        $has_failed->setAccessible(true);
        $failed = static fn (): bool => $has_failed->invoke(null, Site::$options[Purges::FAILURE] ?? false);
        same($failed(), false);
        Settings::adopt(['PETASOS_WEBHOOK_URL' => 'http://127.0.0.1:1']);
        (new Purges(''))->everything();
        same([array_keys(Site::$options[Purges::FAILURE]['why']), $failed()], [['webhook'], false]);
        Settings::adopt(['PETASOS_ADMIN' => 'http://127.0.0.1:1']);
        (new Purges(''))->everything();
        Settings::adopt(['PETASOS_WEBHOOK_URL' => 'http://127.0.0.1:1']);
        (new Purges(''))->everything();
        same([count(Site::$options[Purges::FAILURE]['why']), $failed()], [2, true]);
    },
    'settings that cannot be sent are refused' => static function (): void {
        foreach (['https://api.example.net/a?b=c', 'http://127.0.0.1:8080', 'https://[::1]/x'] as $url) {
            same(Webhook::isUrl($url), true, $url);
        }
        foreach (['', 'ftp://a/', 'https://user:secret@a/', "https://a/\r\nX: y", 'https://a/b c', 'https://a:port/', 'https:///x', "https://a/\n"] as $url) {
            same(Webhook::isUrl($url), false, $url);
        }
        same([Webhook::isField('X-Key: a b'), Webhook::isField(''), Webhook::isField("X: a\r\nY: b"), Webhook::isField('no field')], [true, true, false, false]);
        Site::reset();
        Settings::adopt(['PETASOS_WEBHOOK_URL' => 'http://127.0.0.1:1', 'PETASOS_WEBHOOK_HEADER' => "X: s3cret\r\nY: b"]);
        same(Webhook::send([], []), 'its header field cannot be sent');
        Settings::adopt(['PETASOS_WEBHOOK_URL' => 'http://127.0.0.1:1', 'PETASOS_WEBHOOK_BODY' => '{urls}']);
        same(Webhook::send([], []), 'there is no content for a purge of everything');
        Settings::adopt([]);
        same(Webhook::send([], []), null);
    },
];
