<?php
/**
 * The values that the screen stores, as one option of the site or network.
 *
 * Invariant: reading costs no query of its own on a single site. On a network, all sites share the
 * values, because they share the drop-ins.
 */

declare(strict_types=1);

namespace Petasos;

final class Stored
{
    public const OPTION = 'petasos_settings';

    /** @return array<string, mixed> by name of the constant; others in small letters */
    public static function read(): array
    {
        if (is_multisite()) {
            return (array) get_site_option(self::OPTION, []);
        }
        // Reading a missing option would be a query for each page.
        $all = wp_load_alloptions();
        return isset($all[self::OPTION]) ? (array) maybe_unserialize($all[self::OPTION]) : [];
    }

    /** @param array<string, mixed> $values */
    public static function write(array $values): void
    {
        is_multisite() ? update_site_option(self::OPTION, $values) : update_option(self::OPTION, $values, true);
        Settings::adopt($values);
    }

    public static function remove(): void
    {
        is_multisite() ? delete_site_option(self::OPTION) : delete_option(self::OPTION);
        Settings::adopt([]);
    }
}
