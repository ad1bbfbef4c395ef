//! Hit ratios of an ordinary site's traffic at low request rates. `cargo xtask long traffic
//! wordpress --rates` measures them, and docs/hit-ratio.md is rendered from them.
//!
//! Invariant: a request counts as a hit only if it was answered without waiting for the origin.
//! Every other request is counted with its reason.

mod page;

pub use page::hit_ratio_reference;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// File with the rounds of the last measurement, relative to the root of the repository.
pub const ROUNDS_PATH: &str = "labs/wordpress/rates.json";
/// Request rates, in requests per second. Each is measured with its own edge.
pub const RATES: [f64; 4] = [0.5, 1.0, 5.0, 12.0];
/// Intervals between two saves, in seconds; 0 means no saves.
pub const SAVES_EVERY_SECS: [u64; 3] = [0, 60, 10];

/// The rounds of a measurement.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rounds {
    /// One round for each combination of plugin and interval of saves, in the order of
    /// [`RateRound::key`].
    pub rounds: Vec<RateRound>,
}

/// One measurement: several edges, one for each rate, run in parallel in front of one WordPress.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RateRound {
    /// Whether WordPress has the plugin that purges.
    pub has_plugin: bool,
    /// Seconds between two saves; 0 means no saves.
    pub save_every_secs: u64,
    /// Planned duration of the traffic, in seconds.
    pub secs: u64,
    /// Seconds until the last response.
    pub took_secs: u64,
    /// A remark on this round, in sentences. Written by hand.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remark: String,
    /// Number of the site's URLs.
    pub urls: u64,
    /// Figures of each edge, in the order of the rates.
    pub edges: Vec<EdgeFigures>,
}

/// Figures of one edge.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeFigures {
    /// The request rate, in requests per second.
    pub rate: f64,
    /// Requests that were the first for their URL. The store is empty at the start.
    pub first: u64,
    /// Requests by the reason in `Cache-Status`.
    pub reasons: BTreeMap<String, u64>,
    /// Saves that passed this edge or purged it.
    pub saves: u64,
    /// Responses with the saved post that must be current at the next request after a save.
    pub must_be_new: u64,
    /// Responses counted in `must_be_new` that were older than the last save.
    pub broken: u64,
    /// Responses with an older title of the saved post that the documentation permits.
    pub old: u64,
    /// Greatest age of a response counted in `old`: seconds since the save that made it outdated.
    pub old_secs_max: u64,
}

impl Rounds {
    /// Reads a file that [`Rounds::write`] wrote. Returns no rounds if there is no file.
    ///
    /// # Errors
    /// A message with the path, if the file cannot be read or parsed.
    pub fn read(path: &Path) -> Result<Self, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        match std::fs::read_to_string(path) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| wrong(&error)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(wrong(&error)),
        }
    }

    /// Writes the rounds to a file.
    ///
    /// # Errors
    /// A message with the path, if the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        std::fs::write(path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Whether there is a round with this plugin and interval that lasted at least `secs`.
    pub fn has(&self, has_plugin: bool, save_every_secs: u64, secs: u64) -> bool {
        self.rounds.iter().any(|round| {
            (round.has_plugin, round.save_every_secs) == (has_plugin, save_every_secs) && round.secs >= secs
        })
    }

    /// Adds a round. It replaces an older round with the same plugin and interval.
    pub fn keep(&mut self, round: RateRound) {
        self.rounds.retain(|other| other.key() != round.key());
        self.rounds.push(round);
        self.rounds.sort_by_key(RateRound::key);
    }
}

impl RateRound {
    /// The identity of a round, which is also its sort key.
    fn key(&self) -> (bool, Option<usize>) {
        (self.has_plugin, SAVES_EVERY_SECS.iter().position(|secs| *secs == self.save_every_secs))
    }
}

impl EdgeFigures {
    /// Number of all requests.
    pub fn requests(&self) -> u64 {
        self.reasons.values().sum()
    }

    /// Requests that were answered from the store without waiting for the origin, fresh or stale.
    pub fn hits(&self) -> u64 {
        self.fresh() + self.stale()
    }

    /// Hits, and requests that would have been hits but were compared with the origin's response by
    /// the leak guard.
    pub fn would_be_hits(&self) -> u64 {
        self.hits() + self.counted(|reason| reason == "pass-leak-guard")
    }

    /// Requests that were answered with a fresh response.
    pub fn fresh(&self) -> u64 {
        self.counted(|reason| reason == FRESH)
    }

    /// Requests that were answered with a stale response without waiting for the origin.
    pub fn stale(&self) -> u64 {
        self.counted(|reason| STALE.contains(&reason))
    }

    fn counted(&self, is_meant: impl Fn(&str) -> bool) -> u64 {
        self.reasons.iter().filter(|(reason, _)| is_meant(reason)).map(|(_, count)| count).sum()
    }
}

const FRESH: &str = "hit-fresh";
/// Reasons of stale responses that did not wait for the origin. Other stale responses are sent only
/// after the origin has failed.
const STALE: [&str; 3] = ["stale-breaker-open", "stale-client-allows", "stale-while-revalidate"];

/// Whether this reason in `Cache-Status` is a hit.
pub fn is_hit(reason: &str) -> bool {
    reason == FRESH || STALE.contains(&reason)
}

#[cfg(test)]
mod tests {
    use super::{EdgeFigures, RateRound, Rounds};

    #[test]
    fn hits_are_fresh_or_stale_without_waiting_for_the_origin() {
        let counts =
            [("hit-fresh", 5), ("stale-while-revalidate", 2), ("hit-revalidated", 4), ("miss-absent", 1)];
        let reasons = counts.map(|(reason, count)| (reason.to_owned(), count)).into();
        let edge = EdgeFigures { reasons, ..EdgeFigures::default() };
        assert_eq!([edge.requests(), edge.hits(), edge.fresh(), edge.stale()], [12, 7, 5, 2]);
    }

    #[test]
    fn round_replaces_the_one_of_the_same_kind() {
        let round = |has_plugin, save_every_secs, secs| RateRound {
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
