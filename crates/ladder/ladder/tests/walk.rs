//! Complete walks over a site in this process: proofs, void steps, interruption and resumption.
//! Loads last fractions of a second, and no test depends on the number of responses.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

use petasos_ladder::{
    Choice, LadderError, Observer, Options, Phase, StopFlag, Walk, WalkStatus, World, read_ladder, walk,
};
use platform::{SystemClock, SystemDisk};
use report::results::{Results, VisitOutcome};
use report::summary::{CellResult, cell_result};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use testkit::{Action, Gate, Origin, response};

/// A site with one switch. `page` makes the page's body from the state of the switch.
fn site(page: impl Fn(bool) -> String + Send + Sync + 'static) -> Origin {
    let on = Arc::new(AtomicBool::new(false));
    Origin::start(move |seen| {
        match seen.target() {
            "/switch?on" => on.store(true, Ordering::SeqCst),
            "/switch?off" => on.store(false, Ordering::SeqCst),
            "/status" => {
                return response(
                    "200 OK",
                    &[],
                    format!("{{\"on\":{}}}", on.load(Ordering::SeqCst)).as_bytes(),
                );
            }
            "/broken" => return response("500 Oh", &[], b""),
            "/" => {}
            _ => return response("200 OK", &[], b"searched"),
        }
        let on = on.load(Ordering::SeqCst);
        let field = if on { "X-Cache: on" } else { "X-Cache: off" };
        response("200 OK", &[field], page(on).as_bytes())
    })
}

/// The ladder of these tests. Its loads end after a fixed number of responses, because a short time
/// could pass without any response.
fn ladder_text(site: &Origin) -> String {
    let address = site.address();
    format!(
        r#"
        title = "Test site"
        page = "/"
        rounds = 2
        warmup = "20ms"
        duration = "60s"
        bystander = "/search?q={{unique}}"
        normalise = ["<!-- .*? -->"]
        [[service]]
        name = "sleeper"
        command = ["sleep", "600"]
        [[group]]
        name = "sleeper"
        role = "site"
        service = "sleeper"
        [[meter]]
        name = "constant"
        unit = "things"
        command = ["echo", "17"]
        [[step]]
        id = "off"
        title = "no cache"
        about = "Nothing is kept."
        concurrency = 1
        requests_max = 40
        address = "{address}"
        on = ["POST http://{address}/switch?off"]
        proof = [{{ header = "X-Cache", is = "off" }}, {{ json = "http://{address}/status", pointer = "/on", is = false }}]
        also = [{{ concurrency = 2, keepalive = true }}]
        [[step]]
        id = "on"
        title = "cache"
        about = "Pages are kept."
        concurrency = 2
        requests_max = 40
        address = "{address}"
        on = ["POST http://{address}/switch?on"]
        warm = ["GET http://{address}/", {{ command = ["true"] }}]
        proof = [{{ header = "X-Cache", is = "on" }}]
        "#
    )
}

/// Counts visits. Stops the walk during the load of a given visit, as Ctrl-C would.
#[derive(Default)]
struct Watcher {
    visits: usize,
    measuring: bool,
    stop_in: Option<(usize, StopFlag)>,
}

impl Observer for Watcher {
    fn status(&mut self, status: &WalkStatus) {
        self.visits += usize::from(status.phase == Phase::Preparing);
        self.measuring |= status.phase == Phase::Measuring;
        if let Some((visit, stop)) = &self.stop_in
            && *visit == self.visits
            && status.phase == Phase::Measuring
        {
            stop.request();
        }
    }

    fn notice(&mut self, _: &str) {}
}

fn walked(text: &str, out: &Path, fresh: bool, watcher: &mut Watcher) -> Result<Results, LadderError> {
    let ladder = read_ladder("test", text, None).unwrap_or_else(|problems| panic!("{}", problems[0]));
    let stop = watcher.stop_in.as_ref().map(|(_, stop)| stop.clone()).unwrap_or_default();
    let (clock, disk) = (SystemClock::new(), SystemDisk);
    let options = Options {
        choice: Choice::default(),
        out: out.to_owned(),
        fresh,
        stay: false,
        petasos: "petasos".into(),
        version: "test".to_owned(),
    };
    let walk: Walk<'_> = walk(&ladder, &options, World { clock: &clock, disk: &disk, stop: &stop }, watcher)?;
    assert!(walk.results_file.exists() && walk.report_file.exists());
    let saved: Results = serde_json::from_slice(&std::fs::read(&walk.results_file).unwrap()).unwrap();
    assert!(saved == walk.results, "the saved results equal the returned ones");
    Ok(walk.results)
}

