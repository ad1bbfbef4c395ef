//! 103 (Early Hints) with the links of a stored page being fetched again.

use crate::support::{self, Stage, behind};
use config::EdgePlan;
use testkit::{Gate, Http2Frame, Http2Frames, response};

const BROWSER: &str = "Sec-Fetch-Mode: navigate";
const STYLE: &str = "</a.css>; rel=preload; as=style";

/// A stage whose page has links, is stored, and has expired. Its next fetch waits for the gate.
fn expired(is_on: bool) -> (Stage, Gate) {
    let gate = Gate::default();
    let links = format!("Link: {STYLE}, </next>; rel=next");
    let script =
        |body: &'static str| response("200 OK", &[&links[..], "Cache-Control: max-age=60"], body.as_bytes());
    let (old, new) = (script("old"), script("new"));
    let change = |plan: &mut EdgePlan| {
        plan.sites[0].early_hints = is_on;
        plan.listeners[0].http2 = true;
    };
    let stage = Stage::with(change, move |_| old.clone());
    assert_eq!(stage.get("/", &[BROWSER]).text(), "old");
    let held = gate.clone();
    stage.becomes(move |_| behind(&held, new.clone()));
    (stage, gate)
}

#[test]
fn stored_links_are_sent_while_the_page_is_fetched() {
    let (stage, gate) = expired(true);
    assert_eq!(stage.get("/", &[BROWSER]).status, 200, "a fresh page needs no hints");
    stage.pass(100_000);
    let mut waiting = [stage.begin("GET", "/", &[BROWSER]), stage.begin("GET", "/", &[BROWSER])];
    for client in &mut waiting {
        let hints = client.read_head();
        assert_eq!((hints.status, hints.field("Link")), (103, Some(STYLE)));
        assert!(!hints.head.contains("next") && hints.field("Cache-Control").is_none(), "{}", hints.head);
    }
    gate.open();
    assert!(waiting.iter_mut().all(|client| client.read().text() == "new"));
    assert_eq!(stage.metric("petasos_early_hints_total", ""), 2);
}

#[test]
fn hints_are_for_browsers_and_only_if_they_are_switched_on() {
    for (is_on, fields) in [(false, &[BROWSER][..]), (true, &[]), (true, &["Sec-Fetch-Mode: cors"])] {
        let (stage, gate) = expired(is_on);
        stage.pass(100_000);
        gate.open();
        assert_eq!(stage.get("/", fields).status, 200, "{is_on} {fields:?}");
        assert_eq!(stage.metric("petasos_early_hints_total", ""), 0);
    }
    let (stage, gate) = expired(true);
    stage.pass(100_000);
    gate.open();
    let mut old = support::connect(&stage.edge);
    old.send(format!("GET / HTTP/1.0\r\nHost: example.test\r\n{BROWSER}\r\n\r\n"));
    assert_eq!(old.read_head().status, 200);
}

#[test]
fn hints_precede_the_response_over_http2() {
    let (stage, gate) = expired(true);
    stage.pass(100_000);
    let mut frames = Http2Frames::connect(support::address(&stage.edge));
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "example.test"),
        (":path", "/"),
        ("sec-fetch-mode", "navigate"),
    ];
    frames.send(&[Http2Frame::request(1, &fields)]);
    let hints = frames.read_until(1).unwrap();
    assert_eq!(hints.flags & 1, 0, "no end of the stream");
    assert_eq!(stage.metric("petasos_early_hints_total", ""), 1);
    gate.open();
    let response = frames.read_until(1).unwrap();
    assert_eq!(response.payload[0], 0x80 | 8, "200 is an entry of the static table");
}
