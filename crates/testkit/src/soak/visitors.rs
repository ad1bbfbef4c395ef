//! The visitors of a soak. Each function makes one visit of one kind.
//!
//! Invariant: every response is compared with the model or with the origin's rule. A visit that
//! fails while the origin works is a problem.

use super::SoakState;
use super::application::{EVENTS, event, octets, receipt};
use crate::crash::{CrashPage, LANGUAGES, ModelSnapshot, NO_LANGUAGE, Purge, ResponseKind};
use crate::{Client, Response};
use stats::Random;
use std::time::Duration;

/// A function that makes one visit. It uses the open connection if there is one, and may leave one
/// open.
pub(super) type VisitFunction = fn(&SoakState<'_>, &mut Option<Client>, &mut Random);

/// For each kind, the number of its visitors and the pause between the visits of one visitor.
pub(super) const KINDS: [(VisitFunction, usize, Duration); 9] = [
    (page, PAGES, Duration::from_millis(6)),
    (purge, PURGES, Duration::from_millis(60)),
    (plain, 3, Duration::from_millis(6)),
    (own, 1, Duration::from_millis(20)),
    (slow_download, 4, Duration::from_millis(50)),
    (aborted_download, 3, Duration::from_millis(60)),
    (slow_upload, 3, Duration::from_millis(50)),
    (aborted_upload, 1, Duration::from_millis(100)),
    (events, 2, Duration::from_millis(100)),
];

const PAGES: usize = 4;
const PURGES: usize = 2;
/// Number of visitors that request pages. Clients that purge request one after each purge.
pub(super) const PAGE_VISITORS: usize = PAGES + PURGES;

/// Number of targets of each further kind.
const LARGE: usize = 60;
const PLAIN: usize = 3_000;
const OTHERS: usize = 200;
/// Size of a slow reader's receive buffer, in bytes.
const RECEIVE_BYTES: usize = 16 << 10;
/// Size of the pieces that a slow client sends or reads, in bytes, and the pause after each.
const PIECE_BYTES: usize = 32 << 10;
const PIECE_PAUSE: Duration = Duration::from_millis(15);
/// Upper bound of an upload's content, in bytes.
const UPLOAD_BYTES: usize = 700_000;

/// Requests a page: the whole page, a range, its head, or a revalidation.
fn page(stage: &SoakState<'_>, connection: &mut Option<Client>, random: &mut Random) {
    // A quarter of the pages receives more than half of the requests.
    let page =
        if random.below(2) == 0 { CrashPage::any(random) } else { CrashPage::of_number(random.below(24)) };
    let language = page.languages()[random.below(page.languages().len())];
    let first = random.below(150);
    match random.below(12) {
        0 => {
            let range = format!("Range: bytes={first}-{}\r\n", first + random.below(200_000));
            look(stage, connection, page, language, "GET", &range);
        }
        1 => look(stage, connection, page, language, "HEAD", ""),
        2 => {
            let etag = stage.model.etag(page, language);
            look(stage, connection, page, language, "GET", &format!("If-None-Match: {etag}\r\n"));
        }
        _ => look(stage, connection, page, language, "GET", ""),
    }
}

/// Purges by URL, tag, prefix, host or expression, or writes; then requests one of the affected
/// pages.
fn purge(stage: &SoakState<'_>, connection: &mut Option<Client>, random: &mut Random) {
    let purge = Purge::any(random, stage.admin);
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
        look(stage, connection, page, page.languages()[0], "GET", "");
    }
}

