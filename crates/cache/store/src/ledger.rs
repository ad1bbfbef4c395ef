//! The ledger of invalidations. It keeps a mark, the number of the last invalidation, for each
//! site, host, page and tag. Prefixes, bans and groups of tags have no mark and are kept in a short
//! list.
//!
//! ```text
//!   fetch begins at number n ---> response ---> does a later invalidation match?
//!                                               no: store it, checked up to now
//!   stored, checked up to n ----> look-up or sweep ---> does a later invalidation match?
//!                                               no: checked up to now
//! ```
//!
//! Invariant: a check returns the right answer or a wider one. The ledger has limited room. When it
//! forgets its oldest invalidation, it records it under the same number for the whole site, or for
//! everything. The wider invalidation affects only responses that have not been checked since:
//! fetches that began earlier, and objects that neither a look-up nor the sweep has reached. So
//! memory is bounded, no invalidated object comes back, and an invalidation never waits for the
//! sweep.

use crate::hash::{KeyHasher, PrehashedState, TextHasher};
use crate::list::{CompiledSieve, List, ListComparison, Sievable};
use crate::list_entry::{ListEntry, Listing};
use crate::mark::InvalidationMark;
use crate::sieve::SearchedResponse;
use crate::subject::{InvalidationSubject, spelled};
use crate::tags::Tags;
use crate::{Key, Selector, SiteId};
use bytes::Bytes;
use invalidation::Mode;
use platform::{HashMap, HashSet};
use std::collections::VecDeque;
use std::sync::Arc;

/// The most pages, hosts and tags whose last invalidation is remembered; above it the oldest are
/// widened. A small store has fewer, but at least [`MARKS_MIN`]: each may take [`BYTES_OF_A_MARK`],
/// and all together this part of the store's memory.
const MARKS_MAX: u64 = 65_536;
const MARKS_MIN: u64 = 256;
const PART_OF_MARKS: u64 = 2;

/// The list may take one part in this many of the store's memory.
const PART_OF_LIST: u64 = 4;

/// The cost of a mark, as that of a tag with a text of usual length.
const BYTES_OF_A_MARK: u64 = 192;

/// The invalidations of a store.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The number of the last invalidation.
    sequence: u64,
    /// Every stored object has been checked against invalidations up to this number.
    swept: u64,
    everything: InvalidationMark,
    sites: HashMap<SiteId, InvalidationMark>,
    /// Sites of which nothing may be stored any more. Numbers of sites are not used again.
    retired: HashSet<SiteId>,
    /// Hosts and pages by hash. A collision only causes an unnecessary fetch.
    marks: HashMap<u64, InvalidationMark, PrehashedState>,
    tags: Tags,
    listed: List,
    /// The number of invalidations that were widened before every stored object had been checked
    /// against them.
    widened: u64,
    /// The set marks, oldest first, each with its number at that time. An entry is outdated if its
    /// mark has been set again since.
    window: VecDeque<(u64, MarkPlace)>,
    /// The number of marks that are set, and its limit.
    marked: usize,
    marks_max: usize,
    hosts: TextHasher,
    keys: KeyHasher,
}

/// The result of recording an invalidation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedInvalidation {
    pub(crate) sequence: u64,
    /// The number of objects that it matches, if known.
    pub(crate) objects: Option<u64>,
    /// More than half of the room for invalidations is taken by ones that wait for the sweep.
    pub(crate) is_crowded: bool,
}

/// The place of a mark.
#[derive(Clone, Copy, Debug)]
enum MarkPlace {
    Hashed(u64),
    Tag(u32),
}

