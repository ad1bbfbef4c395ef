//! The search for the file that answers a path: the attempts of the rules, index files, and the
//! compressed files beside the plain one.
//!
//! Invariant: every opened name is an accepted path, followed by suffixes of the rules and of
//! codings.

use crate::media_type::media_type;
use crate::open_files::OpenFiles;
use crate::opening::{NotFoundReason, Opened, OpenedFile, Opener, Stop};
use crate::representation::{Representation, Seen};
use crate::rules::FileRules;
use clock::Timestamp;
use semantics::{AcceptedCodings, Coding};
use std::sync::Arc;

/// A file in all its representations; the plain one is the first.
#[derive(Debug)]
pub(crate) struct FileEntry {
    representations: Vec<Arc<Representation>>,
}

impl FileEntry {
    /// The shortest representation that a client accepts.
    pub(crate) fn choose(&self, accepted: AcceptedCodings) -> Option<&Arc<Representation>> {
        let is_accepted =
            |found: &&Arc<Representation>| found.coding().is_none_or(|coding| accepted.has(coding));
        // Of several shortest ones this is the first.
        self.representations.iter().filter(is_accepted).min_by_key(|found| found.bytes())
    }

    /// The bytes of content in memory, and the number of descriptors.
    pub(crate) fn cost(&self) -> (usize, usize) {
        self.representations
            .iter()
            .map(|found| found.cost())
            .fold((0, 0), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1))
    }
}

/// The result of a search.
#[derive(Debug)]
pub(crate) enum Finding {
    File(FileEntry),
    /// A directory with an index file, named without a final slash.
    Redirect,
    Nothing(NotFoundReason),
}

/// A search, with its rules and files.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    pub(crate) opener: Opener<'a>,
    pub(crate) rules: &'a FileRules,
    pub(crate) wall: Timestamp,
    pub(crate) open_files: &'a OpenFiles,
    /// The result of an earlier search, for representations that are still right.
    pub(crate) before: Option<&'a FileEntry>,
}

impl Search<'_> {
    /// Finds the file for a path below the prefix of the rules. It is empty or begins with a slash.
    pub(crate) fn find(&self, path: &[u8]) -> Result<Finding, Stop> {
        let (plain, is_directory) = match path.strip_suffix(b"/") {
            Some(plain) => (plain, true),
            None => (path, false),
        };
        let plain = plain.strip_prefix(b"/").unwrap_or(plain);
        let mut reason = NotFoundReason::Absent;
        let mut has_directory = false;
        for suffix in &self.rules.suffixes {
            let found = match (&suffix[..], is_directory) {
                (b"", true) => self.open_index(plain)?,
                (b"", false) => self.open(plain)?,
                // The suffix of a name needs one, and a directory has none.
                ([first, ..], _) if *first != b'/' && (is_directory || plain.is_empty()) => continue,
                (suffix, _) => self.open(&joined(plain, suffix))?,
            };
            match found {
                Found::File(name, file) => return self.load(&name, file).map(Finding::File),
                Found::Directory if suffix.is_empty() => has_directory = true,
                Found::Directory => {}
                Found::Nothing(NotFoundReason::Absent) => {}
                Found::Nothing(more) => reason = more,
            }
        }
        if has_directory {
            match self.open_index(plain)? {
                Found::File(..) => return Ok(Finding::Redirect),
                Found::Directory | Found::Nothing(_) => reason = NotFoundReason::NoIndex,
            }
        }
        Ok(Finding::Nothing(reason))
    }

    /// Finds the file with exactly this name.
    pub(crate) fn find_exactly(&self, name: &[u8]) -> Result<Finding, Stop> {
        match self.open(name)? {
            Found::File(name, file) => self.load(&name, file).map(Finding::File),
            Found::Directory => Ok(Finding::Nothing(NotFoundReason::NotRegular)),
            Found::Nothing(reason) => Ok(Finding::Nothing(reason)),
        }
    }

    fn open(&self, name: &[u8]) -> Result<Found, Stop> {
        // The directory itself has the empty name.
        let system_name = if name.is_empty() { b"." } else { name };
        Ok(match self.opener.open(system_name)? {
            Opened::File(file) => Found::File(name.to_vec(), file),
            Opened::Directory => Found::Directory,
            Opened::Nothing(reason) => Found::Nothing(reason),
        })
    }

    /// The first index file of the directory with this name.
    fn open_index(&self, directory: &[u8]) -> Result<Found, Stop> {
        let mut reason = NotFoundReason::Absent;
        for index in &self.rules.index {
            match self.open(&joined(directory, &joined(b"/", index)))? {
                Found::File(name, file) => return Ok(Found::File(name, file)),
                Found::Directory | Found::Nothing(NotFoundReason::Absent) => {}
                Found::Nothing(more) => reason = more,
            }
        }
        Ok(Found::Nothing(reason))
    }

    /// All representations of a file. A compressed file counts unless it is older than the plain
    /// one, or is empty, as no compressor leaves it.
    fn load(&self, name: &[u8], plain: OpenedFile) -> Result<FileEntry, Stop> {
        let mut coded = Vec::new();
        for coding in Coding::ALL.into_iter().filter(|coding| self.rules.precompressed.has(*coding)) {
            match self.opener.open(&[name, suffix(coding).as_bytes()].concat())? {
                Opened::File(file) if file.identity.bytes > 0 && is_as_new(&file, &plain) => {
                    coded.push((coding, file))
                }
                Opened::File(_) | Opened::Directory | Opened::Nothing(_) => {}
            }
        }
        let varies = !coded.is_empty();
        let media_type = media_type(name);
        let files = std::iter::once((None, plain))
            .chain(coded.into_iter().map(|(coding, file)| (Some(coding), file)));
        let representations = files.map(|(coding, file)| {
            let before = self.before.map_or(&[][..], |before| &before.representations);
            if let Some(same) = before.iter().find(|before| before.is_of(&file, coding, varies)) {
                return Ok(Arc::clone(same));
            }
            let seen = Seen { mode: self.opener.mode, wall: self.wall, open_files: self.open_files };
            Representation::of(file, &media_type, coding, varies, &seen).map(Arc::new)
        });
        Ok(FileEntry { representations: representations.collect::<Result<_, _>>()? })
    }
}

/// The end of a compressed file's name, after the plain one's.
const fn suffix(coding: Coding) -> &'static str {
    match coding {
        Coding::Brotli => ".br",
        Coding::Zstd => ".zst",
        Coding::Gzip => ".gz",
    }
}

/// The file or directory that a name of the search leads to.
enum Found {
    /// A file with its name.
    File(Vec<u8>, OpenedFile),
    Directory,
    Nothing(NotFoundReason),
}

/// Name and suffix, without a slash at the beginning.
fn joined(name: &[u8], suffix: &[u8]) -> Vec<u8> {
    let joined = [name, suffix].concat();
    if name.is_empty() { joined.strip_prefix(b"/").unwrap_or(&joined).to_vec() } else { joined }
}

/// Whether a compressed file is not older than the plain one. Some compressors copy the time of the
/// plain file without its fraction, so a time without one counts in whole seconds.
fn is_as_new(coded: &OpenedFile, plain: &OpenedFile) -> bool {
    let (coded, plain) = (coded.identity.modified, plain.identity.modified);
    coded >= plain || (coded.nanos == 0 && coded.secs == plain.secs)
}
