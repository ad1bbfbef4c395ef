<?php
/**
 * Decides whether a request is anonymous, so that its page may be shared.
 *
 * Invariant: a cookie that is not known to be harmless makes a request personal. Pure: the result
 * depends only on the arguments. This class works before WordPress is loaded.
 */

declare(strict_types=1);

namespace Petasos;

final class Visitor
{
    /**
     * Cookies that never change a page; `*` matches any characters. The edge's profile lists the
     * same.
     */
    private const NOISE = [
        'wordpress_test_cookie', 'wp-settings-*', '_ga', '_ga_*', '_gid', '_gat', '_gat_*', '_gac_*', '_gcl_*',
        '__utm*', '_fbp', '_fbc', '_hj*', '_pk_*', '_clck', '_clsk', '_uetsid', '_uetvid', '_ym_*', '__gads', '__gpi',
        '__hstc', '__hssc', '__hssrc', 'hubspotutk', '_mkto_trk', '_scid', '_tt_*', '_ttp', '_pin_unauth', '_rdt_uuid',
        '__cf_bm', '_cfuvid', 'has_js',
    ];

    /** Beginnings of cookies that identify a visitor, even if the owner calls them harmless. */
    private const SESSIONS = [
        'wordpress_logged_in_', 'wordpress_sec_', 'wp-postpass_', 'comment_author_', 'woocommerce_', 'wp_woocommerce_', 'edd_',
    ];

    /** Request fields that carry credentials, by their PHP names. */
    private const CREDENTIALS = ['HTTP_AUTHORIZATION', 'REDIRECT_HTTP_AUTHORIZATION', 'PHP_AUTH_USER', 'HTTP_X_WP_NONCE'];

    /**
     * Whether the request reads a page and does not identify its visitor.
     *
     * @param array<string, mixed> $server  as `$_SERVER`
     * @param array<string, mixed> $cookies as `$_COOKIE`
     * @param list<string>         $noise   further harmless cookies
     */
    public static function isAnonymous(array $server, array $cookies, array $noise = []): bool
    {
        if (!in_array($server['REQUEST_METHOD'] ?? '', ['GET', 'HEAD'], true)) {
            return false;
        }
        foreach (self::CREDENTIALS as $field) {
            if (($server[$field] ?? '') !== '') {
                return false;
            }
        }
        foreach (array_keys($cookies) as $name) {
            if (!self::isNoise((string) $name, $noise)) {
                return false;
            }
        }
        return true;
    }

    /** @param list<string> $more further patterns */
    private static function isNoise(string $cookie, array $more): bool
    {
        foreach (self::SESSIONS as $start) {
            if (Text::startsWith($cookie, $start)) {
                return false;
            }
        }
        foreach ([...self::NOISE, ...Languages::COOKIES, ...$more] as $pattern) {
            $matches = Text::endsWith($pattern, '*')
                ? Text::startsWith($cookie, substr($pattern, 0, -1))
                : $cookie === $pattern;
            if ($matches) {
                return true;
            }
        }
        return false;
    }
}
