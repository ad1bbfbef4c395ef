//! Writes the values of each minute into their file in `state_directory`.
//!
//! Invariants: one process writes the file, which has its lock. A process that takes over gets the
//! lock when the old one begins its drain. If another process keeps its past in the same directory,
//! this one writes nothing. One write runs at a time,
//! on a thread for disks, so a disk that hangs holds one thread and [`WAITING_MAX`] rows.

use crate::control::counters::Metric;
use crate::shared::Shared;
use history::{HEADER_BYTES, MINUTES, RECORD_BYTES, Row};
use platform::{Access, Disk, DiskFile, DiskLock};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::oneshot;

/// The file.
const FILE: &str = "history";

/// The file whose lock the writer holds.
const LOCK_FILE: &str = "history.lock";

/// A file of another format is moved here, over the one that was moved before.
const FORMER_FILE: &str = "history.old";

/// Largest file of another format that is moved. A larger one stays, and nothing is written.
const FORMER_BYTES_MAX: usize = 64 << 20;

/// Maximum number of rows that wait for the disk.
const WAITING_MAX: usize = 120;

/// Gives rows to the disk.
#[derive(Default)]
pub(crate) struct HistoryWriter {
    waiting: VecDeque<Row>,
    open: Option<OpenHistory>,
    /// Whether this process had the lock at its last write.
    owns_file: bool,
    /// Whether another process had it then.
    is_refused: bool,
    /// The write that is under way.
    running: Option<oneshot::Receiver<Written>>,
    /// Rows that it was given.
    given: u64,
}

/// The file of this process.
struct OpenHistory {
    file: Arc<dyn DiskFile>,
    _lock: DiskLock,
}

/// What a write has left.
struct Written {
    open: Option<OpenHistory>,
    rows: VecDeque<Row>,
    outcome: Outcome,
}

/// How a write has ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Everything was written.
    Done,
    /// Another process has the lock.
    Locked,
    /// The disk failed, for this reason.
    Failed(String),
}

impl HistoryWriter {
    /// Whether this process is the one that keeps the past in the state directory.
    pub(crate) const fn owns_file(&self) -> bool {
        self.owns_file
    }

    /// Writes a row, and those that wait. Without a state directory it does nothing.
    pub(crate) fn write(&mut self, shared: &Shared, row: Row) {
        let Some(directory) = &shared.plan.state_directory else { return };
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
            shared.cells(0).count(Metric::HistoryMinutesLost);
        }
        self.waiting.push_back(row);
        if let Some(running) = &mut self.running {
            match running.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => return shared.minutes.set_off(true),
                Ok(written) => self.take(shared, written),
                // The thread refused the work or panicked, and the rows are gone.
                Err(oneshot::error::TryRecvError::Closed) => {
                    shared.cells(0).add(Metric::HistoryMinutesLost, self.given);
                    shared.minutes.set_off(true);
                    (self.running, self.owns_file) = (None, false);
                }
            }
        }
        let (disk, directory) = (Arc::clone(&shared.system.disk), directory.clone());
        let (open, rows) = (self.open.take(), std::mem::take(&mut self.waiting));
        self.given = rows.len() as u64;
        let work = move || write_rows(&*disk, &directory, open, rows);
        self.running = Some(shared.disk_threads.begin(work));
    }

    fn take(&mut self, shared: &Shared, written: Written) {
        let Written { open, rows, outcome } = written;
        self.running = None;
        self.open = open;
        // A process before this one gives the lock back as soon as this one serves. If another one
        // still has it, the rows of both would mix, so this one keeps none.
        let was_refused = self.is_refused;
        self.is_refused = outcome == Outcome::Locked;
        self.owns_file = self.open.is_some();
        shared.minutes.set_off(outcome != Outcome::Done);
        if was_refused && self.is_refused {
            return tracing::debug!("another process keeps the past in the state directory");
        }
        for row in rows.into_iter().rev().take(WAITING_MAX - self.waiting.len().min(WAITING_MAX)) {
            self.waiting.push_front(row);
        }
        if let Outcome::Failed(problem) = outcome {
            shared.complaints.tell(&problem, shared.clock.monotonic());
        }
    }
}

/// The path of the file.
fn path_of(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// The rows of the file up to the minute `now`; none if it cannot be read. Blocks.
pub(crate) fn rows_in(disk: &dyn Disk, directory: &Path, now: u64) -> Vec<Row> {
    let content = disk.read(&path_of(directory)).unwrap_or_default();
    history::read(&content, now).unwrap_or_default()
}

/// Writes rows; those that could not be written are left.
fn write_rows(disk: &dyn Disk, directory: &Path, open: Option<OpenHistory>, rows: VecDeque<Row>) -> Written {
    let mut rows = rows;
    let open = match open.map_or_else(|| open_in(disk, directory), Ok) {
        Ok(open) => open,
        // The process before this one still writes, or another one always does.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Written { open: None, rows, outcome: Outcome::Locked };
        }
        Err(error) => {
            let outcome = Outcome::Failed(problem(directory, &error));
            return Written { open: None, rows, outcome };
        }
    };
    while let Some(row) = rows.front() {
        if let Err(error) = write_row(&*open.file, row) {
            let outcome = Outcome::Failed(problem(directory, &error));
            return Written { open: Some(open), rows, outcome };
        }
        rows.pop_front();
    }
    Written { open: Some(open), rows, outcome: Outcome::Done }
}

