//! Limits the number of different URLs with unknown query parameters that are fetched from a site's
//! origin.
//!
//! Invariants: within any minute, at most the limit of different URLs is admitted for one path, and
//! [`PATHS_AT_LIMIT`] times as many for the site. A URL counts once until its minute is over.
//! The same limit bounds the memory. `semantics` decides which parameters are unknown. Hits are
//! never counted.

use crate::memory::sync::{Mutex, PoisonError};
use clock::Monotonic;
use platform::{HashKeys, HashMap, HashSet};
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::time::Duration;
use store::Key;

/// The period of `unknown_parameters_per_minute`.
const MINUTE: Duration = Duration::from_secs(60);

/// Number of paths of a site that may be at their limit at the same time.
const PATHS_AT_LIMIT: usize = 10;

/// The URLs of a site that were admitted within the last minute.
#[derive(Debug, Default)]
pub(crate) struct ParameterFlood {
    window: Mutex<Window>,
    hasher: HashKeys,
}

/// Paths and URLs are kept as randomly keyed hashes. Two that collide count as one.
#[derive(Debug, Default)]
struct Window {
    /// The admitted URLs, oldest first.
    admitted: VecDeque<AdmittedUrl>,
    addresses: HashSet<u64>,
    /// Admission times of each path's URLs, oldest first.
    paths: HashMap<u64, VecDeque<Monotonic>>,
}

#[derive(Debug)]
struct AdmittedUrl {
    at: Monotonic,
    path: u64,
    address: u64,
}

impl ParameterFlood {
    /// Admits a URL.
    ///
    /// # Errors
    /// If a limit is reached: the time until this URL can be admitted.
    pub(crate) fn admit(&self, key: &Key, per_minute: usize, now: Monotonic) -> Result<(), Duration> {
        let target = key.target();
        let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
        let (path, address) = (self.hasher.hash_one(path), self.hasher.hash_one(key));
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.admit(AdmittedUrl { at: now, path, address }, per_minute)
    }
}

impl Window {
    fn admit(&mut self, new: AdmittedUrl, per_minute: usize) -> Result<(), Duration> {
        self.forget(new.at);
        if self.addresses.contains(&new.address) {
            return Ok(());
        }
        let of_path = self.paths.get(&new.path).filter(|times| times.len() >= per_minute);
        let of_site = &self.admitted;
        let of_site = (of_site.len() >= per_minute.saturating_mul(PATHS_AT_LIMIT)).then_some(of_site);
        if of_path.is_some() || of_site.is_some() {
            // The path's oldest URL is never older than the site's, so if both limits are reached,
            // it decides. With a limit of zero there is none.
            let oldest = of_path.and_then(|times| times.front().copied());
            let oldest = oldest.or_else(|| of_site?.front().map(|oldest| oldest.at));
            let age = oldest.map_or(Duration::ZERO, |oldest| new.at.since(oldest));
            return Err(MINUTE.saturating_sub(age));
        }
        self.addresses.insert(new.address);
        self.paths.entry(new.path).or_default().push_back(new.at);
        self.admitted.push_back(new);
        Ok(())
    }

    /// Removes the URLs whose minute is over.
    fn forget(&mut self, now: Monotonic) {
        while let Some(oldest) = self.admitted.front().filter(|oldest| now.since(oldest.at) >= MINUTE) {
            self.addresses.remove(&oldest.address);
            if let Some(times) = self.paths.get_mut(&oldest.path) {
                times.pop_front();
                if times.is_empty() {
                    self.paths.remove(&oldest.path);
                }
            }
            self.admitted.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AdmittedUrl, PATHS_AT_LIMIT, Window};
    use clock::Monotonic;
    use std::time::Duration;

    fn admits(window: &mut Window, secs: u64, path: u64, address: u64) -> bool {
        let at = Monotonic::from_nanos(secs * 1_000_000_000);
        window.admit(AdmittedUrl { at, path, address }, 3).is_ok()
    }

    #[test]
    fn limit_counts_different_addresses_of_a_path_in_a_minute() {
        let mut window = Window::default();
        let admitted = (0..10).filter(|address| admits(&mut window, 0, 1, *address)).count();
        assert_eq!(admitted, 3);
        assert!(admits(&mut window, 1, 1, 2), "an address that was admitted is free");
        assert!(admits(&mut window, 30, 2, 100), "another path");
        assert!(!admits(&mut window, 59, 1, 4));
        assert!(admits(&mut window, 60, 1, 4), "after a minute");
    }

    #[test]
    fn refused_address_waits_for_the_oldest_of_its_path() {
        let mut window = Window::default();
        assert!(admits(&mut window, 0, 1, 1), "an older address of another path");
        (30..33).for_each(|secs| assert!(admits(&mut window, secs, 2, secs)));
        let at = Monotonic::from_nanos(40_000_000_000);
        let refused = window.admit(AdmittedUrl { at, path: 2, address: 99 }, 3);
        assert_eq!(refused, Err(Duration::from_secs(50)));
        assert!(!admits(&mut window, 89, 2, 99) && admits(&mut window, 90, 2, 99));
    }

    #[test]
    fn limit_of_the_site_bounds_the_memory() {
        let mut window = Window::default();
        let admitted = (0..1000).filter(|path| admits(&mut window, 0, *path, *path)).count();
        assert_eq!(admitted, 3 * PATHS_AT_LIMIT);
        assert_eq!((window.admitted.len(), window.addresses.len(), window.paths.len()), (30, 30, 30));
        let at = Monotonic::from_nanos(20_000_000_000);
        let refused = window.admit(AdmittedUrl { at, path: 5000, address: 5000 }, 3);
        assert_eq!(refused, Err(Duration::from_secs(40)));
        assert!(admits(&mut window, 60, 1, 1));
        assert_eq!((window.admitted.len(), window.addresses.len(), window.paths.len()), (1, 1, 1));
    }
}
