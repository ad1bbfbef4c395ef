//! The disk below the store: opened when the edge starts, taken over from the process before, written by a thread of
//! its own, closed at the end.
//!
//! Invariant: serving never depends on it. A directory that cannot be used, a full disk, a disk that fails: each is
//! one line on standard error and a metric, and the edge goes on from memory.

use crate::detections_file;
use crate::disk_threads;
use crate::operator;
use crate::set_aside::SetAside;
use crate::shared::Shared;
use crate::sites::{Site, Sites};
use config::Plan;
use disk::{Durability, Figures, OffReason, Opened, Recovery, Settings, Stuck, Tier};
use platform::{Clock, Disk, SystemDisk};
use semantics::{Moment, Policy};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use store::{Ban, Bans, Selector, SiteId, SiteNames, Store};

/// How long the edge waits for what the process before has left, before it takes its first connection. What is not
/// taken over by then follows while it serves.
const TAKE_OVER_MAX: Duration = Duration::from_secs(1);

/// How long a start waits for the directory to be opened, which reads and replaces a few small files.
const OPEN_MAX: Duration = Duration::from_secs(10);

/// The part of the memory that may wait for the disk's writer: one in this many, and at most the disk's own default.
const QUEUE_SHARE: u64 = 8;

/// Less would be too little for one body.
const QUEUE_BYTES_MIN: u64 = 4 << 20;

/// The disk of a running edge; or its absence.
#[derive(Default)]
pub(crate) struct Persistence {
    tier: Option<Tier>,
    /// Whether the plan names a directory.
    is_wanted: bool,
    /// The last attempt to make purges durable has failed, or is late.
    at_risk: AtomicBool,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// The directory that the plan names, if it could not be opened.
    unopened: Option<Unopened>,
    /// Why it was off when that was last looked at.
    noted: Mutex<Option<OffReason>>,
    /// What is recorded for purges that find the disk hanging.
    set_aside: SetAside,
    /// The edge ends and closes the directory, which is no failure of the disk.
    is_closing: AtomicBool,
}

/// What the operator is told when the disk changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    WentOff(OffReason),
    WorksAgain,
}

/// A directory that could not be opened. What an earlier process left in it may be opened by a later one.
///
/// The lock is never held while a file is written, because the sweeper and the metrics read the state.
struct Unopened {
    disk: Arc<dyn Disk>,
    settings: Settings,
    state: Mutex<Distrust>,
    /// Signals the end of a write.
    written: Condvar,
}

/// Whether a later process may use what is in a directory that could not be opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Distrust {
    /// It may: nothing was purged.
    NotDue,
    /// It must not, and that could not be recorded yet.
    Due,
    /// It must not, and a thread is recording that.
    Writing,
    Recorded,
}

impl Unopened {
    const fn of(disk: Arc<dyn Disk>, settings: Settings) -> Self {
        Self { disk, settings, state: Mutex::new(Distrust::NotDue), written: Condvar::new() }
    }

    fn state(&self) -> Distrust {
        *lock(&self.state)
    }

    /// Whether something was purged, and that is not recorded.
    fn is_due(&self) -> bool {
        matches!(self.state(), Distrust::Due | Distrust::Writing)
    }

