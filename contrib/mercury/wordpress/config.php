<?php
/**
 * WordPress' configuration in the stack. Petasos is at the same machine, or in the same network
 * namespace of containers.
 */

require __DIR__ . '/keys.php';
define( 'DB_NAME', 'site' );
define( 'DB_USER', 'www-data' );
define( 'DB_PASSWORD', '' );
define( 'DB_HOST', 'localhost' );
define( 'DB_CHARSET', 'utf8mb4' );
define( 'WP_CONTENT_DIR', '/var/lib/wordpress/wp-content' );
define( 'WP_HOME', 'https://www.example.org' );
define( 'WP_SITEURL', 'https://www.example.org' );
// Purges of every change, and the object cache.
define( 'PETASOS_ADMIN', 'http://127.0.0.1:8081' );
define( 'PETASOS_OBJECTS', array( '*' => 'apcu' ) );
