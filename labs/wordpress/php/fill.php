<?php
/**
 * Installs WordPress into the lab's database and fills it, through WordPress' own installer and
 * functions.
 *
 * Usage: php fill.php WORDPRESS_DIRECTORY PASSWORD_FILE. The content comes from a fixed seed, so
 * that all labs hold the same posts, pages, comments, menus and pictures with the same ids. At the
 * end, an option stores the fingerprint of this file. A database without this fingerprint is made
 * again.
 *
 * Prints "filled" or "already filled". A failure ends with a message and exit code 1.
 */

const LAB_POSTS      = 300;
const LAB_PAGES      = 12;
const LAB_COMMENTS   = 900;
const LAB_TAGS       = 60;
const LAB_AUTHORS    = 5;
const LAB_READERS    = 5;
const LAB_PICTURES   = 8;
const LAB_SEED       = 20091115;
const LAB_FIRST_DATE = '2024-01-02 08:00:00';
const LAB_MARK       = 'lab_filled_by';

const LAB_CATEGORIES = array( 'Bicycles', 'Cities', 'Cooking', 'Gardens', 'Hardware', 'Letters', 'Music', 'Networks', 'Rivers', 'Travel', 'Weather', 'Workshop' );
const LAB_SUBJECTS   = array( 'The old bridge', 'A quiet street', 'Our neighbour', 'The night train', 'A borrowed bicycle', 'The village baker', 'Every second garden', 'The harbour', 'A small workshop', 'The winter market', 'An open window', 'The long road', 'A patient teacher', 'The first rain', 'The mountain path' );
const LAB_VERBS      = array( 'remembers', 'carries', 'explains', 'repairs', 'follows', 'collects', 'leaves behind', 'looks after', 'measures', 'gives away', 'changes', 'hides', 'returns', 'invites', 'draws' );
const LAB_OBJECTS    = array( 'the morning light', 'a box of letters', 'two wheels and a bell', 'what the river brought', 'the sound of tools', 'a map without names', 'the taste of plums', 'more than it shows', 'the last warm evening', 'a story for guests', 'three kinds of bread', 'the colour of slate', 'an unexpected answer', 'the smell of wet wood', 'a promise to come back' );
const LAB_ENDINGS    = array( 'before the shops open', 'in the middle of the week', 'whenever the wind turns', 'without a word', 'for as long as anybody can tell', 'on the far side of the hill', 'and nobody minds', 'because somebody has to', 'between two showers', 'as the lamps go on' );
const LAB_NAMES      = array( 'Ada Winter', 'Bruno Falk', 'Clara Moreau', 'Dario Conti', 'Edith Sommer', 'Felix Brandt', 'Greta Lind', 'Hugo Marsh', 'Ines Duarte', 'Jonas Keller', 'Karin Holm', 'Leo Fontaine' );

function lab_fail( string $why ): never {
	fwrite( STDERR, "fill.php: $why\n" );
	exit( 1 );
}

/** Returns the value of a WordPress function, or ends if it is an error object or empty. */
function lab_must( $value, string $what ) {
	if ( ! $value || is_wp_error( $value ) ) {
		lab_fail( "cannot make $what" . ( is_wp_error( $value ) ? ': ' . $value->get_error_message() : '' ) );
	}
	return $value;
}

function lab_pick( array $from ) {
	return $from[ mt_rand( 0, count( $from ) - 1 ) ];
}

function lab_sentence(): string {
	return lab_pick( LAB_SUBJECTS ) . ' ' . lab_pick( LAB_VERBS ) . ' ' . lab_pick( LAB_OBJECTS ) . ' ' . lab_pick( LAB_ENDINGS ) . '.';
}

function lab_text( int $sentences ): string {
	return implode( ' ', array_map( 'lab_sentence', array_fill( 0, $sentences, null ) ) );
}

function lab_paragraph(): string {
	return "<!-- wp:paragraph -->\n<p>" . lab_text( mt_rand( 3, 7 ) ) . "</p>\n<!-- /wp:paragraph -->\n\n";
}