    /// Records the distrust, or waits for the thread that is recording it, but no longer than for any other operation
    /// of the disk.
    fn distrust(&self) -> Result<(), OffReason> {
        let is_writing = |state: &mut Distrust| *state == Distrust::Writing;
        let waited = self.written.wait_timeout_while(lock(&self.state), self.settings.timeout, is_writing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match *state {
            Distrust::Recorded => return Ok(()),
            Distrust::Writing => return Err(OffReason::Hung),
            Distrust::NotDue | Distrust::Due => *state = Distrust::Writing,
        }
        drop(state);
        let outcome = disk::distrust(&*self.disk, &self.settings);
        *lock(&self.state) = if outcome.is_ok() { Distrust::Recorded } else { Distrust::Due };
        self.written.notify_all();
        let operation = "record in the state directory that the disk cache is out of date";
        outcome.map_err(|error| OffReason::Io { operation, kind: error.kind() })
    }
}

/// The store above the disk that the plan names, and what is to be taken over; the store alone where the plan names
/// none, or none that can be used, which standard error is told. `hear` is told of each invalidation by the process
/// before and its number.
///
/// # Errors
/// When there is no thread to be had.
pub(crate) fn open(
    store: Store,
    plan: &Plan,
    sites: &Sites,
    clock: &Arc<dyn Clock>,
    life: u64,
    hear: impl FnMut(u64, &Selector),
) -> io::Result<(Store, Persistence, Option<Recovery>)> {
    let Some(disk) = &plan.disk else { return Ok((store, Persistence::default(), None)) };
    let settings = Settings {
        directory: disk.directory.clone(),
        companions: detections_file::FILES,
        state_directory: disk.state_directory.clone(),
        runtime_directory: disk.runtime_directory.clone(),
        bytes_max: disk.bytes_max,
        durability: if disk.power_safe_purges { Durability::Power } else { Durability::Process },
        timeout: plan.limits.disk_timeout,
        queue_bytes_max: queue_bytes_max(plan.memory_bytes),
        fill_bytes_max: Some(percent_of(disk.bytes_max, plan.limits.disk_fill_percent)),
        ..Settings::default()
    };
    let absent = Persistence { is_wanted: true, ..Persistence::default() };
    let (of_tier, of_opening) = (Arc::clone(clock), settings.clone());
    let opened =
        disk_threads::run_here(OPEN_MAX, move || disk::open(Arc::new(SystemDisk), of_tier, of_opening));
    let unopened = || Persistence {
        unopened: Some(Unopened::of(Arc::new(SystemDisk), settings)),
        ..Persistence::default()
    };
    let Opened { tier, writer, recovery } = match opened {
        Some(Ok(opened)) => opened,
        Some(Err(error)) => {
            operator::say(format_args!("nothing is kept on the disk: {error}"));
            return Ok((store, Persistence { is_wanted: true, ..unopened() }, None));
        }
        None => {
            let directory = disk.directory.display();
            operator::say(format_args!(
                "nothing is kept on the disk: {directory} does not answer; restart when it does"
            ));
            return Ok((store, Persistence { is_wanted: true, ..unopened() }, None));
        }
    };
    if recovery.is_distrusted() {
        operator::say(format_args!(
            "the disk cache begins empty: {} may lack purges that were answered since",
            disk.directory.display()
        ));
    }
    detections_file::recall(&disk.directory, plan.limits.disk_timeout, sites.iter(), Moment::read(&**clock));
    let names = Arc::new(Names::of(sites));
    let (store, keeper) = store.above(&tier, &recovery, names, &TextBans, life, hear);
    let writer = Builder::new().name("petasos-disk".to_owned()).spawn(move || writer.run(&*keeper))?;
    Ok((store, Persistence { tier: Some(tier), writer: Mutex::new(Some(writer)), ..absent }, Some(recovery)))
}

/// What may wait for the disk's writer of a memory of this size, in bytes.
fn queue_bytes_max(memory_bytes: u64) -> u64 {
    (memory_bytes / QUEUE_SHARE).clamp(QUEUE_BYTES_MIN, Settings::default().queue_bytes_max)
}

/// So many percent of a size; no product overflows, and the rounding is a hundred bytes at most.
fn percent_of(bytes: u64, percent: usize) -> u64 {
    bytes / 100 * percent as u64
}

/// Takes over what the process before has left, in a thread of its own; waits for it, though not for ever.
///
/// # Errors
/// When there is no thread to be had.
pub(crate) fn take_over(shared: &Arc<Shared>, recovery: Recovery) -> io::Result<()> {
    let (done, waits): (_, Receiver<()>) = channel();
    let shared = Arc::clone(shared);
    Builder::new().name("petasos-recovery".to_owned()).spawn(move || {
        // The channel's end says that it is done.
        let _done = done;
        for recovered in recovery {
            if shared.is_quitting() {
                return;
            }
            shared.store.adopt(&recovered, |returning, adopt| {
                shared.equivalents.learn_returning(returning, adopt);
            });
        }
        shared.store.end_adoption();
    })?;
    match waits.recv_timeout(TAKE_OVER_MAX) {
        Ok(()) | Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => Ok(()),
    }
}

impl Persistence {
    /// With a directory on this disk that could not be opened.
    #[cfg(test)]
    pub(crate) fn of_unopened(disk: Arc<dyn Disk>, settings: Settings) -> Self {
        Self { unopened: Some(Unopened::of(disk, settings)), ..Self::default() }
    }

