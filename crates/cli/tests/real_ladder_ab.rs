//! Runs the `ab` commands of a ladder's report with ApacheBench while the ladder stays up.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use testkit::{Action, Origin, Seen, response};

/// A page. Afterwards the connection stays open only if the client asked for that.
fn page(seen: &Seen) -> Vec<Action> {
    let kept = seen.field("Connection").is_some_and(|value| value.eq_ignore_ascii_case("keep-alive"));
    let connection = if kept { "Connection: keep-alive" } else { "Connection: close" };
    let mut actions = response("200 OK", &["X-Cache: off", connection], b"<title>Shop</title>");
    if !kept {
        actions.push(Action::Close);
    }
    actions
}

#[test]
fn ab_command_of_the_report_works_while_the_ladder_stays() {
    let site = Origin::start(page);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ladder.toml");
    let out = directory.path().join("out");
    let text = format!(
        r#"
        title = "Test site"
        page = "/a?b=c"
        rounds = 1
        warmup = "0s"
        duration = "60s"
        [[step]]
        id = "off"
        title = "no cache"
        about = "Nothing is kept."
        concurrency = 2
        requests_max = 50
        address = "{}"
        host = "shop.example"
        proof = [{{ header = "X-Cache", is = "off" }}]
        also = [{{ keepalive = true }}]
        "#,
        site.address()
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasos"));
    command.arg("ladder").arg(&file).arg("--out").arg(&out).arg("--stay");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let url = lines.find(|line| line.starts_with("URL=")).unwrap();
    let results = std::fs::read(out.join("results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_slice(&results).unwrap();
    let commands: Vec<&str> =
        results["cells"].as_array().unwrap().iter().map(|cell| cell["ab"].as_str().unwrap()).collect();
    assert_eq!(commands.iter().map(|ab| ab.contains(" -k ")).collect::<Vec<_>>(), [false, true]);
    for ab in commands {
        let count = site.count("/a?b=c");
        let run = Command::new("sh").args(["-c", &format!("{url}\n{ab}")]).output().unwrap();
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(said.contains("Complete requests:      50"), "Debian's apache2-utils has ab: {run:?}");
        assert!(said.contains("Failed requests:        0"), "{said}");
        assert!(site.count("/a?b=c") >= count + 50);
    }
    let asked = Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap();
    assert!(asked.success() && child.wait().unwrap().success());
}
