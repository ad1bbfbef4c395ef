//! The disk tier below the store. The edge opens it at the start, takes over the objects of the
//! previous process, and closes it at the end. A separate thread writes to it.
//!
//! Invariant: serving never depends on the disk. An unusable directory, a full disk and a failing
//! disk each cause one line on standard error and a metric. The edge continues from memory.

use crate::memory::succession::{Confirmation, Links, Succession};
use crate::sites::{Site, SiteState, Sites, page_settings};
use crate::system::System;
use crate::upkeep::broken_ends;
use crate::upkeep::detections_file::{self, DetectionsFile};
use crate::upkeep::disk_threads::DiskThreads;
use crate::upkeep::set_aside::SetAside;
use crate::upkeep::supervisor::{self, ThreadEnd};
use crate::upkeep::unopened_directory::{DistrustState, UnopenedDirectory};
use bytes::Bytes;
use config::{DiskPlan, EdgePlan};
use disk::{Durability, OffReason, OpenedTier, Recovery, StuckOperation, Tier, TierFigures, TierSettings};
use invalidation::Ban;
use platform::Disk;
use profiles::Policy;
use semantics::Moment;
use sha2::{Digest, Sha256};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;
use store::{Bans, Invalidation, RestoredInvalidation, Selector, SiteId, SiteNames, Store};
use threads::{JoinHandle, Mutex, MutexGuard};

/// How long a start waits for the directory to be opened, which reads and replaces a few small
/// files.
const OPEN_MAX: Duration = Duration::from_secs(10);

/// One in this many bytes of memory may wait for the disk's writer, at most the disk's own default.
const QUEUE_SHARE: u64 = 8;

/// Minimum size of that queue, because a smaller one might not hold one body.
const QUEUE_BYTES_MIN: u64 = 4 << 20;

/// The disk tier of a running edge, or its absence.
#[derive(Default)]
pub(crate) struct Persistence {
    tier: Option<Tier>,
    /// Whether the plan names a directory.
    is_wanted: bool,
    /// The last attempt to make purges durable has failed or is late. Relaxed is enough: the flag
    /// is only reported, and always together with the state of the journal.
    at_risk: AtomicBool,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// The disk and the settings of the tier.
    place: Option<(Arc<dyn Disk>, TierSettings)>,
    /// The directory of the plan if this process does not have it open: it could not be opened,
    /// earlier processes ended too often, or a successor received it and then failed.
    unopened: OnceLock<UnopenedDirectory>,
    /// The process that takes over.
    succession: Succession,
    /// The reason for being off that was last reported.
    noted: Mutex<Option<OffReason>>,
    /// Records purges outside the directory while the disk hangs.
    set_aside: SetAside,
    /// The edge is closing the directory, so an end of the tier is not a failure.
    is_closing: AtomicBool,
    names: Arc<PersistentSiteNames>,
}

/// A change of the disk's state that is reported to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    WentOff(OffReason),
    WorksAgain,
}

