<?php
/**
 * The key of a request in the page cache, and whether its page may be stored.
 *
 * Invariant: requests with the same key have the same scheme, host, target and language cookies,
 * except for campaign parameters. A page that was requested with a campaign parameter is never
 * stored, because its links may repeat the parameter. Pure.
 */

declare(strict_types=1);

namespace Petasos\Pages;

use Petasos\Languages;
use Petasos\Settings;
use Petasos\Text;

final class Address
{
    private const TARGET_OCTETS_MAX = 2000;

    /**
     * Parameters that select a page. The search is not among them, because there is no limit to
     * searches.
     */
    private const MEANING = [
        'p', 'page_id', 'attachment_id', 'post_type', 'name', 'pagename', 'cat', 'category_name', 'tag', 'taxonomy',
        'term', 'author', 'author_name', 'year', 'monthnum', 'day', 'm', 'w', 'paged', 'page', 'cpage', 'feed',
        'order', 'orderby', 'lang',
    ];

    public string $key;

    /** Tag of the page in all languages of visitors. */
    public string $tag;

    public bool $isKept;

    private function __construct(string $page, string $language, bool $isKept)
    {
        $this->key = $page . $language;
        $this->tag = 'url-' . substr(hash('sha256', $page), 0, 32);
        $this->isKept = $isKept;
    }

    /**
     * The page that a request asks for; null if the cache does not handle the request.
     *
     * @param array<string, mixed> $server     as `$_SERVER`
     * @param list<string>         $parameters further parameters that select a page
     * @param array<string, mixed> $cookies    as `$_COOKIE`
     */
    public static function of(array $server, array $parameters = [], array $cookies = []): ?self
    {
        $host = strtolower((string) ($server['HTTP_HOST'] ?? ''));
        $target = (string) ($server['REQUEST_URI'] ?? '');
        if (!preg_match('/^[a-z0-9._-]+(?::\d{1,5})?$/D', $host) || strlen($target) > self::TARGET_OCTETS_MAX) {
            return null;
        }
        // WordPress handles targets that are no path, or contain bytes that no browser sends.
        if (!preg_match('/^\/[\x21-\x7e]*$/D', $target) || Text::contains($target, '#')) {
            return null;
        }
        [$path, $query] = explode('?', $target, 2) + [1 => ''];
        if (preg_match('#/wp-(?:admin|json|login\.php|cron\.php)|/xmlrpc\.php|//|\.php$#i', rawurldecode($path))) {
            return null;
        }
        $language = Languages::key($cookies);
        if ($language === null) {
            return null;
        }
        $kept = [];
        $plain = true;
        foreach ($query === '' ? [] : explode('&', $query) as $parameter) {
            $name = explode('=', $parameter, 2)[0];
            if (self::saysWhereFrom($name)) {
                $plain = false;
            } elseif (in_array($name, self::MEANING, true) || in_array($name, $parameters, true)) {
                $kept[] = $parameter;
            } else {
                return null;
            }
        }
        $https = strtolower((string) ($server['HTTPS'] ?? ''));
        $scheme = $https === 'on' || $https === '1' || ($server['SERVER_PORT'] ?? '') === '443' ? 'https' : 'http';
        $rest = $kept === [] ? '' : '?' . implode('&', $kept);
        return new self("$scheme://$host$path$rest", $language, $plain);
    }

    /** The page that a request for a URL asks for; null if the cache does not handle it. */
    public static function ofUrl(string $url): ?self
    {
        $parts = (array) parse_url($url);
        return self::of([
            'HTTP_HOST' => ($parts['host'] ?? '') . (isset($parts['port']) ? ":{$parts['port']}" : ''),
            'REQUEST_URI' => ($parts['path'] ?? '/') . (isset($parts['query']) ? "?{$parts['query']}" : ''),
            'HTTPS' => ($parts['scheme'] ?? '') === 'https' ? 'on' : '',
        ], Settings::words('PETASOS_PAGES_PARAMETERS'));
    }

    private static function saysWhereFrom(string $parameter): bool
    {
        return Text::startsWith($parameter, 'utm_') || in_array($parameter, ['gclid', 'fbclid', 'msclkid', 'mc_cid', 'mc_eid'], true);
    }
}
