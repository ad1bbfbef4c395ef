//! What a number of simulated runs have shown: counts, coverage and failures.
//!
//! Invariant: reports of parts add up to the report of the whole, in any order.

use actors::{Dialect, OrderedPurge, OriginFault};
use semantics::Reason;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use world::FaultKind;

/// The group of the purges by their dialect.
pub(crate) const DIALECTS: &str = "dialects";

/// The group of the faults that have hit.
pub(crate) const FAULTS: &str = "faults";

/// The group of the reasons of the edge's responses.
pub(crate) const REASONS: &str = "reasons";

/// The results of simulated runs.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Report {
    /// Runs, each with a seed.
    pub runs: u64,
    /// Lives of the edge in all runs.
    pub lives: u64,
    /// Simulated time in seconds.
    pub simulated_s: f64,
    /// Time that the runs took, in seconds of one core.
    pub real_s: f64,
    /// How often everything happened, by group and name.
    pub coverage: BTreeMap<String, BTreeMap<String, u64>>,
    /// Seeds whose run failed, with the first failure.
    pub failures: BTreeMap<u64, String>,
}

impl Report {
    /// Counts something that happened `count` times.
    pub fn count(&mut self, group: &str, name: impl Into<String>, count: u64) {
        if count > 0 {
            *self.coverage.entry(group.to_owned()).or_default().entry(name.into()).or_default() += count;
        }
    }

    /// Adds the results of other runs.
    pub fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.lives += other.lives;
        self.simulated_s += other.simulated_s;
        self.real_s += other.real_s;
        self.failures.extend(other.failures);
        for (group, names) in other.coverage {
            let known = self.coverage.entry(group).or_default();
            names.into_iter().for_each(|(name, count)| *known.entry(name).or_default() += count);
        }
    }
}

/// All names of a group that has a list of them.
fn known(group: &str) -> Vec<String> {
    match group {
        DIALECTS => {
            let dialects = Dialect::ALL.iter().map(|dialect| format!("{dialect:?}"));
            dialects.chain(OrderedPurge::FIELDS.map(str::to_owned)).collect()
        }
        FAULTS => {
            let origins = OriginFault::ALL.iter().map(|fault| format!("origin: {fault}"));
            FaultKind::ALL.iter().map(ToString::to_string).chain(origins).collect()
        }
        REASONS => Reason::ALL.iter().map(|reason| reason.name().to_owned()).collect(),
        _ => Vec::new(),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (group, names) in &self.coverage {
            writeln!(f, "{group}:")?;
            names.iter().try_for_each(|(name, count)| writeln!(f, "  {count:>9}  {name}"))?;
            let unseen: Vec<_> = known(group).into_iter().filter(|name| !names.contains_key(name)).collect();
            if !unseen.is_empty() {
                writeln!(f, "  never seen: {}", unseen.join(", "))?;
            }
        }
        let ratio = self.simulated_s / self.real_s.max(f64::MIN_POSITIVE);
        writeln!(
            f,
            "{} runs with {} lives: {:.1} simulated hours in {:.0} s of a core, {ratio:.0} simulated seconds a second",
            self.runs,
            self.lives,
            self.simulated_s / 3600.0,
            self.real_s,
        )?;
        for (seed, failure) in &self.failures {
            writeln!(f, "seed {seed} failed: {failure}")?;
        }
        write!(f, "{} of {} runs failed", self.failures.len(), self.runs)
    }
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn names_that_never_happened_are_listed() {
        let mut report = Report::default();
        report.count("reasons", "hit-fresh", 3);
        report.count("statuses", "200", 3);
        let text = report.to_string();
        let line = text.lines().find(|line| line.contains("never seen: hit-revalidated, ")).unwrap();
        assert!(line.contains("pass-method") && !line.contains("hit-fresh"), "{line}");
        assert_eq!(text.matches("never seen").count(), 1);
    }

    #[test]
    fn parts_add_up() {
        let mut whole = Report { runs: 1, lives: 2, ..Report::default() };
        whole.count("faults", "hung disk", 3);
        let mut part = Report { runs: 1, lives: 1, ..Report::default() };
        part.count("faults", "hung disk", 4);
        part.count("faults", "never", 0);
        part.failures.insert(7, "staleness".to_owned());
        whole.add(part);
        assert_eq!((whole.runs, whole.lives), (2, 3));
        assert_eq!(whole.coverage["faults"].iter().collect::<Vec<_>>(), [(&"hung disk".to_owned(), &7)]);
        assert!(whole.to_string().ends_with("seed 7 failed: staleness\n1 of 2 runs failed"));
    }
}
