//! Many simultaneous visitors of the real binary. A page costs one fetch, and a failed fetch fails
//! for all its followers. No visitor mistakes a part of a page for the whole, and no request waits
//! for a response that cannot be shared.
//!
//! No test depends on speed: the origin waits for the test, and the limits on waiting for a fetch
//! are an hour.

use std::sync::atomic::{AtomicBool, Ordering};
use testkit::{Action, Client, Edge, Gate, Origin, Response, allow_descriptors, eventually, get, response};

/// Number of visitors of a stampede, each on its own connection.
const VISITORS: usize = 1000;

/// A page that takes several writes and in which no two lines are equal.
fn page() -> Vec<u8> {
    (0..20_000_u32).flat_map(|number| format!("{number:07}\n").into_bytes()).collect()
}

fn edge(origin: &Origin) -> Edge {
    allow_descriptors(4 * VISITORS as u64);
    Edge::configured(&origin.url(), "[limits]\nflight_wait = '1h'\nqueue_timeout = '1h'\n", &[])
}

/// The framing of an origin's response.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ResponseFraming {
    Length,
    Chunked,
}

impl ResponseFraming {
    /// Head and content of a response as sent, without the last chunk that [`Self::end`] gives.
    fn answer(self, content: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let framing = match self {
            Self::Length => format!("Content-Length: {}", content.len()),
            Self::Chunked => "Transfer-Encoding: chunked".to_owned(),
        };
        let head =
            format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=86400\r\n{framing}\r\n\r\n").into_bytes();
        let coded = match self {
            Self::Length => content.to_vec(),
            Self::Chunked => {
                let chunks = content.chunks(1_000).map(|chunk| (format!("{:x}\r\n", chunk.len()), chunk));
                chunks.flat_map(|(size, chunk)| [size.as_bytes(), chunk, b"\r\n"].concat()).collect()
            }
        };
        (head, coded)
    }

    fn end(self) -> Vec<u8> {
        if self == Self::Chunked { b"0\r\n\r\n".to_vec() } else { Vec::new() }
    }
}

/// Visitors that have requested `target`. Every third uses HTTP/1.0, where a response without
/// length is complete when the connection ends.
fn crowd(edge: &Edge, visitors: usize, target: &str) -> Vec<Client> {
    let mut crowd: Vec<Client> = (0..visitors).map(|_| Client::connect(edge.address)).collect();
    for (number, visitor) in crowd.iter_mut().enumerate() {
        let version = if number % 3 == 2 { "1.0" } else { "1.1" };
        visitor.send(format!("GET {target} HTTP/{version}\r\nHost: example.test\r\n\r\n"));
    }
    crowd
}

/// Waits until all visitors but the leader wait for its fetch.
fn all_wait(edge: &Edge, visitors: usize) {
    eventually("all wait for one fetch", || {
        edge.metric("petasos_flight_waits_total", "") >= (visitors - 1) as f64
    });
}

#[test]
fn page_costs_one_fetch_and_all_visitors_get_it_whole() {
    for dialect in [ResponseFraming::Length, ResponseFraming::Chunked] {
        let gate = Gate::default();
        let opened = gate.clone();
        let content = page();
        let origin = Origin::start(move |_| {
            let (head, coded) = dialect.answer(&content);
            let whole = [head, coded, dialect.end()].concat();
            vec![Action::Await(opened.clone()), Action::Send(whole)]
        });
        let edge = edge(&origin);
        let mut crowd = crowd(&edge, VISITORS, "/cold");
        all_wait(&edge, VISITORS);
        gate.open();
        for visitor in &mut crowd {
            let answer = visitor.read();
            assert!(answer.complete && answer.status == 200, "{dialect:?}: {}", answer.head);
            assert!(answer.body == page(), "{dialect:?}: another content");
        }
        assert!(get(edge.address, "/cold", &[]).body == page());
        assert_eq!(origin.count("/cold"), 1, "{dialect:?}");
    }
}

