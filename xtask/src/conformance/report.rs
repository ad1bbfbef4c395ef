//! The results that the suite's client reports, and the score of a run.
//!
//! Invariant: whether a test passed is the suite's own judgement, which takes the tests that it
//! depends on into account.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// Weight of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TestWeight {
    /// A failure probably violates the specification.
    Required,
    /// A failure is legal but wastes an opportunity. The suite says `optimal`.
    #[serde(alias = "optimal")]
    Optional,
    /// A question about behaviour, answered with yes or no. Neither answer is wrong.
    Check,
}

impl TestWeight {
    /// All kinds, in the order in which they are shown.
    pub(crate) const ALL: [Self; 3] = [Self::Required, Self::Optional, Self::Check];

    /// Name in texts and tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Optional => "optional",
            Self::Check => "check",
        }
    }
}

/// The suite's judgement of one test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TestOutcome {
    /// The test passed.
    Pass,
    /// A check was answered with yes.
    Yes,
    /// A required test failed.
    Fail,
    /// An optional test failed.
    OptionalFail,
    /// A check was answered with no.
    No,
    /// A precondition of the test did not hold.
    SetupFail,
    /// The client gave up.
    HarnessFail,
    /// A test that this one depends on did not pass.
    DependencyFail,
    /// The origin received a request twice.
    Retry,
    /// There is no result.
    Untested,
}

impl TestOutcome {
    /// Whether the test counts as passed.
    pub(crate) const fn passes(self) -> bool {
        matches!(self, Self::Pass | Self::Yes)
    }

    /// Description in texts.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pass => "passed",
            Self::Yes => "yes",
            Self::Fail | Self::OptionalFail => "failed",
            Self::No => "no",
            Self::SetupFail => "set-up failed",
            Self::HarnessFail => "client gave up",
            Self::DependencyFail => "depends on a test that did not pass",
            Self::Retry => "origin was asked twice",
            Self::Untested => "no result",
        }
    }
}

/// One test with its result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SuiteTest {
    /// Id of the test in the suite.
    pub(crate) id: String,
    /// Weight of the test.
    pub(crate) kind: TestWeight,
    /// Ids of the tests that must pass for this test to mean anything.
    pub(crate) depends_on: Vec<String>,
    /// Whether the test waits for time to pass.
    pub(crate) pauses: bool,
    /// The suite's judgement.
    pub(crate) outcome: TestOutcome,
    /// Kind and message of the error, if the client reports one.
    pub(crate) error: Option<(String, String)>,
    /// Whether the outcome comes from a second run.
    #[serde(skip)]
    pub(crate) second_try: bool,
}

impl SuiteTest {
    /// A line with the id, the kind, the outcome and the reason.
    pub(crate) fn line(&self) -> String {
        let reason = match (&self.error, self.outcome) {
            (_, TestOutcome::DependencyFail) => format!(": {}", self.depends_on.join(", ")),
            (Some((_, message)), _) => format!(": {message}"),
            (None, _) => String::new(),
        };
        format!("{} ({}) {}{reason}", self.id, self.kind.name(), self.outcome.name())
    }

    /// Whether a busy machine may have caused a failure of this test. It may if the test waits for
    /// time to pass, if the client gave up, or if a test that it depends on failed.
    pub(crate) fn is_timing(&self) -> bool {
        self.pauses || matches!(self.outcome, TestOutcome::HarnessFail | TestOutcome::DependencyFail)
    }
}

/// Result of a run: the tests in the suite's order, without those for browsers.
#[derive(Clone, Debug)]
pub(crate) struct SuiteReport {
    /// The tests, each once.
    pub(crate) tests: Vec<SuiteTest>,
}

impl SuiteReport {
    /// Parses the output of the client.
    ///
    /// # Errors
    /// If the output does not have the expected form, because the client and this program differ in
    /// version.
    pub(crate) fn parse(text: &str) -> serde_json::Result<Self> {
        Ok(Self { tests: serde_json::from_str(text)? })
    }

