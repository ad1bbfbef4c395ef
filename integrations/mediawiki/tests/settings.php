<?php
/**
 * Reads the settings with different edges, without MediaWiki: `php tests/settings.php`. The exit
 * code is 1 if a result is wrong.
 */

declare( strict_types=1 );

define( 'MEDIAWIKI', true );

/** @return array{0: list<string>, 1: int} the trusted proxies, and the number of warnings */
function read_settings( array $petasosEdges, array $petasosProxies ): array {
	$warnings = 0;
	set_error_handler( static function () use ( &$warnings ): bool {
		$warnings++;
		return true;
	}, E_USER_WARNING );
	$wgServer = '//wiki.test';
	$wgInternalServer = false;
	require dirname( __DIR__ ) . '/PetasosSettings.php';
	restore_error_handler();
	return [ $wgCdnServersNoPurge, $warnings ];
}

$failed = 0;
foreach ( [
	'addresses are trusted' => [ [ '127.0.0.1:80', '[::1]:8080' ], [], [ '127.0.0.1', '::1' ], 0 ],
	'a name is not trusted, and named' => [ [ 'edge:80', '10.0.0.2:80' ], [], [ '10.0.0.2' ], 1 ],
	'a name with proxies is not named' => [ [ 'edge:80' ], [ '10.0.0.0/24' ], [ '10.0.0.0/24' ], 0 ],
	'no port' => [ [ '127.0.0.1' ], [], [ '127.0.0.1' ], 1 ],
] as $what => [ $edges, $proxies, $trusted, $warnings ] ) {
	$is = read_settings( $edges, $proxies );
	if ( $is !== [ $trusted, $warnings ] ) {
		$failed++;
		echo "$what: ", json_encode( $is ), "\n";
	}
}
echo "$failed failed\n";
exit( $failed === 0 ? 0 : 1 );
