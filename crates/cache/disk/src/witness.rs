//! Witnesses: files outside of the tier's directory that vouch for its contents. They make it
//! possible to distrust the contents even when the directory's own device fails.
//!
//! Invariant: the contents are used only if the mark and every witness that it names contain the
//! same number, which is new for each life. Spoiling or losing one of them makes the next start
//! begin empty. There are two exceptions: any witness may be absent after a clean close, and the
//! one in the runtime directory after a restart of the machine.
//!
//! A distrusted directory is emptied durably before a witness gets the number of a new life. Until
//! the mark contains the new number too, a witness also keeps the previous one. So a crash in
//! between does not cost the contents.

use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Access, Disk, DiskFile, HashKeys};

use crate::frame::u64_at;
use crate::mark::DirectoryMark;
use crate::piece::write_all;
use crate::{Durability, TierSettings};

const MAGIC: &[u8; 8] = b"PETASOSW";
const NUMBER_BYTES: usize = size_of::<u64>();

/// A number that no life has.
const NONE: u64 = 0;

/// Draws a random number for a life.
pub(crate) fn draw() -> u64 {
    // The lowest bit makes the number different from NONE.
    HashKeys::new().hash_one("life") | 1
}

/// The place of a record that the tier's contents are distrusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistrustPlace {
    /// The tier's own directory. The record survives the end of the process and a power cut.
    Tier,
    /// The state directory. The record survives the end of the process and a power cut, even if the
    /// tier's device has failed.
    State,
    /// The runtime directory. The record survives the end of the process only, so it is used only
    /// under [`Durability::Process`]. After a restart of the machine, the boot in the mark makes
    /// every object unproven.
    Runtime,
}

impl fmt::Display for DistrustPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tier => "the disk directory",
            Self::State => "the state directory",
            Self::Runtime => "the runtime directory",
        })
    }
}

impl DistrustPlace {
    /// The bit of the place in the mark.
    const fn bit(self) -> u8 {
        match self {
            Self::Tier => 0,
            Self::State => 1,
            Self::Runtime => 2,
        }
    }
}

/// A file that begins with magic bytes. It is held open, so that it can be spoiled even if its path
/// leads elsewhere meanwhile.
pub(crate) struct Seal {
    pub(crate) place: DistrustPlace,
    file: Arc<dyn DiskFile>,
    /// The number of the life that it vouches for, or [`NONE`] for the mark.
    number: u64,
}

impl Seal {
    /// Opens the mark, or a witness that will only be spoiled.
    pub(crate) fn open(disk: &dyn Disk, place: DistrustPlace, path: &Path) -> io::Result<Self> {
        Ok(Self { place, file: disk.open(path, Access::Write)?, number: NONE })
    }

    /// Makes the file invalid for the next start, durably.
    pub(crate) fn spoil(&self) -> io::Result<()> {
        // Overwriting needs no new disk space. Truncating works even if a limit on file sizes
        // forbids writing.
        write_all(&*self.file, &[0; MAGIC.len()], 0).or_else(|_| self.file.truncate(0))?;
        self.file.sync()
    }

    /// Makes a spoiled witness vouch for its life again, durably. After an error its state is
    /// unknown.
    pub(crate) fn restore(&self) -> io::Result<()> {
        write_all(&*self.file, &content(self.number, NONE), 0)?;
        self.file.sync()
    }

    /// Removes the previous life's number from a witness, after the mark has received the new one.
    pub(crate) fn settle(&self) {
        // An error may be ignored: the only effect is that an old copy of the directory would be
        // accepted.
        let _ = write_all(&*self.file, &[0; NUMBER_BYTES], (MAGIC.len() + NUMBER_BYTES) as u64);
    }
}

/// The result of reading a witness.
enum WitnessReading {
    /// The number of its life, and that of the previous life as long as the mark may still be the
    /// previous one.
    Numbers(u64, u64),
    /// The file is spoiled or damaged.
    Spoiled,
    Absent,
    Unreadable,
}

/// The witnesses of one directory.
pub(crate) struct Witnesses {
    places: Vec<(DistrustPlace, Option<PathBuf>)>,
    name: String,
}

