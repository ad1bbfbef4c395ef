<?php
/**
 * Plugin Name: Petasos
 * Description: Page cache, object cache and purges, with a screen that measures what each brings.
 * Version: 0.1.0
 * Requires at least: 6.1
 * Requires PHP: 7.4
 * Text Domain: petasos
 * License: MIT OR Apache-2.0
 *
 * Invariant: the plugin changes no page, and an error of an edge never fails a request.
 */

declare(strict_types=1);

defined('ABSPATH') || exit;

require_once __DIR__ . '/src/autoload.php';

register_deactivation_hook(__FILE__, [Petasos\Cleanup::class, 'deactivate']);

Petasos\Plugin::begin();
