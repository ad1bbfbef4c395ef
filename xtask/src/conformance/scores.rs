//! The scores of the last runs that were as expected: `conformance/scores.toml`, from which docs/conformance.md comes.
//!
//! Invariant: only `cargo xtask conformance --write` writes the file, and only what a run came to.

use super::Profile;
use super::report::{Kind, Outcome, Report, Score};
use super::suite::Edition;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The file.
pub(crate) const PATH: &str = "conformance/scores.toml";

/// What opens it.
const HEAD: &str = "# Written by `cargo xtask conformance --write`.\n\n";

/// The runs, one for each edition and profile, in their order.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scores {
    #[serde(default, rename = "run")]
    pub(crate) runs: Vec<Run>,
}

/// What one run came to.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    /// The line of the suite.
    pub(crate) edition: Edition,
    /// The suite's name and version.
    pub(crate) suite: String,
    /// The profile.
    pub(crate) profile: Profile,
    /// Passed of all.
    pub(crate) score: Score,
    /// What did not pass, in the suite's order.
    #[serde(default, rename = "miss")]
    pub(crate) misses: Vec<Miss>,
}

/// A test that did not pass.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Miss {
    /// Its name among all tests.
    pub(crate) id: String,
    /// How much it counts.
    pub(crate) kind: Kind,
    /// What it came to.
    pub(crate) outcome: Outcome,
    /// What it wants, in the suite's words.
    pub(crate) name: String,
}

impl Scores {
    /// Reads the file; there are no scores if there is none.
    ///
    /// # Errors
    /// If the file is not as it was written.
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
        let text = toml::to_string(self).context("cannot word the scores")?;
        std::fs::write(PATH, format!("{HEAD}{text}")).with_context(|| format!("cannot write {PATH}"))
    }

    /// Puts a run in the place of the last one of its edition and profile.
    pub(crate) fn keep(&mut self, edition: Edition, suite: &str, profile: Profile, report: &Report) {
        let missed = report.tests.iter().filter(|test| !test.outcome.passes());
        let misses = missed.map(|test| Miss {
            id: test.id.clone(),
            kind: test.kind,
            outcome: test.outcome,
            name: test.name.clone(),
        });
        let run = Run {
            edition,
            suite: suite.to_owned(),
            profile,
            score: Score::of(report),
            misses: misses.collect(),
        };
        self.runs.retain(|other| (other.edition, other.profile) != (edition, profile));
        self.runs.push(run);
        self.runs.sort_by_key(|run| (run.edition, run.profile));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Profile;
    use super::super::report::tests::test;
    use super::super::report::{Kind, Outcome, Report};
    use super::super::suite::Edition;
    use super::Scores;

    #[test]
    fn a_run_replaces_the_one_before_it_and_survives_being_written() {
        let report = |outcome| Report { tests: vec![test("a", Kind::Required, outcome)] };
        let mut scores = Scores::default();
        scores.keep(Edition::Git, "one", Profile::Default, &report(Outcome::Fail));
        scores.keep(Edition::Git, "one", Profile::Rfc, &report(Outcome::Pass));
        scores.keep(Edition::Git, "two", Profile::Default, &report(Outcome::SetupFail));
        let text = toml::to_string(&scores).unwrap();
        let read: Scores = toml::from_str(&text).unwrap();
        let runs: Vec<_> = read
            .runs
            .iter()
            .map(|run| (run.suite.as_str(), run.profile, run.score.required, run.misses.len()))
            .collect();
        assert_eq!(runs, [("one", Profile::Rfc, (1, 1), 0), ("two", Profile::Default, (0, 1), 1)]);
        assert_eq!(read.runs[1].misses[0].outcome, Outcome::SetupFail);
    }
}
