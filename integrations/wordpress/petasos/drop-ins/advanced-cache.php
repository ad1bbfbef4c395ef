<?php
/**
 * Petasos' page cache, a drop-in of WordPress: the plugin copies it to wp-content.
 *
 * It works if the plugin's files are present, wp-config.php defines WP_CACHE as true, and the
 * screen or wp-config.php has set PETASOS_PAGES. The mode `database` answers after the plugins are
 * loaded. `files` answers when WordPress reads this file, before database and plugins. `aggressive`
 * answers before WordPress starts; for this, the last line but one of wp-config.php must include
 * this file.
 *
 * uninstall.php recognises this file by the word "Petasos'".
 */

declare(strict_types=1);

(static function (): void {
    $stored = is_file(__DIR__ . '/petasos-settings.php') ? (array) require __DIR__ . '/petasos-settings.php' : [];
    $plugin = (string) (defined('PETASOS_DIR') ? PETASOS_DIR : $stored['PETASOS_DIR'] ?? 'plugins/petasos');
    if (preg_match('#^(?:[/\\\\]|[A-Za-z]:)#', $plugin) !== 1) {
        // Relative to wp-content, so that the copy of a site runs its own copy of the plugin.
        $plugin = __DIR__ . "/$plugin";
    }
    $plugin = is_file("$plugin/src/autoload.php") ? $plugin : __DIR__ . '/plugins/petasos';
    if (!is_file("$plugin/src/autoload.php")) {
        return;
    }
    require_once "$plugin/src/autoload.php";
    Petasos\Settings::adopt($stored);
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
