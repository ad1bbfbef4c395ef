<?php
/**
 * Petasos' object cache, a drop-in of WordPress: copy it to wp-content.
 *
 * It works if the plugin's files are present and wp-config.php defines PETASOS_OBJECTS, the map of
 * groups to servers. Otherwise WordPress uses its own cache.
 *
 * uninstall.php recognises this file by the word "Petasos'".
 */

declare(strict_types=1);

(static function (): void {
    $plugin = defined('PETASOS_DIR') ? (string) PETASOS_DIR : __DIR__ . '/plugins/petasos';
    if (!defined('PETASOS_OBJECTS') || !is_file("$plugin/objects/functions.php")) {
        return;
    }
    require_once "$plugin/src/autoload.php";
    require_once "$plugin/objects/functions.php";
    if (!class_exists('WP_Object_Cache', false)) {
        // Plug-ins look for the class by this name.
        class_alias(Petasos\Objects\ObjectCache::class, 'WP_Object_Cache');
    }
})();
