//! Scores of the last runs that were as expected: `conformance/scores.toml`, the source of
//! docs/conformance.md.
//!
//! Invariant: only `cargo xtask conformance --write` writes the file, and only with results of a
//! run.

use super::TestedProfile;
use super::report::{Score, SuiteReport, TestWeight};
use super::suite::Edition;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Path of the file.
pub(crate) const PATH: &str = "conformance/scores.toml";

/// First line of the file.
const HEAD: &str = "# Written by `cargo xtask conformance --write`.\n\n";

/// The runs, one for each edition and profile, in the order of both.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scores {
    #[serde(default, rename = "run")]
    pub(crate) runs: Vec<ScoredRun>,
}

/// Result of one run.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScoredRun {
    /// Edition of the suite.
    pub(crate) edition: Edition,
    /// Name and version of the suite.
    pub(crate) suite: String,
    /// The tested profile.
    pub(crate) profile: TestedProfile,
    /// Numbers of passed tests and of all tests.
    pub(crate) score: Score,
    /// Ids of the tests that did not pass.
    pub(crate) missed: MissedTests,
}

/// Ids of tests that did not pass, in the suite's order.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MissedTests {
    required: Vec<String>,
    optional: Vec<String>,
    check: Vec<String>,
}

impl MissedTests {
    /// The tests of one kind.
    pub(crate) fn of(&self, kind: TestWeight) -> &[String] {
        match kind {
            TestWeight::Required => &self.required,
            TestWeight::Optional => &self.optional,
            TestWeight::Check => &self.check,
        }
    }
}

impl Scores {
    /// Reads the file. A missing file has no scores.
    ///
    /// # Errors
    /// If the file cannot be read or parsed.
    pub(crate) fn read() -> Result<Self> {
        match std::fs::read_to_string(PATH) {
            Ok(text) => toml::from_str(&text).with_context(|| format!("{PATH} is wrong")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {PATH}")),
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write(&self) -> Result<()> {
        let text = toml::to_string_pretty(self).context("cannot word the scores")?;
        std::fs::write(PATH, format!("{HEAD}{text}")).with_context(|| format!("cannot write {PATH}"))
    }

    /// Replaces the last run of the same edition and profile.
    pub(crate) fn keep(
        &mut self,
        edition: Edition,
        suite: &str,
        profile: TestedProfile,
        report: &SuiteReport,
    ) {
        let missed = |kind| {
            let tests = report.tests.iter().filter(|test| test.kind == kind && !test.outcome.passes());
            tests.map(|test| test.id.clone()).collect()
        };
        let missed = MissedTests {
            required: missed(TestWeight::Required),
            optional: missed(TestWeight::Optional),
            check: missed(TestWeight::Check),
        };
        let run = ScoredRun { edition, suite: suite.to_owned(), profile, score: Score::of(report), missed };
        self.runs.retain(|other| (other.edition, other.profile) != (edition, profile));
        self.runs.push(run);
        self.runs.sort_by_key(|run| (run.edition, run.profile));
    }
}

#[cfg(test)]
mod tests {
    use super::super::TestedProfile;
    use super::super::report::tests::test;
    use super::super::report::{SuiteReport, TestOutcome, TestWeight};
    use super::super::suite::Edition;
    use super::Scores;

    #[test]
    fn run_replaces_the_previous_one_and_is_read_back() {
        let report = |outcome| SuiteReport { tests: vec![test("a", TestWeight::Required, outcome)] };
        let mut scores = Scores::default();
        scores.keep(Edition::Git, "one", TestedProfile::Default, &report(TestOutcome::Fail));
        scores.keep(Edition::Git, "one", TestedProfile::Rfc, &report(TestOutcome::Pass));
        scores.keep(Edition::Git, "two", TestedProfile::Default, &report(TestOutcome::SetupFail));
        let text = toml::to_string(&scores).unwrap();
        let read: Scores = toml::from_str(&text).unwrap();
        let runs: Vec<_> = read
            .runs
            .iter()
            .map(|run| {
                (
                    run.suite.as_str(),
                    run.profile,
                    run.score.required.passed,
                    run.missed.of(TestWeight::Required).len(),
                )
            })
            .collect();
        assert_eq!(runs, [("one", TestedProfile::Rfc, 1, 0), ("two", TestedProfile::Default, 0, 1)]);
    }
}
