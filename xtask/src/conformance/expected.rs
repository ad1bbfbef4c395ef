//! The files of expected results, `conformance/expected-EDITION.toml`, and the comparison of a run
//! with them.
//!
//! Invariant: every test expected not to pass has a written reason and is listed once for each
//! profile. A run agrees with its file only if exactly the listed tests do not pass. A test that
//! passes now must be removed from the file.

use super::TestedProfile;
use super::report::{SuiteReport, SuiteTest};
use super::suite::Edition;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// The tests of one edition of the suite that are expected not to pass, with their reasons.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    path: String,
    reasons: BTreeMap<(TestedProfile, String), String>,
}

/// The content of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedFile {
    #[serde(default)]
    miss: Vec<ExpectedGroup>,
}

/// Tests that do not pass for the same reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedGroup {
    reason: String,
    #[serde(default)]
    rfc: Vec<String>,
    #[serde(default)]
    default: Vec<String>,
}

/// A difference between a run and the expected results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResultDifference {
    /// A test did not pass but is not listed. Holds the line that describes the test.
    Missed(String),
    /// A listed test passed.
    Passed { id: String, path: String },
    /// The file lists a test that the suite does not have.
    Unknown { id: String, path: String },
}

impl fmt::Display for ResultDifference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missed(line) => write!(formatter, "{line}"),
            Self::Passed { id, path } => write!(formatter, "{id} passes: take it out of {path}"),
            Self::Unknown { id, path } => {
                write!(formatter, "{id} stands in {path} and is no test of the suite")
            }
        }
    }
}

