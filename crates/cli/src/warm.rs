//! `petasos warm`: lets a running edge fill its cache with the pages of a site, and shows its
//! progress.
//!
//! Exit codes:
//!
//! - 0: every page was looked at, and none failed.
//! - 1: pages failed, or the run ended early.
//! - 2: the edge did not begin (bad arguments, no edge answers, no permission). Standard error has
//!   the reason.

use crate::admin::AdminArgs;
use crate::bench::measure;
use crate::output::{draw, note};
use crate::purge::reason;
use anyhow::{Context as _, anyhow, bail, ensure};
use api::warm::{PATH, WarmCall, WarmDocument, WarmRefusal, WarmReply, WarmRun};
use message::Status;
use report::number::grouped;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use why::FetchedResponse;

/// Exit code of a run that did not succeed in full.
const EXIT_INCOMPLETE: u8 = 1;

/// Time between two looks at the progress.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// After this many looks in a row without the run, it counts as lost.
const MISSING_MAX: u32 = 100;

/// Columns of the line of progress that are cleared before it is drawn again.
const COLUMNS: usize = 100;

/// Causes of left-out and uncacheable pages that are shown.
const CAUSES_SHOWN: usize = 5;

/// Fill the cache of a running edge with the pages of a site.
///
/// The edge requests each page of the site's sitemaps that is not stored, when visitors leave it
/// time. Without --sitemap and --urls, it takes the sitemaps that the site names. Interrupting the
/// command does not end the run; `petasos warm URL --stop` does. If the edge demands a token, give
/// it in the environment variable PETASOS_TOKEN or with --token-file.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Front page of the site as visitors write it, http[s]://HOST[:PORT]/
    url: String,
    /// Sitemap or feed with the pages, as a URL or a path such as /sitemap.xml; repeatable. Without
    /// a value: the sitemaps that the site names
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "", conflicts_with = "stop")]
    sitemap: Vec<String>,
    /// File with pages, one URL or path in a line; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "stop")]
    urls: Option<PathBuf>,
    /// Largest number of pages in a second, 1 to 1000. Without it, the origin's response times
    /// decide
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "stop")]
    rate: Option<u32>,
    /// End the run of the site
    #[arg(long)]
    stop: bool,
    #[command(flatten)]
    edge: AdminArgs,
}

/// Begins a run and follows it to its end, or ends one.
///
/// # Errors
/// If the arguments are invalid, or the edge does not carry it out.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let url = args.url.clone();
    if args.stop {
        let WarmReply { site, run } = args.ask(&WarmCall::Stop { url })?;
        let told = if run.is_some() { "is stopped" } else { "was not being filled" };
        measure::write_text(io::stdout(), &format!("The cache of {site}: the run {told}.\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let pages = args.pages()?;
    let named = args.sitemap.iter().filter(|sitemap| !sitemap.is_empty()).cloned();
    let is_read = !args.sitemap.is_empty() || args.urls.is_none();
    let sitemaps = is_read.then(|| named.collect());
    let WarmReply { site, run } = args.ask(&WarmCall::Start { url, sitemaps, pages, rate: args.rate })?;
    note(format_args!(
        "Filling the cache of {site}. Ctrl-C leaves the run going on; `petasos warm {} --stop` ends it.",
        args.url
    ));
    let ended = args.follow(&site, run.unwrap_or_default())?;
    measure::write_text(io::stdout(), &summary(&ended))?;
    let is_whole = ended.state == "complete" && ended.failed == 0;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_INCOMPLETE) })
}

impl Args {
    /// The pages of the file.
    fn pages(&self) -> anyhow::Result<Vec<String>> {
        let Some(path) = &self.urls else { return Ok(Vec::new()) };
        let text = if path.as_os_str() == "-" {
            io::read_to_string(io::stdin())
        } else {
            std::fs::read_to_string(path)
        };
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let pages = crawl::listed_pages(&text);
        ensure!(!pages.is_empty(), "{} names no page; write one URL or path in a line", path.display());
        Ok(pages)
    }

    fn ask(&self, call: &WarmCall) -> anyhow::Result<WarmReply> {
        // Plain data with names as keys always serialises.
        let content = serde_json::to_vec(call).unwrap_or_default();
        let answer = self.edge.call(PATH, &content)?;
        serde_json::from_slice(self.content_of(&answer)?).map_err(|_| self.foreign())
    }

