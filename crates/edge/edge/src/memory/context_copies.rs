//! Copies of pages that visitors with the same rights share (`logged_in = "context"`).
//!
//! Invariants: a copy is found only by the digest of its context and of everything else that its
//! response may depend on. The table holds no context, only keyed digests. It is in memory only.
//! The copies of one URL, the contexts of one site and the bytes of all copies are bounded; what
//! was not used for the longest time goes first.

use crate::memory::private_copies::{Digest, PrivateCopy};
use crate::memory::sync::{Mutex, MutexGuard, PoisonError};
use platform::{HashMap, HashSet};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Object, SiteId};

/// The place of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContextPlace {
    /// The page for the context, with everything that it depends on.
    pub(crate) page: Digest,
    /// The URL of the page, for all contexts.
    pub(crate) url: Digest,
    pub(crate) site: SiteId,
    pub(crate) context: Digest,
}

/// How much copies may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextCopyLimits {
    /// Copies of one URL.
    pub(crate) copies_max: usize,
    /// Contexts of one site.
    pub(crate) contexts_max: usize,
    pub(crate) bytes_max: u64,
}

/// All copies.
#[derive(Debug, Default)]
pub(crate) struct ContextCopies {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    pages: HashMap<Digest, Held>,
    by_url: HashMap<Digest, HashSet<Digest>>,
    /// The pages of each context of each site.
    contexts: HashMap<SiteId, HashMap<Digest, HashSet<Digest>>>,
    /// The pages by their last use.
    order: BTreeMap<u64, Digest>,
    bytes: u64,
    /// The number of the last use.
    number: u64,
    evicted: u64,
}

#[derive(Debug)]
struct Held {
    copy: PrivateCopy,
    place: ContextPlace,
    bytes: u64,
    used: u64,
}

/// The figures of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContextTotals {
    pub(crate) contexts: u64,
    pub(crate) copies: u64,
    pub(crate) bytes: u64,
    /// Copies that were removed because a limit was reached.
    pub(crate) evicted: u64,
}

impl ContextCopies {
    /// The copy at a place, if `is_current` says that it may still be used; otherwise the copy is
    /// removed. `touch`: this is a use.
    pub(crate) fn find(
        &self,
        page: &Digest,
        touch: bool,
        is_current: impl FnOnce(&PrivateCopy) -> bool,
    ) -> Option<Arc<Object>> {
        let mut table = self.table();
        let copy = &table.pages.get(page)?.copy;
        let object = Arc::clone(&copy.object);
        if !is_current(copy) {
            if touch {
                table.remove(page);
            }
            return None;
        }
        if touch {
            table.touch(page);
        }
        Some(object)
    }

    /// Keeps a copy, and removes others if there is no more room. Returns whether it is kept.
    pub(crate) fn keep(&self, place: ContextPlace, copy: PrivateCopy, limits: ContextCopyLimits) -> bool {
        let bytes = copy.bytes();
        if bytes > limits.bytes_max {
            return false;
        }
        let mut table = self.table();
        table.remove(&place.page);
        table.make_room(&place, bytes, limits);
        table.put(place, copy, bytes);
        true
    }

    pub(crate) fn totals(&self) -> ContextTotals {
        let table = self.table();
        ContextTotals {
            contexts: table.contexts.values().map(|contexts| contexts.len() as u64).sum(),
            copies: table.pages.len() as u64,
            bytes: table.bytes,
            evicted: table.evicted,
        }
    }

