//! The real binary's spans at a collector, and the trace fields that origins receive: sampling,
//! parents, and collectors that hang, fail or are away.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Action, Client, Collector, Edge, Gate, Origin, ReceivedSpan, eventually, get, response};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const AUTHORIZATION: &str = "Authorization: Basic YTpi";

fn page() -> Origin {
    Origin::start(|seen| match seen.target() {
        "/broken" => response("500 Internal Server Error", &["Cache-Control: no-store"], b"x"),
        _ => response("200 OK", &["Cache-Control: max-age=60"], b"content"),
    })
}

fn edge(origin: &Origin, collector: &Collector, more: &str) -> Edge {
    Edge::configured(&origin.url(), &format!("{}{more}", collector.configuration()), &[])
}

fn spans_exported(edge: &Edge) -> u64 {
    edge.metric("petasos_trace_spans_exported_total", "") as u64
}

fn spans_dropped(edge: &Edge) -> u64 {
    edge.metric("petasos_trace_spans_dropped_total", "") as u64
}

fn export_failures(edge: &Edge) -> u64 {
    edge.metric("petasos_trace_export_failures_total", "") as u64
}

fn traceparent(flags: &str) -> String {
    format!("Traceparent: 00-{TRACE}-{PARENT}-{flags}")
}

fn of_kind<'a>(spans: &'a [ReceivedSpan], kind: &str, name: &str) -> &'a ReceivedSpan {
    let mut found = spans.iter().filter(|span| span.kind == kind && span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no {kind} {name} in {spans:#?}"));
    assert!(found.next().is_none(), "several {kind} {name} in {spans:#?}");
    span
}

/// The parts of the value of a `traceparent`: trace, parent, flags.
fn sent(origin: &Origin, place: usize) -> (String, String, String) {
    let seen = origin.seen();
    let value = seen[place].field("Traceparent").unwrap();
    let parts: Vec<_> = value.split('-').map(str::to_owned).collect();
    (parts[1].clone(), parts[2].clone(), parts[3].clone())
}

#[test]
fn pass_continues_the_trace_and_is_the_parent_of_the_origin() {
    let (origin, collector) = (page(), Collector::start());
    let edge = edge(&origin, &collector, "trace_service = 'shop'");
    let state = "Tracestate: a=b";
    get(edge.address, "/own?x=1", &[&traceparent("01"), state, AUTHORIZATION, "User-Agent: me"]);
    let spans = collector.wait_for(3);
    let [request, pass, fetch] = [
        of_kind(&spans, "server", "GET"),
        of_kind(&spans, "internal", "pass"),
        of_kind(&spans, "client", "GET"),
    ];
    assert!(spans.iter().all(|span| span.trace == TRACE && span.flags == 1 && !span.is_error), "{spans:#?}");
    assert_eq!((&*request.parent, &pass.parent, &fetch.parent), (PARENT, &request.span, &pass.span));
    assert!(request.encloses(pass) && pass.encloses(fetch), "{spans:#?}");
    assert_eq!(sent(&origin, 0), (TRACE.to_owned(), fetch.span.clone(), "01".to_owned()));
    assert_eq!(origin.seen()[0].field("Tracestate"), Some("a=b"));
    for (name, value) in [
        ("service.name", "shop"),
        ("http.request.method", "GET"),
        ("url.path", "/own"),
        ("url.query", "x=1"),
        ("http.response.status_code", "200"),
        ("client.address", "127.0.0.1"),
        ("user_agent.original", "me"),
        ("petasos.verdict", "pass"),
        ("petasos.site", "any"),
    ] {
        assert_eq!(request.value(name), value, "{name}");
    }
    assert_eq!(fetch.value("url.full"), format!("{}/own?x=1", origin.url()));
    assert_eq!(fetch.value("petasos.fetch.number"), request.value("petasos.fetch.number"));
    assert_eq!(spans_exported(&edge), 3);
}

#[test]
fn miss_has_its_fetch_and_a_hit_one_span() {
    let (origin, collector) = (page(), Collector::start());
    let edge = edge(&origin, &collector, "");
    get(edge.address, "/a", &[&traceparent("01")]);
    get(edge.address, "/a", &[]);
    let spans = collector.wait_for(4);
    let (hit, miss): (Vec<_>, Vec<_>) = spans.into_iter().partition(|span| span.trace != TRACE);
    let [request, wait, fetch] = [
        of_kind(&miss, "server", "GET"),
        of_kind(&miss, "internal", "wait"),
        of_kind(&miss, "client", "GET"),
    ];
    // The fetch begins in the look-up, just before the wait.
    assert!(request.encloses(wait) && request.encloses(fetch) && fetch.ended <= wait.ended, "{miss:#?}");
    assert_eq!((&wait.parent, &fetch.parent), (&request.span, &request.span));
    assert_eq!(request.value("petasos.reason"), "miss-absent");
    assert_eq!((&*hit[0].parent, hit[0].value("petasos.reason"), hit.len()), ("", "hit-fresh", 1));
    assert_eq!(origin.seen()[0].field("Traceparent"), None, "a shared fetch has no client's trace");
}

#[test]
fn traced_fetch_begins_a_trace_that_its_requests_link() {
    let (origin, collector) = (page(), Collector::start());
    let edge = edge(&origin, &collector, "trace_fetches = true");
    get(edge.address, "/a", &[&traceparent("01")]);
    let spans = collector.wait_for(3);
    let (request, fetch) = (of_kind(&spans, "server", "GET"), of_kind(&spans, "client", "GET"));
    assert_eq!(sent(&origin, 0), (fetch.trace.clone(), fetch.span.clone(), "01".to_owned()));
    assert!(fetch.trace != TRACE && fetch.parent.is_empty(), "{fetch:#?}");
    assert_eq!(request.links, [(fetch.trace.clone(), fetch.span.clone())]);
}

#[test]
fn client_without_the_sampled_flag_has_no_spans() {
    let (origin, collector) = (page(), Collector::start());
    let edge = edge(&origin, &collector, "");
    get(edge.address, "/a", &[&traceparent("00"), AUTHORIZATION]);
    get(edge.address, "/b", &[AUTHORIZATION, "Traceparent: 00-nonsense", "Tracestate: a=b"]);
    let spans = collector.wait_for(3);
    assert_eq!(sent(&origin, 0), (TRACE.to_owned(), PARENT.to_owned(), "00".to_owned()));
    // The second request begins a new trace, without the invalid fields that it sent.
    let fetch = of_kind(&spans, "client", "GET");
    assert_eq!(sent(&origin, 1), (fetch.trace.clone(), fetch.span.clone(), "01".to_owned()));
    assert_eq!(origin.seen()[1].field("Tracestate"), None);
}

#[test]
fn failing_origin_gives_failed_spans() {
    let (origin, collector) = (page(), Collector::start());
    let edge = edge(&origin, &collector, "");
    get(edge.address, "/broken", &[AUTHORIZATION]);
    let spans = collector.wait_for(3);
    assert_eq!(of_kind(&spans, "client", "GET").value("error.type"), "500");
    assert!(of_kind(&spans, "server", "GET").is_error);
    collector.server().forget();
    origin.kill();
    get(edge.address, "/a", &[AUTHORIZATION]);
    let spans = collector.wait_for(3);
    let fetch = of_kind(&spans, "client", "GET");
    assert!(["refused", "closed"].contains(&fetch.value("error.type")) && fetch.is_error, "{fetch:#?}");
}

#[test]
fn ratio_samples_requests_without_a_trace() {
    let (origin, collector) = (page(), Collector::start());
    let configuration = collector.configuration().replace("every = 1", "every = 10");
    let edge = Edge::configured(&origin.url(), &configuration, &[]);
    let mut client = Client::connect(edge.address);
    for _ in 0..200 {
        assert_eq!(client.get("/a", &[]).status, 200);
    }
    // The last request is exported, so that all sampled requests have arrived with it.
    client.get("/a", &[&traceparent("01")]);
    eventually("the last span arrives", || collector.spans().iter().any(|span| span.trace == TRACE));
    let requests = collector.spans().iter().filter(|span| span.kind == "server").count() - 1;
    assert!((15..=25).contains(&requests), "{requests}");
    assert_eq!(spans_dropped(&edge), 0);
}

#[test]
fn clients_cannot_ask_for_more_spans_than_the_limit() {
    let (origin, collector) = (page(), Collector::start());
    let edge = edge(&origin, &collector, "limits.client_traces_max = 0");
    get(edge.address, "/a", &[&traceparent("01"), AUTHORIZATION]);
    get(edge.address, "/b", &[]);
    let spans = collector.wait_for(3);
    assert!(spans.iter().all(|span| span.trace != TRACE), "{spans:#?}");
    assert_eq!(spans_dropped(&edge), 1);
    assert_eq!(sent(&origin, 0).1, PARENT);
    let trusted =
        self::edge(&origin, &collector, "limits.client_traces_max = 0\ntrusted_proxies = ['127.0.0.1']");
    get(trusted.address, "/a", &[&traceparent("01")]);
    eventually("a proxy may ask", || collector.spans().iter().any(|span| span.trace == TRACE));
}

#[test]
fn busy_collector_gets_the_spans_again() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&attempts);
    let collector = Collector::answering(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => response("503 Service Unavailable", &["Retry-After: 0"], b""),
        _ => response("200 OK", &[], b""),
    });
    let origin = page();
    let edge = edge(&origin, &collector, "");
    get(edge.address, "/a", &[]);
    eventually("the spans are accepted", || spans_exported(&edge) == 3);
    assert_eq!(export_failures(&edge), 1);
    assert_eq!(spans_dropped(&edge), 0);
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    eventually("the operator is told", || edge.stderr().contains("it answers with status 503"));
}

