<?php
/**
 * Reads the settings: constants of wp-config.php, the environment of PHP for an edge's address and
 * token, and the values that the screen has stored. The first of these counts. README.md explains
 * them.
 *
 * Invariant: a value of a wrong type or outside of its range counts as undefined. This class works
 * before WordPress is loaded; the drop-ins then pass the values of their file.
 */

declare(strict_types=1);

namespace Petasos;

final class Settings
{
    /** Settings that PHP's environment may contain, as hosts with containers set them. */
    private const OF_ENVIRONMENT = ['PETASOS_EDGE', 'PETASOS_ADMIN', 'PETASOS_TOKEN', 'PETASOS_SITE', 'PETASOS_WEBHOOK_URL', 'PETASOS_WEBHOOK_HEADER'];

    /** @var array<string, mixed> values that the screen has stored */
    private static array $stored = [];

    /** @param array<string, mixed> $stored by name of the constant */
    public static function adopt(array $stored): void
    {
        self::$stored = $stored;
    }

    /** Whether wp-config.php or the environment has the setting, so that the screen cannot. */
    public static function isFixed(string $name): bool
    {
        return defined($name) || self::ofEnvironment($name) !== null;
    }

    public static function text(string $name, string $default = ''): string
    {
        $value = self::value($name);
        return is_string($value) ? trim($value) : $default;
    }

    public static function number(string $name, int $default, int $min, int $max): int
    {
        $value = self::value($name);
        return is_int($value) && $value >= $min && $value <= $max ? $value : $default;
    }

    public static function flag(string $name): bool
    {
        return self::value($name) === true;
    }

    /**
     * A list, or a string of words separated by commas or spaces.
     *
     * @return list<string>
     */
    public static function words(string $name): array
    {
        $value = self::value($name);
        $words = is_array($value) ? $value : preg_split('/[\s,]+/', is_string($value) ? $value : '');
        return array_values(array_filter((array) $words, static fn ($word): bool => is_string($word) && $word !== ''));
    }

    /** The mode of the page cache: `database`, `files`, `aggressive`, or `off`. */
    public static function pages(): string
    {
        $mode = self::text('PETASOS_PAGES', 'off');
        return in_array($mode, ['database', 'files', 'aggressive'], true) ? $mode : 'off';
    }

    /**
     * The kind of object server for each group.
     *
     * @return array<string, mixed> empty without an object cache
     */
    public static function objects(): array
    {
        $map = self::value('PETASOS_OBJECTS');
        return is_array($map) ? $map : (is_string($map) && $map !== '' ? ['*' => $map] : []);
    }

    /** A secret that only this site knows: the keys and the password of wp-config.php. */
    public static function secret(): string
    {
        return implode('|', array_map([self::class, 'text'], ['AUTH_KEY', 'AUTH_SALT', 'DB_NAME', 'DB_PASSWORD']));
    }

    /** @return mixed */
    private static function value(string $name)
    {
        return defined($name) ? constant($name) : (self::ofEnvironment($name) ?? self::$stored[$name] ?? null);
    }

    private static function ofEnvironment(string $name): ?string
    {
        $value = in_array($name, self::OF_ENVIRONMENT, true) ? getenv($name) : false;
        return is_string($value) && $value !== '' ? $value : null;
    }
}
