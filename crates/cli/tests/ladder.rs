//! `petasos ladder` as users run it: exit codes, messages, Ctrl-C at any moment, resumption.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use testkit::{Action, Origin, eventually, response};

/// A site with a page that never changes and takes 5 ms.
fn site() -> Origin {
    Origin::start(|_| {
        let answer = response("200 OK", &["X-Cache: off"], b"<title>Shop</title>");
        std::iter::once(Action::Pause(Duration::from_millis(5))).chain(answer).collect()
    })
}

/// A ladder of one step, with a service whose processes can be found by the argument `marker`. Its
/// loads end after a number of requests and not after a time, because a short time could pass
/// without any response.
fn ladder(directory: &Path, site: &Origin, marker: &str, rounds: u32) -> PathBuf {
    let text = format!(
        r#"
        title = "Test site"
        page = "/"
        rounds = {rounds}
        warmup = "0s"
        duration = "60s"
        [[service]]
        name = "sleeper"
        command = ["sh", "-c", "sleep {marker} & sleep {marker}; wait"]
        [[step]]
        id = "off"
        title = "no cache"
        about = "Nothing is kept."
        concurrency = 2
        requests_max = 50
        address = "{}"
        proof = [{{ header = "X-Cache", is = "off" }}]
        "#,
        site.address()
    );
    let file = directory.join("ladder.toml");
    std::fs::write(&file, text).unwrap();
    file
}

fn petasos(file: &Path, out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasos"));
    command.arg("ladder").arg(file).arg("--out").arg(out).stdin(Stdio::null());
    command
}

/// Number of processes on this machine with the command line `sleep MARKER`.
fn sleepers(marker: &str) -> usize {
    let wanted = format!("sleep\0{marker}\0");
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| line == wanted.as_bytes()).count()
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status().unwrap();
    assert!(sent.success());
}

fn runs(out: &Path) -> usize {
    let journal = std::fs::read_to_string(out.join("journal.jsonl")).unwrap_or_default();
    journal.lines().filter(|line| line.starts_with("{\"run\"")).count()
}

#[test]
fn walk_prints_its_table_and_the_path_of_the_report() {
    let directory = tempfile::tempdir().unwrap();
    let site = site();
    let out = directory.path().join("out");
    let output = petasos(&ladder(directory.path(), &site, "7001.1", 1), &out).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "silent in a pipe");
    assert!(!text.contains("ab -"), "no command for a site that is gone: {text}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    let command = "ab -l -t 60 -n 50 -c 2 -H 'Accept-Encoding: gzip, deflate, br, zstd' &quot;$URL&quot;";
    assert!(page.contains(command), "{page}");
    assert!(
        text.contains("report.html") && out.join("report.html").exists() && out.join("results.json").exists()
    );
    assert_eq!(sleepers("7001.1"), 0);
}

#[test]
fn interrupted_walk_leaves_no_process_and_keeps_measurements() {
    let directory = tempfile::tempdir().unwrap();
    let site = site();
    let out = directory.path().join("out");
    // There are enough rounds that even a slow test sends its signals before the last one.
    let file = ladder(directory.path(), &site, "7002.1", 20);
    for (name, at_least) in [("INT", 0), ("TERM", 1), ("INT", 2)] {
        let child = petasos(&file, &out).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("the service runs", || sleepers("7002.1") == 2);
        eventually("some runs are in the journal", || runs(&out) >= at_least);
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let last = last_line(&output.stderr);
        assert!(last.starts_with("petasos: exit code 1: the walk was interrupted"), "{last}");
        assert_eq!(sleepers("7002.1"), 0, "after SIG{name}");
    }
    let kept = std::fs::read_to_string(out.join("journal.jsonl")).unwrap();
    let output = petasos(&file, &out).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let journal = std::fs::read_to_string(out.join("journal.jsonl")).unwrap();
    assert!(journal.starts_with(&kept), "what was measured stays as it was");
    assert_eq!(runs(&out), 20);
}

