//! The visitors of a soak. Each function makes one visit of one kind.
//!
//! Invariant: every response is compared with the model or with the origin's rule. A visit that
//! fails while the origin works is a problem.

use super::SoakState;
use super::application::{EVENTS, SOAK_HOST, TUNNEL_GREETING, event, octets};
use super::configuration::FILES;
use super::connection::{Message, Visitor};
use super::{aborts, multiplexed, pair, ranges, uploads};
use crate::crash::{CrashPage, LANGUAGES, ModelSnapshot, NO_LANGUAGE, Purge, ResponseKind};
use crate::{Client, Response};
use stats::Random;
use std::time::Duration;

/// A function that makes one visit. It uses the visitor's open connection if there is one, and may
/// leave one open.
pub(super) type VisitFunction = fn(&SoakState<'_>, &mut Visitor);

/// For each kind, the number of its visitors and the pause between the visits of one visitor. The
/// visitors of a kind use the transports in turns.
pub(super) const KINDS: [(VisitFunction, usize, Duration); 19] = [
    (page, PAGES, Duration::from_millis(8)),
    (purge, PURGES, Duration::from_millis(80)),
    (plain, 4, Duration::from_millis(8)),
    (own, 2, Duration::from_millis(20)),
    (slow_download, 4, Duration::from_millis(50)),
    (aborted_download, 4, Duration::from_millis(60)),
    (events, 2, Duration::from_millis(100)),
    (uploads::form, 2, Duration::from_millis(30)),
    (uploads::slow, 4, Duration::from_millis(50)),
    (uploads::large, 2, Duration::from_millis(400)),
    (uploads::aborted, 2, Duration::from_millis(100)),
    (ranges::part, 4, Duration::from_millis(20)),
    (ranges::condition, 2, Duration::from_millis(20)),
    (multiplexed::streams, 2, Duration::from_millis(60)),
    (multiplexed::slow_streams, 2, Duration::from_millis(100)),
    (aborts::pipeline, 2, Duration::from_millis(40)),
    (aborts::anywhere, 4, Duration::from_millis(50)),
    (aborts::handshake, 1, Duration::from_millis(200)),
    (pair::visit, 4, Duration::from_millis(20)),
];

const PAGES: usize = 4;
const PURGES: usize = 2;
/// Number of visitors of all kinds.
pub(super) const COUNT: u64 = {
    let mut count = 0;
    let mut kind = 0;
    while kind < KINDS.len() {
        count += KINDS[kind].1;
        kind += 1;
    }
    count as u64
};

/// Number of targets of each further kind.
pub(super) const LARGE: usize = 60;
pub(super) const PLAIN: usize = 3_000;
pub(super) const OTHERS: usize = 200;
/// Size of a slow reader's receive buffer, in bytes.
const RECEIVE_BYTES: usize = 16 << 10;
/// Size of the pieces that a slow client sends or reads, in bytes, and the pause after each.
pub(super) const PIECE_BYTES: usize = 32 << 10;
pub(super) const PIECE_PAUSE: Duration = Duration::from_millis(15);

/// Requests a page: the whole page, a range, its head, or a revalidation.
fn page(stage: &SoakState<'_>, visitor: &mut Visitor) {
    let random = &mut visitor.random;
    // A quarter of the pages receives more than half of the requests.
    let page =
        if random.below(2) == 0 { CrashPage::any(random) } else { CrashPage::of_number(random.below(24)) };
    let language = page.languages()[random.below(page.languages().len())];
    let first = random.below(150);
    match random.below(12) {
        0 => {
            let range = format!("Range: bytes={first}-{}", first + random.below(200_000));
            look(stage, visitor, page, language, "GET", Some(range));
        }
        1 => look(stage, visitor, page, language, "HEAD", None),
        2 => {
            let etag = stage.model.etag(page, language);
            look(stage, visitor, page, language, "GET", Some(format!("If-None-Match: {etag}")));
        }
        _ => look(stage, visitor, page, language, "GET", None),
    }
}

/// Purges by URL, tag, prefix, host or expression, or writes; then requests one of the affected
/// pages.
fn purge(stage: &SoakState<'_>, visitor: &mut Visitor) {
    let purge = Purge::any(&mut visitor.random, stage.admin);
    let begun = stage.health.now();
    match purge.carry_out(stage.model, stage.address) {
        Some(answer) if answer.status == 200 => stage.count("purges and writes"),
        // Only a write depends on the origin; the edge answers purges by itself.
        answer => {
            let head = answer.map_or_else(|| "no answer".to_owned(), |answer| answer.head);
            let problem = format!("{}: {head}", purge.what());
            if purge.is_write() { stage.excuse(begun, &problem) } else { stage.complain(&problem) }
        }
    }
    if let Some(page) = purge.first_page() {
        look(stage, visitor, page, page.languages()[0], "GET", None);
    }
}

/// Requests a page and judges the response.
fn look(
    stage: &SoakState<'_>,
    visitor: &mut Visitor,
    page: CrashPage,
    language: usize,
    method: &str,
    field: Option<String>,
) {
    let accepted = format!("Accept-Language: {}", LANGUAGES[language]);
    let languages = (language != NO_LANGUAGE).then_some(accepted.as_str());
    let fields: Vec<&str> = languages.into_iter().chain(field.as_deref()).collect();
    let target = page.target();
    let host = page.host();
    let sent = stage.health.now();
    let begun = stage.model.begin(page, language);
    let message = Message { method, host, target: &target, fields: &fields, content: None };
    let Some(answer) = visitor.exchange(stage, &message) else {
        return stage.excuse(sent, &format!("{method} {host}{target} {fields:?} was not answered"));
    };
    judge(stage, sent, &begun, &answer, method == "HEAD");
}

fn judge(stage: &SoakState<'_>, sent: Duration, begun: &ModelSnapshot, answer: &Response, is_head: bool) {
    let judged = stage.model.judge(begun, answer, is_head);
    match judged {
        Ok(ResponseKind::Refused) => stage.excuse(sent, &format!("a page was answered {}", answer.head)),
        // The origin truncates some of its large responses.
        Ok(ResponseKind::Cut) if begun.page().is_large() => stage.count("pages cut off by the origin"),
        Ok(ResponseKind::Cut) => stage.excuse(sent, &format!("a small page was cut off: {}", answer.head)),
        Ok(verdict) => {
            stage.count(if verdict == ResponseKind::Hit { "pages from the store" } else { "other pages" });
            match answer.status {
                206 => stage.count("parts of pages"),
                304 => stage.count("pages confirmed to visitors"),
                _ if is_head => stage.count("heads of pages"),
                _ => {}
            }
        }
        Err(problem) => stage.complain(&problem),
    }
}

/// Requests a shared response that never changes: a small body, a 404, a redirect, a file, or a
/// response that expires soon.
fn plain(stage: &SoakState<'_>, visitor: &mut Visitor) {
    let random = &mut visitor.random;
    let (target, status, what) = match random.below(24) {
        0 => (format!("/missing/{}", random.below(OTHERS)), 404, "404s"),
        1 => (format!("/moved/{}", random.below(OTHERS)), 301, "redirects"),
        2..4 => (format!("/files/{}.bin", random.below(FILES)), 200, "files"),
        4..8 => (format!("/moving/{}", random.below(OTHERS)), 200, "responses that expire"),
        _ => (format!("/plain/{}", random.below(PLAIN)), 200, "small responses"),
    };
    expect(stage, visitor, &target, &[], status, what);
}

/// Requests a page with a session cookie, which passes, or a tunnel.
fn own(stage: &SoakState<'_>, visitor: &mut Visitor) {
    if visitor.random.below(10) == 0 {
        return tunnel(stage, visitor);
    }
    let target = format!("/private/{}", visitor.random.below(OTHERS));
    expect(stage, visitor, &target, &["Cookie: session=1"], 200, "passes");
}

fn expect(
    stage: &SoakState<'_>,
    visitor: &mut Visitor,
    target: &str,
    fields: &[&str],
    status: u16,
    what: &'static str,
) {
    let sent = stage.health.now();
    let message = Message { method: "GET", host: SOAK_HOST, target, fields, content: None };
    match visitor.exchange(stage, &message) {
        Some(answer) if answer.status == status && answer.complete => {
            stage.count(what);
            if answer.body != octets(target) {
                stage.complain(&format!("{target} has a wrong body: {}", answer.head));
            }
        }
        Some(answer) => stage.excuse_answer(sent, target, &answer),
        None => stage.excuse(sent, &format!("{target} was not answered")),
    }
}

/// Opens a tunnel and reads the origin's bytes through it.
fn tunnel(stage: &SoakState<'_>, visitor: &Visitor) {
    let sent = stage.health.now();
    let Some(mut client) = visitor.connect_http1(stage, RECEIVE_BYTES) else {
        return stage.complain("a connection was refused");
    };
    let fields = ["Connection: Upgrade", "Upgrade: greeting"];
    let message =
        Message { method: "GET", host: SOAK_HOST, target: "/tunnel/", fields: &fields, content: None };
    let head = client.try_send(message.head()).and_then(|()| client.try_read_head());
    match head {
        Some(head) if head.status == 101 => match client.try_read_octets(TUNNEL_GREETING.len()) {
            Some(greeting) if greeting == TUNNEL_GREETING => stage.count("tunnels"),
            Some(other) => stage.complain(&format!("a tunnel sent {:?}", other.escape_ascii().to_string())),
            None => stage.excuse(sent, "a tunnel was cut off"),
        },
        Some(answer) => stage.excuse_answer(sent, "/tunnel/", &answer),
        None => stage.excuse(sent, "/tunnel/ was not answered"),
    }
}

pub(super) fn large(random: &mut Random) -> String {
    format!("/large/{}", random.below(LARGE))
}

/// Starts a download. Returns the client after the head if the status is 200.
fn begin(stage: &SoakState<'_>, visitor: &Visitor, target: &str) -> Option<Client> {
    let sent = stage.health.now();
    let Some(mut client) = visitor.connect_http1(stage, RECEIVE_BYTES) else {
        stage.complain("a connection was refused");
        return None;
    };
    let message = Message { method: "GET", host: SOAK_HOST, target, ..Message::default() };
    let head = client.try_send(message.head()).and_then(|()| client.try_read_head());
    match head {
        Some(head) if head.status == 200 => return Some(client),
        Some(head) => stage.excuse_answer(sent, target, &head),
        None => stage.excuse(sent, &format!("{target} was not answered")),
    }
    None
}

/// Reads a large response in small pieces.
fn slow_download(stage: &SoakState<'_>, visitor: &mut Visitor) {
    let target = large(&mut visitor.random);
    let sent = stage.health.now();
    let Some(mut client) = begin(stage, visitor, &target) else { return };
    let expected = octets(&target);
    for piece in expected.chunks(PIECE_BYTES) {
        match client.try_read_octets(piece.len()) {
            Some(octets) if octets == piece => {}
            Some(_) => return stage.complain(&format!("{target} has a wrong piece")),
            None => return stage.excuse(sent, &format!("{target} was cut off")),
        }
        if stage.is_over() {
            return stage.count("visits left at the end");
        }
        std::thread::sleep(PIECE_PAUSE);
    }
    stage.count("slow downloads");
}

/// Reads a part of a large response and closes the connection.
fn aborted_download(stage: &SoakState<'_>, visitor: &mut Visitor) {
    let target = large(&mut visitor.random);
    let Some(mut client) = begin(stage, visitor, &target) else { return };
    let sent = stage.health.now();
    let bytes = visitor.random.below(1_000_000) >> visitor.random.below(10);
    match client.try_read_octets(bytes) {
        Some(part) if octets(&target).starts_with(&part) => stage.count("aborted downloads"),
        Some(_) => stage.complain(&format!("{target} has a wrong beginning")),
        None => stage.excuse(sent, &format!("{target} was cut off")),
    }
}

/// Reads an event stream to its end, or up to some event.
fn events(stage: &SoakState<'_>, visitor: &mut Visitor) {
    let sent = stage.health.now();
    let target = format!("/events/{}", visitor.random.below(OTHERS));
    let Some(mut client) = begin(stage, visitor, &target) else { return };
    let wanted = if visitor.random.below(2) == 0 { EVENTS } else { visitor.random.below(EVENTS) };
    for number in 0..wanted {
        let expected = event(number);
        // An event may come in several chunks.
        let mut text = Vec::new();
        while text.len() < expected.len() {
            match client.try_read_chunk() {
                Some(chunk) if !chunk.is_empty() => text.extend_from_slice(&chunk),
                _ => return stage.excuse(sent, &format!("{target} was cut off")),
            }
        }
        if text != expected.as_bytes() {
            let text = text.escape_ascii().to_string();
            return stage.complain(&format!("{target} sent {text:?} for {expected:?}"));
        }
        if stage.is_over() {
            return stage.count("visits left at the end");
        }
    }
    stage.count(if wanted == EVENTS { "whole event streams" } else { "event streams left" });
}
