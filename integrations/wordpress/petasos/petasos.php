<?php
/**
 * Plugin Name: Petasos
 * Description: Tags every page, says how long it may be shared, and tells Petasos what has changed.
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

Petasos\Plugin::begin();
