//! What waits to be done: pages to be written, and pages that are gone.
//!
//! Invariant: bounded by count and octets; whoever puts something here waits for no file. Of one place at most one page
//! waits, the newest; a page that was withdrawn after it was put here is not written, or is removed again.

use crate::Refusal;
use crate::candidate::Page;
use crate::layout::Place;
use bytes::Bytes;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{Key, SiteId};

/// Pages that may wait.
const PAGES_MAX: usize = 256;

/// Octets of content that may wait.
const BYTES_MAX: u64 = 32 << 20;

/// Hosts, with their ports, of which pages are written.
const HOSTS_MAX: usize = 64;

/// What waits.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pages: VecDeque<Page>,
    bytes: u64,
    withdrawn: HashSet<Place>,
    /// The page that is being written, and whether it was withdrawn meanwhile.
    in_hand: Option<(Place, Key)>,
    is_cancelled: bool,
    /// Whose page is at a place of the tree.
    written: HashMap<Place, Key>,
    /// Every host of which a page was ever put here.
    hosts: HashSet<(SiteId, Bytes)>,
    is_ended: bool,
}

/// The next thing to do.
#[derive(Debug)]
pub(crate) enum Next {
    Remove(Vec<Place>),
    Write(Box<Page>),
    Nothing,
    End,
}

