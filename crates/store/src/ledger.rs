//! What was invalidated when: numbers for sites, hosts, pages and tags, and a short list of what has no such number.
//!
//! ```text
//!   flight begins (number n) --> ... --> is it meant by what came after n?   no: store it, as checked up to now
//!   stored, checked up to n  --> looked up or swept --> meant by what came after n?   no: checked up to now
//! ```
//!
//! Invariant: whatever is asked about with its number gets the right answer, or the answer that it is invalid: what
//! the ledger has forgotten is older than `floor`. It forgets the oldest, and nothing that a stored object has not
//! been checked against: what is not yet `swept` is kept. So nothing piles up, and nothing is revived.

use crate::hash::{KeyHasher, PrehashedState, TextHasher};
use crate::invalidation::{Response, Stored};
use crate::listed::{Listed, Listing};
use crate::mark::Mark;
use crate::tags::Tags;
use crate::{Key, Mode, Selector, SiteId};
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Pages, hosts and tags of which it is known when they were last invalidated; the oldest go first.
pub(crate) const MARKS_MAX: usize = 65_536;

/// Prefixes, bans and groups of tags that are known; the oldest go first.
pub(crate) const LISTED_MAX: usize = 512;

/// What was invalidated.
#[derive(Debug)]
pub(crate) struct Ledger {
    sequence: u64,
    /// Fetches that began before this number cannot be judged any more.
    floor: u64,
    /// Every stored object has been checked up to here.
    swept: u64,
    everything: Mark,
    sites: HashMap<SiteId, Mark>,
    /// Hosts and pages, by hash: two with one hash only means that one is fetched again without need.
    marks: HashMap<u64, Mark, PrehashedState>,
    tags: Tags,
    /// Oldest first.
    listed: VecDeque<Listed>,
    listed_bytes: usize,
    /// Marks with the number that they had when they came here, oldest first. Those that were set again since say
    /// nothing.
    window: VecDeque<(u64, Place)>,
    /// Marks that are set.
    marked: usize,
    hosts: TextHasher,
    keys: KeyHasher,
}

/// Where a mark is.
#[derive(Clone, Copy, Debug)]
enum Place {
    Hashed(u64),
    Tag(u32),
}

/// A response, with all that an invalidation can name.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) site: SiteId,
    pub(crate) https: bool,
    pub(crate) host: &'a [u8],
    pub(crate) target: &'a [u8],
    /// The hash of its key.
    pub(crate) hash: u64,
    pub(crate) tags: TagIds<'a>,
    pub(crate) response: &'a dyn Response,
}

/// The numbers of tags, four octets each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TagIds<'a>(pub(crate) &'a [u8]);

impl TagIds<'_> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.as_chunks::<4>().0.iter().map(|octets| u32::from_le_bytes(*octets))
    }

    pub(crate) fn has(&self, id: u32) -> bool {
        self.iter().any(|known| known == id)
    }
}

/// The octets of a page's host under a scheme, as it is in keys.
pub(crate) fn spelled(site: SiteId, https: bool, host: &[u8]) -> Bytes {
    Key::new(site, https, host, Bytes::new()).host_octets()
}

