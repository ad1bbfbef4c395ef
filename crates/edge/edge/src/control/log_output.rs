//! The file or stream that receives the access log.
//!
//! Invariants: a line is written completely, or lost and counted. An output that fails, or a file
//! that cannot be reopened, stops nothing: the old file stays open, and the operator is told once.

use config::AccessLogTarget;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of bytes after which lines are written.
const BATCH_BYTES: usize = 64 * 1024;

/// State shared between the log's writer and other threads.
#[derive(Debug, Default)]
pub(crate) struct LogState {
    /// The file must be reopened.
    is_reopening: AtomicBool,
    /// Number of lines that could not be written.
    lost: AtomicU64,
}

/// The writer's side of the log.
pub(crate) struct LogOutput {
    /// The path of the file; `None` for a stream, which cannot be reopened.
    path: Option<PathBuf>,
    to: Box<dyn Write + Send>,
    batch: Vec<u8>,
    batch_lines: u64,
    /// Whether the last write failed, perhaps in the middle of a line.
    is_failing: bool,
    state: Arc<LogState>,
}

impl LogState {
    /// Requests that the file is reopened.
    pub(crate) fn reopen(&self) {
        self.is_reopening.store(true, Ordering::SeqCst);
    }

    /// Number of lines that could not be written so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl LogOutput {
    /// Opens the target of the log.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn open(target: &AccessLogTarget, state: Arc<LogState>) -> io::Result<Self> {
        Ok(match target {
            AccessLogTarget::Stdout => Self::new(Box::new(io::stdout()), state),
            AccessLogTarget::File(path) => {
                let output = Self::new(Box::new(open(path)?), state);
                Self { path: Some(path.clone()), ..output }
            }
        })
    }

    /// A log on a stream.
    pub(crate) fn new(to: Box<dyn Write + Send>, state: Arc<LogState>) -> Self {
        Self { path: None, to, batch: Vec::new(), batch_lines: 0, is_failing: false, state }
    }

    /// Adds a line. An empty one only wakes the writer.
    pub(crate) fn put(&mut self, line: &[u8]) {
        if self.state.is_reopening.swap(false, Ordering::SeqCst) {
            self.reopen();
        }
        if line.is_empty() {
            return;
        }
        self.batch.extend_from_slice(line);
        self.batch_lines += 1;
        if self.batch.len() >= BATCH_BYTES {
            self.flush();
        }
    }

    /// Writes the lines added so far.
    pub(crate) fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        if self.is_failing {
            // Ends the partial line that was written before the failure.
            self.batch.insert(0, b'\n');
        }
        let written = self.to.write_all(&self.batch).and_then(|()| self.to.flush());
        let was_failing = std::mem::replace(&mut self.is_failing, written.is_err());
        match written {
            Ok(()) if was_failing => tracing::info!("{} can be written again", self.name()),
            Ok(()) => {}
            Err(error) => {
                // Relaxed is enough: no other memory depends on the count.
                self.state.lost.fetch_add(self.batch_lines, Ordering::Relaxed);
                if !was_failing {
                    tracing::error!("{} cannot be written, so its lines are lost: {error}", self.name());
                }
            }
        }
        self.batch.clear();
        self.batch_lines = 0;
    }

    fn reopen(&mut self) {
        self.flush();
        let Some(path) = &self.path else { return };
        match open(path) {
            Ok(file) => {
                self.to = Box::new(file);
                self.is_failing = false;
                tracing::info!("{} is reopened", self.name());
            }
            Err(error) => tracing::error!(
                "{} cannot be reopened; its lines still go to the file that was open: {error}",
                self.name()
            ),
        }
    }

    fn name(&self) -> String {
        match &self.path {
            Some(path) => format!("the access log {}", path.display()),
            None => "the access log on standard output".to_owned(),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::{LogOutput, LogState};
    use std::io::{self, Write};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    /// A device that can be made full: it then accepts three more bytes and fails.
    #[derive(Clone, Default)]
    struct Device(Arc<(AtomicBool, Mutex<Vec<u8>>)>);

    impl Write for Device {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            let mut content = self.0.1.lock().unwrap();
            if self.0.0.load(Ordering::SeqCst) {
                if content.last() != Some(&b'\n') {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                content.extend_from_slice(&octets[..3]);
                return Ok(3);
            }
            content.extend_from_slice(octets);
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_on_a_full_disk_are_lost_counted_and_never_joined() {
        let (device, state) = (Device::default(), Arc::<LogState>::default());
        let mut output = LogOutput::new(Box::new(device.clone()), Arc::clone(&state));
        for (is_full, line) in [(false, "one\n"), (true, "two two\n"), (true, "three\n"), (false, "four\n")] {
            device.0.0.store(is_full, Ordering::SeqCst);
            output.put(line.as_bytes());
            output.flush();
        }
        let text = String::from_utf8(device.0.1.lock().unwrap().clone()).unwrap();
        assert_eq!((&text[..], state.lost()), ("one\ntwo\nfour\n", 2));
    }
}