#[test]
fn truncated_page_is_complete_for_no_visitor_and_not_stored() {
    let deaths = [
        (ResponseFraming::Length, Action::Close),
        (ResponseFraming::Chunked, Action::Close),
        (ResponseFraming::Chunked, Action::Reset),
    ];
    for (dialect, death) in deaths {
        let begun = Gate::default();
        let dies = Gate::default();
        let answers = begun.clone();
        let ends = dies.clone();
        let asked = AtomicBool::new(false);
        let content = page();
        let case = format!("{dialect:?}, {death:?}");
        let visitors = VISITORS / 2;
        let origin = Origin::start(move |_| {
            let (head, coded) = dialect.answer(&content);
            if asked.swap(true, Ordering::SeqCst) {
                return vec![Action::Send([head, coded, dialect.end()].concat())];
            }
            let half = [&head, &coded[..coded.len() / 2]].concat();
            vec![
                Action::Await(answers.clone()),
                Action::Send(half),
                Action::Await(ends.clone()),
                death.clone(),
            ]
        });
        let edge = edge(&origin);
        let mut crowd = crowd(&edge, visitors, "/cut");
        all_wait(&edge, visitors);
        begun.open();
        let heads: Vec<Response> = crowd.iter_mut().map(Client::read_head).collect();
        dies.open();
        for (visitor, mut answer) in crowd.iter_mut().zip(heads) {
            assert_eq!(answer.status, 200, "{case}");
            let complete = visitor.read_body(&mut answer);
            assert!(!complete, "{case}: a part was taken for the whole");
            assert!(visitor.is_closed(), "{case}: the rest is waited for still");
            assert!(page().starts_with(&answer.body), "{case}: not a part of the page");
        }
        assert_eq!(edge.metric("petasos_store_published_total", ""), 0.0, "{case}: a part was stored");
        let again = get(edge.address, "/cut", &[]);
        assert!(again.complete && again.body == page(), "{case}");
        assert_eq!(origin.count("/cut"), 2, "{case}");
    }
}

#[test]
fn failed_fetch_is_a_502_for_all_and_the_next_request_retries() {
    let gate = Gate::default();
    let opened = gate.clone();
    let asked = AtomicBool::new(false);
    let visitors = VISITORS / 10;
    let origin = Origin::start(move |_| {
        if asked.swap(true, Ordering::SeqCst) {
            return response("200 OK", &["Cache-Control: max-age=86400"], b"back");
        }
        vec![Action::Await(opened.clone()), Action::Close]
    });
    let edge = edge(&origin);
    let mut crowd = crowd(&edge, visitors, "/mute");
    all_wait(&edge, visitors);
    gate.open();
    for visitor in &mut crowd {
        let answer = visitor.read();
        assert_eq!((answer.status, answer.complete), (502, true), "{}", answer.head);
    }
    assert_eq!(origin.count("/mute"), 1);
    assert_eq!(get(edge.address, "/mute", &[]).text(), "back");
    assert_eq!(origin.count("/mute"), 2);
}

#[test]
fn fetch_continues_when_its_leader_leaves() {
    let gate = Gate::default();
    let opened = gate.clone();
    let origin = Origin::start(move |_| {
        let mut actions = vec![Action::Await(opened.clone())];
        actions.extend(response("200 OK", &["Cache-Control: max-age=86400"], b"page"));
        actions
    });
    let edge = edge(&origin);
    let leader = crowd(&edge, 1, "/left");
    eventually("the fetch is on its way", || origin.count("/left") == 1);
    let mut others = crowd(&edge, 100, "/left");
    all_wait(&edge, 101);
    drop(leader);
    gate.open();
    for visitor in &mut others {
        assert_eq!(visitor.read().text(), "page");
    }
    assert_eq!(origin.count("/left"), 1);
}

#[test]
fn requests_do_not_wait_once_a_page_was_private() {
    let gate = Gate::default();
    let opened = gate.clone();
    let asked = AtomicBool::new(false);
    let visitors = 30;
    let origin = Origin::start(move |_| {
        let mut actions = response("200 OK", &["Cache-Control: private"], b"mine");
        if asked.swap(true, Ordering::SeqCst) {
            actions.insert(0, Action::Await(opened.clone()));
        }
        actions
    });
    let edge = edge(&origin);
    assert_eq!(get(edge.address, "/private", &[]).text(), "mine");
    let mut crowd = crowd(&edge, visitors, "/private");
    // None has a response yet, so each of these requests was sent without waiting for another
    // fetch.
    eventually("each has a fetch of its own", || origin.count("/private") == visitors + 1);
    gate.open();
    for visitor in &mut crowd {
        assert_eq!(visitor.read().text(), "mine");
    }
}
