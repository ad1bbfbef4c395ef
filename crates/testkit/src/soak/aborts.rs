//! Visits that send several requests at once with HTTP/1.1, or that leave at any point.
//!
//! Invariant: responses to requests that were sent at once come in their order.

use super::SoakState;
use super::application::{SOAK_HOST, octets};
use super::configuration::FILES;
use super::connection::{Message, TLS_NAME, Visitor};
use super::visitors::{OTHERS, PLAIN, large};
use crate::Client;
use stats::Random;

/// Upper bound of the requests that are sent at once.
const PIPELINE_MAX: usize = 16;
/// Size of the receive buffer, in bytes.
const RECEIVE_BYTES: usize = 64 << 10;

/// Sends several requests at once. Reads all responses, or some and leaves.
pub(super) fn pipeline(stage: &SoakState<'_>, visitor: &mut Visitor) {
    let sent = stage.health.now();
    let Some(mut client) = visitor.connect_http1(stage, RECEIVE_BYTES) else {
        return stage.complain("a connection was refused");
    };
    let random = &mut visitor.random;
    let targets: Vec<String> = (0..2 + random.below(PIPELINE_MAX)).map(|_| target(random)).collect();
    let wanted = if random.below(2) == 0 { targets.len() } else { random.below(targets.len()) };
    let requests: String = targets.iter().map(|target| get(target)).collect();
    if client.try_send(requests).is_none() {
        return stage.excuse(sent, "a pipeline was not accepted");
    }
    for target in &targets[..wanted] {
        match client.try_answer("", false) {
            Some(answer) if answer.status == 200 && answer.complete => {
                if answer.body != octets(target) {
                    return stage
                        .complain(&format!("{target} of a pipeline has a wrong body: {}", answer.head));
                }
                if answer.field("Connection") == Some("close") {
                    return stage.excuse(sent, &format!("the edge closed a pipeline after {target}"));
                }
            }
            Some(answer) => {
                return stage.excuse_answer(sent, &format!("{target} of a pipeline"), &answer);
            }
            None => return stage.excuse(sent, &format!("{target} of a pipeline was not answered")),
        }
    }
    stage.count(if wanted == targets.len() { "whole pipelines" } else { "pipelines left" });
}

/// Sends a part of a request, or a whole one, reads a part of the response, and leaves.
pub(super) fn anywhere(stage: &SoakState<'_>, visitor: &mut Visitor) {
    let Some(mut client) = visitor.connect_http1(stage, RECEIVE_BYTES) else {
        return stage.complain("a connection was refused");
    };
    let random = &mut visitor.random;
    let target = if random.below(3) == 0 { large(random) } else { target(random) };
    let request = get(&target);
    if random.below(2) == 0 {
        let _ = client.try_send(&request[..random.below(request.len())]);
        return stage.count("requests broken off");
    }
    let _ = client.try_send(&request);
    match random.below(3) {
        0 => {}
        // No response has a shorter head.
        1 => drop(client.try_read_octets(1 + random.below(100))),
        _ => drop(client.try_read_head()),
    }
    stage.count("responses left");
}

/// Leaves during a TLS handshake, or right after it.
pub(super) fn handshake(stage: &SoakState<'_>, visitor: &mut Visitor) {
    if visitor.random.below(3) == 0 {
        let trust = stage.trust.without_sessions();
        match Client::secured(stage.secured, TLS_NAME, &trust) {
            Ok(_) => stage.count("handshakes without a request"),
            Err(error) => stage.complain(&format!("a TLS handshake failed: {error}")),
        }
        return;
    }
    let Some(mut client) = Client::try_connect(stage.secured) else {
        return stage.complain("a connection was refused");
    };
    let hello = stage.trust.client_hello(TLS_NAME);
    let sent = visitor.random.below(hello.len() + 1);
    let _ = client.try_send(&hello[..sent]);
    stage.count("handshakes broken off");
}

fn target(random: &mut Random) -> String {
    match random.below(8) {
        0 => format!("/private/{}", random.below(OTHERS)),
        1 => format!("/files/{}.bin", random.below(FILES)),
        _ => format!("/plain/{}", random.below(PLAIN)),
    }
}

fn get(target: &str) -> String {
    Message { method: "GET", host: SOAK_HOST, target, ..Message::default() }.head()
}
