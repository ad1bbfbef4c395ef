//! The link to the process that takes over: it receives each invalidation of this one.
//!
//! Invariants: from [`Succession::begin`] on, [`Succession::confirm`] returns `Ok` only if the
//! other process has put every invalidation in force that was enlisted before. After an exchange
//! has failed, none succeeds any more.

use net::MessageChannel;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Invalidation, PENDING_INVALIDATIONS_MAX};
use threads::{Mutex, MutexGuard};

/// The message that asks whether all invalidations before it are durable.
pub(crate) const CONFIRM: &[u8] = b"";

/// The answers to [`CONFIRM`].
pub(crate) const DURABLE: &[u8] = b"durable";
pub(crate) const IN_FORCE: &[u8] = b"in force";

/// The new process's answer to [`CONFIRM`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirmation {
    /// Its next start knows all invalidations.
    Durable,
    /// They are in force, but a restart of the other process may undo them.
    InForce,
}

/// The link, once there is another process.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    has_begun: AtomicBool,
    /// The other process serves, so nothing else than the link can confirm.
    is_final: AtomicBool,
    /// An invalidation was sent through the link. Changed under the lock of `link`.
    has_passed: AtomicBool,
    /// Held during an exchange. Lock order: `link`, then `pending`.
    link: Mutex<Option<MessageChannel>>,
    pending: Mutex<Vec<Vec<u8>>>,
}

impl Succession {
    /// Passes on all later invalidations through `link`.
    pub(crate) fn begin(&self, link: MessageChannel) {
        let mut current = lock(&self.link);
        self.has_passed.store(false, Ordering::SeqCst);
        *current = Some(link);
        self.has_begun.store(true, Ordering::SeqCst);
    }

    /// Whether another process receives the invalidations, or has failed to.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::SeqCst)
    }

    /// Whether the other process serves.
    pub(crate) fn is_final(&self) -> bool {
        self.is_final.load(Ordering::SeqCst)
    }

    /// Ends the link: the other process has gone before it served. Calls `owe` if it may have known
    /// invalidations that the next start does not know.
    pub(crate) fn abandon(&self, owe: &dyn Fn()) {
        let mut link = lock(&self.link);
        *link = None;
        let pending = std::mem::take(&mut *lock(&self.pending));
        if !pending.is_empty() || self.has_passed.load(Ordering::SeqCst) {
            owe();
        }
    }

    /// Adds an invalidation, encoded by `encode`, to those that are to be passed on.
    pub(crate) fn enlist(&self, encode: impl Fn(&Invalidation) -> Vec<u8>, invalidation: &Invalidation) {
        if !self.has_begun() {
            return;
        }
        let octets = encode(invalidation);
        let mut pending = lock(&self.pending);
        pending.push(octets);
        if pending.len() > PENDING_INVALIDATIONS_MAX {
            *pending = vec![encode(&Invalidation::EVERYTHING)];
        }
    }

    /// Whether an invalidation was not passed on yet.
    pub(crate) fn is_behind(&self) -> bool {
        !lock(&self.pending).is_empty()
    }

    /// Passes on all enlisted invalidations, and waits until the other process has put them in
    /// force. Blocks. If that fails, `owe` is called before a link can begin again, unless nothing
    /// was passed on.
    ///
    /// # Errors
    /// If the other process is gone or has not answered in time, now or earlier.
    pub(crate) fn confirm(&self, owe: &dyn Fn()) -> io::Result<Confirmation> {
        let mut link = lock(&self.link);
        let pending = std::mem::take(&mut *lock(&self.pending));
        if !pending.is_empty() {
            self.has_passed.store(true, Ordering::SeqCst);
        }
        let outcome = match link.as_ref() {
            Some(channel) => exchange(channel, &pending),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        if outcome.is_err() {
            // The answer to this exchange could be taken for that to the next one.
            let was_open = link.take().is_some();
            if !pending.is_empty() || was_open && self.has_passed.load(Ordering::SeqCst) {
                owe();
            }
        }
        outcome
    }

    /// As [`Succession::confirm`], and lets nothing but the link confirm from here on.
    ///
    /// # Errors
    /// As [`Succession::confirm`].
    pub(crate) fn commit(&self, owe: &dyn Fn()) -> io::Result<()> {
        self.confirm(owe)?;
        let link = lock(&self.link);
        if link.is_none() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.is_final.store(true, Ordering::SeqCst);
        Ok(())
    }
}

