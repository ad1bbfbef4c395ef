<?php
/**
 * Takes away what the plugin has left on the site.
 *
 * Invariant: deactivation removes what runs without the plugin: drop-ins that were installed here,
 * their settings, stored pages, the line in wp-config.php and events. The settings of the screen
 * remain until the plugin is deleted; then nothing remains.
 */

declare(strict_types=1);

namespace Petasos;

use Petasos\Objects\TableBackend;
use Petasos\Pages\FileStore;
use Petasos\Pages\PageCache;
use Petasos\Pages\TableStore;

final class Cleanup
{
    /** @param mixed $network_wide whether all sites of a network are affected */
    public static function deactivate($network_wide = false): void
    {
        wp_clear_scheduled_hook(Purges::RETRY);
        delete_option(Measurement::OPTION);
        if (is_multisite() && $network_wide !== true) {
            // Other sites of the network may use the drop-ins, but nobody purges the pages of this
            // one from now on.
            PageCache::purge([]);
            return;
        }
        foreach (DropIns::installed() as $layer) {
            DropIns::remove($layer);
        }
        // A drop-in that stays, or that the owner has copied, must not serve pages that nobody
        // purges.
        PageCache::purge([]);
    }

    public static function uninstall(): void
    {
        global $wpdb;
        $blogs = is_multisite() ? get_sites(['fields' => 'ids', 'number' => 0]) : [get_current_blog_id()];
        foreach ($blogs as $blog) {
            is_multisite() && switch_to_blog((int) $blog);
            foreach ([Purges::CHANGED, Purges::FAILURE, Webhook::FAILURE, Measurement::OPTION] as $option) {
                delete_option($option);
            }
            wp_clear_scheduled_hook(Purges::RETRY);
            is_multisite() && restore_current_blog();
        }
        $made_cache = !empty(Stored::read()['made_cache']);
        // First what uses the stored data.
        foreach (array_keys(DropIns::NAMES) as $layer) {
            $file = DropIns::target($layer);
            // Another plugin may own the drop-in.
            if (is_file($file) && DropIns::isOwn((string) file_get_contents($file))) {
                unlink($file);
            }
        }
        if (DropIns::state('pages') !== 'foreign') {
            ConfigFile::remove();
        }
        Stored::remove();
        DropIns::writeSettings();
        (new TableStore($wpdb, 1, 1))->remove();
        TableBackend::remove($wpdb);
        $directory = Settings::text('PETASOS_PAGES_DIR', WP_CONTENT_DIR . '/cache/petasos');
        (new FileStore($directory, 1, 1))->remove();
        if ($made_cache) {
            // Fails if another plugin has files there, which is right.
            @rmdir(WP_CONTENT_DIR . '/cache');
        }
    }
}
