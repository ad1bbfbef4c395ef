//! The new process of an upgrade: receives the sockets and the disk directory of the old one.
//!
//! Invariant: it accepts no connection before the old process has stopped answering from its store,
//! and it has every invalidation that the old process has answered.

use crate::memory::succession::{CONFIRM, DURABLE, IN_FORCE, Links};
use crate::shared::Shared;
use crate::upkeep::handover::{Call, PATIENCE, Reply, VERSION, channel_name, receive, send};
use crate::upkeep::supervisor::{self, ThreadEnd};
use address::Address;
use net::{BindError, InheritedSockets, MessageChannel, Passed};
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;
use store::{Invalidation, Key, Selector};

/// Why a process could not take over. The old one goes on.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// No process was found.
    #[error(
        "cannot upgrade: no running petasos of this user has the admin address {admin} ({error}); \
         start without --upgrade, or with the admin address of the running process"
    )]
    NotFound {
        /// The setting.
        admin: Address,
        /// The system's error.
        error: io::Error,
    },
    /// The address of the setting `admin` is not known.
    #[error("cannot upgrade: {0}")]
    Unresolved(#[from] BindError),
    /// The old process refused.
    #[error("cannot upgrade: the running process refuses: {0}")]
    Refused(String),
    /// The old process ended or did not answer.
    #[error("cannot upgrade: the running process did not answer as expected: {0}")]
    Lost(#[from] io::Error),
}

/// Interval and number of attempts to find the old process. It may have taken over a moment ago,
/// and its own predecessor may still hold the name.
const TRY_EVERY: Duration = Duration::from_millis(50);
const TRIES: u32 = 20;

impl UpgradeError {
    /// Whether another attempt may succeed, because no process holds the name yet or its holder is
    /// about to end.
    fn may_pass(&self) -> bool {
        let (Self::NotFound { error, .. } | Self::Lost(error)) = self else { return false };
        matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
        )
    }
}

/// The old process.
#[derive(Debug)]
pub(crate) struct Predecessor {
    channel: MessageChannel,
    /// They carry the invalidations of the old process.
    links: Links,
}

impl Predecessor {
    /// Finds the process with this setting `admin`, and receives its listening sockets. Blocks.
    ///
    /// # Errors
    /// [`UpgradeError`].
    pub(crate) fn find(admin: &Address) -> Result<(Self, InheritedSockets), UpgradeError> {
        for _ in 1..TRIES {
            match Self::try_find(admin) {
                Err(error) if error.may_pass() => threads::sleep(TRY_EVERY),
                outcome => return outcome,
            }
        }
        Self::try_find(admin)
    }

    fn try_find(admin: &Address) -> Result<(Self, InheritedSockets), UpgradeError> {
        let name = channel_name(admin, admin)?;
        let channel = MessageChannel::connect(&name)
            .map_err(|error| UpgradeError::NotFound { admin: admin.clone(), error })?;
        Self::greet(channel)
    }

    /// Receives the listening sockets of the process at the other end. Blocks.
    ///
    /// # Errors
    /// [`UpgradeError`].
    pub(crate) fn greet(channel: MessageChannel) -> Result<(Self, InheritedSockets), UpgradeError> {
        channel.limit_time(PATIENCE)?;
        send(&channel, &Call::Hello { version: VERSION }, None)?;
        let mut sockets = InheritedSockets::default();
        let mut durability = None;
        loop {
            match receive(&channel)? {
                Some((Reply::Socket, Some(Passed::Descriptor(socket)))) => sockets.add(socket)?,
                Some((Reply::Durability, Some(passed))) => durability = Some(passed.into_channel()),
                Some((Reply::Link, Some(passed))) => {
                    let durability = durability.ok_or_else(|| unexpected(Some(Reply::Link)))?;
                    let links = Links { invalidations: passed.into_channel(), durability };
                    return Ok((Self { channel, links }, sockets));
                }
                reply => return Err(unexpected(reply.map(|(reply, _)| reply))),
            }
        }
    }

    /// Waits until the old process has closed its disk directory and its static tree.
    ///
    /// # Errors
    /// [`UpgradeError`].
    pub(crate) fn release(&self) -> Result<(), UpgradeError> {
        call(&self.channel, Call::Release, &Reply::Released)
    }

    /// Puts all invalidations of the old process in force from here on, then takes over. Afterwards
    /// the old process answers nothing from its store.
    ///
    /// # Errors
    /// [`UpgradeError`], or if the system cannot create a thread.
    pub(crate) fn take_over(self, shared: &Arc<Shared>) -> Result<(), UpgradeError> {
        let Self { channel, links } = self;
        let Links { invalidations, durability } = links;
        // Without a disk nothing else has needed the names of the sites.
        shared.persistence.learn(&shared.sites);
        // A weak reference, because the old process may live longer than this one.
        let own = Arc::downgrade(shared);
        let of_durability = own.clone();
        let mark = shared.ending.follow();
        // After a panic the old process lacks an answer and ends the link, and then no purge there
        // is answered with success.
        supervisor::start("petasos-predecessor", move || {
            let _until_the_end = &mark;
            if let Err(error) = apply_invalidations(&own, &invalidations) {
                tracing::warn!("the previous process cannot pass on its purges any more: {error}");
            }
            ThreadEnd::Due
        })?;
        // A thread of its own, because the disk may hang, and later purges must be in force all the
        // same.
        supervisor::start("petasos-durability", move || {
            if let Err(error) = confirm_durability(&of_durability, &durability) {
                tracing::warn!("the previous process does not learn which purges are durable: {error}");
            }
            ThreadEnd::Due
        })?;
        call(&channel, Call::TakeOver, &Reply::TakenOver)
    }
}

