<?php
/**
 * Settings of a MediaWiki behind Petasos. README.md is the guide. Include this file at the end of
 * LocalSettings.php, after `$wgServer`:
 *
 *     $petasosEdges = [ '127.0.0.1:80' ];
 *     require_once '/etc/mediawiki/petasos/PetasosSettings.php';
 *
 * `$petasosEdges` are the addresses where the edges listen, each HOST:PORT. `$petasosProxies` are
 * further addresses and prefixes whose X-Forwarded-For MediaWiki believes, such as those of edges
 * that have a name there. `$petasosMaxAge` is the longest time for which an edge may keep a page,
 * in seconds.
 *
 * Needs MediaWiki 1.39 or newer, and PHP's extension curl.
 */

if ( !defined( 'MEDIAWIKI' ) ) {
	exit( 1 );
}

$petasosEdges = $petasosEdges ?? [ '127.0.0.1:80' ];
$petasosProxies = $petasosProxies ?? [];
// Edits purge what they change. This limit is for what MediaWiki does not purge, such as a page
// that shows the date, or a new version of an extension.
$petasosMaxAge = $petasosMaxAge ?? 18000;

foreach ( $petasosEdges as $petasosEdge ) {
	if ( !preg_match( '/^(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}$/D', $petasosEdge ) ) {
		trigger_error( "\$petasosEdges: \"$petasosEdge\" is no HOST:PORT such as 127.0.0.1:80", E_USER_WARNING );
	}
}

// Pages say how long a cache in front may share them. Without this, every page is private.
$wgUseCdn = true;
$wgCdnMaxAge = $petasosMaxAge;

// MediaWiki sends a PURGE to each of these servers for every page that an edit changes. The page
// that was edited is purged at once, those that contain it by the job queue.
$wgCdnServers = $petasosEdges;

// The servers whose X-Forwarded-For is believed. MediaWiki compares addresses without ports, so the
// list above would not do. Petasos replaces the field by the visitor's true address. A name is no
// address, and each request would have to wait for its resolution.
$wgCdnServersNoPurge = $petasosProxies;
foreach ( $petasosEdges as $petasosEdge ) {
	$petasosHost = trim( preg_replace( '/:\d+$/D', '', $petasosEdge ), '[]' );
	if ( filter_var( $petasosHost, FILTER_VALIDATE_IP ) !== false ) {
		$wgCdnServersNoPurge[] = $petasosHost;
	} elseif ( $petasosProxies === [] ) {
		trigger_error( "\$petasosEdges: \"$petasosHost\" is a name; add its address to \$petasosProxies, or MediaWiki takes all visitors for the edge", E_USER_WARNING );
	}
}

// Visitors of an intranet have private addresses. Without this, MediaWiki takes all of them for the
// edge, and a block of one would block all.
$wgUsePrivateIPs = true;

// Purges name the pages by this address. It must be http: for an https address curl would ask the
// edge for a tunnel, which the edge refuses. A purge of the http address is also one of the https
// address.
if ( !is_string( $wgInternalServer ) || strncmp( $wgInternalServer, 'http://', 7 ) !== 0 ) {
	$wgInternalServer = preg_replace( '#^(?:https?:)?//#', 'http://', $wgServer );
}

// MediaWiki declares a page of its file cache private, so no edge would share it. Petasos does the
// same work without starting PHP.
$wgUseFileCache = false;

unset( $petasosEdge, $petasosHost );