    /// The figures now; zeros where there is no disk.
    pub(crate) fn figures(&self) -> Figures {
        self.tier.as_ref().map(Tier::figures).unwrap_or_default()
    }

    /// Whether what is stored should be kept on a disk, and is not.
    pub(crate) fn is_off(&self) -> bool {
        self.is_wanted && self.tier.as_ref().is_none_or(|tier| tier.off().is_some())
    }

    /// Makes what was invalidated known to the next start, or makes that begin empty; blocks.
    ///
    /// # Errors
    /// Neither is sure. [`Persistence::is_behind`] is true then.
    pub(crate) fn persist(&self, store: &Store) -> Result<(), OffReason> {
        let outcome = self.unopened.as_ref().map_or_else(|| store.persist(), Unopened::distrust);
        self.at_risk.store(outcome.is_err(), Ordering::Relaxed);
        outcome
    }

    /// As [`Persistence::persist`], and then takes back what [`Persistence::set_aside`] has recorded; blocks.
    /// `persisted` says whether all that was invalidated is known to the next start.
    pub(crate) fn catch_up(&self, persisted: impl FnOnce() -> bool) {
        match &self.tier {
            Some(tier) => self.set_aside.catch_up(tier, persisted),
            None => {
                persisted();
            }
        }
    }

    /// Makes the next start begin empty while the disk hangs; blocks, but not for that disk. False if no place outside
    /// of the directory works.
    pub(crate) fn set_aside(&self) -> bool {
        self.tier.as_ref().is_some_and(|tier| self.set_aside.record(tier))
    }

    /// Whether [`Persistence::set_aside`] has recorded what covers every purge that is in force now.
    pub(crate) fn is_set_aside(&self) -> bool {
        self.set_aside.is_recorded()
    }

    /// Whether [`Persistence::set_aside`] is known to wait for a disk that hangs as well.
    pub(crate) fn is_set_aside_hung(&self) -> bool {
        self.set_aside.is_hung()
    }

    /// A caller does not wait any longer for [`Persistence::set_aside`].
    pub(crate) fn give_up_set_aside(&self) {
        self.set_aside.give_up();
    }

    /// Whether something is left to do for [`Persistence::catch_up`].
    pub(crate) fn is_behind(&self, store: &Store) -> bool {
        let is_recorded = self.set_aside.is_recorded();
        store.is_behind() || is_recorded || self.unopened.as_ref().is_some_and(Unopened::is_due)
    }

    /// A purge was answered although a restart could undo it.
    pub(crate) fn note_risk(&self) {
        self.at_risk.store(true, Ordering::Relaxed);
    }

    /// Whether a restart would bring back what was purged.
    pub(crate) fn is_at_risk(&self, store: &Store) -> bool {
        // A write that was late may have succeeded since the risk was noted.
        let is_owed = !store.is_written_down() || self.unopened.as_ref().is_some_and(Unopened::is_due);
        is_owed && !self.is_set_aside() && self.at_risk.load(Ordering::Relaxed)
    }

    /// Whether the next start begins empty.
    pub(crate) fn is_distrusted(&self) -> bool {
        !self.set_aside.is_clear()
            || self.tier.as_ref().is_some_and(|tier| tier.distrusted().is_some())
            || self.unopened.as_ref().is_some_and(|unopened| unopened.state() == Distrust::Recorded)
    }

    /// Whether the disk hangs, or has hung and is not used again yet.
    pub(crate) fn is_hung(&self) -> bool {
        self.tier.as_ref().is_some_and(|tier| tier.off() == Some(OffReason::Hung))
    }

