//! The examples in front of the real systems: the group `examples` of the test command, and
//! `cargo xtask long examples`.
//!
//! Invariant: all labs that the examples need are started before the tests and stopped after them,
//! whatever the tests' result. The tests are in `crates/cli/lab/examples`.

use crate::test::{self, PassedFailed, TEST_PACKAGES};
use crate::{lab, packages};
use anyhow::{Context, Result, anyhow, ensure};
use std::path::PathBuf;

/// The labs of the examples.
const LABS: [&str; 4] = ["mediawiki", "node", "wagtail", "wordpress"];
/// Number of examples that are visited at the same time. Each has a browser.
const AT_A_TIME: &str = "3";

/// Arguments of `cargo xtask long examples`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Test an example with your own copy of its system instead of a stub: `drupal=DIR`, the top of
    /// a Drupal 7 or Pressflow 7
    // Resolved before xtask changes to the top of the repository.
    #[arg(long, value_name = "NAME=DIR", value_parser = source)]
    source: Option<PathBuf>,
}

/// Parser for `--source`: returns the directory.
fn source(text: &str) -> Result<PathBuf> {
    let (name, directory) =
        text.split_once('=').context("write NAME=DIR, such as drupal=/home/me/drupal-7")?;
    ensure!(name == "drupal", "only drupal can have a source: no lab starts {name} from one");
    Ok(std::path::absolute(directory)?)
}

/// Tests all examples; a stub takes the place of systems that no package registry has.
///
/// # Errors
/// If a lab cannot be started or stopped, or no test could run.
pub(crate) fn test() -> Result<PassedFailed> {
    visit(&[])
}

/// As [`test`], with the given source of a system.
///
/// # Errors
/// As [`test`], and if a test fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let tally = match &args.source {
        None => visit(&[])?,
        Some(directory) => {
            lab::drupal_from(directory)?;
            let tally = visit(&[("PETASOS_EXAMPLES_SOURCE", "drupal")]);
            test::order("drupal", "down")?;
            tally?
        }
    };
    println!("{tally}");
    ensure!(tally.failed == 0, "{} examples failed", tally.failed);
    Ok(())
}

fn visit(environment: &[(&str, &str)]) -> Result<PassedFailed> {
    packages::ensure(&TEST_PACKAGES)?;
    lab::install()?;
    test::build_binary()?;
    let started = order_all("up");
    let tally = started.and_then(|()| {
        test::lab_test_with("lab_examples", &["--", "--test-threads", AT_A_TIME], environment)
    });
    order_all("down")?;
    tally
}

/// Gives the same order to all labs at once.
fn order_all(word: &str) -> Result<()> {
    std::thread::scope(|scope| {
        let mut running = Vec::with_capacity(LABS.len());
        for name in LABS {
            running.push(scope.spawn(move || test::order(name, word)));
        }
        running.into_iter().try_for_each(|thread| {
            let panicked = |_| Err(anyhow!("the order \"{word}\" panicked"));
            thread.join().unwrap_or_else(panicked).map(|_| ())
        })
    })
}
