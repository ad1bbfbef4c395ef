<?php
/**
 * Objects in APCu, the memory that all pools of one PHP-FPM share.
 *
 * Invariant: only integers and signed texts are stored and returned, because the pools of other
 * sites may write into the same memory. Another PHP-FPM and the command line have separate
 * memories. So a site that is also changed from there must not use APCu for groups that such
 * changes affect.
 */

declare(strict_types=1);

namespace Petasos\Objects;

final class ApcuBackend implements Backend
{
    private Codec $codec;

    /** @throws Gone if PHP has no APCu, or it is switched off */
    public function __construct(Codec $codec)
    {
        $this->codec = $codec;
        if (!function_exists('apcu_enabled') || !apcu_enabled()) {
            throw new Gone('APCu is not there: install php-apcu, and set apc.enabled');
        }
    }

    public function get(array $keys): array
    {
        $stored = apcu_fetch($keys);
        $found = [];
        foreach (is_array($stored) ? $stored : [] as $key => $text) {
            // APCu adds to integers only, so they are stored as such.
            [$is_ours, $value] = is_int($text) ? [true, $text] : (is_string($text) ? $this->codec->decode($text) : [false, null]);
            if ($is_ours) {
                $found[$key] = $value;
            }
        }
        return $found;
    }

    public function set(string $key, $value, int $seconds): bool
    {
        return apcu_store($key, $this->encode($value), $seconds);
    }

    public function add(string $key, $value, int $seconds): bool
    {
        return apcu_add($key, $this->encode($value), $seconds);
    }

    public function delete(string $key): bool
    {
        return (bool) apcu_delete($key);
    }

    public function increment(string $key, int $by): ?int
    {
        // `apcu_inc` would create a missing key.
        if (!is_int(apcu_fetch($key))) {
            return null;
        }
        $value = apcu_inc($key, $by, $success);
        return $success && is_int($value) ? $value : null;
    }

    /** @return int|string */
    private function encode($value)
    {
        return is_int($value) ? $value : $this->codec->encode($value);
    }
}