/** An article in blocks, as the editor writes it: paragraphs, a heading, a list, a quotation. */
function lab_article(): string {
	$text = lab_paragraph() . lab_paragraph();
	$text .= "<!-- wp:heading -->\n<h2>" . lab_pick( LAB_SUBJECTS ) . "</h2>\n<!-- /wp:heading -->\n\n";
	for ( $i = mt_rand( 2, 5 ); $i > 0; $i-- ) {
		$text .= lab_paragraph();
	}
	if ( mt_rand( 0, 2 ) === 0 ) {
		$items = '';
		for ( $i = 0; $i < 4; $i++ ) {
			$items .= "<!-- wp:list-item -->\n<li>" . ucfirst( lab_pick( LAB_OBJECTS ) ) . "</li>\n<!-- /wp:list-item -->\n";
		}
		$text .= "<!-- wp:list -->\n<ul>$items</ul>\n<!-- /wp:list -->\n\n";
	}
	if ( mt_rand( 0, 3 ) === 0 ) {
		$text .= "<!-- wp:quote -->\n<blockquote class=\"wp-block-quote\"><!-- wp:paragraph -->\n<p>" . lab_sentence() . "</p>\n<!-- /wp:paragraph --></blockquote>\n<!-- /wp:quote -->\n\n";
	}
	return $text . lab_paragraph();
}

/** Date of the post with this number: about three posts a week, at varying hours. */
function lab_date( int $number, int $minutes_later = 0 ): string {
	return gmdate( 'Y-m-d H:i:s', strtotime( LAB_FIRST_DATE . ' UTC' ) + $number * 201600 + ( $number % 7 ) * 3600 + $minutes_later * 60 );
}

/**
 * Makes the database empty if its content is missing or outdated. Returns false if the content is
 * current.
 */
function lab_empty_database( string $socket, string $mark ): bool {
	mysqli_report( MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT );
	$database = new mysqli( 'localhost', 'root', '', '', 0, $socket );
	$exists   = $database->query( "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'wordpress' AND TABLE_NAME = 'wp_options'" );
	if ( $exists->num_rows > 0 ) {
		$found = $database->query( "SELECT option_value FROM wordpress.wp_options WHERE option_name = '" . LAB_MARK . "'" )->fetch_row();
		if ( $found && $found[0] === $mark ) {
			return false;
		}
	}
	$database->query( 'DROP DATABASE IF EXISTS wordpress' );
	$database->query( 'CREATE DATABASE wordpress CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci' );
	return true;
}

function lab_install( string $password ): void {
	$result = wp_install( 'Petasos lab', 'admin', 'admin@wordpress.test', true, '', $password, 'en_US' );
	lab_must( $result['user_id'], 'the administrator' );
	update_option( 'blogdescription', 'Notes from a small town' );
	update_option( 'permalink_structure', '/%year%/%monthnum%/%postname%/' );
	update_option( 'posts_per_page', 10 );
	update_option( 'show_on_front', 'posts' );
	update_option( 'comment_moderation', 0 );
	update_option( 'comment_previously_approved', 0 );
	update_option( 'close_comments_for_old_posts', 0 );
	update_option( 'show_avatars', 0 );
	update_option( 'uploads_use_yearmonth_folders', 0 );
	switch_theme( 'twentytwentythree' );
	// The installer's sample posts contain the time of the installation.
	foreach ( get_posts( array( 'post_type' => array( 'post', 'page' ), 'post_status' => 'any', 'numberposts' => -1 ) ) as $post ) {
		wp_delete_post( $post->ID, true );
	}
}

/** @return int[] ids of the authors. */
function lab_authors(): array {
	$authors = array();
	foreach ( array_slice( LAB_NAMES, 0, LAB_AUTHORS ) as $name ) {
		$login     = sanitize_title( $name );
		$authors[] = lab_must(
			wp_insert_user( array( 'user_login' => $login, 'user_pass' => wp_generate_password( 24 ), 'user_email' => "$login@wordpress.test", 'display_name' => $name, 'role' => 'author' ) ),
			"the author $name"
		);
	}
	return $authors;
}

/** Makes visitors who can only log in. Their password is the administrator's. */
function lab_readers( string $password ): void {
	for ( $number = 1; $number <= LAB_READERS; $number++ ) {
		lab_must(
			wp_insert_user( array( 'user_login' => "reader-$number", 'user_pass' => $password, 'user_email' => "reader-$number@visitors.test", 'display_name' => "Reader $number", 'role' => 'subscriber' ) ),
			"reader $number"
		);
	}
}

/** @return int[] ids of the terms of a taxonomy. */
function lab_terms( string $taxonomy, array $names ): array {
	return array_map( fn ( $name ) => lab_must( wp_insert_term( $name, $taxonomy ), "the term $name" )['term_id'], $names );
}

