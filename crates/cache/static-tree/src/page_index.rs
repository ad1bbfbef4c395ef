//! The index of the pages in the tree.
//!
//! Invariant: every file of the tree belongs to a place in the index. A place leaves the index only
//! after its files were removed. No invalidation up to the number `settled` matches a page of the
//! index, except pages in `stuck`.
//!
//! Selectors only narrow the set of pages about which the store is asked. The store decides whether
//! an invalidation matches.

use crate::Layout;
use crate::candidate::QueuedPage;
use crate::layout::FilePath;
use bytes::Bytes;
use clock::Monotonic;
use message::ResponseHead;
use platform::{HashKeys, HashMap};
use semantics::canonical_target;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use store::{Key, Selector, Store};

/// A page in the tree.
#[derive(Debug)]
pub(crate) struct WrittenPage {
    key: Key,
    layout: Layout,
    head: ResponseHead,
    tags: Vec<Bytes>,
    /// No invalidation up to this sequence number matched the page when it was written.
    checked: u64,
    expires: Monotonic,
    bytes: u64,
}

/// The pages in the tree.
#[derive(Debug, Default)]
pub(crate) struct PageIndex {
    entries: HashMap<FilePath, WrittenPage>,
    by_expiry: BTreeSet<(Monotonic, FilePath)>,
    /// Places by the hash of each of their tags. A collision only makes the index ask the store
    /// about more pages.
    by_tag: BTreeSet<(u64, FilePath)>,
    hasher: HashKeys,
    /// Invalidated pages whose files could not be removed.
    stuck: BTreeSet<FilePath>,
    bytes: u64,
    settled: u64,
}

/// Whether no invalidation after `since` matches a page, under any of the keys that its file
/// answers to.
pub(crate) fn is_valid(
    store: &Store,
    (key, layout): (&Key, Layout),
    (head, tags): (&ResponseHead, &[Bytes]),
    since: u64,
) -> bool {
    since == store.sequence() || layout.keys(key).iter().all(|key| store.may_join(since, key, tags, head))
}

impl PageIndex {
    /// The places of all pages.
    pub(crate) fn places(&self) -> impl Iterator<Item = &FilePath> {
        self.entries.keys()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The size of all files, in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a page of `bytes` fits at a place within the limits. The page that it replaces is
    /// not counted.
    pub(crate) fn has_room(
        &self,
        place: &FilePath,
        bytes: u64,
        (pages_max, bytes_max): (usize, u64),
    ) -> bool {
        let (pages, freed) = self.entries.get(place).map_or((1, 0), |entry| (0, entry.bytes));
        self.entries.len() + pages <= pages_max && self.bytes - freed + bytes <= bytes_max
    }

    /// Adds a page whose files were written.
    pub(crate) fn insert(&mut self, page: QueuedPage, bytes: u64) {
        let QueuedPage { key, layout, place, head, tags, begun, expires, .. } = page;
        self.remove(&place);
        self.by_expiry.insert((expires, place.clone()));
        self.by_tag.extend(tags.iter().map(|tag| (self.hasher.hash_one(tag), place.clone())));
        self.bytes += bytes;
        self.entries.insert(place, WrittenPage { key, layout, head, tags, checked: begun, expires, bytes });
    }

    /// Removes a page from the index. Returns whether it was there.
    pub(crate) fn remove(&mut self, place: &FilePath) -> bool {
        self.stuck.remove(place);
        let Some(entry) = self.entries.remove(place) else { return false };
        self.by_expiry.remove(&(entry.expires, place.clone()));
        for tag in &entry.tags {
            self.by_tag.remove(&(self.hasher.hash_one(tag), place.clone()));
        }
        self.bytes -= entry.bytes;
        true
    }

    /// Makes a page expire now, so that the next search for expired pages removes it.
    pub(crate) fn retry(&mut self, place: &FilePath) {
        if let Some(entry) = self.entries.get_mut(place) {
            self.by_expiry.remove(&(entry.expires, place.clone()));
            entry.expires = Monotonic::default();
            self.by_expiry.insert((entry.expires, place.clone()));
        }
    }

    /// Notes that the file of an invalidated page could not be removed.
    pub(crate) fn keep_stuck(&mut self, place: FilePath) {
        self.stuck.insert(place);
    }

    /// Whether the file of an invalidated page remains.
    pub(crate) fn has_stuck(&self) -> bool {
        !self.stuck.is_empty()
    }

    /// The expired pages.
    pub(crate) fn expired(&self, now: Monotonic) -> Vec<FilePath> {
        let over = self.by_expiry.iter().take_while(|(expires, _)| *expires <= now);
        over.map(|(_, place)| place.clone()).collect()
    }

    /// Returns the pages that invalidations of the store match, and advances `settled` beyond these
    /// invalidations.
    ///
    /// If `heard` holds every selector since the last call, by number, only pages that they can
    /// match are checked. Otherwise all pages are.
    pub(crate) fn invalidated(&mut self, store: &Store, heard: &BTreeMap<u64, Selector>) -> Vec<FilePath> {
        let sequence = store.sequence();
        if self.settled >= sequence {
            return Vec::new();
        }
        let last = heard.last_key_value().map_or(0, |(number, _)| *number);
        let is_all = !heard.is_empty() && heard.len() as u64 == last.saturating_sub(self.settled);
        let (asked, settled): (Vec<&FilePath>, u64) = if is_all {
            let mut asked: Vec<_> = heard.values().flat_map(|selector| self.concerned(selector)).collect();
            asked.sort_unstable();
            asked.dedup();
            (asked, last)
        } else {
            (self.entries.keys().collect(), sequence)
        };
        let is_invalid =
            |place: &&FilePath| self.entries.get(*place).is_some_and(|entry| !self.is_valid(entry, store));
        let invalidated = asked.into_iter().filter(is_invalid).cloned().collect();
        self.settled = self.settled.max(settled);
        invalidated
    }

    /// The sequence number up to which all invalidations have been applied.
    pub(crate) const fn settled(&self) -> u64 {
        self.settled
    }

    fn is_valid(&self, entry: &WrittenPage, store: &Store) -> bool {
        let WrittenPage { key, layout, head, tags, checked, .. } = entry;
        is_valid(store, (key, *layout), (head, tags), self.settled.max(*checked))
    }

    /// The pages that a selector can match. May contain others.
    fn concerned<'a>(&'a self, selector: &'a Selector) -> Box<dyn Iterator<Item = &'a FilePath> + 'a> {
        match selector {
            Selector::Target { site, host, target } => {
                // Keys of pages in the tree encode only characters that need it, so the canonical
                // target finds them.
                let target = Bytes::copy_from_slice(&canonical_target(target));
                let keys = [false, true].map(|https| Key::new(*site, https, host, target.clone()));
                let places = keys.into_iter().flat_map(|key| Layout::ALL.map(|layout| layout.place(&key)));
                let found = |place: FilePath| self.entries.get_key_value(&place).map(|(place, _)| place);
                Box::new(places.flatten().filter_map(found))
            }
            Selector::Tags { any_of, all_of, .. } => {
                // If `any_of` is empty, a matching page has every tag of `all_of`, so the first
                // one finds it.
                let tags = if any_of.is_empty() { all_of.get(..1).unwrap_or_default() } else { any_of };
                Box::new(tags.iter().flat_map(|tag| self.with_tag(self.hasher.hash_one(tag))))
            }
            Selector::Prefix { .. }
            | Selector::Host { .. }
            | Selector::Ban { .. }
            | Selector::Everything { .. } => Box::new(self.entries.keys()),
        }
    }

