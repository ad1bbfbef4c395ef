//! An uncached page asked while something else is loaded: does the rest of the site still live? Its twin asks the same
//! as a visitor who has logged in.
//!
//! Invariant: one request at a time, begun at most once a second; an address is never used twice, so no cache
//! can know the answer. A request that is not answered when the load ends is reported with the time it had
//! waited: leaving it out would make a site that answers nothing look well. A page that is not made for who asks
//! counts as failed.

use crate::client::{Client, ClientError, Request};
use crate::interrupt::Stop;
use crate::template::{Template, Variables};
use crate::traffic::Session;
use platform::Clock;
use report::results::BystanderRecord;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The time between the beginnings of two requests.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long the load has run when the first request is made.
const DELAY: Duration = Duration::from_millis(100);
/// How long a request may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Asks for the page.
pub(crate) struct Bystander<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) path: &'a Template,
    pub(crate) variables: &'a Variables,
    pub(crate) address: String,
    pub(crate) host: Option<&'a str>,
    /// The sessions of the ladder; a page of theirs is for nobody else.
    pub(crate) sessions: &'a [Session],
    /// Who asks, if it is somebody who has logged in: the session and the value of the `Cookie` field.
    pub(crate) visitor: Option<(&'a Session, String)>,
    /// A number never used before; shared by all of a ladder.
    pub(crate) unique: &'a AtomicU64,
}

impl Bystander<'_> {
    /// One request; its response time in milliseconds.
    pub(crate) fn ask(&self, stop: &Stop) -> Result<f64, ClientError> {
        let unique = self.unique.fetch_add(1, Ordering::Relaxed).to_string();
        let path = self.path.expand(&self.variables.with("unique", unique));
        let client = Client { clock: self.clock, stop, limit: LIMIT };
        let url = format!("http://{}{path}", self.address);
        let cookie = self.visitor.iter().map(|(_, cookie)| ("Cookie".to_owned(), cookie.clone()));
        let fields = cookie.collect();
        let request = Request { method: "GET", url: &url, host: self.host, fields, ..Request::default() };
        let answer = client.ask_for(&request)?;
        if !(200..300).contains(&answer.status) {
            Err(ClientError::Malformed(format!("status {}", answer.status)))
        } else if !self.is_for_asker(&answer.content) {
            Err(ClientError::Malformed("the page is not made for who asks".to_owned()))
        } else {
            Ok(milliseconds(answer.elapsed))
        }
    }

    fn is_for_asker(&self, content: &[u8]) -> bool {
        let shows = |session: &Session| session.shows.0.is_match(content);
        match &self.visitor {
            Some((session, _)) => shows(session),
            None => !self.sessions.iter().any(shows),
        }
    }

    /// Asks once a second until `over` is set.
    pub(crate) fn ask_until(&self, over: &Stop) -> BystanderRecord {
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

/// Milliseconds with three decimals: what is finer than a microsecond is not known.
fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}
