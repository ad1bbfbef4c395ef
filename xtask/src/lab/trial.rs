//! `cargo xtask long try`: `petasos try` on the sites of the labs, with a check of each statement
//! that can be known otherwise.
//!
//! - The report agrees with [`sites::SITES`]. docs/try.md shows these rows.
//! - A Petasos with the written configuration answers the reported pages from memory, and with the
//!   proposed settings also those that need one ([`memory`]).
//! - The logs of the site have GET requests only, none for a link with an effect, and its content
//!   is the same as before ([`traces`]).
//! - A load that meets failures ends within [`traces::LOAD_END_MAX`] after the first one.
//!
//! Invariant: each lab is stopped after its sites, whatever the results. Nothing but the labs on
//! loopback is loaded.

mod memory;
mod report;
mod sites;
mod traces;

use super::stack::{self, StackSite};
use super::{directory, drupal};
use anyhow::{Context, Result, anyhow, ensure};
use report::Report;
use sites::{Expected, SITES, TrialSite};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use traces::Traces;

/// The load of each trial: shorter than usual, because the figures are not compared.
const LOAD: [&str; 4] = ["--rounds", "2", "--round-time", "1s"];

/// Arguments of `cargo xtask long try`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Try only the sites whose name contains one of these words
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
    /// Top directory of your own Drupal 7 or Pressflow 7; without it, Drupal is left out
    // Resolved before xtask changes to the top of the repository.
    #[arg(long, value_name = "DIR", value_parser = |text: &str| std::path::absolute(text))]
    drupal: Option<PathBuf>,
}

/// Tries all sites.
///
/// # Errors
/// Names the statements that are wrong, or the part that could not run.
pub(crate) fn run(args: &Args) -> Result<()> {
    crate::test::build_binary()?;
    let chosen = |site: &&TrialSite| {
        args.only.is_empty() || args.only.iter().any(|word| site.name.contains(word.as_str()))
    };
    let sites: Vec<&TrialSite> = SITES.iter().filter(chosen).collect();
    ensure!(!sites.is_empty(), "no site has such a name");
    let mut faults = 0;
    for group in sites.chunk_by(|one, next| one.stack.name == next.stack.name) {
        let Some(first) = group.first() else { continue };
        let given = match (first.stack.name == drupal::STACK.name, &args.drupal) {
            (false, _) => Vec::new(),
            (true, Some(source)) => drupal::given(Some(source))?.to_vec(),
            (true, None) => {
                println!("{}: left out; --drupal DIR names a copy of it", first.name);
                continue;
            }
        };
        let dir = &directory(first.stack, None);
        stack::up(first.stack, dir, &given)?;
        let tried = stack::running(first.stack, dir, |lab| {
            group.iter().try_fold(0, |faults, site| {
                // The test kit panics if an edge does not start. The lab must be stopped then, too.
                let tried = catch_unwind(AssertUnwindSafe(|| try_site(site, lab)));
                Ok(faults + tried.map_err(|_| anyhow!("{}: the check panicked", site.name))??)
            })
        });
        stack::down(first.stack, dir)?;
        faults += tried?;
    }
    ensure!(faults == 0, "{faults} statements are wrong");
    println!("each statement of {} sites is right", sites.len());
    Ok(())
}

/// Tries a site and prints the result. Returns the number of faults.
fn try_site(site: &TrialSite, lab: &StackSite<'_>) -> Result<usize> {
    let url = format!("http://{}{}", lab.value(site.address)?, site.path);
    let place = tempfile::tempdir()?;
    let file = place.path().join("petasos.toml");
    let written = file.to_str().context("the directory's name is not text")?;
    let before = Traces::of(site, lab)?;
    let told =
        testkit::petasos(["try", &url, "--json", "--no-delay", "--write", written].iter().chain(&LOAD));
    let after = Traces::of(site, lab)?;
    let mut faults = before.faults(&after, site);
    let row = match &site.expected {
        Expected::Refused(words) => {
            if told.code != Some(2) || !told.stderr.contains(words) {
                faults.push(format!("code {:?}, not refused with \"{words}\": {}", told.code, told.stderr));
            }
            (*words).to_owned()
        }
        Expected::Report(expected) => {
            ensure!(matches!(told.code, Some(0 | 1)), "{}: {}", site.name, told.stderr);
            let report = Report::read(&told.stdout).context("the report cannot be read")?;
            let found = report.statements();
            if found != expected.to_string() {
                faults.push(format!("expected {expected}\n       found {found}"));
            }
            faults.extend(report.faults());
            faults.extend(memory::faults(&report, &std::fs::read_to_string(&file)?)?);
            found
        }
    };
    println!("{}: {row}", site.name);
    faults.iter().for_each(|fault| println!("  WRONG {fault}"));
    Ok(faults.len())
}
