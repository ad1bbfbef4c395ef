<?php
/**
 * WordPress' configuration in the lab: an ordinary site, without features that would make
 * measurements differ. There is no scheduled work during a visitor's request, no connection to
 * other hosts, no update, and no autosave after a minute.
 */

define( 'DB_NAME', 'wordpress' );
define( 'DB_USER', 'root' );
define( 'DB_PASSWORD', '' );
define( 'DB_HOST', 'localhost:{{site}}/run/mariadb.sock' );
define( 'DB_CHARSET', 'utf8mb4' );
define( 'DB_COLLATE', '' );
$table_prefix = 'wp_';

// The site has one public name, so that its pages are the same at every address of the lab. A
// browser that uses a loopback address directly gets links to that address, because the public name
// does not resolve.
$lab_host = 'wordpress.test';
if ( isset( $_SERVER['HTTP_HOST'] ) && preg_match( '/^(?:127\.0\.0\.1|localhost):\d{1,5}$/D', $_SERVER['HTTP_HOST'] ) ) {
	$lab_host = $_SERVER['HTTP_HOST'];
}
// Petasos states the scheme of the visitor's connection.
if ( ( $_SERVER['HTTP_X_FORWARDED_PROTO'] ?? '' ) === 'https' ) {
	$_SERVER['HTTPS'] = 'on';
}
$lab_scheme = isset( $_SERVER['HTTPS'] ) ? 'https' : 'http';
define( 'WP_HOME', "$lab_scheme://$lab_host" );
define( 'WP_SITEURL', "$lab_scheme://$lab_host" );

// The active caching layers, which lab-layers.php stores.
const LAB_NO_LAYERS = array( 'plugin' => 'off', 'pages' => 'off', 'objects' => 'off', 'edge' => '', 'admin' => '' );
define( 'LAB_LAYERS', (array) json_decode( (string) @file_get_contents( '{{site}}/tmp/layers.json' ), true ) + LAB_NO_LAYERS );
if ( PHP_SAPI !== 'cli' && ! headers_sent() ) {
	// Header fields for the ladder's proofs: whether WordPress' code came from the opcode cache,
	// and the active layers.
	$lab_kept = function_exists( 'opcache_is_script_cached' ) && ini_get( 'opcache.enable' )
		&& opcache_is_script_cached( __DIR__ . '/wp-load.php' );
	header( 'X-Lab-Opcache: ' . ( $lab_kept ? 'on' : 'off' ) );
	header( 'X-Lab-Layers: plugin=' . LAB_LAYERS['plugin'] . ' pages=' . LAB_LAYERS['pages'] . ' objects=' . LAB_LAYERS['objects'] );
}

// Constants for the plugin and the drop-ins, as a site's owner would define them.
if ( LAB_LAYERS['edge'] !== '' ) {
	define( 'PETASOS_EDGE', array_map( fn ( $lab_edge ) => "http://$lab_edge", explode( ',', LAB_LAYERS['edge'] ) ) );
}
if ( LAB_LAYERS['admin'] !== '' ) {
	define( 'PETASOS_ADMIN', 'http://' . LAB_LAYERS['admin'] );
}
define( 'PETASOS_RETRY_AFTER', 0 );
define( 'PETASOS_DEBUG', true );
if ( LAB_LAYERS['objects'] !== 'off' ) {
	$lab_kind = LAB_LAYERS['objects'] === 'gone' ? 'redis' : LAB_LAYERS['objects'];
	// Whole pages use the same storage, except for the database, where they would need a second
	// table of pages.
	define( 'PETASOS_OBJECTS', array( '*' => $lab_kind ) + ( $lab_kind === 'database' ? array() : array( 'petasos-pages' => $lab_kind ) ) );
	define( 'PETASOS_REDIS', LAB_LAYERS['objects'] === 'gone' ? '{{site}}/run/no-such.sock' : '{{site}}/run/redis.sock' );
	define( 'PETASOS_MEMCACHED', '{{site}}/run/memcached.sock' );
}
if ( LAB_LAYERS['pages'] !== 'off' ) {
	define( 'PETASOS_PAGES', LAB_LAYERS['pages'] );
	define( 'WP_CACHE', true );
}

define( 'DISABLE_WP_CRON', true );
// One day, in seconds. With the default, a slow test session would leave an autosave in the
// database, and a fast one would not.
define( 'AUTOSAVE_INTERVAL', 86400 );
define( 'WP_HTTP_BLOCK_EXTERNAL', true );
define( 'AUTOMATIC_UPDATER_DISABLED', true );
define( 'DISALLOW_FILE_MODS', true );
define( 'WP_DEBUG', false );

require __DIR__ . '/wp-secrets.php';

if ( ! defined( 'ABSPATH' ) ) {
	define( 'ABSPATH', __DIR__ . '/' );
}
if ( LAB_LAYERS['pages'] === 'aggressive' && PHP_SAPI !== 'cli' ) {
	require __DIR__ . '/wp-content/advanced-cache.php';
}
require_once ABSPATH . 'wp-settings.php';
