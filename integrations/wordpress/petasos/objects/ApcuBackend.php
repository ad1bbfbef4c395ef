<?php
/**
 * Objects in APCu, the shared memory of one PHP-FPM's workers.
 *
 * Invariant: PHP itself stores the values. Another PHP-FPM and the command line have separate
 * memories. So a site that is also changed from there must not use APCu for groups that such
 * changes affect.
 */

declare(strict_types=1);

namespace Petasos\Objects;

final class ApcuBackend implements Backend
{
    /** @throws Gone if PHP has no APCu, or it is switched off */
    public function __construct()
    {
        if (!function_exists('apcu_enabled') || !apcu_enabled()) {
            throw new Gone('APCu is not there: install php-apcu, and set apc.enabled');
        }
    }

    public function get(array $keys): array
    {
        $found = apcu_fetch($keys);
        return is_array($found) ? $found : [];
    }

    public function set(string $key, $value, int $seconds): bool
    {
        return apcu_store($key, $value, $seconds);
    }

    public function add(string $key, $value, int $seconds): bool
    {
        return apcu_add($key, $value, $seconds);
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
}