/** @return int[] ids of generated pictures. WordPress makes smaller sizes of them. */
function lab_pictures(): array {
	$pictures = array();
	for ( $number = 1; $number <= LAB_PICTURES; $number++ ) {
		$image = imagecreatetruecolor( 1200, 800 );
		for ( $y = 0; $y < 800; $y += 4 ) {
			$shade = imagecolorallocate( $image, ( 40 * $number + intdiv( $y, 8 ) ) % 256, ( 90 + 25 * $number ) % 256, 255 - intdiv( $y, 4 ) );
			imagefilledrectangle( $image, 0, $y, 1199, $y + 3, $shade );
		}
		for ( $i = 0; $i < 30; $i++ ) {
			$colour = imagecolorallocate( $image, mt_rand( 0, 255 ), mt_rand( 0, 255 ), mt_rand( 0, 255 ) );
			$size   = mt_rand( 20, 200 );
			imagefilledellipse( $image, mt_rand( 0, 1199 ), mt_rand( 0, 799 ), $size, $size, $colour );
		}
		$file = wp_upload_dir()['path'] . "/picture-$number.jpg";
		imagejpeg( $image, $file, 80 );
		$picture = lab_must(
			wp_insert_attachment( array( 'post_title' => "Picture $number", 'post_mime_type' => 'image/jpeg', 'post_date' => LAB_FIRST_DATE, 'post_status' => 'inherit' ), $file, 0, true ),
			"picture $number"
		);
		wp_update_attachment_metadata( $picture, lab_must( wp_generate_attachment_metadata( $picture, $file ), "the sizes of picture $number" ) );
		update_post_meta( $picture, '_wp_attachment_image_alt', "Circles, drawing number $number" );
		$pictures[] = $picture;
	}
	return $pictures;
}

/** @return int[] ids of the posts, oldest first. */
function lab_posts( array $authors, array $categories, array $tags, array $pictures ): array {
	$posts = array();
	for ( $number = 1; $number <= LAB_POSTS; $number++ ) {
		$post    = lab_must(
			wp_insert_post(
				array(
					'post_title'    => lab_pick( LAB_SUBJECTS ) . ' ' . lab_pick( LAB_VERBS ) . ' ' . lab_pick( LAB_OBJECTS ),
					'post_content'  => lab_article(),
					'post_status'   => 'publish',
					'post_author'   => lab_pick( $authors ),
					'post_date'     => lab_date( $number ),
					'post_date_gmt' => lab_date( $number ),
					'post_category' => array( lab_pick( $categories ), lab_pick( $categories ) ),
					'tax_input'     => array( 'post_tag' => array( lab_pick( $tags ), lab_pick( $tags ), lab_pick( $tags ) ) ),
				),
				true
			),
			"post $number"
		);
		set_post_thumbnail( $post, $pictures[ $number % count( $pictures ) ] );
		$posts[] = $post;
	}
	return $posts;
}

/** @return int[] ids of the pages. Every fourth page begins a group of sub-pages. */
function lab_pages( int $author ): array {
	$pages  = array();
	$parent = 0;
	for ( $number = 0; $number < LAB_PAGES; $number++ ) {
		$page = lab_must(
			wp_insert_post(
				array(
					'post_type'     => 'page',
					'post_title'    => LAB_CATEGORIES[ $number ] . ', an introduction',
					'post_content'  => lab_article(),
					'post_status'   => 'publish',
					'post_author'   => $author,
					'post_parent'   => $number % 4 === 0 ? 0 : $parent,
					'menu_order'    => $number,
					'post_date'     => LAB_FIRST_DATE,
					'post_date_gmt' => LAB_FIRST_DATE,
				),
				true
			),
			"page $number"
		);
		if ( $number % 4 === 0 ) {
			$parent = $page;
		}
		$pages[] = $page;
	}
	return $pages;
}

