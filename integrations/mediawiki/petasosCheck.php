<?php
/**
 * Checks whether purges reach the edges and pages can be shared. It changes nothing.
 *
 *     php /usr/share/mediawiki/maintenance/run.php /etc/mediawiki/petasos/petasosCheck.php
 *
 * MediaWiki 1.39 has no `run.php`; there, run the file itself: `php petasosCheck.php`, with the
 * directory of MediaWiki in MW_INSTALL_PATH. The exit code is 1 if something must be changed.
 */

use MediaWiki\MediaWikiServices;

if ( !class_exists( 'Maintenance' ) ) {
	$petasosInstallation = getenv( 'MW_INSTALL_PATH' );
	require_once ( $petasosInstallation === false ? '/usr/share/mediawiki' : $petasosInstallation ) . '/maintenance/Maintenance.php';
}

class PetasosCheck extends Maintenance {
	/** A page that no wiki has, so that its purge changes nothing. */
	private const NO_PAGE = '/petasos-check-no-page';

	/** Longest time of a request, in seconds. */
	private const TIMEOUT = 10;

	/** Jobs that send purges, or lead to some. */
	private const JOBS = [ 'cdnPurge', 'htmlCacheUpdate', 'refreshLinks' ];

	/** @var int */
	private $problems = 0;

	public function __construct() {
		parent::__construct();
		$this->addDescription( 'Checks whether purges reach Petasos and pages can be shared' );
		$this->addOption( 'page', 'Target of a page that anonymous visitors share, such as /wiki/Main_Page', false, true );
		$this->addOption( 'edge', 'Only this address of $wgCdnServers', false, true );
	}

	public function execute() {
		$this->settings();
		$edge = $this->getOption( 'edge' );
		foreach ( $edge === null ? $this->getConfig()->get( 'CdnServers' ) : [ $edge ] as $edge ) {
			$this->purge( $edge );
			$this->page( $edge );
		}
		$this->jobs();
		$this->output( $this->problems === 0 ? "Everything is as it should be.\n" : "$this->problems problems.\n" );
		return $this->problems === 0;
	}

	private function settings() {
		$config = $this->getConfig();
		$this->ensure( $config->get( 'UseCdn' ), 'pages may be shared', '$wgUseCdn is off: every page is private' );
		$this->ensure( $config->get( 'CdnServers' ) !== [], 'edges are named', '$wgCdnServers is empty: nothing is purged' );
		$this->ensure(
			strncmp( (string)$config->get( 'InternalServer' ), 'http://', 7 ) === 0,
			'purges are sent without TLS',
			'$wgInternalServer must begin with http://'
		);
		$this->ensure( !$config->get( 'UseFileCache' ), 'no page is private because of the file cache', '$wgUseFileCache is on: its pages are private' );
		$this->ensure( extension_loaded( 'curl' ), 'PHP has curl', 'PHP lacks the extension curl: no purge can be sent' );
		$excepted = array_filter( [ getenv( 'no_proxy' ), getenv( 'NO_PROXY' ) ] );
		$this->ensure( $excepted === [], 'purges are not diverted', 'the environment has no_proxy: purges may go to the wiki instead of the edge; remove it for PHP too' );
	}

	/** Sends a purge exactly as MediaWiki does. */
	private function purge( $edge ) {
		$client = $this->http()->createMultiClient( [ 'reqTimeout' => self::TIMEOUT, 'connTimeout' => self::TIMEOUT ] );
		$answer = $client->run( [ 'method' => 'PURGE', 'url' => $this->url( self::NO_PAGE ), 'proxy' => $edge, 'headers' => [] ] );
		$status = (int)$answer['code'];
		$hints = [
			0 => 'nothing answers there',
			403 => 'list the address of this machine in purge_peers of the edge',
		];
		$hint = $hints[$status] ?? "it answered $status; is this the address of the edge, and not of the web server?";
		$this->ensure( $status === 200, "$edge obeys purges", "$edge does not obey purges: $hint" );
	}

	/** Requests a page twice, as an anonymous visitor. */
	private function page( $edge ) {
		$target = $this->getOption( 'page' ) ?? Title::newMainPage()->getLocalURL();
		for ( $visits = 0; $visits < 2; $visits++ ) {
			// The client for purges would send a length with a GET, which no cache answers.
			$request = $this->http()->create( $this->url( $target ), [ 'proxy' => "http://$edge", 'timeout' => self::TIMEOUT ], __METHOD__ );
			$request->execute();
		}
		$status = $request->getStatus();
		if ( $status >= 301 && $status <= 308 ) {
			$this->output( "?  $edge redirects $target, so the page cannot be checked there. Use petasos why.\n" );
			return;
		}
		$said = (string)$request->getResponseHeader( 'Cache-Status' );
		$this->ensure(
			strpos( $said, 'hit' ) !== false,
			"$edge answers $target from memory",
			"$edge does not answer $target from memory: status $status, Cache-Status \"$said\""
		);
	}

	private function jobs() {
		$group = MediaWikiServices::getInstance()->getJobQueueGroup();
		$waiting = 0;
		foreach ( self::JOBS as $type ) {
			$waiting += $group->get( $type )->getSize();
		}
		$this->ensure(
			$waiting < 100,
			'purges do not wait in the job queue',
			"$waiting jobs with purges wait: run maintenance/runJobs.php from a timer, because few requests reach a wiki behind a cache"
		);
	}

	private function http() {
		return MediaWikiServices::getInstance()->getHttpRequestFactory();
	}

	private function url( $target ) {
		return $this->getConfig()->get( 'InternalServer' ) . $target;
	}

	private function ensure( $is_good, $good, $bad ) {
		$this->problems += $is_good ? 0 : 1;
		$this->output( $is_good ? "ok $good\n" : "!! $bad\n" );
	}
}

$maintClass = PetasosCheck::class;
require_once RUN_MAINTENANCE_IF_MAIN;