fn same_page(_: bool) -> String {
    "<title>Shop</title>\n<p>bikes\n<!-- made in 3 ms -->".to_owned()
}

#[test]
fn anonymous_load_accepts_the_codings_of_browsers() {
    let (site, out) = (site(same_page), tempfile::tempdir().unwrap());
    let results = walked(&ladder_text(&site), out.path(), false, &mut Watcher::default()).unwrap();
    let of_the_ladder = |seen: &testkit::Seen| seen.field("User-Agent") == Some("petasos-ladder");
    let seen = site.seen();
    let load: Vec<_> = seen.iter().filter(|seen| seen.target() == "/" && !of_the_ladder(seen)).collect();
    assert!(!load.is_empty());
    for seen in load {
        assert_eq!(seen.field("Accept-Encoding"), Some("gzip, deflate, br, zstd"), "{}", seen.head);
        assert!(seen.head.starts_with("GET / HTTP/1.1"), "{}", seen.head);
    }
    // A response is a head and 50 bytes of content.
    let CellResult::Measured(summary) = cell_result(&results.cells[0]) else {
        panic!("{:?}", results.cells[0])
    };
    assert!(summary.bytes_per_page.is_some_and(|bytes| (80.0..200.0).contains(&bytes)), "{summary:?}");
}

#[test]
fn every_cell_is_measured_in_every_round() {
    let (site, out) = (site(same_page), tempfile::tempdir().unwrap());
    let mut watcher = Watcher::default();
    let results = walked(&ladder_text(&site), out.path(), false, &mut watcher).unwrap();
    assert!(results.complete && watcher.measuring);
    assert_eq!(watcher.visits, 6);
    assert_eq!(results.reference.as_ref().unwrap().title.as_deref(), Some("Shop"));
    let ids: Vec<&str> = results.cells.iter().map(|cell| cell.id.as_str()).collect();
    assert_eq!(ids, ["off", "off-c2-keepalive", "on"]);
    for cell in &results.cells {
        assert_eq!(cell.runs.len(), 2);
        for run in &cell.runs {
            let VisitOutcome::Measured(measured) = &run.outcome else { panic!("{run:?}") };
            assert!(measured.answers > 0 && measured.failed() == 0, "{measured:?}");
            assert_eq!(measured.observed_load, Some(0.0), "the process only sleeps");
            assert_eq!((measured.meters[0].per_s, measured.meters[0].name.as_str()), (0.0, "constant"));
            assert!(measured.proofs.len() >= 2, "{:?}", measured.proofs);
            assert_eq!(measured.bystander.idle_ms.len(), if cell.id.contains("-c") { 0 } else { 3 });
        }
    }
    let targets: Vec<String> = site.seen().iter().map(|seen| seen.target().to_owned()).collect();
    let mut searches: Vec<&String> =
        targets.iter().filter(|target| target.starts_with("/search?q=")).collect();
    let count = searches.len();
    searches.sort();
    searches.dedup();
    assert!(count >= 8 && searches.len() == count, "a bystander's URL was used twice");
}

#[test]
fn interrupted_walk_resumes_with_the_missing_visits_only() {
    let (site, out) = (site(same_page), tempfile::tempdir().unwrap());
    let text = ladder_text(&site);
    let mut first = Watcher { stop_in: Some((4, StopFlag::default())), ..Watcher::default() };
    let partial = walked(&text, out.path(), false, &mut first).unwrap();
    assert!(!partial.complete);
    let runs =
        |results: &Results| results.cells.iter().flat_map(|cell| cell.runs.clone()).collect::<Vec<_>>();
    assert_eq!(runs(&partial).len(), 3, "the interrupted visit must not count");
    let mut second = Watcher::default();
    let whole = walked(&text, out.path(), false, &mut second).unwrap();
    assert!(whole.complete);
    assert_eq!((second.visits, runs(&whole).len()), (3, 6));
    for run in runs(&partial) {
        assert!(runs(&whole).contains(&run), "a finished visit must be kept unchanged");
    }
    assert_eq!(whole.started_at_s, partial.started_at_s);
    // A third walk moves the finished one aside and begins a new one.
    let mut third = Watcher::default();
    walked(&text, out.path(), false, &mut third).unwrap();
    assert_eq!(third.visits, 6);
    assert!(out.path().join(format!("earlier/{}/results.json", whole.started_at_s)).exists());
}