impl Ledger {
    pub(crate) fn new(keys: KeyHasher, seed: u64) -> Self {
        Self {
            sequence: 0,
            floor: 0,
            swept: 0,
            everything: Mark::default(),
            sites: HashMap::new(),
            marks: HashMap::default(),
            tags: Tags::new(TextHasher::new(seed)),
            listed: VecDeque::new(),
            listed_bytes: 0,
            window: VecDeque::new(),
            marked: 0,
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

    pub(crate) const fn tags(&self) -> &Tags {
        &self.tags
    }

    pub(crate) const fn tags_mut(&mut self) -> &mut Tags {
        &mut self.tags
    }

    /// The strongest of the invalidations after `since` that mean the subject.
    pub(crate) fn judge(&self, since: u64, subject: &Subject<'_>) -> Option<Mode> {
        if since >= self.sequence {
            return None;
        }
        if since < self.floor {
            return Some(Mode::Hard);
        }
        let mark = |mark: Option<&Mark>| mark.and_then(|mark| mark.since(since));
        let site = mark(self.sites.get(&subject.site)).max(self.everything.since(since));
        let host = mark(self.marks.get(&self.host_hash(subject.site, subject.https, subject.host)));
        let page = mark(self.marks.get(&subject.hash));
        let tags = subject.tags.iter().filter_map(|id| self.tags.mark(id).since(since)).max();
        let mut mode = site.max(host).max(page).max(tags);
        for listed in self.listed.iter().rev().take_while(|listed| listed.sequence > since) {
            if mode < Some(listed.mode) && self.is_listed(listed, subject) {
                mode = Some(listed.mode);
            }
        }
        mode
    }

    fn is_listed(&self, listed: &Listed, subject: &Subject<'_>) -> bool {
        let Subject { host, target, response, tags, .. } = *subject;
        let stored = Stored { host, target, response, tags, known: &self.tags };
        listed.site == subject.site && listed.listing.means(subject, &stored)
    }

    /// Whether there is room for what an invalidation needs. If not, every stored object has to be checked against
    /// what is here before, and the next try will find room.
    pub(crate) fn make_room(&mut self, selector: &Selector) -> bool {
        let (marks, listed) = match selector {
            Selector::Target { .. } | Selector::Host { .. } => (2, 0),
            Selector::Tags { any_of, all_of, .. } => match each_alone(any_of, all_of) {
                Some(tags) => (tags.len().min(MARKS_MAX), 0),
                None => (0, 1),
            },
            Selector::Prefix { .. } | Selector::Ban { .. } => (0, 1),
            Selector::Everything { .. } => (0, 0),
        };
        while self.listed.len() + listed > LISTED_MAX {
            let Some(oldest) = self.listed.pop_front_if(|oldest| oldest.sequence <= self.swept) else {
                return false;
            };
            self.floor = self.floor.max(oldest.sequence);
            self.drop_listed(oldest);
        }
        while self.marked + marks > MARKS_MAX {
            let Some((sequence, place)) = self.window.pop_front() else { return true };
            if self.mark_at(place).latest() != sequence {
                continue;
            }
            if sequence > self.swept {
                self.window.push_front((sequence, place));
                return false;
            }
            self.floor = self.floor.max(sequence);
            self.unmark(place);
        }
        true
    }

    /// Gives an invalidation its number and takes it down; there must be room. Says how many objects it met, where
    /// that is known here.
    pub(crate) fn record(&mut self, selector: &Selector, mode: Mode) -> Option<u64> {
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
            // More than can be marked: the whole site is meant, which they are a part of.
            Selector::Tags { site, any_of, all_of } if any_of.len() + all_of.len() > MARKS_MAX => {
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
            Selector::Ban { site, ban } => self.list(*site, mode, Listing::Ban(Arc::clone(ban))),
        }
        None
    }

    /// Takes down again what an earlier process took down under this number. Where there is no room, the oldest are
    /// forgotten, and with them what was not checked against them.
    pub(crate) fn replay(&mut self, sequence: u64, selector: &Selector, mode: Mode) {
        if !self.make_room(selector) {
            self.swept = self.sequence;
            self.make_room(selector);
        }
        self.sequence = self.sequence.max(sequence.saturating_sub(1));
        self.record(selector, mode);
    }

    /// The next number is above this one.
    pub(crate) fn resume(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
        self.swept = self.sequence;
    }

    /// The octets in use.
    pub(crate) fn bytes(&self) -> usize {
        let marks = self.marks.len() * MARK_BYTES + self.window.len() * WINDOW_BYTES;
        marks + self.listed_bytes + self.tags.bytes()
    }

    fn invalidate_all(&mut self, site: Option<SiteId>, mode: Mode) {
        let mark = site.map_or(&mut self.everything, |site| self.sites.entry(site).or_default());
        mark.set(mode, self.sequence);
        self.drop_superseded(mode, |listed| site.is_none_or(|site| site == listed.site));
    }

    fn list(&mut self, site: SiteId, mode: Mode, listing: Listing) {
        let listed = Listed { sequence: self.sequence, mode, site, listing };
        self.drop_superseded(mode, |old| listed.covers(old));
        self.listed_bytes += listed.bytes();
        self.listed.push_back(listed);
    }

    /// Forgets what is meant by a newer invalidation too.
    fn drop_superseded(&mut self, mode: Mode, is_covered: impl Fn(&Listed) -> bool) {
        for old in std::mem::take(&mut self.listed) {
            if mode >= old.mode && is_covered(&old) {
                self.drop_listed(old);
            } else {
                self.listed.push_back(old);
            }
        }
    }

    fn drop_listed(&mut self, listed: Listed) {
        self.listed_bytes -= listed.bytes();
        listed.listing.release(&mut self.tags);
    }

    fn invalidate_tag(&mut self, site: SiteId, text: &[u8], mode: Mode) -> u64 {
        let id = self.tags.intern(site, text);
        let before = self.tags.mark(id);
        if before.latest() == 0 {
            self.tags.hold(id);
        }
        let met = self.tags.invalidate(id, mode, self.sequence);
        if self.enter_window(Place::Tag(id), before) { met } else { 0 }
    }

    fn set_mark(&mut self, hash: u64, mode: Mode) {
        let mark = self.marks.entry(hash).or_default();
        let before = *mark;
        mark.set(mode, self.sequence);
        self.enter_window(Place::Hashed(hash), before);
    }

    /// Notes that a mark was set; false if this invalidation has set it before.
    fn enter_window(&mut self, place: Place, before: Mark) -> bool {
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

    fn mark_at(&self, place: Place) -> Mark {
        match place {
            Place::Hashed(hash) => self.marks.get(&hash).copied().unwrap_or_default(),
            Place::Tag(id) => self.tags.mark(id),
        }
    }

    fn unmark(&mut self, place: Place) {
        self.marked -= 1;
        match place {
            Place::Hashed(hash) => drop(self.marks.remove(&hash)),
            Place::Tag(id) => {
                self.tags.clear_mark(id);
                self.tags.release(id);
            }
        }
    }

    fn host_hash(&self, site: SiteId, https: bool, host: &[u8]) -> u64 {
        self.hosts.hash(site, host).rotate_left(u32::from(https))
    }
}

/// The tags of a selector, if each of them alone means what it means.
const fn each_alone<'a>(any_of: &'a [Bytes], all_of: &'a [Bytes]) -> Option<&'a [Bytes]> {
    match (any_of.is_empty(), all_of.len()) {
        (_, 0) => Some(any_of),
        (true, 1) => Some(all_of),
        _ => None,
    }
}

/// Entries of the window that say nothing any more, before it is cleaned.
const WINDOW_SLACK: usize = 64;

/// A hashed mark with its place in the table, and an entry of the window, with the room that these keep free.
const MARK_BYTES: usize = 64;
const WINDOW_BYTES: usize = 48;
