//! What was measured so far, on disk after every visit: one JSON document a line.
//!
//! Invariant: a line that was written whole is kept for ever; a part of a line (the process was killed while
//! writing) is dropped when the journal is opened again. A journal belongs to one plan.

use platform::Disk;
use report::results::{PageRecord, Run};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The file's name in the output directory.
pub const JOURNAL_FILE: &str = "journal.jsonl";

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Entry {
    Plan(Header),
    Reference(PageRecord),
    NewReference { step: String, page: PageRecord },
    Run(Box<Run>),
}

/// The first line: which plan this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// The plan's hash.
    pub(crate) hash: String,
    /// What it is, in words, for messages: title, effort, rounds, seed.
    pub(crate) words: String,
    /// How many visits it has.
    pub(crate) visits: u64,
    /// When it was begun, in seconds since 1970-01-01 UTC.
    pub(crate) started_at_s: u64,
    /// The ports that were chosen, by name; the same are tried again, so that noted commands stay right.
    pub(crate) ports: BTreeMap<String, u16>,
}

/// A journal that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Past {
    /// Its plan.
    pub(crate) header: Header,
    /// The reference page.
    pub(crate) reference: Option<PageRecord>,
    /// The pages that steps declare as new references, by the step's id.
    pub(crate) new_references: BTreeMap<String, PageRecord>,
    /// Visits that were made.
    pub(crate) runs: Vec<Run>,
}

impl Past {
    /// A plan of which nothing is done.
    pub(crate) fn new(header: Header) -> Self {
        Self { header, reference: None, new_references: BTreeMap::new(), runs: Vec::new() }
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_complete(&self) -> bool {
        self.runs.len() as u64 >= self.header.visits
    }
}

/// A journal open for writing.
pub(crate) struct Journal<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
}

impl<'a> Journal<'a> {
    /// Begins a new journal, in place of one that may be there.
    pub(crate) fn begin(disk: &'a dyn Disk, directory: &Path, header: Header) -> io::Result<Self> {
        let journal = Self { disk, path: directory.join(JOURNAL_FILE) };
        disk.replace(&journal.path, &line(&Entry::Plan(header))?)?;
        Ok(journal)
    }

    /// Reads the journal of a directory, if there is one. A part of a line at its end is dropped.
    pub(crate) fn read(disk: &dyn Disk, directory: &Path) -> io::Result<Option<Past>> {
        let path = directory.join(JOURNAL_FILE);
        let bytes = match disk.read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        parse(&bytes).map(|(past, _)| past)
    }

    /// Goes on with the journal of a directory, whose last line is cut off if it is not whole.
    pub(crate) fn resume(disk: &'a dyn Disk, directory: &Path) -> io::Result<Self> {
        let path = directory.join(JOURNAL_FILE);
        let bytes = disk.read(&path)?;
        let (_, whole) = parse(&bytes)?;
        if whole < bytes.len() {
            disk.replace(&path, bytes.get(..whole).unwrap_or_default())?;
        }
        Ok(Self { disk, path })
    }

    /// Notes the reference page.
    pub(crate) fn reference(&self, page: &PageRecord) -> io::Result<()> {
        self.disk.append(&self.path, &line(&Entry::Reference(page.clone()))?)
    }

    /// Notes the page that a step declares as a new reference.
    pub(crate) fn new_reference(&self, step: &str, page: &PageRecord) -> io::Result<()> {
        let entry = Entry::NewReference { step: step.to_owned(), page: page.clone() };
        self.disk.append(&self.path, &line(&entry)?)
    }

    /// Notes a visit.
    pub(crate) fn run(&self, run: &Run) -> io::Result<()> {
        self.disk.append(&self.path, &line(&Entry::Run(Box::new(run.clone())))?)
    }
}

fn line(entry: &Entry) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    Ok(line)
}

/// The journal that octets are, and how many of them are whole lines. `None` if not even the first line is.
fn parse(bytes: &[u8]) -> io::Result<(Option<Past>, usize)> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut past: Option<Past> = None;
    for line in
        bytes.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
    {
        let entry: Entry = serde_json::from_slice(line)?;
        match (entry, &mut past) {
            (Entry::Plan(header), None) => past = Some(Past::new(header)),
            (Entry::Reference(page), Some(past)) => past.reference = Some(page),
            (Entry::NewReference { step, page }, Some(past)) => {
                past.new_references.insert(step, page);
            }
            (Entry::Run(run), Some(past)) => past.runs.push(*run),
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the first line, and no other, is a plan",
                ));
            }
        }
    }
    Ok((past, whole))
}

#[cfg(test)]
mod tests {
    use super::{Header, JOURNAL_FILE, Journal};
    use platform::{Disk, FaultyDisk, SystemDisk};
    use report::results::{Outcome, PageRecord, Run};
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

    fn run(round: u64) -> Run {
        let outcome = Outcome::Void { reason: "no".to_owned(), is_silent: false };
        Run { cell: "a".to_owned(), round, started_at_s: 6, visit_s: 1.5, outcome }
    }

    #[test]
    fn what_is_noted_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Journal::read(&SystemDisk, directory.path()).unwrap(), None);
        let journal = Journal::begin(&SystemDisk, directory.path(), header()).unwrap();
        let page = PageRecord { title: None, length_bytes: 7, hash: "f".to_owned() };
        journal.reference(&page).unwrap();
        journal.new_reference("b", &page).unwrap();
        journal.run(&run(1)).unwrap();
        let past = Journal::read(&SystemDisk, directory.path()).unwrap().unwrap();
        assert_eq!(past.new_references, BTreeMap::from([("b".to_owned(), page.clone())]));
        assert_eq!(
            (past.header.clone(), past.reference.clone(), past.runs.clone()),
            (header(), Some(page), vec![run(1)])
        );
        assert!(!past.is_complete());
        Journal::resume(&SystemDisk, directory.path()).unwrap().run(&run(2)).unwrap();
        assert!(Journal::read(&SystemDisk, directory.path()).unwrap().unwrap().is_complete());
    }

    #[test]
    fn a_line_that_was_cut_off_is_dropped_and_the_next_one_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(JOURNAL_FILE);
        Journal::begin(&SystemDisk, directory.path(), header()).unwrap().run(&run(1)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in 1..whole.len() - whole.iter().position(|byte| *byte == b'\n').unwrap() {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let resumed = Journal::resume(&SystemDisk, directory.path()).unwrap();
            resumed.run(&run(2)).unwrap();
            let past = Journal::read(&SystemDisk, directory.path()).unwrap().unwrap();
            assert_eq!(past.runs, [run(2)], "cut {cut}");
        }
    }

    #[test]
    fn a_killed_beginning_is_no_journal() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(JOURNAL_FILE), "{\"plan\":{\"hash").unwrap();
        assert_eq!(Journal::read(&SystemDisk, directory.path()).unwrap(), None);
    }

    #[test]
    fn what_is_no_journal_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        for text in ["hello\n", "{\"run\":1}\n", "{}\n"] {
            std::fs::write(directory.path().join(JOURNAL_FILE), text).unwrap();
            assert!(Journal::read(&SystemDisk, directory.path()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_full_disk_is_an_error_and_loses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        Journal::begin(&SystemDisk, directory.path(), header()).unwrap().run(&run(1)).unwrap();
        let full = FaultyDisk::with_room(10);
        let journal = Journal::resume(&full, directory.path()).unwrap();
        assert!(journal.run(&run(2)).is_err());
        assert_eq!(Journal::read(&full as &dyn Disk, directory.path()).unwrap().unwrap().runs, [run(1)]);
    }
}