fn problem(directory: &Path, error: &io::Error) -> String {
    let file = path_of(directory);
    format!("the values of each minute cannot be written to {}: {error}", file.display())
}

/// Takes the lock and opens the file, which is created if there is none.
fn open_in(disk: &dyn Disk, directory: &Path) -> io::Result<OpenHistory> {
    disk.create_directory(directory)?;
    let lock = disk.lock(&directory.join(LOCK_FILE))?;
    let file = disk.open(&path_of(directory), Access::Write)?;
    let mut found = [0; HEADER_BYTES];
    let bytes = read_whole(&*file, &mut found, 0)?;
    if found != history::header() {
        if bytes > 0 {
            move_former(disk, directory)?;
            file.truncate(0)?;
        }
        write_whole(&*file, &history::header(), 0)?;
    }
    Ok(OpenHistory { file, _lock: lock })
}

/// Copies a file of another format to its other name.
fn move_former(disk: &dyn Disk, directory: &Path) -> io::Result<()> {
    let (path, former) = (path_of(directory), directory.join(FORMER_FILE));
    let content = disk.read(&path)?;
    if content.len() > FORMER_BYTES_MAX {
        return Err(io::Error::other("it is a large file of another format; move it away"));
    }
    disk.replace(&former, &content)?;
    tracing::warn!(
        "{} had another format and is now {}; the values of each minute begin anew",
        path.display(),
        former.display()
    );
    Ok(())
}

/// Writes a row, unless its minute was written already.
fn write_row(file: &dyn DiskFile, row: &Row) -> io::Result<()> {
    let (mut place, offset) = ([0; RECORD_BYTES], history::offset_of(row.minute));
    read_whole(file, &mut place, offset)?;
    if history::holds(&place, row.minute) {
        return Ok(());
    }
    write_whole(file, &row.record(), offset)
}

/// Fills `buffer` as far as the file goes; returns the number of bytes.
fn read_whole(file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + filled as u64)? {
            0 => break,
            bytes => filled += bytes,
        }
    }
    Ok(filled)
}

fn write_whole(file: &dyn DiskFile, content: &[u8], offset: u64) -> io::Result<()> {
    let mut written = 0;
    while let Some(rest) = content.get(written..).filter(|rest| !rest.is_empty()) {
        match file.write_at(rest, offset + written as u64)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            bytes => written += bytes,
        }
    }
    Ok(())
}

// The longest past is read at once.
const _: () = assert!(MINUTES * RECORD_BYTES as u64 <= 20_000_000);

#[cfg(test)]
mod tests {
    use super::{FILE, FORMER_FILE, Outcome, Written, write_rows};
    use history::{Figure, Row, header};
    use platform::SystemDisk;
    use std::collections::VecDeque;
    use std::path::Path;

    fn row(minute: u64, value: f64) -> Row {
        let mut row = Row::new(minute);
        row.set(Figure::Hits, Some(value));
        row
    }

    fn read(directory: &Path) -> Vec<(u64, Option<f64>)> {
        let content = std::fs::read(directory.join(FILE)).unwrap();
        let rows = history::read(&content, 29_000_100).unwrap();
        rows.iter().map(|row| (row.minute, row.get(Figure::Hits))).collect()
    }

    #[test]
    fn minute_is_written_once_and_by_one_process() {
        let directory = tempfile::tempdir().unwrap();
        let write = |open, rows: &[Row]| {
            write_rows(&SystemDisk, directory.path(), open, rows.iter().copied().collect::<VecDeque<_>>())
        };
        let first = write(None, &[row(29_000_001, 1.0), row(29_000_002, 2.0)]);
        assert!(first.rows.is_empty() && first.outcome == Outcome::Done);
        let other = write(None, &[row(29_000_003, 9.0)]);
        assert!(other.open.is_none() && other.rows.len() == 1);
        assert_eq!(other.outcome, Outcome::Locked);
        let again = write(first.open, &[row(29_000_002, 7.0), row(29_000_004, 4.0)]);
        assert!(again.rows.is_empty());
        let expected = vec![(29_000_001, Some(1.0)), (29_000_002, Some(2.0)), (29_000_004, Some(4.0))];
        assert_eq!(read(directory.path()), expected);
        drop(again);
        let Written { open, rows, outcome } = write(None, &[row(29_000_003, 3.0)]);
        assert!(open.is_some() && rows.is_empty() && outcome == Outcome::Done, "{outcome:?}");
        assert_eq!(read(directory.path()).len(), 4);
    }

    #[test]
    fn file_of_another_format_is_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        let mut other = header();
        other[16] = 2;
        std::fs::write(directory.path().join(FILE), other).unwrap();
        let written = write_rows(&SystemDisk, directory.path(), None, [row(29_000_001, 1.0)].into());
        assert_eq!(written.outcome, Outcome::Done);
        assert_eq!(read(directory.path()), [(29_000_001, Some(1.0))]);
        assert_eq!(std::fs::read(directory.path().join(FORMER_FILE)).unwrap(), other);
    }

    #[test]
    fn directory_that_cannot_be_used_is_a_problem() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let written = write_rows(&SystemDisk, file.path(), None, [row(1, 1.0)].into());
        assert!(written.rows.len() == 1 && matches!(written.outcome, Outcome::Failed(_)));
    }
}
