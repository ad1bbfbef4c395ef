//! `petasos compare` from the user's view: files, directories, URLs, exit codes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use report::run::{Run, read_runs};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Origin, binary, eventually, petasos, response};

/// Writes five runs with about this rate into files of a directory.
fn record(directory: &Path, good_per_s: f64) {
    std::fs::create_dir_all(directory).unwrap();
    for place in 0..5 {
        let run = Run { good_per_s: Some(good_per_s + f64::from(place)), ..Run::of_source("petasos") };
        std::fs::write(directory.join(format!("{place}.json")), run.to_json()).unwrap();
    }
}

#[test]
fn comparison_of_stored_runs_ends_in_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let before = directory.path().join("before");
    let after = directory.path().join("after");
    record(&before, 1000.0);
    record(&after, 800.0);
    let before = before.to_str().unwrap();
    let after = after.to_str().unwrap();
    let output = petasos(["compare", before, after]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let sentence =
        "B is slower than A by 20.0% (19.7% to 20.2%): throughput, 95% interval, p = 0.0079, 5 and 5 runs.\n";
    assert!(output.stdout.ends_with(sentence), "{}", output.stdout);
    let slower = petasos(["compare", before, after, "--fail-if-slower"]);
    let reason = "petasos: exit code 1: a side is slower than the first (--fail-if-slower)\n";
    assert_eq!((slower.code, slower.stderr.as_str()), (Some(1), reason));
    assert_eq!(petasos(["compare", after, before, "--fail-if-slower"]).code, Some(0));
    let same = petasos(["compare", before, before]);
    assert!(same.stdout.contains("No difference between A and B is shown"), "{}", same.stdout);
    let json = petasos(["compare", before, after, "--json", "-"]);
    assert!(json.stdout.contains("\"verdict\": \"slower\""), "{}", json.stdout);
    assert!(json.stderr.ends_with(sentence), "{}", json.stderr);
}

#[test]
fn each_file_is_a_side_unless_separators_group_the_files() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), 1000.0);
    let files: Vec<String> = (0..4)
        .map(|place| directory.path().join(format!("{place}.json")).to_str().unwrap().to_owned())
        .collect();
    let [a, b, c, d] = files.as_slice() else { unreachable!() };
    let output = petasos(["compare", a, b, "--", c, "--", d]);
    assert!(output.stdout.contains("(2 runs)\nB  ") && output.stdout.contains("\nC  "), "{}", output.stdout);
    assert!(output.stdout.contains("No verdict on B: it takes 5 runs a side;"), "{}", output.stdout);
    let output = petasos(["compare", a, b]);
    assert!(output.stdout.contains("(1 and 1 runs)"), "{}", output.stdout);
}

