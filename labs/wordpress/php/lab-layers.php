<?php
/**
 * Switches WordPress' caching layers in the lab, for the steps of the ladder and for tests.
 *
 * `POST /lab-layers.php?NAME=VALUE&...` sets the named layers, and resets all others to their
 * default. `flush` empties every cache of the lab except Petasos'. After `forget`, the next `down`
 * and `up` make the content again.
 *
 * Every response contains the layers as JSON. wp-config.php reads them, so they take effect with
 * the next request, in both PHP-FPM masters. There is no authentication, because the lab listens on
 * loopback only.
 *
 * - plugin: `off` or `on`; the Petasos plugin
 * - pages: `off`, `database`, `files` or `aggressive`; the page cache's mode
 * - objects: `off`, `apcu`, `redis`, `memcached`, `database` or `gone`; the storage of the object
 *   cache. `gone` is a Redis server that does not exist.
 * - edge: addresses, separated by commas; the edges that receive purge requests
 * - admin: an address; the edge's admin address, for its state and for purges in JSON
 */

declare(strict_types=1);

const LAB_LAYERS_FILE = '{{site}}/tmp/layers.json';
const LAB_VALUES      = array(
	'plugin'  => array( 'off', 'on' ),
	'pages'   => array( 'off', 'database', 'files', 'aggressive' ),
	'objects' => array( 'off', 'apcu', 'redis', 'memcached', 'database', 'gone' ),
);

function lab_refuse( string $why ): never {
	http_response_code( 400 );
	exit( "$why\n" );
}

/** The layers that the query names, and defaults for the others. */
function lab_layers( array $query ): array {
	$layers = array( 'plugin' => 'off', 'pages' => 'off', 'objects' => 'off', 'edge' => '', 'admin' => '' );
	foreach ( $query as $name => $value ) {
		if ( ! isset( $layers[ $name ] ) || ! is_string( $value ) ) {
			lab_refuse( "no such layer: $name" );
		}
		$known = isset( LAB_VALUES[ $name ] ) ? in_array( $value, LAB_VALUES[ $name ], true ) : preg_match( '/^[\d.:,]*$/D', $value );
		if ( ! $known ) {
			lab_refuse( "no such value of $name" );
		}
		$layers[ $name ] = $value;
	}
	return $layers;
}

function lab_database(): mysqli {
	return new mysqli( 'localhost', 'root', '', 'wordpress', 0, '{{site}}/run/mariadb.sock' );
}

/**
 * Empties the page cache (files and table), the object caches, and the caches of nginx and Varnish.
 */
function lab_flush(): void {
	foreach ( glob( '{{site}}/wordpress/wp-content/cache/petasos/*/*' ) ?: array() as $file ) {
		unlink( $file );
	}
	foreach ( glob( '{{site}}/tmp/nginx-cache/*/*/*' ) ?: array() as $file ) {
		unlink( $file );
	}
	// An error is ignored, because Varnish does not run yet when the lab starts.
	@file_get_contents( 'http://{{varnish}}/', false, stream_context_create( array( 'http' => array( 'method' => 'BAN' ) ) ) );
	if ( function_exists( 'apcu_clear_cache' ) ) {
		apcu_clear_cache();
	}
	$redis = new Redis();
	$redis->connect( '{{site}}/run/redis.sock' );
	$redis->flushAll();
	$memcached = new Memcached();
	$memcached->addServer( '{{site}}/run/memcached.sock', 0 );
	$memcached->flush();
	lab_database()->query( 'DROP TABLE IF EXISTS wp_petasos_pages, wp_petasos_objects' );
}

if ( $_SERVER['REQUEST_METHOD'] === 'POST' ) {
	if ( isset( $_GET['flush'] ) ) {
		lab_flush();
	} elseif ( isset( $_GET['forget'] ) ) {
		lab_database()->query( "DELETE FROM wp_options WHERE option_name = 'lab_filled_by'" );
	} else {
		$lab_new = LAB_LAYERS_FILE . '.new';
		file_put_contents( $lab_new, json_encode( lab_layers( $_GET ) ) );
		rename( $lab_new, LAB_LAYERS_FILE );
	}
}
header( 'Content-Type: application/json' );
header( 'Cache-Control: no-store' );
echo is_file( LAB_LAYERS_FILE ) ? file_get_contents( LAB_LAYERS_FILE ) : json_encode( lab_layers( array() ) ), "\n";
