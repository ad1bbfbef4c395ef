//! The list of invalidations without a mark: prefixes, groups of tags and bans.
//!
//! ```text
//!   loose:  [ .. newest ]            each is compared with an object by itself
//!   blocks: [ 32 bans + a sieve ]    one search tells which of the bans need a comparison
//! ```
//!
//! Invariant: each entry is either loose or in one block. A block's sieve is compiled while no lock
//! is held, so its entries stay loose until it is ready. The answers are the same in both places.

use crate::list_entry::{ListEntry, Listing};
use crate::sieve::{BANS_MAX, SearchedResponse, Sieve};
use crate::tags::Tags;
use invalidation::{Ban, Mode, Need};
use std::collections::VecDeque;
use std::sync::Arc;

/// The listed invalidations of a ledger.
#[derive(Debug)]
pub(crate) struct List {
    /// Oldest first.
    loose: VecDeque<ListEntry>,
    blocks: Vec<SieveBlock>,
    len: usize,
    len_max: usize,
    bytes: usize,
    bytes_max: usize,
}

/// Bans that share one sieve. A ban that has left the list leaves an empty place.
#[derive(Debug)]
struct SieveBlock {
    /// Oldest first.
    bans: Vec<Option<ListEntry>>,
    sieve: Sieve,
}

/// The result of a comparison with the list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ListComparison {
    /// The mode of the strongest matching invalidation.
    pub(crate) mode: Option<Mode>,
    /// The entries that were compared plus the searches of sieves.
    pub(crate) comparisons: u64,
}

/// Bans that are to become a block, with their numbers.
pub(crate) struct Sievable {
    bans: Vec<(u64, Arc<dyn Ban>)>,
}

/// A compiled sieve, with the numbers of its bans.
pub(crate) struct CompiledSieve {
    numbers: Vec<u64>,
    sieve: Sieve,
}

/// The number of blocks in a full list of full blocks.
const BLOCKS: usize = 16;

/// With fewer loose bans than this, a sieve is not worth its compilation.
const LOOSE_MIN: usize = 4;

impl List {
    /// An empty list for `len_max` entries, which may take `bytes_max` bytes.
    pub(crate) const fn new(len_max: usize, bytes_max: usize) -> Self {
        Self { loose: VecDeque::new(), blocks: Vec::new(), len: 0, len_max, bytes: 0, bytes_max }
    }

    /// The number of bans in a full block.
    fn block_bans(&self) -> usize {
        (self.len_max / BLOCKS).clamp(2, BANS_MAX)
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.len >= self.len_max
    }

    /// Whether the bytes of an entry fit.
    pub(crate) fn has_memory_for(&self, listed: &ListEntry) -> bool {
        self.bytes + listed.bytes() <= self.bytes_max
    }

    /// Whether entries after `swept` take more than half of the room.
    pub(crate) fn is_crowded(&self, swept: u64) -> bool {
        let blocks = self.blocks.iter().flat_map(|block| block.bans.iter().flatten());
        let waiting = self.loose.iter().chain(blocks).filter(|listed| listed.sequence > swept);
        waiting.count() > self.len_max / 2
    }

    /// Adds an entry, which must be newer than all others.
    pub(crate) fn add(&mut self, listed: ListEntry) {
        self.len += 1;
        self.bytes += listed.bytes();
        self.loose.push_back(listed);
    }

    /// Removes and returns the oldest entry.
    pub(crate) fn take_oldest(&mut self) -> Option<ListEntry> {
        let of_block = |block: &SieveBlock| block.bans.iter().flatten().next().map(|listed| listed.sequence);
        let oldest =
            self.blocks.iter().enumerate().filter_map(|(at, block)| Some((of_block(block)?, at))).min();
        let loose = self.loose.front().map(|listed| listed.sequence);
        let taken = match oldest {
            Some((sequence, at)) if loose.is_none_or(|loose| sequence < loose) => {
                let bans = &mut self.blocks.get_mut(at)?.bans;
                bans.iter_mut().find(|ban| ban.is_some())?.take()
            }
            _ => self.loose.pop_front(),
        }?;
        self.blocks.retain(|block| block.bans.iter().any(Option::is_some));
        self.count_out(&taken);
        Some(taken)
    }

