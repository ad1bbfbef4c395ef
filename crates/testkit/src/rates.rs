//! Hit ratios of an ordinary site's traffic at low rates: what `cargo xtask long traffic wordpress --rates` measures,
//! and docs/hit-ratio.md rendered from it.
//!
//! Invariant: a request is a hit only if the origin was not asked before it was answered; every other request is
//! counted with its reason.

mod page;

pub use page::hit_ratio_reference;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Where the rounds of the last measurement are kept, from the top of the repository.
pub const ROUNDS_PATH: &str = "labs/wordpress/rates.json";
/// Requests a second, each at an edge of its own.
pub const RATES: [f64; 4] = [0.5, 1.0, 5.0, 12.0];
/// Seconds from one save to the next; 0 for no saves.
pub const SAVES_EVERY_SECS: [u64; 3] = [0, 60, 10];

/// The rounds of a measurement.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rounds {
    /// One for each combination of plugin and edits, in the order of [`Round::key`].
    pub rounds: Vec<Round>,
}

/// One edge for each rate, side by side before one WordPress.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// Whether WordPress has the plugin, which purges.
    pub has_plugin: bool,
    /// Seconds from one save to the next; 0 for no saves.
    pub save_every_secs: u64,
    /// How long visitors were to come, in seconds.
    pub secs: u64,
    /// Seconds until the last answer had come.
    pub took_secs: u64,
    /// What must be known of this round and is not of others, as a sentence; written by hand.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remark: String,
    /// URLs of the site.
    pub urls: u64,
    /// What each edge answered, in the order of the rates.
    pub edges: Vec<EdgeFigures>,
}

/// What one edge answered.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeFigures {
    /// Requests a second.
    pub rate: f64,
    /// Requests that were the first for their URL; the store is empty at the start.
    pub first: u64,
    /// Requests by the reason that `Cache-Status` names.
    pub reasons: BTreeMap<String, u64>,
    /// Saves that this edge saw or was purged for.
    pub saves: u64,
    /// Answers that show the saved post and must be new at the next request after a save.
    pub must_be_new: u64,
    /// Answers among these that were older than the last save.
    pub broken: u64,
    /// Answers with an older title of the saved post that the documents permit.
    pub old: u64,
    /// Seconds since the save that made the oldest of these old.
    pub old_secs_max: u64,
}

impl Rounds {
    /// Reads a file that [`Rounds::write`] wrote; nothing is measured yet if there is none.
    ///
    /// # Errors
    /// Names the file if it is not as it was written.
    pub fn read(path: &Path) -> Result<Self, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        match std::fs::read_to_string(path) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| wrong(&error)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(wrong(&error)),
        }
    }

    /// Writes them to a file.
    ///
    /// # Errors
    /// Names the file if it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        std::fs::write(path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Whether there is a round of this kind that is at least this long.
    pub fn has(&self, has_plugin: bool, save_every_secs: u64, secs: u64) -> bool {
        self.rounds.iter().any(|round| {
            (round.has_plugin, round.save_every_secs) == (has_plugin, save_every_secs) && round.secs >= secs
        })
    }

    /// Puts a round in the place of the last one of its kind.
    pub fn keep(&mut self, round: Round) {
        self.rounds.retain(|other| other.key() != round.key());
        self.rounds.push(round);
        self.rounds.sort_by_key(Round::key);
    }
}

impl Round {
    /// What tells rounds apart, in the order in which they are shown.
    fn key(&self) -> (bool, Option<usize>) {
        (self.has_plugin, SAVES_EVERY_SECS.iter().position(|secs| *secs == self.save_every_secs))
    }
}

impl EdgeFigures {
    /// All requests.
    pub fn requests(&self) -> u64 {
        self.reasons.values().sum()
    }

    /// Requests that were answered from the store at once, with fresh and stale responses.
    pub fn hits(&self) -> u64 {
        self.fresh() + self.stale()
    }

    /// Hits, and would-be hits that the leak guard compared with the origin's response.
    pub fn would_be_hits(&self) -> u64 {
        self.hits() + self.counted(|reason| reason == "pass-leak-guard")
    }

    /// Requests that were answered at once with a fresh response.
    pub fn fresh(&self) -> u64 {
        self.counted(|reason| reason == FRESH)
    }

    /// Requests that were answered at once with a stale response.
    pub fn stale(&self) -> u64 {
        self.counted(|reason| STALE.contains(&reason))
    }

    fn counted(&self, is_meant: impl Fn(&str) -> bool) -> u64 {
        self.reasons.iter().filter(|(reason, _)| is_meant(reason)).map(|(_, count)| count).sum()
    }
}

const FRESH: &str = "hit-fresh";
/// The other stale responses are sent after the origin was asked in vain.
const STALE: [&str; 3] = ["stale-breaker-open", "stale-client-allows", "stale-while-revalidate"];

/// Whether this reason of `Cache-Status` is one of a hit.
pub fn is_hit(reason: &str) -> bool {
    reason == FRESH || STALE.contains(&reason)
}

#[cfg(test)]
mod tests {
    use super::{EdgeFigures, Round, Rounds};

    #[test]
    fn hits_are_answers_without_a_question_to_the_origin() {
        let counts =
            [("hit-fresh", 5), ("stale-while-revalidate", 2), ("hit-revalidated", 4), ("miss-absent", 1)];
        let reasons = counts.map(|(reason, count)| (reason.to_owned(), count)).into();
        let edge = EdgeFigures { reasons, ..EdgeFigures::default() };
        assert_eq!([edge.requests(), edge.hits(), edge.fresh(), edge.stale()], [12, 7, 5, 2]);
    }

    #[test]
    fn a_round_replaces_the_last_one_of_its_kind() {
        let round = |has_plugin, save_every_secs, secs| Round {
            has_plugin,
            save_every_secs,
            secs,
            took_secs: secs,
            remark: String::new(),
            urls: 1,
            edges: Vec::new(),
        };
        let mut rounds = Rounds::default();
        for round in [round(true, 0, 1), round(false, 10, 2), round(false, 60, 3), round(true, 0, 4)] {
            rounds.keep(round);
        }
        assert!(rounds.has(false, 60, 3) && !rounds.has(true, 60, 3));
        assert!(rounds.has(false, 60, 1) && !rounds.has(false, 60, 4), "a shorter round does not answer");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rates.json");
        rounds.write(&path).unwrap();
        let read = Rounds::read(&path).unwrap();
        assert_eq!(read.rounds.iter().map(|round| round.secs).collect::<Vec<_>>(), [3, 2, 4]);
        assert!(Rounds::read(&directory.path().join("none.json")).unwrap().rounds.is_empty());
    }
}
