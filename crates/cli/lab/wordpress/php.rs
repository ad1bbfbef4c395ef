//! The PHP files: each is valid PHP, the tests of their pure parts pass, and uninstalling the
//! plugin removes all its data.

use crate::site::{WordPressLab, get};
use std::path::{Path, PathBuf};
use std::process::Command;

fn integration() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations/wordpress")
}

/// Runs PHP, which must succeed, and returns its output.
fn php(arguments: &[&str]) -> String {
    let output = Command::new("php8.2").args(arguments).output().unwrap();
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let said = format!("{stdout}{stderr}");
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn every_file_is_valid_php() {
    let all = files(&integration());
    let mut checked = 0;
    for file in all.iter().filter(|file| file.extension().is_some_and(|extension| extension == "php")) {
        php(&["-l", file.to_str().unwrap()]);
        checked += 1;
    }
    assert!(checked >= 30, "{checked} files");
}

#[test]
fn pure_parts_pass_their_php_tests() {
    let said = php(&["-d", "apc.enable_cli=1", integration().join("tests/run.php").to_str().unwrap()]);
    assert!(said.contains(" passed, 0 failed"), "{said}");
}

#[test]
fn uninstalling_the_plugin_removes_all_its_data() {
    let site = WordPressLab::with("plugin=on&pages=database&objects=database");
    get(site.origin, "/");
    site.administrator().change("settings", &serde_json::json!({"description": "Notes from a small town."}));
    site.administrator().change("settings", &serde_json::json!({"description": "Notes from a small town"}));
    // The drop-ins and cache files are in a temporary directory, so the lab keeps its own.
    let content = tempfile::tempdir().unwrap();
    for name in ["advanced-cache.php", "object-cache.php"] {
        std::fs::copy(integration().join("petasos/drop-ins").join(name), content.path().join(name)).unwrap();
    }
    std::fs::write(content.path().join("other.php"), "<?php").unwrap();
    std::fs::create_dir_all(content.path().join("cache/petasos/01")).unwrap();
    std::fs::write(content.path().join("cache/petasos/01/a.page"), "x").unwrap();
    let script = format!(
        "$_SERVER['HTTP_HOST'] = 'wordpress.test'; $_SERVER['REQUEST_METHOD'] = 'GET'; $_SERVER['REQUEST_URI'] = '/';
        define('WP_CONTENT_DIR', '{}');
        require '{}/wordpress/wp-load.php';
        $left = fn () => [
            ...$wpdb->get_col(\"SELECT option_name FROM $wpdb->options WHERE option_name LIKE '%petasos%'\"),
            ...$wpdb->get_col(\"SHOW TABLES LIKE '%petasos%'\"),
        ];
        echo 'before: ', implode(' ', $left()), PHP_EOL;
        define('WP_UNINSTALL_PLUGIN', 'petasos/petasos.php');
        require '{}';
        echo 'after: ', implode(' ', $left()), ' ', json_encode(_get_cron_array()), PHP_EOL;",
        content.path().display(),
        site.files.display(),
        integration().join("petasos/uninstall.php").display()
    );
    let said = php(&["-r", &script]);
    let line = |name: &str| {
        said.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{said}"))
    };
    for name in ["petasos_changed", "wp_petasos_pages", "wp_petasos_objects"] {
        assert!(line("before: ").contains(name), "{said}");
    }
    assert!(!line("after: ").contains("petasos"), "{said}");
    let left: Vec<_> =
        std::fs::read_dir(content.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "other.php" || name == "cache"), "{left:?}");
    assert_eq!(files(&content.path().join("cache")), Vec::<PathBuf>::new());
}