    /// Removes and returns the entries that `is_meant` accepts.
    pub(crate) fn take(&mut self, is_meant: impl Fn(&ListEntry) -> bool) -> Vec<ListEntry> {
        let mut taken = Vec::new();
        if self.loose.iter().any(&is_meant) {
            for listed in std::mem::take(&mut self.loose) {
                if is_meant(&listed) {
                    taken.push(listed);
                } else {
                    self.loose.push_back(listed);
                }
            }
        }
        for ban in self.blocks.iter_mut().flat_map(|block| &mut block.bans) {
            taken.extend(ban.take_if(|listed| is_meant(listed)));
        }
        self.blocks.retain(|block| block.bans.iter().any(Option::is_some));
        taken.iter().for_each(|listed| self.count_out(listed));
        taken
    }

    fn count_out(&mut self, listed: &ListEntry) {
        self.len -= 1;
        self.bytes -= listed.bytes();
    }

    /// Compares an object with the entries after `since` that are stronger than `mode`.
    pub(crate) fn compare(
        &self,
        since: u64,
        searched: &SearchedResponse<'_>,
        mode: Option<Mode>,
    ) -> ListComparison {
        let mut compared = ListComparison { mode, comparisons: 0 };
        for listed in self.loose.iter().rev().take_while(|listed| listed.sequence > since) {
            compared.with(listed, searched);
        }
        for block in &self.blocks {
            if compared.mode == Some(Mode::Hard) {
                break;
            }
            block.compare(since, searched, &mut compared);
        }
        compared
    }

    /// The oldest loose bans, together with those of blocks that are less than half full. `None` if
    /// too few are loose.
    pub(crate) fn sievable(&self) -> Option<Sievable> {
        let of_ban = |listed: &ListEntry| match &listed.listing {
            Listing::Ban { ban, is_sievable: true } => Some((listed.sequence, Arc::clone(ban))),
            _ => None,
        };
        let count = self.block_bans();
        let mut bans = Vec::new();
        bans.extend(self.loose.iter().filter_map(of_ban).take(count));
        if bans.len() < LOOSE_MIN.min(count) {
            return None;
        }
        let sparse = self.blocks.iter().map(|block| block.bans.iter().flatten());
        for block in sparse.filter(|block| block.clone().count() < count.div_ceil(2)) {
            bans.extend(block.filter_map(of_ban));
        }
        bans.sort_unstable_by_key(|(sequence, _)| *sequence);
        bans.truncate(count);
        Some(Sievable { bans })
    }

    /// Makes a block of the sieve and of those of its bans that are still in the list.
    pub(crate) fn sieve(&mut self, sieved: CompiledSieve) {
        let CompiledSieve { numbers, sieve } = sieved;
        let mut bans: Vec<Option<ListEntry>> = numbers.iter().map(|_| None).collect();
        let mut place = |listed: ListEntry| {
            let place = numbers.binary_search(&listed.sequence).ok().and_then(|at| bans.get_mut(at));
            match place {
                Some(place) => place.replace(listed),
                None => Some(listed),
            }
        };
        self.loose = std::mem::take(&mut self.loose).into_iter().filter_map(&mut place).collect();
        for ban in self.blocks.iter_mut().flat_map(|block| &mut block.bans) {
            *ban = ban.take().and_then(&mut place);
        }
        self.blocks.push(SieveBlock { bans, sieve });
        self.blocks.retain(|block| block.bans.iter().any(Option::is_some));
    }
}

impl SieveBlock {
    fn compare(&self, since: u64, searched: &SearchedResponse<'_>, compared: &mut ListComparison) {
        let site = searched.subject().site;
        let is_new = |listed: &&ListEntry| listed.sequence > since && listed.site == site;
        if !self.bans.iter().flatten().any(|listed| is_new(&listed)) {
            return;
        }
        compared.comparisons += self.sieve.searches() as u64;
        let passing = self.sieve.passing(searched);
        for (at, ban) in self.bans.iter().enumerate() {
            if passing & 1 << at != 0
                && let Some(listed) = ban.as_ref().filter(is_new)
            {
                compared.with(listed, searched);
            }
        }
    }
}

impl ListComparison {
    fn with(&mut self, listed: &ListEntry, searched: &SearchedResponse<'_>) {
        if self.mode < Some(listed.mode) && listed.site == searched.subject().site {
            self.comparisons += 1;
            if listed.listing.means(searched.subject(), searched.stored()) {
                self.mode = Some(listed.mode);
            }
        }
    }
}

