//! The state behind the functions that scripts call: the worker's database connection, the site's
//! shared state, and the state of the current request.

use super::object::Object;
use crate::cache::Caches;
use crate::counters::Counters;
use crate::switches::Switches;
use clock::{Clock, Monotonic, Timestamp};
use rhai::Dynamic;
use rusqlite::Connection;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The state that all workers of a site share.
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Counters,
    pub(crate) caches: Caches,
    /// Key for signing form tokens. Created at random with the database.
    pub(crate) secret: String,
    /// Whether each page ends with a comment that states the time of its response.
    pub(crate) parse_time: bool,
}

impl Shared {
    /// A copy with the same clock and without a secret, for installing the modules into a new
    /// database.
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

/// The state of one worker.
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    connection: Mutex<Connection>,
    request: Mutex<RequestState>,
    /// Values that the scripts keep during a request, by name.
    pub(crate) globals: Object,
}

/// The role of the page cache in a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PageCache {
    /// The page cache is off.
    #[default]
    Off,
    /// The page was not looked up, because the response is for one visitor or is not a page.
    Pass,
    /// The page was found.
    Hit,
    /// The page was not found.
    Miss,
}

/// The state of the current request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestState {
    pub(crate) switches: Switches,
    pub(crate) begun: Monotonic,
    pub(crate) now: Timestamp,
    /// The caches' generation when the request began.
    pub(crate) generation: u64,
    pub(crate) queries: u64,
    pub(crate) page_cache: PageCache,
    /// Whether the object cache was used.
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

    /// Clears the state of the last request, and starts a new one.
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

    /// Rolls back an open transaction of a failed script, and clears the request's values.
    pub(crate) fn end(&self) {
        self.globals.clear();
        let connection = self.connection();
        if !connection.is_autocommit() && connection.execute_batch("ROLLBACK").is_err() {
            // SQLite has already rolled back, as it does after some errors.
            debug_assert!(connection.is_autocommit(), "a transaction cannot be ended");
        }
    }

    /// Sets a value that scripts read by name.
    pub(crate) fn set_global(&self, name: &str, value: Dynamic) {
        self.globals.set(name, value);
    }

    /// A copy of the request's current state.
    pub(crate) fn snapshot(&self) -> RequestState {
        *self.state()
    }

    /// Changes the request's state.
    pub(crate) fn update(&self, change: impl FnOnce(&mut RequestState)) {
        change(&mut self.state());
    }

    /// Time since the request began.
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

    // Only one thread uses a context, so nothing ever waits for these locks. They exist because the
    // script engine requires shareable functions. A panic leaves no partial change in them.
    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, RequestState> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
