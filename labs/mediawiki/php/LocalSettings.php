<?php
/**
 * MediaWiki's configuration in the lab: an ordinary wiki that purges the caches in front of it,
 * without features that access other machines. `LAB_CACHE` selects MediaWiki's own caches: `none`,
 * `objects` (objects and parsed pages in APCu) or `files` (whole pages of anonymous visitors as
 * well).
 */

$wgSitename      = 'Petasos lab';
$wgMetaNamespace = 'Project';
$wgScriptPath    = '';
$wgArticlePath   = '/wiki/$1';
$wgUsePathInfo   = true;
$wgLanguageCode  = 'en';
$wgDefaultSkin   = 'vector';

// The site has one public name, so that its pages are the same at every address of the lab. A
// browser that uses a loopback address directly gets links to that address, because the public name
// does not resolve.
// Petasos states the scheme of the visitor's connection.
$lab_scheme = ( $_SERVER['HTTP_X_FORWARDED_PROTO'] ?? '' ) === 'https' ? 'https' : 'http';
$wgServer = $lab_scheme . '://{{host}}';
if ( isset( $_SERVER['HTTP_HOST'] ) && preg_match( '/^(?:127\.0\.0\.1|localhost):\d{1,5}$/D', $_SERVER['HTTP_HOST'] ) ) {
	$wgServer = 'http://' . $_SERVER['HTTP_HOST'];
}
$wgCanonicalServer = 'http://{{host}}';

$wgDBtype     = 'mysql';
$wgDBserver   = 'localhost:{{mariadb_socket}}';
$wgDBname     = 'wiki';
$wgDBuser     = 'root';
$wgDBpassword = '';
$wgDBTableOptions = 'ENGINE=InnoDB, DEFAULT CHARSET=binary';

$wgSecretKey  = '{{secret_key}}';
$wgUpgradeKey = false;

// The caches in front, by the settings that a wiki's owner includes too. Purges name the pages
// by the public name, also if a browser uses a loopback address.
$petasosEdges     = [ '{{edge}}', '{{varnish}}' ];
$wgInternalServer = 'http://{{host}}';
require '{{site}}/conf/PetasosSettings.php';

$lab_cache = $_SERVER['LAB_CACHE'] ?? 'objects';
$wgMainCacheType    = $lab_cache === 'none' ? CACHE_NONE : CACHE_ACCEL;
$wgMessageCacheType = $wgMainCacheType;
$wgParserCacheType  = $wgMainCacheType;
// Sessions are in the database, so that visitors stay logged in at all addresses.
$wgSessionCacheType = CACHE_DB;
$wgCacheDirectory   = '{{site}}/cache';
$wgUseFileCache       = $lab_cache === 'files';
$wgFileCacheDirectory = '{{site}}/cache/pages';
$wgTmpDirectory       = '{{site}}/tmp';
$wgUploadDirectory    = '{{site}}/images';
$wgEnableUploads      = false;

// Nothing is sent to other machines.
$wgEnableEmail = false;
$wgPingback    = false;
// The report about parsing would make every page different.
$wgEnableParserLimitReporting = false;

wfLoadSkin( 'Vector' );
wfLoadExtension( 'Cite' );
wfLoadExtension( 'ParserFunctions' );
wfLoadExtension( 'WikiEditor' );

// Header fields for the ladder's proofs: whether MediaWiki's code came from the opcode cache,
// MediaWiki's cache mode, and the page's source: `parsed` now, built from cached `text`, or a
// cached `file`.
if ( PHP_SAPI !== 'cli' ) {
	$lab_kept = function_exists( 'opcache_is_script_cached' ) && ini_get( 'opcache.enable' )
		&& opcache_is_script_cached( '/usr/share/mediawiki/includes/Setup.php' );
	header( 'X-Lab-Opcache: ' . ( $lab_kept ? 'on' : 'off' ) );
	header( "X-Lab-Cache: $lab_cache" );
	header( 'X-Lab-Page: file' );
	$lab_parsed = false;
	$wgHooks['ParserAfterTidy'][] = static function ( $parser ) use ( &$lab_parsed ) {
		$lab_parsed = $lab_parsed || !$parser->getOptions()->getInterfaceMessage();
	};
	$wgHooks['BeforePageDisplay'][] = static function () use ( &$lab_parsed ) {
		header( 'X-Lab-Page: ' . ( $lab_parsed ? 'parsed' : 'text' ) );
	};
}
