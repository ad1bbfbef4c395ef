//! The operator's pages `/_status`, `/_switch` and `/_flush`. They answer only direct requests from
//! this machine.

use crate::answer::Answer;
use crate::cache::Scope;
use crate::script::context::Shared;
use crate::scripts::Scripts;
use crate::switches::SharedSwitches;
use crate::visit::Visit;
use message::{Method, names};
use rusqlite::Connection;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The state that the operator's pages show and change.
pub(super) struct Admin {
    pub(super) shared: Arc<Shared>,
    pub(super) scripts: Arc<Scripts>,
    pub(super) switches: Arc<SharedSwitches>,
    pub(super) connection: Connection,
    pub(super) workers: usize,
}

impl Admin {
    /// Answers a request for one of the operator's pages.
    pub(super) fn answer(&self, visit: &Visit) -> Answer {
        if !visit.is_local() || is_foreign(visit) {
            return Answer::plain(403, "Only for the operator, directly and on this machine.\n");
        }
        match (&visit.head.method, visit.path()) {
            (Method::Get | Method::Head, b"/_status") => json_answer(&self.status()),
            (Method::Post, b"/_switch") => self.switch(visit),
            (Method::Post, b"/_flush") => match self.flush() {
                Ok(()) => json_answer(&self.status()),
                Err(error) => Answer::plain(500, format!("{error}\n")),
            },
            (_, b"/_status" | b"/_switch" | b"/_flush") => {
                let mut answer = Answer::plain(405, "GET /_status, POST /_switch, POST /_flush\n");
                let allowed = if visit.path() == b"/_status" { "GET, HEAD" } else { "POST" };
                answer.fields.push("Allow", allowed);
                answer
            }
            _ => Answer::plain(404, "GET /_status, POST /_switch, POST /_flush\n"),
        }
    }

    fn status(&self) -> Value {
        let switches: Map<String, Value> = self
            .switches
            .load()
            .named()
            .iter()
            .map(|(name, on)| ((*name).to_owned(), (*on).into()))
            .collect();
        let counters: Map<String, Value> = self
            .shared
            .counters
            .named()
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).into()))
            .collect();
        let (entries, bytes) = self.shared.caches.size();
        json!({
            "switches": switches,
            "counters": counters,
            "objects": { "entries": entries, "bytes": bytes },
            "workers": self.workers,
            "pid": std::process::id(),
        })
    }

    fn switch(&self, visit: &Visit) -> Answer {
        let query = String::from_utf8_lossy(visit.query());
        // Only this thread changes the switches, so loading and storing need not be one operation.
        match self.switches.load().changed(&query) {
            Ok(switches) => {
                self.switches.store(switches);
                if !switches.opcode {
                    self.scripts.forget();
                }
                json_answer(&self.status())
            }
            Err(error) => Answer::plain(400, format!("{error}\n")),
        }
    }

    /// Empties all caches.
    fn flush(&self) -> rusqlite::Result<()> {
        self.scripts.forget();
        self.shared.caches.invalidate(&self.connection, &Scope::All)
    }
}

/// Whether a page of another site made the browser send this request (cross-site request forgery).
fn is_foreign(visit: &Visit) -> bool {
    let fields = &visit.head.fields;
    let site = fields.first("Sec-Fetch-Site").is_some_and(|site| site.as_ref() == b"cross-site");
    let origin = fields.first("Origin").is_some_and(|origin| {
        let host = fields.first(names::HOST).map_or(&b""[..], |host| host.as_ref());
        origin.strip_prefix(b"http://") != Some(host)
    });
    site || origin
}

fn json_answer(value: &Value) -> Answer {
    let mut answer = Answer::plain(200, format!("{value}\n"));
    answer.fields.set(names::CONTENT_TYPE, "application/json");
    answer
}
