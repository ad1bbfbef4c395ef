//! What the functions that scripts call have in common: the worker's connection, the site they belong to, and
//! the state of the request that is being answered.

use super::object::Object;
use crate::cache::Caches;
use crate::counters::Counters;
use crate::switches::Switches;
use platform::{Clock, Monotonic, Timestamp};
use rhai::Dynamic;
use rusqlite::Connection;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What all workers of a site share with their scripts.
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Counters,
    pub(crate) caches: Caches,
    /// Signs form tokens; made at random when the database is built.
    pub(crate) secret: String,
    /// Whether each page ends with a comment about this answer.
    pub(crate) parse_time: bool,
}

impl Shared {
    /// The same clock for modules that install themselves in a database that has no secret yet.
    pub(crate) fn for_installation(&self) -> Self {
        Self {
            clock: Arc::clone(&self.clock),
            counters: Counters::default(),
            caches: Caches::default(),
            secret: String::new(),
            parse_time: false,
        }
    }
}

/// One worker's side of the functions that scripts call.
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    connection: Mutex<Connection>,
    request: Mutex<RequestState>,
    /// Values the scripts keep for the length of a request, by name.
    pub(crate) globals: Object,
}

/// What happened with the page cache while a request was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PageCache {
    /// It is switched off.
    #[default]
    Off,
    /// It was not asked, because the answer is for one visitor only or was no page.
    Pass,
    /// The page was there.
    Hit,
    /// The page was not there.
    Miss,
}

/// The state of the request that is being answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestState {
    pub(crate) switches: Switches,
    pub(crate) begun: Monotonic,
    pub(crate) now: Timestamp,
    /// The caches' generation when the request began.
    pub(crate) generation: u64,
    pub(crate) queries: u64,
    pub(crate) page_cache: PageCache,
    /// Whether anything was taken from or put into the object cache.
    pub(crate) objects_used: bool,
}

impl Context {
    pub(crate) fn new(shared: Arc<Shared>, connection: Connection) -> Self {
        Self {
            shared,
            connection: Mutex::new(connection),
            request: Mutex::new(RequestState::default()),
            globals: Object::default(),
        }
    }

    /// Forgets the request before and starts the clock of this one.
    pub(crate) fn begin(&self, switches: Switches) {
        self.globals.clear();
        let page_cache = if switches.page_cache { PageCache::Pass } else { PageCache::Off };
        *self.state() = RequestState {
            switches,
            begun: self.shared.clock.monotonic(),
            now: self.shared.clock.now(),
            generation: self.shared.caches.generation(),
            page_cache,
            ..RequestState::default()
        };
    }

    /// Takes back what a failed script left half-written.
    pub(crate) fn end(&self) {
        self.globals.clear();
        let connection = self.connection();
        if !connection.is_autocommit() && connection.execute_batch("ROLLBACK").is_err() {
            // SQLite has rolled back by itself, as it does after some errors.
            debug_assert!(connection.is_autocommit(), "a transaction cannot be ended");
        }
    }

    /// A global value set by scripts or by the engine's owner.
    pub(crate) fn set_global(&self, name: &str, value: Dynamic) {
        self.globals.set(name, value);
    }

    /// The state of the request now.
    pub(crate) fn snapshot(&self) -> RequestState {
        *self.state()
    }

    /// Changes the state of the request.
    pub(crate) fn update(&self, change: impl FnOnce(&mut RequestState)) {
        change(&mut self.state());
    }

    /// How long the request has taken so far.
    pub(crate) fn elapsed(&self) -> Duration {
        self.shared.clock.monotonic().since(self.state().begun)
    }

    pub(crate) fn count_query(&self, write: bool) {
        self.state().queries += 1;
        self.shared.counters.queries.add(1);
        if write {
            self.shared.counters.writes.add(1);
        }
    }

    // One thread uses a context, so these locks are never waited for; they are here because the script engine
    // wants what it calls to be shareable. A panic leaves nothing half-done in them.
    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, RequestState> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
