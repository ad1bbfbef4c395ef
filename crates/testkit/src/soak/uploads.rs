//! Visits that send content: forms, slow and large uploads, and uploads that are broken off.
//!
//! Invariant: the origin's receipt shows that it received exactly the bytes that the client sent.

use super::SoakState;
use super::application::{SOAK_HOST, octets, receipt};
use super::connection::{Message, Upload, Visitor};
use super::visitors::{OTHERS, PIECE_BYTES, PIECE_PAUSE};
use std::time::Duration;

/// Upper bounds of the content of a form, of a slow upload and of a large one, in bytes.
const FORM_BYTES: usize = 3_000;
const SLOW_BYTES: usize = 700_000;
const LARGE_BYTES: usize = 6_000_000;

/// Sends a form, with each of the methods that have content.
pub(super) fn form(stage: &SoakState<'_>, visitor: &mut Visitor) {
    let method = ["POST", "PUT", "PATCH"][visitor.random.below(3)];
    upload(stage, visitor, method, FORM_BYTES, (FORM_BYTES, Duration::ZERO), "forms");
}

/// Sends an upload in small pieces.
pub(super) fn slow(stage: &SoakState<'_>, visitor: &mut Visitor) {
    upload(stage, visitor, "POST", SLOW_BYTES, (PIECE_BYTES, PIECE_PAUSE), "slow uploads");
}

/// Sends an upload that does not fit into the memory for waiting bodies.
pub(super) fn large(stage: &SoakState<'_>, visitor: &mut Visitor) {
    upload(stage, visitor, "POST", LARGE_BYTES, (LARGE_BYTES, Duration::ZERO), "large uploads");
}

fn upload(
    stage: &SoakState<'_>,
    visitor: &mut Visitor,
    method: &str,
    bytes_max: usize,
    pace: (usize, Duration),
    what: &'static str,
) {
    let random = &mut visitor.random;
    let target = format!("/upload/{}", random.below(OTHERS));
    let content = content(random.below(OTHERS), 1 + random.below(bytes_max));
    let upload =
        Upload { octets: &content, is_chunked: random.below(3) == 0, expects: random.below(4) == 0, pace };
    let sent = stage.health.now();
    let message = Message { method, host: SOAK_HOST, target: &target, fields: &[], content: Some(upload) };
    let answer = visitor.exchange(stage, &message);
    let bytes = content.len();
    match answer {
        Some(answer) if answer.status == 200 && answer.complete => {
            if answer.body != receipt(&content).as_bytes() {
                let received = String::from_utf8_lossy(&answer.body).into_owned();
                stage.complain(&format!("{target} of {bytes} bytes arrived as {received}: {}", answer.head));
            }
            stage.count(what);
        }
        Some(answer) => stage.excuse_answer(sent, &format!("{method} {target} of {bytes} bytes"), &answer),
        None => stage.excuse(sent, &format!("{method} {target} of {bytes} bytes was not answered")),
    }
}

/// Content that depends on a number.
fn content(number: usize, bytes: usize) -> Vec<u8> {
    let piece = octets("/large/upload");
    piece.iter().skip(number).cycle().take(bytes).copied().collect()
}

/// Sends a part of an upload and closes the connection.
pub(super) fn aborted(stage: &SoakState<'_>, visitor: &mut Visitor) {
    let random = &mut visitor.random;
    let bytes = 1 + random.below(SLOW_BYTES);
    let part = random.below(bytes);
    let target = format!("/upload/{}", random.below(OTHERS));
    let content = content(0, bytes);
    let upload =
        Upload { octets: &content, is_chunked: false, expects: false, pace: (bytes, Duration::ZERO) };
    let message =
        Message { method: "POST", host: SOAK_HOST, target: &target, fields: &[], content: Some(upload) };
    let Some(mut client) = visitor.connect_http1(stage, bytes) else {
        return stage.complain("a connection was refused");
    };
    if client.try_send(message.head()).and_then(|()| client.try_send(&content[..part])).is_some() {
        stage.count("aborted uploads");
    }
}