/// Requests a page and judges the response.
fn look(
    stage: &SoakState<'_>,
    connection: &mut Option<Client>,
    page: CrashPage,
    language: usize,
    method: &str,
    fields: &str,
) {
    let language_field = match language {
        NO_LANGUAGE => String::new(),
        language => format!("Accept-Language: {}\r\n", LANGUAGES[language]),
    };
    let target = page.target();
    let host = page.host();
    let sent = stage.health.now();
    let begun = stage.model.begin(page, language);
    let request = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{language_field}{fields}\r\n");
    let answer = converse(stage, connection, |client| client.try_answer(&request, method == "HEAD"));
    let Some(answer) = answer else {
        return stage.excuse(sent, &format!("{host}{target} was not answered"));
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

/// Requests a shared response that never changes: a small body, a 404 or a redirect.
fn plain(stage: &SoakState<'_>, connection: &mut Option<Client>, random: &mut Random) {
    let (target, status, what) = match random.below(20) {
        0 => (format!("/missing/{}", random.below(OTHERS)), 404, "404s"),
        1 => (format!("/moved/{}", random.below(OTHERS)), 301, "redirects"),
        _ => (format!("/plain/{}", random.below(PLAIN)), 200, "small responses"),
    };
    expect(stage, connection, &target, "", status, what);
}

/// Requests a page with a session cookie, which passes.
fn own(stage: &SoakState<'_>, connection: &mut Option<Client>, random: &mut Random) {
    let target = format!("/private/{}", random.below(OTHERS));
    expect(stage, connection, &target, "Cookie: session=1\r\n", 200, "passes");
}

fn expect(
    stage: &SoakState<'_>,
    connection: &mut Option<Client>,
    target: &str,
    fields: &str,
    status: u16,
    what: &'static str,
) {
    let sent = stage.health.now();
    let request = format!("GET {target} HTTP/1.1\r\nHost: c.test\r\n{fields}\r\n");
    let answer = converse(stage, connection, |client| client.try_answer(&request, false));
    match answer {
        Some(answer) if answer.status == status && answer.complete => {
            stage.count(what);
            if answer.body != octets(target) {
                stage.complain(&format!("{target} has a wrong body: {}", answer.head));
            }
        }
        Some(answer) if answer.status < 500 && answer.complete => {
            stage.complain(&format!("{target}: {}", answer.head));
        }
        Some(answer) => stage.excuse(sent, &format!("{target}: {}", answer.head)),
        None => stage.excuse(sent, &format!("{target} was not answered")),
    }
}

/// Makes one exchange on the open connection or on a new one. Keeps the connection open if
/// possible.
fn converse(
    stage: &SoakState<'_>,
    connection: &mut Option<Client>,
    talk: impl Fn(&mut Client) -> Option<Response>,
) -> Option<Response> {
    let mut client = connection.take().or_else(|| Client::try_connect(stage.address))?;
    let answer = talk(&mut client)?;
    if answer.complete && answer.field("Connection") != Some("close") {
        *connection = Some(client);
    }
    Some(answer)
}

fn large(random: &mut Random) -> String {
    format!("/large/{}", random.below(LARGE))
}

/// Starts a download. Returns the client after the head if the status is 200.
fn begin(stage: &SoakState<'_>, target: &str) -> Option<Client> {
    let sent = stage.health.now();
    let Some(mut client) = Client::try_connect_from([127, 0, 0, 1], stage.address, RECEIVE_BYTES) else {
        stage.complain("a connection was refused");
        return None;
    };
    let head = client
        .try_send(format!("GET {target} HTTP/1.1\r\nHost: c.test\r\n\r\n"))
        .and_then(|()| client.try_read_head());
    match head {
        Some(head) if head.status == 200 => return Some(client),
        Some(head) => stage.excuse(sent, &format!("{target}: {}", head.head)),
        None => stage.excuse(sent, &format!("{target} was not answered")),
    }
    None
}

/// Reads a large response in small pieces.
fn slow_download(stage: &SoakState<'_>, _: &mut Option<Client>, random: &mut Random) {
    let target = large(random);
    let sent = stage.health.now();
    let Some(mut client) = begin(stage, &target) else { return };
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
fn aborted_download(stage: &SoakState<'_>, _: &mut Option<Client>, random: &mut Random) {
    let target = large(random);
    let Some(mut client) = begin(stage, &target) else { return };
    let sent = stage.health.now();
    let bytes = random.below(1_000_000) >> random.below(10);
    match client.try_read_octets(bytes) {
        Some(part) if octets(&target).starts_with(&part) => stage.count("aborted downloads"),
        Some(_) => stage.complain(&format!("{target} has a wrong beginning")),
        None => stage.excuse(sent, &format!("{target} was cut off")),
    }
}

/// The head and the content of an upload.
fn upload(random: &mut Random) -> (String, Vec<u8>) {
    let number = random.below(OTHERS);
    let content: Vec<u8> = octets("/large/upload").into_iter().skip(number).collect();
    let bytes = 1 + random.below(UPLOAD_BYTES);
    let content = content[..bytes].to_vec();
    let head = format!("POST /upload/{number} HTTP/1.1\r\nHost: c.test\r\nContent-Length: {bytes}\r\n\r\n");
    (head, content)
}

/// Sends an upload in small pieces.
fn slow_upload(stage: &SoakState<'_>, connection: &mut Option<Client>, random: &mut Random) {
    let (head, content) = upload(random);
    let sent = stage.health.now();
    let answer = converse(stage, connection, |client| {
        client.try_send(&head)?;
        for piece in content.chunks(PIECE_BYTES) {
            client.try_send(piece)?;
            std::thread::sleep(PIECE_PAUSE);
        }
        client.try_answer("", false)
    });
    match answer {
        Some(answer) if answer.status == 200 && answer.body == receipt(&content).as_bytes() => {
            stage.count("slow uploads");
        }
        Some(answer) if answer.status < 500 => {
            stage.complain(&format!("an upload of {} bytes: {}", content.len(), answer.head));
        }
        Some(answer) => stage.excuse(sent, &format!("an upload: {}", answer.head)),
        None => stage.excuse(sent, "an upload was not answered"),
    }
}

/// Sends a part of an upload and closes the connection.
fn aborted_upload(stage: &SoakState<'_>, _: &mut Option<Client>, random: &mut Random) {
    let (head, content) = upload(random);
    let Some(mut client) = Client::try_connect(stage.address) else {
        return stage.complain("a connection was refused");
    };
    let part = random.below(content.len());
    if client.try_send(&head).and_then(|()| client.try_send(&content[..part])).is_some() {
        stage.count("aborted uploads");
    }
}

/// Reads an event stream to its end, or up to some event.
fn events(stage: &SoakState<'_>, _: &mut Option<Client>, random: &mut Random) {
    let sent = stage.health.now();
    let target = format!("/events/{}", random.below(OTHERS));
    let Some(mut client) = begin(stage, &target) else { return };
    let wanted = if random.below(2) == 0 { EVENTS } else { random.below(EVENTS) };
    for number in 0..wanted {
        let expected = event(number);
        match client.try_read_chunk() {
            Some(chunk) if chunk == expected.as_bytes() => {}
            Some(chunk) => {
                return stage.complain(&format!("{target} sent {:?} for {expected:?}", chunk.escape_ascii()));
            }
            None => return stage.excuse(sent, &format!("{target} was cut off")),
        }
        if stage.is_over() {
            return stage.count("visits left at the end");
        }
    }
    stage.count(if wanted == EVENTS { "whole event streams" } else { "event streams left" });
}
