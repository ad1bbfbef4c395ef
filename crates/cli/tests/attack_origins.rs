//! Origins that hang, refuse connections or are slow, behind the real binary. Stored pages must
//! stay fast, the origin must get few requests, and its recovery must be noticed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::print_stdout, reason = "the figures of the attack are its result")]

use clock::Clock;
use platform::SystemClock;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::{Action, Edge, Gate, Origin, Response, Seen, eventually, get, response};

/// Number of pages that are stored and have expired when the origin fails: more than one origin may
/// work on at a time.
const PAGES: usize = 100;
/// A response that takes longer counts as late. On an idle machine a response takes 1 s at most.
const LATE: Duration = Duration::from_millis(1500);
/// Number of late responses that are tolerated, for the sake of a loaded machine.
const LATE_MAX: usize = 40;

/// An origin whose pages expire after a second and may be served stale for a day if it fails, with
/// its edge.
struct FailingSite {
    origin: Origin,
    edge: Edge,
    /// While this is set, the origin answers only once the gate is open.
    hangs: Arc<AtomicBool>,
    gate: Gate,
}

impl FailingSite {
    /// Pages under `/slow/` always wait for the gate.
    fn new() -> Self {
        let hangs = Arc::new(AtomicBool::new(false));
        let gate = Gate::default();
        let is_hung = Arc::clone(&hangs);
        let closed = gate.clone();
        let origin = Origin::start(move |seen: &Seen| {
            let waits = is_hung.load(Ordering::SeqCst) || seen.target().starts_with("/slow/");
            let first = waits.then(|| Action::Await(closed.clone()));
            let fields = ["Cache-Control: max-age=1, stale-while-revalidate=0, stale-if-error=86400"];
            first.into_iter().chain(response("200 OK", &fields, seen.target().as_bytes())).collect()
        });
        let edge = Edge::start(&origin.url(), &[]);
        Self { origin, edge, hangs, gate }
    }

    /// Fills the store and waits until all of it has expired.
    fn filled() -> Self {
        let stage = Self::new();
        (0..PAGES).for_each(|number| assert_eq!(stage.get(&page(number)).status, 200));
        std::thread::sleep(Duration::from_millis(1100));
        stage
    }

    fn get(&self, target: &str) -> Response {
        get(self.edge.address, target, &[])
    }

    /// Waits for `condition` and prints how long that took.
    fn await_return(&self, what: &str, condition: impl Fn() -> bool) {
        let clock = SystemClock::new();
        let begin = clock.monotonic();
        eventually(what, condition);
        let waited = clock.monotonic().since(begin).as_millis();
        println!("attack: {what}: after {waited} ms of at most {}", testkit::PATIENCE.as_millis());
    }
}

fn page(number: usize) -> String {
    format!("/page/{}", number % PAGES)
}

/// Sends `each` requests for the stored pages from each of `clients` concurrent clients. Returns
/// the responses and the number that were late.
fn ask(address: SocketAddr, clients: usize, each: usize) -> (Vec<Response>, usize) {
    let visit = move |client: usize| {
        let clock = SystemClock::new();
        let timed = |number: usize| {
            let begin = clock.monotonic();
            let answer = get(address, &page(client + number * clients), &[]);
            (answer, clock.monotonic().since(begin) > LATE)
        };
        (0..each).map(timed).collect::<Vec<_>>()
    };
    let mut visitors = Vec::new();
    for client in 0..clients {
        visitors.push(std::thread::spawn(move || visit(client)));
    }
    let mut answers = Vec::new();
    for visitor in visitors {
        answers.extend(visitor.join().unwrap());
    }
    let late = answers.iter().filter(|(_, is_late)| *is_late).count();
    (answers.into_iter().map(|(answer, _)| answer).collect(), late)
}

fn reason(answer: &Response) -> String {
    let status = answer.field("Cache-Status").unwrap_or_default();
    status.rsplit("detail=").next().unwrap_or_default().to_owned()
}

