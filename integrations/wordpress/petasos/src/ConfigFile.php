<?php
/**
 * The line in wp-config.php without which WordPress ignores a page cache.
 *
 * Invariant: `without` undoes `with` byte by byte. A file that the plugin does not understand, or
 * that would no longer be PHP, stays as it is; the owner then changes it.
 */

declare(strict_types=1);

namespace Petasos;

final class ConfigFile
{
    public const LINE = "define( 'WP_CACHE', true ); // Added by the plugin Petasos.";

    /** The file that WordPress reads; null if there is none. */
    public static function path(): ?string
    {
        if (is_file(ABSPATH . 'wp-config.php')) {
            return ABSPATH . 'wp-config.php';
        }
        $above = dirname(ABSPATH) . '/wp-config.php';
        return is_file($above) && !is_file(dirname(ABSPATH) . '/wp-settings.php') ? $above : null;
    }

    /** Whether WordPress loads a page cache. */
    public static function isOn(): bool
    {
        return defined('WP_CACHE') && WP_CACHE;
    }

    /** Adds the line. */
    public static function add(): bool
    {
        $path = self::path();
        $text = $path === null ? false : file_get_contents($path);
        $new = $text === false ? null : self::with($text);
        return $path !== null && $new !== null && ($new === $text || Files::write($path, $new));
    }

    /** Removes the line that `add` has written. */
    public static function remove(): bool
    {
        $path = self::path();
        $text = $path === null ? false : file_get_contents($path);
        if ($path === null || $text === false || self::without($text) === $text) {
            return true;
        }
        return Files::write($path, self::without($text));
    }

    /** The text with the line; null if the owner must change it. */
    public static function with(string $text): ?string
    {
        if (strpos($text, self::LINE) !== false) {
            return $text;
        }
        // WP_CACHE has a value already, or something must stay the first statement.
        if (preg_match('/\bWP_CACHE\b|\bstrict_types\b|\bnamespace\s/', $text) === 1) {
            return null;
        }
        if (preg_match('/^<\?php(\r?\n)/', $text, $match) !== 1) {
            return null;
        }
        $new = $match[0] . self::LINE . $match[1] . substr($text, strlen($match[0]));
        return self::isPhp($new) ? $new : null;
    }

    public static function without(string $text): string
    {
        return str_replace([self::LINE . "\r\n", self::LINE . "\n"], '', $text);
    }

    private static function isPhp(string $text): bool
    {
        if (!function_exists('token_get_all')) {
            return true;
        }
        try {
            return token_get_all($text, TOKEN_PARSE) !== [];
        } catch (\ParseError $error) {
            return false;
        }
    }
}
