//! A directory of the disk tier that this process does not have open: what it must record there so
//! that no later process trusts pages that were purged meanwhile.
//!
//! Invariant: the state can be read while a thread waits for the disk.

use disk::{OffReason, TierSettings};
use platform::Disk;
use std::sync::{Arc, PoisonError};
use threads::{Condvar, Mutex, MutexGuard};

/// A directory that this process does not have open, although a later process may open it with what
/// an earlier one left in it.
///
/// The lock is never held while a file is written, because the sweeper and the metrics read the
/// state.
pub(crate) struct UnopenedDirectory {
    disk: Arc<dyn Disk>,
    settings: TierSettings,
    state: Mutex<DistrustState>,
    /// Notified at the end of each write.
    written: Condvar,
}

/// Whether a later process may use the contents of a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DistrustState {
    /// It may: nothing was purged.
    NotDue,
    /// It must not, and no record says so yet.
    Due,
    /// It must not, and a thread is recording that.
    Writing,
    Recorded,
}

impl UnopenedDirectory {
    /// A directory whose contents a later process may use.
    pub(crate) const fn of(disk: Arc<dyn Disk>, settings: TierSettings) -> Self {
        Self { disk, settings, state: Mutex::new(DistrustState::NotDue), written: Condvar::new() }
    }

    pub(crate) fn state(&self) -> DistrustState {
        *lock(&self.state)
    }

    /// Whether a purge has not been recorded yet.
    pub(crate) fn is_due(&self) -> bool {
        matches!(self.state(), DistrustState::Due | DistrustState::Writing)
    }

    /// Notes a purge that a later process would not know.
    pub(crate) fn note_purge(&self) {
        let mut state = lock(&self.state);
        if *state == DistrustState::NotDue {
            *state = DistrustState::Due;
        }
    }

    /// Forgets what is due and what is recorded, because another process opens the directory.
    pub(crate) fn forget(&self) {
        *lock(&self.state) = DistrustState::NotDue;
    }

    /// Records the distrust, or waits for the thread that is recording it, at most for the disk
    /// timeout.
    pub(crate) fn distrust(&self) -> Result<(), OffReason> {
        let is_writing = |state: &mut DistrustState| *state == DistrustState::Writing;
        let waited = self.written.wait_timeout_while(lock(&self.state), self.settings.timeout, is_writing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match *state {
            DistrustState::Recorded => return Ok(()),
            DistrustState::Writing => return Err(OffReason::Hung),
            DistrustState::NotDue | DistrustState::Due => *state = DistrustState::Writing,
        }
        drop(state);
        let outcome = disk::distrust(&*self.disk, &self.settings);
        *lock(&self.state) = if outcome.is_ok() { DistrustState::Recorded } else { DistrustState::Due };
        self.written.notify_all();
        let operation = "record in the state directory that the disk cache is out of date";
        outcome.map_err(|error| OffReason::Io { operation, kind: error.kind() })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{DistrustState, UnopenedDirectory};
    use disk::{OffReason, TierSettings};
    use platform::{HangingDisk, SystemDisk};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn state_is_read_while_the_state_directory_hangs() {
        let directory = tempfile::tempdir().unwrap();
        let disk = HangingDisk::new(SystemDisk);
        let settings = TierSettings {
            directory: directory.path().join("disk"),
            state_directory: Some(directory.path().join("state")),
            timeout: Duration::from_millis(1),
            ..TierSettings::default()
        };
        let unopened = Arc::new(UnopenedDirectory::of(Arc::new(disk.clone()), settings));
        disk.freeze();
        let writer = std::thread::spawn({
            let unopened = Arc::clone(&unopened);
            move || unopened.distrust()
        });
        disk.await_waiting(1);
        let (told, heard) = std::sync::mpsc::channel();
        let reader = std::thread::spawn({
            let unopened = Arc::clone(&unopened);
            move || told.send((unopened.is_due(), unopened.distrust()))
        });
        let read = heard.recv_timeout(testkit::PATIENCE);
        disk.thaw();
        assert_eq!(read, Ok((true, Err(OffReason::Hung))), "the state can be read, and the wait has an end");
        assert_eq!(writer.join().unwrap(), Ok(()));
        assert!(reader.join().is_ok() && unopened.state() == DistrustState::Recorded);
    }
}
