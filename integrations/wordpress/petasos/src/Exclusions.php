<?php
/**
 * The owner's exclusions: paths that are never cached, and cookies that make a page personal.
 *
 * Invariant: an excluded request neither receives a stored page nor leaves one. An exclusion wins
 * over the list of harmless cookies. This class works before WordPress is loaded.
 */

declare(strict_types=1);

namespace Petasos;

final class Exclusions
{
    /** Limits of the lists that the screen accepts. */
    public const ENTRIES_MAX = 100;
    private const ENTRY_BYTES_MAX = 200;

    /** Whether the current request is excluded. */
    public static function apply(): bool
    {
        $paths = Settings::words('PETASOS_EXCLUDE_PATHS');
        $cookies = Settings::words('PETASOS_EXCLUDE_COOKIES');
        $target = (string) ($_SERVER['REQUEST_URI'] ?? '');
        return self::hasPath($target, $paths) || self::hasCookie(array_keys($_COOKIE), $cookies);
    }

    /**
     * Whether a pattern matches the target. `*` matches any text. A pattern with `?` is compared
     * with path and query, any other pattern with the path, and then a `/` at the end is optional.
     *
     * @param list<string> $patterns
     */
    public static function hasPath(string $target, array $patterns): bool
    {
        $path = explode('?', $target, 2)[0];
        foreach ($patterns as $pattern) {
            $is_whole = strpos($pattern, '?') !== false;
            $is_open = $is_whole || substr($pattern, -1) === '*';
            $text = $is_whole ? $target : $path;
            foreach ([$text, rawurldecode($text)] as $spelling) {
                if (self::matches($is_open ? $pattern : rtrim($pattern, '/'), $is_open ? $spelling : rtrim($spelling, '/'))) {
                    return true;
                }
            }
        }
        return false;
    }

    /** Whether a pattern with stars matches the whole text. The time is linear in the text. */
    private static function matches(string $pattern, string $text): bool
    {
        $parts = explode('*', $pattern);
        $first = (string) array_shift($parts);
        if ($parts === []) {
            return $first === $text;
        }
        $last = (string) array_pop($parts);
        if (strlen($text) < strlen($first) + strlen($last) || !Text::startsWith($text, $first) || !Text::endsWith($text, $last)) {
            return false;
        }
        $at = strlen($first);
        $end = strlen($text) - strlen($last);
        foreach ($parts as $part) {
            $found = $part === '' ? $at : strpos($text, $part, $at);
            if ($found === false || $found + strlen($part) > $end) {
                return false;
            }
            $at = $found + strlen($part);
        }
        return true;
    }

    /**
     * Whether one of the names matches a pattern, which may end in `*`.
     *
     * @param list<int|string> $names    of cookies, as PHP writes them
     * @param list<string>     $patterns
     */
    public static function hasCookie(array $names, array $patterns): bool
    {
        foreach ($patterns as $pattern) {
            // PHP replaces these characters in names of cookies.
            $start = str_replace(['.', ' '], '_', rtrim($pattern, '*'));
            foreach ($names as $name) {
                $name = (string) $name;
                if (substr($pattern, -1) === '*' ? Text::startsWith($name, $start) : $name === $start) {
                    return true;
                }
            }
        }
        return false;
    }

    /**
     * Reads the lines of a form.
     *
     * @return array{0: list<string>, 1: list<string>} accepted and refused entries
     */
    public static function paths(string $text): array
    {
        return self::entries($text, static fn (string $entry): bool => preg_match('#^[/*][^\s\x00-\x1f\x7f]*$#Du', $entry) === 1);
    }

    /** @return array{0: list<string>, 1: list<string>} accepted and refused entries */
    public static function cookies(string $text): array
    {
        return self::entries($text, static fn (string $entry): bool => preg_match('/^[!#$%&\'+.^_`|~0-9A-Za-z-]+\*?$/D', $entry) === 1);
    }

    /** @return array{0: list<string>, 1: list<string>} */
    private static function entries(string $text, callable $accepts): array
    {
        $good = [];
        $bad = [];
        foreach (array_unique(preg_split('/\s+/', $text, -1, PREG_SPLIT_NO_EMPTY) ?: []) as $entry) {
            $fits = strlen($entry) <= self::ENTRY_BYTES_MAX && count($good) < self::ENTRIES_MAX;
            $fits && $accepts($entry) ? $good[] = $entry : $bad[] = $entry;
        }
        return [$good, $bad];
    }
}