fn call(channel: &MessageChannel, call: Call, expected: &Reply) -> Result<(), UpgradeError> {
    send(channel, &call, None)?;
    match receive(channel)?.map(|(reply, _)| reply) {
        Some(reply) if reply == *expected => Ok(()),
        reply => Err(unexpected(reply)),
    }
}

fn unexpected(reply: Option<Reply>) -> UpgradeError {
    match reply {
        Some(Reply::Refused { why }) => UpgradeError::Refused(why),
        Some(_) => UpgradeError::Lost(io::ErrorKind::InvalidData.into()),
        None => UpgradeError::Lost(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Puts the invalidations that come through `link` in force until the old process ends.
fn apply_invalidations(shared: &Weak<Shared>, link: &MessageChannel) -> io::Result<()> {
    while let Some((message, _)) = link.receive()? {
        let Some(shared) = shared.upgrade() else { return Ok(()) };
        let shared = shared.current();
        if message == CONFIRM {
            shared.persistence.put_in_force();
            link.send(IN_FORCE, None)?;
            continue;
        }
        put_in_force(&shared, present(&shared, shared.persistence.restored(&message)));
    }
    Ok(())
}

/// Answers whether all invalidations in force are durable, until the old process ends.
fn confirm_durability(shared: &Weak<Shared>, channel: &MessageChannel) -> io::Result<()> {
    while channel.receive()?.is_some() {
        let Some(shared) = shared.upgrade() else { return Ok(()) };
        let shared = shared.current();
        // Both may wait for a disk; the old process limits the time.
        let is_in_tree = shared.static_tree.lose(&shared.store);
        let is_durable = shared.persist() && is_in_tree;
        channel.send(if is_durable { DURABLE } else { IN_FORCE }, None)?;
    }
    Ok(())
}

/// The invalidation in the sites of the current plan. A reload may have replaced the site that it
/// names.
fn present(shared: &Shared, invalidation: Invalidation) -> Invalidation {
    let is_gone = invalidation.selector.site().is_some_and(|site| !shared.sites.has(site));
    if is_gone { Invalidation::EVERYTHING } else { invalidation }
}

fn put_in_force(shared: &Shared, invalidation: Invalidation) {
    match invalidation {
        Invalidation { selector: Selector::Target { site, host, target }, mode } => {
            shared.invalidate(&Key::new(site, false, &host, target), mode);
        }
        other => {
            shared.tell(other);
        }
    }
    shared.sweeper.wake();
    shared.refiller.wake();
}

#[cfg(test)]
mod tests {
    use super::Predecessor;
    use crate::memory::succession::{CONFIRM, DURABLE, IN_FORCE, Links};
    use crate::shared::Shared;
    use crate::system::System;
    use crate::upkeep::handover::{Call, Reply, receive, send};
    use crate::upkeep::persistence::Persistence;
    use config::EdgePlan;
    use disk::TierSettings;
    use net::MessageChannel;
    use platform::{HangingDisk, SystemDisk};
    use std::sync::Arc;

    #[test]
    fn process_has_a_predecessor_until_the_link_ends() {
        let plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        let shared = Arc::new(Shared::new(plan, None, System::of_machine()));
        let (channel, old) = MessageChannel::simulated_pair();
        let (invalidations, of_old) = MessageChannel::simulated_pair();
        let (durability, _of_old) = MessageChannel::simulated_pair();
        let links = Links { invalidations, durability };
        let answers = std::thread::spawn(move || {
            assert!(matches!(receive(&old).unwrap(), Some((Call::TakeOver, _))));
            send(&old, &Reply::TakenOver, None).unwrap();
        });
        assert!(!shared.ending.has_predecessor());
        Predecessor { channel, links }.take_over(&shared).unwrap();
        answers.join().unwrap();
        assert!(shared.ending.has_predecessor());
        drop(of_old);
        testkit::eventually("the end of the predecessor", || !shared.ending.has_predecessor());
    }

    #[test]
    fn purges_are_in_force_while_the_disk_hangs() {
        let plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        let directory = tempfile::tempdir().unwrap();
        let disk = HangingDisk::new(SystemDisk);
        let settings = TierSettings {
            directory: directory.path().join("disk"),
            state_directory: Some(directory.path().join("state")),
            timeout: 2 * testkit::PATIENCE,
            ..TierSettings::default()
        };
        let persistence = Persistence::of_unopened(Arc::new(disk.clone()), settings);
        let shared = Shared::new(plan, None, System::of_machine()).with_persistence(persistence);
        let shared = Arc::new(shared);
        disk.freeze();
        let (channel, old) = MessageChannel::simulated_pair();
        let (invalidations, link) = MessageChannel::simulated_pair();
        let (durability, of_durability) = MessageChannel::simulated_pair();
        send(&old, &Reply::TakenOver, None).unwrap();
        Predecessor { channel, links: Links { invalidations, durability } }.take_over(&shared).unwrap();
        of_durability.send(CONFIRM, None).unwrap();
        disk.await_waiting(1);
        let before = shared.store.sequence();
        link.limit_time(testkit::PATIENCE).unwrap();
        link.send(b"unreadable, so it is everything", None).unwrap();
        link.send(CONFIRM, None).unwrap();
        assert_eq!(link.receive().unwrap().unwrap().0, IN_FORCE);
        assert!(shared.store.sequence() > before);
        disk.thaw();
        assert_eq!(of_durability.receive().unwrap().unwrap().0, DURABLE);
    }
}
