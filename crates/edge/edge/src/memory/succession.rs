//! The link to the process that takes over: it receives each invalidation of this one.
//!
//! Invariants: from [`Succession::begin`] on, [`Succession::confirm`] returns `Ok` only if the
//! other process has put every invalidation in force that was enlisted before. After an exchange
//! has failed, none succeeds any more.

use net::MessageChannel;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::Invalidation;

/// Invalidations that may wait to be passed on. More than these are replaced by one of everything.
const PENDING_MAX: usize = 4096;

/// The message that asks whether all invalidations before it are durable.
pub(crate) const CONFIRM: &[u8] = b"";

/// The answers to [`CONFIRM`].
pub(crate) const DURABLE: &[u8] = b"durable";
pub(crate) const IN_FORCE: &[u8] = b"in force";

/// What the other process has confirmed.
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
    /// Held during an exchange. Lock order: `link`, then `pending`.
    link: Mutex<Option<MessageChannel>>,
    pending: Mutex<Vec<Vec<u8>>>,
}

impl Succession {
    /// Passes on all later invalidations through `link`.
    pub(crate) fn begin(&self, link: MessageChannel) {
        *lock(&self.link) = Some(link);
        self.has_begun.store(true, Ordering::SeqCst);
    }

    /// Whether another process receives the invalidations, or has failed to.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::SeqCst)
    }

    /// Whether an exchange has failed.
    pub(crate) fn is_lost(&self) -> bool {
        self.has_begun() && lock(&self.link).is_none()
    }

    /// Ends the link: the other process has gone before it served.
    pub(crate) fn abandon(&self) {
        *lock(&self.link) = None;
        lock(&self.pending).clear();
    }

    /// Adds an invalidation, encoded by `encode`, to those that are to be passed on.
    pub(crate) fn enlist(&self, encode: impl Fn(&Invalidation) -> Vec<u8>, invalidation: &Invalidation) {
        if !self.has_begun() {
            return;
        }
        let octets = encode(invalidation);
        let mut pending = lock(&self.pending);
        pending.push(octets);
        if pending.len() > PENDING_MAX {
            *pending = vec![encode(&Invalidation::EVERYTHING)];
        }
    }

    /// Whether an invalidation was not passed on yet.
    pub(crate) fn is_behind(&self) -> bool {
        !lock(&self.pending).is_empty()
    }

    /// Passes on all enlisted invalidations, and waits until the other process has put them in
    /// force. Blocks.
    ///
    /// # Errors
    /// If the other process is gone or has not answered in time, now or earlier.
    pub(crate) fn confirm(&self) -> io::Result<Confirmation> {
        let mut link = lock(&self.link);
        let Some(channel) = link.as_ref() else { return Err(io::ErrorKind::NotConnected.into()) };
        let pending = std::mem::take(&mut *lock(&self.pending));
        let outcome = exchange(channel, &pending);
        if outcome.is_err() {
            // The answer to this exchange could be taken for that to the next one.
            *link = None;
            lock(&self.pending).clear();
        }
        outcome
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
    use super::{CONFIRM, Confirmation, DURABLE, IN_FORCE, PENDING_MAX, Succession};
    use net::MessageChannel;
    use store::Invalidation;

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
        assert_eq!(succession.confirm().unwrap(), Confirmation::Durable);
        assert!(!succession.is_behind());
        assert_eq!(succession.confirm().unwrap(), Confirmation::InForce);
        process.join().unwrap();
        assert!(succession.confirm().is_err(), "the other process is gone");
        assert!(succession.confirm().is_err() && succession.has_begun());
    }

    #[test]
    fn too_many_invalidations_become_one_of_everything() {
        let succession = Succession::default();
        let (link, other) = MessageChannel::pair().unwrap();
        succession.begin(link);
        (0..=PENDING_MAX).for_each(|_| enlist(&succession, b"one"));
        let process = std::thread::spawn(move || {
            assert!(!other.receive().unwrap().unwrap().0.is_empty());
            assert_eq!(other.receive().unwrap().unwrap().0, CONFIRM);
            other.send(DURABLE, None).unwrap();
        });
        assert_eq!(succession.confirm().unwrap(), Confirmation::Durable);
        process.join().unwrap();
    }
}
