<?php
/**
 * Drupal's settings in the lab. `LAB_CACHE` selects Drupal's own caches: `none`, `pages` (pages of
 * anonymous visitors in its database), `aggressive` (the same, sent before modules are loaded) or
 * `objects` (the same, with all caches in APCu).
 */

$databases['default']['default'] = array(
  'driver' => 'mysql',
  'database' => 'drupal',
  'username' => 'root',
  'password' => '',
  'host' => 'localhost',
  'unix_socket' => '{{mariadb_socket}}',
  'prefix' => '',
);
$drupal_hash_salt = '{{hash_salt}}';
$update_free_access = FALSE;

// The site has one public name, so that its pages are the same at every address of the lab. A
// browser that uses a loopback address directly gets links to that address, because the public name
// does not resolve.
// Petasos states the scheme of the visitor's connection.
if (isset($_SERVER['HTTP_X_FORWARDED_PROTO']) && $_SERVER['HTTP_X_FORWARDED_PROTO'] === 'https') {
  $_SERVER['HTTPS'] = 'on';
}
$base_url = (isset($_SERVER['HTTPS']) ? 'https' : 'http') . '://{{host}}';
if (isset($_SERVER['HTTP_HOST']) && preg_match('/^(?:127\.0\.0\.1|localhost):\d{1,5}$/D', $_SERVER['HTTP_HOST'])) {
  $base_url = 'http://' . $_SERVER['HTTP_HOST'];
}

$lab_cache = getenv('LAB_CACHE') ?: 'none';
$conf['cache'] = $lab_cache === 'none' ? 0 : 1;
$conf['block_cache'] = $conf['cache'];
$conf['page_cache_maximum_age'] = $conf['cache'] ? 300 : 0;
if ($lab_cache === 'aggressive' || $lab_cache === 'objects') {
  $conf['page_cache_invoke_hooks'] = FALSE;
}
if ($lab_cache === 'objects') {
  $conf['cache_backends'] = array('sites/all/modules/lab/lab.cache.inc');
  $conf['cache_default_class'] = 'LabApcuCache';
  // Forms stay in the database, because APCu could evict a form that a visitor is filling in.
  $conf['cache_class_cache_form'] = 'DrupalDatabaseCache';
  $conf['page_cache_without_database'] = TRUE;
}
$conf['reverse_proxy'] = TRUE;
$conf['reverse_proxy_addresses'] = array('127.0.0.1');
// No cron run during a visitor's request.
$conf['cron_safe_threshold'] = 0;
$conf['file_temporary_path'] = '{{site}}/tmp';

if (PHP_SAPI === 'fpm-fcgi') {
  // Whether Drupal's code came from the opcode cache.
  $lab_kept = function_exists('opcache_is_script_cached') && ini_get('opcache.enable')
    && opcache_is_script_cached(DRUPAL_ROOT . '/includes/bootstrap.inc');
  header('X-Lab-Opcache: ' . ($lab_kept ? 'on' : 'off'));
  header("X-Lab-Cache: $lab_cache");
  // Evaluated when the page is sent, because only then is known what it needed.
  header_register_callback(function () {
    $asked = class_exists('Database', FALSE) && Database::isActiveConnection();
    header('X-Lab-Database: ' . ($asked ? 'asked' : 'not asked'));
    if (class_exists('LabApcuCache', FALSE)) {
      header('X-Lab-Objects: ' . LabApcuCache::$found);
    }
  });
}
