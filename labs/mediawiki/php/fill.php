<?php
/**
 * Fills a new MediaWiki through its own functions: accounts, templates, articles, talk pages.
 *
 * Usage: php fill.php PASSWORD_FILE. The content and its dates come from a fixed seed, so that all
 * labs hold the same pages. A failure ends with a message and a non-zero exit code.
 */

use MediaWiki\MediaWikiServices;
use MediaWiki\Revision\SlotRecord;

require '/usr/share/mediawiki/maintenance/Maintenance.php';

class LabFill extends Maintenance {
	private const ARTICLES   = 300;
	private const SEED       = 20091115;
	private const FIRST_DATE = 1704182400;
	private const USERS      = [ 'Alice', 'Bob', 'Clara', 'Dario', 'Edith' ];
	private const SUBJECTS   = [ 'Bridge', 'Street', 'Train', 'Bicycle', 'Bakery', 'Garden', 'Harbour', 'Workshop', 'Market', 'Window', 'Road', 'School', 'Mill', 'Path', 'Lighthouse' ];
	private const PLACES     = [ 'Amberg', 'Birkfeld', 'Corvo', 'Dunmore', 'Elmshorn', 'Fontaine', 'Greyford', 'Holmby', 'Isola', 'Jarrow', 'Kelso', 'Lindau', 'Marsden', 'Norland', 'Ostend', 'Porto Vecchio', 'Quimby', 'Ravello', 'Selby', 'Tarnow' ];
	private const VERBS      = [ 'connects', 'carries', 'borders', 'replaces', 'follows', 'supplies', 'overlooks', 'serves', 'crosses', 'recalls' ];
	private const OBJECTS    = [ 'the old town', 'two valleys', 'the railway', 'the northern quarter', 'a row of lime trees', 'the river and its mills', 'what was once a ferry', 'the road to the coast', 'three villages', 'the weekly market' ];
	private const ENDINGS    = [ 'since the year of the great frost', 'as the oldest maps show', 'for most of the year', 'without interruption', 'according to the parish books', 'although few remember why', 'to this day', 'by a decision of the council' ];
	private const CATEGORIES = [ 'Buildings', 'Crafts', 'Rivers', 'Traffic', 'Trade', 'Villages', 'Customs', 'Gardens' ];

	private int $edits = 0;

	public function __construct() {
		parent::__construct();
		$this->addArg( 'password-file', 'holds the password of the accounts' );
	}

	public function execute() {
		mt_srand( self::SEED );
		$this->accounts( trim( (string)file_get_contents( $this->getArg( 0 ) ) ) );
		foreach ( $this->templates() as $name => $text ) {
			$this->save( "Template:$name", $text );
		}
		$titles = $this->titles();
		foreach ( $titles as $number => $title ) {
			$this->save( $title, $this->article( $number, $title, $titles ) );
			if ( $number % 5 === 0 ) {
				$this->save( "Talk:$title", "== A question ==\n" . $this->text( 3 ) . "\n:" . $this->text( 2 ) );
			}
		}
		foreach ( self::CATEGORIES as $category ) {
			$this->save( "Category:$category", $this->text( 2 ) );
		}
		// Replaces the installer's main page, which contains the time of the installation.
		$this->save( 'MediaWiki:Mainpage', 'Welcome' );
		$this->save( 'Welcome', $this->welcome( $titles ) );
		DeferredUpdates::doUpdates();
		SiteStatsInit::doAllAndCommit( wfGetDB( DB_PRIMARY ) );
		$this->runChild( RunJobs::class, '/usr/share/mediawiki/maintenance/runJobs.php' )->execute();
		$this->output( "filled\n" );
	}

	private function accounts( string $password ): void {
		foreach ( self::USERS as $name ) {
			$user = User::newFromName( $name );
			$status = $user->addToDatabase();
			if ( !$status->isOK() || !$user->changeAuthenticationData( [ 'username' => $name, 'password' => $password, 'retype' => $password ] )->isGood() ) {
				$this->fatalError( "cannot make the account $name" );
			}
		}
	}

	private function save( string $title, string $text ): void {
		$services = MediaWikiServices::getInstance();
		$title = Title::newFromText( $title );
		$revision = new WikiRevision( $services->getMainConfig() );
		$revision->setTitle( $title );
		$revision->setUsername( self::USERS[ $this->edits % count( self::USERS ) ] );
		$revision->setTimestamp( wfTimestamp( TS_MW, self::FIRST_DATE + 3607 * $this->edits ) );
		$revision->setComment( 'written' );
		$revision->setContent( SlotRecord::MAIN, new WikitextContent( $text ) );
		if ( !$services->getWikiRevisionOldRevisionImporter()->import( $revision ) ) {
			$this->fatalError( "cannot save $title" );
		}
		$this->edits++;
	}

