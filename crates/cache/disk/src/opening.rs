//! Opening a directory: takes its lock, checks whose it is, and decides which of its files are
//! used.
//!
//! Invariant: the journal and the mark of the new life are durable before anything else is written.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use clock::Clock;
use platform::{Disk, DiskLock};

use crate::figures::{FigureCounters, add};
use crate::fill_share::FillShare;
use crate::foreign::foreign;
use crate::journal::{Journal, JournalPlan, RESERVED_AT_ONCE};
use crate::journal_file::JournalFile;
use crate::mark::{DirectoryMark, FORMAT, MarkReading};
use crate::names::{self, FileKind};
use crate::operation_watch::OperationWatch;
use crate::queue::WriteQueue;
use crate::recovery::Recovery;
use crate::segment::Segments;
use crate::settings::{TierPlan, TierSettings};
use crate::status::TierStatus;
use crate::tier::Tier;
use crate::tier_state::TierState;
use crate::watched_disk::WatchedDisk;
use crate::witness::{self, DistrustPlace, Seal, Witnesses};
use crate::writer::DiskWriter;
use crate::{Durability, OpenError};

/// An opened tier, its writer and its recovery.
pub struct OpenedTier {
    /// The interface for callers.
    pub tier: Tier,
    /// To be run on a separate thread.
    pub writer: DiskWriter,
    /// The contents found in the directory. They may be read on another thread while the tier is
    /// already in use.
    pub recovery: Recovery,
}

/// Opens a tier. This reads the journal of invalidations and lists the files, but reads no object.
///
/// # Errors
/// As described for [`OpenError`].
pub fn open(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    settings: TierSettings,
) -> Result<OpenedTier, OpenError> {
    let plan = TierPlan::of(&settings)?;
    let counters = Arc::new(FigureCounters::default());
    let watch = Arc::new(OperationWatch::new(Arc::clone(&clock), settings.timeout, Arc::clone(&counters)));
    let disk: Arc<dyn Disk> = Arc::new(WatchedDisk { disk, watch: Arc::clone(&watch) });
    let at = OpeningDirectory { disk: &*disk, directory: &plan.directory };
    at.check("create the directory", disk.create_directory(&plan.directory))?;
    at.refuse_foreign(settings.companions)?;
    let lock = at.lock()?;
    let boot = disk.boot().ok();
    let witnesses = Witnesses::of(&settings);
    let left = at.mark()?;
    let was_marked = left.is_some();
    let before = left.filter(|mark| witnesses.vouch(&*disk, mark, boot.as_deref()));
    let is_fresh = before.is_none();
    let is_distrusted = was_marked && is_fresh;
    if is_fresh {
        at.take_mark_away()?;
    }
    let found = at.survey(is_fresh, settings.companions)?;
    let mut journal = at.journal(is_fresh)?;
    let invalidations = journal.0.invalidations.clone();
    let sequence = journal.0.next_sequence();
    // Reserve numbers for the first objects, so that writing them needs no reservation.
    journal.0.ceiling = sequence.saturating_add(RESERVED_AT_ONCE);
    let content = journal.0.encode();
    at.replace(names::INVALIDATIONS, &content)?;
    let (mark, seals) = at.begin_life(&witnesses, before, boot, settings.durability)?;
    add(&counters.torn, u64::from(journal.1));
    let segments = Arc::new(Segments::new(Arc::clone(&disk), plan.directory.clone()));
    found.iter().for_each(|(id, (data, index))| segments.adopt(*id, *data, *index));
    let status = Arc::new(TierStatus::new(Arc::clone(&counters), Arc::clone(&watch)));
    let journal_plan = JournalPlan {
        directory: plan.directory.clone(),
        bytes_max: plan.invalidation_bytes_max,
        durability: plan.durability,
    };
    let opened = Journal::new(
        Arc::clone(&disk),
        journal_plan,
        Arc::clone(&segments),
        Arc::clone(&status),
        Arc::clone(&counters),
        seals,
        (content.len() as u64, journal.0.ceiling),
    );
    let opened = at.check("open the journal of invalidations", opened)?;
    let queue = WriteQueue::new(plan.queue_bytes_max);
    let fill_share = FillShare::new(plan.fill_bytes_max);
    let shared = Arc::new(TierState {
        disk,
        clock,
        plan,
        mark,
        segments,
        queue,
        journal: opened,
        status,
        watch,
        counters,
        fills: AtomicU64::new(0),
        fill_share,
        lock: Mutex::new(Some(lock)),
    });
    let recovery = Recovery::new(
        Arc::clone(&shared),
        invalidations,
        (sequence, journal.0.floor),
        found.into_keys().collect(),
        is_distrusted,
    );
    Ok(OpenedTier { tier: Tier { shared: Arc::clone(&shared) }, writer: DiskWriter::new(shared), recovery })
}

/// The directory being opened.
struct OpeningDirectory<'a> {
    disk: &'a dyn Disk,
    directory: &'a Path,
}