#[test]
fn killed_ladder_ends_its_services_and_can_be_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let site = site();
    let out = directory.path().join("out");
    let file = ladder(directory.path(), &site, "7003.1", 3);
    // The kernel ends the process that the ladder started, but not the children of that process. So
    // the service here is a single process.
    let text = std::fs::read_to_string(&file).unwrap();
    let direct =
        text.replace("[\"sh\", \"-c\", \"sleep 7003.1 & sleep 7003.1; wait\"]", "[\"sleep\", \"7003.1\"]");
    assert_ne!(text, direct);
    std::fs::write(&file, direct).unwrap();
    let mut child = petasos(&file, &out).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("a run is in the journal", || runs(&out) >= 1);
    assert_eq!(sleepers("7003.1"), 1);
    signal(&child, "KILL");
    child.wait().unwrap();
    eventually("the service is gone", || sleepers("7003.1") == 0);
    let output = petasos(&file, &out).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(runs(&out), 3);
}

#[test]
fn ladder_that_cannot_be_walked_exits_with_2_and_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let site = site();
    let out = directory.path().join("out");
    let file = ladder(directory.path(), &site, "7004.1", 1);
    let text = std::fs::read_to_string(&file).unwrap();
    let told = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let output = petasos(&file, &out).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    let unknown = told(&text.replace("concurrency", "concurency"));
    assert!(
        unknown.contains("ladder.toml:14:9") && unknown.contains("did you mean `concurrency`?"),
        "{unknown}"
    );
    let dead = told(&text.replace("[\"sh\"", "[\"/no/such/program\""));
    assert!(dead.contains("service `sleeper`"), "{dead}");
    let missing = petasos(&directory.path().join("none.toml"), &out).output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8(missing.stderr).unwrap().contains("none.toml"));
}

#[test]
fn void_step_exits_with_1_and_the_reason_in_the_last_line() {
    let directory = tempfile::tempdir().unwrap();
    let site = site();
    let file = ladder(directory.path(), &site, "7005.1", 1);
    let text = std::fs::read_to_string(&file).unwrap().replace("is = \"off\"", "is = \"on\"");
    std::fs::write(&file, text).unwrap();
    let output = petasos(&file, &directory.path().join("out")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("VOID: round 1: the layer is not proven: found X-Cache: off"), "{text}");
    let reason = "petasos: exit code 1: step `off` with 2 users is void: round 1: the layer is not proven: ";
    assert!(last_line(&output.stderr).starts_with(reason), "{output:?}");
}

#[test]
fn void_step_that_shows_a_breakdown_exits_with_0() {
    let directory = tempfile::tempdir().unwrap();
    let site = site();
    let file = ladder(directory.path(), &site, "7010.1", 1);
    let text = std::fs::read_to_string(&file).unwrap().replace("is = \"off\"", "is = \"on\"");
    let text = text.replacen("id = \"off\"", "id = \"off\"\nbreaks_down = true", 1);
    std::fs::write(&file, text).unwrap();
    let output = petasos(&file, &directory.path().join("out")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("VOID: round 1: the layer is not proven: found X-Cache: off"), "{text}");
}

/// The last line of standard error.
fn last_line(stderr: &[u8]) -> String {
    String::from_utf8_lossy(stderr).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn staying_ladder_with_a_void_step_exits_with_1() {
    let directory = tempfile::tempdir().unwrap();
    let site = site();
    let file = ladder(directory.path(), &site, "7009.1", 1);
    let text = std::fs::read_to_string(&file).unwrap().replace("is = \"off\"", "is = \"on\"");
    std::fs::write(&file, text).unwrap();
    let mut command = petasos(&file, &directory.path().join("out"));
    command.arg("--stay").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("URL='")), "it stays");
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(last_line(&output.stderr).contains("exit code 1: step `off` with 2 users is void"), "{output:?}");
}

