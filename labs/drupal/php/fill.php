<?php
/**
 * Fills a new Drupal 7 through its own functions: the lab's module, accounts and articles, from a
 * fixed seed.
 *
 * Usage: php fill.php DRUPAL_DIRECTORY PASSWORD_FILE.
 */

const LAB_ARTICLES   = 100;
const LAB_SEED       = 20091115;
const LAB_FIRST_DATE = 1704182400;
const LAB_SUBJECTS   = array('The old bridge', 'A quiet street', 'The night train', 'The village baker', 'The harbour', 'A small workshop');
const LAB_VERBS      = array('remembers', 'carries', 'explains', 'repairs', 'follows', 'collects', 'measures', 'hides');
const LAB_OBJECTS    = array('the morning light', 'a box of letters', 'what the river brought', 'the sound of tools', 'three kinds of bread');
const LAB_ENDINGS    = array('before the shops open', 'in the middle of the week', 'without a word', 'and nobody minds', 'as the lamps go on');

function lab_words(array $lists) {
  $words = array();
  foreach ($lists as $list) {
    $words[] = $list[mt_rand(0, count($list) - 1)];
  }
  return implode(' ', $words);
}

function lab_text($sentences) {
  $text = array();
  for ($i = 0; $i < $sentences; $i++) {
    $text[] = lab_words(array(LAB_SUBJECTS, LAB_VERBS, LAB_OBJECTS, LAB_ENDINGS)) . '.';
  }
  return implode(' ', $text);
}

/** Makes two accounts: alice may edit every article, bob may only comment. */
function lab_accounts($password) {
  $editor = (object) array('name' => 'editor');
  user_role_save($editor);
  user_role_grant_permissions($editor->rid, array('create article content', 'edit any article content'));
  foreach (array('alice' => array($editor->rid => 'editor'), 'bob' => array()) as $name => $roles) {
    $account = array('name' => $name, 'mail' => "$name@{{host}}", 'pass' => $password, 'status' => 1, 'roles' => $roles);
    if (!user_save(drupal_anonymous_user(), $account)) {
      lab_end("cannot make the account $name");
    }
  }
}

function lab_end($reason) {
  fwrite(STDERR, "fill.php: $reason\n");
  exit(1);
}

function lab_articles() {
  for ($number = 1; $number <= LAB_ARTICLES; $number++) {
    $node = (object) array(
      'type' => 'article',
      'title' => lab_words(array(LAB_SUBJECTS, LAB_VERBS, LAB_OBJECTS)),
      'language' => LANGUAGE_NONE,
      'uid' => 1,
    );
    node_object_prepare($node);
    $node->status = 1;
    $node->promote = 1;
    $node->created = LAB_FIRST_DATE + 86400 * $number;
    $body = lab_text(5) . "\n\n" . lab_text(6) . "\n\n" . lab_text(4);
    $node->body[LANGUAGE_NONE][0] = array('value' => $body, 'format' => 'filtered_html');
    node_save($node);
  }
}

list(, $lab_drupal, $lab_password) = $argv;
chdir($lab_drupal);
$_SERVER += array('REMOTE_ADDR' => '127.0.0.1', 'REQUEST_METHOD' => 'GET', 'HTTP_USER_AGENT' => '');
$_SERVER['HTTP_HOST']   = '{{host}}';
$_SERVER['SCRIPT_NAME'] = '/index.php';
define('DRUPAL_ROOT', $lab_drupal);
require_once DRUPAL_ROOT . '/includes/bootstrap.inc';
drupal_bootstrap(DRUPAL_BOOTSTRAP_FULL);

mt_srand(LAB_SEED);
if (!module_enable(array('lab'))) {
  lab_end('cannot enable the module of the lab');
}
lab_accounts(trim((string) file_get_contents($lab_password)));
lab_articles();
echo "filled\n";
