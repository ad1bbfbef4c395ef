//! The counters of the site. Every counter of this table is in the response of `/_status`.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// The site's counters since its start. All threads add to them.
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
    /// Requests that a worker answered.
    pages,
    /// Statements run on the database.
    queries,
    /// Statements counted in `queries` that write.
    writes,
    /// Script files read and compiled.
    compiles,
    /// Pages served from the page cache.
    page_cache_hits,
    /// Pages that were looked up in the page cache and not found.
    page_cache_misses,
    /// Pages stored in the page cache.
    page_cache_stores,
    /// Pages that were not stored because data changed while they were made.
    page_cache_overtaken,
    /// Values found in the object cache, without pages.
    object_hits,
    /// Values not found in the object cache, without pages.
    object_misses,
    /// Responses with status 304.
    not_modified,
    /// Responses with status 500 because a script failed.
    script_failures,
    /// Requests refused with 503 because the queue was full.
    queue_full,
    /// Connections accepted.
    connections,
    /// Requests that were refused because they could not be parsed or did not arrive in time.
    bad_requests,
}

/// A counter that only increases.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`.
    pub(crate) fn add(&self, amount: u64) {
        // Relaxed is enough: no other data depends on the order of the counts.
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// The current value.
    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
