//! `cargo xtask conformance`: runs the public suite http-cache-tests against the real binary and
//! compares the results with the expected ones.
//!
//! Invariant: a test that does not pass must be listed with a written reason, or the run fails. The
//! run also fails if a listed test passes. The suite's own client and origin do the testing, and
//! its own code does the scoring. The files for it are in `conformance/`.

mod expected;
mod h2spec;
mod page;
mod protocol;
mod report;
mod scores;
mod suite;
mod suite_servers;

pub(crate) use page::render as page;

use anyhow::{Context, Result, bail, ensure};
use expected::Expected;
use protocol::Protocol;
use report::{Score, SuiteReport};
use scores::Scores;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;
use suite::Suite;
use suite_servers::SuiteServers;

/// Directory for logs, results and the suite's packages.
const WORK: &str = "target/conformance";
/// Maximum number of unexpected failures that are tried again, because a pause may have taken too
/// long on a busy machine. More failures are no coincidence.
const RETRIES_MAX: usize = 8;

/// Arguments of `cargo xtask conformance`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A checkout of the suite, instead of the npm package http-cache-tests
    // Resolved before xtask changes to the top of the repository.
    #[arg(long, value_name = "DIR", value_parser = |text: &str| std::path::absolute(text))]
    suite: Option<PathBuf>,
    /// Run one profile only
    #[arg(long)]
    profile: Option<TestedProfile>,
    /// Speak one protocol only
    #[arg(long)]
    protocol: Option<Protocol>,
    /// Run only this test and the tests that it depends on; may be given several times. With a
    /// single test, all messages are shown
    #[arg(long, value_name = "TEST")]
    id: Vec<String>,
    /// Store the scores for docs/conformance.md if all results are as expected
    #[arg(long, conflicts_with = "id")]
    write: bool,
}

/// A tested profile. Its configuration is `conformance/NAME.toml`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Deserialize, serde::Serialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TestedProfile {
    /// Follows the RFCs to the letter
    Rfc,
    /// Safe in front of any application
    Default,
}

impl TestedProfile {
    /// All profiles, in the order in which they are shown.
    const ALL: [Self; 2] = [Self::Rfc, Self::Default];

    /// Name in settings and file names.
    const fn name(self) -> &'static str {
        match self {
            Self::Rfc => "rfc",
            Self::Default => "default",
        }
    }
}

/// One run of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// The profile of Petasos.
    pub(crate) profile: TestedProfile,
    /// The protocol between the suite's client and Petasos.
    pub(crate) protocol: Protocol,
}

/// Result of a whole run, in numbers of tests.
#[derive(Clone, Copy, Default)]
pub(crate) struct TestCounts {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests whose result differs from the expected one.
    pub(crate) differences: u64,
}

/// Runs `cargo xtask conformance`.
///
/// # Errors
/// If a suite cannot run, or if a result differs from the expected one.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut count = TestCounts::default();
    for protocol in Protocol::ALL.into_iter().filter(|one| args.protocol.is_none_or(|only| only == *one)) {
        count.add(compare(args, protocol)?);
    }
    if args.id.is_empty() && args.protocol.is_none_or(|only| only == Protocol::Http2) {
        count.add(h2spec::run(&build()?)?);
    }
    ensure!(count.differences == 0, "{} differences from what is expected", count.differences);
    Ok(())
}

impl TestCounts {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.differences += other.differences;
    }
}

/// Runs both profiles against the npm package, over HTTP/1 and HTTP/2, and h2spec, for `cargo xtask
/// test`.
///
/// # Errors
/// If a suite cannot run.
pub(crate) fn test() -> Result<TestCounts> {
    let args = Args { suite: None, profile: None, protocol: None, id: Vec::new(), write: false };
    let mut count = compare(&args, Protocol::Http1)?;
    count.add(compare(&args, Protocol::Http2)?);
    count.add(h2spec::run(&build()?)?);
    Ok(count)
}

