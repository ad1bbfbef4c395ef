//! The eviction order: S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for
//! cache eviction", SOSP 2023), weighted by bytes.
//!
//! A new object enters the *small* queue, a tenth of the budget. When it reaches the end, it moves
//! to the *main* queue if it had more than one hit. Otherwise it is evicted and the *ghost*
//! remembers its hash: if it comes back soon, it enters the main queue at once. In the main queue
//! an object gets one further round for each hit, at most three.
//!
//! So a scan of pages that are requested once passes through the small queue and leaves the main
//! queue alone. The policy is weak for objects that are requested at long, regular intervals,
//! because the ghost forgets them in between.
//!
//! Invariant: `bytes` is the sum of the members' weights, each rounded up to a unit, and of the
//! ghost's cost. Members are numbers that the caller chooses; this module knows neither keys nor
//! objects. The caller stores the hits beside the data that a look-up reads anyway: with a million
//! members, each further address that a hit touches is one more cache miss.

use crate::growth::resize_by_eighths;
use crate::hash::PrehashedState;
use platform::HashSet;
use std::collections::VecDeque;

/// The small queue's share of the budget is one part in this many.
const SMALL_PART: usize = 10;
/// Hits beyond this many do not count.
const HITS_MAX: u8 = 3;
/// The bytes that one entry of the ghost costs, tables included.
const GHOST_ENTRY_BYTES: usize = 48;
/// Weights are counted in units of this many bytes.
const UNIT_BYTES: usize = 16;
const NONE: u32 = u32::MAX;

/// The eviction order of one shard.
#[derive(Debug)]
pub(crate) struct S3Fifo {
    nodes: Vec<QueueNode>,
    small: NodeQueue,
    main: NodeQueue,
    ghost: Ghost,
    small_units_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct QueueNode {
    units: u32,
    newer: u32,
    older: u32,
    queue: QueueName,
}

/// The hits of a member that still count, at most [`HITS_MAX`]. Entering the main queue resets
/// them, and each further round there uses one up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hits(u8);

impl Hits {
    /// Counts one hit.
    pub(crate) const fn count(&mut self) {
        // Once the count is saturated nothing is written, so a popular member's cache line stays
        // unmodified.
        if self.0 < HITS_MAX {
            self.0 += 1;
        }
    }
}

/// The data that the caller keeps for each member.
pub(crate) trait Members {
    /// The hash of a member.
    fn hash(&self, id: u32) -> u64;

    /// The hits of a member, or `None` if there is no such member. A new member has none.
    fn hits_mut(&mut self, id: u32) -> Option<&mut Hits>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueName {
    Free,
    Small,
    Main,
}

#[derive(Debug)]
struct NodeQueue {
    newest: u32,
    oldest: u32,
    count: usize,
    units: usize,
}

impl S3Fifo {
    /// An empty order for a budget of `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let queue = || NodeQueue { newest: NONE, oldest: NONE, count: 0, units: 0 };
        Self {
            nodes: Vec::new(),
            small: queue(),
            main: queue(),
            ghost: Ghost::default(),
            small_units_max: bytes_max / SMALL_PART / UNIT_BYTES,
        }
    }

    /// The weight of all members and of the ghost, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        (self.small.units + self.main.units) * UNIT_BYTES + self.ghost.order.len() * GHOST_ENTRY_BYTES
    }

