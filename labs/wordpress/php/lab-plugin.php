<?php
/**
 * Plugin Name: Lab layers
 * Description: Switches the Petasos plugin on for the requests for which lab-layers.php says so.
 *
 * Loads the Petasos plugin like an activated plugin, without changing the active plugins in the
 * database. For tests, `?lab=` generates pages like those of other plug-ins.
 */

/** A shop's cart, with the function name of WooCommerce. */
function is_cart(): bool {
	return ( $_GET['lab'] ?? '' ) === 'cart';
}

add_action(
	'init',
	function () {
		switch ( $_GET['lab'] ?? '' ) {
			case 'session':
				session_start();
				break;
			case 'used-session':
				session_start();
				$_SESSION['name'] = 'somebody';
				break;
			case 'cookie':
				setcookie( 'name', 'somebody' );
				break;
			case 'uncached':
				nocache_headers();
				break;
			case 'constant':
				define( 'DONOTCACHEPAGE', true );
				break;
			case 'own':
				header( 'Cache-Control: public, max-age=7' );
				break;
			case 'flush':
				add_action( 'wp_footer', fn () => ob_flush() );
				break;
			case 'parts':
				add_action( 'wp_footer', fn () => wp_nav_menu( array( 'menu' => 'Main menu' ) ) );
				add_action( 'wp_footer', fn () => dynamic_sidebar( 'lab' ) );
				break;
			case 'length':
				// Cuts or pads the requested page to a length; labs/same-size compares such pages.
				$length = (int) ( $_GET['bytes'] ?? 0 );
				ob_start( fn ( $page ) => str_pad( substr( $page, 0, $length ), $length ) );
				break;
			case 'tags':
				do_action( 'petasos_tag', 'mine', 'yours' );
				break;
			case 'nonce':
				// The nonce that a form of this visitor would have.
				exit( wp_create_nonce( 'petasos_purge' ) );
			case 'purge':
				do_action( 'petasos_purge', 'mine' );
				break;
		}
	}
);

add_filter(
	'option_active_plugins',
	function ( $plugins ) {
		$plugins = is_array( $plugins ) ? $plugins : array();
		if ( LAB_LAYERS['plugin'] === 'on' && ! in_array( 'petasos/petasos.php', $plugins, true ) ) {
			$plugins[] = 'petasos/petasos.php';
		}
		return $plugins;
	}
);

// The theme has no widget area.
add_action( 'widgets_init', fn () => register_sidebar( array( 'id' => 'lab', 'name' => 'Lab' ) ) );
