//! `petasos log`: prints the requests of a running edge as they end.
//!
//! Exit codes:
//!
//! - 0: the reader of the output is gone.
//! - 2: no edge answers, or it refuses (bad filter, no permission, too many followers).
//!
//! A signal ends the command as usual.

use crate::admin::AdminArgs;
use crate::follow::{StreamEvent, check_filter, follow};
use crate::output::note;
use crate::record_text::{described, skipped};
use api::log::LogLine;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::process::ExitCode;

/// Show the requests of a running edge as they end, each with its verdict and phases.
///
/// The edge sends only the requests that meet the condition. If this command reads too slowly, it
/// misses requests and says how many; it never slows the edge. docs/observing.md describes the
/// condition and its fields.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Condition for a request, such as 'verdict = miss and path ~ "^/shop"' or 'time > 200ms'
    #[arg(long = "where", value_name = "CONDITION")]
    filter: Option<String>,
    /// Print the edge's lines of JSON
    #[arg(long)]
    json: bool,
    /// Accepted for the habit: the command always follows
    #[arg(long, short = 'f')]
    follow: bool,
    #[command(flatten)]
    edge: AdminArgs,
}

/// Prints requests until the reader of the output is gone.
///
/// # Errors
/// If no edge answers, or it refuses to stream.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(filter) = &args.filter {
        check_filter(filter)?;
    }
    let mut result = Ok(());
    follow(&args.edge, args.filter.as_deref(), |event| {
        let line = match event {
            StreamEvent::Line(line) => line,
            StreamEvent::Ended(why) => {
                note(format_args!("petasos: {why}; connecting again"));
                return ControlFlow::Continue(());
            }
        };
        result = match text_of(line, args.json) {
            None if is_reader_gone() => return ControlFlow::Break(()),
            None => return ControlFlow::Continue(()),
            Some(text) => write(&text),
        };
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The text to print for a line of the stream; `None` for an empty line.
fn text_of(line: &str, json: bool) -> Option<String> {
    if line.is_empty() {
        return None;
    }
    if json {
        return Some(format!("{line}\n"));
    }
    Some(match serde_json::from_str(line) {
        Ok(LogLine::Request(request)) => described(&request),
        Ok(LogLine::Skipped { skipped: count }) => skipped(count),
        Err(error) => format!("-- a line of the edge cannot be read: {error} --\n"),
    })
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Whether the reader of the output is gone. A pipe says so without a write.
fn is_reader_gone() -> bool {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok() && polled.iter().any(|one| one.revents().contains(PollFlags::ERR))
}