	/** @return string[] titles of all articles, each once. */
	private function titles(): array {
		$titles = [];
		foreach ( self::PLACES as $place ) {
			foreach ( self::SUBJECTS as $subject ) {
				$titles[] = "$subject of $place";
			}
		}
		return array_slice( $titles, 0, self::ARTICLES );
	}

	/** @return string[] texts of the templates, by name. */
	private function templates(): array {
		$rows = '';
		foreach ( [ 'place', 'built', 'length', 'height' ] as $name ) {
			$rows .= "{{#if:{{{{$name}|}}}|\n{{!}}-\n! " . ucfirst( $name ) . "\n{{!}} {{{{$name}}}}\n}}";
		}
		return [
			'Facts' => "{| class=\"infobox\" style=\"float:right\"\n|+ '''{{{name}}}'''$rows\n|-\n! Area\n| {{#expr: {{{length|1}}} * {{{height|1}}} round 1}} m²\n|}",
			'Places' => '<div class="navbox">' . implode( ' · ', array_map( static fn ( $place ) => "[[Bridge of $place|$place]]", self::PLACES ) ) . '</div>',
			'Remark' => "<small style=\"color:#555\">{{#switch:{{{1|}}}|old=This is an old part of the town.|new=This was built lately.|#default=Nobody knows its age.}} {{{2|}}}</small>",
		];
	}

	private function article( int $number, string $title, array $titles ): string {
		[ $subject, $place ] = explode( ' of ', $title );
		$built = 1700 + ( 7 * $number ) % 300;
		$text = "{{Facts|name=$title|place=$place|built=$built|length=" . ( 10 + $number % 90 ) . '|height=' . ( 3 + $number % 11 ) . "}}\n";
		$text .= "The '''$title''' " . $this->pick( self::VERBS ) . ' ' . $this->pick( self::OBJECTS ) . ".<ref>Parish book of $place, page $number.</ref> " . $this->text( 4 ) . "\n";
		foreach ( [ 'History', 'Today', 'Surroundings' ] as $heading ) {
			$text .= "\n== $heading ==\n" . $this->text( mt_rand( 3, 7 ) ) . "<ref>$heading of the $subject, volume " . mt_rand( 1, 9 ) . ".</ref>\n\n" . $this->text( mt_rand( 2, 5 ) ) . "\n";
			$text .= "{{Remark|" . $this->pick( [ 'old', 'new', '' ] ) . '|' . $this->sentence() . "}}\n";
		}
		$text .= "\n{| class=\"wikitable\"\n! Year !! Visitors\n";
		for ( $year = 2015; $year < 2024; $year++ ) {
			$text .= "|-\n| $year || {{formatnum:" . mt_rand( 100, 90000 ) . "}}\n";
		}
		$text .= "|}\n\n== See also ==\n";
		for ( $i = 0; $i < 6; $i++ ) {
			$text .= '* [[' . $this->pick( $titles ) . "]]\n";
		}
		return $text . "\n== Sources ==\n<references />\n{{Places}}\n[[Category:" . $this->pick( self::CATEGORIES ) . "]]\n";
	}

	private function welcome( array $titles ): string {
		$text = "Welcome to a wiki of {{NUMBEROFARTICLES}} articles about small towns. " . $this->text( 3 ) . "\n\n";
		foreach ( self::PLACES as $number => $place ) {
			$text .= "== $place ==\n{{Facts|name=$place|place=$place|built=" . ( 1200 + 31 * $number ) . '|length=' . ( 4 + $number ) . "|height=2}}\n" . $this->text( 2 ) . "\n";
			foreach ( array_slice( $titles, $number * count( self::SUBJECTS ), 8 ) as $title ) {
				$text .= "* [[$title]]: " . $this->sentence() . " {{Remark|old}}\n";
			}
		}
		return $text . "{{Places}}\n";
	}

	private function sentence(): string {
		return 'The ' . strtolower( $this->pick( self::SUBJECTS ) ) . ' ' . $this->pick( self::VERBS ) . ' ' . $this->pick( self::OBJECTS ) . ' ' . $this->pick( self::ENDINGS ) . '.';
	}

	private function text( int $sentences ): string {
		return implode( ' ', array_map( fn () => $this->sentence(), array_fill( 0, $sentences, null ) ) );
	}

	private function pick( array $from ): string {
		return $from[ mt_rand( 0, count( $from ) - 1 ) ];
	}
}

$maintClass = LabFill::class;
require RUN_MAINTENANCE_IF_MAIN;