/// Opens the disk that the plan names below `store`, and returns the objects to be taken over.
/// Without a usable disk it returns the store alone and reports why on standard error. `hear` is
/// called with each invalidation of the previous process and its number.
///
/// # Errors
/// If the system cannot create a thread.
pub(crate) fn open(
    store: Store,
    plan: &EdgePlan,
    sites: &Sites,
    system: &System,
    threads: &DiskThreads,
    life: u64,
    hear: impl FnMut(u64, &Selector),
) -> io::Result<(Store, Persistence, Option<Recovery>)> {
    let Some(disk) = &plan.disk else { return Ok((store, Persistence::default(), None)) };
    let settings = settings_of(disk, plan);
    let unopened = |settings| Persistence {
        is_wanted: true,
        unopened: OnceLock::from(UnopenedDirectory::of(Arc::clone(&system.disk), settings)),
        ..Persistence::default()
    };
    if let Some(record) = frequent_ends(&settings, system, threads) {
        tracing::error!(
            "the disk cache is off: an error in Petasos's own state ended the process at least three times \
             within five minutes; please report this bug. To use the disk cache at once, remove {} and \
             restart Petasos",
            record.display()
        );
        return Ok((store, unopened(settings), None));
    }
    let place = Some((Arc::clone(&system.disk), settings.clone()));
    let (of_tier, of_opening) = (system.clone(), settings.clone());
    let opened = threads.run_here(OPEN_MAX, move || disk::open(of_tier.disk, of_tier.clock, of_opening));
    let OpenedTier { tier, writer, recovery } = match opened {
        Some(Ok(opened)) => opened,
        Some(Err(error)) => {
            tracing::error!("the disk cache is off: {error}");
            return Ok((store, unopened(settings), None));
        }
        None => {
            let directory = disk.directory.display();
            tracing::error!(
                "the disk cache is off: {directory} does not answer; repair the disk, then restart Petasos"
            );
            return Ok((store, unopened(settings), None));
        }
    };
    if recovery.is_distrusted() {
        tracing::warn!(
            "the disk cache begins empty, because {} may lack purges that Petasos has confirmed",
            disk.directory.display()
        );
    }
    let detections = DetectionsFile { directory: &disk.directory, disk: &system.disk };
    let found = detections.read(threads, plan.limits.disk_timeout);
    detections_file::restore(found, sites.iter(), Moment::read(&*system.clock));
    let names = Arc::<PersistentSiteNames>::default();
    names.learn(sites);
    let (store, keeper) = store.above(&tier, &recovery, Arc::clone(&names) as _, &TextBans, life, hear);
    // A writer that panicked is not replaced, because what it has written is known to recovery
    // only. It has switched the disk off; the edge serves from memory, and the next start recovers.
    let mut writer = Some(writer);
    let work = move || {
        if let Some(writer) = writer.take() {
            writer.run(&*keeper);
        }
        ThreadEnd::Due
    };
    let writer = supervisor::start("petasos-disk", work)?;
    Ok((
        store,
        Persistence {
            tier: Some(tier),
            is_wanted: true,
            place,
            writer: Mutex::new(Some(writer)),
            names,
            ..Persistence::default()
        },
        Some(recovery),
    ))
}

/// The settings of the tier that a plan has.
fn settings_of(disk: &DiskPlan, plan: &EdgePlan) -> TierSettings {
    TierSettings {
        directory: disk.directory.clone(),
        companions: detections_file::FILES,
        state_directory: disk.state_directory.clone(),
        runtime_directory: disk.runtime_directory.clone(),
        bytes_max: disk.bytes_max,
        durability: if disk.power_safe_purges { Durability::Power } else { Durability::Process },
        timeout: plan.limits.disk_timeout,
        queue_bytes_max: queue_bytes_max(plan.memory_bytes),
        fill_bytes_max: Some(percent_of(disk.bytes_max, plan.limits.disk_fill_percent)),
        ..TierSettings::default()
    }
}

/// The record of ended processes, if it makes this one leave the disk alone.
fn frequent_ends(settings: &TierSettings, system: &System, threads: &DiskThreads) -> Option<PathBuf> {
    let record = broken_ends::record_of_tier(settings)?;
    let (disk, path) = (Arc::clone(&system.disk), record.clone());
    let read = threads.run_here(settings.timeout, move || disk.read(&path))?.ok()?;
    broken_ends::are_frequent(&read, system.clock.now()).then_some(record)
}

/// Size in bytes of the disk writer's queue, for a memory of this size.
fn queue_bytes_max(memory_bytes: u64) -> u64 {
    (memory_bytes / QUEUE_SHARE).clamp(QUEUE_BYTES_MIN, TierSettings::default().queue_bytes_max)
}

