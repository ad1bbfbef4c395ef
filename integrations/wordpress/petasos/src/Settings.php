<?php
/**
 * Reads the constants of wp-config.php. README.md explains them.
 *
 * Invariant: a constant of a wrong type or outside of its range counts as undefined. This class
 * works before WordPress is loaded.
 */

declare(strict_types=1);

namespace Petasos;

final class Settings
{
    public static function text(string $name, string $default = ''): string
    {
        $value = defined($name) ? constant($name) : null;
        return is_string($value) ? trim($value) : $default;
    }

    public static function number(string $name, int $default, int $min, int $max): int
    {
        $value = defined($name) ? constant($name) : null;
        return is_int($value) && $value >= $min && $value <= $max ? $value : $default;
    }

    public static function flag(string $name): bool
    {
        return defined($name) && constant($name) === true;
    }

    /**
     * A list, or a string of words separated by commas or spaces.
     *
     * @return list<string>
     */
    public static function words(string $name): array
    {
        $value = defined($name) ? constant($name) : '';
        $words = is_array($value) ? $value : preg_split('/[\s,]+/', is_string($value) ? $value : '');
        return array_values(array_filter((array) $words, static fn ($word): bool => is_string($word) && $word !== ''));
    }

    /** The mode of the page cache: `database`, `files`, `aggressive`, or `off`. */
    public static function pages(): string
    {
        $mode = self::text('PETASOS_PAGES', 'off');
        return in_array($mode, ['database', 'files', 'aggressive'], true) ? $mode : 'off';
    }
}