    /// Whether a purge that waits for the journal waits in vain, as far as is known.
    pub(crate) fn is_journal_hung(&self) -> bool {
        self.is_hung() && !self.set_aside.is_taking_back()
    }

    /// Whether a thread waits for an answer of the disk that is late.
    pub(crate) fn is_stuck(&self) -> bool {
        self.tier.as_ref().is_some_and(|tier| !tier.stuck().is_empty())
    }

    /// Names the threads that wait for the disk.
    fn say_stuck(&self) {
        for Stuck { thread, operation } in self.tier.iter().flat_map(Tier::stuck) {
            operator::say(format_args!("the thread {thread} waits for the disk to {operation}"));
        }
    }

    /// Tells standard error when the disk has gone off, or works again. A disk that has hung is used again when it
    /// answers and all purges are written down. Does not wait for the disk.
    pub(crate) fn look_after(&self, is_written_down: bool) {
        let Some(tier) = &self.tier else { return };
        tier.look_after(is_written_down && self.set_aside.is_clear());
        match self.change(tier.off()) {
            Some(Change::WentOff(reason)) => {
                operator::say(format_args!("nothing is kept on the disk from now on: {reason}"));
                self.say_stuck();
            }
            Some(Change::WorksAgain) => {
                operator::say(format_args!("what is stored is kept on the disk again"));
            }
            None => {}
        }
    }

    /// What has changed since the last look, if that is to be told.
    fn change(&self, off: Option<OffReason>) -> Option<Change> {
        // Looked at after `off` was read: the flag is set before the disk is closed, so no closed disk is told of.
        if self.is_closing.load(Ordering::SeqCst) {
            return None;
        }
        let mut noted = lock(&self.noted);
        if *noted == off {
            return None;
        }
        *noted = off;
        Some(off.map_or(Change::WorksAgain, Change::WentOff))
    }

    /// Writes what is left to be written, and returns when the directory is closed, or the disk hangs: then threads
    /// are left behind, which standard error is told.
    pub(crate) fn close(&self) {
        let Some(tier) = &self.tier else { return };
        self.is_closing.store(true, Ordering::SeqCst);
        if !tier.close() {
            operator::say(format_args!("the disk does not answer; its directory is left as after a crash"));
            return self.say_stuck();
        }
        if let Some(writer) = lock(&self.writer).take() {
            // A writer that panicked has left what a crash leaves; the next process finds its way.
            let _ = writer.join();
        }
        if let Some(reason) = self.failure_at_end() {
            operator::say(format_args!(
                "the disk failed while it was closed: {reason}; its directory is left as after a crash"
            ));
        }
    }

    /// Why the disk has failed since it was last looked at: [`Persistence::change`] tells of nothing during the end.
    fn failure_at_end(&self) -> Option<OffReason> {
        let off = self.tier.as_ref()?.off().filter(|off| *off != OffReason::Closed);
        off.filter(|_| *lock(&self.noted) != off)
    }
}

impl fmt::Debug for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Persistence").field("figures", &self.figures()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sites under names that say what must not change while their pages are kept: who answers to them, by which
/// rules, with whose content.
struct Names(Vec<Name>);

/// A site, and its names under the rules that it begins with and under those that it may be found to need.
struct Name {
    site: Arc<Site>,
    own: Box<[u8]>,
    recognised: Vec<Box<[u8]>>,
}

/// Octets of such a name: enough that no two settings have the same by chance.
const NAME_BYTES: usize = 16;

impl Names {
    fn of(sites: &Sites) -> Self {
        let named = |site: &Arc<Site>| Name {
            site: Arc::clone(site),
            own: name(site, &site.plan.policy),
            recognised: site.plan.recognisable.iter().map(|policy| name(site, policy)).collect(),
        };
        Self(sites.iter().map(named).collect())
    }
}

/// A digest of all that pages of the site depend on under these rules.
fn name(site: &Site, policy: &Policy) -> Box<[u8]> {
    // Named one by one, so that a new part cannot be forgotten.
    let config::Site {
        id: _,
        names,
        ports: _,
        origin,
        public_host,
        public_https,
        via_to_origin,
        profile,
        policy: _,
        recognisable: _,
        static_tree_layout: _,
        error_page: _,
    } = &site.plan;
    // What was fetched with Via may be uncompressed for that reason alone.
    let via = if *via_to_origin { "" } else { " without Via" };
    let said = format!("{names:?} {origin} {public_host:?} {public_https} {profile} {policy:?}{via}");
    Sha256::digest(said).iter().copied().take(NAME_BYTES).collect()
}

impl Name {
    /// Whether this is the site's name under any of its rules.
    fn has(&self, name: &[u8]) -> bool {
        *self.own == *name || self.recognised.iter().any(|recognised| **recognised == *name)
    }

