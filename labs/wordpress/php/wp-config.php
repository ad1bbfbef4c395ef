<?php
/**
 * WordPress' configuration in the lab. An ordinary site, but for what would make two measurements differ:
 * no scheduled work inside a visitor's request, no connection to other hosts, no updates.
 */

define( 'DB_NAME', 'wordpress' );
define( 'DB_USER', 'root' );
define( 'DB_PASSWORD', '' );
define( 'DB_HOST', 'localhost:{{site}}/run/mariadb.sock' );
define( 'DB_CHARSET', 'utf8mb4' );
define( 'DB_COLLATE', '' );
$table_prefix = 'wp_';

// The site has one public name, so that its pages are the same at every address of the lab. A browser that
// comes to a loopback port by number gets links to that port, or it could not look around.
$lab_host = 'wordpress.test';
if ( isset( $_SERVER['HTTP_HOST'] ) && preg_match( '/^(?:127\.0\.0\.1|localhost):\d{1,5}$/D', $_SERVER['HTTP_HOST'] ) ) {
	$lab_host = $_SERVER['HTTP_HOST'];
}
define( 'WP_HOME', 'http://' . $lab_host );
define( 'WP_SITEURL', 'http://' . $lab_host );

define( 'DISABLE_WP_CRON', true );
define( 'WP_HTTP_BLOCK_EXTERNAL', true );
define( 'AUTOMATIC_UPDATER_DISABLED', true );
define( 'DISALLOW_FILE_MODS', true );
define( 'WP_DEBUG', false );

require __DIR__ . '/wp-secrets.php';

if ( ! defined( 'ABSPATH' ) ) {
	define( 'ABSPATH', __DIR__ . '/' );
}
require_once ABSPATH . 'wp-settings.php';
