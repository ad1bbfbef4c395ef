//! Flags that `petasos bench --page` shares with a load of single requests: their effect on pages,
//! and the combinations that are refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]
#![allow(clippy::indexing_slicing, reason = "a test that cannot go on panics")]

mod page_server;

use page_server::PageServer;
use report::run::read_runs;
use serde_json::Value;
use testkit::{Action, CommandOutput, Origin, Seen, petasos, response};

const HTML: &str = "Content-Type: text/html";

/// A page with eight pictures and an icon.
fn site(seen: &Seen) -> Vec<Action> {
    let pictures: String = (0..8).map(|number| format!("<img src=/{number}.png>")).collect();
    match seen.target() {
        "/" => response("200 OK", &[HTML], pictures.as_bytes()),
        "/broken" => response("200 OK", &[HTML], b"<img src=/gone>"),
        "/gone" => response("404 Not Found", &[HTML], b"no"),
        _ => response("200 OK", &["Content-Type: image/png"], b"12345678"),
    }
}

/// Runs `bench --page` with a URL and more arguments.
fn bench(url: &str, arguments: &[&str]) -> CommandOutput {
    petasos(["bench", url, "--page"].iter().chain(arguments))
}

/// The JSON of a run, which must succeed.
fn run(url: &str, arguments: &[&str]) -> Value {
    let output = bench(url, &[arguments, &["--json", "-"]].concat());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    serde_json::from_str(&output.stdout).unwrap()
}

#[test]
fn json_of_pages_has_the_thresholds() {
    let origin = Origin::start(site);
    let arguments = ["-n", "2", "--json", "-", "--fail-if", "rate > 0", "--fail-if", "p95 > 30s"];
    let output = bench(&origin.url(), &arguments);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    let run: Value = serde_json::from_str(&output.stdout).unwrap();
    let thresholds = run["thresholds"].as_array().expect("the JSON has no thresholds");
    let judged: Vec<_> = thresholds.iter().map(|one| (one["condition"].as_str(), &one["missed"])).collect();
    assert_eq!(judged, [(Some("rate > 0"), &Value::Bool(true)), (Some("p95 > 30s"), &Value::Bool(false))]);
    assert!(thresholds[0]["found"].as_str().unwrap().ends_with(" pages/s"), "{}", thresholds[0]["found"]);
}

#[test]
fn whole_page_loads_over_one_connection_per_host() {
    let origin = Origin::start(site);
    let run = run(&origin.url(), &["-n", "3", "--connections-per-host", "1"]);
    assert_eq!((&run["connections_per_host_max"], &run["connections"]), (&1.into(), &3.into()));
    assert_eq!(origin.seen().len(), 3 * 10);
}

#[test]
fn connections_per_host_may_exceed_that_of_browsers() {
    // The origin holds each picture until all eight are requested, which takes eight connections.
    let all = std::sync::Arc::new(std::sync::Barrier::new(8));
    let origin = Origin::start(move |seen| {
        if seen.target().ends_with(".png") {
            all.wait();
        }
        site(seen)
    });
    let run = run(&origin.url(), &["-n", "1", "--connections-per-host", "8"]);
    assert_eq!((&run["pages"]["good"], &run["connections"]), (&1.into(), &8.into()));
}

#[test]
fn impossible_numbers_of_connections_are_refused() {
    for (arguments, reason) in [
        (&["--connections-per-host", "0"][..], "--connections-per-host 0: "),
        (&["--connections-per-host", "257"], "--connections-per-host 257: write 1 to 256"),
        (&["--connections-per-host", "2", "--http", "2"], "--connections-per-host does not go with --http 2"),
        (&["--connections-per-address", "2"], "--connections-per-address"),
    ] {
        let output = bench("http://127.0.0.1:9/", arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(reason), "{arguments:?}: {}", output.stderr);
    }
}

