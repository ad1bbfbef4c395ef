<?php
/**
 * The page cache: answers a request with a stored page, or stores the page that WordPress
 * generates.
 *
 * Invariant: only shared pages are stored: the response to an anonymous GET, with status 200,
 * without a cookie or password, and without a field that forbids storing. The active plugin must
 * have judged the page, because without the plugin nothing purges it. A page is used only if
 * none of its tags was purged since its generation *began*. After an error of any kind, WordPress
 * answers the request.
 */

declare(strict_types=1);

namespace Petasos\Pages;

use Petasos\Exclusions;
use Petasos\Objects\Router;
use Petasos\Probe;
use Petasos\Settings;
use Petasos\Text;
use Petasos\Visitor;

final class PageCache
{
    /** Header lines that are generated for each response, or must not be shared. */
    private const OWN_HEADERS = [
        'set-cookie', 'date', 'age', 'content-length', 'connection', 'transfer-encoding', 'x-powered-by', 'x-petasos-pages',
        'x-petasos-objects',
    ];

    /** Object group of whole pages, if the map contains it. */
    private const GROUP = 'petasos-pages';

    /** The cache that stores this request's page. */
    private static ?self $running = null;

    /** Whether this request was examined. */
    private static bool $has_begun = false;

    /** Whether the active plugin has found that every visitor may receive this request's page. */
    private static bool $is_shared = false;

    private bool $is_spoiled = false;

    private Store $store;
    private Address $address;
    private int $number;
    private array $before;

    /** @param list<string> $before header lines of PHP itself, which are not part of the page */
    private function __construct(
        Store $store,
        Address $address,
        int $number,
        array $before
    ) {
        $this->store = $store;
        $this->address = $address;
        $this->number = $number;
        $this->before = $before;
    }

    /** Examines the request. Each mode calls it at a different time; the first call counts. */
    public static function begin(): void
    {
        if (self::$has_begun || PHP_SAPI === 'cli') {
            return;
        }
        self::$has_begun = true;
        if (Probe::passes(Probe::PAGES)) {
            return;
        }
        $address = Address::of($_SERVER, Settings::words('PETASOS_PAGES_PARAMETERS'), $_COOKIE);
        if ($address === null || Exclusions::apply()) {
            return;
        }
        // A probe has a cookie, with which it passes the caches in front of WordPress.
        if (!Probe::isRunning() && !Visitor::isAnonymous($_SERVER, $_COOKIE, Settings::words('PETASOS_NOISE_COOKIES'))) {
            return;
        }
        $store = self::store();
        $log = $store === null ? null : $store->log();
        if ($store === null || $log === null) {
            return;
        }
        $kind = self::kind();
        $label = Settings::pages() . ($kind === null ? '' : " $kind");
        $page = Page::decode((string) $store->read($address->key), $address->key);
        if ($page !== null && $page->expires > time() && $log->allows($page->number, $page->tags)) {
            self::answer($page, $label);
        }
        header("X-Petasos-Pages: $label; miss");
        if ($address->isKept && $_SERVER['REQUEST_METHOD'] === 'GET' && !Probe::isRunning()) {
            self::$running = new self($store, $address, $log->number(), headers_list());
            ob_start(\Closure::fromCallable([self::$running, 'finish']));
        }
    }

    /**
     * Makes pages with these tags unusable, or all pages if there is no tag.
     *
     * @param  list<string> $tags
     * @return bool whether the purge is in force
     */
    public static function purge(array $tags): bool
    {
        if (Settings::pages() === 'off') {
            return true;
        }
        $store = self::store();
        return $store !== null && $store->purge($tags);
    }

    /** Permits storing this request's page. Only the active plugin calls this. */
    public static function permit(): void
    {
        self::$is_shared = true;
    }

    /** The store of pages; null if it cannot be reached, or the page cache is off. */
    public static function store(): ?Store
    {
        $pages_max = Settings::number('PETASOS_PAGES_MAX', 6400, 64, 10_000_000);
        $octets_max = Settings::number('PETASOS_PAGES_MB', 256, 1, 1_000_000) * 1_000_000;
        $mode = Settings::pages();
        if ($mode === 'database') {
            $database = $GLOBALS['wpdb'] ?? null;
            return $database instanceof \wpdb ? new TableStore($database, $pages_max, $octets_max) : null;
        }
        if ($mode === 'off') {
            return null;
        }
        if (self::kind() !== null) {
            $backend = (new Router(Settings::objects()))->backend(self::GROUP);
            $prefix = substr(hash('sha256', Settings::text('DB_NAME') . '|' . Settings::text('DB_HOST') . '|' . ($GLOBALS['table_prefix'] ?? '')), 0, 16);
            return $backend === null ? null : new BackendStore($backend, "$prefix:pages");
        }
        $content = defined('WP_CONTENT_DIR') ? WP_CONTENT_DIR : dirname(__DIR__, 3);
        return new FileStore(Settings::text('PETASOS_PAGES_DIR', "$content/cache/petasos"), $pages_max, $octets_max);
    }

    /** The kind of object server that stores the pages; null if they are stored elsewhere. */
    private static function kind(): ?string
    {
        $kind = Settings::pages() === 'database' ? null : (Settings::objects()[self::GROUP] ?? null);
        return is_string($kind) ? $kind : null;
    }

