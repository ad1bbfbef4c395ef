//! Visits with several requests at once on a connection with HTTP/2.
//!
//! Invariant: a stream that the client resets changes no other stream.

use super::SoakState;
use super::application::{SOAK_HOST, octets};
use super::connection::Visitor;
use super::visitors::{OTHERS, PLAIN, large};
use crate::{Http2Client, Http2Stream};
use stats::Random;
use std::time::Duration;

/// Upper bound of the requests at once.
const STREAMS_MAX: usize = 12;
/// Pause of a slow reader after each piece.
const PAUSE: Duration = Duration::from_millis(10);

/// Requests several responses at once. Reads some and resets the others.
pub(super) fn streams(stage: &SoakState<'_>, visitor: &mut Visitor) {
    let sent = stage.health.now();
    let Some(mut client) = visitor.connect_http2(stage) else {
        return stage.complain("a connection was refused");
    };
    client.call_host(SOAK_HOST);
    let random = &mut visitor.random;
    let mut begun = Vec::new();
    for _ in 0..2 + random.below(STREAMS_MAX) {
        let target = target(random);
        match begin(&mut client, &target) {
            Some(stream) => begun.push((target, stream)),
            None => return stage.excuse(sent, &format!("{target}: the connection ended")),
        }
    }
    random.shuffle(&mut begun);
    for (target, stream) in begun {
        match random.below(4) {
            0 => {
                // Resets the stream.
                drop(stream);
                stage.count("streams reset");
            }
            _ => read(stage, sent, &mut client, &target, stream),
        }
    }
}

/// Reads a large response slowly, while others arrive on the same connection.
pub(super) fn slow_streams(stage: &SoakState<'_>, visitor: &mut Visitor) {
    let sent = stage.health.now();
    let Some(mut client) = visitor.connect_http2(stage) else {
        return stage.complain("a connection was refused");
    };
    client.call_host(SOAK_HOST);
    let random = &mut visitor.random;
    let target = large(random);
    let Some(slow) = begin(&mut client, &target) else {
        return stage.excuse(sent, &format!("{target}: the connection ended"));
    };
    let Ok((status, mut content, _send)) = client.run(slow.head()) else {
        return stage.excuse(sent, &format!("{target} was not answered"));
    };
    if status >= 500 {
        return stage.excuse(sent, &format!("{target} was answered {status}"));
    }
    let expected = octets(&target);
    let wanted = random.below(expected.len());
    let mut at = 0;
    while at < wanted && !stage.is_over() {
        let Some(Ok(piece)) = client.run(content.data()) else {
            return stage.excuse(sent, &format!("{target} was cut off after {at} bytes"));
        };
        if status != 200 || !expected[at..].starts_with(&piece) {
            return stage.complain(&format!("{target} was answered {status} and is wrong from {at} on"));
        }
        at += piece.len();
        // The connection still works, whatever it does then.
        let _ = content.flow_control().release_capacity(piece.len());
        client.rest(PAUSE);
        if random.below(20) == 0 {
            let other = format!("/plain/{}", random.below(PLAIN));
            match begin(&mut client, &other) {
                Some(stream) => read(stage, sent, &mut client, &other, stream),
                None => return stage.excuse(sent, &format!("{other}: the connection ended")),
            }
        }
    }
    stage.count("streams left");
}

fn target(random: &mut Random) -> String {
    match random.below(8) {
        0 => large(random),
        1 => format!("/private/{}", random.below(OTHERS)),
        _ => format!("/plain/{}", random.below(PLAIN)),
    }
}

fn begin(client: &mut Http2Client, target: &str) -> Option<Http2Stream> {
    let request = client.request("GET", target, &[]);
    client.begin(request, true).ok()
}

fn read(stage: &SoakState<'_>, sent: Duration, client: &mut Http2Client, target: &str, stream: Http2Stream) {
    match client.try_read(stream) {
        Ok(answer) if answer.status == 200 && answer.complete => {
            stage.count("streams");
            if answer.body != octets(target) {
                stage.complain(&format!("{target} has a wrong body: {}", answer.head));
            }
        }
        Ok(answer) => stage.excuse_answer(sent, target, &answer),
        Err(error) => stage.excuse(sent, &format!("{target} was not answered: {error}")),
    }
}