#[test]
fn report_is_rebuilt_from_the_results_alone() {
    let directory = tempfile::tempdir().unwrap();
    let site = site();
    let out = directory.path().join("out");
    let walked = petasos(&ladder(directory.path(), &site, "7006.1", 1), &out).output().unwrap();
    let page = out.join("report.html");
    let results = out.join("results.json");
    let first = std::fs::read(&page).unwrap();
    std::fs::remove_file(&page).unwrap();
    let report = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_petasos"));
        command.arg("report").args(arguments).arg(&results).output().unwrap()
    };
    let again = report(&[]);
    assert!(again.status.success(), "{again:?}");
    assert_eq!(std::fs::read(&page).unwrap(), first);
    let text = |output: &std::process::Output| String::from_utf8(output.stdout.clone()).unwrap();
    let before_paths = |text: String| text.split("Report:").next().unwrap().to_owned();
    assert_eq!(before_paths(text(&again)), before_paths(text(&walked)));
    let markdown = text(&report(&["--markdown"]));
    assert!(markdown.starts_with("# Test site\n") && markdown.contains("\n    ab -l -t 60 "), "{markdown}");
    assert!(text(&report(&["--verbose"])).len() > text(&again).len());
    let measured = std::fs::read(&results).unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&out, &link).unwrap();
    for own in [results.clone(), out.join("../out/results.json"), link.join("results.json")] {
        let refused = report(&["--out", own.to_str().unwrap()]);
        assert_eq!(refused.status.code(), Some(2), "{}", own.display());
        assert_eq!(std::fs::read(&results).unwrap(), measured, "{}", own.display());
    }
    std::fs::write(&results, "{}").unwrap();
    assert_eq!(report(&[]).status.code(), Some(2));
}

#[test]
fn staying_ladder_switches_to_the_steps_that_are_typed() {
    let directory = tempfile::tempdir().unwrap();
    let site = site();
    let out = directory.path().join("out");
    let file = ladder(directory.path(), &site, "7007.1", 1);
    let mut command = petasos(&file, &out);
    command.arg("--stay").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let url = format!("URL='http://{}/'", site.address());
    assert!(lines.any(|line| line == url), "the last step is on");
    let mut input = child.stdin.take().unwrap();
    for (asked, answer) in [("9\n1\n", &url), ("off\n", &url)] {
        input.write_all(asked.as_bytes()).unwrap();
        assert_eq!(lines.next().as_ref(), Some(answer), "after {asked:?}");
    }
    assert_eq!(sleepers("7007.1"), 2, "the services still run");
    signal(&child, "INT");
    assert!(child.wait().unwrap().success());
    assert_eq!(sleepers("7007.1"), 0);
}

#[test]
fn staying_ladder_in_the_background_is_not_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let site = site();
    let out = directory.path().join("out");
    let file = ladder(directory.path(), &site, "7008.1", 1);
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let controller = openpt(flags).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let keyboard = ioctl_tiocgptpeer(&controller, flags).unwrap();
    // A shell with job control on this terminal, and the ladder as its background job.
    let script = r#"set -m; "$@" & echo "$!"; wait "$!""#;
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_petasos"), "ladder"]);
    command.arg(&file).arg("--out").arg(&out).arg("--stay");
    let mut shell = command.stdin(keyboard).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines().map(Result::unwrap);
    let ladder = lines.next().unwrap();
    let url = format!("URL='http://{}/'", site.address());
    assert!(lines.any(|line| line == url), "it stays");
    // A stopped process would not react to SIGINT until it is continued.
    eventually("it looks at its terminal, or is stopped by that", || has_looked(&ladder));
    assert!(Command::new("kill").args(["-INT", &ladder]).status().unwrap().success());
    eventually("it has ended", || sleepers("7008.1") == 0);
    assert!(shell.wait().unwrap().success());
}

/// Whether the thread that reads the terminal sleeps or is stopped.
fn has_looked(pid: &str) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the ladder still runs");
    let threads = tasks.filter_map(|task| {
        let path = task.unwrap().path();
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        (name.trim() == "keyboard").then_some(status)
    });
    threads.into_iter().any(|status| status.contains("State:\tS") || status.contains("State:\tT"))
}