    private static function answer(Page $page, string $label): void
    {
        header("X-Petasos-Pages: $label; hit");
        header('Age: ' . max(0, time() - $page->made));
        $etag = '';
        $seen = [];
        foreach ($page->headers as $line) {
            $name = strtolower(explode(':', $line, 2)[0]);
            // The first line of a name replaces PHP's own line; further lines are added.
            header($line, !isset($seen[$name]));
            $seen[$name] = true;
            $etag = stripos($line, 'etag:') === 0 ? trim(substr($line, 5)) : $etag;
        }
        if ($etag !== '' && self::matches((string) ($_SERVER['HTTP_IF_NONE_MATCH'] ?? ''), $etag)) {
            http_response_code(304);
            exit;
        }
        if (!ini_get('zlib.output_compression')) {
            header('Content-Length: ' . strlen($page->body));
        }
        if ($_SERVER['REQUEST_METHOD'] !== 'HEAD') {
            echo $page->body;
        }
        exit;
    }

    /**
     * Whether If-None-Match contains the page's ETag (RFC 9110 section 13.1.2, weak comparison).
     */
    public static function matches(string $field, string $etag): bool
    {
        $bare = static fn (string $tag): string => preg_replace('/^W\//', '', trim($tag)) ?? '';
        return $field === '*' || in_array($bare($etag), array_map($bare, explode(',', $field)), true);
    }

    /**
     * Callback at the end of the output buffer: stores the page if that is allowed. Changes
     * nothing.
     */
    private function finish(string $body, int $phase): string
    {
        $is_whole = ($phase & PHP_OUTPUT_HANDLER_START) !== 0 && ($phase & PHP_OUTPUT_HANDLER_FINAL) !== 0;
        if ($is_whole && !$this->is_spoiled) {
            try {
                $this->keep($body);
            } catch (\Throwable $error) {
                // The visitor receives the page all the same; it is only not stored.
            }
        }
        $this->is_spoiled = true;
        return $body;
    }

    private function keep(string $body): void
    {
        if (!self::$is_shared) {
            return;
        }
        $headers = self::fields(headers_list());
        $seconds = self::life((int) http_response_code(), $headers, $body);
        if ($seconds === 0 || (defined('DONOTCACHEPAGE') && DONOTCACHEPAGE) || self::hasFailed()) {
            return;
        }
        if (function_exists('is_user_logged_in') && is_user_logged_in()) {
            return;
        }
        $lines = array_filter(
            array_diff(headers_list(), $this->before),
            static fn (string $line): bool => !in_array(strtolower(explode(':', $line, 2)[0]), self::OWN_HEADERS, true)
        );
        $tags = preg_split('/\s+/', $headers['surrogate-key'] ?? '', -1, PREG_SPLIT_NO_EMPTY) ?: [];
        $tags[] = $this->address->tag;
        $page = new Page($this->address->key, $this->number, time(), time() + $seconds, array_values($lines), $tags, $body);
        $this->store->write($this->address->key, $page->encode(), $seconds);
    }

    /** Whether a fatal error occurred. A page that it truncated looks like a complete one. */
    private static function hasFailed(): bool
    {
        $fatal = E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR;
        return ((error_get_last()['type'] ?? 0) & $fatal) !== 0;
    }

    /**
     * Lifetime of a response in the cache, in seconds; 0 if it must not be stored.
     *
     * @param array<string, string> $headers by name in lower case
     */
    public static function life(int $status, array $headers, string $body): int
    {
        $octets_max = Settings::number('PETASOS_PAGE_KB', 2000, 1, 100_000) * 1000;
        if ($status !== 200 || isset($headers['set-cookie']) || $body === '' || strlen($body) > $octets_max) {
            return 0;
        }
        $type = strtolower($headers['content-type'] ?? '');
        if (!preg_match('#^(?:text/html|text/xml|application/(?:[a-z]+\+)?xml)\b#', $type)) {
            return 0;
        }
        if (Text::startsWith($type, 'text/html') && strripos($body, '</html>') === false) {
            return 0;
        }
        $vary = preg_replace('/accept-encoding|[\s,]/i', '', $headers['vary'] ?? '');
        $control = strtolower($headers['cache-control'] ?? '');
        if ($vary !== '' || preg_match('/\b(?:private|no-store|no-cache)\b/', $control)) {
            return 0;
        }
        if (preg_match('/\bs-maxage\s*=\s*"?(\d+)/', $control, $match) || preg_match('/\bmax-age\s*=\s*"?(\d+)/', $control, $match)) {
            return (int) min((float) $match[1], Settings::number('PETASOS_PAGES_TTL_MAX', 36_000, 1, 31_536_000));
        }
        return Settings::number('PETASOS_PAGES_TTL', 300, 1, 31_536_000);
    }

    /**
     * Combines header lines.
     *
     * @param  list<string> $lines
     * @return array<string, string> by name in lower case; lines of the same name as one list
     */
    private static function fields(array $lines): array
    {
        $fields = [];
        foreach ($lines as $line) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $name = strtolower(trim($name));
            $fields[$name] = isset($fields[$name]) ? $fields[$name] . ', ' . trim($value) : trim($value);
        }
        return $fields;
    }
}