/// This percentage of a size. Dividing first avoids overflow and rounds off less than `percent`
/// bytes.
fn percent_of(bytes: u64, percent: usize) -> u64 {
    bytes / 100 * percent as u64
}

impl Persistence {
    /// A tier whose directory on this disk could not be opened.
    #[cfg(test)]
    pub(crate) fn of_unopened(disk: Arc<dyn Disk>, settings: TierSettings) -> Self {
        Self { unopened: OnceLock::from(UnopenedDirectory::of(disk, settings)), ..Self::default() }
    }

    /// Learns the sites of a new plan.
    pub(crate) fn learn(&self, sites: &Sites) {
        self.names.learn(sites);
    }

    /// The current figures; zeros without a disk.
    pub(crate) fn figures(&self) -> TierFigures {
        self.tier.as_ref().map(Tier::figures).unwrap_or_default()
    }

    /// Whether a disk was configured but is not used.
    pub(crate) fn is_off(&self) -> bool {
        self.is_wanted && self.tier.as_ref().is_none_or(|tier| tier.off().is_some())
    }

    /// Makes the next start know all invalidations, or begin empty; blocks.
    ///
    /// # Errors
    /// If neither could be ensured. [`Persistence::is_behind`] is then true.
    pub(crate) fn persist(&self, store: &Store) -> Result<(), OffReason> {
        let outcome = if self.succession.has_begun() {
            self.pass_on()
        } else {
            self.unopened.get().map_or_else(|| store.persist(), UnopenedDirectory::distrust)
        };
        self.at_risk.store(outcome.is_err(), Ordering::Relaxed);
        outcome
    }

    /// Runs `persisted`, which makes all invalidations durable and returns whether it succeeded.
    /// Then takes back the records of [`Persistence::set_aside`]. Blocks.
    pub(crate) fn catch_up(&self, persisted: impl FnOnce() -> bool) {
        match &self.tier {
            Some(tier) if !self.succession.has_begun() => self.set_aside.catch_up(tier, persisted),
            Some(_) | None => {
                persisted();
            }
        }
    }

    /// Makes the next start begin empty while the disk hangs. Blocks, but does not wait for that
    /// disk. Returns false if no place outside of the directory can be written.
    pub(crate) fn set_aside(&self) -> bool {
        self.tier.as_ref().is_some_and(|tier| self.set_aside.record(tier))
    }

    /// Whether a record of [`Persistence::set_aside`] covers every purge that is in force now.
    pub(crate) fn is_set_aside(&self) -> bool {
        self.set_aside.is_recorded()
    }

    /// Whether [`Persistence::set_aside`] is known to wait for a second disk that hangs.
    pub(crate) fn is_set_aside_hung(&self) -> bool {
        self.set_aside.is_hung()
    }

    /// Called when a caller stops waiting for [`Persistence::set_aside`].
    pub(crate) fn give_up_set_aside(&self) {
        self.set_aside.give_up();
    }

    /// Whether [`Persistence::catch_up`] has work to do.
    pub(crate) fn is_behind(&self, store: &Store) -> bool {
        if self.succession.has_begun() {
            return self.succession.is_behind() || self.is_distrust_due();
        }
        store.is_behind() || self.set_aside.is_recorded() || self.is_distrust_due()
    }

    /// Records that a purge was answered although a restart could undo it.
    pub(crate) fn note_risk(&self) {
        self.at_risk.store(true, Ordering::Relaxed);
    }

    /// Whether a restart would bring back purged objects.
    pub(crate) fn is_at_risk(&self, store: &Store) -> bool {
        // A late write may have succeeded since the risk was noted.
        let is_owed = match self.succession.has_begun() {
            true => self.succession.is_behind(),
            false => !store.is_written_down(),
        };
        (is_owed || self.is_distrust_due()) && !self.is_set_aside() && self.at_risk.load(Ordering::Relaxed)
    }

