<?php
/**
 * Sets the header fields of responses to visitors: Cache-Control, Last-Modified, ETag and
 * Surrogate-Key.
 *
 * The page is buffered, because all its tags are known only when it is complete.
 *
 * Invariant: a response is `public` only if every visitor would receive it. Its request is
 * anonymous, it sets no cookie, contains nothing secret, and neither WordPress nor a plug-in
 * forbids caching. Everything else is `private, no-store`, also a page that was flushed before it
 * was complete, because it has no tags, and a page whose tags do not fit into their field.
 */

declare(strict_types=1);

namespace Petasos;

use Petasos\Pages\PageCache;

final class Headers
{
    private const PRIVATE = 'private, no-store';

    /** Routes of the REST API whose responses contain only tagged items. */
    private const REST_ROUTES = '#^/wp/v2/(?:posts|pages|media|categories|tags|comments|types|taxonomies)(?:/[\w-]+)?$#D';

    private bool $is_flushed = false;

    private PageTags $page;

    public function __construct(PageTags $page)
    {
        $this->page = $page;
    }

    public function begin(): void
    {
        add_filter('nocache_headers', static fn ($headers): array => ['Cache-Control' => self::PRIVATE . ', no-cache, must-revalidate, max-age=0'] + (array) $headers);
        if (is_admin() || wp_doing_ajax() || wp_doing_cron() || PHP_SAPI === 'cli' || !$this->isAnonymous()) {
            add_action('send_headers', static fn () => header('Cache-Control: ' . self::PRIVATE), PHP_INT_MAX);
            return;
        }
        $this->page->begin();
        // WordPress would otherwise generate no page for HEAD, whose header fields must equal those
        // of GET.
        add_filter('exit_on_http_head', '__return_false');
        // Runs before anything that redirects or responds by itself.
        add_action('template_redirect', function (): void {
            $this->page->main();
            ob_start(\Closure::fromCallable([$this, 'finish']));
        }, PHP_INT_MIN);
        add_filter('rest_pre_serve_request', \Closure::fromCallable([$this, 'rest']), PHP_INT_MIN, 3);
    }

    private function isAnonymous(): bool
    {
        return Visitor::isAnonymous($_SERVER, $_COOKIE, Settings::words('PETASOS_NOISE_COOKIES')) && !Exclusions::apply();
    }

    /** Callback at the end of the output buffer. */
    private function finish(string $body, int $phase): string
    {
        if (headers_sent()) {
            return $body;
        }
        $is_whole = ($phase & PHP_OUTPUT_HANDLER_START) !== 0 && ($phase & PHP_OUTPUT_HANDLER_FINAL) !== 0;
        if (!$is_whole || $this->is_flushed) {
            $this->is_flushed = true;
            header('Cache-Control: ' . self::PRIVATE);
            return $body;
        }
        self::endEmptySession();
        $tags = $this->tags();
        $control = $tags === null ? self::PRIVATE : $this->control();
        header("Cache-Control: $control");
        $this->debug();
        if ($control === self::PRIVATE) {
            return $body;
        }
        header_remove('Expires');
        header_remove('Pragma');
        $this->describe($tags);
        PageCache::permit();
        $etag = 'W/"' . substr(hash('sha256', $body), 0, 32) . '"';
        header("ETag: $etag");
        if (http_response_code() === 200 && PageCache::matches(wp_unslash((string) ($_SERVER['HTTP_IF_NONE_MATCH'] ?? '')), $etag)) {
            // A status line with a custom text can be replaced only by status_header().
            status_header(304);
            return '';
        }
        return $body;
    }

    /** Cache-Control for the page in its current state. */
    private function control(): string
    {
        $status = (int) http_response_code();
        $fields = array_change_key_case(self::fields());
        if (isset($fields['set-cookie']) || !in_array($status, [200, 301, 308, 404, 410], true) || self::isPersonal()) {
            return self::PRIVATE;
        }
        $is_missing = $status === 404 || $status === 410;
        $stated = strtolower($fields['cache-control'] ?? '');
        // WordPress itself sends no-cache with 404 responses.
        if (!$is_missing && preg_match('/\b(?:private|no-store|no-cache|max-age\s*=\s*\d+)/', $stated)) {
            return preg_match('/\bpublic\b|\bs-maxage/', $stated) ? $fields['cache-control'] : self::PRIVATE;
        }
        return self::public($is_missing ? 'PETASOS_TTL_MISSING' : (is_search() ? 'PETASOS_TTL_SEARCH' : 'PETASOS_TTL'));
    }

    /** @param string $constant name of the lifetime, which is in seconds */
    private static function public(string $constant): string
    {
        $defaults = ['PETASOS_TTL' => 3600, 'PETASOS_TTL_MISSING' => 60, 'PETASOS_TTL_SEARCH' => 300];
        // A nonce in a page is valid for at least twelve hours.
        $shared = Settings::number($constant, $defaults[$constant], 0, 43_200);
        $own = min($shared, Settings::number('PETASOS_TTL_BROWSER', 0, 0, 43_200));
        $stale = Settings::number('PETASOS_STALE_ON_ERROR', 86_400, 0, 31_536_000);
        return "public, max-age=$own, s-maxage=$shared, stale-if-error=$stale";
    }