#[test]
fn think_time_is_between_pages_and_not_in_page_times() {
    let origin = Origin::start(site);
    let run = run(&origin.url(), &["-n", "3", "--think", "150ms"]);
    assert_eq!((&run["pages"]["good"], origin.count("/")), (&3.into(), 3));
    let loading_s = run["page_times"]["mean_us"].as_f64().unwrap() * 3.0 / 1e6;
    let elapsed_s = run["elapsed_s"].as_f64().unwrap();
    assert!(elapsed_s >= loading_s + 0.3, "{elapsed_s} s for {loading_s} s of pages and two pauses");
    assert_eq!((&run["think_min_s"], &run["think_max_s"]), (&0.15.into(), &0.15.into()));
}

#[test]
fn think_time_with_a_rate_is_refused() {
    let output = bench("http://127.0.0.1:9/", &["--rate", "5", "--think", "1s"]);
    assert_eq!(output.code, Some(2), "{}", output.stderr);
    assert!(output.stderr.contains("--think does nothing here: with a rate, "), "{}", output.stderr);
}

#[test]
fn pages_at_a_rate_do_not_wait_for_each_other() {
    // The origin answers the first page only once the second is requested, which takes two
    // concurrent visitors.
    let both = std::sync::Barrier::new(2);
    let origin = Origin::start(move |seen| {
        if seen.target() == "/" {
            both.wait();
        }
        site(seen)
    });
    let run = run(&origin.url(), &["--rate", "50", "-n", "2", "--timeout", "10s"]);
    assert_eq!((&run["pages"]["good"], &run["pages"]["not_started"]), (&2.into(), &0.into()));
    assert_eq!(run["users"], 5_000);
    for many in ["5001", "10000"] {
        let refused = bench("http://127.0.0.1:9/", &["--rate", "50", "--in-flight-max", many]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        let reason = format!("--in-flight-max {many}: page mode has 1 to 5000 concurrent visitors");
        assert!(refused.stderr.contains(&reason), "{}", refused.stderr);
    }
}

#[test]
fn connections_stay_open_while_the_next_visitor_loads() {
    let server = PageServer::start(|first| first.is_open());
    let run = run(&server.url(), &["-n", "2", "--linger", "1m"]);
    assert_eq!((&run["pages"]["good"], &run["linger_s"]), (&2.into(), &60.0.into()));
    assert!(server.was_true(), "the first visitor's connection was closed");
}

#[test]
fn connections_close_when_the_visitor_leaves() {
    let server = PageServer::start(|first| first.ends());
    let run = run(&server.url(), &["-n", "2", "--linger", "50ms"]);
    assert_eq!(&run["pages"]["good"], &2);
    assert!(server.was_true(), "the first visitor's connection was not closed");
}

#[test]
fn linger_without_keep_alive_is_refused_for_pages() {
    let output = bench("http://127.0.0.1:9/", &["--linger", "1s", "--no-keepalive"]);
    assert_eq!(output.code, Some(2), "{}", output.stderr);
    assert!(output.stderr.contains("--no-keepalive does not go with --page"), "{}", output.stderr);
    let output = petasos(["bench", "http://127.0.0.1:9/", "--linger", "1s"]);
    assert_eq!(output.code, Some(2), "{}", output.stderr);
    assert!(output.stderr.contains("--linger goes with --no-keepalive or --page"), "{}", output.stderr);
}

#[test]
fn csv_of_pages_counts_pages_and_requests() {
    let origin = Origin::start(site);
    let output = bench(&origin.url(), &["-n", "4", "-c", "2", "--csv", "-"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let mut lines = output.stdout.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(names[..3], ["time_s", "second", "pages_started"]);
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| row.len() == names.len()), "{}", output.stdout);
    let sum = |name: &str| {
        let place = names.iter().position(|found| *found == name).unwrap_or_else(|| panic!("no {name}"));
        rows.iter().map(|row| row[place].parse::<u64>().unwrap_or(0)).sum::<u64>()
    };
    assert_eq!((sum("pages_good"), sum("pages_incomplete"), sum("pages_failed")), (4, 0, 0));
    assert_eq!((sum("pages_started"), sum("pages_not_started")), (4, 0));
    assert_eq!((sum("requests"), sum("failed_requests"), sum("status_2xx")), (40, 0, 40));
    assert!(sum("page_p95_us") > 0 && sum("p95_us") > 0 && sum("received_bytes") > 400);
}

#[test]
fn csv_of_pages_counts_the_visitors_of_a_ramp() {
    // Visitors start 0, 500, 1000 and 1500 ms into the run and stay to its end.
    let origin = Origin::start(site);
    let arguments = ["-c", "4", "--ramp-up", "2s", "-t", "2s", "--think", "100ms", "--csv", "-"];
    let output = bench(&origin.url(), &arguments);
    let mut lines = output.stdout.lines();
    let place =
        lines.next().unwrap().split(',').position(|name| name == "users").expect("no column of users");
    let users: Vec<&str> = lines.map(|line| line.split(',').nth(place).unwrap()).collect();
    assert_eq!(users[..2], ["3", "4"], "{}", output.stdout);
}

#[test]
fn csv_of_pages_counts_failures_by_kind() {
    let origin = Origin::start(site);
    let output = bench(&format!("{}/broken", origin.url()), &["-n", "2", "--csv", "-"]);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    let mut lines = output.stdout.lines();
    let place = lines.next().unwrap().split(',').position(|name| name == "failed_status").unwrap();
    let failed: u64 = lines.map(|line| line.split(',').nth(place).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(failed, 2, "{}", output.stdout);
    assert!(output.stderr.contains("Incomplete pages:    2"), "{}", output.stderr);
}

#[test]
fn stored_runs_of_pages_are_compared_by_their_pages() {
    let origin = Origin::start(site);
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let pages = path("pages.json");
    let requests = path("requests.json");
    assert_eq!(bench(&origin.url(), &["-n", "2", "--json", &pages]).code, Some(0));
    let output = petasos(["compare", &pages, &pages]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains(" pages/s") && !output.stdout.contains("req/s"), "{}", output.stdout);
    petasos(["bench", &origin.url(), "-n", "2", "--json", &requests]);
    let mixed = petasos(["compare", &pages, &requests]);
    assert_eq!(mixed.code, Some(2), "{}", mixed.stdout);
    assert!(mixed.stderr.contains("cannot be compared with runs of pages"), "{}", mixed.stderr);
}

#[test]
fn urls_are_compared_by_their_pages() {
    let one = Origin::start(site);
    let other = Origin::start(site);
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("runs").to_str().unwrap().to_owned();
    let one = one.url();
    let other = other.url();
    let arguments = ["compare", &one, &other, "--page", "-n", "1", "--rounds", "2", "--out", &out];
    let output = petasos(arguments);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(
        output.stderr.contains("round 2 of 2: ") && output.stderr.contains(" pages/s  "),
        "{}",
        output.stderr
    );
    let kept = read_runs(&std::fs::read_to_string(format!("{out}/b.json")).unwrap()).unwrap();
    let rounds: Vec<_> = kept.iter().map(|run| run.round.as_ref().unwrap().number).collect();
    assert_eq!(rounds, [1, 2]);
    let again = petasos(["compare", &format!("{out}/a.json"), &format!("{out}/b.json"), "--json", "-"]);
    let comparison: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((&comparison["unit"], &comparison["sides"][1]["runs"]), (&"pages".into(), &2.into()));
    let refused = petasos(["compare", &one, &other, "--page", "--no-keepalive"]);
    assert!(refused.stderr.contains("--no-keepalive does not go with --page"), "{}", refused.stderr);
    let stored = petasos(["compare", &out, &out, "--page"]);
    assert!(stored.stderr.contains("--page says how to load URLs"), "{}", stored.stderr);
}