#[test]
fn directories_with_reports_of_other_tools_are_sides() {
    let directory = tempfile::tempdir().unwrap();
    for (side, rate) in [("before", 500), ("after", 250)] {
        let path = directory.path().join(side);
        std::fs::create_dir_all(&path).unwrap();
        for place in 0..5 {
            let report = include_str!("../../load/report/tests/data/ab.txt")
                .replace("second:    550.81", &format!("second:    {}", rate + place));
            std::fs::write(path.join(format!("{place}.txt")), report).unwrap();
        }
    }
    let side = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let output = petasos(["compare", &side("before"), &side("after")]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let last = output.stdout.lines().last().unwrap_or_default();
    assert!(last.starts_with("B is slower than A by ") && last.contains("throughput"), "{}", output.stdout);
}

#[test]
fn urls_are_loaded_in_rounds_and_their_runs_kept() {
    let fast = Origin::start(|_| response("200 OK", &[], b"hello"));
    let slow = Origin::start(|_| response("200 OK", &[], b"hello"));
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("runs");
    let out = out.to_str().unwrap();
    let a = fast.url();
    let b = slow.url();
    let output = petasos([
        "compare",
        &a,
        &b,
        "-n",
        "20",
        "--rounds",
        "7",
        "--out",
        out,
        "--order-seed",
        "3",
        "--accept-invalid",
    ]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!((fast.count("/"), slow.count("/")), (140, 140));
    assert_eq!(output.stderr.lines().filter(|line| line.starts_with("round 7 of 7: ")).count(), 2);
    assert!(output.stdout.contains("97.5% interval"), "{}", output.stdout);
    assert!(!output.stdout.contains("not interleaved"), "{}", output.stdout);
    let stored = read_runs(&std::fs::read_to_string(format!("{out}/b.json")).unwrap()).unwrap();
    assert_eq!(stored.len(), 7);
    assert!(output.stdout.lines().last().unwrap().contains("7 rounds"), "{}", output.stdout);
    let again = petasos([
        "compare",
        &format!("{out}/a.json"),
        &format!("{out}/b.json"),
        "--order-seed",
        "3",
        "--accept-invalid",
    ]);
    let end = |text: &str| text.lines().last().unwrap().to_owned();
    assert_eq!(end(&again.stdout), end(&output.stdout));
    let twice = petasos(["compare", &a, &b, "--rounds", "1", "--out", out]);
    assert_eq!(twice.code, Some(2));
    assert!(twice.stderr.contains("a.json: File exists"), "{}", twice.stderr);
}

#[test]
fn impossible_comparison_exits_with_2_and_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), 1000.0);
    let runs = directory.path().to_str().unwrap();
    let failing = Origin::start(|_| response("500 Internal Server Error", &[], b"no"));
    let url = &failing.url();
    for (arguments, reason) in [
        (&[runs][..], "a comparison needs at least two sides"),
        (&[runs, "/nonexistent.json"], "cannot read /nonexistent.json"),
        (&[runs, url], "URLs and stored runs cannot be compared"),
        (&[runs, runs, "-c", "10"], "--users says how to load URLs"),
        (&[runs, runs, "--rounds", "10"], "--rounds says how to load URLs"),
        (&[runs, runs, "--on", "p98"], "p98"),
        (&[url, url, "-n", "1", "--rounds", "1"], "no good response in round 1: status 1"),
        (&[url, url, "--rounds", "0"], "0"),
        (&[url], "a comparison needs at least two sides"),
    ] {
        let output = petasos([&["compare"][..], arguments].concat());
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(output.stderr.contains(reason), "{arguments:?}: {}", output.stderr);
    }
}

#[test]
fn interrupted_comparison_explains_exit_code_one() {
    for mode in [&[][..], &["--page"]] {
        let origin = Origin::start(|_| response("200 OK", &["Content-Type: text/html"], b"hello"));
        let url = origin.url();
        let mut command = Command::new(binary());
        command.args(["compare", &url, &url, "-t", "1h", "--rounds", "1"]).args(mode);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("requests arrive", || origin.count("/") > 10);
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let mut text = String::new();
        let code = child.wait().unwrap().code();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        let told = "petasos: exit code 1: the comparison was interrupted in round 1 of 1\n";
        assert_eq!((code, text.as_str()), (Some(1), told), "{mode:?}");
    }
}

#[test]
fn interrupt_between_two_rounds_ends_the_comparison() {
    let origin = Origin::start(|_| response("200 OK", &[], b"hello"));
    let url = origin.url();
    let mut command = Command::new(binary());
    command.args(["compare", &url, &url, "-n", "1", "--rounds", "200", "--accept-invalid"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut told = String::new();
    stderr.read_line(&mut told).unwrap();
    assert!(told.starts_with("round 1 of 200: "), "{told}");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    stderr.read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{told}");
    assert!(told.contains("the comparison was interrupted in round "), "{told}");
    assert!(origin.count("/") < 400, "the interruption was ignored");
}

#[test]
fn rounds_before_a_failure_are_compared() {
    let good = Origin::start(|_| response("200 OK", &[], b"hello"));
    let number = AtomicUsize::new(0);
    let failing = Origin::start(move |_| {
        let is_good = number.fetch_add(1, Ordering::SeqCst) < 2;
        response(if is_good { "200 OK" } else { "500 Internal Server Error" }, &[], b"hello")
    });
    let a = good.url();
    let b = failing.url();
    let output = petasos(["compare", &a, &b, "-n", "1", "--rounds", "5", "--accept-invalid"]);
    assert_eq!(output.code, Some(2), "{}", output.stderr);
    assert!(output.stderr.contains("no good response in round 3: status 1"), "{}", output.stderr);
    assert!(output.stdout.contains("No verdict on B"), "{}", output.stdout);
}

#[test]
fn too_many_urls_are_refused_before_they_are_loaded() {
    let origin = Origin::start(|_| response("200 OK", &[], b"hello"));
    let url = origin.url();
    let urls = vec![url.as_str(); 27];
    let output = petasos([&["compare", "-n", "1", "--rounds", "1"][..], &urls].concat());
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""));
    assert!(output.stderr.contains("27 sides are too many; compare at most 26"), "{}", output.stderr);
    assert_eq!(origin.count("/"), 0);
}
