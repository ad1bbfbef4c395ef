//! The heaviest of many keys in bounded memory: the space-saving algorithm.
//!
//! Invariants: a key whose weight is more than the total divided by the number of entries is
//! among them. The value of a key counts from the time when it last came in, so it is never too
//! large; only the rank, which decides who leaves, may be.

use platform::HashMap;
use std::hash::Hash;

/// The heaviest keys, each with a value.
#[derive(Debug)]
pub(crate) struct Top<K, V> {
    entries: HashMap<K, Entry<V>>,
    entries_max: usize,
}

#[derive(Debug, Default)]
struct Entry<V> {
    rank: f64,
    value: V,
}

impl<K: Clone + Eq + Hash, V: Default> Top<K, V> {
    /// No keys yet, at most `entries_max` later.
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { entries: HashMap::default(), entries_max }
    }

    /// Adds to the rank of a key. Returns its value, which the caller changes, and the value of the
    /// key that left.
    pub(crate) fn add(&mut self, key: K, weight: f64) -> (&mut V, Option<V>) {
        let (mut rank, mut left) = (weight, None);
        if self.entries.len() >= self.entries_max && !self.entries.contains_key(&key) {
            let least = self.entries.iter().min_by(|(_, one), (_, other)| one.rank.total_cmp(&other.rank));
            if let Some(entry) = least.map(|(key, _)| key.clone()).and_then(|key| self.entries.remove(&key)) {
                rank += entry.rank;
                left = Some(entry.value);
            }
        }
        let entry = self.entries.entry(key).or_default();
        entry.rank += rank;
        (&mut entry.value, left)
    }

    /// Multiplies the ranks by `left`; `fade` does the same to a value.
    pub(crate) fn fade(&mut self, left: f64, fade: impl Fn(&mut V)) {
        for entry in self.entries.values_mut() {
            entry.rank *= left;
            fade(&mut entry.value);
        }
    }

    /// The keys with their values, in any order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.value))
    }
}

#[cfg(test)]
mod tests {
    use super::Top;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// Compares with a table of all keys.
        #[test]
        fn heavy_keys_stay_and_no_value_is_too_large(
            added in prop::collection::vec((0_usize..40, 1_u32..10), 0..300),
            entries_max in 1_usize..20,
        ) {
            let (mut top, mut all, mut gone) = (Top::<usize, u32>::new(entries_max), HashMap::new(), 0);
            for (key, weight) in added {
                let (value, left) = top.add(key, f64::from(weight));
                *value += weight;
                gone += left.unwrap_or(0);
                *all.entry(key).or_insert(0) += weight;
            }
            let total: u32 = all.values().sum();
            let kept: HashMap<usize, u32> = top.iter().map(|(key, value)| (*key, *value)).collect();
            prop_assert!(kept.len() <= entries_max);
            prop_assert_eq!(kept.values().sum::<u32>() + gone, total, "nothing is lost or counted twice");
            prop_assert!(kept.iter().all(|(key, value)| *value <= all[key]));
            let heavy = all.iter().filter(|(_, weight)| **weight as usize * entries_max > total as usize);
            for (key, _) in heavy {
                prop_assert!(kept.contains_key(key), "{}", key);
            }
        }
    }

    #[test]
    fn faded_key_makes_room_for_a_new_one() {
        let mut top = Top::<&str, f64>::new(2);
        *top.add("old", 10.0).0 += 10.0;
        top.fade(0.1, |value| *value *= 0.1);
        *top.add("new", 3.0).0 += 3.0;
        assert_eq!(top.add("next", 1.0).1, Some(1.0));
        assert!(top.iter().all(|(key, _)| *key != "old"));
    }
}
