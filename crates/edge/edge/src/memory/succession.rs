//! The link to the process that takes over: it receives each invalidation of this one.
//!
//! Invariants: from [`Succession::begin`] on, [`Succession::pass_on`] returns `Ok` only if the
//! other process has put every invalidation in force that was enlisted before. It does not wait for
//! that process's disk. After an exchange has failed, none succeeds any more.

use net::MessageChannel;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Invalidation, PENDING_INVALIDATIONS_MAX};
use threads::{Mutex, MutexGuard};

/// The message that asks for an answer. Through the link, the other process answers
/// [`IN_FORCE`] once all invalidations before it are in force.
pub(crate) const CONFIRM: &[u8] = b"";

/// The answers to [`CONFIRM`] through the channel for durability.
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

/// Two channels to the other process, so that an invalidation need not wait until an earlier one is
/// durable.
#[derive(Debug)]
pub(crate) struct Links {
    /// Carries the invalidations.
    pub(crate) invalidations: MessageChannel,
    /// Asks whether those in force are durable.
    pub(crate) durability: MessageChannel,
}

/// The links, once there is another process.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    has_begun: AtomicBool,
    /// The other process serves, so nothing else than the link can confirm.
    is_final: AtomicBool,
    /// An invalidation was sent through the link. Changed under the lock of `link`.
    has_passed: AtomicBool,
    /// Held during an exchange. Lock order: `durability`, `link`, `pending`.
    durability: Mutex<Option<MessageChannel>>,
    link: Mutex<Option<MessageChannel>>,
    pending: Mutex<Vec<Vec<u8>>>,
}

