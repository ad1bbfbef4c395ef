//! The access log: one line for each request, written by a separate thread.
//!
//! Invariants: a worker never waits for the log. If lines arrive faster than they can be written,
//! the surplus is dropped and counted. Text from clients is escaped, so that each request is
//! exactly one line.
//!
//! The fields are in the order of [`FORMAT`]; `reference` explains them.

use crate::control::log_output::{LogOutput, LogState};
use crate::request::date::push_log_date;
use crate::upkeep::leaving::join_in_time;
use crate::upkeep::supervisor::{self, ThreadEnd};
use bytes::Bytes;
use clock::Timestamp;
use config::AccessLogTarget;
use message::{RequestHead, Status, Version, names};
use net::Peer;
use semantics::Reason;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use threads::JoinHandle;

/// The fields of a line: the combined log format, followed by fields of the edge.
pub(crate) const FORMAT: &str = "PEER - - [DATE] \"REQUEST LINE\" STATUS BYTES \"REFERER\" \"USER-AGENT\" \
                                 HOST VERDICT REASON MICROSECONDS";

/// How long the writer lets lines accumulate, so that one write carries many.
const GATHERING: Duration = Duration::from_millis(10);

/// Initial capacity of a line in bytes; most lines need no second allocation.
const LINE_BYTES: usize = 384;

/// The record of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogEntry<'a> {
    pub(crate) peer: Peer,
    pub(crate) now: Timestamp,
    pub(crate) request: &'a RequestHead,
    pub(crate) status: Status,
    pub(crate) content_bytes: u64,
    pub(crate) reason: Reason,
    /// Whether the client speaks HTTP/2. The version in its head is that of HTTP/1 then.
    pub(crate) is_http2: bool,
    pub(crate) elapsed: Duration,
}

/// The workers' handle of the log; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AccessLog {
    lines: SyncSender<Vec<u8>>,
    state: Arc<LogState>,
}

/// The writer thread, to be joined when the log ends.
#[derive(Debug)]
pub(crate) struct LogWriter {
    thread: JoinHandle<()>,
}

impl AccessLog {
    /// Opens the log and starts its thread.
    ///
    /// # Errors
    /// If the file cannot be opened or the system cannot create a thread.
    pub(crate) fn start(target: &AccessLogTarget, lines_max: usize) -> io::Result<(Self, LogWriter)> {
        let state = Arc::<LogState>::default();
        Self::start_with(LogOutput::open(target, Arc::clone(&state))?, state, lines_max)
    }

    fn start_with(
        mut output: LogOutput,
        state: Arc<LogState>,
        lines_max: usize,
    ) -> io::Result<(Self, LogWriter)> {
        let (lines, received) = sync_channel(lines_max);
        // Restarted after a panic: the queue would fill up, and all later lines would be lost.
        let thread = supervisor::start("petasos-log", move || {
            write_lines(&received, &mut output);
            // All senders are gone.
            ThreadEnd::Due
        })?;
        Ok((Self { lines, state }, LogWriter { thread }))
    }

    /// Reopens the file, for example after log rotation has renamed it. Does not block.
    pub(crate) fn reopen(&self) {
        self.state.reopen();
        // An empty line wakes the writer. It fails only if the queue is full, and then the writer
        // is awake.
        let _ = self.lines.try_send(Vec::new());
    }

    /// Number of lines that could not be written.
    pub(crate) fn lost(&self) -> u64 {
        self.state.lost()
    }

    /// Queues a line for the writer. Returns false if it was dropped because the queue is full.
    pub(crate) fn record(&self, entry: &LogEntry<'_>) -> bool {
        !matches!(self.lines.try_send(line(entry)), Err(TrySendError::Full(_)))
    }
}

impl LogWriter {
    /// Waits until every line is written, or until a hanging log has used up its time. Must be
    /// called after the last [`AccessLog`] was dropped. `None` if lines were lost.
    pub(crate) fn finish(self) -> Option<()> {
        // The supervisor ends without a panic.
        join_in_time(self.thread)?.ok()
    }
}

/// Writes lines until all senders are dropped. If the output fails, lines are lost, but requests
/// continue.
fn write_lines(lines: &Receiver<Vec<u8>>, output: &mut LogOutput) {
    while let Ok(first) = lines.recv() {
        output.put(&first);
        // Sleeping, instead of waiting for each line, saves the workers a system call to wake this
        // thread.
        threads::sleep(GATHERING);
        lines.try_iter().for_each(|line| output.put(&line));
        output.flush();
    }
}

fn line(entry: &LogEntry<'_>) -> Vec<u8> {
    let request = entry.request;
    let mut line = Vec::with_capacity(LINE_BYTES);
    // Writing to a Vec cannot fail.
    let _ = write!(line, "{} - - [", entry.peer);
    push_log_date(&mut line, entry.now);
    line.extend_from_slice(b"] \"");
    push_escaped(&mut line, request.method.as_bytes());
    line.push(b' ');
    push_escaped(&mut line, &request.target);
    line.extend_from_slice(match request.version {
        _ if entry.is_http2 => b" HTTP/2.0\" ",
        Version::Http10 => b" HTTP/1.0\" ",
        Version::Http11 => b" HTTP/1.1\" ",
    });
    let _ = write!(line, "{} {} \"", entry.status, entry.content_bytes);
    push_value(&mut line, request.fields.first("Referer"));
    line.extend_from_slice(b"\" \"");
    push_value(&mut line, request.fields.first(names::USER_AGENT));
    line.extend_from_slice(b"\" ");
    push_value(&mut line, request.fields.first(names::HOST));
    let (verdict, micros) = (entry.reason.verdict(), entry.elapsed.as_micros());
    let _ = writeln!(line, " {verdict} {} {micros}", entry.reason);
    line
}

fn push_value(line: &mut Vec<u8>, value: Option<&Bytes>) {
    match value {
        Some(value) => push_escaped(line, value),
        None => line.push(b'-'),
    }
}

/// Appends bytes so that they cannot end a quoted part or a line: quotes, backslashes and
/// everything except printable ASCII are escaped.
fn push_escaped(line: &mut Vec<u8>, octets: &[u8]) {
    for &octet in octets {
        match octet {
            b'"' | b'\\' | 0..=0x1f | 0x7f.. => {
                let _ = write!(line, "\\x{octet:02x}");
            }
            _ => line.push(octet),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AccessLog, LogEntry, LogOutput, LogState, LogWriter};
    use clock::Timestamp;
    use message::{Fields, Method, RequestHead, Status, Version};
    use net::Peer;
    use semantics::Reason;
    use std::io::{self, Write};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    fn request() -> RequestHead {
        let mut fields = Fields::new();
        fields.push("Host", "example.test");
        fields.push("User-Agent", "a\"b\nc\\");
        RequestHead { method: Method::Get, target: "/page?x=1".into(), version: Version::Http11, fields }
    }

    fn entry(request: &RequestHead) -> LogEntry<'_> {
        LogEntry {
            peer: Peer::Ip("127.0.0.1:5".parse().unwrap()),
            now: Timestamp::from_secs(784_111_777),
            request,
            status: Status::OK,
            content_bytes: 12_972,
            is_http2: false,
            reason: Reason::HitFresh,
            elapsed: Duration::from_micros(42),
        }
    }

    fn started(output: Box<dyn Write + Send>, lines_max: usize) -> (AccessLog, LogWriter) {
        let state = Arc::<LogState>::default();
        AccessLog::start_with(LogOutput::new(output, Arc::clone(&state)), state, lines_max).unwrap()
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(octets)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn client_text_is_escaped_into_one_line() {
        let output = Shared::default();
        let (log, writer) = started(Box::new(output.clone()), 8);
        assert!(log.record(&entry(&request())));
        drop(log);
        writer.finish();
        let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
        assert_eq!(
            text,
            "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /page?x=1 HTTP/1.1\" 200 12972 \"-\" \
             \"a\\x22b\\x0ac\\x5c\" example.test hit hit-fresh 42\n"
        );
    }

    /// An output that reports the first write and then blocks.
    struct Stuck {
        entered: Sender<()>,
        leave: Receiver<()>,
    }

    impl Write for Stuck {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.entered.send(()).unwrap();
            let _ = self.leave.recv();
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn stuck_log_drops_lines_and_reports_it() {
        let ((entered, has_entered), (leave, wait)) = (channel(), channel());
        let stuck = Stuck { entered, leave: wait };
        let (log, writer) = started(Box::new(stuck), 1);
        let request = request();
        // Record until the buffered writer starts to write; from then on one line fits into the
        // queue.
        while has_entered.try_recv().is_err() {
            log.record(&entry(&request));
            std::thread::yield_now();
        }
        let kept = (0..10).filter(|_| log.record(&entry(&request))).count();
        assert!(kept <= 1, "{kept} of 10 lines fitted into a queue of one");
        drop((log, leave));
        writer.finish();
    }
}