    /// Poison is ignored because no code that can panic runs under the lock.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn touch(&mut self, page: &Digest) {
        self.number += 1;
        if let Some(held) = self.pages.get_mut(page) {
            self.order.remove(&held.used);
            held.used = self.number;
            self.order.insert(self.number, *page);
        }
    }

    fn make_room(&mut self, place: &ContextPlace, bytes: u64, limits: ContextCopyLimits) {
        while let Some(oldest) =
            self.by_url.get(&place.url).filter(|pages| pages.len() >= limits.copies_max).and_then(|pages| {
                pages.iter().min_by_key(|page| self.pages.get(*page).map(|held| held.used)).copied()
            })
        {
            self.evict(&oldest);
        }
        while let Some(oldest) = self.surplus_context(place, limits.contexts_max) {
            oldest.iter().for_each(|page| self.evict(page));
        }
        while self.bytes + bytes > limits.bytes_max
            && let Some(oldest) = self.order.first_key_value().map(|(_, page)| *page)
        {
            self.evict(&oldest);
        }
    }

    /// The pages of the context that was not used for the longest time, if the context of `place`
    /// is one too many for its site.
    fn surplus_context(&self, place: &ContextPlace, contexts_max: usize) -> Option<Vec<Digest>> {
        let contexts = self.contexts.get(&place.site)?;
        if contexts.len() < contexts_max || contexts.contains_key(&place.context) {
            return None;
        }
        let used = |pages: &&HashSet<Digest>| {
            pages.iter().filter_map(|page| self.pages.get(page)).map(|held| held.used).max()
        };
        contexts.values().min_by_key(used).map(|pages| pages.iter().copied().collect())
    }

    fn put(&mut self, place: ContextPlace, copy: PrivateCopy, bytes: u64) {
        let page = place.page;
        self.by_url.entry(place.url).or_default().insert(page);
        self.contexts.entry(place.site).or_default().entry(place.context).or_default().insert(page);
        self.bytes += bytes;
        self.pages.insert(page, Held { copy, place, bytes, used: 0 });
        self.touch(&page);
    }

    fn evict(&mut self, page: &Digest) {
        self.evicted += 1;
        self.remove(page);
    }

    fn remove(&mut self, page: &Digest) {
        let Some(Held { place, bytes, used, .. }) = self.pages.remove(page) else { return };
        self.bytes -= bytes;
        self.order.remove(&used);
        if let Some(pages) = self.by_url.get_mut(&place.url) {
            pages.remove(page);
            if pages.is_empty() {
                self.by_url.remove(&place.url);
            }
        }
        let Some(contexts) = self.contexts.get_mut(&place.site) else { return };
        if let Some(pages) = contexts.get_mut(&place.context) {
            pages.remove(page);
            if pages.is_empty() {
                contexts.remove(&place.context);
            }
        }
        if contexts.is_empty() {
            self.contexts.remove(&place.site);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ContextCopies, ContextCopyLimits, ContextPlace};
    use crate::memory::private_copies::PrivateCopy;
    use bytes::Bytes;
    use message::{ResponseHead, Status};
    use semantics::{Freshness, Moment};
    use std::sync::Arc;
    use std::time::Duration;
    use store::{Body, Key, Object, SiteId};

    const AMPLE: ContextCopyLimits =
        ContextCopyLimits { copies_max: 99, contexts_max: 99, bytes_max: 1 << 20 };

    fn copy(bytes: usize) -> PrivateCopy {
        let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
        let body = Body::gathered(&[Bytes::from(vec![b'x'; bytes])]);
        let object = Object::new(&ResponseHead::new(Status::OK), &Bytes::new(), body, freshness);
        let key = Key::new(SiteId(0), false, b"a.test", Bytes::from_static(b"/"));
        PrivateCopy { object: Arc::new(object), key, tags: Vec::new(), begun: 0 }
    }

    fn place(url: u8, context: u8) -> ContextPlace {
        let mut page = [url; 32];
        page[0] = context;
        ContextPlace { page, url: [url; 32], site: SiteId(0), context: [context; 32] }
    }

    fn has(copies: &ContextCopies, url: u8, context: u8) -> bool {
        copies.find(&place(url, context).page, true, |_| true).is_some()
    }

    #[test]
    fn copy_is_found_by_its_own_page_alone() {
        let copies = ContextCopies::default();
        assert!(copies.keep(place(1, 1), copy(9), AMPLE) && copies.keep(place(1, 2), copy(9), AMPLE));
        assert!(has(&copies, 1, 1) && has(&copies, 1, 2) && !has(&copies, 1, 3) && !has(&copies, 2, 1));
        assert_eq!((copies.totals().contexts, copies.totals().copies), (2, 2));
        assert!(copies.find(&place(1, 1).page, false, |_| false).is_none());
        assert!(has(&copies, 1, 1), "a question changes nothing");
        assert!(copies.find(&place(1, 1).page, true, |_| false).is_none());
        assert!(!has(&copies, 1, 1));
    }

    #[test]
    fn each_bound_removes_what_was_not_used() {
        let copies = ContextCopies::default();
        let few = ContextCopyLimits { copies_max: 2, ..AMPLE };
        for context in 1..=3 {
            copies.keep(place(1, context), copy(9), few);
        }
        assert!(!has(&copies, 1, 1) && has(&copies, 1, 2) && has(&copies, 1, 3), "copies of a URL");
        copies.keep(place(1, 3), copy(9), few);
        assert_eq!(copies.totals().copies, 2, "a newer copy takes the place of its own");

        let two = ContextCopyLimits { contexts_max: 2, ..AMPLE };
        copies.keep(place(2, 2), copy(9), two);
        copies.keep(place(3, 3), copy(9), two);
        copies.keep(place(4, 4), copy(9), two);
        assert!(!has(&copies, 1, 2) && !has(&copies, 2, 2), "contexts of a site");
        assert!(has(&copies, 1, 3) && has(&copies, 3, 3) && has(&copies, 4, 4));

        let small = ContextCopyLimits { bytes_max: 5_000, ..AMPLE };
        assert!(!copies.keep(place(5, 3), copy(5_000), small), "too large");
        assert!(copies.keep(place(5, 3), copy(3_000), small));
        assert!(copies.totals().bytes <= small.bytes_max && has(&copies, 5, 3));
        copies.keep(place(5, 3), copy(3_900), small);
        let left = copies.totals();
        assert_eq!((left.copies, left.contexts), (1, 1));
        copies.find(&place(5, 3).page, true, |_| false);
        let table = copies.table();
        assert!(table.by_url.is_empty() && table.contexts.is_empty() && table.order.is_empty());
        assert_eq!(table.bytes, 0);
    }
}
