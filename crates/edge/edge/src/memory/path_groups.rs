//! How many requests of a site go to which part of it, by the first segment of their path.
//!
//! Invariants: the first [`EXACT`] requests of a worker are all counted, then one in
//! [`SAMPLING`] with that weight, in random steps. The number of groups is bounded. What belongs to
//! none counts as [`OTHER`], so the sum over the groups is right.

use crate::memory::sync::{Mutex, MutexGuard, PoisonError};
use crate::memory::top::Top;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

/// Requests that are counted before the sampling begins.
const EXACT: u32 = 1024;

/// One request in this many is counted.
const SAMPLING: u32 = 16;

/// Maximum number of groups of a site and worker.
const GROUPS_MAX: usize = 32;

/// Longest name of a group in bytes.
const GROUP_BYTES_MAX: usize = 48;

/// The group of all other paths.
pub(crate) const OTHER: &str = "other";

/// The groups of one site and worker.
#[derive(Debug)]
pub(crate) struct PathGroups {
    /// Requests until the next one that is counted. Only the worker writes these numbers, so it
    /// needs no atomic change.
    pause: AtomicU32,
    counted: AtomicU32,
    groups: Mutex<Groups>,
}

#[derive(Debug)]
struct Groups {
    top: Top<Box<str>, GroupCounts>,
    others: GroupCounts,
}

/// Estimated requests of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupCounts {
    pub(crate) requests: u64,
    pub(crate) hits: u64,
}

impl GroupCounts {
    /// Adds the requests of `other`.
    pub(crate) const fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.hits += other.hits;
    }
}

impl Default for PathGroups {
    fn default() -> Self {
        let groups = Groups { top: Top::new(GROUPS_MAX), others: GroupCounts::default() };
        Self { pause: AtomicU32::new(0), counted: AtomicU32::new(0), groups: Mutex::new(groups) }
    }
}

impl PathGroups {
    /// Counts a request of this worker, if it is sampled.
    #[inline]
    pub(crate) fn note(&self, target: &[u8], is_hit: bool) {
        let pause = self.pause.load(Ordering::Relaxed);
        if pause > 0 {
            return self.pause.store(pause - 1, Ordering::Relaxed);
        }
        self.count(target, is_hit);
    }

    #[cold]
    fn count(&self, target: &[u8], is_hit: bool) {
        // A reading holds the lock for a moment. Then the next request is counted instead.
        let Ok(mut groups) = self.groups.try_lock() else { return };
        let counted = self.counted.load(Ordering::Relaxed);
        self.counted.store(counted.saturating_add(1), Ordering::Relaxed);
        let weight = if counted < EXACT { 1 } else { SAMPLING };
        if weight > 1 {
            // A multiplicative hash of the number: steps from 1 to 31 have the mean 16, and are in
            // step with no visit.
            let random = counted.wrapping_mul(0x9e37_79b1) >> 16;
            self.pause.store(random % (2 * SAMPLING - 1), Ordering::Relaxed);
        }
        let weight = u64::from(weight);
        let one = GroupCounts { requests: weight, hits: if is_hit { weight } else { 0 } };
        let Some(group) = group_of(target) else { return groups.others.add(one) };
        let (counts, left) = groups.top.add(group, weight as f64);
        counts.add(one);
        groups.others.add(left.unwrap_or_default());
    }

    /// Adds the groups to `sums`.
    pub(crate) fn read(&self, sums: &mut BTreeMap<Box<str>, GroupCounts>) {
        let groups = self.lock();
        for (group, counts) in groups.top.iter() {
            sums.entry(group.clone()).or_default().add(*counts);
        }
        if groups.others.requests > 0 {
            sums.entry(OTHER.into()).or_default().add(groups.others);
        }
    }

    /// Poison is ignored because no code that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first segment of the path with its slashes; `None` if it is long, or not printable ASCII.
fn group_of(target: &[u8]) -> Option<Box<str>> {
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let rest = path.strip_prefix(b"/")?;
    let segment = rest.iter().position(|byte| *byte == b'/').map_or(rest.len(), |slash| slash + 1);
    let group = path.get(..1 + segment).filter(|group| group.len() <= GROUP_BYTES_MAX)?;
    let is_printable = group.iter().all(u8::is_ascii_graphic);
    std::str::from_utf8(group).ok().filter(|_| is_printable).map(Box::from)
}

#[cfg(test)]
mod tests {
    use super::{EXACT, GROUPS_MAX, GroupCounts, OTHER, PathGroups, group_of};
    use std::collections::BTreeMap;

    fn read(groups: &PathGroups) -> BTreeMap<String, GroupCounts> {
        let mut sums = BTreeMap::new();
        groups.read(&mut sums);
        sums.into_iter().map(|(group, counts)| (group.into(), counts)).collect()
    }

    #[test]
    fn group_is_the_first_segment() {
        let group = |target: &str| group_of(target.as_bytes()).map(String::from);
        for (target, expected) in [
            ("/", "/"),
            ("/?a=/b", "/"),
            ("/shop/", "/shop/"),
            ("/shop/shoes?secret", "/shop/"),
            ("/about", "/about"),
            ("//", "//"),
        ] {
            assert_eq!(group(target).as_deref(), Some(expected), "{target}");
        }
        for none in ["*", "", "http://a.test/", "/ü/", "/\u{1b}[2J/", &format!("/{}/", "a".repeat(60))] {
            assert_eq!(group(none), None, "{none}");
        }
    }

    #[test]
    fn few_requests_are_counted_exactly_and_many_by_samples() {
        let groups = PathGroups::default();
        (0..EXACT).for_each(|number| groups.note(b"/a/1", number % 2 == 0));
        let exact = GroupCounts { requests: u64::from(EXACT), hits: u64::from(EXACT) / 2 };
        assert_eq!(read(&groups), BTreeMap::from([("/a/".to_owned(), exact)]));
        // Visits of ten requests each: every group must be sampled.
        for _ in 0..20_000 {
            (0..10).for_each(|number| groups.note(format!("/{number}/").as_bytes(), number == 0));
        }
        for (group, counts) in read(&groups).iter().filter(|(group, _)| *group != "/a/") {
            assert!((18_000..22_000).contains(&counts.requests), "{group} {counts:?}");
            assert_eq!(counts.hits, if group == "/0/" { counts.requests } else { 0 });
        }
    }

    #[test]
    fn flood_of_groups_is_bounded_and_spares_the_large_ones() {
        let groups = PathGroups::default();
        for number in 0..EXACT / 2 {
            groups.note(b"/shop/", true);
            groups.note(format!("/{number}/").as_bytes(), false);
        }
        let sums = read(&groups);
        assert_eq!(sums.len(), GROUPS_MAX + 1);
        assert_eq!(sums["/shop/"].requests, u64::from(EXACT) / 2);
        assert_eq!(sums.values().map(|counts| counts.requests).sum::<u64>(), u64::from(EXACT));
        assert!(sums[OTHER].requests > 400);
    }
}
