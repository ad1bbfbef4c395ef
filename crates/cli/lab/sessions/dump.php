<?php
/**
 * Prints the lab's database as JSON: {table: {"key": [column, ...], "rows": [{column: value, ...}, ...]}}. Rows are in
 * the order of their primary key, and values that PHP serialized are decoded. Its argument is MariaDB's socket.
 */
mysqli_report( MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT );
$database = new mysqli( 'localhost', 'root', '', 'wordpress', 0, $argv[1] );
$database->set_charset( 'utf8mb4' );
$decode = function ( ?string $text ) {
	$value = $text === null ? false : @unserialize( $text, array( 'allowed_classes' => false ) );
	return $value === false ? $text : $value;
};
$tables = array();
foreach ( array_column( $database->query( 'SHOW TABLES' )->fetch_all(), 0 ) as $table ) {
	$key    = array_column( $database->query( "SHOW KEYS FROM `$table` WHERE Key_name = 'PRIMARY'" )->fetch_all( MYSQLI_ASSOC ), 'Column_name' );
	$rows   = $database->query( "SELECT * FROM `$table` ORDER BY " . implode( ', ', $key ) )->fetch_all( MYSQLI_ASSOC );
	$tables[ $table ] = array(
		'key'  => $key,
		'rows' => array_map( fn ( $row ) => array_map( $decode, $row ), $rows ),
	);
}
echo json_encode( $tables, JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR );
