//! The journal: all results so far, written to disk after every visit as one JSON document per
//! line.
//!
//! Invariants:
//!
//! * A complete line is never changed or removed.
//! * An incomplete last line (the process was killed while writing it) is dropped when the journal
//!   is read.
//! * A journal belongs to one plan.

use platform::Disk;
use report::results::{CellRun, PageRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The file's name in the output directory.
pub const JOURNAL_FILE: &str = "journal.jsonl";

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum JournalEntry {
    Plan(Header),
    Reference(PageRecord),
    NewReference { step: String, page: PageRecord },
    Run(Box<CellRun>),
}

/// First line of the journal: identifies the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// Hash of the plan, [`crate::LadderPlan::hash`].
    pub(crate) hash: String,
    /// Description of the plan for messages: title, effort, rounds, seed.
    pub(crate) words: String,
    /// Number of visits in the plan.
    pub(crate) visits: u64,
    /// Start of the walk, in seconds since 1970-01-01 UTC.
    pub(crate) started_at_s: u64,
    /// Chosen loopback ports by name. A resumed walk tries them first, so that recorded commands
    /// stay valid.
    pub(crate) ports: BTreeMap<String, u16>,
}

/// Content of a journal that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JournalContent {
    /// First line of the journal.
    pub(crate) header: Header,
    /// The first step's reference page; `None` until it is recorded.
    pub(crate) reference: Option<PageRecord>,
    /// Pages that steps declare as new references, by step id.
    pub(crate) new_references: BTreeMap<String, PageRecord>,
    /// Finished visits.
    pub(crate) runs: Vec<CellRun>,
}

impl JournalContent {
    /// A plan without any finished visit.
    pub(crate) fn new(header: Header) -> Self {
        Self { header, reference: None, new_references: BTreeMap::new(), runs: Vec::new() }
    }

    /// Whether every visit of the plan is finished.
    pub(crate) fn is_complete(&self) -> bool {
        self.runs.len() as u64 >= self.header.visits
    }
}

/// A journal open for writing.
pub(crate) struct WalkJournal<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
}

impl<'a> WalkJournal<'a> {
    /// Begins a new journal and replaces an existing one.
    pub(crate) fn begin(disk: &'a dyn Disk, directory: &Path, header: Header) -> io::Result<Self> {
        let journal = Self { disk, path: directory.join(JOURNAL_FILE) };
        disk.replace(&journal.path, &line(&JournalEntry::Plan(header))?)?;
        Ok(journal)
    }

    /// Reads the journal in a directory, if there is one. An incomplete last line is ignored.
    pub(crate) fn read(disk: &dyn Disk, directory: &Path) -> io::Result<Option<JournalContent>> {
        let path = directory.join(JOURNAL_FILE);
        let bytes = match disk.read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        parse(&bytes).map(|(past, _)| past)
    }

    /// Reopens the journal in a directory for writing. An incomplete last line is cut off first.
    pub(crate) fn resume(disk: &'a dyn Disk, directory: &Path) -> io::Result<Self> {
        let path = directory.join(JOURNAL_FILE);
        let bytes = disk.read(&path)?;
        let (_, whole) = parse(&bytes)?;
        if whole < bytes.len() {
            disk.replace(&path, bytes.get(..whole).unwrap_or_default())?;
        }
        Ok(Self { disk, path })
    }

    /// Records the first step's reference page.
    pub(crate) fn reference(&self, page: &PageRecord) -> io::Result<()> {
        self.disk.append(&self.path, &line(&JournalEntry::Reference(page.clone()))?)
    }

    /// Records the page that a step declares as a new reference.
    pub(crate) fn new_reference(&self, step: &str, page: &PageRecord) -> io::Result<()> {
        let entry = JournalEntry::NewReference { step: step.to_owned(), page: page.clone() };
        self.disk.append(&self.path, &line(&entry)?)
    }

    /// Records a finished visit.
    pub(crate) fn run(&self, run: &CellRun) -> io::Result<()> {
        self.disk.append(&self.path, &line(&JournalEntry::Run(Box::new(run.clone())))?)
    }
}

fn line(entry: &JournalEntry) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    Ok(line)
}

