//! The event streams of the dashboard (`text/event-stream`): newer sections of the main page, and
//! live requests.
//!
//! Invariants: a stream ends with its client, with the hand-over to another process, with the
//! permission of its client, and after [`EVENTS_MAX`] events; browsers then connect again. Nobody
//! waits for it. Their number is bounded. Streams of the same period share what is rendered.

use crate::control::counters::Metric;
use crate::control::dashboard_access::Caller;
use crate::control::dashboard_page::{Parameters, history, with_view};
use crate::control::dashboard_requests::{self, RequestWatch};
use crate::memory::dashboard::{LISTENERS_MAX, Rendered, RenderedSections};
use crate::request::client::{ClientConnection, ReceiveOutcome};
use crate::request::date::http_date;
use crate::request::respond::{self, Recipient};
use crate::shared::Shared;
use ::dashboard::Range;
use bytes::Bytes;
use h1::{BodyFraming, Request};
use message::{Method, ResponseHead, Status, names};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// Time between two events.
const EVERY: Duration = Duration::from_secs(2);

/// Time for which streams share the sections that one of them has rendered: a little less than
/// the time between two events, so that a stream never gets the same ones again.
const SHARED_FOR: Duration = Duration::from_millis(1900);

/// Number of events after which a stream ends. A browser connects again, and shows again that it
/// may read.
const EVENTS_MAX: usize = 150;

/// The media type of events.
const MEDIA_TYPE: &str = "text/event-stream";

/// What a stream sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// Sections of the main page.
    Sections,
    /// Live requests.
    Requests,
}

/// A stream that may begin.
pub(crate) struct EventStream {
    source: EventSource,
    _place: OwnedSemaphorePermit,
}

enum EventSource {
    Sections { range: Range, sent: HashMap<&'static str, Arc<str>> },
    Requests(Box<RequestWatch>),
}

/// Takes a place for a stream.
///
/// # Errors
/// Status and reason.
pub(crate) fn begin(
    shared: &Shared,
    kind: EventKind,
    parameters: &Parameters,
) -> Result<EventStream, (u16, String)> {
    let place = Arc::clone(&shared.dashboard.listeners).try_acquire_owned();
    let place = place
        .map_err(|_| (503, format!("{LISTENERS_MAX} pages receive events already. Close one of them.")))?;
    let source = match kind {
        EventKind::Sections => EventSource::Sections { range: parameters.range(), sent: HashMap::new() },
        EventKind::Requests => {
            EventSource::Requests(Box::new(dashboard_requests::watch(shared, parameters)?))
        }
    };
    Ok(EventStream { source, _place: place })
}

impl EventStream {
    /// Sends events to a client until the stream ends.
    pub(crate) async fn run(
        mut self,
        shared: &Arc<Shared>,
        client: &mut ClientConnection,
        request: &Request,
        is_certified: bool,
    ) {
        let framing = begin_response(shared, client, request);
        if client.flush().await.is_err() || request.head.method == Method::Head {
            return;
        }
        let ending = Arc::clone(shared);
        let mut handed_over = pin!(ending.ending.handed_over());
        let mut never = pin!(pending());
        let mut shared = Arc::clone(shared);
        for _ in 0..EVENTS_MAX {
            shared = shared.current();
            let arrival = client.arrival();
            // A reload may have withdrawn the authority of the client's certificate.
            let is_doubtful = arrival.is_secured && !Arc::ptr_eq(&shared.listeners, &ending.listeners);
            if is_doubtful || !Caller::of(&shared, arrival, is_certified, &request.head).may_read {
                break;
            }
            let event = self.source.event(&shared).await;
            client.push_content(framing, Bytes::from(event));
            if client.flush().await.is_err() {
                shared.cells(0).count(Metric::VisitorsGone);
                return;
            }
            let mut pause = pin!(tokio::time::sleep(EVERY));
            let is_due = loop {
                tokio::select! {
                    biased;
                    () = &mut handed_over => break false,
                    // A client has nothing to say here. An idle one is as good as any.
                    outcome = client.receive(never.as_mut()) => match outcome {
                        ReceiveOutcome::Idle => {}
                        _ => return,
                    },
                    () = &mut pause => break true,
                }
            };
            if !is_due {
                break;
            }
        }
        client.push_end(framing, None);
        let _ = client.flush().await;
    }
}

impl EventSource {
    /// The next event. It is a comment if nothing has changed, so that a broken path is noticed.
    async fn event(&mut self, shared: &Arc<Shared>) -> String {
        match self {
            Self::Sections { range, sent } => sections_event(&rendered(shared, *range).await, sent),
            Self::Requests(watch) => match watch.take().await {
                Some((html, skipped)) => {
                    event("requests", &serde_json::json!({"html": html, "skipped": skipped}))
                }
                None => ":\n\n".to_owned(),
            },
        }
    }
}

/// The sections of now, or those that another stream has rendered a moment ago.
async fn rendered(shared: &Arc<Shared>, range: Range) -> RenderedSections {
    let now = shared.clock.monotonic();
    let known = shared.dashboard.rendered.of(range);
    if let Some(known) = known.as_ref().filter(|known| now.since(known.at) < SHARED_FOR) {
        return Arc::clone(&known.sections);
    }
    let minute = shared.clock.now().as_secs() / 60;
    // The history is long and changes once a minute.
    let history = match known.filter(|known| known.minute == minute) {
        Some(known) => known.history,
        None => Arc::new(history(shared, range).await),
    };
    let sections = with_view(shared, range, &history, |view| ::dashboard::sections(&view));
    let sections: RenderedSections = sections.into_iter().map(|(name, html)| (name, html.into())).collect();
    let rendered = Rendered { at: now, minute, history, sections: Arc::clone(&sections) };
    shared.dashboard.rendered.set(range, rendered);
    sections
}

/// The sections that differ from those that were sent before.
fn sections_event(
    sections: &[(&'static str, Arc<str>)],
    sent: &mut HashMap<&'static str, Arc<str>>,
) -> String {
    let mut changed = Map::new();
    for (name, html) in sections {
        if sent.get(name) != Some(html) {
            changed.insert((*name).to_owned(), Value::from(&**html));
            sent.insert(name, Arc::clone(html));
        }
    }
    if changed.is_empty() { ":\n\n".to_owned() } else { event("sections", &Value::Object(changed)) }
}

/// An event with JSON, which has no line break outside of its texts and escapes those inside.
fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// Queues the head of the response, and returns the framing of its content.
fn begin_response(shared: &Shared, client: &mut ClientConnection, request: &Request) -> BodyFraming {
    let mut head = ResponseHead::new(Status::OK);
    for (name, value) in [
        (names::CONTENT_TYPE, MEDIA_TYPE),
        (names::CACHE_CONTROL, "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    ] {
        head.fields.push(name, value);
    }
    head.fields.push(names::DATE, http_date(shared.clock.now()));
    let recipient = Recipient::new(&request.head.method, request.head.version, false);
    let written = respond::write_head(&head, BodyFraming::Chunked, None, recipient);
    client.push_head(&written);
    written.framing
}