impl OpeningDirectory<'_> {
    fn error(&self, operation: &'static str, name: &str, source: io::Error) -> OpenError {
        OpenError::Io { operation, path: self.directory.join(name), source }
    }

    fn check<T>(&self, operation: &'static str, result: io::Result<T>) -> Result<T, OpenError> {
        result.map_err(|source| OpenError::Io { operation, path: self.directory.to_owned(), source })
    }

    fn replace(&self, name: &str, content: &[u8]) -> Result<(), OpenError> {
        let replaced = self.disk.replace(&self.directory.join(name), content);
        replaced.map_err(|source| self.error("write", name, source))
    }

    /// Refuses a directory with files of another program, which the tier might overwrite or remove.
    fn refuse_foreign(&self, companions: &[&str]) -> Result<(), OpenError> {
        match self.check("list the directory", foreign(self.disk, self.directory, companions))? {
            Some(found) => Err(OpenError::Foreign { directory: self.directory.to_owned(), found }),
            None => Ok(()),
        }
    }

    fn lock(&self) -> Result<DiskLock, OpenError> {
        self.disk.lock(&self.directory.join(names::LOCK)).map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => OpenError::Locked { directory: self.directory.to_owned() },
            _ => self.error("lock", names::LOCK, source),
        })
    }

    /// Writes the witnesses of a new life and then its mark. Returns the mark, and all files that
    /// can be spoiled.
    fn begin_life(
        &self,
        witnesses: &Witnesses,
        before: Option<DirectoryMark>,
        boot: Option<String>,
        durability: Durability,
    ) -> Result<(DirectoryMark, Vec<Seal>), OpenError> {
        let number = witness::draw();
        let numbers = (before.as_ref().map(|mark| mark.number), number);
        let (named, mut seals) = witnesses.renew(self.disk, numbers, durability);
        let next = before.unwrap_or_else(|| DirectoryMark::fresh(durability)).next(boot, durability);
        let mark = DirectoryMark { number, witnesses: named, ..next };
        self.replace(names::MARK, &mark.encode())?;
        seals.iter().for_each(Seal::settle);
        let seal = Seal::open(self.disk, DistrustPlace::Tier, &self.directory.join(names::MARK));
        seals.insert(0, self.check("open the mark", seal)?);
        Ok((mark, seals))
    }

    /// The mark of the previous life, or `None` if there is no usable one.
    fn mark(&self) -> Result<Option<DirectoryMark>, OpenError> {
        let octets = match self.disk.read(&self.directory.join(names::MARK)) {
            Ok(octets) => octets,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.error("read", names::MARK, error)),
        };
        match DirectoryMark::decode(&octets) {
            MarkReading::Mark(mark) => Ok(Some(mark)),
            MarkReading::Nothing => Ok(None),
            MarkReading::Newer(found) => {
                Err(OpenError::NewerVersion { directory: self.directory.to_owned(), found, known: FORMAT })
            }
        }
    }

    /// Makes the directory count as empty, durably, by removing its mark.
    fn take_mark_away(&self) -> Result<(), OpenError> {
        match self.disk.remove(&self.directory.join(names::MARK)) {
            Ok(()) => self.check("sync the directory", self.disk.sync_directory(self.directory)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.error("remove", names::MARK, error)),
        }
    }

    /// The segments with the sizes of their data and index files. Removes temporary files and
    /// segments with a missing file; without a mark, also all segments and the journal. An entry
    /// that is no regular file was refused before, and is removed if it has come since.
    fn survey(&self, is_fresh: bool, companions: &[&str]) -> Result<BTreeMap<u32, (u64, u64)>, OpenError> {
        let mut data = BTreeMap::new();
        let mut index = BTreeMap::new();
        let files = self.check("list the directory", self.disk.list(self.directory))?;
        let mut useless = Vec::new();
        for (name, bytes) in files {
            let bytes = if is_fresh { None } else { bytes };
            match (FileKind::of(&name), bytes) {
                (FileKind::Data(id), Some(bytes)) => drop(data.insert(id, bytes)),
                (FileKind::Index(id), Some(bytes)) => drop(index.insert(id, bytes)),
                (FileKind::Partial | FileKind::Data(_) | FileKind::Index(_), _) => useless.push(name),
                (FileKind::Invalidations, None) => useless.push(name),
                (FileKind::Other, _) if names::replaced(&name).is_some_and(|of| companions.contains(&of)) => {
                    useless.push(name);
                }
                (FileKind::Invalidations | FileKind::Other, _) => {}
            }
        }
        let halves =
            data.keys().filter(|id| !index.contains_key(id)).map(|id| names::data(Path::new(""), *id));
        let others =
            index.keys().filter(|id| !data.contains_key(id)).map(|id| names::index(Path::new(""), *id));
        for path in useless.into_iter().map(Into::into).chain(halves).chain(others) {
            let removed = self.disk.remove(&self.directory.join(&path));
            removed.map_err(|source| self.error("remove", &path.to_string_lossy(), source))?;
        }
        Ok(data.into_iter().filter_map(|(id, bytes)| Some((id, (bytes, *index.get(&id)?)))).collect())
    }

    /// The journal, and whether it is damaged or missing.
    fn journal(&self, is_fresh: bool) -> Result<(JournalFile, bool), OpenError> {
        if is_fresh {
            return Ok((JournalFile::default(), false));
        }
        match self.disk.read(&self.directory.join(names::INVALIDATIONS)) {
            Ok(octets) => Ok(JournalFile::parse(&Bytes::from(octets))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((JournalFile::lost(), true)),
            Err(error) => Err(self.error("read", names::INVALIDATIONS, error)),
        }
    }
}
