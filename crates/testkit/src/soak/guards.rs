//! Clients that ask for more than their share, made-up parameters, and a denied client.
//!
//! Invariant: the edge refuses only these clients, and says when they may come again.

use super::SoakState;
use super::application::{SOAK_HOST, octets};
use super::configuration::DENIED;
use super::connection::Message;
use super::visitors::{OTHERS, PLAIN};
use crate::{Client, Response};
use stats::Random;
use std::time::Duration;

/// Size of the receive buffer, in bytes.
const RECEIVE_BYTES: usize = 64 << 10;
/// Requests of a greedy client in a row, and the pause after each and after all. The guard permits
/// a part of them.
const REQUESTS: usize = 200;
const PAUSE: Duration = Duration::from_millis(5);
const REST: Duration = Duration::from_secs(3);
/// Pause between two attempts of the denied client.
const DENIED_PAUSE: Duration = Duration::from_millis(300);

/// Names under which refusals are counted.
pub(super) const TOO_FAST: &str = "requests of greedy clients refused";
pub(super) const DENIALS: &str = "connections of a denied client";
pub(super) const FLOODS: &str = "made-up parameters refused";

/// Sends more requests than the guard permits, each from a network of the client's own.
pub(super) fn hurry(stage: &SoakState<'_>, number: u8, mut random: Random) {
    let from = [127, 9, 2 + number, 1];
    while !stage.is_over() {
        let mut connection = None;
        for _ in 0..REQUESTS {
            if stage.is_over() {
                return;
            }
            let target = match random.below(2) {
                0 => format!("/private/{}", random.below(OTHERS)),
                _ => format!("/plain/{}", random.below(PLAIN)),
            };
            ask(stage, from, &mut connection, &target);
            std::thread::sleep(PAUSE);
        }
        std::thread::sleep(REST);
    }
}

fn ask(stage: &SoakState<'_>, from: [u8; 4], connection: &mut Option<Client>, target: &str) {
    let sent = stage.health.now();
    let client = connection.take().or_else(|| Client::try_connect_from(from, stage.address, RECEIVE_BYTES));
    let Some(mut client) = client else { return stage.complain("a connection was refused") };
    let message = Message { method: "GET", host: SOAK_HOST, target, ..Message::default() };
    match client.try_answer(message.head(), false) {
        Some(answer) if answer.status == 429 => {
            stage.count(TOO_FAST);
            judge_refusal(stage, target, &answer);
            if answer.field("Connection") != Some("close") {
                *connection = Some(client);
            }
        }
        Some(answer) if answer.status == 200 && answer.complete => {
            stage.count("requests of greedy clients permitted");
            if answer.body != octets(target) {
                stage.complain(&format!("{target} has a wrong body: {}", answer.head));
            }
            *connection = Some(client);
        }
        Some(answer) => stage.excuse_answer(sent, target, &answer),
        // A banned client's connections are closed.
        None => stage.count("connections of greedy clients closed"),
    }
}

fn judge_refusal(stage: &SoakState<'_>, target: &str, answer: &Response) {
    let seconds = answer.field("Retry-After").and_then(|value| value.parse::<u64>().ok());
    if seconds.is_none_or(|seconds| seconds == 0) {
        stage.complain(&format!("{target} was refused without Retry-After: {}", answer.head));
    }
}

/// Requests one page with ever new parameters.
pub(super) fn flood(stage: &SoakState<'_>, mut random: Random) {
    let mut connection = None;
    while !stage.is_over() {
        let sent = stage.health.now();
        let target = format!("/plain/0?made-up={}", random.next_u64());
        let client = connection.take().or_else(|| Client::try_connect(stage.address));
        let Some(mut client) = client else { return stage.complain("a connection was refused") };
        let message = Message { method: "GET", host: SOAK_HOST, target: &target, ..Message::default() };
        match client.try_answer(message.head(), false) {
            Some(answer) if answer.status == 429 => {
                stage.count(FLOODS);
                judge_refusal(stage, &target, &answer);
                connection = Some(client);
            }
            Some(answer) if answer.status == 200 && answer.complete => {
                if answer.body != octets(&target) {
                    stage.complain(&format!("{target} has a wrong body: {}", answer.head));
                }
                stage.count("made-up parameters permitted");
                connection = Some(client);
            }
            Some(answer) => stage.excuse_answer(sent, &target, &answer),
            None => stage.excuse(sent, &format!("{target} was not answered")),
        }
        std::thread::sleep(DENIED_PAUSE);
    }
}

/// Connects as a client that the configuration denies.
pub(super) fn denied(stage: &SoakState<'_>) {
    while !stage.is_over() {
        let Some(mut client) = Client::try_connect_from(DENIED, stage.address, RECEIVE_BYTES) else {
            return stage.complain("a connection was refused");
        };
        stage.count(DENIALS);
        let message = Message { method: "GET", host: SOAK_HOST, target: "/plain/0", ..Message::default() };
        if let Some(answer) = client.try_answer(message.head(), false) {
            stage.complain(&format!("a denied client got {}", answer.head));
        }
        std::thread::sleep(DENIED_PAUSE);
    }
}
