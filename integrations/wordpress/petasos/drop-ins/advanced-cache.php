<?php
/**
 * Petasos' page cache, a drop-in of WordPress: copy it to wp-content.
 *
 * It works if the plugin's files are present and wp-config.php defines WP_CACHE as true and
 * PETASOS_PAGES. The mode `database` answers after the plugins are loaded. `files` answers when
 * WordPress reads this file, before database and plugins. `aggressive` answers before WordPress
 * starts; for this, the last line but one of wp-config.php must include this file.
 *
 * uninstall.php recognises this file by the word "Petasos'".
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
            /** WordPress calls this function after the plugins are loaded. */
            function wp_cache_postload(): void
            {
                Petasos\Pages\PageCache::begin();
            }
        }
    } elseif (Petasos\Settings::pages() !== 'off') {
        Petasos\Pages\PageCache::begin();
    }
})();