impl Succession {
    /// Passes on all later invalidations through `links`.
    pub(crate) fn begin(&self, links: Links) {
        let mut durability = lock(&self.durability);
        let mut link = lock(&self.link);
        self.has_passed.store(false, Ordering::SeqCst);
        *durability = Some(links.durability);
        *link = Some(links.invalidations);
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

    /// Ends the links: the other process has gone before it served. Calls `owe` if it may have
    /// known invalidations that the next start does not know.
    pub(crate) fn abandon(&self, owe: &dyn Fn()) {
        let mut durability = lock(&self.durability);
        let mut link = lock(&self.link);
        *durability = None;
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
    pub(crate) fn pass_on(&self, owe: &dyn Fn()) -> io::Result<()> {
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

    /// As [`Succession::pass_on`], then waits until all invalidations are durable, or until the
    /// other process cannot make them so.
    ///
    /// # Errors
    /// As [`Succession::pass_on`].
    pub(crate) fn confirm(&self, owe: &dyn Fn()) -> io::Result<Confirmation> {
        self.pass_on(owe)?;
        let mut durability = lock(&self.durability);
        let outcome = match durability.as_ref() {
            Some(channel) => ask(channel),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        if outcome.is_err() && durability.take().is_some() {
            let mut link = lock(&self.link);
            // A process that serves still needs the invalidations.
            if !self.is_final() && link.take().is_some() && self.has_passed.load(Ordering::SeqCst) {
                owe();
            }
        }
        outcome
    }

    /// As [`Succession::pass_on`], and lets nothing but the link confirm from here on.
    ///
    /// # Errors
    /// As [`Succession::pass_on`].
    pub(crate) fn commit(&self, owe: &dyn Fn()) -> io::Result<()> {
        loop {
            self.pass_on(owe)?;
            let link = lock(&self.link);
            if link.is_none() {
                return Err(io::ErrorKind::NotConnected.into());
            }
            // Whoever enlists one later sees that this process alone cannot put it in force.
            let pending = lock(&self.pending);
            if pending.is_empty() {
                self.is_final.store(true, Ordering::SeqCst);
                return Ok(());
            }
        }
    }
}

fn exchange(channel: &MessageChannel, pending: &[Vec<u8>]) -> io::Result<()> {
    for octets in pending {
        channel.send(octets, None)?;
    }
    ask(channel).map(drop)
}

fn ask(channel: &MessageChannel) -> io::Result<Confirmation> {
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
    use super::{CONFIRM, Confirmation, DURABLE, IN_FORCE, Links, Succession};
    use net::MessageChannel;
    use std::cell::Cell;
    use store::{Invalidation, PENDING_INVALIDATIONS_MAX};

    fn enlist(succession: &Succession, name: &'static [u8]) {
        succession.enlist(|_| name.to_vec(), &Invalidation::EVERYTHING);
    }

    /// Begins, and returns the ends of the other process: of the link, and for durability.
    fn begun(succession: &Succession) -> (MessageChannel, MessageChannel) {
        let (invalidations, link) = MessageChannel::pair().unwrap();
        let (durability, of_durability) = MessageChannel::pair().unwrap();
        succession.begin(Links { invalidations, durability });
        (link, of_durability)
    }

    /// Receives these messages, then answers.
    fn answer(channel: &MessageChannel, expected: &[&[u8]], answer: &[u8]) {
        expected.iter().for_each(|expected| assert_eq!(channel.receive().unwrap().unwrap().0, *expected));
        channel.send(answer, None).unwrap();
    }

    #[test]
    fn invalidations_are_confirmed_after_the_other_process_has_them() {
        let succession = Succession::default();
        enlist(&succession, b"before");
        let (link, durability) = begun(&succession);
        enlist(&succession, b"one");
        enlist(&succession, b"two");
        assert!(succession.is_behind());
        let process = std::thread::spawn(move || {
            answer(&link, &[b"one", b"two", CONFIRM], IN_FORCE);
            answer(&durability, &[CONFIRM], DURABLE);
            answer(&link, &[CONFIRM], IN_FORCE);
            answer(&durability, &[CONFIRM], IN_FORCE);
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
    fn invalidation_does_not_wait_until_an_earlier_one_is_durable() {
        let succession = Succession::default();
        let (link, durability) = begun(&succession);
        enlist(&succession, b"one");
        std::thread::scope(|scope| {
            let confirming = scope.spawn(|| succession.confirm(&|| {}));
            answer(&link, &[b"one", CONFIRM], IN_FORCE);
            assert_eq!(durability.receive().unwrap().unwrap().0, CONFIRM);
            enlist(&succession, b"two");
            let passing = scope.spawn(|| succession.pass_on(&|| {}));
            link.limit_time(testkit::PATIENCE).unwrap();
            answer(&link, &[b"two", CONFIRM], IN_FORCE);
            passing.join().unwrap().unwrap();
            assert!(!confirming.is_finished());
            durability.send(DURABLE, None).unwrap();
            assert_eq!(confirming.join().unwrap().unwrap(), Confirmation::Durable);
        });
    }

    #[test]
    fn process_that_ends_before_it_serves_is_owed_for() {
        for serves in [false, true] {
            let succession = Succession::default();
            let (link, durability) = begun(&succession);
            drop(durability);
            let process = std::thread::spawn(move || {
                if serves {
                    answer(&link, &[CONFIRM], IN_FORCE);
                }
                answer(&link, &[b"one", CONFIRM], IN_FORCE);
                link.receive().unwrap().is_some()
            });
            if serves {
                succession.commit(&|| {}).unwrap();
            }
            enlist(&succession, b"one");
            let owed = Cell::new(false);
            assert!(succession.confirm(&|| owed.set(true)).is_err());
            assert_eq!(owed.get(), !serves);
            assert_eq!(succession.is_final(), serves);
            let again = succession.pass_on(&|| {});
            assert!(serves || again.is_err());
            drop(succession);
            assert_eq!(process.join().unwrap(), serves, "only a process that serves goes on");
        }
    }

    #[test]
    fn process_that_learned_of_nothing_owes_nothing() {
        let succession = Succession::default();
        drop(begun(&succession));
        let owed = Cell::new(false);
        assert!(succession.confirm(&|| owed.set(true)).is_err());
        succession.abandon(&|| owed.set(true));
        assert!(!owed.get());
    }

    #[test]
    fn commit_passes_on_what_is_pending() {
        let succession = Succession::default();
        // The channel for durability must not be asked.
        let (link, _durability) = begun(&succession);
        link.limit_time(testkit::PATIENCE).unwrap();
        enlist(&succession, b"one");
        std::thread::scope(|scope| {
            let committing = scope.spawn(|| succession.commit(&|| {}));
            assert_eq!(link.receive().unwrap().unwrap().0, b"one");
            // During the exchange, so that it is not part of it.
            enlist(&succession, b"two");
            answer(&link, &[CONFIRM], IN_FORCE);
            assert!(!succession.is_final());
            answer(&link, &[b"two", CONFIRM], IN_FORCE);
            committing.join().unwrap().unwrap();
        });
        assert!(succession.is_final() && !succession.is_behind());
    }

    #[test]
    fn too_many_invalidations_become_one_of_everything() {
        let succession = Succession::default();
        let (link, durability) = begun(&succession);
        (0..=PENDING_INVALIDATIONS_MAX).for_each(|_| enlist(&succession, b"one"));
        let process = std::thread::spawn(move || {
            assert!(!link.receive().unwrap().unwrap().0.is_empty());
            answer(&link, &[CONFIRM], IN_FORCE);
            answer(&durability, &[CONFIRM], DURABLE);
        });
        assert_eq!(succession.confirm(&|| {}).unwrap(), Confirmation::Durable);
        process.join().unwrap();
    }
}