#[test]
fn unfinished_walk_of_another_plan_needs_a_fresh_start() {
    let (site, out) = (site(same_page), tempfile::tempdir().unwrap());
    let text = ladder_text(&site);
    let mut first = Watcher { stop_in: Some((1, StopFlag::default())), ..Watcher::default() };
    walked(&text, out.path(), false, &mut first).unwrap();
    let other = text.replace("rounds = 2", "rounds = 1");
    let error = walked(&other, out.path(), false, &mut Watcher::default()).unwrap_err();
    assert!(matches!(error, LadderError::OtherPlan { .. }), "{error}");
    assert!(walked(&other, out.path(), true, &mut Watcher::default()).unwrap().complete);
}

fn reason(results: &Results, cell: &str) -> String {
    let cell = results.cells.iter().find(|found| found.id == cell).unwrap();
    match cell_result(cell) {
        CellResult::Void(reason) => reason,
        other => panic!("{} is not void: {other:?}", cell.id),
    }
}

#[test]
fn different_page_makes_the_step_void_with_the_place() {
    let page = |on: bool| format!("<title>Shop</title>\n<p>{}", if on { "log in first" } else { "bikes" });
    let (site, out) = (site(page), tempfile::tempdir().unwrap());
    let results = walked(&ladder_text(&site), out.path(), false, &mut Watcher::default()).unwrap();
    let reason = reason(&results, "on");
    assert!(reason.contains("line 2, column 4: “<p>log in first” instead of “<p>bikes”"), "{reason}");
    assert!(matches!(cell_result(&results.cells[0]), CellResult::Measured(_)));
}

#[test]
fn layer_that_is_off_makes_the_step_void() {
    let (site, out) = (site(same_page), tempfile::tempdir().unwrap());
    let text = ladder_text(&site).replace("on = [\"POST http://", "reset = [\"POST http://");
    let text = text.replace("/switch?on", "/broken");
    let results = walked(&text, out.path(), false, &mut Watcher::default()).unwrap();
    assert!(reason(&results, "on").contains("resetting failed: POST"), "{}", reason(&results, "on"));
    let text = ladder_text(&site).replace("/switch?on", "/switch?off");
    let results = walked(&text, out.path(), true, &mut Watcher::default()).unwrap();
    assert!(
        reason(&results, "on").contains("found X-Cache: off; expected “on”"),
        "{}",
        reason(&results, "on")
    );
}

#[test]
fn ended_service_ends_the_walk_and_keeps_the_journal() {
    let (site, out) = (site(same_page), tempfile::tempdir().unwrap());
    let journal = out.path().join(petasos_ladder::JOURNAL_FILE);
    // The service ends as soon as the journal has a result, however long that takes.
    let script = format!(
        "until grep -qs 'run.:' {}; do sleep 0.1; done; echo out of memory; exit 3",
        journal.display()
    );
    let text = ladder_text(&site)
        .replace("[\"sleep\", \"600\"]", &format!("[\"sh\", \"-c\", \"{script}\"]"))
        .replace("rounds = 2", "rounds = 100");
    let error = walked(&text, out.path(), false, &mut Watcher::default()).unwrap_err();
    assert_eq!(error.to_string(), "service `sleeper` ended (exit status: 3): out of memory");
    let journal = std::fs::read_to_string(journal).unwrap();
    assert!(journal.lines().any(|line| line.starts_with("{\"run\"")), "{journal}");
}

#[test]
fn walk_fails_without_the_first_page() {
    let (site, out) = (site(same_page), tempfile::tempdir().unwrap());
    let text = ladder_text(&site).replace("page = \"/\"", "page = \"/broken\"");
    let error = walked(&text, out.path(), false, &mut Watcher::default()).unwrap_err();
    assert!(error.to_string().contains("/broken: the response has status 500"), "{error}");
}

#[test]
fn layer_lost_under_load_makes_the_step_void() {
    let asked = AtomicUsize::new(0);
    let site = Origin::start(move |_| {
        // The proof before the load receives one of the first responses, the proof after it a later
        // one.
        let on = asked.fetch_add(1, Ordering::SeqCst) < 5;
        response("200 OK", &[if on { "X-Cache: off" } else { "X-Cache: lost" }], b"page")
    });
    let out = tempfile::tempdir().unwrap();
    let results = walked(&first_step_only(&site), out.path(), false, &mut Watcher::default()).unwrap();
    let reason = reason(&results, "off");
    assert!(reason.contains("after the load: the layer is not proven: found X-Cache: lost"), "{reason}");
}

