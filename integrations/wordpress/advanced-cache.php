<?php
/**
 * Petasos' page cache, a drop-in of WordPress: copy it to wp-content.
 *
 * It works if wp-config.php defines WP_CACHE as true and PETASOS_PAGES, and the plugin's files are there. `database`
 * answers once the plugins are loaded; `files` when WordPress reads this file, before database and plugins;
 * `aggressive` before WordPress starts, if wp-config.php includes this file itself, as its last line but one. It does
 * nothing else.
 */

declare(strict_types=1);

(static function (): void {
    $plugin = defined('PETASOS_DIR') ? (string) PETASOS_DIR : __DIR__ . '/plugins/petasos';
    if (!defined('PETASOS_PAGES') || !is_file("$plugin/src/autoload.php")) {
        return;
    }
    require_once "$plugin/src/autoload.php";
    if (Petasos\Settings::pages() === 'database') {
        if (!function_exists('wp_cache_postload')) {
            /** WordPress calls this when the plugins are loaded. */
            function wp_cache_postload(): void
            {
                Petasos\Pages\PageCache::begin();
            }
        }
    } elseif (Petasos\Settings::pages() !== 'off') {
        Petasos\Pages\PageCache::begin();
    }
})();
