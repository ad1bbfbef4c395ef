<?php
/**
 * The rules for translation plug-ins (Polylang, WPML).
 *
 * Their pages have the language in the URL. A cookie remembers the visitor's last language, and the
 * edge's profile shares pages between visitors with different values of it.
 *
 * Invariant: the page cache keeps a page for each value of such a cookie. A page whose language
 * follows from the cookie or the browser is personal.
 */

declare(strict_types=1);

namespace Petasos;

final class Languages
{
    /** Names of the cookies. The edge's profile lists the same. */
    public const COOKIES = ['pll_language', 'wp-wpml_current_language', '_icl_current_language', '_icl_visitor_lang_js'];

    /** A language, such as `de` or `pt_BR`. */
    private const CODE = '/^[A-Za-z]{2,3}(?:[_-][A-Za-z0-9]{1,8}){0,2}$/D';

    public static function begin(): void
    {
        // Polylang then sets its cookie by a script. The field Set-Cookie would make each page
        // private.
        add_filter('pll_is_cache_active', '__return_true');
    }

    /**
     * The part of a key that tells the languages of visitors apart; null if a value is no language.
     *
     * @param array<string, mixed> $cookies as `$_COOKIE`
     */
    public static function key(array $cookies): ?string
    {
        $key = '';
        foreach (self::COOKIES as $name) {
            $value = $cookies[$name] ?? '';
            if ($value !== '' && (!is_string($value) || preg_match(self::CODE, $value) !== 1)) {
                return null;
            }
            $key .= $value === '' ? '' : " $name=$value";
        }
        return $key;
    }

    /** Whether the language of the current page follows from a cookie or the browser. */
    public static function isPersonal(): bool
    {
        $polylang = function_exists('pll_current_language') ? get_option('polylang') : null;
        if (!is_array($polylang)) {
            return false;
        }
        if (is_front_page() && !empty($polylang['browser'])) {
            return true;
        }
        // The language is a property of the content, so a page without content of its own takes it
        // from the cookie.
        $has_own = is_singular() || is_category() || is_tag() || is_tax();
        return (int) ($polylang['force_lang'] ?? 1) === 0 && !$has_own;
    }
}
