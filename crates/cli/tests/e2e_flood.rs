//! The real binary under a flood: a crowd on one page, crawlers on all others, and a few people
//! among them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use clock::{Clock as _, Monotonic};
use platform::SystemClock;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::{Action, CommandOutput, Edge, Origin, eventually, get, petasos, response};

/// Number of requests that the application may work on at a time.
const FETCHES_MAX: usize = 4;
/// Time that the application takes for a page, at least.
const WORK: Duration = Duration::from_millis(10);
const USERS: usize = 2_000;
const CRAWLERS: usize = 64;
const ROBOT: &str = "User-Agent: Mozilla/5.0 (compatible; Somebot/1.0)";
const PERSON: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";

/// An application that takes [`WORK`] for a page, and the times at which it began each page.
fn application() -> (Origin, Arc<Mutex<Vec<Monotonic>>>) {
    let begun = Arc::new(Mutex::new(Vec::new()));
    let clock = SystemClock::new();
    let origin = Origin::start({
        let begun = Arc::clone(&begun);
        move |seen| {
            begun.lock().unwrap().push(clock.monotonic());
            let answer = response("200 OK", &["Cache-Control: max-age=600"], seen.target().as_bytes());
            [vec![Action::Pause(WORK)], answer].concat()
        }
    });
    (origin, begun)
}

/// The largest number of pages begun within one [`WORK`]. As a page takes at least that long, all
/// of these were in progress at the same time.
fn at_a_time(begun: &[Monotonic]) -> usize {
    let mut window = VecDeque::new();
    let counts = begun.iter().map(|&now| {
        window.push_back(now);
        while window.front().is_some_and(|&first| now.since(first) >= WORK) {
            window.pop_front();
        }
        window.len()
    });
    counts.max().unwrap_or(0)
}

/// Requests pages that were never requested before, as crawlers do.
fn crawl(edge: &Edge, directory: &Path) -> CommandOutput {
    let file = directory.join("urls");
    let mut urls = String::new();
    (0..2_000).for_each(|number| writeln!(urls, "http://{}/archive/{number}", edge.address).unwrap());
    std::fs::write(&file, urls).unwrap();
    let url = format!("http://{}/", edge.address);
    let users = CRAWLERS.to_string();
    let urls = file.to_str().unwrap();
    petasos(["bench", "-n", "1000", "-c", &users, "--urls", urls, "-H", ROBOT, "--accept-invalid", &url])
}

/// Requests one page from many users.
fn crowd(edge: &Edge) -> CommandOutput {
    let url = format!("http://{}/crowd", edge.address);
    let users = USERS.to_string();
    petasos(["bench", "-n", "40000", "-c", &users, "--json", "-", "--accept-invalid", &url])
}

#[test]
fn flood_respects_the_fetch_limit_and_serves_people_first() {
    let (origin, begun) = application();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("petasos.toml");
    let limits = format!("[limits]\nfetches_max = {FETCHES_MAX}\nqueue_max = 32\n");
    std::fs::write(&file, limits).unwrap();
    let edge = Edge::start(&origin.url(), &[file.to_str().unwrap()]);
    let people: Vec<u16> = std::thread::scope(|scope| {
        let (crawlers, crowd) =
            (scope.spawn(|| crawl(&edge, directory.path())), scope.spawn(|| crowd(&edge)));
        eventually("crawlers fill the queue", || edge.metric("petasos_origin_fetches_waiting", "") >= 16.0);
        let people = (0..20).map(|number| get(edge.address, &format!("/post/{number}"), &[PERSON]).status);
        let people = people.collect();
        let crawlers = crawlers.join().unwrap();
        let crowd = crowd.join().unwrap();
        // A request that finds no place in the queue is refused, so crawlers may exit with 1.
        assert!(matches!(crawlers.code, Some(0 | 1)), "{}", crawlers.stderr);
        let run: serde_json::Value = serde_json::from_str(&crowd.stdout).unwrap();
        assert_eq!(run["good"].as_u64(), Some(40_000), "{run}");
        people
    });
    assert_eq!(people, [200; 20], "people among crawlers");
    assert_eq!(origin.count("/crowd"), 1, "the crowd is answered from the store");
    let at_a_time = at_a_time(&begun.lock().unwrap());
    assert!((1..=FETCHES_MAX).contains(&at_a_time), "{at_a_time} at a time");
    for gauge in ["petasos_origin_fetches_waiting", "petasos_origin_fetches_active", "petasos_flights_open"] {
        eventually(gauge, || edge.metric(gauge, "") <= 0.0);
    }
}
