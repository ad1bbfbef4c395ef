//! `GET /log` at the admin address: streams the records of requests as lines of JSON.
//!
//! Invariant: the stream ends with its client, with the hand-over to another process, or when its
//! client reads nothing for `limits.write_timeout`. Nobody else waits for it.

use crate::control::admin::SHIELD;
use crate::control::counters::Metric;
use crate::memory::followers::{FOLLOWERS_MAX, Following};
use crate::request::client::{ClientConnection, ReceiveOutcome};
use crate::request::date::http_date;
use crate::request::respond::{self, Recipient};
use crate::shared::Shared;
use bytes::Bytes;
use h1::{BodyFraming, Request};
use message::{ResponseHead, Status, names};
use request_log::filter::Filter;
use std::future::pending;
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;

/// Bytes that are gathered for one write.
const BATCH_BYTES: usize = 64 * 1024;

/// How often a stream sends an empty line, so that a client on a broken path is noticed.
const BEAT_EVERY: Duration = Duration::from_secs(15);

/// The media type of lines of JSON.
const MEDIA_TYPE: &str = "application/x-ndjson";

/// Why there is no stream.
pub(crate) struct StreamRefusal {
    pub(crate) code: u16,
    pub(crate) why: String,
}

/// A new follower with the filter of the request's query.
pub(crate) fn follow(shared: &Shared, query: &[u8]) -> Result<Following, StreamRefusal> {
    let bad = |why| StreamRefusal { code: 400, why };
    let mut filter = None;
    for (name, value) in url::form_urlencoded::parse(query) {
        if name != api::log::WHERE {
            return Err(bad(format!("There is no parameter `{name}` here; there is `{}`.", api::log::WHERE)));
        }
        filter = Some(Filter::parse(&value).map_err(|error| bad(format!("{error}.")))?);
    }
    let full = || StreamRefusal {
        code: 503,
        why: format!("{FOLLOWERS_MAX} clients follow the log already; end one of them."),
    };
    shared.followers.follow(filter).ok_or_else(full)
}

/// Streams records to a client until it is gone.
pub(crate) async fn stream(
    shared: &Shared,
    client: &mut ClientConnection,
    request: &Request,
    mut following: Following,
) {
    let framing = begin(shared, client, request);
    if client.flush().await.is_err() {
        return;
    }
    let mut handed_over = pin!(shared.ending.handed_over());
    let mut never = pin!(pending());
    // Beyond the loop: an idle client ends a turn of it many times between two beats.
    let mut beats = tokio::time::interval_at(Instant::now() + BEAT_EVERY, BEAT_EVERY);
    let mut text = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = &mut handed_over => break,
            // A client has nothing to say here. An idle one is as good as any.
            outcome = client.receive(never.as_mut()) => match outcome {
                ReceiveOutcome::Idle => continue,
                _ => return,
            },
            () = following.next(&mut text, BATCH_BYTES) => following.push_skipped(&mut text),
            _ = beats.tick() => {
                following.push_skipped(&mut text);
                text.push(b'\n');
            }
        }
        client.push_content(framing, Bytes::from(std::mem::take(&mut text)));
        if client.flush().await.is_err() {
            shared.cells(0).count(Metric::VisitorsGone);
            return;
        }
    }
    client.push_end(framing, None);
    // The client connects again to the process that has taken over.
    let _ = client.flush().await;
}

/// Queues the head of the response, and returns the framing of its content.
fn begin(shared: &Shared, client: &mut ClientConnection, request: &Request) -> BodyFraming {
    let mut head = ResponseHead::new(Status::OK);
    head.fields.push(names::CONTENT_TYPE, MEDIA_TYPE);
    head.fields.push(names::CACHE_CONTROL, "no-store");
    for (name, value) in SHIELD {
        head.fields.push(name, value);
    }
    head.fields.push(names::DATE, http_date(shared.clock.now()));
    let recipient = Recipient::new(&request.head.method, request.head.version, false);
    let written = respond::write_head(&head, BodyFraming::Chunked, None, recipient);
    client.push_head(&written);
    written.framing
}