    /// Replaces the results of the tests with these ids by their results in a second run.
    pub(crate) fn take_over(&mut self, names: &[String], second: Self) {
        let mut tests: HashMap<String, SuiteTest> =
            second.tests.into_iter().map(|test| (test.id.clone(), test)).collect();
        for test in self.tests.iter_mut().filter(|test| names.contains(&test.id)) {
            if let Some(second) = tests.remove(&test.id) {
                *test = SuiteTest { second_try: true, ..second };
            }
        }
    }
}

/// Result of all tests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WeightResult {
    /// Number of tests that passed or were answered with yes.
    pub(crate) passed: u32,
    /// Number of all tests.
    pub(crate) of: u32,
}

/// Score of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Score {
    /// Tests of [`TestWeight::Required`].
    pub(crate) required: WeightResult,
    /// Tests of [`TestWeight::Optional`].
    pub(crate) optional: WeightResult,
    /// Tests of [`TestWeight::Check`].
    pub(crate) check: WeightResult,
}

impl Score {
    /// Computes the score of a run.
    pub(crate) fn of(report: &SuiteReport) -> Self {
        let mut score = Self::default();
        for test in &report.tests {
            let part = match test.kind {
                TestWeight::Required => &mut score.required,
                TestWeight::Optional => &mut score.optional,
                TestWeight::Check => &mut score.check,
            };
            part.passed += u32::from(test.outcome.passes());
            part.of += 1;
        }
        score
    }
}

impl fmt::Display for Score {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { required, optional, check } = self;
        write!(
            formatter,
            "required {}/{}, optional {}/{}, check {}/{}",
            required.passed, required.of, optional.passed, optional.of, check.passed, check.of
        )
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Score, SuiteReport, SuiteTest, TestOutcome, TestWeight};

    /// A test with this outcome.
    pub(crate) fn test(id: &str, kind: TestWeight, outcome: TestOutcome) -> SuiteTest {
        SuiteTest {
            id: id.to_owned(),
            kind,
            depends_on: Vec::new(),
            pauses: false,
            outcome,
            error: None,
            second_try: false,
        }
    }

    #[test]
    fn client_report_is_parsed() {
        let text = r#"[{"id":"a","kind":"optimal","depends_on":["b"],"pauses":true,
            "outcome":"optional_fail","error":["Assertion","it is"]}]"#;
        let report = SuiteReport::parse(text).unwrap();
        assert_eq!(report.tests[0].line(), "a (optional) failed: it is");
        assert!(report.tests[0].is_timing());
        assert!(SuiteReport::parse(&text.replace("optional_fail", "no_such_outcome")).is_err());
        assert!(SuiteReport::parse(&text.replace("\"pauses\":true,", "")).is_err());
    }

    #[test]
    fn only_passes_and_yes_count() {
        let report = SuiteReport {
            tests: vec![
                test("a", TestWeight::Required, TestOutcome::Pass),
                test("b", TestWeight::Required, TestOutcome::SetupFail),
                test("c", TestWeight::Optional, TestOutcome::DependencyFail),
                test("d", TestWeight::Check, TestOutcome::Yes),
                test("e", TestWeight::Check, TestOutcome::No),
            ],
        };
        assert_eq!(Score::of(&report).to_string(), "required 1/2, optional 0/1, check 1/2");
    }

    #[test]
    fn second_run_replaces_only_the_requested_tests() {
        let failed = |id| test(id, TestWeight::Required, TestOutcome::Fail);
        let passed = |id| test(id, TestWeight::Required, TestOutcome::Pass);
        let mut report = SuiteReport { tests: vec![failed("a"), failed("b"), passed("c")] };
        report
            .take_over(&["a".to_owned()], SuiteReport { tests: vec![passed("a"), passed("b"), failed("c")] });
        let outcomes: Vec<_> = report.tests.iter().map(|test| (test.outcome, test.second_try)).collect();
        let expected = [(TestOutcome::Pass, true), (TestOutcome::Fail, false), (TestOutcome::Pass, false)];
        assert_eq!(outcomes, expected);
    }
}