fn compare(args: &Args, protocol: Protocol) -> Result<TestCounts> {
    std::fs::create_dir_all(WORK).with_context(|| format!("cannot make {WORK}"))?;
    let _alone = alone()?;
    let suite = Suite::prepare(args.suite.as_deref())?;
    let expected = Expected::read(suite.edition)?;
    let petasos = build()?;
    let profiles =
        TestedProfile::ALL.into_iter().filter(|profile| args.profile.is_none_or(|only| only == *profile));
    eprintln!("running {} on {} over {}", suite.label, suite.node, protocol.name());
    let runs: Vec<(TestedProfile, Result<SuiteReport>)> = std::thread::scope(|scope| {
        let mut started = Vec::new();
        for profile in profiles {
            let suite = &suite;
            let petasos = &petasos;
            let expected = &expected;
            let variant = Variant { profile, protocol };
            let run = scope.spawn(move || run_variant(suite, petasos, variant, expected, &args.id));
            started.push((profile, run));
        }
        let joined = |run: ScopedJoinHandle<'_, _>| run.join().unwrap_or_else(|_| bail!("the run panicked"));
        started.into_iter().map(|(profile, run)| (profile, joined(run))).collect()
    });
    let mut count = TestCounts::default();
    let mut scores = Scores::read()?;
    for (profile, report) in runs {
        let report = report.with_context(|| format!("profile {}", profile.name()))?;
        count.passed += report.tests.iter().filter(|test| test.outcome.passes()).count() as u64;
        count.differences += tell(&suite, Variant { profile, protocol }, &report, &expected, &args.id);
        // The other protocols must give the same results.
        if protocol == Protocol::Http1 {
            scores.keep(suite.edition, &suite.label, profile, &report);
        }
    }
    if args.write {
        ensure!(count.differences == 0, "the scores are only kept if everything is as expected");
        scores.write()?;
        println!("{} is written; `cargo xtask docs` renders docs/conformance.md", scores::PATH);
    }
    Ok(count)
}

/// Locks the working directory, and waits if another run uses it. The lock lasts until the file is
/// closed.
fn alone() -> Result<File> {
    let path = Path::new(WORK).join("lock");
    let lock = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    if lock.try_lock().is_err() {
        eprintln!("waiting for another run to end");
        lock.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(lock)
}

/// Builds the debug binary, which the end-to-end tests use as well.
fn build() -> Result<PathBuf> {
    crate::test::build_binary()?;
    std::path::absolute("target/debug/petasos").context("there is no working directory")
}

/// Runs the suite, and a second time those tests that may have failed because of their timing.
fn run_variant(
    suite: &Suite,
    petasos: &Path,
    variant: Variant,
    expected: &Expected,
    chosen: &[String],
) -> Result<SuiteReport> {
    let mut report = SuiteServers::up(suite, petasos, variant)?.run_client(chosen)?;
    let suspects = expected.timing_suspects(variant.profile, &report);
    if !suspects.is_empty() && suspects.len() <= RETRIES_MAX {
        eprintln!("profile {}: trying again, alone: {}", variant.profile.name(), suspects.join(", "));
        let second = SuiteServers::up(suite, petasos, variant)?.run_client(&suspects)?;
        report.take_over(&suspects, second);
    }
    Ok(report)
}

/// Prints the results of a run. Returns the number of differences.
fn tell(
    suite: &Suite,
    variant: Variant,
    report: &SuiteReport,
    expected: &Expected,
    chosen: &[String],
) -> u64 {
    let whole = chosen.is_empty();
    let differences = expected.differences(variant.profile, report, whole);
    let mut out = std::io::stdout().lock();
    // Write errors are ignored: a closed standard output must not change the result.
    if let [_] = chosen {
        for messages in suite.messages(variant) {
            let _ = writeln!(out, "{messages}");
        }
    }
    let _ = writeln!(
        out,
        "{}, profile {}, {}: {}",
        suite.label,
        variant.profile.name(),
        variant.protocol.name(),
        Score::of(report)
    );
    for test in report.tests.iter().filter(|test| test.second_try) {
        let _ = writeln!(out, "  at the second try: {} ({})", test.id, test.outcome.name());
    }
    if !whole {
        for test in &report.tests {
            let _ = writeln!(out, "  {}", test.line());
        }
    }
    for difference in &differences {
        let _ = writeln!(out, "  DIFFERENCE {difference}");
    }
    differences.len() as u64
}