    /// Whether the next start begins empty.
    pub(crate) fn is_distrusted(&self) -> bool {
        !self.set_aside.is_clear()
            || self.tier.as_ref().is_some_and(|tier| tier.distrusted().is_some())
            || self.unopened.get().is_some_and(|unopened| unopened.state() == DistrustState::Recorded)
    }

    /// Whether the disk hangs, or has hung and is not used again yet.
    pub(crate) fn is_hung(&self) -> bool {
        self.tier.as_ref().is_some_and(|tier| tier.off() == Some(OffReason::Hung))
    }

    /// Whether a purge need not wait for the journal, because the disk hangs.
    pub(crate) fn is_journal_hung(&self) -> bool {
        self.is_hung() && !self.set_aside.is_taking_back()
    }

    /// Whether a thread waits for a late disk operation.
    pub(crate) fn is_stuck(&self) -> bool {
        self.tier.as_ref().is_some_and(|tier| !tier.stuck().is_empty())
    }

    /// Reports the threads that wait for the disk.
    fn say_stuck(&self) {
        for StuckOperation { thread, operation } in self.tier.iter().flat_map(Tier::stuck) {
            tracing::warn!("the thread {thread} waits for the disk to {operation}");
        }
    }

    /// Reports on standard error when the disk fails or works again. A disk that hung is used again
    /// once it answers and all purges are durable. Does not wait for the disk.
    pub(crate) fn look_after(&self, is_written_down: bool) {
        let Some(tier) = &self.tier else { return };
        tier.look_after(is_written_down && self.set_aside.is_clear());
        match self.change(tier.off()) {
            Some(Change::WentOff(reason)) => {
                tracing::error!("the disk cache is off from now on: {reason}");
                self.say_stuck();
            }
            Some(Change::WorksAgain) => {
                tracing::info!("the disk cache is on again");
            }
            None => {}
        }
    }