    /// The content of an answer other than a refusal.
    fn content_of<'a>(&self, answer: &'a FetchedResponse) -> anyhow::Result<&'a [u8]> {
        let admin = &self.edge.admin;
        if answer.head.status != Status::OK {
            let refused = serde_json::from_slice::<WarmRefusal>(&answer.content);
            let error = refused.map_or_else(|_| reason(answer), |refused| refused.error);
            bail!("{admin} refuses: {} {error}", answer.head.status);
        }
        Ok(&answer.content)
    }

    fn foreign(&self) -> anyhow::Error {
        anyhow!("the response of {} is not from a Petasos edge; correct --admin", self.edge.admin)
    }

    /// Shows the progress of the run of a site until it ends, or that of a later run.
    fn follow(&self, site: &str, number: u64) -> anyhow::Result<WarmRun> {
        let is_shown = io::stderr().is_terminal();
        let mut missing = 0;
        loop {
            std::thread::sleep(LOOK_EVERY);
            let answer = self.edge.get(PATH)?;
            let document: WarmDocument =
                serde_json::from_slice(self.content_of(&answer)?).map_err(|_| self.foreign())?;
            let found = document.runs.into_iter().find(|run| run.site == site && run.run >= number);
            let Some(run) = found else {
                missing += 1;
                if missing < MISSING_MAX {
                    continue;
                }
                bail!(
                    "{} does not show the run: it was stopped, or another process has taken over; \
                     `petasos status` shows what runs now",
                    self.edge.admin
                );
            };
            missing = 0;
            if is_shown {
                draw(&format!("\r{:<COLUMNS$}", progress(&run)));
            }
            if !run.is_running {
                if is_shown {
                    draw(&format!("\r{:COLUMNS$}\r", ""));
                }
                return Ok(run);
            }
        }
    }
}

/// How far a run is, in a line.
pub(crate) fn progress(run: &WarmRun) -> String {
    let done = run.warmed + run.fresh + run.not_cacheable + run.failed;
    let counts = format!("{} of {} pages, {} stored", grouped(done), grouped(run.found), grouped(run.warmed));
    let line = format!("{counts}; {}", run.state);
    line.chars().filter(|letter| !letter.is_control()).take(COLUMNS).collect()
}

/// The outcome of a run.
fn summary(run: &WarmRun) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let mut line = |name: &str, value: u64, more: &str| {
        let _ = writeln!(text, "{name:<17}{:>9}{more}", grouped(value));
    };
    line("pages found", run.found, "");
    line("stored", run.warmed, "");
    line("fresh before", run.fresh, "");
    let commonest = run.causes.first().map(|cause| format!("  most often {}", cause.cause));
    line("not cacheable", run.not_cacheable, &commonest.unwrap_or_default());
    line("failed", run.failed, "");
    for cause in run.skipped.iter().take(CAUSES_SHOWN) {
        line("left out", cause.pages, &format!("  {}", cause.cause));
    }
    for remark in &run.notes {
        let _ = writeln!(text, "note: {}", remark.replace(char::is_control, " "));
    }
    if run.state != "complete" {
        let _ = writeln!(text, "The run {}.", run.state);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{progress, summary};
    use api::warm::{WarmCause, WarmRun};

    #[test]
    fn outcome_names_counts_causes_and_remarks() {
        let cause = |cause: &str, pages| WarmCause { cause: cause.to_owned(), pages };
        let run = WarmRun {
            causes: vec![cause("store-refused-private", 3), cause("pass-path", 1)],
            found: 1_234,
            warmed: 1_230,
            not_cacheable: 4,
            notes: vec!["/a.xml is left out: status 404".to_owned()],
            skipped: vec![cause("robots", 2)],
            state: "ended, because the origin failed 5 times in a row".to_owned(),
            ..WarmRun::default()
        };
        assert_eq!(
            summary(&run),
            "pages found          1,234\nstored               1,230\nfresh before             0\n\
             not cacheable            4  most often store-refused-private\nfailed                   0\n\
             left out                 2  robots\nnote: /a.xml is left out: status 404\n\
             The run ended, because the origin failed 5 times in a row.\n"
        );
        assert!(progress(&run).starts_with("1,234 of 1,234 pages, 1,230 stored; ended"));
    }
}
