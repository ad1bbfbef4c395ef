<?php
/**
 * Which page a request means: its key in the page cache, and whether it may be kept there.
 *
 * Invariant: two requests have one key only if scheme, host and target are the same but for parameters that say where
 * a visitor comes from. A page that was asked for with such a parameter is never kept, since its links may repeat it.
 * Pure.
 */

declare(strict_types=1);

namespace Petasos\Pages;

final class Address
{
    private const TARGET_OCTETS_MAX = 2000;

    /** Parameters that say which page is meant. A search is not among them: there is no end of them. */
    private const MEANING = [
        'p', 'page_id', 'attachment_id', 'post_type', 'name', 'pagename', 'cat', 'category_name', 'tag', 'taxonomy',
        'term', 'author', 'author_name', 'year', 'monthnum', 'day', 'm', 'w', 'paged', 'page', 'cpage', 'feed',
        'order', 'orderby',
    ];

    private function __construct(public readonly string $key, public readonly bool $isKept)
    {
    }

    /**
     * The page that a request asks for; null if it is none for the cache.
     *
     * @param array<string, mixed> $server     as `$_SERVER`
     * @param list<string>         $parameters further parameters that say which page is meant
     */
    public static function of(array $server, array $parameters = []): ?self
    {
        $host = strtolower((string) ($server['HTTP_HOST'] ?? ''));
        $target = (string) ($server['REQUEST_URI'] ?? '');
        if (!preg_match('/^[a-z0-9._-]+(?::\d{1,5})?$/D', $host) || strlen($target) > self::TARGET_OCTETS_MAX) {
            return null;
        }
        // A target that is no path, or has octets that no browser sends, is left to WordPress.
        if (!preg_match('/^\/[\x21-\x7e]*$/D', $target) || str_contains($target, '#')) {
            return null;
        }
        [$path, $query] = explode('?', $target, 2) + [1 => ''];
        if (preg_match('#/wp-(?:admin|json|login\.php|cron\.php)|/xmlrpc\.php|//|\.php$#i', rawurldecode($path))) {
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
        return new self("$scheme://$host$path$rest", $plain);
    }

    private static function saysWhereFrom(string $parameter): bool
    {
        return str_starts_with($parameter, 'utm_') || in_array($parameter, ['gclid', 'fbclid', 'msclkid', 'mc_cid', 'mc_eid'], true);
    }
}
