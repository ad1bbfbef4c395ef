//! `petasos try`: shows what Petasos would do for a site that is running. It changes nothing there.
//!
//! Exit codes:
//!
//! - 0: the report was made, whatever it says.
//! - 1: a page differs through Petasos, or the site failed or became slower under the load.
//! - 2: the site could not be tried (bad URL, unreachable, robots.txt forbids it), or the command
//!   was interrupted.

use crate::bench::interrupt::Interrupt;
use crate::bench::measure::{self, EXIT_FAILED};
use crate::output::note;
use crate::values::time;
use crate::{serve, why};
use ::why::{Fetcher, HeaderLine};
use address::HttpUrl;
use anyhow::{Context as _, ensure};
use config::Machine;
use net::TlsClient;
use platform::SystemClock;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use trial::{
    DELAYED_TIME_MAX, LoadReport, LoadTerms, PAGES_MAX, Preview, TemporaryEdge, TrialError, TrialReport,
    VisitNews, VisitTerms, Visitor, is_on_this_machine, load_target, with_load,
};

/// Shortest time between two requests to a site on this machine, and to any other.
const INTERVALS: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(100)];

/// Exit code of an interrupted command, also if a second signal ends it at once.
const EXIT_INTERRUPTED: u8 = 2;

/// Try Petasos on a site that is running, without changing the site.
///
/// The command visits a few pages as a polite robot, each directly and through a temporary Petasos
/// on this machine. It shows which pages can be answered from memory and what keeps the others out.
/// It also compares the pages with and without Petasos. Only GET requests are sent, and robots.txt
/// is obeyed. Links that log out, delete or buy are not followed.
///
/// A site on this machine is then loaded by four users, directly and through Petasos in turn. The
/// load ends at the third failed request, or when the site becomes slower.
///
/// TIME is a number with a unit, such as 500ms or 2s; a bare number means seconds.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// URL of the site's start page: http[s]://HOST[:PORT]/PATH
    url: String,
    /// Largest number of pages to visit
    #[arg(long, value_name = "N", default_value_t = PAGES_MAX as u16, value_parser = clap::value_parser!(u16).range(1..=500))]
    pages: u16,
    /// Cookies of a logged-in visitor, as NAME=VALUE; separate several by a semicolon
    #[arg(long, value_name = "COOKIE")]
    cookie: Option<String>,
    /// Do not pause as long as Crawl-delay in robots.txt asks; only for a site on this machine
    #[arg(long)]
    no_delay: bool,
    /// Number of rounds of the load
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Length of the load on each side in a round
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2s")]
    round_time: Duration,
    /// Leave the load out
    #[arg(long, conflicts_with_all = ["rounds", "round_time"])]
    no_load: bool,
    /// File to write the configuration of Petasos for this site to; it must not exist
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Keep the site with Petasos as a preview for a browser on this machine, until Ctrl-C
    #[arg(long)]
    stay: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// File for the report as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// File for a short report without host names, paths and cookies, as Markdown
    #[arg(long, value_name = "FILE")]
    share: Option<PathBuf>,
    /// Accept any certificate of the site
    #[arg(long)]
    insecure: bool,
}

/// Tries Petasos on the site, and prints the report.
///
/// # Errors
/// If there is nothing to report, or a file cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let url = HttpUrl::parse(&args.url)?;
    let cookie = args.cookie.as_deref().map(cookie_line).transpose()?;
    // Noticed before the visit, which takes a while.
    check_files(args)?;
    ensure!(!args.round_time.is_zero(), "--round-time must be above zero");
    let interrupt = Interrupt::ending_with(EXIT_INTERRUPTED)?;
    let runtime = why::runtime()?;
    let is_local = runtime.block_on(is_on_this_machine(&url));
    ensure!(is_local || !args.no_delay, "--no-delay is for a site on this machine, and {url} is not there");
    let fetcher = Fetcher { tls: tls(args, &url)?, clock: Arc::new(SystemClock::new()) };
    let edge = TemporaryEdge::start(&url, args.insecure, &machine())?;
    let [local, remote] = INTERVALS;
    let terms = VisitTerms {
        pages_max: args.pages.into(),
        interval_min: if is_local { local } else { remote },
        obeys_delay: !args.no_delay,
    };
    let flag = interrupt.flag();
    let visitor = Visitor::new(&fetcher, url.clone(), edge.url(), cookie, terms, &flag);
    let visit = runtime.block_on(visitor.visit(|news| match news {
        VisitNews::Page { visited, next } => {
            note(format_args!("page {} of at most {}: {next}", visited + 1, args.pages));
        }
        VisitNews::Delayed(delay) => note(format_args!(
            "robots.txt asks for {} s between two requests; the visit ends after {} minutes with what it has{}",
            delay.as_secs_f64(),
            DELAYED_TIME_MAX.as_secs() / 60,
            if is_local { "; --no-delay leaves the pauses out" } else { "" }
        )),
    }))?;
    let report = trial::trial_report(&url, is_local, args.insecure, &visit);
    let report = load(args, report, edge.url(), &flag)?;
    show(args, &report)?;
    if args.stay {
        let serve = async {
            let preview = Preview::bind(url, edge.url().clone(), fetcher).await?;
            note(format_args!("preview: {} until Ctrl-C", preview.url()));
            preview.serve(&flag).await;
            io::Result::Ok(())
        };
        runtime.block_on(serve).context("the preview cannot be shown")?;
    }
    let is_bad = report.has_difference() || matches!(report.load, LoadReport::GaveIn { .. });
    Ok(ExitCode::from(if is_bad { EXIT_FAILED } else { 0 }))
}

