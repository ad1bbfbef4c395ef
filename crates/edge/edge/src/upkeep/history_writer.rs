//! Writes the values of each minute into their file in `state_directory`.
//!
//! Invariants: one process writes the file, which has its lock. A process that takes over gets the
//! lock when the old one begins its drain. If another process keeps its past in the same directory,
//! this one writes nothing. One write runs at a time, on a thread for disks, so a disk that hangs
//! holds one thread and [`WAITING_MAX`] rows. A file that was removed or replaced is begun anew.

use crate::control::counters::Metric;
use crate::shared::Shared;
use history::{HEADER_BYTES, MINUTES, RECORD_BYTES, Row};
use platform::{Access, Disk, DiskFile, DiskLock};
use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::MetadataExt as _;
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
const FORMER_BYTES_MAX: u64 = 64 << 20;

/// Bytes of one read of a whole file.
const READ_BYTES: usize = 64 << 10;

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
    /// It is held as long as this value lives.
    lock: DiskLock,
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
        self.begin(shared, directory);
    }

    /// Begins to write the rows that wait.
    fn begin(&mut self, shared: &Shared, directory: &Path) {
        let (disk, directory) = (Arc::clone(&shared.system.disk), directory.to_owned());
        let (open, rows) = (self.open.take(), std::mem::take(&mut self.waiting));
        self.given = rows.len() as u64;
        let work = move || write_rows(&*disk, &directory, open, rows);
        self.running = Some(shared.disk_threads.begin(work));
    }

    /// Writes the last row and those that wait, for as long as a disk may take.
    pub(crate) async fn end(&mut self, shared: &Shared, row: Option<Row>) {
        let Some(directory) = &shared.plan.state_directory else { return };
        self.finish_running(shared).await;
        self.waiting.extend(row);
        if self.running.is_none() && !self.waiting.is_empty() {
            self.begin(shared, directory);
            self.finish_running(shared).await;
        }
    }

    /// Waits for the write that is under way, for as long as a disk may take.
    async fn finish_running(&mut self, shared: &Shared) {
        let Some(running) = &mut self.running else { return };
        match tokio::time::timeout(shared.limits.disk_timeout, running).await {
            Ok(Ok(written)) => self.take(shared, written),
            Ok(Err(_)) => self.running = None,
            Err(_) => {}
        }
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
        shared.minutes.set_foreign(self.is_refused);
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
    let content = read_at_most(disk, &path_of(directory), history::FILE_BYTES).unwrap_or_default();
    history::read(&content, now).unwrap_or_default()
}

/// The content of a file of the state directory, whose length is checked before it takes memory.
///
/// # Errors
/// As the system reports them, or if the file has more than `bytes_max` bytes.
pub(crate) fn read_at_most(disk: &dyn Disk, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Access::Read)?;
    let mut content = Vec::new();
    let mut piece = vec![0; READ_BYTES];
    loop {
        let bytes = read_whole(&*file, &mut piece, content.len() as u64)?;
        let read = piece.get(..bytes).unwrap_or_default();
        if content.len() as u64 + read.len() as u64 > bytes_max {
            return Err(io::Error::other(format!("it has more than {bytes_max} bytes")));
        }
        content.extend_from_slice(read);
        if bytes < READ_BYTES {
            return Ok(content);
        }
    }
}

