//! The access log: one line for each request, written by a separate thread.
//!
//! Invariants: a worker never waits for the log. If lines arrive faster than they can be written,
//! the surplus is dropped and counted. Text from clients is escaped, so that each request is
//! exactly one line. The crate `request_log` makes the lines; `reference` explains their fields.

use crate::control::log_output::{LogOutput, LogState};
use crate::system::System;
use crate::upkeep::leaving::join_in_time;
use crate::upkeep::supervisor::{self, ThreadEnd};
use address::Address;
use config::{AccessLogTarget, EdgePlan, LogFormat, LogTerms};
use request_log::{
    RequestRecord, push_combined, push_journal_entry, push_json, push_local_syslog_header, push_syslog_header,
};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use threads::JoinHandle;

/// How long the writer lets lines accumulate, so that one write carries many.
const GATHERING: Duration = Duration::from_millis(10);

/// Initial capacity of a line in bytes; most lines need no second allocation.
const LINE_BYTES: usize = 384;

/// As [`LINE_BYTES`], for a line of JSON.
const JSON_LINE_BYTES: usize = 768;

/// The workers' handle of the log; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AccessLog {
    lines: SyncSender<Vec<u8>>,
    state: Arc<LogState>,
    envelope: Envelope,
    /// The identifier of the process, for syslog.
    pid: u32,
}

/// What surrounds a line on its way.
#[derive(Clone, Debug)]
enum Envelope {
    /// Nothing.
    Plain,
    /// The header of syslog for a daemon of this machine.
    LocalSyslog,
    /// The header of syslog for the network, with this name of the machine.
    Syslog(Arc<str>),
    /// The fields of an entry of the journal.
    Journal,
}

/// The writer thread, to be joined when the log ends.
#[derive(Debug)]
pub(crate) struct LogWriter {
    thread: JoinHandle<()>,
}

impl AccessLog {
    /// Opens the log of a plan, if it has one, and starts its thread.
    ///
    /// # Errors
    /// If the file cannot be opened or the system cannot create a thread.
    pub(crate) fn start(plan: &EdgePlan, system: &System) -> io::Result<Option<(Self, LogWriter)>> {
        let Some(target) = &plan.access_log else { return Ok(None) };
        let state = Arc::<LogState>::default();
        let envelope = match target {
            AccessLogTarget::Stdout | AccessLogTarget::File(_) => Envelope::Plain,
            AccessLogTarget::Syslog(Address::Unix(_)) => Envelope::LocalSyslog,
            AccessLogTarget::Syslog(_) => Envelope::Syslog(system.host.as_str().into()),
            AccessLogTarget::Journald(_) => Envelope::Journal,
        };
        let output = LogOutput::open(target, system, Arc::clone(&state))?;
        let lines_max = plan.limits.access_log_lines_max;
        Self::start_with(output, state, (envelope, system.pid), lines_max).map(Some)
    }

