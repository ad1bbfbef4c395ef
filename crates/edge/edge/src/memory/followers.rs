//! The followers of the log: clients of the admin address to which the records of requests are
//! streamed.
//!
//! Invariants: a worker never waits for a follower. Without a follower and without an export of
//! traces, a request pays for one read of a counter. The queue of a follower is limited in records
//! and bytes; a record beyond that is skipped and counted, and the follower learns the number.

use request_log::filter::Filter;
use request_log::{RequestRecord, push_json};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// Largest number of followers at a time.
pub(crate) const FOLLOWERS_MAX: usize = 8;

/// Largest number of records that wait for a follower.
const RECORDS_MAX: usize = 4096;

/// Largest total size of the records that wait for a follower.
const BYTES_MAX: usize = 1 << 20;

/// Bit of the counter: spans of requests are exported. It is above every number of followers.
const EXPORT: usize = FOLLOWERS_MAX.next_power_of_two() << 1;

/// Initial capacity of a record in bytes.
const RECORD_BYTES: usize = 768;

/// All followers.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    /// Their number, and [`EXPORT`] if traces are exported. Workers look here first.
    count: AtomicUsize,
    list: RwLock<Vec<Arc<Follower>>>,
    /// Records that no follower saw, because the list was being changed.
    unseen: AtomicU64,
    /// Records that a follower did not get, for the metric.
    skipped: AtomicU64,
}

/// The workers' side of one follower.
#[derive(Debug)]
struct Follower {
    filter: Option<Filter>,
    records: Sender<Arc<[u8]>>,
    queued_bytes: AtomicUsize,
    skipped: AtomicU64,
}

/// A follower's own side. Dropping it ends the following.
#[derive(Debug)]
pub(crate) struct Following {
    all: Arc<Followers>,
    own: Arc<Follower>,
    records: Receiver<Arc<[u8]>>,
    /// Records of which the follower has been told that they were skipped.
    told: u64,
}

impl Followers {
    /// No followers. `is_exporting`: spans of requests are exported.
    pub(crate) fn new(is_exporting: bool) -> Self {
        let count = AtomicUsize::new(if is_exporting { EXPORT } else { 0 });
        Self { count, ..Self::default() }
    }

