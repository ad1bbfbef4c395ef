<?php
/**
 * Requests by which the site measures itself: they pass some layers, so that each layer's share of
 * the time can be seen.
 *
 * Invariant: only this site can make such a request, because its field is signed with the keys of
 * wp-config.php and expires. A probe never leads to a stored page. This class works before
 * WordPress is loaded.
 */

declare(strict_types=1);

namespace Petasos;

final class Probe
{
    /** Request and response field. */
    public const FIELD = 'X-Petasos-Probe';

    /** Layers that a probe can pass. */
    public const PAGES = 'pages';
    public const OBJECTS = 'objects';
    public const OPCODE = 'opcode';

    /** Lifetime of a probe, in seconds. */
    private const LIFE = 120;

    /** @var ?list<string> layers that the current request passes, once it was examined */
    private static ?array $layers = null;

    /**
     * The value of the field for a request that passes these layers; null if wp-config.php has no
     * keys.
     *
     * @param list<string> $layers
     */
    public static function value(array $layers, int $now): ?string
    {
        $key = self::key();
        $text = implode(',', $layers) . ';' . ($now + self::LIFE);
        return $key === null ? null : "$text;" . hash_hmac('sha256', $text, $key);
    }

    /**
     * The layers that a field names; null if it is invalid.
     *
     * @return ?list<string>
     */
    public static function read(string $field, int $now): ?array
    {
        $key = self::key();
        if ($key === null || preg_match('/^([a-z,]{0,40});(\d{1,12});([0-9a-f]{64})$/D', $field, $match) !== 1) {
            return null;
        }
        $is_signed = hash_equals(hash_hmac('sha256', "$match[1];$match[2]", $key), $match[3]);
        $is_current = (int) $match[2] >= $now && (int) $match[2] <= $now + self::LIFE;
        return $is_signed && $is_current ? array_values(array_filter(explode(',', $match[1]))) : null;
    }

    /** Whether this request is a probe. The first call switches the opcode cache off for it. */
    public static function isRunning(): bool
    {
        if (!isset($_SERVER['HTTP_X_PETASOS_PROBE'])) {
            return false;
        }
        if (self::$layers !== null) {
            return true;
        }
        self::$layers = self::read((string) $_SERVER['HTTP_X_PETASOS_PROBE'], time());
        if (self::$layers === null) {
            unset($_SERVER['HTTP_X_PETASOS_PROBE']);
            return false;
        }
        if (self::passes(self::OPCODE)) {
            // Affects the files that this request loads from now on.
            ini_set('opcache.enable', '0');
        }
        headers_sent() || header(self::FIELD . ': ' . self::answer(self::$layers));
        return true;
    }

    /**
     * The value of the response field by which a probe knows that it passed these layers.
     *
     * @param list<string> $layers
     */
    public static function answer(array $layers): string
    {
        return $layers === [] ? 'none' : implode(',', $layers);
    }

    /** Whether the current request passes a layer. */
    public static function passes(string $layer): bool
    {
        return self::isRunning() && in_array($layer, self::$layers ?? [], true);
    }

    private static function key(): ?string
    {
        $key = defined('AUTH_KEY') && defined('AUTH_SALT') ? AUTH_KEY . AUTH_SALT : '';
        // The sample of wp-config.php has the same phrase for everybody.
        return strlen($key) < 32 || Text::contains($key, 'put your unique phrase here') ? null : "petasos-probe|$key";
    }
}
