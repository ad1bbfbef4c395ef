//! Where the results of a run are written, and the conditions under which the run has failed.
//!
//! Invariant: the report is printed first, and every file is attempted even if another one fails.
//! So a full disk costs a file, never the figures. A regular file is written completely or not at
//! all.

use super::measure::{write_text, write_with};
use crate::output::note;
use anyhow::{bail, ensure};
use record::{Plan, RunOutcome, SAMPLES_MAX};
use report::csv::{page_seconds_csv, seconds_csv};
use report::html::{run_page, visits_page};
use report::page::PageRun;
use report::run::Run;
use report::thresholds::{JudgedThreshold, Threshold};
use report::{hdr, jtl};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Largest number of requests in a JTL unless `-n` gives one. Each thread may keep this many, at 40
/// bytes each.
const JTL_REQUESTS_MAX: u64 = 1_000_000;

/// Files to write, and conditions under which the run fails.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// Write the run as JSON; with - to standard output, and the report to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the run as a self-contained HTML report
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the run as CSV, with a row for each second
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the requests as JMeter's JTL: the first -n requests, or the first million without -n
    #[arg(long, value_name = "FILE", conflicts_with = "page")]
    jtl: Option<PathBuf>,
    /// Write the distributions of the times as an HdrHistogram log
    #[arg(long, value_name = "FILE", conflicts_with = "page")]
    hdr: Option<PathBuf>,
    /// Exit with 1 if this condition holds, such as 'p95 > 300ms' or 'errors > 0.1%'; repeatable
    #[arg(long, value_name = "EXPR")]
    fail_if: Vec<Threshold>,
}

/// Function that writes a result in one format.
type WriteResult<'a> = &'a dyn Fn(&mut dyn Write) -> io::Result<()>;

