//! The figures that are measured in each minute.
//!
//! Invariant: a figure keeps its place in a record for ever. New ones follow at the end.

macro_rules! figures {
    ($($variant:ident $name:literal $unit:literal $meaning:literal;)*) => {
        /// A value of each minute.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Figure {
            $(#[doc = $meaning] $variant,)*
        }

        impl Figure {
            /// Every figure, in the order of records and documents.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stable name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The unit.
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$variant => $unit,)* }
            }
        }
    };
}

figures! {
    Requests "requests" "1/s" "Requests.";
    Hits "hits" "1/s" "Requests that were answered from the cache, stale responses included.";
    Misses "misses" "1/s" "Requests that needed a shared fetch.";
    Passes "passes" "1/s" "Requests that were forwarded for one client.";
    Errors "errors" "1/s" "Requests that failed because the origin gave no usable response.";
    HitRatio "hit ratio" "%" "Hits among hits, misses and passes.";
    P50 "p50" "ms" "Median time of all requests.";
    P95 "p95" "ms" "95th percentile of these times.";
    P99 "p99" "ms" "99th percentile of these times.";
    OriginP95 "origin p95" "ms" "95th percentile of the origins' time to the head of a response.";
    OriginLoad "origin load" "s/s" "Sum of these times in a second: requests that origins work on at once.";
    Bytes "bytes" "bytes/s" "Bytes sent to clients.";
    Connections "connections" "" "Open connections from clients, at the end of the minute.";
    StoreBytes "store" "bytes" "Bytes in the store, at the end of the minute.";
    DiskBytes "disk" "bytes" "Bytes on the disk, at the end of the minute.";
    Cpu "cpu" "%" "Processor time of the machine in use; 100 is all cores.";
    OwnCpu "cpu petasos" "%" "The part of it that Petasos used.";
    DatabaseCpu "cpu database" "%" "The part of it that database servers used.";
    Reloads "reloads" "1/min" "Reloads of the configuration.";
    Purges "purges" "1/min" "Purge orders.";
    OriginRequests "origin requests" "1/s" "Requests to origins, background refreshes included.";
}

/// How one value is made of those of several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combination {
    /// The mean over the time.
    Time,
    /// The mean over all requests.
    Requests,
    /// The mean over the requests for pages: hits, misses and passes.
    Pages,
    /// The largest value, because a mean hides a peak.
    Most,
}

impl Figure {
    /// How a value of several minutes is made.
    pub(crate) const fn combination(self) -> Combination {
        match self {
            Self::P50 | Self::P95 | Self::OriginP95 => Combination::Requests,
            Self::HitRatio => Combination::Pages,
            Self::Errors | Self::P99 => Combination::Most,
            _ => Combination::Time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Figure;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_places_follow_the_order() {
        let names: BTreeSet<_> = Figure::ALL.iter().map(|figure| figure.name()).collect();
        assert_eq!(names.len(), Figure::ALL.len());
        assert!(Figure::ALL.iter().enumerate().all(|(place, figure)| *figure as usize == place));
    }
}