    fn with_tag(&self, hash: u64) -> impl Iterator<Item = &FilePath> {
        let from = (hash, FilePath::from(""));
        self.by_tag.range(from..).take_while(move |(tag, _)| *tag == hash).map(|(_, place)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::PageIndex;
    use crate::layout::FilePath;
    use crate::{Candidate, Layout};
    use bytes::Bytes;
    use invalidation::Mode;
    use message::{ResponseHead, Status};
    use semantics::{Freshness, Moment, VaryRule};
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;
    use store::{Body, Invalidation, Key, Object, Selector, SiteId, Store, StoreLimits};

    fn index() -> PageIndex {
        let mut index = PageIndex::default();
        for (target, tag) in [("/a", "one"), ("/b", "two"), ("/caf%C3%A9", "two")] {
            let mut head = ResponseHead::new(Status::OK);
            head.fields.push("Content-Type", "text/html; charset=utf-8");
            let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
            let object = &Arc::new(Object::new(&head, b"", Body::copy_of(b"x"), freshness));
            let key = &Key::new(SiteId(0), false, b"a.test", Bytes::from_static(target.as_bytes()));
            let tags = [Bytes::from_static(b"all"), Bytes::from_static(tag.as_bytes())];
            let candidate = Candidate { key, rule: &VaryRule::default(), object, tags: &tags, begun: 0 };
            let place = Layout::Typo3.place(key).unwrap();
            index.insert(candidate.page(Layout::Typo3, place, Moment::default()).unwrap(), 1);
        }
        index
    }

    fn target(target: &'static str) -> Selector {
        Selector::Target { site: SiteId(0), host: "a.test".into(), target: target.into() }
    }

    fn tags(any_of: &[&'static str], all_of: &[&'static str]) -> Selector {
        let of = |tags: &[&'static str]| tags.iter().map(|tag| Bytes::from_static(tag.as_bytes())).collect();
        Selector::Tags { site: SiteId(0), any_of: of(any_of), all_of: of(all_of) }
    }

    #[test]
    fn selectors_of_pages_or_tags_check_only_those() {
        let index = index();
        let concerned = |selector: Selector| index.concerned(&selector).count();
        for one in [
            target("/a"),
            target("/a/"),
            target("/caf%c3%a9"),
            tags(&["one"], &[]),
            tags(&[], &["one", "all"]),
        ] {
            assert_eq!(concerned(one.clone()), 1, "{one:?}");
        }
        assert_eq!(concerned(tags(&["two"], &[])), 2);
        assert_eq!((concerned(target("/c")), concerned(tags(&["three"], &[]))), (0, 0));
        assert_eq!(concerned(Selector::Everything { site: None }), 3);
    }

    #[test]
    fn unnoted_invalidation_checks_every_page() {
        let mut index = index();
        let store = Store::new(StoreLimits::default(), 1);
        let tell = |selector: Selector| {
            (
                store.invalidate(&Invalidation { selector: selector.clone(), mode: Mode::Hard }).sequence,
                selector,
            )
        };
        let places = |targets: &[&'static str]| -> Vec<FilePath> {
            let key = |target: &'static str| {
                Key::new(SiteId(0), false, b"a.test", Bytes::from_static(target.as_bytes()))
            };
            targets.iter().map(|target| Layout::Typo3.place(&key(target)).unwrap()).collect()
        };
        let first = tell(target("/a"));
        assert_eq!(index.invalidated(&store, &BTreeMap::from([first])), places(&["/a"]));
        tell(target("/b"));
        let last = tell(target("/none"));
        assert_eq!(index.invalidated(&store, &BTreeMap::from([last])), places(&["/b"]));
        assert_eq!(index.settled(), 3);
        assert_eq!(index.invalidated(&store, &BTreeMap::new()), places(&[]));
    }
}
