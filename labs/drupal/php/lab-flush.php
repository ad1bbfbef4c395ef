<?php
/**
 * Empties Drupal's caches in its database and in APCu, and answers 204. It demands POST, because it
 * changes state. It needs no authentication, because the lab listens on loopback only.
 */

if ($_SERVER['REQUEST_METHOD'] !== 'POST') {
  http_response_code(405);
  header('Allow: POST');
  exit;
}
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
$lab_database = new mysqli('localhost', 'root', '', 'drupal', 0, '{{mariadb_socket}}');
foreach ($lab_database->query("SHOW TABLES LIKE 'cache%'")->fetch_all() as list($lab_table)) {
  $lab_database->query("TRUNCATE TABLE `$lab_table`");
}
apcu_clear_cache();
http_response_code(204);
