//! A bounded table of the results for paths.
//!
//! Invariant: entries, bytes and descriptors are at most the limits. A value that was used since
//! the last round stays for another one; the others leave in the order of their arrival (second
//! chance). The queue has exactly the keys of the table.

use clock::Monotonic;
use platform::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The memory of an entry besides its key and content, in bytes: head, tables, queue.
const ENTRY_BYTES: usize = 1024;

/// The cost of an entry, or the limit of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) entries: usize,
    pub(crate) bytes: usize,
    pub(crate) descriptors: usize,
}

impl Cost {
    /// The cost of one entry.
    pub(crate) const fn of(key: &[u8], content_bytes: usize, descriptors: usize) -> Self {
        Self { entries: 1, bytes: ENTRY_BYTES + key.len() + content_bytes, descriptors }
    }

    const fn exceeds(self, limit: Self) -> bool {
        self.entries > limit.entries || self.bytes > limit.bytes || self.descriptors > limit.descriptors
    }

    const fn plus(self, other: Self) -> Self {
        Self {
            entries: self.entries + other.entries,
            bytes: self.bytes + other.bytes,
            descriptors: self.descriptors + other.descriptors,
        }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            entries: self.entries - other.entries,
            bytes: self.bytes - other.bytes,
            descriptors: self.descriptors - other.descriptors,
        }
    }
}

/// A bounded table.
#[derive(Debug)]
pub(crate) struct Table<V> {
    slots: HashMap<Arc<[u8]>, Slot<V>>,
    queue: VecDeque<Arc<[u8]>>,
    cost: Cost,
    limit: Cost,
}

#[derive(Debug)]
struct Slot<V> {
    value: V,
    cost: Cost,
    checked: Monotonic,
    was_used: bool,
}

impl<V> Table<V> {
    pub(crate) fn new(limit: Cost) -> Self {
        Self { slots: HashMap::default(), queue: VecDeque::new(), cost: Cost::default(), limit }
    }

    /// The value of a key, and when it was checked.
    pub(crate) fn get(&mut self, key: &[u8]) -> Option<(&V, Monotonic)> {
        let slot = self.slots.get_mut(key)?;
        slot.was_used = true;
        Some((&slot.value, slot.checked))
    }

    /// Stores a value. If it alone exceeds a limit, it is not stored.
    #[must_use = "what leaves the table is dropped outside of its lock"]
    pub(crate) fn insert(&mut self, key: &[u8], value: V, cost: Cost, checked: Monotonic) -> Vec<V> {
        let mut out: Vec<V> = self.remove(key).into_iter().collect();
        if cost.exceeds(self.limit) {
            out.push(value);
            return out;
        }
        while self.cost.plus(cost).exceeds(self.limit)
            && let Some(oldest) = self.queue.pop_front()
        {
            if let Some(slot) = self.slots.get_mut(&oldest).filter(|slot| slot.was_used) {
                slot.was_used = false;
                self.queue.push_back(oldest);
            } else {
                out.extend(self.take(&oldest));
            }
        }
        let key: Arc<[u8]> = key.into();
        self.queue.push_back(Arc::clone(&key));
        self.slots.insert(key, Slot { value, cost, checked, was_used: false });
        self.cost = self.cost.plus(cost);
        out
    }

    /// Removes a key. Takes time in proportion to the table, so it is for rare cases.
    #[must_use = "what leaves the table is dropped outside of its lock"]
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<V> {
        let value = self.take(key)?;
        self.queue.retain(|queued| **queued != *key);
        Some(value)
    }

    /// Removes values that have not been checked for longer than `idle`.
    #[must_use = "what leaves the table is dropped outside of its lock"]
    pub(crate) fn sweep(&mut self, now: Monotonic, idle: Duration) -> Vec<V> {
        let Self { slots, queue, .. } = self;
        let is_idle = |key: &Arc<[u8]>| slots.get(key).is_none_or(|slot| now.since(slot.checked) > idle);
        let (leaving, staying): (Vec<_>, VecDeque<_>) = {
            let mut leaving = Vec::new();
            let mut staying = VecDeque::with_capacity(queue.len());
            for key in queue.drain(..) {
                if is_idle(&key) { leaving.push(key) } else { staying.push_back(key) }
            }
            (leaving, staying)
        };
        self.queue = staying;
        leaving.iter().filter_map(|key| self.take(key)).collect()
    }

