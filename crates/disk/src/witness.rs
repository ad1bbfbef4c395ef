//! Files outside of the tier's directory that vouch for its contents, so that they can be distrusted when the
//! directory's own device fails.
//!
//! Invariant: the contents count only while the mark and every witness that the mark names carry one number, which is
//! new for each life. Spoiling or losing one of them makes the next start begin empty. A witness gets the number of a
//! new life only after a distrusted directory was emptied durably. Until the mark has the number too, a witness also
//! carries that of the life before, so that a crash in between keeps the contents.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Access, Disk, DiskFile};

use crate::frame::u64_at;
use crate::mark::Mark;
use crate::piece::write_all;
use crate::{Durability, Settings};

const MAGIC: &[u8; 8] = b"PETASOSW";
const NUMBER_BYTES: usize = size_of::<u64>();

/// The number of no life.
const NONE: u64 = 0;

/// A number for a life that no other life has.
pub(crate) fn draw() -> u64 {
    // The least bit sets it apart from that of no life.
    RandomState::new().hash_one("life") | 1
}

/// Where the distrust of the tier's contents was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistrustPlace {
    /// The tier's own directory. Outlives the process and a power cut.
    Tier,
    /// The state directory. Outlives the process and a power cut, also when the tier's device is dead.
    State,
    /// The runtime directory. Outlives the process only, so it serves only under [`Durability::Process`]: there the
    /// boot in the mark makes every object unproven after a restart of the machine.
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
    /// The place's bit in the mark.
    const fn bit(self) -> u8 {
        match self {
            Self::Tier => 0,
            Self::State => 1,
            Self::Runtime => 2,
        }
    }
}

/// A file that begins with a magic, held open so that it can be spoiled even when its name leads elsewhere.
pub(crate) struct Seal {
    pub(crate) place: DistrustPlace,
    file: Arc<dyn DiskFile>,
    /// The number of the life that it vouches for; [`NONE`] for the mark.
    number: u64,
}

impl Seal {
    /// The mark's file, or that of a witness which is only to be spoiled.
    pub(crate) fn open(disk: &dyn Disk, place: DistrustPlace, path: &Path) -> io::Result<Self> {
        Ok(Self { place, file: disk.open(path, Access::Write)?, number: NONE })
    }

    /// Makes the file unreadable for the next start, durably.
    pub(crate) fn spoil(&self) -> io::Result<()> {
        // Overwriting needs no new room. Truncation works where a limit on the size of files forbids even that.
        write_all(&*self.file, &[0; MAGIC.len()], 0).or_else(|_| self.file.truncate(0))?;
        self.file.sync()
    }

    /// Makes a spoiled witness vouch for its life again, durably. After an error it may do so or not.
    pub(crate) fn restore(&self) -> io::Result<()> {
        write_all(&*self.file, &content(self.number, NONE), 0)?;
        self.file.sync()
    }

    /// The mark has the number: the witness gives up that of the life before.
    pub(crate) fn settle(&self) {
        // Without this, a copy of the directory from the life before would count. Nothing else depends on it.
        let _ = write_all(&*self.file, &[0; NUMBER_BYTES], (MAGIC.len() + NUMBER_BYTES) as u64);
    }
}

/// What stands where a witness should be.
enum Found {
    /// The number of the life, and of the one before while that one's mark may still stand.
    Numbers(u64, u64),
    /// It was spoiled or damaged.
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
    pub(crate) fn of(settings: &Settings) -> Self {
        let places = vec![
            (DistrustPlace::State, settings.state_directory.clone()),
            (DistrustPlace::Runtime, settings.runtime_directory.clone()),
        ];
        Self { places, name: name(&settings.directory) }
    }

    fn read(&self, disk: &dyn Disk, directory: Option<&Path>) -> Found {
        let Some(directory) = directory else { return Found::Absent };
        match disk.read(&directory.join(&self.name)) {
            Ok(octets) if octets.starts_with(MAGIC) => {
                let number = |at| u64_at(&octets, MAGIC.len() + at * NUMBER_BYTES);
                number(0).map_or(Found::Spoiled, |last| Found::Numbers(last, number(1).unwrap_or(NONE)))
            }
            Ok(_) => Found::Spoiled,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Found::Absent
            }
            Err(_) => Found::Unreadable,
        }
    }

    /// Whether the contents that `mark` belongs to may be used in `boot`.
    pub(crate) fn vouch(&self, disk: &dyn Disk, mark: &Mark, boot: Option<&str>) -> bool {
        self.places.iter().all(|(place, directory)| {
            // A runtime directory is empty after a restart of the machine. The mark says what is proven then.
            let is_awaited = *place != DistrustPlace::Runtime || boot == Some(mark.boot.as_str());
            let is_named = mark.witnesses & place.bit() != 0;
            match self.read(disk, directory.as_deref()) {
                Found::Numbers(last, before) => !is_named || [last, before].contains(&mark.number),
                Found::Spoiled => false,
                // No purge is missing from a directory that was left cleanly; its name may have changed.
                Found::Absent => !is_named || !is_awaited || mark.is_clean,
                Found::Unreadable => !is_named || !is_awaited,
            }
        })
    }

    /// Lets the witnesses vouch for a life with this number, and for the life `before` if its contents are used. Gives
    /// the bits for the new mark, and the open witnesses.
    pub(crate) fn renew(
        &self,
        disk: &dyn Disk,
        (before, number): (Option<u64>, u64),
        durability: Durability,
    ) -> (u8, Vec<Seal>) {
        let (mut bits, mut seals) = (0, Vec::new());
        for (place, directory) in &self.places {
            let Some(directory) = directory else { continue };
            let path = directory.join(&self.name);
            if *place == DistrustPlace::Runtime && durability == Durability::Power {
                // A witness that stays after all only makes the next start begin empty.
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

/// What a witness of the life `number` contains, which vouches for the life `before` as well.
fn content(number: u64, before: u64) -> Vec<u8> {
    [&MAGIC[..], &number.to_le_bytes(), &before.to_le_bytes()].concat()
}

/// Records that the contents of a directory which could not be opened are not to be used by any later start. Only the
/// state directory serves for this: the directory may have been left cleanly, so that a restart of the machine, which
/// clears the runtime directory, would leave nothing against it.
///
/// # Errors
/// As the system reports them; nothing is recorded then.
pub fn distrust(disk: &dyn Disk, settings: &Settings) -> io::Result<()> {
    let Some(directory) = &settings.state_directory else { return Err(io::ErrorKind::NotFound.into()) };
    disk.create_directory(directory)?;
    Seal::open(disk, DistrustPlace::State, &directory.join(name(&settings.directory)))?.spoil()?;
    disk.sync_directory(directory)
}

/// The name of a directory's witnesses: `tier-` and the FNV-1a hash of its path.
fn name(directory: &Path) -> String {
    let path = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let hash = path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("tier-{hash:016x}")
}
