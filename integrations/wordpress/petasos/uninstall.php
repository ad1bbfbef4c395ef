<?php
/**
 * Removes everything that the plugin and its drop-ins have made: options, events, tables, files,
 * and the drop-ins themselves. A drop-in of another plugin stays. The owner removes the constants
 * from wp-config.php.
 */

declare(strict_types=1);

defined('WP_UNINSTALL_PLUGIN') || exit;

require_once __DIR__ . '/src/autoload.php';

(static function (): void {
    global $wpdb;
    $blogs = is_multisite() ? get_sites(['fields' => 'ids', 'number' => 0]) : [get_current_blog_id()];
    foreach ($blogs as $blog) {
        is_multisite() && switch_to_blog((int) $blog);
        delete_option(Petasos\Purges::CHANGED);
        delete_option(Petasos\Purges::FAILURE);
        wp_clear_scheduled_hook(Petasos\Purges::RETRY);
        is_multisite() && restore_current_blog();
    }
    (new Petasos\Pages\TableStore($wpdb, 1, 1))->remove();
    Petasos\Objects\TableBackend::remove($wpdb);
    $directory = Petasos\Settings::text('PETASOS_PAGES_DIR', WP_CONTENT_DIR . '/cache/petasos');
    (new Petasos\Pages\FileStore($directory, 1, 1))->remove();
    foreach (['advanced-cache.php', 'object-cache.php'] as $name) {
        $file = WP_CONTENT_DIR . "/$name";
        // Another plugin may own the drop-in. The heads of Petasos' drop-ins contain this word.
        if (is_file($file) && str_contains((string) file_get_contents($file), "Petasos'")) {
            unlink($file);
        }
    }
})();
