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
}
