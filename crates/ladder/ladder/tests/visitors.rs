//! Loads with visitors who log in and visitors who write. The site runs in this process and
//! recognises its users by a cookie. Loads end after a fixed number of responses of some
//! milliseconds each, so that writes happen meanwhile.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

use petasos_ladder::{Choice, Observer, Options, StopFlag, WalkStatus, World, read_ladder, walk};
use platform::{SystemClock, SystemDisk};
use report::results::{CellRecord, Measured, Results, VisitOutcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::{Action, Origin, response};

/// Faults of the site.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// After some requests, anonymous visitors receive the page of a logged-in visitor.
    Leaks,
    /// The site recognises no visitor by cookie.
    Forgets,
    /// The page of the meter can be read only once.
    CountsOnce,
    /// Every write is refused.
    Refuses,
}

/// A site that greets its users. Each write changes its page until it is undone.
fn site(fault: Fault) -> Origin {
    let (written, asked, counted) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0), AtomicUsize::new(0));
    Origin::start(move |seen| {
        let user = seen.field("Cookie").and_then(|cookie| cookie.strip_prefix("user="));
        let user = user.filter(|_| fault != Fault::Forgets);
        let body = String::from_utf8_lossy(&seen.body).into_owned();
        match seen.target() {
            "/login" if body.ends_with("password=a+%26+b") => {
                let name = body.split(['=', '&']).nth(1).unwrap();
                response("302 Found", &[&format!("Set-Cookie: user={name}; Path=/"), "Location: /"], b"")
            }
            "/token" if user.is_some() => response("200 OK", &[], b"<input name=t value=\"t17\">"),
            "/write"
                if user == Some("ada-1")
                    && seen.field("X-Token") == Some("t17")
                    && fault != Fault::Refuses =>
            {
                assert!(body.starts_with("{\"note\":\"17"), "{body}");
                written.fetch_add(1, Ordering::SeqCst);
                response("200 OK", &[], b"")
            }
            "/login" | "/token" | "/write" => response("403 No", &[], b""),
            "/undo" => {
                written.store(0, Ordering::SeqCst);
                response("200 OK", &[], b"")
            }
            "/count" if fault == Fault::CountsOnce && counted.fetch_add(1, Ordering::SeqCst) > 0 => {
                response("500 Oh", &[], b"")
            }
            "/count" => response("200 OK", &[], b"{\"n\":1}"),
            target => {
                // The proofs before the load send fewer requests than this; the load sends more.
                let often = asked.fetch_add(1, Ordering::SeqCst) > 20;
                let notes = if target == "/" { written.load(Ordering::SeqCst) } else { 0 };
                let (greeting, verdict) = match user {
                    Some(user) => (format!("Hello, {user}"), "fwd=bypass"),
                    None if fault == Fault::Leaks && often => ("Hello, ada-1".to_owned(), "hit"),
                    None => ("Log in".to_owned(), "hit"),
                };
                let verdict = format!("Cache-Status: edge; {verdict}");
                let page = format!("{greeting}, {notes} notes");
                let answer = response("200 OK", &["X-Cache: on", &verdict], page.as_bytes());
                std::iter::once(Action::Pause(Duration::from_millis(5))).chain(answer).collect()
            }
        }
    })
}

fn text(site: &Origin) -> String {
    let address = site.address();
    format!(
        r#"
        title = "Test site"
        page = "/"
        rounds = 1
        warmup = "0s"
        duration = "60s"
        bystander = "/search?q={{unique}}"
        bystander_session = "reader"
        [[session]]
        name = "reader"
        visitors = 3
        shows = "Hello, \\w+"
        log_in = [
            {{ post = "http://{{address}}/login", form = {{ name = "ada-{{visitor}}", password = "a & b" }} }},
            {{ get = "http://{{address}}/token", keep = {{ token = "value=\"(\\w+)\"" }} }},
        ]
        [[step]]
        id = "on"
        title = "cache"
        about = "Pages are kept."
        concurrency = 2
        requests_max = 400
        address = "{address}"
        host = "shop.example"
        proof = [{{ header = "X-Cache", is = "on" }}]
        [[load]]
        id = "mix"
        title = "a mix"
        visitors = [{{ share = 1 }}, {{ session = "reader", share = 3 }}]
        undo = ["POST http://{address}/undo"]
        [[load.write]]
        name = "note"
        session = "reader"
        per_s = 20
        post = "http://{{address}}/write"
        headers = {{ X-Token = "{{token}}" }}
        json = '{{"note":"{{unique}}"}}'
        "#
    )
}

fn walked(text: &str, loads: &[&str]) -> Results {
    walked_until(&StopFlag::default(), text, loads, &mut ())
}

fn walked_until(stop: &StopFlag, text: &str, loads: &[&str], observer: &mut dyn Observer) -> Results {
    let ladder = read_ladder("test", text, None).unwrap_or_else(|problems| panic!("{}", problems[0]));
    let (clock, disk, out) = (SystemClock::new(), SystemDisk, tempfile::tempdir().unwrap());
    let options = Options {
        choice: Choice { loads: loads.iter().map(|load| (*load).to_owned()).collect(), ..Choice::default() },
        out: out.path().to_owned(),
        fresh: false,
        stay: false,
        petasos: "petasos".into(),
        version: "test".to_owned(),
    };
    let world = World { clock: &clock, disk: &disk, stop };
    walk(&ladder, &options, world, observer).unwrap().results
}

/// The outcome of a cell's only run.
fn outcome(cell: &CellRecord) -> &VisitOutcome {
    &cell.runs[0].outcome
}