    /// The change since the last call, if it is to be reported.
    fn change(&self, off: Option<OffReason>) -> Option<Change> {
        // Read after `off`: the flag is set before the disk is closed, so a closed disk is never
        // reported as failed.
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

    /// Writes the rest of the queue, and returns when the directory is closed or the disk hangs. In
    /// the latter case the result is false, and the threads that wait for the disk are left behind
    /// and reported on standard error.
    pub(crate) fn close(&self) -> bool {
        let Some(tier) = &self.tier else { return true };
        self.is_closing.store(true, Ordering::SeqCst);
        if !tier.close() {
            tracing::error!("the disk does not answer; its directory stays as after a crash");
            self.say_stuck();
            return false;
        }
        if let Some(writer) = lock(&self.writer).take() {
            // A writer that panicked leaves the directory as a crash does, which the next process
            // can handle.
            let _ = writer.join();
        }
        if let Some(reason) = self.failure_at_end() {
            tracing::error!(
                "the disk failed while Petasos closed it: {reason}; its directory stays as after a crash"
            );
        }
        true
    }

    /// Passes on all later invalidations through `links`, then closes the directory, so that the
    /// process at their other end can open it. Blocks. Returns false if the disk hangs, so that the
    /// directory stays open.
    ///
    /// That process must answer only after it has opened the directory.
    pub(crate) fn release(&self, store: &Store, sites: &Sites, links: Links) -> bool {
        if self.is_hung() {
            return false;
        }
        self.names.learn(sites);
        let is_first = !self.succession.has_begun();
        self.succession.begin(links);
        if let Some(unopened) = self.unopened.get() {
            if unopened.is_due() {
                self.enlist(&Invalidation::EVERYTHING);
            }
            // The other process takes a recorded distrust back when it opens the directory.
            unopened.forget();
        }
        let Some(tier) = &self.tier else { return true };
        // An invalidation up to here may be in the journal only, a later one also reaches the other
        // process.
        if is_first && store.persist().is_err() {
            self.enlist(&Invalidation::EVERYTHING);
        }
        if !self.close() {
            return false;
        }
        tier.give_up_lock();
        true
    }

    /// Whether another process has, or has had, the directory.
    pub(crate) fn is_released(&self) -> bool {
        self.succession.has_begun()
    }

    /// Queues an invalidation for the process that takes over, if there is one.
    pub(crate) fn enlist(&self, invalidation: &Invalidation) {
        let encode = |told: &Invalidation| told.to_octets(&*self.names, disk::INVALIDATION_BYTES_MAX);
        self.succession.enlist(encode, invalidation);
    }

    /// If another process serves, waits until it has put all invalidations in force. Does not wait
    /// for a disk, but blocks. If that process does not answer, [`Persistence::persist`] fails.
    pub(crate) fn put_in_force(&self) {
        if self.succession.is_final() {
            drop(self.succession.pass_on(&|| self.owe_distrust()));
        }
    }

    /// Waits until the process that takes over has made all invalidations durable. If it has ended,
    /// the next start begins empty.
    fn pass_on(&self) -> Result<(), OffReason> {
        match self.succession.confirm(&|| self.owe_distrust()) {
            Ok(Confirmation::Durable) => Ok(()),
            Ok(Confirmation::InForce) => Err(OffReason::Closed),
            // Only the other process can put a purge in force.
            Err(_) if self.succession.is_final() => Err(OffReason::Closed),
            Err(_) => match self.released_directory().filter(|unopened| unopened.is_due()) {
                Some(unopened) => unopened.distrust(),
                None => Ok(()),
            },
        }
    }

    /// Notes that the process that was to take over has ended before it served.
    pub(crate) fn abandon_succession(&self) {
        self.succession.abandon(&|| self.owe_distrust());
    }

    /// Lets nothing but the process that takes over confirm invalidations, once it has put all of
    /// them in force. Blocks.
    ///
    /// # Errors
    /// If that process does not receive invalidations any more.
    pub(crate) fn commit_succession(&self) -> io::Result<()> {
        self.succession.commit(&|| self.owe_distrust())
    }

    /// Makes the next start begin empty, because the process that knew purges is gone. Once it
    /// serves, its own directory counts.
    fn owe_distrust(&self) {
        if let Some(unopened) = self.released_directory().filter(|_| !self.succession.is_final()) {
            unopened.note_purge();
        }
    }

    /// The directory that this process had and does not have any more; `None` without a disk.
    fn released_directory(&self) -> Option<&UnopenedDirectory> {
        if let Some(unopened) = self.unopened.get() {
            return Some(unopened);
        }
        let (disk, settings) = self.place.as_ref()?;
        Some(self.unopened.get_or_init(|| UnopenedDirectory::of(Arc::clone(disk), settings.clone())))
    }

    fn is_distrust_due(&self) -> bool {
        self.unopened.get().is_some_and(UnopenedDirectory::is_due)
    }

    /// The invalidation that the previous process has encoded.
    pub(crate) fn restored(&self, octets: &[u8]) -> Invalidation {
        let restored = RestoredInvalidation::of_octets(octets, &*self.names, &TextBans);
        // Other than at a start, this process may have stored pages of a site whose settings differ
        // from those in the other one.
        restored.due().unwrap_or(Invalidation::EVERYTHING)
    }

    /// Why the disk has failed since its state was last reported. Needed because
    /// [`Persistence::change`] reports nothing during the end.
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

/// The sites under names that cover everything that must not change while their pages are kept:
/// host names, origin and rules.
#[derive(Default)]
struct PersistentSiteNames(RwLock<Vec<PersistentSiteName>>);

/// A site with its names: under its first rules, and under those of each profile that may be
/// detected.
struct PersistentSiteName {
    id: SiteId,
    state: Arc<SiteState>,
    own: Bytes,
    recognised: Vec<Bytes>,
}

/// Length of a name in bytes: enough to exclude collisions between settings.
const NAME_BYTES: usize = 16;

impl PersistentSiteNames {
    /// Learns the sites of a plan. Sites of earlier plans stay known, because pages of theirs may
    /// be in the write queue, and invalidations of theirs are journaled.
    fn learn(&self, sites: &Sites) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for site in sites.iter() {
            known.retain(|name| name.id != site.id);
            known.push(PersistentSiteName {
                id: site.id,
                state: Arc::clone(&site.state),
                own: name(site, &site.plan.policy),
                recognised: site.plan.recognisable.iter().map(|policy| name(site, policy)).collect(),
            });
        }
    }

    fn find_by(&self, is_meant: impl Fn(&PersistentSiteName) -> bool) -> Option<SiteId> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        // The newest first: after a change and its return, the earlier number is dead.
        known.iter().rev().find(|name| is_meant(name)).map(|name| name.id)
    }
}