#[test]
fn stale_pages_stay_fast_and_passes_work_while_origin_hangs() {
    let stage = FailingSite::filled();
    let before = stage.origin.seen().len();
    stage.hangs.store(true, Ordering::SeqCst);
    let (answers, late) = ask(stage.edge.address, PAGES, 4);
    let visits = answers.len();
    println!("attack: stale pages before a hung origin: {late} of {visits} late, at most {LATE_MAX}");
    let stale = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(stale, visits, "each response is a stale copy");
    assert!(late <= LATE_MAX);
    let asked = stage.origin.seen().len() - before;
    // Until the breaker opens, 64 requests may be in progress; afterwards there are only probes.
    let asked_max = 64 + 16;
    println!("attack: requests at a hung origin: {asked} for {visits} visits, at most {asked_max}");
    assert!(asked <= asked_max);
    let held = || stage.edge.metric("petasos_origin_fetches_active", "") as u64;
    eventually("fetches that no client waits for are given up", || held() <= 10);
    println!("attack: fetches held by a hung origin: {} of at most 10", held());
    let address = stage.edge.address;
    let passed = std::thread::spawn(move || get(address, "/own", &["Cookie: session=1"]).status);
    eventually("a pass reaches the origin", || stage.origin.count("/own") == 1);
    stage.gate.open();
    assert_eq!(passed.join().unwrap(), 200);
    stage.await_return("recovery of a hung origin", || reason(&stage.get("/page/0")) == "hit-fresh");
    eventually("the log tells of both changes", || {
        stage.edge.stderr().matches("petasos: origin ").count() >= 2
    });
}

#[test]
fn refusing_origin_is_probed_rarely_and_its_return_noticed() {
    let stage = FailingSite::filled();
    stage.origin.kill();
    // When this response arrives, the first connection was refused.
    assert_eq!(stage.get(&page(0)).status, 200);
    let (answers, late) = ask(stage.edge.address, 4, 100);
    let attempts = stage.edge.metric("petasos_origin_refusals_total", "");
    let visits = answers.len() + 1;
    // One probe is sent each second, and a loaded machine may need many seconds for these visits.
    println!("attack: attempts to connect to a refusing origin: {attempts} for {visits} visits, at most 25");
    println!("attack: stale pages before a refusing origin: {late} of {visits} late, at most {LATE_MAX}");
    assert!(answers.iter().all(|answer| answer.status == 200), "each response is a stale copy");
    assert!(attempts <= 25.0 && late <= LATE_MAX);
    let misses: Vec<_> = (0..20).map(|number| stage.get(&format!("/unseen/{number}"))).collect();
    let told = misses.iter().filter(|answer| answer.status == 503 && answer.field("Retry-After").is_some());
    let told = told.count();
    println!("attack: misses that are told when to retry: {told} of 20, at least 10");
    assert!(told >= 10, "the others were probes");
    stage.origin.revive();
    stage.await_return("return of a refusing origin", || stage.get("/unseen").status == 200);
}

#[test]
fn slow_pages_leave_the_breaker_closed_while_others_answer() {
    let stage = FailingSite::new();
    let address = stage.edge.address;
    let slow = |number: usize| format!("/slow/{number}");
    let ask = |number: usize| std::thread::spawn(move || get(address, &slow(number), &[]).status);
    let reports = [0, 1, 2].map(ask);
    eventually("the reports are under way", || (0..3).all(|number| stage.origin.count(&slow(number)) == 1));
    for number in 0..6 {
        assert_eq!(stage.get(&format!("/quick/{number}")).status, 200);
        std::thread::sleep(Duration::from_millis(300));
    }
    let changes = stage.edge.metric("petasos_origin_breaker_changes_total", "") as u64;
    println!("attack: changes of the breaker by three slow pages: {changes} of at most 0");
    assert_eq!(changes, 0);
    stage.gate.open();
    assert!(reports.into_iter().all(|report| report.join().unwrap() == 200));
}