fn measured(cell: &CellRecord) -> &Measured {
    match outcome(cell) {
        VisitOutcome::Measured(measured) => measured,
        void => panic!("{void:?}"),
    }
}

fn reason(cell: &CellRecord) -> &str {
    match outcome(cell) {
        VisitOutcome::Void { reason, .. } => reason,
        measured => panic!("{measured:?}"),
    }
}

#[test]
fn mixed_load_is_split_by_visitor_kind_and_verdict() {
    let results = walked(&text(&site(Fault::None)), &[]);
    let anonymous = measured(&results.cells[0]);
    assert!(anonymous.visitors.is_empty() && anonymous.writes.is_empty());
    assert_eq!(anonymous.verdicts.iter().map(|of| of.name.as_str()).collect::<Vec<_>>(), ["hit"]);
    let twin = anonymous.twin.as_ref().unwrap();
    assert_eq!((twin.failed, anonymous.bystander.failed), (0, 0));
    assert!(!twin.idle_ms.is_empty() && !anonymous.bystander.idle_ms.is_empty());

    assert_eq!((results.loads.len(), results.loads[0].id.as_str()), (1, "mix"));
    let mix = measured(&results.loads[0].cells[0]);
    let kinds: Vec<&str> = mix.visitors.iter().map(|of| of.name.as_str()).collect();
    assert_eq!(kinds, ["anonymous", "reader"]);
    assert!(mix.visitors.iter().all(|of| of.answers > 0 && of.failed == 0), "{:?}", mix.visitors);
    assert!(mix.visitors[1].answers > mix.visitors[0].answers, "{:?}", mix.visitors);
    assert_eq!(mix.answers, mix.visitors.iter().map(|of| of.answers).sum::<u64>());
    let by_verdict: Vec<(&str, u64)> = mix.verdicts.iter().map(|of| (of.name.as_str(), of.answers)).collect();
    assert_eq!(by_verdict, [("hit", mix.visitors[0].answers), ("pass", mix.visitors[1].answers)]);
    let written = &mix.writes[0];
    assert!(!written.took_ms.is_empty() && written.failed == 0, "{written:?}");
    assert!(mix.proofs.iter().any(|proof| proof.starts_with("session reader: its own page")));
}

#[test]
fn leaked_page_makes_the_load_void() {
    let results = walked(&text(&site(Fault::Leaks)), &["mix"]);
    assert!(results.cells.is_empty());
    // Once the site leaks, the proof after the load fails as well.
    assert!(
        reason(&results.loads[0].cells[0])
            .ends_with("a request without a session got a page of session `reader`")
    );
}

#[test]
fn unrecognised_visitors_make_the_load_void() {
    let site = site(Fault::Forgets);
    let text = text(&site).replace("{ get = \"http://{address}/token\"", "{ get = \"http://{address}/\"");
    let text =
        text.replace(", keep = { token = \"value=\\\"(\\\\w+)\\\"\" }", ", keep = { token = \"(Log)\" }");
    let results = walked(&text, &["mix"]);
    let reason = reason(&results.loads[0].cells[0]);
    assert!(reason.contains("does not show that visitors of session `reader` have logged in"), "{reason}");
}

#[test]
fn refused_log_in_is_reported() {
    let site = site(Fault::None);
    let text = text(&site).replace("a & b", "wrong");
    let results = walked(&text, &["mix"]);
    let reason = reason(&results.loads[0].cells[0]);
    assert!(reason.starts_with("visitor 1 of session `reader` cannot log in: POST http://"), "{reason}");
    assert!(reason.ends_with("the response has status 403"), "{reason}");
}

#[test]
fn failed_writes_are_counted() {
    let results = walked(&text(&site(Fault::Refuses)), &["mix"]);
    let written = &measured(&results.loads[0].cells[0]).writes[0];
    assert!(written.took_ms.is_empty() && written.failed > 0, "{written:?}");
    assert!(written.first_failure.as_ref().unwrap().ends_with("status 403"));
}

/// Whether the site was written to and the writes were undone afterwards.
fn is_undone(site: &Origin) -> bool {
    let last = |target: &str| site.seen().iter().rposition(|seen| seen.target() == target);
    last("/write").is_some() && last("/undo") > last("/write")
}

#[test]
fn writes_are_undone_after_a_failing_meter() {
    let site = site(Fault::CountsOnce);
    let address = site.address();
    let meter = format!(
        "[[meter]]\nname = \"count\"\nunit = \"things\"\nhttp = \"http://{address}/count\"\njson = \"/n\"\n"
    );
    let text = text(&site).replacen("[[session]]", &format!("{meter}[[session]]"), 1);
    let results = walked(&text, &["mix"]);
    let reason = reason(&results.loads[0].cells[0]);
    assert!(reason.starts_with("meter `count`: GET http://"), "{reason}");
    assert!(is_undone(&site), "{:?}", site.seen());
}

/// Stops the walk at the first write, as Ctrl-C would.
struct StopAtWrite<'a> {
    site: &'a Origin,
    stop: StopFlag,
}

impl Observer for StopAtWrite<'_> {
    fn status(&mut self, _: &WalkStatus) {
        if self.site.seen().iter().any(|seen| seen.target() == "/write") {
            self.stop.request();
        }
    }

    fn notice(&mut self, _: &str) {}
}

#[test]
fn writes_of_an_interrupted_load_are_undone() {
    let (site, stop) = (site(Fault::None), StopFlag::default());
    let mut observer = StopAtWrite { site: &site, stop: stop.clone() };
    let results = walked_until(&stop, &text(&site), &["mix"], &mut observer);
    assert!(!results.complete && results.loads[0].cells[0].runs.is_empty(), "{results:?}");
    assert!(is_undone(&site), "{:?}", site.seen());
}