/// Parses a journal and returns it with the length of its complete lines in bytes. The journal is
/// `None` if not even the first line is complete.
fn parse(bytes: &[u8]) -> io::Result<(Option<JournalContent>, usize)> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut past: Option<JournalContent> = None;
    for line in
        bytes.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
    {
        let entry: JournalEntry = serde_json::from_slice(line)?;
        match (entry, &mut past) {
            (JournalEntry::Plan(header), None) => past = Some(JournalContent::new(header)),
            (JournalEntry::Reference(page), Some(past)) => past.reference = Some(page),
            (JournalEntry::NewReference { step, page }, Some(past)) => {
                past.new_references.insert(step, page);
            }
            (JournalEntry::Run(run), Some(past)) => past.runs.push(*run),
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the first line and no other line must be a plan",
                ));
            }
        }
    }
    Ok((past, whole))
}

#[cfg(test)]
mod tests {
    use super::{Header, JOURNAL_FILE, WalkJournal};
    use platform::{Disk, FaultyDisk, SystemDisk};
    use report::results::{CellRun, PageRecord, VisitOutcome};
    use std::collections::BTreeMap;

    fn header() -> Header {
        Header {
            hash: "abc".to_owned(),
            words: "three rounds".to_owned(),
            visits: 2,
            started_at_s: 5,
            ports: BTreeMap::from([("site".to_owned(), 4711)]),
        }
    }

    fn run(round: u64) -> CellRun {
        let outcome = VisitOutcome::Void { reason: "no".to_owned(), is_silent: false };
        CellRun { cell: "a".to_owned(), round, started_at_s: 6, visit_s: 1.5, outcome }
    }

    #[test]
    fn recorded_entries_are_read_back() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(WalkJournal::read(&SystemDisk, directory.path()).unwrap(), None);
        let journal = WalkJournal::begin(&SystemDisk, directory.path(), header()).unwrap();
        let page = PageRecord { title: None, length_bytes: 7, hash: "f".to_owned() };
        journal.reference(&page).unwrap();
        journal.new_reference("b", &page).unwrap();
        journal.run(&run(1)).unwrap();
        let past = WalkJournal::read(&SystemDisk, directory.path()).unwrap().unwrap();
        assert_eq!(past.new_references, BTreeMap::from([("b".to_owned(), page.clone())]));
        assert_eq!(
            (past.header.clone(), past.reference.clone(), past.runs.clone()),
            (header(), Some(page), vec![run(1)])
        );
        assert!(!past.is_complete());
        WalkJournal::resume(&SystemDisk, directory.path()).unwrap().run(&run(2)).unwrap();
        assert!(WalkJournal::read(&SystemDisk, directory.path()).unwrap().unwrap().is_complete());
    }

    #[test]
    fn incomplete_last_line_is_dropped_on_resume() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(JOURNAL_FILE);
        WalkJournal::begin(&SystemDisk, directory.path(), header()).unwrap().run(&run(1)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in 1..whole.len() - whole.iter().position(|byte| *byte == b'\n').unwrap() {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let resumed = WalkJournal::resume(&SystemDisk, directory.path()).unwrap();
            resumed.run(&run(2)).unwrap();
            let past = WalkJournal::read(&SystemDisk, directory.path()).unwrap().unwrap();
            assert_eq!(past.runs, [run(2)], "cut {cut}");
        }
    }

    #[test]
    fn journal_without_a_complete_line_counts_as_none() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(JOURNAL_FILE), "{\"plan\":{\"hash").unwrap();
        assert_eq!(WalkJournal::read(&SystemDisk, directory.path()).unwrap(), None);
    }

    #[test]
    fn invalid_journal_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        for text in ["hello\n", "{\"run\":1}\n", "{}\n"] {
            std::fs::write(directory.path().join(JOURNAL_FILE), text).unwrap();
            assert!(WalkJournal::read(&SystemDisk, directory.path()).is_err(), "{text}");
        }
    }

    #[test]
    fn full_disk_is_an_error_and_loses_no_entry() {
        let directory = tempfile::tempdir().unwrap();
        WalkJournal::begin(&SystemDisk, directory.path(), header()).unwrap().run(&run(1)).unwrap();
        let full = FaultyDisk::with_room(10);
        let journal = WalkJournal::resume(&full, directory.path()).unwrap();
        assert!(journal.run(&run(2)).is_err());
        assert_eq!(WalkJournal::read(&full as &dyn Disk, directory.path()).unwrap().unwrap().runs, [run(1)]);
    }
}
