//! The output directory: its lock, and the files that an earlier walk left in it.
//!
//! Invariant: no measurement is overwritten. The files of a finished walk move to `earlier/` before
//! another walk begins. An unfinished walk of another plan is an error, unless the user asks for a
//! fresh start.

use crate::journal::{JOURNAL_FILE, JournalContent, WalkJournal};
use crate::walk::LadderError;
use platform::Disk;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// File name of the results.
pub const RESULTS_FILE: &str = "results.json";
/// File name of the report.
pub const REPORT_FILE: &str = "report.html";
/// File name of the reference page; its content is normalised.
pub(crate) const REFERENCE_FILE: &str = "reference.page";
/// File name of the page that a step declares as a new reference.
pub(crate) fn new_reference_file(step: &str) -> String {
    format!("{NEW_REFERENCE_PREFIX}{step}{PAGE_SUFFIX}")
}

const NEW_REFERENCE_PREFIX: &str = "reference-";
const PAGE_SUFFIX: &str = ".page";
/// Lock file: locked while a walk writes to the directory.
const LOCK_FILE: &str = "lock";
/// Directory for the files of earlier walks.
const EARLIER: &str = "earlier";

/// An output directory that this process has locked. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct OutputDirectory {
    pub(crate) directory: PathBuf,
    _lock: File,
}

impl OutputDirectory {
    /// Creates the directory if it does not exist, and locks it. If another process holds the lock,
    /// the error is [`LadderError::Busy`].
    pub(crate) fn open(directory: &Path, disk: &dyn Disk) -> Result<Self, LadderError> {
        let fault =
            |source| LadderError::Disk { what: format!("output directory {}", directory.display()), source };
        disk.create_directory(directory).map_err(fault)?;
        let directory = directory.canonicalize().map_err(fault)?;
        let lock = File::create(directory.join(LOCK_FILE)).map_err(fault)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { directory, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(LadderError::Busy(directory)),
            Err(TryLockError::Error(source)) => Err(fault(source)),
        }
    }

    /// Returns the journal of an unfinished walk of this plan. The files of a finished walk are
    /// moved aside; with `fresh`, all files are moved aside. An unfinished walk of another plan is
    /// an error.
    pub(crate) fn past(
        &self,
        hash: &str,
        words: &str,
        fresh: bool,
        disk: &dyn Disk,
    ) -> Result<Option<JournalContent>, LadderError> {
        let path = self.directory.join(JOURNAL_FILE);
        let past = match WalkJournal::read(disk, &self.directory) {
            Ok(past) => past,
            Err(_) if fresh => None,
            Err(source) => return Err(LadderError::Journal { path, source }),
        };
        match past {
            Some(past) if !fresh && !past.is_complete() && past.header.hash == hash => Ok(Some(past)),
            Some(past) if !fresh && !past.is_complete() => Err(LadderError::OtherPlan {
                directory: self.directory.clone(),
                found: past.header.words,
                asked: words.to_owned(),
            }),
            past => {
                let name =
                    past.map_or_else(|| "unknown".to_owned(), |past| past.header.started_at_s.to_string());
                self.set_aside(&name)?;
                Ok(None)
            }
        }
    }

    /// File names of the new reference pages that an earlier walk wrote.
    fn new_references(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().filter_map(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with(NEW_REFERENCE_PREFIX) && name.ends_with(PAGE_SUFFIX)).collect()
    }

    /// Moves the files of an earlier walk to a new subdirectory of `earlier/`.
    fn set_aside(&self, name: &str) -> Result<(), LadderError> {
        let earlier = self.directory.join(EARLIER);
        // A number is appended when two walks began in the same second.
        let free = (0..).map(|number| match number {
            0 => earlier.join(name),
            number => earlier.join(format!("{name}-{number}")),
        });
        let aside = free.into_iter().find(|path| !path.exists()).unwrap_or_else(|| earlier.join(name));
        let fixed = [JOURNAL_FILE, RESULTS_FILE, REPORT_FILE, REFERENCE_FILE].map(str::to_owned);
        for file in fixed.into_iter().chain(self.new_references()) {
            let from = self.directory.join(&file);
            if from.exists() {
                let moved =
                    std::fs::create_dir_all(&aside).and_then(|()| std::fs::rename(&from, aside.join(&file)));
                moved.map_err(|source| LadderError::Disk {
                    what: format!("moving {} aside", from.display()),
                    source,
                })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{OutputDirectory, RESULTS_FILE};
    use crate::journal::{Header, WalkJournal};
    use crate::walk::LadderError;
    use platform::SystemDisk;
    use std::path::Path;

    fn begin(directory: &Path, hash: &str, visits: u64) {
        let header = Header {
            hash: hash.to_owned(),
            words: format!("plan {hash}"),
            visits,
            started_at_s: 77,
            ports: std::collections::BTreeMap::new(),
        };
        WalkJournal::begin(&SystemDisk, directory, header).unwrap();
        std::fs::write(directory.join(RESULTS_FILE), hash).unwrap();
    }

    #[test]
    fn unfinished_walk_of_the_same_plan_is_resumed() {
        let directory = tempfile::tempdir().unwrap();
        begin(directory.path(), "a", 1);
        let output = OutputDirectory::open(directory.path(), &SystemDisk).unwrap();
        assert!(output.past("a", "plan a", false, &SystemDisk).unwrap().is_some());
        assert!(directory.path().join(RESULTS_FILE).exists());
    }

    #[test]
    fn unfinished_walk_of_another_plan_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        begin(directory.path(), "a", 1);
        let output = OutputDirectory::open(directory.path(), &SystemDisk).unwrap();
        let error = output.past("b", "plan b", false, &SystemDisk).unwrap_err();
        assert!(matches!(error, LadderError::OtherPlan { .. }));
        assert!(error.to_string().contains("--fresh"), "{error}");
        assert!(output.past("b", "plan b", true, &SystemDisk).unwrap().is_none());
        assert_eq!(std::fs::read(directory.path().join("earlier/77").join(RESULTS_FILE)).unwrap(), b"a");
    }

    #[test]
    fn finished_walk_is_moved_aside_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let output = OutputDirectory::open(directory.path(), &SystemDisk).unwrap();
        for name in ["earlier/77", "earlier/77-1", "earlier/77-2"] {
            begin(directory.path(), "a", 0);
            assert!(output.past("a", "plan a", false, &SystemDisk).unwrap().is_none());
            assert!(directory.path().join(name).join(RESULTS_FILE).exists());
            assert!(!directory.path().join(RESULTS_FILE).exists());
        }
    }

    #[test]
    fn directory_has_one_owner() {
        let directory = tempfile::tempdir().unwrap();
        let first = OutputDirectory::open(directory.path(), &SystemDisk).unwrap();
        assert!(matches!(OutputDirectory::open(directory.path(), &SystemDisk), Err(LadderError::Busy(_))));
        drop(first);
        assert!(OutputDirectory::open(directory.path(), &SystemDisk).is_ok());
    }
}