impl Expected {
    /// Reads the file of an edition.
    ///
    /// # Errors
    /// Names the mistake in the file.
    pub(crate) fn read(edition: Edition) -> Result<Self> {
        let path = format!("conformance/expected-{}.toml", edition.name());
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        Self::parse(&path, &text)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// Names the mistake.
    pub(super) fn parse(path: &str, text: &str) -> Result<Self> {
        let document: ExpectedFile = toml::from_str(text).with_context(|| format!("{path} is wrong"))?;
        let mut reasons = BTreeMap::new();
        for group in document.miss {
            let ExpectedGroup { reason, rfc, default } = group;
            let tests = [(TestedProfile::Rfc, rfc), (TestedProfile::Default, default)];
            let first = tests.iter().flat_map(|(_, tests)| tests).next();
            let Some(first) = first else { bail!("{path}: a miss names no test: {reason:?}") };
            ensure!(reason.trim_end().ends_with('.'), "{path}: the reason for {first} is no sentence");
            for (profile, tests) in tests {
                for id in tests {
                    let twice = format!("{path}: {id} stands twice under {}", profile.name());
                    ensure!(reasons.insert((profile, id), reason.clone()).is_none(), "{twice}");
                }
            }
        }
        Ok(Self { path: path.to_owned(), reasons })
    }

    /// The reason why a test is expected not to pass; `None` if it should pass.
    pub(crate) fn reason(&self, profile: TestedProfile, id: &str) -> Option<&str> {
        self.reasons.get(&(profile, id.to_owned())).map(String::as_str)
    }

    /// Ids of the tests that are expected not to pass, in alphabetical order.
    pub(crate) fn tests(&self, profile: TestedProfile) -> impl Iterator<Item = &str> {
        self.reasons.keys().filter(move |(of, _)| *of == profile).map(|(_, id)| id.as_str())
    }

    /// Compares a run with the expected results. Unknown tests are reported only if the run was
    /// `whole`, because a run of chosen tests does not contain the others.
    pub(crate) fn differences(
        &self,
        profile: TestedProfile,
        report: &SuiteReport,
        whole: bool,
    ) -> Vec<ResultDifference> {
        let mut differences = Vec::new();
        for test in &report.tests {
            match (test.outcome.passes(), self.reason(profile, &test.id).is_some()) {
                (true, true) => {
                    differences
                        .push(ResultDifference::Passed { id: test.id.clone(), path: self.path.clone() });
                }
                (false, false) => differences.push(ResultDifference::Missed(test.line())),
                _ => {}
            }
        }
        let known: HashSet<&str> = report.tests.iter().map(|test| test.id.as_str()).collect();
        let unknown = self.tests(profile).filter(|id| whole && !known.contains(id));
        differences.extend(
            unknown.map(|id| ResultDifference::Unknown { id: id.to_owned(), path: self.path.clone() }),
        );
        differences
    }

    /// The tests that failed unexpectedly, if a busy machine can explain all these failures.
    /// Otherwise empty.
    pub(crate) fn timing_suspects(&self, profile: TestedProfile, report: &SuiteReport) -> Vec<String> {
        let missed = |test: &&SuiteTest| !test.outcome.passes() && self.reason(profile, &test.id).is_none();
        let missed: Vec<&SuiteTest> = report.tests.iter().filter(missed).collect();
        if missed.iter().all(|test| test.is_timing()) {
            missed.into_iter().map(|test| test.id.clone()).collect()
        } else {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::TestedProfile;
    use super::super::report::tests::test;
    use super::super::report::{SuiteReport, TestOutcome, TestWeight};
    use super::Expected;

    const FILE: &str = "[[miss]]\nreason = 'It is refused.'\nrfc = ['a']\ndefault = ['a', 'b']\n\
                        [[miss]]\nreason = 'It is unsafe.'\ndefault = ['c']\n";

    fn error(text: &str) -> String {
        format!("{:#}", Expected::parse("x.toml", text).unwrap_err())
    }

    fn differences(tests: &[(&str, TestOutcome)], profile: TestedProfile, whole: bool) -> Vec<String> {
        let tests = tests.iter().map(|(id, outcome)| test(id, TestWeight::Required, *outcome)).collect();
        let expected = Expected::parse("x.toml", FILE).unwrap();
        expected.differences(profile, &SuiteReport { tests }, whole).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn reasons_are_read_for_each_profile() {
        let expected = Expected::parse("x.toml", FILE).unwrap();
        assert_eq!(expected.reason(TestedProfile::Rfc, "a"), Some("It is refused."));
        assert_eq!(expected.reason(TestedProfile::Rfc, "b"), None);
        assert_eq!(expected.reason(TestedProfile::Default, "c"), Some("It is unsafe."));
        assert_eq!(expected.tests(TestedProfile::Default).collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn a_miss_without_reason_or_test_is_an_error() {
        assert!(error("[[miss]]\nrfc = ['a']\n").contains("reason"));
        assert!(error("[[miss]]\nreason = ' '\nrfc = ['a']\n").contains("the reason for a"));
        assert!(error("[[miss]]\nreason = 'It is.'\n").contains("names no test"));
        assert!(error("[[miss]]\nreason = 'It is.'\nrcf = ['a']\n").contains("rcf"));
        let twice = "[[miss]]\nreason = 'It is.'\nrfc = ['a']\n".repeat(2);
        assert!(error(&twice).contains("a stands twice under rfc"));
    }

    #[test]
    fn run_must_miss_exactly_the_expected_tests() {
        use TestOutcome::{Fail, Pass, SetupFail};
        let as_expected = [("a", SetupFail), ("b", Fail), ("c", Fail), ("d", Pass)];
        assert!(differences(&as_expected, TestedProfile::Default, true).is_empty());
        let otherwise = [("a", Fail), ("b", Pass), ("d", Fail)];
        assert_eq!(
            differences(&otherwise, TestedProfile::Default, true),
            [
                "b passes: take it out of x.toml",
                "d (required) failed",
                "c stands in x.toml and is no test of the suite"
            ]
        );
        assert_eq!(differences(&otherwise, TestedProfile::Default, false).len(), 2);
        assert_eq!(differences(&as_expected, TestedProfile::Rfc, true).len(), 2);
    }

    #[test]
    fn retries_only_if_timing_may_explain_all_failures() {
        let expected = Expected::parse("x.toml", FILE).unwrap();
        let slow = |id, outcome| {
            let mut test = test(id, TestWeight::Optional, outcome);
            test.pauses = true;
            test
        };
        let mut report = SuiteReport {
            tests: vec![
                slow("a", TestOutcome::OptionalFail),
                slow("d", TestOutcome::OptionalFail),
                test("e", TestWeight::Check, TestOutcome::HarnessFail),
                test("f", TestWeight::Check, TestOutcome::Yes),
            ],
        };
        assert_eq!(expected.timing_suspects(TestedProfile::Rfc, &report), ["d", "e"]);
        report.tests.push(test("g", TestWeight::Required, TestOutcome::Fail));
        assert!(expected.timing_suspects(TestedProfile::Rfc, &report).is_empty());
    }
}
