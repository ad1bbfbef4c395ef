//! Locks whose content must not be used after a panic.
//!
//! Invariant: no thread sees content that another thread left half changed. A panic ends only the
//! task or the thread that it happens in. What such a thread has locked may be half changed, and an
//! index in this state could return an invalidated response. So the process ends, its supervisor
//! starts it again, and the disk makes this start warm.

use std::sync::LockResult;

/// The guard of a lock. Ends the process if a thread panicked while it held the lock; the panic
/// hook has reported the cause by then.
pub fn sound<G>(locked: LockResult<G>) -> G {
    locked.unwrap_or_else(|_| std::process::abort())
}

#[cfg(test)]
mod tests {
    use super::sound;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::sync::Mutex;

    const SIGABRT: i32 = 6;

    #[test]
    fn poisoned_lock_ends_the_process() {
        const IS_CHILD: &str = "PETASOS_TEST_POISONED_LOCK";
        if std::env::var_os(IS_CHILD).is_some() {
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
        let mut child = Command::new(std::env::current_exe().unwrap());
        let ended = child.args(["--exact", name]).env(IS_CHILD, "1").output().unwrap();
        assert_eq!(ended.status.signal(), Some(SIGABRT), "{ended:?}");
    }
}
