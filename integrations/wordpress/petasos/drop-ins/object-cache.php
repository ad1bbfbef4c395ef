<?php
/**
 * Petasos' object cache, a drop-in of WordPress: the plugin copies it to wp-content.
 *
 * It works if the plugin's files are present, and the screen or wp-config.php has set
 * PETASOS_OBJECTS, the map of groups to servers. Otherwise WordPress uses its own cache.
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
    $plugin = is_file("$plugin/objects/functions.php") ? $plugin : __DIR__ . '/plugins/petasos';
    if (!is_file("$plugin/objects/functions.php")) {
        return;
    }
    require_once "$plugin/src/autoload.php";
    Petasos\Settings::adopt($stored);
    if (Petasos\Settings::objects() === []) {
        return;
    }
    require_once "$plugin/objects/functions.php";
    if (!class_exists('WP_Object_Cache', false)) {
        // Plug-ins look for the class by this name.
        class_alias(Petasos\Objects\ObjectCache::class, 'WP_Object_Cache');
    }
})();