/// A digest of everything that pages of the site depend on under these rules.
fn name(site: &Site, policy: &Policy) -> Bytes {
    let digest = Sha256::digest(page_settings(&site.plan, policy));
    digest.iter().copied().take(NAME_BYTES).collect()
}

impl PersistentSiteName {
    /// Whether this is the site's name under any of its rules.
    fn has(&self, name: &[u8]) -> bool {
        *self.own == *name || self.recognised.iter().any(|recognised| **recognised == *name)
    }

    /// The name under the rules in force.
    fn current(&self) -> &Bytes {
        self.state.detection.rules().place().and_then(|rules| self.recognised.get(rules)).unwrap_or(&self.own)
    }
}

impl SiteNames for PersistentSiteNames {
    fn name(&self, site: SiteId) -> Bytes {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|name| name.id == site).map(|name| name.current().clone()).unwrap_or_default()
    }

    fn find(&self, name: &[u8]) -> Option<SiteId> {
        self.find_by(|known| known.current() == name)
    }

    fn find_meant(&self, name: &[u8]) -> Option<SiteId> {
        self.find_by(|known| known.has(name))
    }
}

/// Restores bans from their texts.
struct TextBans;

impl Bans for TextBans {
    fn ban(&self, text: &[u8]) -> Option<Arc<dyn Ban>> {
        let ban = purge::ConditionBan::parse(std::str::from_utf8(text).ok()?).ok()?;
        Some(Arc::new(ban))
    }
}

#[cfg(test)]
mod tests {
    use super::Persistence;
    use disk::{OffReason, OpenedTier, RetentionPolicy, TierSettings};
    use platform::{Disk, SimulatedDisk, SystemClock};
    use std::sync::Arc;
    use threads::Mutex;

    struct Nothing;

    impl RetentionPolicy for Nothing {
        fn evicts(&self, _: disk::Location) -> bool {
            false
        }

        fn moved(&self, _: disk::Location, _: disk::Location, _: &mut dyn FnMut() -> bool) {}
    }

    /// A disk tier with a running writer thread.
    fn running(disk: impl Disk + 'static, directory: &str) -> Persistence {
        let settings = TierSettings { directory: directory.into(), ..TierSettings::default() };
        let opened = disk::open(Arc::new(disk), Arc::new(SystemClock::new()), settings).unwrap();
        let OpenedTier { tier, writer, recovery: _ } = opened;
        let writer = threads::spawn("petasos-disk", move || writer.run(&Nothing)).unwrap();
        Persistence { tier: Some(tier), writer: Mutex::new(Some(writer)), ..Persistence::default() }
    }

    #[test]
    fn disk_that_is_closed_at_the_end_is_not_reported_as_off() {
        let persistence = running(SimulatedDisk::new(1), "/cache");
        let off = || persistence.tier.as_ref().unwrap().off();
        assert_eq!(persistence.change(off()), None);
        persistence.close();
        assert_eq!(off(), Some(OffReason::Closed));
        assert_eq!(persistence.change(off()), None, "a remaining thread may still ask");
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
}