    /// Whether there may be a use for full records: a follower, or the export of traces.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        // Relaxed is enough: a request that begins together with a follower may be left out.
        self.count.load(Ordering::Relaxed) > 0
    }

    /// The number of followers.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed) & (EXPORT - 1)
    }

    fn note_len(&self, len: usize) {
        // Only the holder of the list's lock changes it.
        let export = self.count.load(Ordering::Relaxed) & EXPORT;
        self.count.store(export | len, Ordering::Relaxed);
    }

    /// Number of records that a follower did not get.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Adds a follower of the records for which the filter holds. `None` if there are
    /// [`FOLLOWERS_MAX`] already.
    pub(crate) fn follow(self: &Arc<Self>, filter: Option<Filter>) -> Option<Following> {
        let (sender, records) = mpsc::channel(RECORDS_MAX);
        let own = Arc::new(Follower {
            filter,
            records: sender,
            queued_bytes: AtomicUsize::new(0),
            // What nobody saw before is not this follower's.
            skipped: AtomicU64::new(0),
        });
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        if list.len() == FOLLOWERS_MAX {
            return None;
        }
        list.push(Arc::clone(&own));
        self.note_len(list.len());
        drop(list);
        let told = self.unseen.load(Ordering::Relaxed);
        Some(Following { all: Arc::clone(self), own, records, told })
    }

    /// Offers a record to every follower. Never waits.
    pub(crate) fn offer(&self, record: &RequestRecord<'_>) {
        let Ok(list) = self.list.try_read() else {
            self.unseen.fetch_add(1, Ordering::Relaxed);
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let mut line = None;
        for follower in &*list {
            if follower.filter.as_ref().is_some_and(|filter| !filter.holds(record)) {
                continue;
            }
            let line = line.get_or_insert_with(|| json_of(record));
            if !follower.offer(line) {
                follower.skipped.fetch_add(1, Ordering::Relaxed);
                self.skipped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn json_of(record: &RequestRecord<'_>) -> Arc<[u8]> {
    let mut line = Vec::with_capacity(RECORD_BYTES);
    push_json(&mut line, record);
    line.into()
}

impl Follower {
    /// Queues a record. Returns false if there is no room for it.
    fn offer(&self, line: &Arc<[u8]>) -> bool {
        let before = self.queued_bytes.fetch_add(line.len(), Ordering::Relaxed);
        let is_queued = before + line.len() <= BYTES_MAX && self.records.try_send(Arc::clone(line)).is_ok();
        if !is_queued {
            self.queued_bytes.fetch_sub(line.len(), Ordering::Relaxed);
        }
        is_queued
    }
}

impl Following {
    /// Waits for records and appends those that have arrived, up to about `bytes_max` bytes. If
    /// records were skipped before them, a line with their number comes first.
    ///
    /// Cancel-safe: dropping the future before it is ready loses nothing.
    pub(crate) async fn next(&mut self, text: &mut Vec<u8>, bytes_max: usize) {
        let Some(first) = self.records.recv().await else { return std::future::pending().await };
        self.push_skipped(text);
        self.take(text, &first);
        while text.len() < bytes_max
            && let Ok(next) = self.records.try_recv()
        {
            self.take(text, &next);
        }
    }

    /// Appends the number of records that were skipped since the last call, if there were any.
    pub(crate) fn push_skipped(&mut self, text: &mut Vec<u8>) {
        let skipped = self.own.skipped.load(Ordering::Relaxed) + self.all.unseen.load(Ordering::Relaxed);
        let new = skipped - std::mem::replace(&mut self.told, skipped);
        if new > 0 {
            text.extend_from_slice(format!("{{\"skipped\":{new}}}\n").as_bytes());
        }
    }

    fn take(&self, text: &mut Vec<u8>, line: &[u8]) {
        self.own.queued_bytes.fetch_sub(line.len(), Ordering::Relaxed);
        text.extend_from_slice(line);
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut list = self.all.list.write().unwrap_or_else(PoisonError::into_inner);
        list.retain(|follower| !Arc::ptr_eq(follower, &self.own));
        self.all.note_len(list.len());
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, FOLLOWERS_MAX, Followers, RECORDS_MAX};
    use clock::Timestamp;
    use message::Method;
    use request_log::{ClientName, Phases, Protocol, RequestRecord};
    use semantics::Reason;
    use std::sync::Arc;
    use std::time::Duration;

    fn record(target: &[u8]) -> RequestRecord<'_> {
        RequestRecord {
            at: Timestamp::from_secs(0),
            peer: ClientName::Unix,
            client: ClientName::Unix,
            method: &Method::Get,
            target,
            protocol: Protocol::Http11,
            tls: None,
            host: None,
            site: None,
            status: 200,
            content_bytes: 0,
            received_bytes: 0,
            sent_bytes: 0,
            reason: Reason::HitFresh,
            key: None,
            referer: None,
            agent: None,
            trace: None,
            time: Duration::ZERO,
            phases: Phases::default(),
            fetch: None,
        }
    }

    /// The targets, or the numbers of skipped records, that are ready.
    async fn ready(following: &mut super::Following) -> Vec<String> {
        let mut text = Vec::new();
        tokio::time::timeout(Duration::from_secs(5), following.next(&mut text, usize::MAX)).await.unwrap();
        let lines = std::str::from_utf8(&text).unwrap().lines();
        lines
            .map(|line| {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                line["target"].as_str().map_or_else(|| line["skipped"].to_string(), str::to_owned)
            })
            .collect()
    }

    #[tokio::test]
    async fn each_follower_gets_the_records_of_its_filter() {
        let followers = Arc::<Followers>::default();
        assert!(!followers.is_any());
        let mut all = followers.follow(None).unwrap();
        let mut some = followers.follow(Some("path ~ ^/b".parse().unwrap())).unwrap();
        [&b"/a"[..], b"/b"].iter().for_each(|target| followers.offer(&record(target)));
        assert_eq!(ready(&mut all).await, ["/a", "/b"]);
        assert_eq!(ready(&mut some).await, ["/b"]);
        drop((all, some));
        assert!(!followers.is_any() && followers.skipped() == 0);
    }

    #[tokio::test]
    async fn slow_follower_skips_records_and_learns_their_number() {
        let followers = Arc::<Followers>::default();
        let mut slow = followers.follow(None).unwrap();
        for _ in 0..RECORDS_MAX + 7 {
            followers.offer(&record(b"/a"));
        }
        let lines = ready(&mut slow).await;
        assert!(lines.len() <= RECORDS_MAX + 1, "{} lines waited", lines.len());
        assert_eq!(lines[0].parse::<usize>().unwrap() + lines.len() - 1, RECORDS_MAX + 7);
        followers.offer(&record(b"/b"));
        assert_eq!(ready(&mut slow).await, ["/b"], "it has room again, and knows of all skipped records");
    }

    #[tokio::test]
    async fn long_records_are_limited_by_their_bytes() {
        let followers = Arc::<Followers>::default();
        let mut slow = followers.follow(None).unwrap();
        let target = vec![b'a'; BYTES_MAX / 4];
        for _ in 0..9 {
            followers.offer(&record(&target));
        }
        assert_eq!(ready(&mut slow).await.len(), 1 + 3);
        assert_eq!(followers.skipped(), 6);
    }

    #[test]
    fn number_of_followers_is_limited() {
        let exporting = Arc::new(Followers::new(true));
        assert!(exporting.is_any() && exporting.len() == 0);
        let all: Vec<_> = (0..FOLLOWERS_MAX).map(|_| exporting.follow(None).unwrap()).collect();
        assert_eq!(exporting.len(), FOLLOWERS_MAX);
        drop(all);
        assert!(exporting.is_any() && exporting.len() == 0);
        let followers = Arc::<Followers>::default();
        let mut all: Vec<_> = (0..FOLLOWERS_MAX).map(|_| followers.follow(None).unwrap()).collect();
        assert!(followers.follow(None).is_none());
        all.pop();
        assert_eq!(followers.len(), FOLLOWERS_MAX - 1);
        assert!(followers.follow(None).is_some());
    }

    #[tokio::test]
    async fn records_offered_by_many_threads_are_all_counted() {
        let followers = Arc::<Followers>::default();
        let mut following = followers.follow(None).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| followers.offer(&record(b"/a"))));
            }
            // The list changes meanwhile.
            scope.spawn(|| (0..1000).for_each(|_| drop(followers.follow(None))));
        });
        let lines = ready(&mut following).await;
        let skipped: usize = lines.iter().filter_map(|line| line.parse::<usize>().ok()).sum();
        let seen = lines.iter().filter(|line| *line == "/a").count();
        assert_eq!(seen + skipped, 4000);
    }
}