#[test]
fn refused_and_rejected_spans_are_lost_and_counted() {
    let collector = Collector::answering(|seen| match seen.body.len() {
        // ExportTracePartialSuccess with two rejected spans.
        _ if String::from_utf8_lossy(&seen.body).contains("/partial") => {
            response("200 OK", &[], b"\x0a\x02\x08\x02")
        }
        _ => response("400 Bad Request", &[], b"no"),
    });
    let origin = page();
    let edge = edge(&origin, &collector, "");
    get(edge.address, "/a", &[]);
    eventually("the spans are refused", || spans_dropped(&edge) == 3);
    assert_eq!((collector.server().seen().len(), export_failures(&edge)), (1, 1));
    get(edge.address, "/partial", &[]);
    eventually("two are rejected", || spans_dropped(&edge) == 5);
    assert_eq!(spans_exported(&edge), 1);
}

#[test]
fn hanging_collector_delays_neither_requests_nor_the_end() {
    let gate = Gate::default();
    let closed = gate.clone();
    let collector = Collector::answering(move |_| vec![Action::Await(closed.clone())]);
    let origin = page();
    let mut edge = edge(&origin, &collector, "");
    let mut client = Client::connect(edge.address);
    client.get("/a", &[]);
    eventually("the collector has a batch", || !collector.server().seen().is_empty());
    // Each request has two long fields, so that few fill the queue of 4 MiB.
    let agent = format!("User-Agent: {}", "a".repeat(3000));
    let target = format!("/a?{}", "x".repeat(3000));
    client.get(&target, &[]);
    while spans_dropped(&edge) == 0 {
        for _ in 0..200 {
            assert_eq!(client.get(&target, &[&agent]).status, 200);
        }
    }
    assert!(edge.resident_bytes() < 256 << 20);
    // Once the edge ends, the collector has a second at most.
    edge.signal("TERM");
    drop(client);
    assert_eq!(edge.wait(), Some(0));
    gate.open();
}

#[test]
fn edge_starts_and_serves_while_the_collector_is_away() {
    let (origin, collector) = (page(), Collector::start());
    collector.server().kill();
    let edge = edge(&origin, &collector, "");
    assert_eq!(get(edge.address, "/a", &[]).status, 200);
    eventually("attempts fail", || export_failures(&edge) >= 1);
    eventually("the operator is told", || edge.stderr().contains("no connection"));
    collector.server().revive();
    collector.wait_for(3);
}

#[test]
fn last_spans_are_sent_at_the_end() {
    let (origin, collector) = (page(), Collector::start());
    let mut edge = edge(&origin, &collector, "");
    get(edge.address, "/a", &["Connection: close"]);
    edge.signal("TERM");
    assert_eq!(edge.wait(), Some(0));
    assert_eq!(collector.spans().len(), 3);
}