impl Witnesses {
    pub(crate) fn of(settings: &TierSettings) -> Self {
        let places = vec![
            (DistrustPlace::State, settings.state_directory.clone()),
            (DistrustPlace::Runtime, settings.runtime_directory.clone()),
        ];
        Self { places, name: name(&settings.directory) }
    }

    fn read(&self, disk: &dyn Disk, directory: Option<&Path>) -> WitnessReading {
        let Some(directory) = directory else { return WitnessReading::Absent };
        match disk.read(&directory.join(&self.name)) {
            Ok(octets) if octets.starts_with(MAGIC) => {
                let number = |at| u64_at(&octets, MAGIC.len() + at * NUMBER_BYTES);
                number(0).map_or(WitnessReading::Spoiled, |last| {
                    WitnessReading::Numbers(last, number(1).unwrap_or(NONE))
                })
            }
            Ok(_) => WitnessReading::Spoiled,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                WitnessReading::Absent
            }
            Err(_) => WitnessReading::Unreadable,
        }
    }

    /// Whether the contents that `mark` belongs to may be used in `boot`.
    pub(crate) fn vouch(&self, disk: &dyn Disk, mark: &DirectoryMark, boot: Option<&str>) -> bool {
        self.places.iter().all(|(place, directory)| {
            // A runtime directory is empty after a restart of the machine. The boot in the mark
            // then decides which objects are proven.
            let is_awaited = *place != DistrustPlace::Runtime || boot == Some(mark.boot.as_str());
            let is_named = mark.witnesses & place.bit() != 0;
            match self.read(disk, directory.as_deref()) {
                WitnessReading::Numbers(last, before) => !is_named || [last, before].contains(&mark.number),
                WitnessReading::Spoiled => false,
                // A directory that was closed cleanly misses no purge. The witness may be absent
                // because the directory was renamed.
                WitnessReading::Absent => !is_named || !is_awaited || mark.is_clean,
                WitnessReading::Unreadable => !is_named || !is_awaited,
            }
        })
    }

    /// Makes the witnesses vouch for the life `number`, and for the life `before` if its contents
    /// are used. Returns their bits for the new mark, and the open files.
    pub(crate) fn renew(
        &self,
        disk: &dyn Disk,
        (before, number): (Option<u64>, u64),
        durability: Durability,
    ) -> (u8, Vec<Seal>) {
        let mut bits = 0;
        let mut seals = Vec::new();
        for (place, directory) in &self.places {
            let Some(directory) = directory else { continue };
            let path = directory.join(&self.name);
            if *place == DistrustPlace::Runtime && durability == Durability::Power {
                // An error may be ignored: a remaining witness can only make the next start begin
                // empty.
                let _ = disk.remove(&path);
                continue;
            }
            let content = content(number, before.unwrap_or(NONE));
            let written = disk.create_directory(directory).and_then(|()| disk.replace(&path, &content));
            if let Ok(seal) = written.and_then(|()| Seal::open(disk, *place, &path)) {
                bits |= place.bit();
                seals.push(Seal { number, ..seal });
            }
        }
        (bits, seals)
    }
}

/// The contents of a witness for the life `number`, which also vouches for the life `before`.
fn content(number: u64, before: u64) -> Vec<u8> {
    [&MAGIC[..], &number.to_le_bytes(), &before.to_le_bytes()].concat()
}

/// Records that no later start may use the contents of a directory that could not be opened.
///
/// Only the state directory serves for this. The directory may have been closed cleanly, and a
/// record in the runtime directory would be lost when the machine restarts.
///
/// # Errors
/// As the system reports them. Nothing is recorded then.
pub fn distrust(disk: &dyn Disk, settings: &TierSettings) -> io::Result<()> {
    let Some(directory) = &settings.state_directory else { return Err(io::ErrorKind::NotFound.into()) };
    disk.create_directory(directory)?;
    Seal::open(disk, DistrustPlace::State, &directory.join(name(&settings.directory)))?.spoil()?;
    disk.sync_directory(directory)
}

/// The file name of a directory's witnesses: `tier-` and the FNV-1a hash of its absolute path.
fn name(directory: &Path) -> String {
    let path = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let hash = path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("tier-{hash:016x}")
}
