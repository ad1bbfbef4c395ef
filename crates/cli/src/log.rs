//! The messages of a running edge as lines on standard error.
//!
//! Invariants: each message is one line of printable text: its time in UTC (RFC 3339), its level,
//! `petasos:` and the text. Writing a line never blocks and never fails; see
//! [`edge::OperatorLog`]. A panic is a message too, because the default report could block the
//! thread that panicked.

use config::LogLevel;
use edge::OperatorLog;
use std::fmt;
use std::io::Write as _;
use std::panic::PanicHookInfo;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;

/// The crate that warns of each fault of a client with HTTP/2. Any client could fill the log with
/// them; a metric counts the important ones.
const CLIENT_FAULTS: &str = "h2";

/// Length of a time of the crate `tracing-subscriber` up to its milliseconds:
/// `2026-01-02T03:04:05.678`.
const TO_MILLIS: usize = 23;

/// Sends the messages of this level, and more severe ones, to standard error.
pub(crate) fn install(level: LogLevel) {
    // Fails only if there is a subscriber already, and no other code installs one.
    let _ = tracing::subscriber::set_global_default(subscriber(level, || OperatorLog));
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        edge::count_panic();
        report(panic);
        // The process may abort at the next use of state that the panic left inconsistent. Flushing
        // cannot fail.
        let _ = OperatorLog.flush();
        // A user that sets this variable wants the call stack, and accepts that its output may
        // block.
        if std::env::var_os("RUST_BACKTRACE").is_some() {
            usual(panic);
        }
    }));
}

fn subscriber<W>(level: LogLevel, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    tracing_subscriber::fmt()
        // They would go to standard error directly.
        .log_internal_errors(false)
        .with_max_level(level)
        .event_format(LineFormat)
        .with_writer(writer)
        .finish()
        .with(Targets::new().with_default(level).with_target(CLIENT_FAULTS, LevelFilter::OFF))
}

fn report(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name");
    let message = panic.payload_as_str().unwrap_or("without a message");
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    tracing::error!("the thread {name} panicked{place}: {message}");
}

/// The form of a line.
struct LineFormat;

impl<S, N> FormatEvent<S, N> for LineFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        let mut text = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        context.field_format().format_fields(Writer::new(&mut text), event)?;
        let time = time.get(..TO_MILLIS).unwrap_or(&time);
        write!(line, "{time}Z {} petasos: ", event.metadata().level())?;
        for character in text.chars() {
            // Texts quote input of clients and origins, which must not begin a line or control a
            // terminal.
            if character.is_control() {
                write!(line, "{}", character.escape_default())?;
            } else {
                line.write_char(character)?;
            }
        }
        line.write_char('\n')
    }
}

#[cfg(test)]
mod tests {
    use super::subscriber;
    use config::LogLevel;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct CapturedLines(Arc<Mutex<Vec<String>>>);

    impl Write for CapturedLines {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(String::from_utf8(octets.to_vec()).unwrap());
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(level: LogLevel, messages: impl FnOnce()) -> Vec<String> {
        let lines = CapturedLines::default();
        let writer = lines.clone();
        tracing::subscriber::with_default(subscriber(level, move || writer.clone()), messages);
        lines.0.lock().unwrap().clone()
    }

    #[test]
    fn message_is_one_write_of_one_line_with_time_and_level() {
        let site = "a.test";
        let lines = written(LogLevel::Info, || tracing::warn!(site, "two\nlines, \u{1b}[31mred, \u{e9}"));
        let [line] = &lines[..] else { panic!("{lines:?}") };
        let (time, rest) = line.split_once(' ').unwrap();
        let shape: String =
            time.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
        assert_eq!(shape, "0000-00-00T00:00:00.000Z");
        assert!(rest.starts_with("WARN petasos: two\\nlines, ") && rest.ends_with('\n'), "{rest}");
        assert!(!rest.contains('\u{1b}') && rest.contains("red, \u{e9}"), "{rest}");
        assert!(rest.contains("site=\"a.test\""), "{rest}");
    }

    #[test]
    fn faults_of_clients_are_no_messages() {
        let messages = || {
            tracing::warn!(target: "h2::proto::ping_pong", "an unexpected PING");
            tracing::warn!(target: "other", "another crate");
        };
        assert_eq!(written(LogLevel::Debug, messages).len(), 1);
    }

    #[test]
    fn level_selects_what_is_written() {
        let messages = || {
            tracing::error!("one");
            tracing::warn!("two");
            tracing::info!("three");
            tracing::debug!("four");
            tracing::trace!("five");
        };
        for (level, count) in
            [(LogLevel::Error, 1), (LogLevel::Warn, 2), (LogLevel::Info, 3), (LogLevel::Debug, 4)]
        {
            assert_eq!(written(level, messages).len(), count, "{level:?}");
        }
    }
}
