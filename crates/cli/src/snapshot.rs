//! The state of a running edge at one moment: its status and its metrics.

use crate::admin::AdminArgs;
use anyhow::{anyhow, bail};
use api::status::EdgeStatus;
use message::Status;
use std::collections::BTreeMap;

/// The verdicts of requests that the cache could have answered.
const CACHEABLE: [&str; 4] = ["hit", "stale", "miss", "pass"];

/// Status and metrics of an edge.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) status: EdgeStatus,
    metrics: BTreeMap<String, f64>,
}

/// Requests by their verdicts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdicts(BTreeMap<String, u64>);

impl Snapshot {
    /// Asks the edge.
    ///
    /// # Errors
    /// If no edge answers, or it refuses.
    pub(crate) fn of(edge: &AdminArgs) -> anyhow::Result<Self> {
        let content = |target| {
            let answer = edge.get(target)?;
            if answer.head.status != Status::OK {
                bail!("{} refuses: {} {}", edge.admin, answer.head.status, crate::purge::reason(&answer));
            }
            Ok(answer.content)
        };
        let status = serde_json::from_slice(&content(api::status::PATH)?);
        let metrics = content("/metrics")?;
        let foreign =
            |_| anyhow!("the response of {} is not from a Petasos edge; correct --admin", edge.admin);
        Ok(Self::new(status.map_err(foreign)?, &String::from_utf8_lossy(&metrics)))
    }

    /// The snapshot with these metrics as OpenMetrics text.
    pub(crate) fn new(status: EdgeStatus, metrics: &str) -> Self {
        let lines = metrics.lines().filter(|line| !line.starts_with('#'));
        let metrics = lines.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Self { status, metrics: metrics.collect() }
    }

    /// The sum of a metric over its labels. `name` has no prefix.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.series(name).map(|(_, value)| value).sum()
    }

    /// Requests since the start by their verdicts.
    pub(crate) fn verdicts(&self) -> Verdicts {
        let mut verdicts = Verdicts::default();
        for (labels, value) in self.series("requests_total") {
            let verdict = labels.split_once("verdict=\"").and_then(|(_, rest)| rest.split_once('"'));
            if let Some((verdict, _)) = verdict {
                *verdicts.0.entry(verdict.to_owned()).or_default() += value as u64;
            }
        }
        verdicts
    }

    /// The values of a metric, each with its labels.
    fn series(&self, name: &str) -> impl Iterator<Item = (&str, f64)> {
        let name = format!("petasos_{name}");
        let all = self.metrics.iter();
        all.filter_map(move |(series, value)| match series.strip_prefix(&name)? {
            "" => Some(("", *value)),
            labels => Some((labels.strip_prefix('{')?.strip_suffix('}')?, *value)),
        })
    }
}

impl Verdicts {
    /// The verdicts that this has more of than `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let difference =
            |(name, count): (&String, &u64)| (name.clone(), count.saturating_sub(earlier.count(name)));
        Self(self.0.iter().map(difference).collect())
    }

    pub(crate) fn count(&self, verdict: &str) -> u64 {
        self.0.get(verdict).copied().unwrap_or_default()
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The share of cacheable requests that were answered from the cache. `None` without one.
    pub(crate) fn hit_ratio(&self) -> Option<f64> {
        let cacheable: u64 = CACHEABLE.iter().map(|verdict| self.count(verdict)).sum();
        (cacheable > 0).then(|| (self.count("hit") + self.count("stale")) as f64 / cacheable as f64)
    }

    /// The verdicts that occurred, the most frequent first.
    pub(crate) fn occurring(&self) -> Vec<(&str, u64)> {
        let mut occurring: Vec<_> =
            self.0.iter().filter(|(_, count)| **count > 0).map(|(name, count)| (&**name, *count)).collect();
        occurring.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        occurring
    }

    /// The counts by name, as JSON.
    pub(crate) const fn by_name(&self) -> &BTreeMap<String, u64> {
        &self.0
    }
}

#[cfg(test)]
pub(crate) mod examples {
    use super::Snapshot;
    use api::status::{EdgeStatus, SiteStatus, StoreStatus};

    /// An edge with one healthy site.
    pub(crate) fn well(metrics: &str) -> Snapshot {
        let site = SiteStatus {
            breaker: "closed".to_owned(),
            connections_idle: 1,
            fetches_active: 2,
            fetches_max: 64,
            fetches_waiting: 0,
            names: vec!["a.test".to_owned()],
            origin: "http://127.0.0.1:8000".to_owned(),
            origins: Vec::new(),
            profile: "auto".to_owned(),
            purges_itself: false,
            recognised_by: None,
            recognised_since: None,
            recognition_confirmed: None,
            recognition_off: false,
            rules: "wordpress".to_owned(),
            uncompressed: None,
        };
        let store = StoreStatus {
            bytes: 12_300_000,
            bytes_max: 256_000_000,
            evicted: 0,
            objects: 345,
            on_disk_only: 0,
            published: 400,
        };
        let status = EdgeStatus {
            certificates: Vec::new(),
            connections: 3,
            disk: None,
            draining: false,
            requests: 1010,
            sites: vec![site],
            store,
            uptime_secs: 7384,
            version: "0.1.0".to_owned(),
            warming: Vec::new(),
            workers: 2,
        };
        Snapshot::new(status, metrics)
    }

    /// Metrics of some requests.
    pub(crate) const METRICS: &str = "# TYPE petasos_requests counter\n\
        petasos_requests_total{site=\"a.test\",verdict=\"hit\",reason=\"hit-fresh\"} 300\n\
        petasos_requests_total{site=\"b.test\",verdict=\"hit\",reason=\"hit-fresh\"} 600\n\
        petasos_requests_total{site=\"a.test\",verdict=\"hit\",reason=\"hit-revalidated\"} 60\n\
        petasos_requests_total{site=\"a.test\",verdict=\"miss\",reason=\"miss-absent\"} 40\n\
        petasos_requests_total{site=\"-\",verdict=\"refused\",reason=\"x\"} 10\n\
        petasos_bytes_sent_total 5000\n\
        petasos_bytes_sent_extra_total 7\n";
}

#[cfg(test)]
mod tests {
    use super::Verdicts;
    use super::examples::{METRICS, well};

    #[test]
    fn metrics_are_summed_over_their_labels() {
        let snapshot = well(METRICS);
        assert_eq!((snapshot.metric("bytes_sent_total"), snapshot.metric("none")), (5000.0, 0.0));
        let verdicts = snapshot.verdicts();
        assert_eq!(verdicts.occurring(), [("hit", 960), ("miss", 40), ("refused", 10)]);
        assert_eq!((verdicts.total(), verdicts.hit_ratio()), (1010, Some(0.96)));
        assert_eq!(Verdicts::default().hit_ratio(), None);
        let since = verdicts.since(&verdicts);
        assert_eq!((since.total(), since.occurring()), (0, vec![]));
    }
}
