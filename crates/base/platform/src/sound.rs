//! Locks whose content must not be used after a panic.
//!
//! Invariant: no thread sees content that another thread left half changed. A panic ends only the
//! task or the thread that it happens in. Data locked by this thread may be half changed, and an
//! index in this state could return an invalidated response. So the process ends, its supervisor
//! starts it again, and the disk makes this start warm.

use crate::SystemClock;
use clock::Clock;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{LockResult, Once, OnceLock, mpsc};
use std::time::Duration;

/// The file in which the end of the process by [`sound`] is recorded.
static RECORD: OnceLock<PathBuf> = OnceLock::new();

/// How long the end waits for the disk of that file.
const RECORD_MAX: Duration = Duration::from_secs(1);

/// Records an end of the process by [`sound`] in this file: its time, in seconds since 1970, in a
/// separate line. Only the first call has an effect.
pub fn record_broken_invariants(file: PathBuf) {
    let _ = RECORD.set(file);
}

/// The guard of a lock. Ends the process if a thread panicked while it held the lock; the panic
/// hook has reported the cause by then.
pub fn sound<G>(locked: LockResult<G>) -> G {
    locked.unwrap_or_else(|_| end())
}

fn end() -> ! {
    // Several threads may meet the lock at once; the end counts once.
    static RECORDING: Once = Once::new();
    RECORDING.call_once(|| {
        let Some(file) = RECORD.get() else { return };
        let (done, is_done) = mpsc::channel();
        // On another thread, because a disk that hangs must not keep the process. Without a record
        // the process ends all the same.
        let recording = std::thread::Builder::new().spawn(move || done.send(record(file)));
        if recording.is_ok() {
            let _ = is_done.recv_timeout(RECORD_MAX);
        }
    });
    std::process::abort()
}

fn record(file: &Path) -> io::Result<()> {
    let seconds = SystemClock::new().now().as_secs();
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(format!("{seconds}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{record_broken_invariants, sound};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::sync::Mutex;

    const SIGABRT: i32 = 6;

    #[test]
    fn poisoned_lock_ends_the_process() {
        const IS_CHILD: &str = "PETASOS_TEST_POISONED_LOCK";
        if let Some(file) = std::env::var_os(IS_CHILD) {
            record_broken_invariants(file.into());
            let lock = Mutex::new(());
            let panicked = std::panic::catch_unwind(|| {
                let _guard = sound(lock.lock());
                panic!("intended by the test");
            });
            assert!(panicked.is_err());
            drop(sound(lock.lock()));
            return;
        }
        let name = "sound::tests::poisoned_lock_ends_the_process";
        let directory = tempfile::tempdir().unwrap();
        let record = directory.path().join("record");
        for ends in 1..=2 {
            let mut child = Command::new(std::env::current_exe().unwrap());
            let ended = child.args(["--exact", name]).env(IS_CHILD, &record).output().unwrap();
            assert_eq!(ended.status.signal(), Some(SIGABRT), "{ended:?}");
            let recorded = std::fs::read_to_string(&record).unwrap();
            assert_eq!(recorded.lines().filter_map(|line| line.parse::<u64>().ok()).count(), ends);
        }
    }
}
