<?php
/**
 * Plugin Name: Lab headers
 * Description: Says in a header of every page whether its code came out of the opcode cache.
 *
 * `X-Lab-Opcache: on` means that WordPress' own start-up file is compiled and kept at this moment; `off` that
 * PHP has no opcode cache, or does not keep that file. The ladder's proofs read it.
 */

add_action(
	'send_headers',
	function () {
		$kept = function_exists( 'opcache_is_script_cached' ) && ini_get( 'opcache.enable' )
			&& opcache_is_script_cached( ABSPATH . 'wp-settings.php' );
		header( 'X-Lab-Opcache: ' . ( $kept ? 'on' : 'off' ) );
	}
);
