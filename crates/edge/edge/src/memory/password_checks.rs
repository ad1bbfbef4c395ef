//! Checks of passwords, which are slow on purpose, and their results.
//!
//! Invariants: at most [`CHECKS_MAX`] processors check at the same time, and a flood of guesses
//! keeps no user out whose password was checked before. No password is stored: a result is found by
//! a digest with a random key.

use crate::upkeep::disk_threads::DiskThreads;
use passwords::{Credentials, PasswordFile};
use platform::HashSet;
use sha2::{Digest, Sha256};
use std::sync::{Arc, PoisonError};
use threads::{Mutex, MutexGuard};
use tokio::sync::Semaphore;

/// Maximum number of checks at the same time.
pub(crate) const CHECKS_MAX: usize = 2;

/// Maximum number of requests that wait for a check, with those that are checked.
const WAITING_MAX: usize = 64;

/// Maximum number of stored results of each kind. All are dropped when there are more.
const RESULTS_MAX: usize = 1024;

/// The digest of credentials, of their file and of the key of the process.
type ResultKey = [u8; 32];

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasswordResult {
    /// The password is that of the user.
    Right,
    /// It is not, or there is no such user.
    Wrong,
    /// Too many requests wait for a check.
    Busy,
}

/// The checks of all workers.
#[derive(Debug)]
pub(crate) struct PasswordChecks {
    threads: DiskThreads,
    turns: Semaphore,
    waiting: Semaphore,
    results: Mutex<Results>,
    /// The key of the digests.
    key: u64,
}

#[derive(Debug, Default)]
struct Results {
    right: HashSet<ResultKey>,
    wrong: HashSet<ResultKey>,
}

impl PasswordChecks {
    /// Checks on these threads. `key` is random.
    pub(crate) fn new(threads: DiskThreads, key: u64) -> Self {
        Self {
            threads,
            turns: Semaphore::new(CHECKS_MAX),
            waiting: Semaphore::new(WAITING_MAX),
            results: Mutex::default(),
            key,
        }
    }

    /// Whether `credentials` are those of a user of `file`.
    pub(crate) async fn check(&self, file: &Arc<PasswordFile>, credentials: Credentials) -> PasswordResult {
        let key = self.key_of(file, &credentials);
        if let Some(known) = self.results().get(&key) {
            return known;
        }
        let Ok(_waiting) = self.waiting.try_acquire() else { return PasswordResult::Busy };
        let Ok(_turn) = self.turns.acquire().await else { return PasswordResult::Busy };
        // A browser sends several requests with its first password. One of them was checked.
        if let Some(known) = self.results().get(&key) {
            return known;
        }
        let file = Arc::clone(file);
        let checked = self.threads.begin(move || file.admits(&credentials)).await;
        let Ok(is_right) = checked else { return PasswordResult::Busy };
        self.results().add(key, is_right)
    }

    fn key_of(&self, file: &PasswordFile, credentials: &Credentials) -> ResultKey {
        let mut digest = Sha256::new_with_prefix(self.key.to_le_bytes());
        digest.update(file.digest());
        // The length separates the user's name from the password.
        digest.update(credentials.user().len().to_le_bytes());
        digest.update(credentials.user());
        digest.update(credentials.password());
        digest.finalize().into()
    }

    fn results(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Results {
    fn get(&self, key: &ResultKey) -> Option<PasswordResult> {
        if self.right.contains(key) {
            return Some(PasswordResult::Right);
        }
        self.wrong.contains(key).then_some(PasswordResult::Wrong)
    }

    fn add(&mut self, key: ResultKey, is_right: bool) -> PasswordResult {
        let (set, result) = match is_right {
            true => (&mut self.right, PasswordResult::Right),
            false => (&mut self.wrong, PasswordResult::Wrong),
        };
        if set.len() == RESULTS_MAX {
            set.clear();
        }
        set.insert(key);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::{PasswordChecks, PasswordResult, RESULTS_MAX, Results, WAITING_MAX};
    use crate::upkeep::disk_threads::DiskThreads;
    use passwords::{Credentials, PasswordFile};
    use std::sync::Arc;

    fn file(text: &str) -> Arc<PasswordFile> {
        Arc::new(PasswordFile::parse(text).unwrap())
    }

    /// Of `secret`.
    const ANN: &str = "ann:$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.";

    fn right() -> Credentials {
        Credentials::read(b"Basic YW5uOnNlY3JldA==").unwrap()
    }

    fn wrong() -> Credentials {
        Credentials::read(b"Basic YW5uOng=").unwrap()
    }

    #[tokio::test]
    async fn result_is_for_one_file_and_one_password() {
        let checks = PasswordChecks::new(DiskThreads::default(), 7);
        for _ in 0..2 {
            assert_eq!(checks.check(&file(ANN), right()).await, PasswordResult::Right);
            assert_eq!(checks.check(&file(ANN), wrong()).await, PasswordResult::Wrong);
        }
        let other = ANN.replace("ann", "bob");
        assert_eq!(checks.check(&file(&other), right()).await, PasswordResult::Wrong);
        let results = checks.results();
        assert_eq!((results.right.len(), results.wrong.len()), (1, 2));
    }

    #[tokio::test]
    async fn known_user_does_not_wait_behind_guesses() {
        let checks = PasswordChecks::new(DiskThreads::default(), 7);
        assert_eq!(checks.check(&file(ANN), right()).await, PasswordResult::Right);
        let _waiting = checks.waiting.try_acquire_many(u32::try_from(WAITING_MAX).unwrap()).unwrap();
        assert_eq!(checks.check(&file(ANN), wrong()).await, PasswordResult::Busy);
        assert_eq!(checks.check(&file(ANN), right()).await, PasswordResult::Right);
    }

    #[test]
    fn number_of_results_is_bounded_and_guesses_drop_no_user() {
        let mut results = Results::default();
        results.add([255; 32], true);
        for number in 0..=RESULTS_MAX {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&number.to_le_bytes());
            assert_eq!(results.add(key, false), PasswordResult::Wrong);
            assert_eq!(results.get(&key), Some(PasswordResult::Wrong));
        }
        assert_eq!((results.right.len(), results.wrong.len()), (1, 1));
    }
}
