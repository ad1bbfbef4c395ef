<?php
/**
 * MediaWiki's configuration in the lab: an ordinary wiki behind caches that it purges itself, but for what would reach
 * beyond the machine. `LAB_CACHE` says what MediaWiki keeps itself: `none`, `objects` (objects in APCu, parsed pages)
 * or `files` (whole pages of anonymous visitors as well).
 */

$wgSitename      = 'Petasos lab';
$wgMetaNamespace = 'Project';
$wgScriptPath    = '';
$wgArticlePath   = '/wiki/$1';
$wgUsePathInfo   = true;
$wgLanguageCode  = 'en';
$wgDefaultSkin   = 'vector';

// The site has one public name, so that its pages are the same at every address of the lab. A browser that
// comes to a loopback port by number gets links to that port, or it could not look around.
$wgServer = 'http://{{host}}';
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

// The caches in front. MediaWiki tells each of them about every change, by a PURGE that names the public address
// and is sent to the cache as to a proxy; it believes them who the visitor is.
$wgUseCdn             = true;
$wgCdnServers         = [ '{{edge}}', '{{varnish}}' ];
$wgCdnServersNoPurge  = [ '127.0.0.1' ];
$wgUsePrivateIPs      = true;
$wgInternalServer     = 'http://{{host}}';

$lab_cache = $_SERVER['LAB_CACHE'] ?? 'objects';
$wgMainCacheType    = $lab_cache === 'none' ? CACHE_NONE : CACHE_ACCEL;
$wgMessageCacheType = $wgMainCacheType;
$wgParserCacheType  = $wgMainCacheType;
// Visitors stay logged in whichever address they come by.
$wgSessionCacheType = CACHE_DB;
$wgCacheDirectory   = '{{site}}/cache';
$wgUseFileCache       = $lab_cache === 'files';
$wgFileCacheDirectory = '{{site}}/cache/pages';
$wgTmpDirectory       = '{{site}}/tmp';
$wgUploadDirectory    = '{{site}}/images';
$wgEnableUploads      = false;

// Nothing leaves the machine.
$wgEnableEmail = false;
$wgPingback    = false;
// What was found out while a page was made differs each time.
$wgEnableParserLimitReporting = false;

wfLoadSkin( 'Vector' );
wfLoadExtension( 'Cite' );
wfLoadExtension( 'ParserFunctions' );
wfLoadExtension( 'WikiEditor' );

// The ladder's proofs read these: whether MediaWiki's code came out of the opcode cache, what MediaWiki keeps, and
// where the page came from: `parsed` now, put together around a kept `text`, or a kept `file`.
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