    /// The name under the rules in force.
    fn current(&self) -> &[u8] {
        self.site.recognised().and_then(|rules| self.recognised.get(rules)).unwrap_or(&self.own)
    }
}

impl SiteNames for Names {
    fn name(&self, site: SiteId) -> &[u8] {
        self.0.iter().find(|name| name.site.id == site).map_or(&[], Name::current)
    }

    fn find(&self, name: &[u8]) -> Option<SiteId> {
        self.0.iter().find(|known| known.current() == name).map(|known| known.site.id)
    }

    fn find_meant(&self, name: &[u8]) -> Option<SiteId> {
        self.0.iter().find(|known| known.has(name)).map(|known| known.site.id)
    }
}

/// Bans by their texts.
struct TextBans;

impl Bans for TextBans {
    fn ban(&self, text: &[u8]) -> Option<Arc<dyn Ban>> {
        let ban = purge::Ban::parse(std::str::from_utf8(text).ok()?).ok()?;
        Some(Arc::new(ban))
    }
}

#[cfg(test)]
mod tests {
    use super::{Distrust, Persistence, Unopened};
    use disk::{Keeper, OffReason, Opened, Settings};
    use platform::{Disk, HangingDisk, SimulatedDisk, SystemClock, SystemDisk};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    struct Nothing;

    impl Keeper for Nothing {
        fn evicts(&self, _: disk::Location) -> bool {
            false
        }

        fn moved(&self, _: disk::Location, _: disk::Location) {}
    }

    /// A disk with a thread that writes.
    fn running(disk: impl Disk + 'static, directory: &str) -> Persistence {
        let settings = Settings { directory: directory.into(), ..Settings::default() };
        let opened = disk::open(Arc::new(disk), Arc::new(SystemClock::new()), settings).unwrap();
        let Opened { tier, writer, recovery: _ } = opened;
        let writer = std::thread::spawn(move || writer.run(&Nothing));
        Persistence { tier: Some(tier), writer: Mutex::new(Some(writer)), ..Persistence::default() }
    }

    #[test]
    fn disk_that_is_closed_at_the_end_is_not_reported_as_off() {
        let persistence = running(SimulatedDisk::new(1), "/cache");
        let off = || persistence.tier.as_ref().unwrap().off();
        assert_eq!(persistence.change(off()), None);
        persistence.close();
        assert_eq!(off(), Some(OffReason::Closed));
        assert_eq!(persistence.change(off()), None, "a thread that is left behind may look");
        assert_eq!(persistence.failure_at_end(), None);
    }

    #[test]
    fn disk_that_fails_while_it_is_closed_is_reported() {
        let disk = SimulatedDisk::new(1);
        let persistence = running(disk.clone(), "/cache");
        disk.set_broken(Some(std::io::ErrorKind::Other));
        persistence.close();
        assert!(matches!(persistence.failure_at_end(), Some(OffReason::Io { .. })));
    }

    #[test]
    fn state_is_read_while_the_state_directory_hangs() {
        let directory = tempfile::tempdir().unwrap();
        let disk = HangingDisk::new(SystemDisk);
        let settings = Settings {
            directory: directory.path().join("disk"),
            state_directory: Some(directory.path().join("state")),
            timeout: Duration::from_millis(1),
            ..Settings::default()
        };
        let unopened = Arc::new(Unopened::of(Arc::new(disk.clone()), settings));
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
        assert!(reader.join().is_ok() && unopened.state() == Distrust::Recorded);
    }
}
