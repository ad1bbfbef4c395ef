//! `petasos report`: shows a ladder that was measured earlier, and writes its HTML report again.
//!
//! Exit codes: 0 if the report was written; 2 if the results cannot be read or the report cannot be
//! written.

use crate::ladder::{columns, print_text};
use anyhow::{Context as _, ensure};
use platform::{Disk as _, SystemDisk};
use report::results::{Results, SCHEMA};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Print the results of a ladder again, and write its HTML report again
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Results of a ladder: its results.json
    file: PathBuf,
    /// File for the HTML report [default: report.html beside the results]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print Markdown with the ab command of each row, in place of text for a terminal
    #[arg(long, conflicts_with = "verbose")]
    markdown: bool,
    /// Print all figures above the headline and the table
    #[arg(long, short)]
    verbose: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let shown = args.file.display();
    let bytes = SystemDisk.read(&args.file).with_context(|| format!("cannot read {shown}"))?;
    let results: Results = serde_json::from_slice(&bytes)
        .with_context(|| format!("{shown} is not the results.json of a ladder"))?;
    ensure!(
        results.schema == SCHEMA,
        "{shown} has the schema {}, but this version of Petasos reads {SCHEMA}; walk the ladder again",
        results.schema
    );
    let out = args.out.clone().unwrap_or_else(|| args.file.with_file_name(ladder::REPORT_FILE));
    ensure!(
        !is_one_file(&out, &args.file),
        "--out names the file with the results; choose another file for the HTML report"
    );
    SystemDisk
        .replace(&out, report::html::page(&results).as_bytes())
        .with_context(|| format!("cannot write {}", out.display()))?;
    if args.markdown {
        print_text(&report::markdown::markdown(&results))?;
    } else {
        let text = report::table::text(&results, columns(), args.verbose);
        print_text(&format!("{text}\nReport:  {}\n", out.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether both paths lead to the same existing file, under whatever names.
fn is_one_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
