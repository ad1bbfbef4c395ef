//! The state that `petasos top` keeps of an edge.
//!
//! Invariant: memory is bounded. The counts of pages and clients fade, so that the tables show the
//! last ten seconds or so.

use crate::record_text::{printable, url_of};
use crate::snapshot::{Snapshot, Verdicts};
use api::log::{LogLine, LoggedRequest};
use api::status::EdgeStatus;
use clock::Monotonic;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// The part of each count that remains after a second.
const FADING: f64 = 0.9;

/// Counts below this are dropped.
const COUNT_MIN: f64 = 0.05;

/// Largest number of pages, and of clients, that are counted.
const NAMES_MAX: usize = 20_000;

/// Number of the last requests whose times give the percentiles.
const TIMES_MAX: usize = 4096;

/// Largest number of requests to origins that are remembered.
const FETCHES_MAX: usize = 64;

/// How long a request to an origin is remembered.
const FETCH_AGE_MAX: Duration = Duration::from_secs(60);

/// The state of the screen.
pub(super) struct TopModel {
    /// The admin address.
    pub(super) admin: String,
    snapshot: Snapshot,
    pub(super) rates: Rates,
    pub(super) pages: FadingCounts,
    pub(super) clients: FadingCounts,
    times: VecDeque<u64>,
    fetches: Vec<SlowFetch>,
    /// Requests that this reader missed since the last counters.
    pub(super) skipped: u64,
    /// The last problem since the last counters.
    pub(super) trouble: Option<String>,
    counted_at: Monotonic,
}

/// Amounts per second, and the requests between the last two counters.
#[derive(Default)]
pub(super) struct Rates {
    pub(super) verdicts: Verdicts,
    pub(super) requests: f64,
    pub(super) bytes_sent: f64,
    pub(super) origin_fetches: f64,
}

/// Counts by name that fade with time.
#[derive(Default)]
pub(super) struct FadingCounts {
    counts: HashMap<String, f64>,
    /// The count that one request per second would have by now.
    weight: f64,
}

/// A request to the origin. Times are microseconds.
pub(super) struct SlowFetch {
    number: u64,
    at: Monotonic,
    pub(super) total: u64,
    pub(super) queue: u64,
    pub(super) connect: u64,
    pub(super) first_byte: u64,
    pub(super) status: u16,
    pub(super) url: String,
}

impl TopModel {
    pub(super) fn new(admin: String, snapshot: Snapshot, now: Monotonic) -> Self {
        Self {
            admin,
            snapshot,
            rates: Rates::default(),
            pages: FadingCounts::default(),
            clients: FadingCounts::default(),
            times: VecDeque::new(),
            fetches: Vec::new(),
            skipped: 0,
            trouble: None,
            counted_at: now,
        }
    }

    /// Takes a line of the stream.
    pub(super) fn take_line(&mut self, line: LogLine, now: Monotonic) {
        match line {
            LogLine::Skipped { skipped } => self.skipped += skipped,
            LogLine::Request(request) => self.take_request(&request, now),
        }
    }

    fn take_request(&mut self, request: &LoggedRequest, now: Monotonic) {
        self.pages.count(url_of(request));
        self.clients.count(printable(&request.client));
        if self.times.len() == TIMES_MAX {
            self.times.pop_front();
        }
        self.times.push_back(request.time);
        let Some(fetch) = request.fetch else { return };
        // Requests that share a fetch are one request to the origin.
        if self.fetches.iter().any(|known| known.number == fetch.number) {
            return;
        }
        self.fetches.push(SlowFetch {
            number: fetch.number,
            at: now,
            total: fetch.queue + fetch.connect + fetch.first_byte,
            queue: fetch.queue,
            connect: fetch.connect,
            first_byte: fetch.first_byte,
            status: request.status,
            url: url_of(request),
        });
        self.fetches.sort_by_key(|fetch| Reverse(fetch.total));
        self.fetches.truncate(FETCHES_MAX);
    }

    /// Shows a problem until the next counters.
    pub(super) fn note(&mut self, trouble: String) {
        self.trouble = Some(trouble);
    }

    /// Takes the counters of a later moment. Counts fade.
    pub(super) fn take_counters(&mut self, snapshot: Snapshot, now: Monotonic) {
        let seconds = now.since(self.counted_at).as_secs_f64().max(f64::EPSILON);
        // After a restart the counters begin anew.
        let growth = |name| (snapshot.metric(name) - self.snapshot.metric(name)).max(0.0) / seconds;
        let verdicts = snapshot.verdicts().since(&self.snapshot.verdicts());
        self.rates = Rates {
            requests: verdicts.total() as f64 / seconds,
            bytes_sent: growth("bytes_sent_total"),
            origin_fetches: growth("origin_fetches_total"),
            verdicts,
        };
        (self.snapshot, self.counted_at) = (snapshot, now);
        (self.skipped, self.trouble) = (0, None);
        self.pages.fade();
        self.clients.fade();
    }

    /// Removes old requests to origins.
    pub(super) fn forget_old(&mut self, now: Monotonic) {
        self.fetches.retain(|fetch| now.since(fetch.at) <= FETCH_AGE_MAX);
    }

    /// Removes all state from the stream.
    pub(super) fn reset(&mut self) {
        (self.pages, self.clients) = (FadingCounts::default(), FadingCounts::default());
        self.times.clear();
        self.fetches.clear();
    }

    pub(super) const fn status(&self) -> &EdgeStatus {
        &self.snapshot.status
    }

