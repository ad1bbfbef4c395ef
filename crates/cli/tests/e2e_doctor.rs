//! `petasos doctor` on this machine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use testkit::{Edge, HeldPort, Origin, petasos, response};

/// The exit code and output of `doctor` for a configuration.
fn doctor(directory: &Path, text: &str, flags: &[&str]) -> (Option<i32>, String) {
    let file = directory.join("petasos.toml");
    fs::write(&file, text).unwrap();
    let arguments = ["doctor", file.to_str().unwrap()];
    let output = petasos(arguments.into_iter().chain(flags.iter().copied()));
    (output.code, output.stdout)
}

fn has(output: &str, lines: &[&str]) {
    for line in lines {
        assert!(output.contains(line), "{line} in\n{output}");
    }
}

#[test]
fn doctor_finds_what_a_machine_lacks() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("token"), "secret\n").unwrap();
    fs::set_permissions(directory.path().join("token"), fs::Permissions::from_mode(0o644)).unwrap();
    let (taken, free, other) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), HeldPort::take(), HeldPort::take());
    let place = taken.local_addr().unwrap();
    let (listen, admin, silent) = (free.address(), place, other.address());
    drop((free, other));
    let text = format!(
        "listen = '{listen}'\nadmin = '{admin}'\norigin = 'http://{silent}'\ntoken_file = '{}'\n\
         memory = '900TiB'\ndisk = '/proc/cache'\n",
        directory.path().join("token").display()
    );
    let (code, said) = doctor(directory.path(), &text, &[]);
    assert_eq!(code, Some(2), "{said}");
    has(
        &said,
        &[
            &format!("ok       port           {listen} is free"),
            &format!("listens at {admin}\n                        fix: stop it, or choose another port"),
            "failure  configuration  line 6: `disk` cannot be used",
            "warning  memory",
            "every user of the machine may use the secret",
            &format!("failure  network        the origin {silent} cannot be reached: Connection refused"),
            " clock ",
            " descriptors ",
        ],
    );
}

#[test]
fn doctor_is_content_beside_a_running_edge() {
    let origin = Origin::start(|seen| response("200 OK", &[], seen.target().as_bytes()));
    let edge = Edge::start(&origin.url(), &[]);
    let directory = tempfile::tempdir().unwrap();
    let text =
        format!("listen = '{}'\nadmin = '{}'\norigin = '{}'\n", edge.address, edge.admin, origin.url());
    let (code, said) = doctor(directory.path(), &text, &["--json"]);
    // The machine's clock may have no time server, which is a warning.
    assert!(matches!(code, Some(0 | 1)), "{said}");
    has(&said, &["is served by Petasos", "accepts connections", "\"worst\": "]);
    assert!(!said.contains("\"failure\""), "{said}");
}

#[test]
fn doctor_reports_a_configuration_that_cannot_be_used() {
    let directory = tempfile::tempdir().unwrap();
    let (code, said) = doctor(directory.path(), "orign = 'http://127.0.0.1:9'\n", &[]);
    assert_eq!(code, Some(2));
    has(&said, &["failure  configuration", "orign", "1 failures, 0 warnings"]);
    let (code, _) = doctor(directory.path(), "", &["--user", "nobody-of-this-name"]);
    assert_eq!(code, Some(2));
    let output = petasos(["doctor", "--stack", "--root", "/no-such-directory"]);
    assert_eq!(output.code, Some(2));
    assert!(
        output.stderr.contains("/no-such-directory is no directory; correct --root"),
        "{}",
        output.stderr
    );
}

/// A folder with the configuration of an untuned machine: no opcode cache, a small buffer pool.
fn untuned() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("etc/php/8.2/fpm/php.ini", "memory_limit = 128M\n"),
        ("etc/php/8.2/mods-available/opcache.ini", "zend_extension=opcache.so\n"),
        ("etc/php/8.2/fpm/pool.d/www.conf", "[www]\npm.max_children = 500\n"),
        ("etc/mysql/my.cnf", "[mysqld]\ninnodb_buffer_pool_size = 1K\n"),
        ("usr/sbin/mariadbd", ""),
        ("var/lib/mysql/ibdata1", "more than a thousand bytes: "),
        ("var/www/html/wp-includes/version.php", ""),
        ("var/www/html/wp-config.php", ""),
    ] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.repeat(if text.starts_with("more") { 100 } else { 1 })).unwrap();
    }
    folder
}

#[test]
fn stack_names_missing_layers_with_their_lines() {
    let origin = Origin::start(|seen| match seen.target() {
        "/" => {
            let page = format!("<link rel=stylesheet href=/style.css><p>{}", "text ".repeat(1000));
            response(
                "200 OK",
                &["Content-Type: text/html", "Server: nginx", "Connection: close"],
                page.as_bytes(),
            )
        }
        _ => response("200 OK", &["Content-Type: text/css", "Content-Encoding: gzip"], b"short"),
    });
    let folder = untuned();
    let root = folder.path().to_str().unwrap();
    let output = petasos(["doctor", "--stack", "--root", root, "--url", &format!("{}/", origin.url())]);
    let said = output.stdout;
    assert_eq!(output.code, Some(1), "{said}");
    has(
        &said,
        &[
            "warning  opcode cache   PHP 8.2 (FPM): not loaded",
            "503 pages a second instead of 15.8",
            "fix: run `phpenmod -v 8.2 -s fpm opcache`, then systemctl restart php8.2-fpm",
            "unseen   PHP workers    PHP 8.2 (FPM), pool www: up to 500 workers; none runs",
            "warning  object cache   WordPress at /var/www/html: none",
            "warning  database       MariaDB: a buffer pool of 0.0 MiB for tables of",
            "in line 2 of /etc/mysql/my.cnf, then systemctl restart mariadb",
            "/ is sent uncompressed",
            "fix: write `gzip on;",
            "the server closes the connection after each response",
            "2 of 2 files give browsers no lifetime of an hour, such as /style.css",
            "fix: write `map $sent_http_cache_control$sent_http_content_type $lifetime {",
            "0 failures, 6 warnings",
        ],
    );
    let output = petasos(["doctor", "--stack", "--json", "--root", root]);
    has(&output.stdout, &["\"worst\": \"warning\"", "\"why\": \"without it", "\"level\": \"unseen\""]);
}

#[test]
fn stack_of_this_machine_is_examined_without_failure() {
    let output = petasos(["doctor", "--stack"]);
    assert!(matches!(output.code, Some(0 | 1)), "{}", output.stdout);
    has(&output.stdout, &[" object cache ", " database ", "0 failures, "]);
    let refused = petasos(["doctor", "--stack", "/etc/petasos/petasos.toml"]);
    assert_eq!(refused.code, Some(2));
}