    fn start_with(
        mut output: LogOutput,
        state: Arc<LogState>,
        (envelope, pid): (Envelope, u32),
        lines_max: usize,
    ) -> io::Result<(Self, LogWriter)> {
        let (lines, received) = sync_channel(lines_max);
        // Restarted after a panic: the queue would fill up, and all later lines would be lost.
        let thread = supervisor::start("petasos-log", move || {
            write_lines(&received, &mut output);
            // All senders are gone.
            ThreadEnd::Due
        })?;
        Ok((Self { lines, state, envelope, pid }, LogWriter { thread }))
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

    /// The same count, for someone who does not keep the log open.
    pub(crate) fn lost_later(&self) -> impl Fn() -> u64 + Send + use<> {
        let state = Arc::clone(&self.state);
        move || state.lost()
    }

    /// Whether lines go to the journal, whose entries have more than the line.
    pub(crate) const fn is_journal(&self) -> bool {
        matches!(self.envelope, Envelope::Journal)
    }

    /// Queues the line of a request for the writer, if the terms want one. Returns false if it was
    /// dropped because the queue is full.
    pub(crate) fn record(&self, record: &RequestRecord<'_>, terms: &LogTerms) -> bool {
        if terms.filter.as_ref().is_some_and(|filter| !filter.holds(record)) {
            return true;
        }
        if terms.every > 1 && !record.is_error() && !self.state.draws(terms.every) {
            return true;
        }
        let line = self.enveloped(record, terms.format);
        !matches!(self.lines.try_send(line), Err(TrySendError::Full(_)))
    }

    /// The line of a request with what surrounds it.
    fn enveloped(&self, record: &RequestRecord<'_>, format: LogFormat) -> Vec<u8> {
        let mut text = Vec::with_capacity(match format {
            LogFormat::Combined => LINE_BYTES,
            LogFormat::Json => JSON_LINE_BYTES,
        });
        match &self.envelope {
            Envelope::LocalSyslog => push_local_syslog_header(&mut text, record.at, self.pid),
            Envelope::Syslog(host) => push_syslog_header(&mut text, record.at, host, self.pid),
            Envelope::Plain | Envelope::Journal => {}
        }
        match format {
            LogFormat::Combined => push_combined(&mut text, record),
            LogFormat::Json => push_json(&mut text, record),
        }
        match &self.envelope {
            Envelope::Plain => text,
            Envelope::LocalSyslog | Envelope::Syslog(_) => {
                // A datagram ends by itself.
                text.pop();
                text
            }
            Envelope::Journal => {
                let mut entry = Vec::with_capacity(text.len() + LINE_BYTES);
                push_journal_entry(&mut entry, record, &text);
                entry
            }
        }
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
    while let Some(first) = threads::receive(lines) {
        output.put(&first);
        // Sleeping, instead of waiting for each line, saves the workers a system call to wake this
        // thread.
        threads::sleep(GATHERING);
        lines.try_iter().for_each(|line| output.put(&line));
        output.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::{AccessLog, Envelope, LogOutput, LogState, LogWriter};
    use clock::Timestamp;
    use config::{LogFormat, LogTerms};
    use message::Method;
    use request_log::{ClientName, Phases, Protocol, RequestRecord};
    use semantics::Reason;
    use std::io::{self, Write};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    fn record() -> RequestRecord<'static> {
        RequestRecord {
            at: Timestamp::from_secs(784_111_777),
            peer: ClientName::Ip("127.0.0.1".parse().unwrap()),
            client: ClientName::Ip("127.0.0.1".parse().unwrap()),
            method: &Method::Get,
            target: b"/page?x=1",
            protocol: Protocol::Http11,
            tls: None,
            host: Some(b"example.test"),
            site: None,
            status: 200,
            content_bytes: 12_972,
            received_bytes: 0,
            sent_bytes: 0,
            reason: Reason::HitFresh,
            key: None,
            referer: None,
            agent: Some(b"a\"b\nc\\"),
            trace: None,
            time: Duration::from_micros(42),
            phases: Phases::default(),
            fetch: None,
        }
    }

    fn terms() -> LogTerms {
        LogTerms {
            format: LogFormat::Combined,
            filter: None,
            every: 1,
            is_anonymous: false,
            traces_fetches: false,
        }
    }

    fn started(
        output: Box<dyn Write + Send>,
        envelope: Envelope,
        lines_max: usize,
    ) -> (AccessLog, LogWriter) {
        let state = Arc::<LogState>::default();
        let output = LogOutput::new(output, Arc::clone(&state));
        AccessLog::start_with(output, state, (envelope, 7), lines_max).unwrap()
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

    /// The text that a log has after it wrote these records.
    fn written<'a>(
        envelope: Envelope,
        terms: &LogTerms,
        records: impl IntoIterator<Item = RequestRecord<'a>>,
    ) -> String {
        let output = Shared::default();
        let (log, writer) = started(Box::new(output.clone()), envelope, 4096);
        records.into_iter().for_each(|record| assert!(log.record(&record, terms)));
        drop(log);
        writer.finish();
        let octets = output.0.lock().unwrap().clone();
        String::from_utf8(octets).unwrap()
    }

    const LINE: &str = "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /page?x=1 HTTP/1.1\" 200 12972 \"-\" \
                        \"a\\x22b\\x0ac\\x5c\" example.test hit hit-fresh 42";

    #[test]
    fn line_has_what_its_destination_needs_around_it() {
        let text = |envelope| written(envelope, &terms(), [record()]);
        assert_eq!(text(Envelope::Plain), format!("{LINE}\n"));
        let syslog = text(Envelope::Syslog("web1".into()));
        assert!(syslog.starts_with("<190>1 1994-11-06T08:49:37.000000Z web1 petasos "), "{syslog}");
        assert!(syslog.ends_with(&format!(" access - {LINE}")), "{syslog}");
        let local = text(Envelope::LocalSyslog);
        assert!(local.starts_with("<190>Nov  6 08:49:37 petasos["), "{local}");
        assert!(local.ends_with(&format!("]: {LINE}")), "{local}");
        let entry = text(Envelope::Journal);
        assert!(entry.starts_with(&format!("MESSAGE={LINE}\nPRIORITY=6\n")), "{entry}");
        let json = written(Envelope::Plain, &LogTerms { format: LogFormat::Json, ..terms() }, [record()]);
        assert!(json.starts_with("{\"at\":\"1994") && json.ends_with("}\n"), "{json}");
    }

    #[test]
    fn filter_and_sampling_choose_the_lines_and_keep_errors() {
        let filtered = LogTerms { filter: Some("path = /page".parse().unwrap()), ..terms() };
        let other = RequestRecord { target: b"/other", ..record() };
        assert_eq!(written(Envelope::Plain, &filtered, [record(), other]).lines().count(), 1);
        let sampled = LogTerms { every: 10, ..terms() };
        let failed = RequestRecord { status: 502, ..record() };
        let lines =
            |record| written(Envelope::Plain, &sampled, std::iter::repeat_n(record, 1000)).lines().count();
        assert!((95..=105).contains(&lines(record())), "{}", lines(record()));
        assert_eq!(lines(failed), 1000);
    }

    #[test]
    fn sampling_is_not_in_step_with_repeated_visits() {
        // Ten requests for each visit: every target must be sampled.
        let targets: Vec<String> = (0..10).map(|number| format!("/{number}")).collect();
        let visits = (0..200).flat_map(|_| &targets);
        let records = visits.map(|target| RequestRecord { target: target.as_bytes(), ..record() });
        let text = written(Envelope::Plain, &LogTerms { every: 10, ..terms() }, records);
        for target in &targets {
            let count = text.matches(&format!("GET {target} ")).count();
            assert!((10..=30).contains(&count), "{target}: {count}");
        }
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
        let (log, writer) = started(Box::new(stuck), Envelope::Plain, 1);
        let (record, terms) = (record(), terms());
        // Record until the buffered writer starts to write; from then on one line fits into the
        // queue.
        while has_entered.try_recv().is_err() {
            log.record(&record, &terms);
            std::thread::yield_now();
        }
        let kept = (0..10).filter(|_| log.record(&record, &terms)).count();
        assert!(kept <= 1, "{kept} of 10 lines fitted into a queue of one");
        drop((log, leave));
        writer.finish();
    }
}
