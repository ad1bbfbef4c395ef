//! `petasos import`: converts the reports of other load testers to our JSON, so that they can be
//! compared and reported like our own runs.
//!
//! Exit codes: 0 if everything was read; 2 if a file could not be read, in which case nothing is
//! written.

use crate::bench::measure;
use crate::output::note;
use anyhow::Context as _;
use report::import::{ImportedRun, import};
use report::run::Run;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

/// Convert reports of ab, wrk and JMeter (JTL) to JSON.
///
/// A figure that a report lacks is null in the JSON.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Report of ab or wrk, or a JTL as CSV or XML; - means standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// File for the JSON [default: standard output]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Reads the files and writes their runs in the order of the files.
///
/// # Errors
/// If a file cannot be read; the error names the file and the line. Also if the result cannot be
/// written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut runs: Vec<Run> = Vec::new();
    for path in &args.files {
        let name = path.display();
        let reader: Box<dyn BufRead> = if path.as_os_str() == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(BufReader::new(File::open(path).with_context(|| format!("cannot read {name}"))?))
        };
        let ImportedRun { runs: found, notes } = import(reader).with_context(|| format!("{name}"))?;
        notes.iter().for_each(|text| note(format_args!("petasos: import: {name}: {text}")));
        runs.extend(found);
    }
    let text: String = runs.iter().map(Run::to_json).collect();
    match &args.json {
        Some(path) => measure::write_file(path, &text)?,
        None => measure::write_text(io::stdout(), &text)?,
    }
    Ok(ExitCode::SUCCESS)
}