fn exchange(channel: &MessageChannel, pending: &[Vec<u8>]) -> io::Result<Confirmation> {
    for octets in pending {
        channel.send(octets, None)?;
    }
    channel.send(CONFIRM, None)?;
    match channel.receive()? {
        Some((answer, _)) if answer == DURABLE => Ok(Confirmation::Durable),
        Some((answer, _)) if answer == IN_FORCE => Ok(Confirmation::InForce),
        Some(_) => Err(io::ErrorKind::InvalidData.into()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{CONFIRM, Confirmation, DURABLE, IN_FORCE, Succession};
    use net::MessageChannel;
    use std::cell::Cell;
    use store::{Invalidation, PENDING_INVALIDATIONS_MAX};

    fn enlist(succession: &Succession, name: &'static [u8]) {
        succession.enlist(|_| name.to_vec(), &Invalidation::EVERYTHING);
    }

    #[test]
    fn invalidations_are_confirmed_after_the_other_process_has_them() {
        let succession = Succession::default();
        enlist(&succession, b"before");
        let (link, other) = MessageChannel::pair().unwrap();
        succession.begin(link);
        enlist(&succession, b"one");
        enlist(&succession, b"two");
        assert!(succession.is_behind());
        let process = std::thread::spawn(move || {
            let next = || other.receive().unwrap().unwrap().0;
            assert_eq!([next(), next(), next()], [b"one".to_vec(), b"two".to_vec(), CONFIRM.to_vec()]);
            other.send(DURABLE, None).unwrap();
            assert_eq!(next(), CONFIRM);
            other.send(IN_FORCE, None).unwrap();
        });
        assert_eq!(succession.confirm(&|| {}).unwrap(), Confirmation::Durable);
        assert!(!succession.is_behind());
        assert_eq!(succession.confirm(&|| {}).unwrap(), Confirmation::InForce);
        process.join().unwrap();
        let owed = Cell::new(0);
        let owe = || owed.set(owed.get() + 1);
        assert!(succession.confirm(&owe).is_err(), "the other process is gone");
        assert_eq!(owed.get(), 1, "it knew invalidations");
        assert!(succession.confirm(&owe).is_err() && owed.get() == 1 && succession.has_begun());
        enlist(&succession, b"three");
        assert!(succession.confirm(&owe).is_err() && owed.get() == 2);
        assert!(succession.commit(&owe).is_err() && !succession.is_final());
    }

    #[test]
    fn process_that_learned_of_nothing_owes_nothing() {
        let succession = Succession::default();
        let (link, other) = MessageChannel::pair().unwrap();
        succession.begin(link);
        drop(other);
        let owed = Cell::new(false);
        assert!(succession.confirm(&|| owed.set(true)).is_err());
        succession.abandon(&|| owed.set(true));
        assert!(!owed.get());
    }

    #[test]
    fn commit_passes_on_what_is_pending() {
        let succession = Succession::default();
        let (link, other) = MessageChannel::pair().unwrap();
        succession.begin(link);
        enlist(&succession, b"one");
        let process = std::thread::spawn(move || {
            assert_eq!(other.receive().unwrap().unwrap().0, b"one");
            assert_eq!(other.receive().unwrap().unwrap().0, CONFIRM);
            other.send(DURABLE, None).unwrap();
        });
        succession.commit(&|| {}).unwrap();
        assert!(succession.is_final() && !succession.is_behind());
        process.join().unwrap();
    }

    #[test]
    fn too_many_invalidations_become_one_of_everything() {
        let succession = Succession::default();
        let (link, other) = MessageChannel::pair().unwrap();
        succession.begin(link);
        (0..=PENDING_INVALIDATIONS_MAX).for_each(|_| enlist(&succession, b"one"));
        let process = std::thread::spawn(move || {
            assert!(!other.receive().unwrap().unwrap().0.is_empty());
            assert_eq!(other.receive().unwrap().unwrap().0, CONFIRM);
            other.send(DURABLE, None).unwrap();
        });
        assert_eq!(succession.confirm(&|| {}).unwrap(), Confirmation::Durable);
        process.join().unwrap();
    }
}
