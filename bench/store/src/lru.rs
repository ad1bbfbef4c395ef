//! The reference for the hit ratio: an exact LRU cache, weighted by bytes.
//!
//! Invariant: the sum of the weights never exceeds the budget. The cache holds no pages, only their
//! numbers.

/// Link to no page.
const NONE: u32 = u32::MAX;

/// Page numbers in the order of their last use, as a doubly linked list.
pub(crate) struct Lru {
    /// The list's links, by page number.
    links: Vec<LruLink>,
    newest: u32,
    oldest: u32,
    bytes: u64,
    bytes_max: u64,
}

#[derive(Clone, Copy)]
struct LruLink {
    newer: u32,
    older: u32,
    /// Weight of the page; 0 if it is not in the cache.
    bytes: u64,
}

impl Lru {
    /// An empty cache for page numbers below `pages`, with a budget of `bytes_max`.
    pub(crate) fn new(pages: usize, bytes_max: u64) -> Self {
        let link = LruLink { newer: NONE, older: NONE, bytes: 0 };
        Self { links: vec![link; pages], newest: NONE, oldest: NONE, bytes: 0, bytes_max }
    }

    /// Requests a page with this weight. Returns whether it was in the cache. Otherwise it is
    /// inserted, and the least recently used pages are evicted.
    pub(crate) fn ask(&mut self, page: u32, bytes: u64) -> bool {
        let was_here = self.take(page);
        let bytes = bytes.max(1);
        if bytes > self.bytes_max {
            return was_here;
        }
        while self.bytes + bytes > self.bytes_max {
            self.take(self.oldest);
        }
        let older = self.newest;
        if let Some(link) = self.links.get_mut(page as usize) {
            *link = LruLink { newer: NONE, older, bytes };
        }
        self.newest = page;
        match self.links.get_mut(older as usize) {
            Some(link) => link.newer = page,
            None => self.oldest = page,
        }
        self.bytes += bytes;
        was_here
    }

    /// Removes a page. Returns whether it was in the cache.
    fn take(&mut self, page: u32) -> bool {
        let Some(link) = self.links.get_mut(page as usize).filter(|link| link.bytes > 0) else {
            return false;
        };
        let LruLink { newer, older, bytes } = *link;
        link.bytes = 0;
        self.bytes -= bytes;
        match self.links.get_mut(newer as usize) {
            Some(link) => link.older = older,
            None => self.newest = older,
        }
        match self.links.get_mut(older as usize) {
            Some(link) => link.newer = newer,
            None => self.oldest = newer,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Lru;
    use stats::Random;

    #[test]
    fn lru_agrees_with_a_linear_list() {
        let mut random = Random::from_seed(5);
        let mut lru = Lru::new(40, 100);
        // In order of last use, the oldest first.
        let mut list: Vec<(u32, u64)> = Vec::new();
        for step in 0..20_000 {
            let page = random.below(40) as u32;
            let bytes = 1 + u64::from(page) * 7 % 23;
            let at = list.iter().position(|(known, _)| *known == page);
            if let Some(at) = at {
                list.remove(at);
            }
            while list.iter().map(|(_, bytes)| bytes).sum::<u64>() + bytes > 100 {
                list.remove(0);
            }
            list.push((page, bytes));
            assert_eq!(lru.ask(page, bytes), at.is_some(), "step {step}, page {page}");
        }
    }
}
