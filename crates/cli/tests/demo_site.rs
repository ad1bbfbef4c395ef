//! `petasos demo site` as a process: it prints its address, and ends on a signal or when its parent
//! has ended.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on panics")]

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const PETASOS: &str = env!("CARGO_BIN_EXE_petasos");

/// Starts a command that prints the site's address.
fn start(command: &mut Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

fn site(data: &Path) -> Command {
    let mut command = Command::new(PETASOS);
    command.args(["demo", "site", "--listen", "127.0.0.1:0", "--workers", "1", "--data"]).arg(data);
    command
}

/// The address in the line that reports the site as ready.
fn address(out: &mut BufReader<ChildStdout>) -> SocketAddr {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let address =
        line.trim().strip_prefix("petasos demo site: http://").and_then(|rest| rest.strip_suffix('/'));
    address.unwrap_or_else(|| panic!("not the line: {line}")).parse().unwrap()
}

#[test]
fn signal_ends_the_site_with_success() {
    let data = tempfile::tempdir().unwrap();
    for signal in ["TERM", "INT"] {
        let (mut child, mut out) = start(site(data.path()).args(["--page-cache", "--opcode-cache"]));
        let address = address(&mut out);
        let status = testkit::get(address, "/_status", &[]);
        assert!(
            status.text().contains(r#""aggressive":false,"objects":false,"opcode":true,"page_cache":true"#)
        );
        assert!(
            Command::new("kill")
                .args([format!("-{signal}"), child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal}");
        assert!(TcpStream::connect(address).is_err());
    }
}

#[test]
fn site_does_not_outlive_its_parent() {
    let data = tempfile::tempdir().unwrap();
    // The shell starts the site and waits. It is killed with SIGKILL, so it cannot pass a signal
    // on.
    let script = r#""$0" demo site --listen 127.0.0.1:0 --workers 1 --data "$1" & wait"#;
    let (mut shell, mut out) = start(Command::new("sh").args(["-c", script, PETASOS]).arg(data.path()));
    let address = address(&mut out);
    assert_eq!(testkit::get(address, "/robots.txt", &[]).status, 200);
    shell.kill().unwrap();
    shell.wait().unwrap();
    testkit::eventually("the site ends with its parent", || TcpStream::connect(address).is_err());
}

#[test]
fn unusable_data_directory_is_named() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = site(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&file.display().to_string()), "{said}");
}
