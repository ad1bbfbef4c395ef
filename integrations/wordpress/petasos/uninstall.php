<?php
/**
 * Removes everything that the plugin and its drop-ins have made: options, events, tables, files,
 * the line in wp-config.php, and the drop-ins themselves. A drop-in of another plugin stays. The
 * owner removes constants that the owner has added to wp-config.php.
 */

declare(strict_types=1);

defined('WP_UNINSTALL_PLUGIN') || exit;

require_once __DIR__ . '/src/autoload.php';

Petasos\Cleanup::uninstall();