impl Ledger {
    /// An empty ledger with room for `listed_max` listed invalidations, in a store of
    /// `memory_bytes_max`. `keys` must be the store's own hasher, because pages are marked by the
    /// hash of their key.
    pub(crate) fn new(keys: KeyHasher, seed: u64, listed_max: usize, memory_bytes_max: u64) -> Self {
        let list_bytes_max = usize::try_from(memory_bytes_max / PART_OF_LIST).unwrap_or(usize::MAX);
        let marks_max = (memory_bytes_max / PART_OF_MARKS / BYTES_OF_A_MARK).clamp(MARKS_MIN, MARKS_MAX);
        Self {
            sequence: 0,
            swept: 0,
            everything: InvalidationMark::default(),
            sites: HashMap::default(),
            retired: HashSet::default(),
            marks: HashMap::default(),
            tags: Tags::new(TextHasher::new(seed)),
            listed: List::new(listed_max.max(1), list_bytes_max),
            widened: 0,
            window: VecDeque::new(),
            marked: 0,
            // At most MARKS_MAX, so the cast loses nothing.
            marks_max: marks_max as usize,
            hosts: TextHasher::new(seed.rotate_left(32)),
            keys,
        }
    }

    /// The number of the last invalidation.
    pub(crate) const fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) const fn swept(&self) -> u64 {
        self.swept
    }

    /// Every stored object has been checked against all invalidations up to `sequence`.
    pub(crate) fn sweep_ended(&mut self, sequence: u64) {
        self.swept = self.swept.max(sequence);
    }

    /// From now on, nothing of this site may be stored.
    pub(crate) fn retire(&mut self, site: SiteId) {
        self.retired.insert(site);
    }

    pub(crate) fn is_retired(&self, site: SiteId) -> bool {
        self.retired.contains(&site)
    }

    pub(crate) const fn tags(&self) -> &Tags {
        &self.tags
    }

    pub(crate) const fn tags_mut(&mut self) -> &mut Tags {
        &mut self.tags
    }

    /// The strongest invalidation after `since` that matches the subject.
    pub(crate) fn judge(&self, since: u64, subject: &InvalidationSubject<'_>) -> ListComparison {
        if since >= self.sequence {
            return ListComparison::default();
        }
        let mark = |mark: Option<&InvalidationMark>| mark.and_then(|mark| mark.since(since));
        let site = mark(self.sites.get(&subject.site)).max(self.everything.since(since));
        let host = mark(self.marks.get(&self.host_hash(subject.site, subject.https, subject.host)));
        let page = mark(self.marks.get(&subject.hash));
        let tags = subject.tags.iter().filter_map(|id| self.tags.mark(id).since(since)).max();
        self.listed.compare(
            since,
            &SearchedResponse::new(*subject, &self.tags),
            site.max(host).max(page).max(tags),
        )
    }

    /// The bans to compile into a sieve, if there are enough of them.
    pub(crate) fn sievable(&self) -> Option<Sievable> {
        self.listed.sievable()
    }

    /// Adds a compiled sieve.
    pub(crate) fn sieve(&mut self, sieved: CompiledSieve) {
        self.listed.sieve(sieved);
    }

    pub(crate) const fn listed(&self) -> usize {
        self.listed.len()
    }

    pub(crate) const fn widened(&self) -> u64 {
        self.widened
    }

    /// Gives an invalidation its number and records it.
    pub(crate) fn take_down(&mut self, selector: &Selector, mode: Mode) -> RecordedInvalidation {
        self.make_room(selector);
        let objects = self.record(selector, mode);
        let unswept =
            self.window.len() - self.window.partition_point(|(sequence, _)| *sequence <= self.swept);
        let is_crowded = self.listed.is_crowded(self.swept) || unswept > self.marks_max / 2;
        RecordedInvalidation { sequence: self.sequence, objects, is_crowded }
    }

    /// Makes room for an invalidation by widening the oldest ones.
    #[expect(clippy::expect_used, reason = "a mark stays while the window has an entry for it")]
    fn make_room(&mut self, selector: &Selector) {
        let (marks, listed) = match selector {
            Selector::Target { .. } | Selector::Host { .. } => (2, 0),
            Selector::Tags { any_of, all_of, .. } => match each_alone(any_of, all_of) {
                Some(tags) => (tags.len().min(self.marks_max), 0),
                None => (0, 1),
            },
            Selector::Prefix { .. } | Selector::Ban { .. } => (0, 1),
            Selector::Everything { .. } => (0, 0),
        };
        if listed > 0 && self.listed.is_full() {
            self.widen_oldest_listed();
        }
        while self.marked + marks > self.marks_max {
            let (sequence, place) = self.window.pop_front().expect("the window has every mark");
            let mark = self.mark_at(place);
            if mark.latest() == sequence {
                self.widen(None, mark);
                self.unmark(place);
            }
        }
    }

    /// Widens the oldest listed invalidation. Returns false if none is listed.
    fn widen_oldest_listed(&mut self) -> bool {
        let Some(oldest) = self.listed.take_oldest() else { return false };
        self.widen(Some(oldest.site), InvalidationMark::of(oldest.mode, oldest.sequence));
        oldest.release(&mut self.tags);
        true
    }

    /// Records a forgotten mark for the site, or for everything if `site` is `None`.
    fn widen(&mut self, site: Option<SiteId>, mark: InvalidationMark) {
        self.widened += u64::from(mark.latest() > self.swept);
        site.map_or(&mut self.everything, |site| self.sites.entry(site).or_default()).absorb(mark);
    }

    /// Gives an invalidation its number and records it. There must be room. Returns the number of
    /// objects that it matches, if already known here.
    fn record(&mut self, selector: &Selector, mode: Mode) -> Option<u64> {
        self.sequence += 1;
        match selector {
            Selector::Target { site, host, target } => {
                for https in [false, true] {
                    let key = Key::new(*site, https, host, target.clone());
                    self.set_mark(self.keys.hash(&key), mode);
                }
            }
            Selector::Host { site, host } => {
                for https in [false, true] {
                    let host = spelled(*site, https, host);
                    self.set_mark(self.host_hash(*site, https, &host), mode);
                }
                self.drop_superseded(mode, |listed| listed.is_prefix_of_host(*site, host));
            }
            Selector::Everything { site } => self.invalidate_all(*site, mode),
            // There are more tags than marks, so the whole site is invalidated, which includes
            // them.
            Selector::Tags { site, any_of, all_of } if any_of.len() + all_of.len() > self.marks_max => {
                self.invalidate_all(Some(*site), mode);
            }
            Selector::Tags { site, any_of, all_of } => {
                if let Some(tags) = each_alone(any_of, all_of) {
                    return Some(tags.iter().map(|tag| self.invalidate_tag(*site, tag, mode)).sum());
                }
                let listing = Listing::of_tags(&mut self.tags, *site, any_of, all_of);
                self.list(*site, mode, listing);
            }
            Selector::Prefix { site, host, prefix } => {
                let hosts = [false, true].map(|https| spelled(*site, https, host));
                self.list(*site, mode, Listing::Prefix { hosts, prefix: Bytes::copy_from_slice(prefix) });
            }
            Selector::Ban { site, ban } => {
                let is_sievable = ban.need().is_some();
                self.list(*site, mode, Listing::Ban { ban: Arc::clone(ban), is_sievable });
            }
        }
        None
    }

    /// Records an invalidation of an earlier process under its old number. Nothing is stored yet.
    pub(crate) fn replay(&mut self, sequence: u64, selector: &Selector, mode: Mode) {
        self.make_room(selector);
        self.sequence = self.sequence.max(sequence.saturating_sub(1));
        self.record(selector, mode);
        self.swept = self.sequence;
    }

    /// Continues the numbering: the next invalidation gets a number above `sequence`.
    pub(crate) fn resume(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
        self.swept = self.sequence;
    }

    /// The bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        let marks = self.marks.len() * MARK_BYTES + self.window.len() * WINDOW_BYTES;
        marks + self.listed.bytes() + self.tags.bytes()
    }

    fn invalidate_all(&mut self, site: Option<SiteId>, mode: Mode) {
        let mark = site.map_or(&mut self.everything, |site| self.sites.entry(site).or_default());
        mark.set(mode, self.sequence);
        self.drop_superseded(mode, |listed| site.is_none_or(|site| site == listed.site));
    }

    fn list(&mut self, site: SiteId, mode: Mode, listing: Listing) {
        let listed = ListEntry { sequence: self.sequence, mode, site, listing };
        self.drop_superseded(mode, |old| listed.covers(old));
        while !self.listed.has_memory_for(&listed) && self.widen_oldest_listed() {}
        self.listed.add(listed);
    }

    /// Removes listed invalidations that a newer one covers.
    fn drop_superseded(&mut self, mode: Mode, is_covered: impl Fn(&ListEntry) -> bool) {
        let superseded = self.listed.take(|old| mode >= old.mode && is_covered(old));
        superseded.into_iter().for_each(|old| old.release(&mut self.tags));
    }

    fn invalidate_tag(&mut self, site: SiteId, text: &[u8], mode: Mode) -> u64 {
        let id = self.tags.intern(site, text);
        let before = self.tags.mark(id);
        if before.latest() == 0 {
            self.tags.hold(id);
        }
        let met = self.tags.invalidate(id, mode, self.sequence);
        if self.enter_window(MarkPlace::Tag(id), before) { met } else { 0 }
    }

    fn set_mark(&mut self, hash: u64, mode: Mode) {
        let mark = self.marks.entry(hash).or_default();
        let before = *mark;
        mark.set(mode, self.sequence);
        self.enter_window(MarkPlace::Hashed(hash), before);
    }

    /// Notes that a mark was set. Returns false if the current invalidation has set this mark
    /// before.
    fn enter_window(&mut self, place: MarkPlace, before: InvalidationMark) -> bool {
        if before.latest() == self.sequence {
            return false;
        }
        self.marked += usize::from(before.latest() == 0);
        if self.window.len() > 2 * self.marked + WINDOW_SLACK {
            let mut window = std::mem::take(&mut self.window);
            window.retain(|(sequence, place)| self.mark_at(*place).latest() == *sequence);
            self.window = window;
        }
        self.window.push_back((self.sequence, place));
        true
    }

    /// The mark of an entry of the window.
    #[expect(clippy::expect_used, reason = "a mark is removed with its last entry")]
    fn mark_at(&self, place: MarkPlace) -> InvalidationMark {
        match place {
            MarkPlace::Hashed(hash) => *self.marks.get(&hash).expect("a mark is removed with its last entry"),
            MarkPlace::Tag(id) => self.tags.mark(id),
        }
    }

    fn unmark(&mut self, place: MarkPlace) {
        self.marked -= 1;
        match place {
            MarkPlace::Hashed(hash) => drop(self.marks.remove(&hash)),
            MarkPlace::Tag(id) => {
                self.tags.clear_mark(id);
                self.tags.release(id);
            }
        }
    }

    fn host_hash(&self, site: SiteId, https: bool, host: &[u8]) -> u64 {
        self.hosts.hash(site, host).rotate_left(u32::from(https))
    }
}

/// The tags of a selector, if each of them selects by itself.
const fn each_alone<'a>(any_of: &'a [Bytes], all_of: &'a [Bytes]) -> Option<&'a [Bytes]> {
    match (any_of.is_empty(), all_of.len()) {
        (_, 0) => Some(any_of),
        (true, 1) => Some(all_of),
        _ => None,
    }
}

/// Outdated entries that the window may hold before it is cleaned.
const WINDOW_SLACK: usize = 64;

/// The bytes of a hashed mark in its table and of an entry of the window, including the space that
/// these keep free.
const MARK_BYTES: usize = 64;
const WINDOW_BYTES: usize = 48;