impl OutputArgs {
    /// Refuses outputs that cannot be written, before the run begins.
    ///
    /// # Errors
    /// If two outputs go to standard output or to the same path, a file's directory does not exist,
    /// or a path is a directory.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let (standard, files): (Vec<&Path>, Vec<&Path>) =
            self.paths().into_iter().flatten().partition(|path| is_stdout(path));
        ensure!(
            standard.len() < 2,
            "only one result can go to standard output (-); give the others a file name"
        );
        for (index, path) in files.iter().enumerate() {
            ensure!(
                !files.iter().take(index).any(|other| other == path),
                "two results cannot go to the same file {}; give each a name of its own",
                path.display()
            );
            let directory =
                path.parent().filter(|parent| *parent != Path::new("")).unwrap_or_else(|| Path::new("."));
            let path_shown = path.display();
            let shown = directory.display();
            ensure!(
                directory.is_dir(),
                "cannot write {path_shown}: the directory {shown} does not exist; create it first"
            );
            ensure!(!path.is_dir(), "cannot write {path_shown}: it is a directory; name a file in it");
        }
        Ok(())
    }

    /// Makes the run keep the single requests that a JTL lists, if one is wanted.
    ///
    /// # Errors
    /// As [`OutputArgs::check`].
    pub(crate) fn prepare(&self, plan: &mut Plan) -> anyhow::Result<()> {
        self.check()?;
        if self.jtl.is_some() {
            plan.samples_max = plan.stop.requests.unwrap_or(JTL_REQUESTS_MAX).min(SAMPLES_MAX);
        }
        Ok(())
    }

    /// Judges the run by each condition of `--fail-if`.
    pub(crate) fn judge(&self, run: &Run) -> Vec<JudgedThreshold> {
        self.fail_if.iter().map(|threshold| threshold.judge(run)).collect()
    }

    /// Refuses conditions about figures that page mode does not have.
    ///
    /// # Errors
    /// If there is an unsupported condition; the error names the first one.
    pub(crate) fn check_pages(&self) -> anyhow::Result<()> {
        match self.fail_if.iter().find(|threshold| !threshold.is_about_pages()) {
            Some(other) => bail!(
                "--fail-if '{other}' does not go with --page; the metrics of pages are rate, requests, good, errors, not_started \
                 and times, such as p95"
            ),
            None => Ok(()),
        }
    }

    /// Judges a run of page loads by each condition of `--fail-if`.
    pub(crate) fn judge_pages(&self, run: &PageRun) -> Vec<JudgedThreshold> {
        self.fail_if.iter().map(|threshold| threshold.judge_pages(run)).collect()
    }

    /// Whether a condition bounds the number of failed requests.
    pub(crate) fn allows_errors(&self) -> bool {
        self.fail_if.iter().any(Threshold::is_about_errors)
    }

    /// Writes the report, then every file. With several runs, the JSON has all of them and the
    /// other files have the run that the report shows.
    ///
    /// # Errors
    /// If something could not be written; the error lists every failure. The rest was written.
    pub(crate) fn write(
        &self,
        report: &str,
        outcome: &RunOutcome,
        run: &Run,
        all: &[Run],
    ) -> anyhow::Result<()> {
        let written = self.write_all(
            report,
            &[
                (&self.json, &|out| all.iter().try_for_each(|run| out.write_all(run.to_json().as_bytes()))),
                (&self.html, &|out| out.write_all(run_page(run).as_bytes())),
                (&self.csv, &|out| out.write_all(seconds_csv(run).as_bytes())),
                (&self.jtl, &|out| jtl::write(outcome, out)),
                (&self.hdr, &|out| out.write_all(&hdr::hdr_log(outcome)?)),
            ],
        );
        let kept = outcome.samples.len() as u64;
        if self.jtl.is_some() && kept < outcome.requests() {
            note(format_args!(
                "petasos: --jtl: the file has only the first {kept} of {} requests",
                outcome.requests()
            ));
        }
        written
    }

    /// Writes the report and the files of a run of page loads.
    ///
    /// # Errors
    /// If something could not be written; the error lists every failure. The rest was written.
    pub(crate) fn write_pages(&self, report: &str, run: &PageRun) -> anyhow::Result<()> {
        self.write_all(
            report,
            &[
                (&self.json, &|out| out.write_all(run.to_json().as_bytes())),
                (&self.html, &|out| out.write_all(visits_page(run).as_bytes())),
                (&self.csv, &|out| out.write_all(page_seconds_csv(run).as_bytes())),
            ],
        )
    }

    fn write_all(&self, report: &str, results: &[(&Option<PathBuf>, WriteResult<'_>)]) -> anyhow::Result<()> {
        let takes_stdout = self.paths().into_iter().flatten().any(is_stdout);
        let shown =
            if takes_stdout { write_text(io::stderr(), report) } else { write_text(io::stdout(), report) };
        let mut failed: Vec<String> = Vec::new();
        if let Err(error) = shown {
            failed.push(format!("cannot write the report: {error}"));
        }
        for (path, write) in results {
            let Some(path) = path else { continue };
            if let Err(error) = write_with(path, write) {
                failed.push(format!("{error:#}"));
            }
        }
        ensure!(failed.is_empty(), "{}", failed.join("; "));
        Ok(())
    }

    fn paths(&self) -> [Option<&Path>; 5] {
        [&self.json, &self.html, &self.csv, &self.jtl, &self.hdr].map(|path| path.as_deref())
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

#[cfg(test)]
mod tests {
    use super::OutputArgs;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        outputs: OutputArgs,
        /// Some outputs exclude it.
        #[arg(long)]
        page: bool,
    }

    fn checked(arguments: &str) -> Result<(), String> {
        let line = Line::parse_from(["bench"].into_iter().chain(arguments.split_whitespace()));
        assert!(!line.page);
        line.outputs.check().map_err(|error| error.to_string())
    }

    #[test]
    fn results_need_files_of_their_own() {
        assert_eq!(checked("--json a --csv b --html -"), Ok(()));
        let same = checked("--json run --csv run").unwrap_err();
        assert_eq!(same, "two results cannot go to the same file run; give each a name of its own");
        assert!(checked("--json - --csv -").unwrap_err().contains("only one result"));
    }
}
