//! What the site counts. One table: a counter that is declared here is in the status answer.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// The site's counters since its start; all threads add to them.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($(#[doc = $doc])+ pub(crate) $name: Counter,)*
        }

        impl Counters {
            /// Each counter's name and value, in the order of the table.
            pub(crate) fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.value()),)*]
            }
        }
    };
}

counters! {
    /// Requests answered by a worker, whatever the answer.
    pages,
    /// Statements run on the database.
    queries,
    /// Statements among them that changed rows.
    writes,
    /// Script files read and compiled.
    compiles,
    /// Pages that were taken from the page cache.
    page_cache_hits,
    /// Pages that could have been in the page cache and were not.
    page_cache_misses,
    /// Pages that were put into the page cache.
    page_cache_stores,
    /// Pages that were not stored because something was changed while they were made.
    page_cache_overtaken,
    /// Values taken from the object cache, pages not counted.
    object_hits,
    /// Values looked for in the object cache and not found, pages not counted.
    object_misses,
    /// Answers 304.
    not_modified,
    /// Answers 500 because a script failed.
    script_failures,
    /// Requests refused with 503 because the queue was full.
    queue_full,
    /// Connections accepted.
    connections,
    /// Requests that could not be read as HTTP/1.
    bad_requests,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`.
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// The value now.
    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
