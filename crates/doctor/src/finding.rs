//! Findings, and the report that consists of them.

use document::{Diagnostic, Severity};
use serde::Serialize;
use std::fmt::Write as _;

/// How good a finding is. The order is from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing is wrong.
    Ok,
    /// It could not be seen from here.
    Unseen,
    /// The edge runs, but worse than it could.
    Warning,
    /// The edge, or a part of it, does not run.
    Failure,
}

impl Level {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unseen => "unseen",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The examined part of the machine, such as `port`.
    pub subject: &'static str,
    /// How good it is.
    pub level: Level,
    /// The finding, without a full stop.
    pub message: String,
    /// Why it matters, without a full stop. Only layers of an application have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How to mend it, or how to see it. Always there if the level is not [`Level::Ok`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    /// Nothing is wrong.
    pub(crate) fn ok(subject: &'static str, message: impl Into<String>) -> Self {
        Self { subject, level: Level::Ok, message: message.into(), why: None, fix: None }
    }

    /// It could not be seen; `how` would show it.
    pub(crate) fn unseen(subject: &'static str, message: impl Into<String>, how: impl Into<String>) -> Self {
        Self { level: Level::Unseen, ..Self::warning(subject, message, how) }
    }

    pub(crate) fn warning(subject: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { subject, level: Level::Warning, message: message.into(), why: None, fix: Some(fix.into()) }
    }

    pub(crate) fn failure(subject: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Failure, ..Self::warning(subject, message, fix) }
    }

    /// The finding with the reason why it matters.
    pub(crate) fn because(self, why: &str) -> Self {
        Self { why: Some(why.to_owned()), ..self }
    }

    /// A finding about the configuration.
    pub fn of_problem(problem: &Diagnostic) -> Self {
        let help = problem.help.clone().unwrap_or_else(|| "correct it".to_owned());
        let line = problem.line().map(|line| format!("line {line}: ")).unwrap_or_default();
        let message = format!("{line}{}", problem.message);
        match problem.severity {
            Severity::Error => Self::failure("configuration", message, help),
            Severity::Warning => Self::warning("configuration", message, help),
        }
    }

    /// A configuration that cannot be read.
    pub fn of_unusable(text: &str) -> Self {
        Self::failure("configuration", text, "correct it; `petasos check FILE` shows each place")
    }
}

/// All findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The worst level of all findings.
    pub worst: Level,
    /// The findings in the order of the examination.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The report of some findings.
    pub fn new(findings: Vec<Finding>) -> Self {
        let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
        Self { worst, findings }
    }

    /// The report for a terminal: a line for each finding, and one for each reason and fix.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let Finding { subject, level, message, why, fix } = finding;
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{:<8} {subject:<14} {}", level.word(), message.replace('\n', "\n  "));
            if let Some(why) = why {
                let _ = writeln!(text, "{:<8} {:<14} why: {why}", "", "");
            }
            if let Some(fix) = fix {
                let word = if *level == Level::Unseen { "see" } else { "fix" };
                let _ = writeln!(text, "{:<8} {:<14} {word}: {fix}", "", "");
            }
        }
        let of = |level| self.findings.iter().filter(|finding| finding.level == level).count();
        let (failures, warnings) = (of(Level::Failure), of(Level::Warning));
        let _ = writeln!(text, "{failures} failures, {warnings} warnings");
        text
    }

    /// The report as JSON.
    pub fn json(&self) -> String {
        // Texts and fixed names can always be written.
        serde_json::to_string_pretty(self).map(|text| text + "\n").unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Finding, Level, Report};
    use document::{Diagnostic, Place};

    #[test]
    fn report_has_the_worst_level_and_every_fix() {
        let findings = vec![
            Finding::ok("clock", "it is right"),
            Finding::failure("port", "127.0.0.1:80 is taken", "stop nginx"),
            Finding::of_problem(&Diagnostic::warning("a caution", Place::Default)),
            Finding::unseen("database", "it is elsewhere", "run it there"),
            Finding::warning("PHP", "it is slow", "write a line").because("pages wait"),
        ];
        let report = Report::new(findings);
        assert_eq!(report.worst, Level::Failure);
        let text = report.text();
        for line in [
            "ok       clock          it is right\n",
            "failure  port           127.0.0.1:80 is taken\n                        fix: stop nginx\n",
            "warning  configuration  a caution\n",
            "unseen   database       it is elsewhere\n                        see: run it there\n",
            "it is slow\n                        why: pages wait\n                        fix: write a line\n",
            "1 failures, 2 warnings\n",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        let json = report.json();
        assert!(
            json.contains("\"worst\": \"failure\"") && json.contains("\"fix\": \"stop nginx\""),
            "{json}"
        );
        assert!(json.contains("\"level\": \"unseen\"") && json.contains("\"why\": \"pages wait\""), "{json}");
        assert_eq!(Report::new(Vec::new()).worst, Level::Ok);
        assert!(Level::Ok < Level::Unseen && Level::Unseen < Level::Warning);
    }
}
