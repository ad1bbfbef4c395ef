//! The bystander: a client that requests an uncached page while another page is under load. It
//! shows whether the rest of the site still responds. Its twin sends the same requests as a
//! logged-in visitor.
//!
//! Invariants:
//!
//! * There is one request at a time, and at most one starts per second.
//! * No URL is used twice, so no cache can have the response.
//! * A request without a response at the end of the load is reported with the time it waited.
//!   Without these requests, a site that never responds would look fast.
//! * A page that was made for another visitor counts as failed.

use crate::client::{ClientError, HttpClient, HttpRequest};
use crate::interrupt::StopFlag;
use crate::template::{Template, Variables};
use crate::traffic::Session;
use clock::Clock;
use report::results::BystanderRecord;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time between the starts of two requests.
const INTERVAL: Duration = Duration::from_secs(1);
/// Delay of the first request after the start of the load.
const DELAY: Duration = Duration::from_millis(100);
/// Time limit for one request.
const LIMIT: Duration = Duration::from_secs(30);

/// Sends the requests of one bystander.
pub(crate) struct Bystander<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) path: &'a Template,
    pub(crate) variables: &'a Variables,
    pub(crate) address: String,
    pub(crate) host: Option<&'a str>,
    /// All sessions of the ladder: the page of an anonymous bystander must match none of them.
    pub(crate) sessions: &'a [Session],
    /// Session and `Cookie` value of a logged-in bystander; `None` for an anonymous one.
    pub(crate) visitor: Option<(&'a Session, String)>,
    /// Counter for unique URLs, shared by all requests of a ladder.
    pub(crate) unique: &'a AtomicU64,
}

impl Bystander<'_> {
    /// Sends one request and returns its response time in milliseconds. A status other than 2xx is
    /// an error, and so is a page made for another visitor.
    pub(crate) fn ask(&self, stop: &StopFlag) -> Result<f64, ClientError> {
        // Relaxed is enough: only the number has to be unique, and it orders nothing else.
        let unique = self.unique.fetch_add(1, Ordering::Relaxed).to_string();
        let path = self.path.expand(&self.variables.with("unique", unique));
        let client = HttpClient { clock: self.clock, stop, limit: LIMIT };
        let url = format!("http://{}{path}", self.address);
        let cookie = self.visitor.iter().map(|(_, cookie)| ("Cookie".to_owned(), cookie.clone()));
        let fields = cookie.collect();
        let request =
            HttpRequest { method: "GET", url: &url, host: self.host, fields, ..HttpRequest::default() };
        let answer = client.ask_for(&request)?;
        if !(200..300).contains(&answer.status) {
            Err(ClientError::Malformed(format!("status {}", answer.status)))
        } else if !self.is_for_asker(&answer.content) {
            Err(ClientError::Malformed("the response is a page for another visitor".to_owned()))
        } else {
            Ok(milliseconds(answer.elapsed))
        }
    }

    /// Tells whether the page was made for this visitor. An anonymous bystander must receive a page
    /// that no session's pattern matches.
    fn is_for_asker(&self, content: &[u8]) -> bool {
        let shows = |session: &Session| session.shows.0.is_match(content);
        match &self.visitor {
            Some((session, _)) => shows(session),
            None => !self.sessions.iter().any(shows),
        }
    }

    /// Sends a request once a second until `over` is set.
    pub(crate) fn ask_until(&self, over: &StopFlag) -> BystanderRecord {
        let mut record = BystanderRecord::default();
        over.wait(DELAY);
        while !over.is_requested() {
            let begun = self.clock.monotonic();
            match self.ask(over) {
                Ok(took) => record.loaded_ms.push(took),
                Err(ClientError::Interrupted) => {
                    record.unanswered_ms.push(milliseconds(self.clock.monotonic().since(begun)));
                }
                Err(_) => record.failed += 1,
            }
            over.wait(INTERVAL.saturating_sub(self.clock.monotonic().since(begun)));
        }
        record
    }
}

/// Converts to milliseconds, truncated to whole microseconds.
fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}
