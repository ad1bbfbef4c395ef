<?php
/**
 * Installs Drupal 7 by its own install pages, like a browser without JavaScript.
 *
 * Usage: php install.php ADDRESS PASSWORD_FILE. A server must serve the pages at ADDRESS, now or
 * soon. The database in settings.php must exist and be empty, so that Drupal does not ask for it.
 */

const LAB_PAGES_MAX = 500;
// Number of waits of a tenth of a second.
const LAB_WAITS_MAX = 300;

function lab_end($reason, $page = '') {
  $text = trim(preg_replace('/\s+/', ' ', strip_tags(preg_replace('~<(script|style)\b.*?</\1>~s', ' ', $page))));
  fwrite(STDERR, "install.php: $reason" . ($text === '' ? '' : "; the page says: $text") . "\n");
  exit(1);
}

/** Waits until a server listens at the address. */
function lab_wait($address) {
  for ($i = 0; !($socket = @stream_socket_client("tcp://$address")); $i++) {
    if ($i === LAB_WAITS_MAX) {
      lab_end("nobody listens at $address");
    }
    usleep(100000);
  }
  fclose($socket);
}

/** Requests a page, or sends a form. Returns the lines of the response's head, and its body. */
function lab_ask($address, $target, $fields, &$cookies) {
  $head = "Host: {{host}}\r\nConnection: close\r\n";
  if ($cookies) {
    $head .= 'Cookie: ' . implode('; ', $cookies) . "\r\n";
  }
  $request = array('ignore_errors' => TRUE, 'follow_location' => 0, 'timeout' => 240);
  if ($fields) {
    $head .= "Content-Type: application/x-www-form-urlencoded\r\n";
    $request += array('method' => 'POST', 'content' => http_build_query($fields));
  }
  $request['header'] = $head;
  $context = stream_context_create(array('http' => $request));
  $stream = @fopen("http://$address$target", 'r', FALSE, $context) ?: lab_end("no answer at $target");
  $lines = stream_get_meta_data($stream)['wrapper_data'];
  foreach (preg_filter('/^Set-Cookie: *([^=]+)=([^;]*).*$/i', '$1=$2', $lines) as $cookie) {
    $cookies[strtok($cookie, '=')] = $cookie;
  }
  return array($lines, stream_get_contents($stream));
}

/** The path and query of a URL from Drupal. */
function lab_target($url) {
  $parts = parse_url(html_entity_decode($url));
  return $parts['path'] . (isset($parts['query']) ? '?' . $parts['query'] : '');
}

/**
 * The next page: the target of a redirect, or of the refresh by which Drupal works through a batch.
 */
function lab_next(array $lines, $page) {
  $found = preg_filter('/^Location: */i', '', $lines);
  if ($found) {
    return lab_target(end($found));
  }
  return preg_match('/http-equiv="Refresh" content="0; URL=([^"]+)"/i', $page, $match) ? lab_target($match[1]) : NULL;
}

/** The hidden fields of the configuration form, and values for the others. */
function lab_fields($page, $password) {
  preg_match_all('/<input type="hidden" name="(form_[a-z_]+)" value="([^"]*)"/', $page, $hidden);
  return array_combine($hidden[1], $hidden[2]) + array(
    'site_name' => 'Petasos lab',
    'site_mail' => 'admin@{{host}}',
    'account' => array(
      'name' => 'admin',
      'mail' => 'admin@{{host}}',
      'pass' => array('pass1' => $password, 'pass2' => $password),
    ),
    'site_default_country' => '',
    'date_default_timezone' => 'UTC',
    // In a browser, a script of the page finds out that clean URLs work.
    'clean_url' => '1',
    'op' => 'Save and continue',
  );
}

list(, $lab_address, $lab_password) = $argv;
$lab_password = trim((string) file_get_contents($lab_password));
lab_wait($lab_address);
list($lab_target, $lab_fields, $lab_cookies, $lab_sent) = array('/install.php?profile=standard&locale=en', NULL, array(), FALSE);
for ($lab_pages = 1; $lab_pages <= LAB_PAGES_MAX; $lab_pages++) {
  list($lab_lines, $lab_page) = lab_ask($lab_address, $lab_target, $lab_fields, $lab_cookies);
  $lab_fields = NULL;
  $lab_next = lab_next($lab_lines, $lab_page);
  if ($lab_next !== NULL) {
    $lab_target = $lab_next;
  }
  elseif (!$lab_sent && strpos($lab_page, 'id="install-configure-form"') !== FALSE) {
    $lab_fields = lab_fields($lab_page, $lab_password);
    $lab_sent = TRUE;
  }
  elseif ($lab_sent && strpos($lab_page, 'Congratulations, you installed') !== FALSE) {
    echo "installed by $lab_pages pages\n";
    exit;
  }
  else {
    lab_end("Drupal's installer does not go on at $lab_target", $lab_page);
  }
}
lab_end('the installation does not come to an end');