impl Desk {
    /// Puts a page here, in place of an older one.
    pub(crate) fn put(&self, page: Page) -> Result<(), Refusal> {
        let mut state = self.lock();
        state.make_way(&page)?;
        state.withdrawn.remove(&page.place);
        state.bytes += page.body.len();
        state.pages.push_back(page);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// The page of this key is not what visitors get any more.
    pub(crate) fn withdraw(&self, place: &Place, key: &Key) {
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

    /// Waits for something to do, though no longer than `wait`.
    pub(crate) fn next(&self, wait: Duration) -> Next {
        let is_idle =
            |state: &mut State| state.pages.is_empty() && state.withdrawn.is_empty() && !state.is_ended;
        let waited = self.changed.wait_timeout_while(self.lock(), wait, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !state.withdrawn.is_empty() {
            return Next::Remove(state.withdrawn.drain().collect());
        }
        let Some(page) = state.pages.pop_front() else {
            return if state.is_ended { Next::End } else { Next::Nothing };
        };
        state.bytes -= page.body.len();
        (state.in_hand, state.is_cancelled) = (Some((page.place.clone(), page.key.clone())), false);
        Next::Write(Box::new(page))
    }

    /// The page in hand is in the tree; false if it was withdrawn meanwhile and has to go again.
    pub(crate) fn is_written(&self) -> bool {
        let mut state = self.lock();
        let stays = !state.is_cancelled;
        if let Some((place, key)) = state.in_hand.take() {
            state.written.insert(place, key);
        }
        stays
    }

    /// The page in hand is not written.
    pub(crate) fn put_away(&self) {
        self.lock().in_hand = None;
    }

    /// What was at a place is removed.
    pub(crate) fn is_removed(&self, place: &Place) {
        self.lock().written.remove(place);
    }

    /// The hosts of a site whose pages are in the tree or may get there.
    pub(crate) fn hosts(&self, site: SiteId, is_meant: impl Fn(&[u8]) -> bool) -> Vec<Bytes> {
        let state = self.lock();
        let meant = state.hosts.iter().filter(|(of, host)| *of == site && is_meant(host));
        meant.map(|(_, host)| host.clone()).collect()
    }

    /// What is here is done, nothing else.
    pub(crate) fn end(&self) {
        self.lock().is_ended = true;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Sees to it that there is room for a page, and that its place is free or its own.
    fn make_way(&mut self, page: &Page) -> Result<(), Refusal> {
        let Page { place, key, .. } = page;
        let waiting = self.pages.iter().find(|other| other.place == *place).map(|other| &other.key);
        let in_hand = self.in_hand.as_ref().filter(|(at, _)| at == place).map(|(_, key)| key);
        if [waiting, in_hand, self.written.get(place)].into_iter().flatten().any(|owner| owner != key) {
            return Err(Refusal::Path);
        }
        let host = (key.site(), Bytes::copy_from_slice(key.host()));
        if self.hosts.len() >= HOSTS_MAX && !self.hosts.contains(&host) {
            return Err(Refusal::Path);
        }
        self.take_back(place, key);
        if self.is_ended || self.pages.len() >= PAGES_MAX || self.bytes + page.body.len() > BYTES_MAX {
            return Err(Refusal::Busy);
        }
        self.hosts.insert(host);
        Ok(())
    }

    fn take_back(&mut self, place: &Place, key: &Key) {
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
    use super::{Desk, Next};
    use crate::candidate::Page;
    use crate::{Candidate, Layout, Refusal};
    use bytes::Bytes;
    use message::{ResponseHead, Status};
    use semantics::{Freshness, Moment, VaryRule};
    use std::sync::Arc;
    use std::time::Duration;
    use store::{Body, Key, Object, SiteId};

    fn page(host: &str, target: &'static str, bytes: usize) -> Page {
        let mut head = ResponseHead::new(Status::OK);
        head.fields.push("Content-Type", "text/html; charset=utf-8");
        let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
        let object = &Arc::new(Object::new(&head, b"", Body::copy_of(&vec![b'x'; bytes]), freshness));
        let key = &Key::new(SiteId(0), false, host.as_bytes(), Bytes::from_static(target.as_bytes()));
        let candidate = Candidate { key, rule: &VaryRule::default(), object, tags: &[], begun: 0 };
        let place = Layout::Typo3.place(key).unwrap();
        candidate.page(Layout::Typo3, place, Moment::default()).unwrap()
    }

    fn next(desk: &Desk) -> Option<Page> {
        match desk.next(Duration::ZERO) {
            Next::Write(page) => Some(*page),
            _ => None,
        }
    }

    #[test]
    fn a_page_that_is_withdrawn_while_it_is_written_has_to_go_again() {
        let desk = Desk::default();
        desk.put(page("a.test", "/", 1)).unwrap();
        let Page { place, key, .. } = next(&desk).unwrap();
        desk.withdraw(&place, &key);
        assert!(!desk.is_written());
        desk.is_removed(&place);
        desk.put(page("a.test", "/", 1)).unwrap();
        next(&desk).unwrap();
        assert!(desk.is_written());
        desk.withdraw(&place, &key);
        assert!(matches!(desk.next(Duration::ZERO), Next::Remove(places) if places == [place]));
    }

    #[test]
    fn the_newest_page_of_a_place_waits_until_it_is_withdrawn() {
        let desk = Desk::default();
        desk.put(page("a.test", "/", 1)).unwrap();
        desk.put(page("a.test", "/", 2)).unwrap();
        let Page { place, key, body, .. } = next(&desk).unwrap();
        assert_eq!(body.len(), 2);
        desk.put_away();
        assert!(next(&desk).is_none());
        desk.put(page("a.test", "/", 3)).unwrap();
        desk.withdraw(&place, &key);
        assert!(next(&desk).is_none());
        desk.end();
        assert_eq!(desk.put(page("a.test", "/", 4)).unwrap_err(), Refusal::Busy);
        assert!(matches!(desk.next(Duration::ZERO), Next::End));
    }

    #[test]
    fn there_is_an_end_to_pages_octets_and_hosts() {
        let desk = Desk::default();
        let put = |number: usize| {
            let target: &'static str = format!("/{number}").leak();
            desk.put(page("a.test", target, 1))
        };
        assert!((0..super::PAGES_MAX).all(|number| put(number).is_ok()));
        assert_eq!(put(super::PAGES_MAX), Err(Refusal::Busy));
        let desk = Desk::default();
        let put = |target| desk.put(page("a.test", target, 4 << 20));
        assert!(
            ["/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8"].into_iter().all(|target| put(target).is_ok())
        );
        assert_eq!(put("/9"), Err(Refusal::Busy));
        let desk = Desk::default();
        let put = |port: usize| desk.put(page(&format!("a.test:{port}"), "/", 1));
        assert!((1..=super::HOSTS_MAX).all(|port| put(port).is_ok()));
        assert_eq!(put(9_999), Err(Refusal::Path));
        assert_eq!(desk.hosts(SiteId(0), |host| host.ends_with(b":7")), ["a.test:7"]);
        assert!(desk.hosts(SiteId(1), |_| true).is_empty());
    }
}