    /// Adds the member `id`, which must not be a member yet. The ghost knows it by `hash`. `weight`
    /// is in bytes.
    pub(crate) fn insert(&mut self, id: u32, hash: u64, weight: usize) {
        let queue = if self.ghost.forget(hash) { QueueName::Main } else { QueueName::Small };
        // 32 bits count units of up to 64 GiB, more than any object has.
        let units = u32::try_from(weight.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let node = QueueNode { units, queue: QueueName::Free, newer: NONE, older: NONE };
        let position = id as usize;
        if position >= self.nodes.len() {
            resize_by_eighths(&mut self.nodes, position + 1, node);
        }
        let place = self.node_mut(id);
        assert!(place.queue == QueueName::Free, "a member is added once");
        *place = node;
        self.link(id, queue);
    }

    /// Removes the member `id`. The ghost does not remember it.
    pub(crate) fn remove(&mut self, id: u32) {
        self.unlink(id);
    }

    /// Changes the weight of the member `id`. Its place in the order stays.
    pub(crate) fn reweigh(&mut self, id: u32, weight: usize) {
        let units = u32::try_from(weight.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let Some(node) = self.nodes.get_mut(id as usize).filter(|node| node.queue != QueueName::Free) else {
            return;
        };
        let (name, before) = (node.queue, std::mem::replace(&mut node.units, units));
        let queue = self.queue_mut(name);
        queue.units = queue.units - before as usize + units as usize;
    }

    /// Clears the ghost and gives back the memory of an order without members.
    pub(crate) fn clear(&mut self) {
        assert!(self.small.count + self.main.count == 0, "members are taken out before");
        self.nodes = Vec::new();
        self.ghost = Ghost::default();
    }

    /// Removes and returns the next victim, or `None` if there are no members.
    pub(crate) fn evict(&mut self, members: &mut (impl Members + ?Sized)) -> Option<u32> {
        loop {
            let from_small =
                self.small.count > 0 && (self.small.units > self.small_units_max || self.main.count == 0);
            let id = if from_small { self.small.oldest } else { self.main.oldest };
            self.nodes.get(id as usize)?;
            self.unlink(id);
            match members.hits_mut(id) {
                Some(hits) if from_small && hits.0 > 1 => *hits = Hits(0),
                Some(hits) if !from_small && hits.0 > 0 => hits.0 -= 1,
                _ => {
                    if from_small {
                        self.ghost.remember(members.hash(id));
                    }
                    // The ghost has at most as many entries as there are members, so it shrinks
                    // with them.
                    self.ghost.trim(self.small.count + self.main.count);
                    return Some(id);
                }
            }
            self.link(id, QueueName::Main);
        }
    }

    #[expect(clippy::expect_used, reason = "the nodes are as many as the highest member's number")]
    fn node_mut(&mut self, id: u32) -> &mut QueueNode {
        self.nodes.get_mut(id as usize).expect("each member has a node")
    }

    fn queue_mut(&mut self, name: QueueName) -> &mut NodeQueue {
        if name == QueueName::Small { &mut self.small } else { &mut self.main }
    }

    fn link(&mut self, id: u32, name: QueueName) {
        let newest = self.queue_mut(name).newest;
        let node = self.node_mut(id);
        node.queue = name;
        node.newer = NONE;
        node.older = newest;
        let units = node.units as usize;
        if newest != NONE {
            self.node_mut(newest).newer = id;
        }
        let queue = self.queue_mut(name);
        if queue.oldest == NONE {
            queue.oldest = id;
        }
        queue.newest = id;
        queue.count += 1;
        queue.units += units;
    }

    fn unlink(&mut self, id: u32) {
        let Some(node) = self.nodes.get_mut(id as usize).filter(|node| node.queue != QueueName::Free) else {
            return;
        };
        let QueueNode { queue: name, newer, older, units, .. } = *node;
        node.queue = QueueName::Free;
        if newer != NONE {
            self.node_mut(newer).older = older;
        }
        if older != NONE {
            self.node_mut(older).newer = newer;
        }
        let queue = self.queue_mut(name);
        if queue.newest == id {
            queue.newest = older;
        }
        if queue.oldest == id {
            queue.oldest = newer;
        }
        queue.count -= 1;
        queue.units -= units as usize;
    }
}

/// Hashes of objects that were evicted from the small queue recently.
#[derive(Debug, Default)]
struct Ghost {
    /// Oldest first. The entry of a hash that came back stays here until its turn, but the hash is
    /// no longer in `known`.
    order: VecDeque<u64>,
    known: HashSet<u64, PrehashedState>,
}

impl Ghost {
    fn remember(&mut self, hash: u64) {
        if self.known.insert(hash) {
            self.order.push_back(hash);
        }
    }

    /// Forgets `hash` and returns whether it was remembered.
    fn forget(&mut self, hash: u64) -> bool {
        self.known.remove(&hash)
    }

    fn trim(&mut self, entries_max: usize) {
        while self.order.len() > entries_max {
            let Some(oldest) = self.order.pop_front() else { break };
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GHOST_ENTRY_BYTES, HITS_MAX, Hits, Members, S3Fifo, SMALL_PART, UNIT_BYTES};
    use proptest::prelude::*;
    use std::collections::{HashMap, VecDeque};

    /// The hits by member. A member's hash is its number.
    impl Members for HashMap<u32, Hits> {
        fn hash(&self, id: u32) -> u64 {
            u64::from(id)
        }

        fn hits_mut(&mut self, id: u32) -> Option<&mut Hits> {
            self.get_mut(&id)
        }
    }

    /// The algorithm of the paper on plain queues, oldest first, that are searched linearly.
    #[derive(Default)]
    struct PlainS3Fifo {
        bytes_max: usize,
        small: VecDeque<Member>,
        main: VecDeque<Member>,
        ghost: VecDeque<(u64, bool)>,
    }

    #[derive(Clone, Copy)]
    struct Member {
        id: u32,
        hash: u64,
        weight: usize,
        hits: u8,
    }

    impl PlainS3Fifo {
        fn insert(&mut self, id: u32, hash: u64, weight: usize) {
            let weight = weight.next_multiple_of(UNIT_BYTES);
            let member = Member { id, hash, weight, hits: 0 };
            match self.ghost.iter_mut().find(|(known, valid)| *known == hash && *valid) {
                Some((_, valid)) => {
                    *valid = false;
                    self.main.push_back(member);
                }
                None => self.small.push_back(member),
            }
        }

        fn touch(&mut self, id: u32) {
            let members = self.small.iter_mut().chain(&mut self.main);
            members
                .filter(|member| member.id == id)
                .for_each(|member| member.hits = (member.hits + 1).min(HITS_MAX));
        }

        fn remove(&mut self, id: u32) {
            self.small.retain(|member| member.id != id);
            self.main.retain(|member| member.id != id);
        }

        fn evict(&mut self) -> Option<u32> {
            loop {
                let small_bytes: usize = self.small.iter().map(|member| member.weight).sum();
                let from_small = !self.small.is_empty()
                    && (small_bytes > self.bytes_max / SMALL_PART || self.main.is_empty());
                let mut member = if from_small { self.small.pop_front() } else { self.main.pop_front() }?;
                if from_small && member.hits > 1 {
                    member.hits = 0;
                    self.main.push_back(member);
                } else if !from_small && member.hits > 0 {
                    member.hits -= 1;
                    self.main.push_back(member);
                } else {
                    if from_small && !self.ghost.contains(&(member.hash, true)) {
                        self.ghost.push_back((member.hash, true));
                    }
                    while self.ghost.len() > self.small.len() + self.main.len() {
                        let (hash, _) = self.ghost.pop_front()?;
                        // A hash that came back and was evicted again shares the older entry, so
                        // both end together.
                        self.ghost
                            .iter_mut()
                            .filter(|(known, _)| *known == hash)
                            .for_each(|(_, valid)| *valid = false);
                    }
                    return Some(member.id);
                }
            }
        }

        fn bytes(&self) -> usize {
            let members: usize = self.small.iter().chain(&self.main).map(|member| member.weight).sum();
            members + self.ghost.len() * GHOST_ENTRY_BYTES
        }

        fn ids(&self) -> Vec<u32> {
            self.small.iter().chain(&self.main).map(|member| member.id).collect()
        }
    }

    proptest! {
        #[test]
        fn order_and_bytes_agree_with_the_model(
            steps in prop::collection::vec((0u8..5, 0u32..12, 1usize..40 * UNIT_BYTES), 0..200),
        ) {
            let bytes_max = 200 * UNIT_BYTES;
            let mut model = PlainS3Fifo { bytes_max, ..PlainS3Fifo::default() };
            let mut order = S3Fifo::new(bytes_max);
            let mut hits = HashMap::new();
            for (step, id, weight) in steps {
                let is_member = model.ids().contains(&id);
                match step {
                    // Hashes come back over time, as those of cache keys do.
                    0 | 1 if !is_member => {
                        model.insert(id, u64::from(id), weight);
                        order.insert(id, u64::from(id), weight);
                        hits.insert(id, Hits::default());
                    }
                    2 if is_member => {
                        model.remove(id);
                        order.remove(id);
                    }
                    3 if is_member => {
                        model.touch(id);
                        hits.entry(id).or_default().count();
                    }
                    4 => prop_assert_eq!(order.evict(&mut hits), model.evict()),
                    _ => {}
                }
                prop_assert_eq!(order.bytes(), model.bytes());
            }
        }
    }

    #[test]
    fn scan_does_not_evict_popular_members() {
        let mut order = S3Fifo::new(1_000);
        let mut evicted = Vec::new();
        let mut hits: HashMap<u32, Hits> = (0..500).map(|id| (id, Hits::default())).collect();
        let mut make_room = |order: &mut S3Fifo, hits: &mut HashMap<u32, Hits>| {
            while order.bytes() > 1_000 {
                evicted.push(order.evict(hits).unwrap());
            }
        };
        for id in 0..5 {
            order.insert(id, u64::from(id), 50);
            (0..2).for_each(|_| hits.entry(id).or_default().count());
        }
        for id in 5..500 {
            order.insert(id, u64::from(id), 50);
            make_room(&mut order, &mut hits);
        }
        assert!(evicted.len() > 400);
        assert!(evicted.iter().all(|id| *id >= 5));
    }
}
