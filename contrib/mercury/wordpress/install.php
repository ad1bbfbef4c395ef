<?php
/**
 * Installs WordPress unless it is installed, and activates Petasos' plugin. SITE_PASSWORD of the
 * environment becomes the password of the account "admin". It runs as the user of PHP's workers.
 */

[ , $host ] = $argv;
$_SERVER['HTTP_HOST'] = $host;
define( 'WP_INSTALLING', true );
require '/usr/share/wordpress/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
require_once ABSPATH . 'wp-admin/includes/plugin.php';
// No mail: setup.sh has stored the password.
function wp_new_blog_notification() {}
if ( ! is_blog_installed() ) {
	$password = getenv( 'SITE_PASSWORD' );
	if ( ! $password ) {
		fwrite( STDERR, "SITE_PASSWORD is empty; write a password to /root/site-password\n" );
		exit( 1 );
	}
	wp_install( $host, 'admin', "admin@$host", true, '', $password );
}
$fault = activate_plugin( 'petasos/petasos.php' );
if ( is_wp_error( $fault ) ) {
	fwrite( STDERR, $fault->get_error_message() . "\n" );
	exit( 1 );
}
