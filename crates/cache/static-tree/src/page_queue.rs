//! The write queue: pages to be written, and places of pages to be removed.
//!
//! Invariant: the queue is bounded by pages and bytes, and adding to it waits for no file. At most
//! one page waits for each place, the newest. A page that is withdrawn after it was queued is not
//! written, or is removed again.

use crate::TreeRefusal;
use crate::candidate::QueuedPage;
use crate::layout::FilePath;
use bytes::Bytes;
use platform::{HashMap, HashSet};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{Key, SiteId};

/// Upper bound of the pages in the queue.
const PAGES_MAX: usize = 256;

/// Upper bound of the content in the queue, in bytes.
const BYTES_MAX: u64 = 32 << 20;

/// Largest number of hosts, including ports, with pages in the tree.
const HOSTS_MAX: usize = 64;

/// The write queue.
#[derive(Debug, Default)]
pub(crate) struct PageQueue {
    state: Mutex<PageQueueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PageQueueState {
    pages: VecDeque<QueuedPage>,
    bytes: u64,
    withdrawn: HashSet<FilePath>,
    /// The page being written.
    in_hand: Option<(FilePath, Key)>,
    /// Whether the page in `in_hand` was withdrawn while it was written.
    is_cancelled: bool,
    /// The key of the page at each place of the tree.
    written: HashMap<FilePath, Key>,
    /// Every host of which a page was ever queued.
    hosts: HashSet<(SiteId, Bytes)>,
    is_ended: bool,
}

/// The writer's next step.
#[derive(Debug)]
pub(crate) enum WriterStep {
    Remove(Vec<FilePath>),
    Write(Box<QueuedPage>),
    Nothing,
    End,
}

impl PageQueue {
    /// Queues a page. It replaces an older page of the same key.
    pub(crate) fn put(&self, page: QueuedPage) -> Result<(), TreeRefusal> {
        let mut state = self.lock();
        state.make_way(&page)?;
        state.withdrawn.remove(&page.place);
        state.bytes += page.body.len();
        state.pages.push_back(page);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// The response of this key is no longer served: the page leaves the queue, and its file is
    /// removed.
    pub(crate) fn withdraw(&self, place: &FilePath, key: &Key) {
        let mut state = self.lock();
        state.take_back(place, key);
        if state.in_hand.as_ref().is_some_and(|(at, of)| at == place && of == key) {
            state.is_cancelled = true;
        }
        if state.written.get(place) == Some(key) {
            state.withdrawn.insert(place.clone());
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Waits for the next step, at most for `wait`. Removals come before pages.
    pub(crate) fn next(&self, wait: Duration) -> WriterStep {
        let is_idle = |state: &mut PageQueueState| {
            state.pages.is_empty() && state.withdrawn.is_empty() && !state.is_ended
        };
        let waited = self.changed.wait_timeout_while(self.lock(), wait, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        // Removals first: a withdrawn page is outdated, while a queued page is only missing.
        if !state.withdrawn.is_empty() {
            return WriterStep::Remove(state.withdrawn.drain().collect());
        }
        let Some(page) = state.pages.pop_front() else {
            return if state.is_ended { WriterStep::End } else { WriterStep::Nothing };
        };
        state.bytes -= page.body.len();
        state.in_hand = Some((page.place.clone(), page.key.clone()));
        state.is_cancelled = false;
        WriterStep::Write(Box::new(page))
    }

    /// Notes that the files of the current page are in the tree. Returns false if the page was
    /// withdrawn meanwhile; then the files must be removed.
    pub(crate) fn is_written(&self) -> bool {
        let mut state = self.lock();
        let stays = !state.is_cancelled;
        if let Some((place, key)) = state.in_hand.take() {
            state.written.insert(place, key);
        }
        stays
    }

    /// Ends the work on the current page.
    pub(crate) fn put_away(&self) {
        self.lock().in_hand = None;
    }

    /// The place of the page whose writing began and did not end.
    pub(crate) fn take_broken_off(&self) -> Option<FilePath> {
        self.lock().in_hand.take().map(|(place, _)| place)
    }

    /// Notes that the files at a place were removed.
    pub(crate) fn is_removed(&self, place: &FilePath) {
        self.lock().written.remove(place);
    }

    /// The hosts of a site that ever had a page in the queue, if `is_meant` accepts them.
    pub(crate) fn hosts(&self, site: SiteId, is_meant: impl Fn(&[u8]) -> bool) -> Vec<Bytes> {
        let state = self.lock();
        let meant = state.hosts.iter().filter(|(of, host)| *of == site && is_meant(host));
        meant.map(|(_, host)| host.clone()).collect()
    }

    /// Accepts no more pages. [`PageQueue::next`] returns [`WriterStep::End`] when the queue is
    /// empty.
    pub(crate) fn end(&self) {
        self.lock().is_ended = true;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, PageQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PageQueueState {
    /// Removes the older page of the same key, and checks the bounds. Refuses a page whose place
    /// belongs to another key.
    fn make_way(&mut self, page: &QueuedPage) -> Result<(), TreeRefusal> {
        let QueuedPage { place, key, .. } = page;
        let waiting = self.pages.iter().find(|other| other.place == *place).map(|other| &other.key);
        let in_hand = self.in_hand.as_ref().filter(|(at, _)| at == place).map(|(_, key)| key);
        if [waiting, in_hand, self.written.get(place)].into_iter().flatten().any(|owner| owner != key) {
            return Err(TreeRefusal::Path);
        }
        let host = (key.site(), Bytes::copy_from_slice(key.host()));
        if self.hosts.len() >= HOSTS_MAX && !self.hosts.contains(&host) {
            return Err(TreeRefusal::Path);
        }
        self.take_back(place, key);
        if self.is_ended || self.pages.len() >= PAGES_MAX || self.bytes + page.body.len() > BYTES_MAX {
            return Err(TreeRefusal::Busy);
        }
        self.hosts.insert(host);
        Ok(())
    }

    fn take_back(&mut self, place: &FilePath, key: &Key) {
        let Some(at) = self.pages.iter().position(|page| page.place == *place && page.key == *key) else {
            return;
        };
        if let Some(page) = self.pages.remove(at) {
            self.bytes -= page.body.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PageQueue, WriterStep};
    use crate::candidate::QueuedPage;
    use crate::{Candidate, Layout, TreeRefusal};
    use bytes::Bytes;
    use message::{ResponseHead, Status};
    use semantics::{Freshness, Moment, VaryRule};
    use std::sync::Arc;
    use std::time::Duration;
    use store::{Body, Key, Object, SiteId};

    fn page(host: &str, target: &'static str, bytes: usize) -> QueuedPage {
        let mut head = ResponseHead::new(Status::OK);
        head.fields.push("Content-Type", "text/html; charset=utf-8");
        let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
        let object = &Arc::new(Object::new(&head, b"", Body::copy_of(&vec![b'x'; bytes]), freshness));
        let key = &Key::new(SiteId(0), false, host.as_bytes(), Bytes::from_static(target.as_bytes()));
        let candidate = Candidate { key, rule: &VaryRule::default(), object, tags: &[], begun: 0 };
        let place = Layout::Typo3.place(key).unwrap();
        candidate.page(Layout::Typo3, place, Moment::default()).unwrap()
    }

    fn next(queue: &PageQueue) -> Option<QueuedPage> {
        match queue.next(Duration::ZERO) {
            WriterStep::Write(page) => Some(*page),
            _ => None,
        }
    }

    #[test]
    fn page_withdrawn_during_its_write_is_removed_again() {
        let queue = PageQueue::default();
        queue.put(page("a.test", "/", 1)).unwrap();
        let QueuedPage { place, key, .. } = next(&queue).unwrap();
        queue.withdraw(&place, &key);
        assert!(!queue.is_written());
        queue.is_removed(&place);
        queue.put(page("a.test", "/", 1)).unwrap();
        next(&queue).unwrap();
        assert!(queue.is_written());
        queue.withdraw(&place, &key);
        assert!(matches!(queue.next(Duration::ZERO), WriterStep::Remove(places) if places == [place]));
    }

    #[test]
    fn newest_page_waits_until_withdrawn() {
        let queue = PageQueue::default();
        queue.put(page("a.test", "/", 1)).unwrap();
        queue.put(page("a.test", "/", 2)).unwrap();
        let QueuedPage { place, key, body, .. } = next(&queue).unwrap();
        assert_eq!(body.len(), 2);
        queue.put_away();
        assert!(next(&queue).is_none());
        queue.put(page("a.test", "/", 3)).unwrap();
        queue.withdraw(&place, &key);
        assert!(next(&queue).is_none());
        queue.end();
        assert_eq!(queue.put(page("a.test", "/", 4)).unwrap_err(), TreeRefusal::Busy);
        assert!(matches!(queue.next(Duration::ZERO), WriterStep::End));
    }

    #[test]
    fn pages_bytes_and_hosts_are_limited() {
        let queue = PageQueue::default();
        let put = |number: usize| {
            let target: &'static str = format!("/{number}").leak();
            queue.put(page("a.test", target, 1))
        };
        assert!((0..super::PAGES_MAX).all(|number| put(number).is_ok()));
        assert_eq!(put(super::PAGES_MAX), Err(TreeRefusal::Busy));
        let queue = PageQueue::default();
        let put = |target| queue.put(page("a.test", target, 4 << 20));
        assert!(
            ["/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8"].into_iter().all(|target| put(target).is_ok())
        );
        assert_eq!(put("/9"), Err(TreeRefusal::Busy));
        let queue = PageQueue::default();
        let put = |port: usize| queue.put(page(&format!("a.test:{port}"), "/", 1));
        assert!((1..=super::HOSTS_MAX).all(|port| put(port).is_ok()));
        assert_eq!(put(9_999), Err(TreeRefusal::Path));
        assert_eq!(queue.hosts(SiteId(0), |host| host.ends_with(b":7")), ["a.test:7"]);
        assert!(queue.hosts(SiteId(1), |_| true).is_empty());
    }
}
