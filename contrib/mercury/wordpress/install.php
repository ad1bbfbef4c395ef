<?php
/**
 * Installs WordPress unless it is installed, with Petasos' plugin, and prints the password of the
 * account "admin". It runs as the user of PHP's workers.
 */

[ , $host ] = $argv;
$_SERVER['HTTP_HOST'] = $host;
define( 'WP_INSTALLING', true );
require '/usr/share/wordpress/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
require_once ABSPATH . 'wp-admin/includes/plugin.php';
if ( is_blog_installed() ) {
	exit( 0 );
}
$password = wp_generate_password( 20, false );
// No mail: the password is printed instead.
function wp_new_blog_notification() {}
wp_install( $host, 'admin', "admin@$host", true, '', $password );
$fault = activate_plugin( 'petasos/petasos.php' );
if ( is_wp_error( $fault ) ) {
	fwrite( STDERR, $fault->get_error_message() . "\n" );
	exit( 1 );
}
echo "$password\n";
