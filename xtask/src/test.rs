//! `cargo xtask test`: everything that must pass before a change lands, as a list of groups. Each
//! group has a time budget.
//!
//! Invariant: a skipped test never counts as passed. A group that cannot run has failed, and so has
//! a group that takes twice its budget. Cheap groups run first, so that a failure shows early.
//!
//! The command installs the Debian packages of the servers that the tests start. Tests in their
//! long form are in [`crate::long`].

mod limits;

use crate::{conformance, docs, examples, go_tools, lab, layers, packages, tidy};
use anyhow::{Context, Result, bail, ensure};
use clock::Clock;
use limits::BudgetUse;
use platform::SystemClock;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::iter::Sum;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Debian packages of the programs that `real_*.rs` tests start or compare with.
pub(crate) const TEST_PACKAGES: [&str; 11] = [
    "apache2-bin",
    "apache2-utils",
    "chromium",
    "fuse2fs",
    "haproxy",
    "lighttpd",
    "lighttpd-modules-lua",
    "nginx-core",
    "php-fpm",
    "python3-django",
    "systemd",
];

/// Debian packages of the programs with which unit tests build the Python package.
const UNIT_PACKAGES: [&str; 2] = ["python3-setuptools", "python3-wheel"];

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only format, lints, documents, unit, property and core end-to-end tests: at most six
    /// minutes
    #[arg(long)]
    quick: bool,
    /// Run only the group with this name; may be given several times
    #[arg(long, value_name = "NAME", conflicts_with = "quick", value_parser = group_name)]
    group: Vec<String>,
}

impl Args {
    fn chooses(&self, group: &CheckGroup) -> bool {
        if self.group.is_empty() {
            group.quick || !self.quick
        } else {
            self.group.iter().any(|name| name == group.name)
        }
    }
}

/// Parser for `--group`: accepts the name of a group.
fn group_name(text: &str) -> Result<String, String> {
    if GROUPS.iter().any(|group| group.name == text) {
        return Ok(text.to_owned());
    }
    let names: Vec<_> = GROUPS.iter().map(|group| format!("\"{}\"", group.name)).collect();
    Err(format!("the groups are {}", names.join(", ")))
}

/// Numbers of passed and failed tests.
#[derive(Clone, Default)]
pub(crate) struct PassedFailed {
    passed: u64,
    pub(crate) failed: u64,
    /// The names of failed tests, as far as they have names: the last lines of a long output must
    /// show them.
    failures: Vec<String>,
}

impl fmt::Display for PassedFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

impl Sum for PassedFailed {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        tallies.fold(Self::default(), |sum, tally| Self {
            passed: sum.passed + tally.passed,
            failed: sum.failed + tally.failed,
            failures: [sum.failures, tally.failures].concat(),
        })
    }
}

/// One group of checks.
struct CheckGroup {
    name: &'static str,
    /// Expected time on two cores, in seconds, when all groups before it have run. The group fails
    /// at twice this time.
    budget_s: u64,
    quick: bool,
    run: fn() -> Result<PassedFailed>,
}

/// All groups, in the order in which they run.
const GROUPS: &[CheckGroup] = &[
    CheckGroup { name: "format", budget_s: 10, quick: true, run: format },
    CheckGroup { name: "tidy", budget_s: 10, quick: true, run: || tidy::run().map(|()| ONE) },
    CheckGroup { name: BUILD[0], budget_s: 420, quick: true, run: build_tests },
    CheckGroup { name: "lints", budget_s: 150, quick: true, run: lints },
    CheckGroup { name: "documents", budget_s: 10, quick: true, run: || docs::check().map(|()| ONE) },
    CheckGroup { name: "unit and property tests", budget_s: 40, quick: true, run: unit },
    CheckGroup {
        name: "end-to-end tests",
        budget_s: 140,
        quick: true,
        run: || {
            let is_core = |name: &str| {
                let is_of_others = is_real(name) || is_attack(name) || is_of_demo_site(name);
                !is_of_others && !is_lengthy(name) && name != SEEDS
            };
            integration(is_core, &[])
        },
    },
    CheckGroup {
        name: "lengthy end-to-end tests",
        budget_s: 140,
        quick: false,
        run: || integration(is_lengthy, &[]),
    },
    CheckGroup { name: "demo site", budget_s: 50, quick: false, run: || integration(is_of_demo_site, &[]) },
    CheckGroup {
        name: "packages",
        budget_s: 200,
        quick: false,
        run: || {
            packages::ensure(&TEST_PACKAGES)
                .and_then(|()| lab::install())
                .and_then(|()| go_tools::ensure_all())
                .map(|()| ONE)
        },
    },
    CheckGroup { name: BUILD[1], budget_s: 480, quick: false, run: build_release },
    CheckGroup { name: "models", budget_s: 180, quick: false, run: models },
    CheckGroup { name: "simulation", budget_s: 180, quick: false, run: simulation },
    CheckGroup { name: "real programs", budget_s: 90, quick: false, run: real_programs },
    CheckGroup { name: "attacks", budget_s: 100, quick: false, run: || attacks(TestSize::Short) },
    CheckGroup { name: "conformance", budget_s: 70, quick: false, run: conformance },
    CheckGroup { name: "demo", budget_s: 60, quick: false, run: demo },
    CheckGroup { name: "wordpress lab", budget_s: 330, quick: false, run: wordpress },
    CheckGroup { name: "mediawiki lab", budget_s: 80, quick: false, run: || system("mediawiki") },
    CheckGroup { name: "wagtail lab", budget_s: 80, quick: false, run: || system("wagtail") },
    CheckGroup { name: "examples", budget_s: 100, quick: false, run: examples::test },
    CheckGroup { name: "webservers lab", budget_s: 80, quick: false, run: webservers },
    CheckGroup {
        name: "static tree's ladder",
        budget_s: 20,
        quick: false,
        run: || ladder("static-tree", &[]),
    },
    CheckGroup { name: "fuzz", budget_s: 420, quick: false, run: fuzz },
    CheckGroup { name: "dependencies", budget_s: 160, quick: false, run: dependencies },
];

/// Names of the groups that only build programs for later groups.
const BUILD: [&str; 2] = ["build of the tests", "build of the release"];

/// Tally of a group that consists of a single check.
const ONE: PassedFailed = PassedFailed { passed: 1, failed: 0, failures: Vec::new() };

/// Tally of a group that failed or could not run.
fn failed(why: String) -> PassedFailed {
    PassedFailed { passed: 0, failed: 1, failures: vec![why] }
}

/// Runs the chosen groups and prints the total as the last line, like a test runner does.
///
/// # Errors
/// If a test failed or a group exceeded its time. All groups have been tried by then.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut total = PassedFailed::default();
    let clock = SystemClock::new();
    let begin = clock.monotonic();
    for group in GROUPS.iter().filter(|group| args.chooses(group)) {
        let tally = group.attempt(&clock, clock.monotonic().since(begin));
        total = [total, tally].into_iter().sum();
    }
    eprintln!("== all groups: {} s", clock.monotonic().since(begin).as_secs());
    for failure in &total.failures {
        eprintln!("== failed: {failure}");
    }
    println!("{total}");
    ensure!(total.failed == 0, "{} tests failed", total.failed);
    Ok(())
}

impl CheckGroup {
    /// Runs the group and prints its outcome. `whole` is the time since the command began.
    fn attempt(&self, clock: &dyn Clock, whole: Duration) -> PassedFailed {
        let Self { name, budget_s, .. } = self;
        let limit = limits::limit(*budget_s, whole);
        if limit.is_zero() {
            eprintln!("== {name}: NOT RUN: the whole command took {} s", whole.as_secs());
            return failed(format!("{name} did not run, because the time was over"));
        }
        eprintln!("== {name} (budget {budget_s} s)");
        let (result, took) = limits::run_within(clock, limit, limits::kill_descendants, self.run);
        let mut tally = result.unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            failed(format!("{error:#}"))
        });
        let verdict = match limits::pace(took, *budget_s, limit) {
            BudgetUse::Within => "",
            BudgetUse::Over => ": OVER BUDGET",
            BudgetUse::Failed => {
                tally.failed += 1;
                tally.failures.push(format!("the time of {name}"));
                ": FAILED BY TIME"
            }
        };
        for failure in &mut tally.failures {
            *failure = format!("{name}: {failure}");
        }
        eprintln!("== {name}: {tally}, {} of {budget_s} s{verdict}", took.as_secs());
        tally
    }
}

fn cargo(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command that counts as one test, which passes if the command succeeds.
fn check(mut command: Command) -> Result<PassedFailed> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(ONE)
}

/// Lines of standard error that [`check_with_tail`] quotes.
const TAIL_LINES: usize = 12;

/// As [`check`]. The error quotes the last lines of standard error, so that the end of the whole
/// run names the failure. Only for programs that end all processes they started: another one would
/// keep the pipe open, and this function would wait for it.
fn check_with_tail(mut command: Command) -> Result<PassedFailed> {
    let mut child =
        command.stderr(Stdio::piped()).spawn().with_context(|| format!("cannot run {command:?}"))?;
    let stderr = child.stderr.take().context("the pipe was asked for")?;
    let mut tail = VecDeque::new();
    for line in BufReader::new(stderr).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        eprintln!("{line}");
        if tail.len() == TAIL_LINES {
            tail.pop_front();
        }
        tail.push_back(line);
    }
    let status = child.wait()?;
    let last = Vec::from(tail).join("\n  ");
    ensure!(status.success(), "{command:?} ended with {status}:\n  {last}");
    Ok(ONE)
}

fn format() -> Result<PassedFailed> {
    check(cargo(["fmt", "--all", "--check"]))
}

fn lints() -> Result<PassedFailed> {
    clippy(&["--workspace", "--all-targets", "--features", LAB_FEATURES])
}

fn clippy(chosen: &[&str]) -> Result<PassedFailed> {
    let words = [&["clippy", "--quiet"], chosen, &["--locked", "--", "-D", "warnings"]];
    check(cargo(words.concat()))
}

/// Builds all tests and the binary that they start, so that the budgets of the test groups contain
/// no build time.
fn build_tests() -> Result<PassedFailed> {
    check(cargo(["test", "--workspace", "--locked", "--quiet", "--no-run"]))?;
    // Most labs' groups have room to build their tests; the group of the examples has not.
    let words = ["test", "--workspace", "--locked", "--quiet", "--no-run", "--features", LAB_FEATURES];
    check(cargo(words.into_iter().chain(["--test", "lab_examples"])))?;
    build_binary().map(|()| ONE)
}

/// Builds the release binary, which the labs and the demo measure.
fn build_release() -> Result<PassedFailed> {
    check(cargo(["build", "--release", "--locked", "--quiet"]))
}

/// Builds the release binary.
///
/// # Errors
/// If it cannot be built.
pub(crate) fn build_optimised() -> Result<()> {
    build_release().map(|_| ())
}

fn unit() -> Result<PassedFailed> {
    packages::ensure(&UNIT_PACKAGES)?;
    let tests = count(cargo(["test", "--workspace", "--locked", "--lib", "--bins", "--no-fail-fast"]))?;
    let doc = count(cargo(["test", "--workspace", "--locked", "--doc", "--no-fail-fast"]))?;
    Ok([tests, doc].into_iter().sum())
}

/// Runs the model tests, which execute concurrent code under many thread interleavings. Each test
/// prints how many. Also lints the code that only the `model` feature compiles.
fn models() -> Result<PassedFailed> {
    let model = |package, chosen: &[&str]| {
        let common = ["test", "--locked", "--features", "model", "--package", package];
        count(cargo(common.into_iter().chain(chosen.iter().copied())))
    };
    let edge = model("petasos-edge", &["--lib", "model::", "--", "--nocapture"])?;
    let store = model("petasos-store", &["--test", "interleavings"])?;
    let linted = clippy(&[
        "--package",
        "petasos-edge",
        "--package",
        "petasos-store",
        "--features",
        "model",
        "--tests",
    ])?;
    Ok([edge, store, linted].into_iter().sum())
}

/// The integration test file that simulates the edge. Without optimisation it takes minutes.
const SEEDS: &str = "seeds";

/// Simulates the edge with a few hundred seeds. Compiling the edge with its planted defects takes
/// most of the time.
fn simulation() -> Result<PassedFailed> {
    count(cargo(["test", "--release", "--locked", "--package", "petasos-lives", "--test", SEEDS]))
}

/// Builds the debug binary that integration tests start. Cargo builds it by itself only for tests
/// of the package that owns it.
///
/// # Errors
/// If it cannot be built.
pub(crate) fn build_binary() -> Result<()> {
    // `--workspace` selects the same features as the build of the tests. With other features, cargo
    // would build half of the dependencies again.
    check(cargo(["build", "--quiet", "--locked", "--workspace", "--bin", "petasos"])).map(|_| ())
}

/// Whether this integration test file needs programs from Debian packages.
fn is_real(name: &str) -> bool {
    name.starts_with("real_")
}

/// Whether this integration test file attacks the binary.
fn is_attack(name: &str) -> bool {
    name.strip_prefix("real_").unwrap_or(name).starts_with("attack_")
}

/// Whether this integration test file compares the demo site with its model. It takes a minute and
/// does not test the proxy, so `--quick` leaves it out.
fn is_of_demo_site(name: &str) -> bool {
    name == "site"
}

/// Whether this integration test file is slow, because it needs crashes, crowds or whole ladders.
/// `--quick` leaves it out.
fn is_lengthy(name: &str) -> bool {
    const LENGTHY: [&str; 12] = [
        "arrivals",
        "e2e_flood",
        "e2e_follow",
        "e2e_soak",
        "e2e_stampede",
        "e2e_status",
        "e2e_traces",
        "e2e_try",
        "e2e_upgrade",
        "e2e_warm",
        "invalidation",
        "walk",
    ];
    name.starts_with("e2e_crash") || LENGTHY.contains(&name)
}

/// Runs the tests that need programs from Debian packages, except attacks.
fn real_programs() -> Result<PassedFailed> {
    integration(|name| is_real(name) && !is_attack(name), &[])
}

/// Size of a set of tests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestSize {
    /// The form in `cargo xtask test`: each case once, with the smallest sizes that can still fail.
    Short,
    /// The form to run by hand before an issue is closed: the sizes and rounds that users reported.
    Long,
}

/// Runs the attacks on the real binary: hostile clients, failing disks, misleading origins. The
/// long form judges times, so it attacks the optimised binary.
///
/// # Errors
/// If the attacks cannot be built or run.
pub(crate) fn attacks(form: TestSize) -> Result<PassedFailed> {
    if form == TestSize::Short {
        return integration(is_attack, &[]);
    }
    let words = ["--release", "--workspace", "--locked"];
    check(cargo([&["build", "--quiet", "--bin", "petasos"], &words[..]].concat()))?;
    tests(&words, is_attack, &[(ATTACK_FORM, "long")])
}

/// Environment variable that selects the form of tests that have a long form.
const ATTACK_FORM: &str = "PETASOS_ATTACK";

/// Runs the integration test files whose names match `chosen`, with these environment variables.
fn integration(chosen: fn(&str) -> bool, environment: &[(&str, &str)]) -> Result<PassedFailed> {
    build_binary()?;
    tests(&["--workspace", "--locked"], chosen, environment)
}

/// As [`integration`], with these arguments of `cargo test`. The binary must have been built.
fn tests(words: &[&str], chosen: fn(&str) -> bool, environment: &[(&str, &str)]) -> Result<PassedFailed> {
    let mut arguments: Vec<String> =
        [&["test", "--no-fail-fast"], words].concat().into_iter().map(str::to_owned).collect();
    let mut is_attacking = false;
    for name in integration_tests()?.iter().filter(|name| chosen(name)) {
        is_attacking |= is_attack(name);
        arguments.extend(["--test".to_owned(), name.clone()]);
    }
    if is_attacking {
        // Attacks print measured figures and limits, which the test runner would capture.
        arguments.extend(["--", "--nocapture"].map(str::to_owned));
    }
    let mut command = cargo(arguments);
    command.envs(environment.iter().copied());
    count(command)
}

/// Names of all integration test files of all crates, without extension.
fn integration_tests() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for member in layers::members()? {
        let Ok(files) = std::fs::read_dir(Path::new(&member).join("tests")) else { continue };
        for file in files {
            let path = file?.path();
            let is_test =
                path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").exists();
            if is_test {
                names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
            }
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Runs a `cargo test` command, shows its output and adds up its `test result:` lines.
fn count(mut command: Command) -> Result<PassedFailed> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run {command:?}"))?;
    let stdout = child.stdout.take().context("the pipe was asked for")?;
    let mut tally = PassedFailed::default();
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        tally.failures.extend(failed_test(&line));
        if let Some(result) = line.strip_prefix("test result:") {
            tally.passed += number_before(result, " passed");
            tally.failed += number_before(result, " failed");
            ensure!(
                number_before(result, " ignored") == 0,
                "a test is ignored: nothing passes by being skipped"
            );
        }
        if !line.is_empty() && !line.ends_with("... ok") {
            eprintln!("{line}");
        }
    }
    let status = child.wait()?;
    if !status.success() && tally.failed == 0 {
        bail!("{command:?} ended with {status}");
    }
    ensure!(tally.passed + tally.failed > 0, "no test ran");
    Ok(tally)
}

/// The name of a test and its panic, in the lines that say so.
fn failed_test(line: &str) -> Option<String> {
    let name = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"));
    let panicked = line.starts_with("thread '") && line.contains("panicked at");
    name.or_else(|| panicked.then_some(line)).map(str::to_owned)
}

/// The number before `word` in a `test result:` line, or 0.
fn number_before(line: &str, word: &str) -> u64 {
    let before = line.split(word).next().filter(|before| before.len() < line.len());
    before.and_then(|before| before.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Runs the public conformance suite with both profiles. A passed test counts as passed, a
/// difference from the expected results as failed. An expected miss counts as neither.
fn conformance() -> Result<PassedFailed> {
    let conformance::TestCounts { passed, differences } = conformance::test()?;
    let failures = (differences > 0).then(|| format!("{differences} differences")).into_iter().collect();
    Ok(PassedFailed { passed, failed: differences, failures })
}

/// Runs the first command of the README in its short form.
fn demo() -> Result<PassedFailed> {
    let out = Path::new("target/test-demo");
    if out.exists() {
        std::fs::remove_dir_all(out)?;
    }
    check(petasos(&["demo", "--quick", "--out", "target/test-demo"]))?;
    ensure!(
        out.join("report.html").exists() && out.join("results.json").exists(),
        "the demo wrote no results"
    );
    Ok(ONE)
}

/// Runs the ladder of a lab in its short form. `more` are further options.
fn ladder(lab: &str, more: &[&str]) -> Result<PassedFailed> {
    let file = format!("labs/{lab}/ladder.toml");
    let out = format!("target/test-{lab}");
    let words = ["ladder", &file, "--quick", "--fresh", "--out", &out];
    check_with_tail(petasos(&[&words, more].concat()))
}

/// `cargo run` of the release binary with these arguments.
fn petasos(arguments: &[&str]) -> Command {
    cargo([&["run", "--release", "--locked", "--quiet", "--"], arguments].concat())
}

/// Runs `cargo xtask lab NAME WORD`.
///
/// # Errors
/// If it fails; it has printed why.
pub(crate) fn order(name: &str, word: &str) -> Result<PassedFailed> {
    check(cargo(["xtask", "lab", name, word]))
}

/// Features that the lab tests are compiled with.
pub(crate) const LAB_FEATURES: &str = "petasos/lab,petasos-browse/lab";

/// Runs one lab test. The lab must be up. `more` are further arguments.
fn lab_test(test: &str, more: &[&str]) -> Result<PassedFailed> {
    lab_test_with(test, more, &[])
}

/// As [`lab_test`], with these environment variables.
///
/// # Errors
/// If no test could run.
pub(crate) fn lab_test_with(test: &str, more: &[&str], environment: &[(&str, &str)]) -> Result<PassedFailed> {
    let words = ["test", "--locked", "--workspace", "--features", LAB_FEATURES, "--test", test];
    let mut command = cargo([&words, more].concat());
    command.envs(environment.iter().copied());
    count(command)
}

/// Runs the web servers' ladder: every server starts, answers and stops.
fn webservers() -> Result<PassedFailed> {
    order("webservers", "up")?;
    ladder("webservers", &[])
}

/// Tests the WordPress lab from start to stop. Runs its ladder in the short form, loads its pages
/// in Chromium, measures the hit ratio of simulated visitors, and tests the plugin with the
/// drop-ins.
fn wordpress() -> Result<PassedFailed> {
    order("wordpress", "up")?;
    // Only the anonymous load: logged-in and writing users need longer cells than the short form
    // has.
    let ladder = ladder("wordpress", &["--load", "anonymous"]);
    let pages = lab_test("lab_wordpress", &[]);
    let traffic = visits("wordpress");
    // This test runs last because it changes the content. The next `up` restores the content.
    let integration = build_binary().and_then(|()| lab_test("lab_integration", &[]));
    order("wordpress", "status")?;
    order("wordpress", "down")?;
    Ok([ladder?, pages?, traffic?, integration?].into_iter().sum())
}

/// Compares Chromium sessions on the WordPress lab with and without Petasos, in all forms.
///
/// # Errors
/// If a step of a session fails, or the databases differ afterwards.
pub(crate) fn sessions() -> Result<()> {
    order("wordpress", "up")?;
    build_binary()?;
    let words = ["test", "--locked", "--workspace", "--features", LAB_FEATURES, "--test", "lab_sessions"];
    let mut command = cargo(words.into_iter().chain(["--", "--nocapture"]));
    command.env(ATTACK_FORM, "long");
    let tally = count(command);
    order("wordpress", "down")?;
    let tally = tally?;
    println!("{tally}");
    ensure!(tally.failed == 0, "{} sessions differ", tally.failed);
    Ok(())
}

/// Tests a content system's lab from start to stop: two logged-in users and an anonymous visitor
/// use it through Petasos.
fn system(name: &str) -> Result<PassedFailed> {
    order(name, "up")?;
    let tally = visits(name);
    order(name, "down")?;
    tally
}

/// Runs the visitor tests of the content system `name`. Its lab must be up.
fn visits(name: &str) -> Result<PassedFailed> {
    build_binary()?;
    lab_test("lab_systems", &["--", name])
}

/// Runs each fuzz target for five seconds. `cargo xtask long fuzz` runs each for a minute.
fn fuzz() -> Result<PassedFailed> {
    crate::fuzz::run(Duration::from_secs(5))
        .map(|targets| PassedFailed { passed: targets, ..PassedFailed::default() })
}

/// Checks licences, sources and duplicate versions with cargo-deny, which is built into
/// target/tools once.
fn dependencies() -> Result<PassedFailed> {
    let tool = crate::tools::ensure("cargo-deny")?;
    let mut command = Command::new(tool);
    command.args(["check", "--hide-inclusion-graph", "licenses", "bans", "sources"]);
    check(command)
}

#[cfg(test)]
mod tests {
    use super::{Args, BUILD, CheckGroup, GROUPS, number_before};

    /// Sum of the budgets of the chosen groups, in seconds.
    fn sum(chosen: impl Fn(&&CheckGroup) -> bool) -> u64 {
        GROUPS.iter().filter(chosen).map(|group| group.budget_s).sum()
    }

    #[test]
    fn only_the_chosen_group_runs() {
        let args = Args { quick: false, group: vec!["conformance".to_owned()] };
        let chosen: Vec<_> =
            GROUPS.iter().filter(|group| args.chooses(group)).map(|group| group.name).collect();
        assert_eq!(chosen, ["conformance"]);
        assert!(super::group_name("conformanse").is_err_and(|text| text.contains("\"conformance\"")));
    }

    #[test]
    fn budgets_add_up_to_the_promised_times() {
        let builds = |group: &&CheckGroup| BUILD.contains(&group.name);
        assert!(sum(builds) <= 15 * 60, "builds: {} s", sum(builds));
        assert!(sum(|group| !builds(group)) <= 45 * 60, "groups: {} s", sum(|group| !builds(group)));
        let quick = sum(|group| group.quick && !builds(group));
        assert!(quick <= 6 * 60, "quick groups: {quick} s");
    }

    #[test]
    fn failed_tests_are_named() {
        for (line, name) in [
            ("test a::b ... FAILED", Some("a::b")),
            ("test a::b ... ok", None),
            ("thread 'x' (7) panicked at a.rs:1:2:", Some("thread 'x' (7) panicked at a.rs:1:2:")),
            ("thread 'x' sleeps", None),
        ] {
            assert_eq!(super::failed_test(line).as_deref(), name, "{line}");
        }
    }

    #[test]
    fn test_result_lines_are_parsed() {
        let line = " ok. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(number_before(line, " passed"), 12);
        assert_eq!(number_before(line, " failed"), 3);
        assert_eq!(number_before(line, " absent"), 0);
    }
}
