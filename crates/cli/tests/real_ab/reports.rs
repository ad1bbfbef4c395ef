//! The report as text, with every option that changes it.

use crate::beside::{SAME_NAME, answer, origin, ours, page, theirs};
use crate::lines::{agrees_with_itself, compare, form, number, numbers, report};
use std::time::Duration;
use testkit::{Action, Origin};

#[test]
fn reports_match_ab_for_simple_requests() {
    let origin = page();
    compare(&origin, &["-n", "40", "-c", "4"]);
    compare(&origin, &["-n", "2"]);
    compare(&origin, &[]);
}

#[test]
fn reports_match_ab_with_keep_alive() {
    let origin = page();
    compare(&origin, &["-k", "-n", "40", "-c", "4"]);
    compare(&origin, &["-kn40", "-H", "Accept-Encoding: gzip", "-C", "a=b"]);
}

#[test]
fn reports_match_ab_with_options_for_parts() {
    let origin = page();
    for arguments in [
        &["-n", "20", "-S"][..],
        &["-n", "20", "-d"],
        &["-n", "20", "-S", "-d", "-q"],
        &["-n", "20", "-i"],
        &["-n", "20", "-i", "-k"],
        &["-n", "20", "-r"],
        &["-n", "20", "-v", "1"],
        &["-n", "20", "-A", "u:p", "-P", "u:p"],
        &["-n", "20", "-b", "8192", "-B", "127.0.0.9"],
        &["-n", "20", "-b", "0", "-B", "127.0.0.9"],
        &["-n", "20", "-t", "20", "-n", "20"],
        &["-n", "20", "-s", "20", "-m", "OPTIONS"],
    ] {
        compare(&origin, arguments);
    }
}

#[test]
fn reports_match_ab_for_requests_with_content() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("form");
    std::fs::write(&file, "a=1&b=2").unwrap();
    let file = file.to_str().unwrap();
    let origin = origin("200 OK", |seen, _| seen.head.split(' ').next().unwrap().as_bytes().to_vec());
    let with = |arguments: &[&str]| compare(&origin, &[arguments, &SAME_NAME].concat());
    with(&["-n", "10", "-p", file, "-T", "application/x-www-form-urlencoded"]);
    with(&["-n", "10", "-u", file]);
    with(&["-n", "10", "-k", "-p", file, "-m", "PATCH"]);
    compare(&origin, &["-n", "10", "-p", file]);
    assert!(origin.seen().iter().all(|seen| seen.body == b"a=1&b=2"));
    assert_eq!(origin.seen().iter().filter(|seen| seen.head.starts_with("PUT")).count(), 20);
}

#[test]
fn reports_match_ab_for_responses_of_other_lengths() {
    // The first response is the only one of its length, so both programs count all others as
    // failed.
    let origin = origin("200 OK", |_, number| vec![b'x'; if number.is_multiple_of(20) { 5 } else { 6 }]);
    compare(&origin, &["-n", "20"]);
    compare(&origin, &["-n", "20", "-l"]);
}

/// A server that pauses before a response and in the middle of it.
fn slow(before: Duration, within: Duration) -> Origin {
    Origin::start(move |seen| {
        let mut actions = answer("200 OK", seen, b"hello world");
        let Action::Send(octets) = &mut actions[0] else { panic!("an answer begins with octets") };
        let rest = octets.split_off(octets.len() - 5);
        actions.splice(1..1, [Action::Pause(within), Action::Send(rest)]);
        actions.insert(0, Action::Pause(before));
        actions
    })
}

#[test]
fn reported_times_are_those_of_the_server() {
    let origin = slow(Duration::from_millis(100), Duration::from_millis(60));
    let url = format!("{}/", origin.url());
    for run in [theirs, ours] {
        for arguments in [&["-n", "6", "-c", "2", &url][..], &["-k", "-n", "6", &url]] {
            let report = report(&run(arguments).stdout);
            agrees_with_itself(&report);
            let [waiting, processing, total] =
                ["Waiting:", "Processing:", "Total:"].map(|label| numbers(&report, label));
            for place in [0, 1, 3, 4] {
                // Half a millisecond may have been lost to rounding.
                assert!(processing[place] >= 159.0 && total[place] >= processing[place], "{report:#?}");
                // Waiting time starts when the program notices that the request is sent, which may
                // be late. The same holds for its end.
                assert!(waiting[place] >= 50.0, "{report:#?}");
            }
            assert!(waiting[1] <= processing[1] - 30.0, "{report:#?}");
            assert!(number(&report, "  50%").unwrap() >= 159.0, "{report:#?}");
            let users = number(&report, "Concurrency Level:").unwrap();
            assert!(number(&report, "Time taken for tests:").unwrap() >= 6.0 / users * 0.159, "{report:#?}");
        }
    }
}

#[test]
fn time_limit_ends_both_programs() {
    let origin = slow(Duration::from_millis(150), Duration::ZERO);
    let url = format!("{}/", origin.url());
    let [theirs, ours] = [theirs, ours].map(|run| run(&["-q", "-t", "1", "-c", "3", &url]));
    let [theirs, ours] = [theirs, ours].map(|output| report(&output.stdout));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(form(ours), form(theirs));
    }
    for report in [theirs, ours] {
        let complete = number(&report, "Complete requests:").unwrap();
        assert!(number(&report, "Time taken for tests:").unwrap() >= 0.99, "{report:#?}");
        assert!((1.0..=21.0).contains(&complete), "{report:#?}");
        agrees_with_itself(&report);
    }
}

#[test]
fn progress_goes_to_standard_error() {
    let origin = page();
    let url = format!("{}/", origin.url());
    let their = theirs(&["-n", "300", &url]);
    let our = ours(&["-n", "300", &url]);
    assert_eq!(our.stderr, their.stderr);
    let begins = "\nBenchmarking 127.0.0.1 (be patient)\n\n\nServer Software:";
    assert!(our.stdout.contains(begins) && their.stdout.contains(begins), "{}", our.stdout);
    let their = theirs(&["-q", "-n", "300", &url]);
    let our = ours(&["-q", "-n", "300", &url]);
    assert_eq!((our.stderr.as_str(), their.stderr.as_str()), ("", ""));
    let waiting = "(be patient).....done\n\n\nServer Software:";
    assert!(our.stdout.contains(waiting) && their.stdout.contains(waiting), "{}", our.stdout);
}