/// Loads the site, if it may be loaded, and adds the result to the report.
///
/// # Errors
/// If the command was interrupted.
fn load(
    args: &Args,
    mut report: TrialReport,
    edge: &HttpUrl,
    interrupt: &AtomicBool,
) -> anyhow::Result<TrialReport> {
    let target = match load_target(&report, edge, !args.insecure) {
        Ok(_) if args.no_load => Err("--no-load switches it off".to_owned()),
        found => found,
    };
    let target = match target {
        Ok(target) => target,
        Err(reason) => {
            report.load = LoadReport::NotMade { reason };
            return Ok(report);
        }
    };
    let terms = LoadTerms { rounds: args.rounds, time: args.round_time };
    let result = trial::measure(&target, terms, (&SystemClock::new(), interrupt), |round| {
        note(format_args!("round {round} of {}", args.rounds));
    });
    Ok(with_load(report, result).ok_or(TrialError::Interrupted)?)
}

/// Checks the files that the command will write.
fn check_files(args: &Args) -> anyhow::Result<()> {
    if let Some(path) = &args.write {
        ensure!(path.symlink_metadata().is_err(), "{} exists; name a new file", path.display());
    }
    let mut known: Vec<PathBuf> = Vec::new();
    for path in [&args.write, &args.html, &args.share].into_iter().flatten() {
        let is_output = path == Path::new("-");
        ensure!(!(is_output && args.json), "--json prints to standard output, so no file can be `-`");
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or_else(|| Path::new(".")).canonicalize();
        let directory = directory.with_context(|| format!("{}: no such directory", path.display()))?;
        ensure!(!path.is_dir() && directory.is_dir(), "{} cannot be a file", path.display());
        let place = directory.join(path.file_name().unwrap_or_default());
        ensure!(!known.contains(&place), "{} is named twice; each report needs its own file", path.display());
        known.push(place);
    }
    Ok(())
}

/// Writes a report. An existing file is replaced, with a message to the user.
fn write_report(path: &Path, text: &str) -> anyhow::Result<()> {
    let is_replaced = path != Path::new("-") && path.exists();
    measure::write_file(path, text)?;
    if is_replaced {
        note(format_args!("{} was replaced", path.display()));
    }
    Ok(())
}

/// Prints the report and writes its files. The screen comes first, because it needs no file.
fn show(args: &Args, report: &TrialReport) -> anyhow::Result<()> {
    let text = if args.json { report.to_json() } else { trial::screen(report) };
    measure::write_text(io::stdout(), &text)?;
    if let Some(path) = &args.write {
        let cannot = || format!("cannot write {}", path.display());
        let mut file = File::create_new(path).with_context(cannot)?;
        file.write_all(report.configuration.as_bytes()).with_context(cannot)?;
    }
    if let Some(path) = &args.html {
        write_report(path, &trial::trial_html(report))?;
    }
    if let Some(path) = &args.share {
        write_report(path, &trial::share_text(report))?;
    }
    if !args.json {
        measure::write_text(io::stdout(), &next(args, report))?;
    }
    Ok(())
}

/// The commands that may follow.
fn next(args: &Args, report: &TrialReport) -> String {
    match &args.write {
        Some(path) => format!(
            "\nNext\n  petasos check {path}\n  petasos serve {path}\n  petasos adopt /etc/nginx     (or /etc/apache2: takes over its ports)\n",
            path = path.display()
        ),
        None => {
            let lines: Vec<String> = report.configuration.lines().map(|line| format!("  {line}")).collect();
            format!(
                "\npetasos.toml for this site; --write FILE writes it\n\n{}\n",
                lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
            )
        }
    }
}

/// The header line with the cookies.
fn cookie_line(cookies: &str) -> anyhow::Result<HeaderLine> {
    ensure!(cookies.contains('='), "--cookie needs NAME=VALUE");
    Ok(format!("Cookie: {cookies}").parse()?)
}

/// The TLS client for an https URL; `None` for http.
fn tls(args: &Args, url: &HttpUrl) -> anyhow::Result<Option<TlsClient>> {
    Ok(match (url.is_https(), args.insecure) {
        (false, _) => None,
        (true, true) => Some(TlsClient::insecure()?),
        (true, false) => Some(TlsClient::with_system_authorities()?),
    })
}

/// This machine, without the directories in which an edge keeps state.
fn machine() -> Machine {
    Machine { state_directory: None, runtime_directory: None, ..serve::machine() }
}