function lab_comments( array $posts ): void {
	$last = array();
	for ( $number = 0; $number < LAB_COMMENTS; $number++ ) {
		// The larger of two random numbers, so that newer posts get more comments.
		$index   = max( mt_rand( 0, count( $posts ) - 1 ), mt_rand( 0, count( $posts ) - 1 ) );
		$name    = lab_pick( LAB_NAMES );
		$date    = lab_date( $index + 1, 30 + $number );
		$answers = mt_rand( 0, 2 ) === 0 ? ( $last[ $index ] ?? 0 ) : 0;
		$last[ $index ] = lab_must(
			wp_insert_comment(
				array(
					'comment_post_ID'      => $posts[ $index ],
					'comment_author'       => $name,
					'comment_author_email' => sanitize_title( $name ) . '@visitors.test',
					'comment_content'      => lab_text( mt_rand( 1, 4 ) ),
					'comment_parent'       => $answers,
					'comment_approved'     => 1,
					'comment_date'         => $date,
					'comment_date_gmt'     => $date,
				)
			),
			"comment $number"
		);
	}
}

/** Makes two classic menus, and the navigation in the theme's header. */
function lab_menus( array $pages, array $categories ): void {
	foreach ( array( 'Main menu' => array( 'post_type', 'page', $pages ), 'Subjects' => array( 'taxonomy', 'category', $categories ) ) as $name => list( $type, $object, $numbers ) ) {
		$menu = lab_must( wp_create_nav_menu( $name ), "the menu $name" );
		foreach ( $numbers as $number ) {
			lab_must( wp_update_nav_menu_item( $menu, 0, array( 'menu-item-type' => $type, 'menu-item-object' => $object, 'menu-item-object-id' => $number, 'menu-item-status' => 'publish' ) ), "an item of $name" );
		}
	}
	$links = '';
	foreach ( array_slice( $pages, 0, 4 ) as $page ) {
		// URLs without a host, so that the links lead to the address that the visitor uses.
		$path   = wp_make_link_relative( get_permalink( $page ) );
		$label  = wp_json_encode( get_the_title( $page ) );
		$links .= "<!-- wp:navigation-link {\"label\":$label,\"type\":\"page\",\"id\":$page,\"url\":\"$path\",\"kind\":\"post-type\"} /-->\n";
	}
	lab_must( wp_insert_post( array( 'post_type' => 'wp_navigation', 'post_title' => 'Header', 'post_status' => 'publish', 'post_content' => wp_slash( $links ), 'post_date' => LAB_FIRST_DATE ), true ), 'the navigation' );
}

/** Replaces the function that sends the administrator a mail after the installation. */
function wp_new_blog_notification() {}

if ( count( $argv ) !== 3 ) {
	lab_fail( 'usage: php fill.php WORDPRESS_DIRECTORY PASSWORD_FILE' );
}
$lab_mark = md5_file( __FILE__ );
$lab_wordpress = $argv[1];
$lab_password = trim( (string) file_get_contents( $argv[2] ) );
if ( $lab_password === '' ) {
	lab_fail( "no password in $argv[2]" );
}
$_SERVER['HTTP_HOST']       = 'wordpress.test';
$_SERVER['SERVER_NAME']     = 'wordpress.test';
$_SERVER['SERVER_PROTOCOL'] = 'HTTP/1.1';
$_SERVER['REQUEST_METHOD']  = 'GET';
$_SERVER['REQUEST_URI']     = '/';

if ( ! lab_empty_database( dirname( $lab_wordpress ) . '/run/mariadb.sock', $lab_mark ) ) {
	echo "already filled\n";
	exit( 0 );
}
define( 'WP_INSTALLING', true );
require $lab_wordpress . '/wp-load.php';
require_once ABSPATH . 'wp-admin/includes/upgrade.php';
require_once ABSPATH . 'wp-admin/includes/image.php';

mt_srand( LAB_SEED );
lab_install( $lab_password );
$wpdb->query( 'START TRANSACTION' );
wp_defer_term_counting( true );
wp_defer_comment_counting( true );
$lab_authors    = lab_authors();
$lab_categories = lab_terms( 'category', LAB_CATEGORIES );
$lab_tags       = lab_terms( 'post_tag', array_map( fn ( $number ) => 'tag ' . $number, range( 1, LAB_TAGS ) ) );
// WordPress accepts tags by id only from users who may assign them.
wp_set_current_user( 1 );
$lab_posts = lab_posts( $lab_authors, $lab_categories, $lab_tags, lab_pictures() );
$lab_pages = lab_pages( $lab_authors[0] );
lab_comments( $lab_posts );
lab_menus( $lab_pages, $lab_categories );
lab_readers( $lab_password );
wp_defer_comment_counting( false );
wp_defer_term_counting( false );
flush_rewrite_rules( false );
update_option( LAB_MARK, $lab_mark );
$wpdb->query( 'COMMIT' );
echo "filled\n";