    /// Takes a key out of the table, but not of the queue.
    fn take(&mut self, key: &[u8]) -> Option<V> {
        let slot = self.slots.remove(key)?;
        self.cost = self.cost.minus(slot.cost);
        Some(slot.value)
    }
}

#[cfg(test)]
mod tests {
    use super::{Cost, ENTRY_BYTES, Table};
    use clock::Monotonic;
    use std::time::Duration;

    const NOW: Monotonic = Monotonic::from_nanos(0);

    fn table(entries: usize) -> Table<usize> {
        Table::new(Cost { entries, bytes: usize::MAX, descriptors: 3 })
    }

    fn insert(table: &mut Table<usize>, key: usize, descriptors: usize) -> Vec<usize> {
        let name = key.to_string();
        table.insert(name.as_bytes(), key, Cost::of(name.as_bytes(), 0, descriptors), NOW)
    }

    fn has(table: &Table<usize>, key: usize) -> bool {
        table.slots.contains_key(key.to_string().as_bytes())
    }

    #[test]
    fn unused_entries_leave_first() {
        let mut table = table(3);
        for key in 0..3 {
            assert_eq!(insert(&mut table, key, 0), []);
        }
        assert_eq!(table.get(b"0"), Some((&0, NOW)));
        assert_eq!(insert(&mut table, 3, 0), [1]);
        assert_eq!(insert(&mut table, 4, 0), [2]);
        // Its second chance is over.
        assert_eq!(insert(&mut table, 5, 0), [0]);
        assert!([3, 4, 5].into_iter().all(|key| has(&table, key)));
        assert_eq!(table.queue.len(), 3);
    }

    #[test]
    fn each_limit_holds() {
        let mut table = table(100);
        for key in 0..3 {
            assert_eq!(insert(&mut table, key, 1), []);
        }
        assert_eq!(insert(&mut table, 3, 2), [0, 1]);
        // Too much by itself.
        assert_eq!(insert(&mut table, 4, 4), [4]);
        assert_eq!(table.cost.descriptors, 3);
        let mut small = Table::new(Cost { entries: 9, bytes: 2 * ENTRY_BYTES + 2, descriptors: 0 });
        assert_eq!(insert(&mut small, 1, 0), []);
        assert_eq!(insert(&mut small, 2, 0), []);
        assert_eq!(insert(&mut small, 3, 0), [1]);
    }

    #[test]
    fn a_key_has_one_value() {
        let mut table = table(3);
        assert_eq!(insert(&mut table, 1, 1), []);
        assert_eq!(insert(&mut table, 1, 2), [1]);
        assert_eq!((table.cost.entries, table.cost.descriptors, table.queue.len()), (1, 2, 1));
        assert_eq!(table.remove(b"1"), Some(1));
        assert_eq!(table.remove(b"1"), None);
        assert_eq!((table.cost, table.queue.len()), (Cost::default(), 0));
    }

    #[test]
    fn idle_entries_are_swept() {
        let mut table = table(3);
        let later = NOW.plus(Duration::from_secs(5));
        assert_eq!(insert(&mut table, 1, 1), []);
        assert_eq!(table.insert(b"2", 2, Cost::of(b"2", 0, 1), later), []);
        let idle = Duration::from_secs(10);
        assert_eq!(table.sweep(later, idle), []);
        assert_eq!(table.sweep(NOW.plus(Duration::from_secs(12)), idle), [1]);
        assert!(has(&table, 2) && !has(&table, 1));
        assert_eq!((table.queue.len(), table.cost.descriptors), (1, 1));
    }
}