#[test]
fn unanswered_bystander_counts_with_its_waiting_time() {
    let (searches, waits) = (AtomicUsize::new(0), Gate::default());
    let site = Origin::start(move |seen| {
        let answer = response("200 OK", &["X-Cache: off"], b"page");
        let is_load = seen.field("User-Agent") != Some("petasos-ladder");
        let before = if seen.target().starts_with("/search") && searches.fetch_add(1, Ordering::SeqCst) >= 4 {
            // The idle site serves the four requests before the load. Under load, the response
            // takes five seconds.
            waits.open();
            Some(Action::Pause(Duration::from_secs(5)))
        } else {
            is_load.then(|| Action::Await(waits.clone()))
        };
        before.into_iter().chain(answer).collect()
    });
    let out = tempfile::tempdir().unwrap();
    let results = walked(&first_step_only(&site), out.path(), false, &mut Watcher::default()).unwrap();
    let VisitOutcome::Measured(measured) = &results.cells[0].runs[0].outcome else { panic!("{results:?}") };
    assert_eq!((measured.bystander.loaded_ms.len(), measured.bystander.idle_ms.len()), (0, 3));
    assert_eq!(measured.bystander.unanswered_ms.len(), 1);
    let bystander = cell_result(&results.cells[0]).summary().unwrap().bystander.unwrap();
    assert!(bystander.at_least && bystander.requests == 1);
}

/// The ladder reduced to one round of its first step, with the header proof only and without
/// warm-up.
fn first_step_only(site: &Origin) -> String {
    let text = ladder_text(site);
    let (first, _) = text.rsplit_once("[[step]]").unwrap();
    let first = first.replace("rounds = 2", "rounds = 1").replace("warmup = \"20ms\"", "warmup = \"0s\"");
    let json = first.find(", { json").unwrap();
    let end = first[json..].find("}]").unwrap() + json;
    let also = first.find("also = ").unwrap();
    format!("{}{}", &first[..json], &first[end + 1..also])
}

#[test]
fn load_without_good_responses_differs_from_a_layer_off() {
    let origin = Origin::start(|seen| {
        let is_proof = seen.field("User-Agent") == Some("petasos-ladder");
        response(if is_proof { "200 OK" } else { "503 Busy" }, &["X-Cache: on"], b"<title>Shop</title>")
    });
    let step = |id: &str, expected: &str| {
        let address = origin.address();
        format!(
            "[[step]]\nid = \"{id}\"\ntitle = \"{id}\"\nabout = \"A step.\"\nconcurrency = 2\naddress = \"{address}\"\n\
             proof = [{{ header = \"X-Cache\", is = \"{expected}\" }}]\n"
        )
    };
    let head = "title = \"Test\"\npage = \"/\"\nrounds = 1\nwarmup = \"0s\"\nduration = \"100ms\"\ncooldown = \"10ms\"\n";
    let text = [head, &step("crowded", "on"), &step("off", "off")].concat();
    let out = tempfile::tempdir().unwrap();
    let results = walked(&text, out.path(), false, &mut Watcher::default()).unwrap();
    let voids: Vec<(bool, bool)> = results
        .cells
        .iter()
        .map(|cell| match &cell.runs[0].outcome {
            VisitOutcome::Void { reason, is_silent } => {
                (*is_silent, reason.starts_with("no good response in "))
            }
            VisitOutcome::Measured(measured) => panic!("{measured:?}"),
        })
        .collect();
    assert_eq!(voids, [(true, true), (false, false)]);
}

#[test]
fn step_may_declare_a_new_reference() {
    let site = site(|on| if on { "<p>one script".to_owned() } else { "<p>many scripts".to_owned() });
    let text = ladder_text(&site);
    let out = tempfile::tempdir().unwrap();
    let of =
        |results: &Results, id: &str| cell_result(results.cells.iter().find(|cell| cell.id == id).unwrap());
    let same = walked(&text, &out.path().join("same"), false, &mut Watcher::default()).unwrap();
    let CellResult::Void(reason) = of(&same, "on") else {
        panic!("a different page must make the step void")
    };
    assert!(reason.contains("differs from step 1's"), "{reason}");
    let text = text.replace("title = \"cache\"", "title = \"cache\"\n        reference = true");
    let stop = StopFlag::default();
    let mut watcher = Watcher { stop_in: Some((2, stop)), ..Watcher::default() };
    let directory = out.path().join("new");
    assert!(!walked(&text, &directory, false, &mut watcher).unwrap().complete);
    let resumed = walked(&text, &directory, false, &mut Watcher::default()).unwrap();
    assert!(resumed.complete && of(&resumed, "on").summary().is_some());
    assert!(of(&resumed, "off").summary().is_some(), "earlier steps must keep the first reference");
    assert_eq!(resumed.steps[0].reference, None);
    let declared = resumed.steps[1].reference.as_ref().unwrap();
    assert_ne!(declared.hash, resumed.reference.as_ref().unwrap().hash);
    assert!(directory.join("reference-on.page").exists());
}
