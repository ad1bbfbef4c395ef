//! The file, stream or socket that receives the access log.
//!
//! Invariants: a line is written completely, or lost and counted. An output that fails, or a file
//! that cannot be reopened, stops nothing: the old file stays open, and the operator is told once.

use crate::control::log_socket::LogSocket;
use crate::system::System;
use address::Address;
use config::AccessLogTarget;
use platform::Disk;
use std::io::{self, Write};
use std::path::PathBuf;
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
    /// Number of requests that were drawn for sampling.
    drawn: AtomicU64,
}

/// The writer's side of the log.
pub(crate) struct LogOutput {
    /// What the operator calls it.
    name: String,
    to: Sink,
    batch: Vec<u8>,
    /// Where each line of the batch ends.
    ends: Vec<usize>,
    /// Whether the last write failed, perhaps in the middle of a line.
    is_failing: bool,
    state: Arc<LogState>,
}

/// Where lines go.
enum Sink {
    /// A stream, which cannot be reopened.
    Stream(Box<dyn Write + Send>),
    File {
        path: PathBuf,
        file: Box<dyn Write + Send>,
        disk: Arc<dyn Disk>,
    },
    /// Each line is a datagram.
    Socket(LogSocket),
}

/// Lines of a batch that could not be written.
pub(crate) struct Unwritten {
    /// Their number; `None` for all of the batch.
    pub(crate) lines: Option<usize>,
    pub(crate) error: io::Error,
}

impl Unwritten {
    const fn whole_batch(error: io::Error) -> Self {
        Self { lines: None, error }
    }
}

impl LogState {
    /// Requests that the file is reopened.
    pub(crate) fn reopen(&self) {
        self.is_reopening.store(true, Ordering::SeqCst);
    }

    /// Whether the next of many requests is one of the sample, of which each has one in `every`.
    pub(crate) fn draws(&self, every: u64) -> bool {
        // Multiples of the golden ratio spread evenly, and are in step with no period of visits.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        // Relaxed is enough: no other memory depends on the count.
        self.drawn.fetch_add(1, Ordering::Relaxed).wrapping_mul(GOLDEN) <= u64::MAX / every
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
    pub(crate) fn open(target: &AccessLogTarget, system: &System, state: Arc<LogState>) -> io::Result<Self> {
        let (name, to) = match target {
            AccessLogTarget::Stdout => {
                ("the access log on standard output".to_owned(), Sink::Stream(Box::new(io::stdout())))
            }
            AccessLogTarget::File(path) => {
                let disk = Arc::clone(&system.disk);
                let sink = Sink::File { path: path.clone(), file: disk.open_log(path)?, disk };
                (format!("the access log {}", path.display()), sink)
            }
            AccessLogTarget::Syslog(address) => (
                format!("the access log to syslog at {address}"),
                Sink::Socket(LogSocket::new(address.clone(), Arc::clone(&system.network))),
            ),
            AccessLogTarget::Journald(path) => (
                format!("the access log to the journal at {}", path.display()),
                Sink::Socket(LogSocket::new(Address::Unix(path.clone()), Arc::clone(&system.network))),
            ),
        };
        Ok(Self::of(name, to, state))
    }

    /// A log on a stream.
    #[cfg(test)]
    pub(crate) fn new(to: Box<dyn Write + Send>, state: Arc<LogState>) -> Self {
        Self::of("the access log".to_owned(), Sink::Stream(to), state)
    }

    fn of(name: String, to: Sink, state: Arc<LogState>) -> Self {
        Self { name, to, batch: Vec::new(), ends: Vec::new(), is_failing: false, state }
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
        self.ends.push(self.batch.len());
        if self.batch.len() >= BATCH_BYTES {
            self.flush();
        }
    }

    /// Writes the lines added so far.
    pub(crate) fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let written = match &mut self.to {
            Sink::Stream(to) => write_batch(to, &self.batch, self.is_failing),
            Sink::File { file, .. } => write_batch(file, &self.batch, self.is_failing),
            Sink::Socket(socket) => socket.send_all(&self.batch, &self.ends),
        };
        let was_failing = std::mem::replace(&mut self.is_failing, written.is_err());
        match written {
            Ok(()) if was_failing => tracing::info!("{} can be written again", self.name),
            Ok(()) => {}
            Err(Unwritten { lines, error }) => {
                // Relaxed is enough: no other memory depends on the count.
                self.state.lost.fetch_add(lines.unwrap_or(self.ends.len()) as u64, Ordering::Relaxed);
                if !was_failing {
                    tracing::error!("{} cannot be written, so its lines are lost: {error}", self.name);
                }
            }
        }
        self.batch.clear();
        self.ends.clear();
    }

    fn reopen(&mut self) {
        self.flush();
        match &mut self.to {
            Sink::Stream(_) => {}
            // The next line opens it again.
            Sink::Socket(socket) => socket.close(),
            Sink::File { path, file, disk } => match disk.open_log(path) {
                Ok(reopened) => {
                    *file = reopened;
                    self.is_failing = false;
                    tracing::info!("{} is reopened", self.name);
                }
                Err(error) => tracing::error!(
                    "{} cannot be reopened; its lines still go to the file that was open: {error}",
                    self.name
                ),
            },
        }
    }
}

/// Writes the lines of a batch to a stream.
fn write_batch(to: &mut impl Write, batch: &[u8], is_failing: bool) -> Result<(), Unwritten> {
    // Ends the partial line that was written before a failure.
    let begun = if is_failing { to.write_all(b"\n") } else { Ok(()) };
    begun.and_then(|()| to.write_all(batch)).and_then(|()| to.flush()).map_err(Unwritten::whole_batch)
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