    /// The share of the last second's requests that were answered from the cache.
    pub(super) fn hit_ratio(&self) -> Option<f64> {
        self.rates.verdicts.hit_ratio()
    }

    /// Memory for stored responses: used, and the most.
    pub(super) fn store_bytes(&self) -> (u64, u64) {
        (self.snapshot.status.store.bytes, self.snapshot.metric("store_bytes_max") as u64)
    }

    /// The slowest requests to origins.
    pub(super) fn fetches(&self) -> &[SlowFetch] {
        &self.fetches
    }

    /// These percentiles of the times of the last requests; `None` before the first one.
    pub(super) fn percentiles<const N: usize>(&self, percents: [usize; N]) -> Option<[u64; N]> {
        let mut times: Vec<u64> = self.times.iter().copied().collect();
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        Some(percents.map(|percent| {
            // The nearest rank: the least time that at least `percent` percent do not exceed.
            let rank = (times.len() * percent).div_ceil(100).saturating_sub(1).min(last);
            times.get(rank).copied().unwrap_or_default()
        }))
    }
}

impl FadingCounts {
    fn count(&mut self, name: String) {
        if self.counts.len() < NAMES_MAX || self.counts.contains_key(&name) {
            *self.counts.entry(name).or_default() += 1.0;
        }
    }

    /// Ends a second.
    fn fade(&mut self) {
        self.weight = (self.weight + 1.0) * FADING;
        self.counts.values_mut().for_each(|count| *count *= FADING);
        self.counts.retain(|_, count| *count >= COUNT_MIN);
    }

    /// The most frequent names with their rates per second.
    pub(super) fn most(&self, count: usize) -> Vec<(&str, f64)> {
        let weight = if self.weight > 0.0 { self.weight } else { 1.0 };
        let mut all: Vec<_> = self.counts.iter().map(|(name, count)| (&**name, count / weight)).collect();
        // Equal rates are in the order of their names, so that the table does not flicker.
        all.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
        all.truncate(count);
        all
    }
}

#[cfg(test)]
pub(super) mod examples {
    use super::TopModel;
    use crate::snapshot::examples::{METRICS, well};
    use api::log::{LogLine, LoggedFetch, LoggedRequest};
    use clock::Monotonic;

    pub(in crate::top) fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos(seconds * 1_000_000_000)
    }

    pub(in crate::top) fn request(target: &str, time: u64, fetch: Option<u64>) -> LogLine {
        LogLine::Request(Box::new(LoggedRequest {
            client: "192.0.2.7".to_owned(),
            host: Some("a.test".to_owned()),
            target: target.to_owned(),
            status: 200,
            time,
            fetch: fetch.map(|number| LoggedFetch { number, queue: 0, connect: 200, first_byte: time - 300 }),
            ..LoggedRequest::default()
        }))
    }

    /// A model after one second with some requests.
    pub(in crate::top) fn busy() -> TopModel {
        let mut model = TopModel::new("127.0.0.1:8081".to_owned(), well(METRICS), at(10));
        for _ in 0..30 {
            model.take_line(request("/", 400, None), at(10));
        }
        for number in 0..3 {
            model.take_line(request(&format!("/slow/{number}"), 100_000 + number, Some(number)), at(10));
        }
        let later = METRICS.replace("} 600", "} 630").replace("} 40", "} 43");
        model.take_counters(well(&format!("{later}petasos_store_bytes_max 24600000\n")), at(11));
        model
    }
}

#[cfg(test)]
mod tests {
    use super::examples::{at, busy, request};
    use super::{FETCHES_MAX, NAMES_MAX, TIMES_MAX};
    use api::log::LogLine;

    #[test]
    fn counts_fade_and_rates_follow_the_counters() {
        let mut model = busy();
        assert_eq!((model.rates.requests, model.hit_ratio()), (33.0, Some(30.0 / 33.0)));
        let (page, rate) = model.pages.most(1)[0];
        assert!(page == "a.test/" && (rate - 30.0).abs() < 1e-9, "{page} {rate}");
        assert_eq!(model.percentiles([50, 95, 100]), Some([400, 100_001, 100_002]));
        let snapshot = crate::snapshot::examples::well("");
        for second in 12..100 {
            model.take_counters(snapshot.clone(), at(second));
            model.forget_old(at(second));
        }
        assert_eq!((model.pages.most(9).len(), model.fetches().len(), model.rates.requests), (0, 0, 0.0));
    }

    #[test]
    fn slow_fetches_are_listed_once_with_the_slowest_first() {
        let mut model = busy();
        model.take_line(request("/follower", 500_000, Some(2)), at(11));
        let urls: Vec<_> = model.fetches().iter().map(|fetch| &*fetch.url).collect();
        assert_eq!(urls, ["a.test/slow/2", "a.test/slow/1", "a.test/slow/0"]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut model = busy();
        for number in 0..NAMES_MAX as u64 + 100 {
            model.take_line(request(&format!("/{number}"), 1000, Some(number + 10)), at(11));
        }
        assert_eq!((model.pages.counts.len(), model.fetches().len()), (NAMES_MAX, FETCHES_MAX));
        assert_eq!(model.times.len(), TIMES_MAX);
        model.take_line(LogLine::Skipped { skipped: 5 }, at(11));
        assert_eq!(model.skipped, 5);
        model.reset();
        assert!(model.pages.most(1).is_empty() && model.percentiles([50]).is_none());
    }
}