impl Sievable {
    /// Compiles the sieve. This may take a few milliseconds, so no lock should be held.
    pub(crate) fn compile(self) -> CompiledSieve {
        let (numbers, needs): (Vec<_>, Vec<Need>) =
            self.bans.iter().filter_map(|(number, ban)| Some((*number, ban.need()?))).unzip();
        CompiledSieve { numbers, sieve: Sieve::of(&needs) }
    }
}

impl ListEntry {
    /// Releases the tags that an entry holds after it has left the list.
    pub(crate) fn release(self, tags: &mut Tags) {
        self.listing.release(tags);
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCKS, LOOSE_MIN, List, Sievable};
    use crate::SiteId;
    use crate::hash::TextHasher;
    use crate::list_entry::{ListEntry, Listing};
    use crate::sieve::SearchedResponse;
    use crate::subject::{InvalidationSubject, TagIds};
    use crate::tags::Tags;
    use invalidation::{Ban, Haystack, Mode, Need, ResponseView};
    use message::{ResponseHead, Status};
    use std::sync::Arc;

    #[derive(Debug)]
    struct TestTargetBan(String);

    impl Ban for TestTargetBan {
        fn matches(&self, stored: &dyn ResponseView) -> bool {
            stored.target() == self.0.as_bytes()
        }

        fn need(&self) -> Option<Need> {
            Some(Need { haystack: Haystack::Target, pattern: format!("^{}$", self.0) })
        }

        fn text(&self) -> &str {
            &self.0
        }
    }

    const BANS: u64 = 512;

    fn listed(sequence: u64) -> ListEntry {
        let listing =
            Listing::Ban { ban: Arc::new(TestTargetBan(format!("/{sequence}"))), is_sievable: true };
        ListEntry { sequence, mode: Mode::Hard, site: SiteId(0), listing }
    }

    fn sieve(list: &mut List) {
        while let Some(sieved) = list.sievable().map(Sievable::compile) {
            list.sieve(sieved);
        }
    }

    fn compare(list: &List, since: u64, target: &str) -> (bool, u64) {
        let known = Tags::new(TextHasher::new(1));
        let head = ResponseHead::new(Status::OK);
        let subject = InvalidationSubject {
            site: SiteId(0),
            https: false,
            host: b"a.test",
            target: target.as_bytes(),
            hash: 0,
            tags: TagIds::default(),
            has_equivalents: false,
            response: &head,
        };
        let compared = list.compare(since, &SearchedResponse::new(subject, &known), None);
        (compared.mode.is_some(), compared.comparisons)
    }

    #[test]
    fn many_bans_cost_one_search_per_block() {
        let mut list = List::new(512, usize::MAX);
        (1..=BANS).for_each(|sequence| list.add(listed(sequence)));
        assert_eq!(compare(&list, 0, "/none"), (false, BANS), "no sieve yet");
        sieve(&mut list);
        let (is_meant, comparisons) = compare(&list, 0, "/none");
        assert!(!is_meant && comparisons < (BLOCKS + LOOSE_MIN) as u64, "{comparisons}");
        for sequence in 1..=BANS {
            let target = format!("/{sequence}");
            assert!(compare(&list, 0, &target).0 && compare(&list, sequence - 1, &target).0);
            assert!(!compare(&list, sequence, &target).0, "already checked against this ban");
        }
    }

    #[test]
    fn oldest_entry_leaves_first_and_blocks_lose_superseded_bans() {
        let mut list = List::new(64, usize::MAX);
        (1..=40).for_each(|sequence| list.add(listed(sequence)));
        let bytes = list.bytes();
        sieve(&mut list);
        assert_eq!((list.len(), list.bytes()), (40, bytes));
        assert_eq!(list.take(|listed| listed.sequence % 2 == 0).len(), 20);
        // Blocks that are more than half empty are compiled again.
        (41..=48).for_each(|sequence| list.add(listed(sequence)));
        sieve(&mut list);
        assert!(!compare(&list, 0, "/2").0 && compare(&list, 0, "/3").0 && compare(&list, 0, "/48").0);
        let oldest: Vec<u64> =
            std::iter::from_fn(|| list.take_oldest()).map(|listed| listed.sequence).collect();
        assert!(oldest.is_sorted() && oldest.len() == 28, "{oldest:?}");
        assert_eq!((list.len(), list.bytes(), list.blocks.len()), (0, 0, 0));
    }
}