/// Writes rows; those that could not be written are left.
fn write_rows(disk: &dyn Disk, directory: &Path, open: Option<OpenHistory>, rows: VecDeque<Row>) -> Written {
    let mut rows = rows;
    let open = match open.map_or_else(|| open_in(disk, directory), |open| followed(disk, directory, open)) {
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
    // Once a minute, so that a power cut takes the last minute and never the header.
    let outcome =
        open.file.sync().map_or_else(|error| Outcome::Failed(problem(directory, &error)), |()| Outcome::Done);
    Written { open: Some(open), rows, outcome }
}

fn problem(directory: &Path, error: &io::Error) -> String {
    let file = path_of(directory);
    format!("the values of each minute cannot be written to {}: {error}", file.display())
}

/// Takes the lock and opens the file, which is created if there is none.
fn open_in(disk: &dyn Disk, directory: &Path) -> io::Result<OpenHistory> {
    disk.create_directory(directory)?;
    let lock = disk.lock(&directory.join(LOCK_FILE))?;
    let file = open_file(disk, directory)?;
    Ok(OpenHistory { file, lock })
}

/// The open file, or the one that has its name now if it was removed or replaced meanwhile.
fn followed(disk: &dyn Disk, directory: &Path, open: OpenHistory) -> io::Result<OpenHistory> {
    let is_same = match disk.open(&path_of(directory), Access::Read) {
        Ok(named) => is_same_file(&*named, &*open.file)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    if is_same {
        return Ok(open);
    }
    Ok(OpenHistory { file: open_file(disk, directory)?, lock: open.lock })
}

/// Whether two handles are of one file. A disk without files of the system cannot tell.
fn is_same_file(one: &dyn DiskFile, other: &dyn DiskFile) -> io::Result<bool> {
    let (Some(one), Some(other)) = (one.system_file(), other.system_file()) else { return Ok(true) };
    let (one, other) = (one.metadata()?, other.metadata()?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// Opens the file, which gets its header if it is new or of another format.
fn open_file(disk: &dyn Disk, directory: &Path) -> io::Result<Arc<dyn DiskFile>> {
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
    Ok(file)
}

/// Copies a file of another format to its other name.
fn move_former(disk: &dyn Disk, directory: &Path) -> io::Result<()> {
    let (path, former) = (path_of(directory), directory.join(FORMER_FILE));
    let content = read_at_most(disk, &path, FORMER_BYTES_MAX)
        .map_err(|error| io::Error::other(format!("it has another format; move it away: {error}")))?;
    disk.replace(&former, &content)?;
    tracing::warn!(
        "{} had another format and is now {}; the values of each minute begin anew",
        path.display(),
        former.display()
    );
    Ok(())
}

/// Writes a row, or joins it with another part of its minute. A whole minute is written once.
fn write_row(file: &dyn DiskFile, row: &Row) -> io::Result<()> {
    let (mut place, offset) = ([0; RECORD_BYTES], history::offset_of(row.minute));
    read_whole(file, &mut place, offset)?;
    history::updated(&place, row).map_or(Ok(()), |row| write_whole(file, &row.record(), offset))
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
    use super::{
        FILE, FORMER_BYTES_MAX, FORMER_FILE, HistoryWriter, Outcome, Written, read_at_most, write_rows,
    };
    use crate::shared::Shared;
    use crate::system::System;
    use config::EdgePlan;
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
    fn parts_of_a_minute_by_two_processes_become_one_row() {
        let directory = tempfile::tempdir().unwrap();
        for (secs, value) in [(20, 3.0), (40, 0.0), (60, 9.0)] {
            let part = row(29_000_001, value).lasting(secs);
            let written = write_rows(&SystemDisk, directory.path(), None, [part].into());
            assert_eq!(written.outcome, Outcome::Done);
        }
        assert_eq!(read(directory.path()), [(29_000_001, Some(1.0))]);
    }

    #[test]
    fn file_that_was_removed_or_replaced_is_begun_anew() {
        let directory = tempfile::tempdir().unwrap();
        let mut open = None;
        for minute in 1..=3 {
            let written =
                write_rows(&SystemDisk, directory.path(), open, [row(29_000_000 + minute, 1.0)].into());
            assert_eq!(written.outcome, Outcome::Done);
            assert_eq!(read(directory.path()).len(), 1, "minute {minute}");
            open = written.open;
            let file = directory.path().join(FILE);
            match minute {
                1 => std::fs::remove_file(file).unwrap(),
                _ => std::fs::rename(
                    tempfile::NamedTempFile::new_in(&directory).unwrap().into_temp_path(),
                    file,
                )
                .unwrap(),
            }
        }
    }

    #[test]
    fn large_files_are_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        std::fs::write(&path, vec![7; 200_000]).unwrap();
        assert_eq!(read_at_most(&SystemDisk, &path, 200_000).unwrap().len(), 200_000);
        assert!(read_at_most(&SystemDisk, &path, 199_999).is_err());
        // It takes no space.
        std::fs::File::create(&path).unwrap().set_len(FORMER_BYTES_MAX + 1).unwrap();
        let written = write_rows(&SystemDisk, directory.path(), None, [row(1, 1.0)].into());
        assert!(matches!(written.outcome, Outcome::Failed(why) if why.contains("another format")));
    }

    #[tokio::test]
    async fn failed_write_leaves_the_past_readable() {
        let directory = tempfile::tempdir().unwrap();
        let shared = |directory: &Path| {
            let mut plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
            plan.state_directory = Some(directory.to_owned());
            Shared::new(plan, None, System::of_machine())
        };
        let flags = |shared: &Shared| (shared.minutes.is_off(), shared.minutes.is_foreign());
        let mut writer = HistoryWriter::default();
        let first = shared(directory.path());
        writer.end(&first, Some(row(29_000_001, 1.0))).await;
        assert_eq!(flags(&first), (false, false));
        let second = shared(directory.path());
        HistoryWriter::default().end(&second, Some(row(29_000_002, 1.0))).await;
        assert_eq!(flags(&second), (true, true), "the file belongs to the first process");
        drop(writer);
        std::fs::remove_file(directory.path().join(FILE)).unwrap();
        std::fs::create_dir(directory.path().join(FILE)).unwrap();
        HistoryWriter::default().end(&second, Some(row(29_000_002, 1.0))).await;
        assert_eq!(flags(&second), (true, false), "the disk fails");
    }

    #[test]
    fn directory_that_cannot_be_used_is_a_problem() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let written = write_rows(&SystemDisk, file.path(), None, [row(1, 1.0)].into());
        assert!(written.rows.len() == 1 && matches!(written.outcome, Outcome::Failed(_)));
    }
}