    /** Whether WordPress or a shop knows that the page is for one visitor only. */
    private static function isPersonal(): bool
    {
        if (is_user_logged_in() || is_preview() || is_customize_preview() || (defined('DONOTCACHEPAGE') && DONOTCACHEPAGE)) {
            return true;
        }
        $post = is_singular() ? get_queried_object() : null;
        if ($post instanceof \WP_Post && $post->post_password !== '') {
            return true;
        }
        if (isset($_GET['unapproved']) || isset($_GET['moderation-hash']) || isset($_GET['_wpnonce'])) {
            return true;
        }
        if (Shop::isPersonal() || Languages::isPersonal()) {
            return true;
        }
        /** Filter: returns true for pages that only their visitor may receive. */
        return (bool) apply_filters('petasos_is_personal', false);
    }

    /** The value of Surrogate-Key; null if the tags do not fit. */
    private function tags(): ?string
    {
        return $this->page->tags->header(Settings::number('PETASOS_TAG_OCTETS_MAX', 3000, 100, 60_000));
    }

    /** Sends the tags, and the time of the newest change that could be on the page. */
    private function describe(string $tags): void
    {
        header("Surrogate-Key: $tags");
        $changed = (int) get_option(Purges::CHANGED, 0) ?: (int) strtotime(get_lastpostmodified('gmt') . ' UTC');
        foreach ($GLOBALS['wp_query']->posts ?? [] as $post) {
            if ($post instanceof \WP_Post) {
                $changed = max($changed, (int) strtotime("$post->post_modified_gmt UTC"));
            }
        }
        header('Last-Modified: ' . gmdate('D, d M Y H:i:s', min($changed, time())) . ' GMT');
    }

    /**
     * Sets the header fields of REST responses. Everything is known now, and nothing has been sent.
     */
    private function rest($served, $answer = null, $request = null)
    {
        $status = $answer instanceof \WP_HTTP_Response ? $answer->get_status() : 0;
        $route = $request instanceof \WP_REST_Request ? $request->get_route() : '';
        $is_missing = $status === 404;
        $is_known = preg_match((string) apply_filters('petasos_rest_routes', self::REST_ROUTES), $route) === 1;
        if (!$is_known || !in_array($status, [200, 404], true) || is_user_logged_in() || isset(array_change_key_case(self::fields())['set-cookie'])) {
            header('Cache-Control: ' . self::PRIVATE);
            return $served;
        }
        if ($request->get_param('password') !== null || $request->get_param('context') === 'edit') {
            header('Cache-Control: ' . self::PRIVATE);
            return $served;
        }
        $this->page->tags->add('rest', ...($is_missing ? ['404'] : []));
        $tags = $this->tags();
        if ($tags === null) {
            header('Cache-Control: ' . self::PRIVATE);
            return $served;
        }
        header('Cache-Control: ' . self::public($is_missing ? 'PETASOS_TTL_MISSING' : 'PETASOS_TTL'));
        // No Vary is added: WordPress itself adds Vary and Origin fields where a response depends
        // on them.
        $this->describe($tags);
        return $served;
    }

    /** Removes a new session without content, because its cookie would make the page private. */
    private static function endEmptySession(): void
    {
        if (session_status() !== PHP_SESSION_ACTIVE || !empty($_SESSION) || isset($_COOKIE[(string) session_name()])) {
            return;
        }
        $name = session_name() . '=';
        $cookies = [];
        foreach (headers_list() as $line) {
            if (stripos($line, 'set-cookie:') === 0) {
                $cookies[] = trim(substr($line, 11));
            }
        }
        session_destroy();
        header_remove('Set-Cookie');
        // The session's Cache-Control refers to the removed session.
        header_remove('Cache-Control');
        foreach ($cookies as $cookie) {
            if (!Text::startsWith($cookie, $name)) {
                header("Set-Cookie: $cookie", false);
            }
        }
    }

    /** Sends figures of the object cache for this page, if debugging is on. */
    private function debug(): void
    {
        $cache = $GLOBALS['wp_object_cache'] ?? null;
        if (Settings::flag('PETASOS_DEBUG') && $cache instanceof Objects\ObjectCache) {
            $kind = $cache->router->kind('posts') . ($cache->router->failures() === [] ? '' : ' gone');
            header("X-Petasos-Objects: $kind; found=$cache->found; asked=$cache->asked; queries=" . get_num_queries());
        }
    }

    /** @return array<string, string> the last line of each name */
    private static function fields(): array
    {
        $fields = [];
        foreach (headers_list() as $line) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $fields[trim($name)] = trim($value);
        }
        return $fields;
    }
}
