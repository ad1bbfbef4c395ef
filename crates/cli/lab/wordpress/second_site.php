<?php
/**
 * Makes a second WordPress for the test of the plugin's zip: an ordinary one, in a directory below
 * the lab's, with a database of its own and without any part of Petasos.
 *
 * Usage: php second_site.php SOURCE DIRECTORY SOCKET PASSWORD. SOURCE is the lab's WordPress.
 * `php second_site.php --state DIRECTORY SOCKET` prints as JSON what the plugin could
 * leave behind.
 */

declare(strict_types=1);

const DATABASE = 'wordpress_zip';

/** Parts of the lab's WordPress that an ordinary one lacks. */
const LEFT_OUT = array( 'wp-config.php', 'lab-layers.php', 'wp-content/mu-plugins', 'wp-content/uploads', 'wp-content/cache', 'wp-content/plugins/petasos', 'wp-content/advanced-cache.php', 'wp-content/object-cache.php' );

function copy_tree( string $from, string $to, string $below = '' ): void {
	mkdir( $to );
	like( $from, $to );
	foreach ( array_diff( scandir( $from ), array( '.', '..', 'zip' ) ) as $name ) {
		if ( in_array( ltrim( "$below/$name", '/' ), LEFT_OUT, true ) ) {
			continue;
		}
		if ( is_dir( "$from/$name" ) ) {
			copy_tree( "$from/$name", "$to/$name", "$below/$name" );
		} else {
			copy( "$from/$name", "$to/$name" );
			like( $from, "$to/$name" );
		}
	}
}

/** Gives a file the owner of another one, if this is root. */
function like( string $other, string $path ): void {
	if ( posix_geteuid() === 0 ) {
		chown( $path, fileowner( $other ) );
		chgrp( $path, filegroup( $other ) );
	}
}

/** The content of wp-config.php: one that somebody without a shell has. */
function configuration( string $socket ): string {
	return "<?php\n"
		. "define( 'DB_NAME', '" . DATABASE . "' );\ndefine( 'DB_USER', 'root' );\ndefine( 'DB_PASSWORD', '' );\n"
		. "define( 'DB_HOST', 'localhost:$socket' );\ndefine( 'DB_CHARSET', 'utf8mb4' );\ndefine( 'DB_COLLATE', '' );\n"
		. "\$table_prefix = 'wp_';\n"
		. "define( 'WP_HOME', 'http://' . ( \$_SERVER['HTTP_HOST'] ?? 'localhost' ) . '/zip' );\ndefine( 'WP_SITEURL', WP_HOME );\n"
		. "define( 'DISABLE_WP_CRON', true );\ndefine( 'WP_HTTP_BLOCK_EXTERNAL', true );\ndefine( 'AUTOMATIC_UPDATER_DISABLED', true );\n"
		. "require dirname( __DIR__ ) . '/wp-secrets.php';\n"
		. "if ( ! defined( 'ABSPATH' ) ) {\n\tdefine( 'ABSPATH', __DIR__ . '/' );\n}\nrequire_once ABSPATH . 'wp-settings.php';\n";
}

function make( string $source, string $directory, string $socket, string $password ): void {
	copy_tree( $source, $directory );
	file_put_contents( "$directory/wp-config.php", configuration( $socket ) );
	like( $source, "$directory/wp-config.php" );
	mysqli_report( MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT );
	$server = new mysqli( 'localhost', 'root', '', '', 0, $socket );
	$server->query( 'DROP DATABASE IF EXISTS ' . DATABASE );
	$server->query( 'CREATE DATABASE ' . DATABASE . ' CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci' );
	define( 'WP_INSTALLING', true );
	$_SERVER += array( 'HTTP_HOST' => 'localhost', 'REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/zip/', 'SERVER_PROTOCOL' => 'HTTP/1.1' );
	require "$directory/wp-load.php";
	require_once ABSPATH . 'wp-admin/includes/upgrade.php';
	wp_install( 'Second site', 'admin', 'admin@wordpress.test', true, '', $password, 'en_US' );
	update_option( 'permalink_structure', '' );
	echo "made\n";
}

/** Hashes of all files, the options and events, and the tables. */
function state( string $directory, string $socket ): array {
	$files = array();
	$all   = new RecursiveIteratorIterator( new RecursiveDirectoryIterator( $directory, FilesystemIterator::SKIP_DOTS ), RecursiveIteratorIterator::SELF_FIRST );
	foreach ( $all as $file ) {
		$files[ substr( (string) $file, strlen( $directory ) ) ] = $file->isDir() ? 'directory' : hash_file( 'sha256', (string) $file );
	}
	ksort( $files );
	$server  = new mysqli( 'localhost', 'root', '', DATABASE, 0, $socket );
	$options = array();
	foreach ( $server->query( 'SELECT option_name, option_value, autoload FROM wp_options ORDER BY option_name' ) as $row ) {
		// WordPress' own notes with a time in them; none of them may be one of Petasos.
		$is_note = preg_match( '/^_(?:site_)?transient_/', $row['option_name'] ) && strpos( $row['option_name'], 'petasos' ) === false;
		if ( $is_note || $row['option_name'] === 'recently_activated' ) {
			continue;
		}
		$options[ $row['option_name'] ] = $row['option_name'] === 'cron' ? events( $row['option_value'] ) : $row['option_value'] . ' ' . $row['autoload'];
	}
	$tables = array_column( $server->query( 'SHOW TABLES' )->fetch_all(), 0 );
	return array( 'files' => $files, 'options' => $options, 'tables' => $tables );
}

/** The names of scheduled events, without their times. WordPress adds one for each upload. */
function events( string $text ): string {
	$names = array();
	foreach ( array_filter( unserialize( $text, array( 'allowed_classes' => false ) ), 'is_array' ) as $list ) {
		array_push( $names, ...array_keys( $list ) );
	}
	$names = array_unique( $names );
	sort( $names );
	return implode( ' ', $names );
}

if ( $argv[1] === '--state' ) {
	echo json_encode( state( $argv[2], $argv[3] ), JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES );
} else {
	make( $argv[1], $argv[2], $argv[3], $argv[4] );
}
