//! The verdict on a soak: whether the process stayed within its limits, and whether each counter
//! and each message has a cause in the script.
//!
//! Invariant: each metric of the edge has a rule. A metric without one is reported as a problem, so
//! that a new error counter cannot grow unnoticed.

use super::health::SoakFailure;
use super::rotation::{HUP, USR1, logs};
use super::rules::{FAILING, HAPPENS, IDLE, ORDINARY, TOLD, ZERO};
use super::visitors::PAGE_VISITORS;
use super::watch::{ProcessSample, resident_bytes_max};
use super::{MEMORY_BYTES, SoakState, lock};
use crate::{Client, Edge};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Upper bound of resident memory.
const RESIDENT_BYTES_MAX: u64 = Edge::resident_bytes_max(MEMORY_BYTES);
/// Allowed growth of descriptors and threads in the second half of the soak: an absolute number,
/// and a share of their mean. The greater one counts.
const GROWTH_MAX: [f64; 2] = [8.0, 0.1];
/// Descriptors of files that the idle process may have in addition to those at the start and the
/// disk's segments.
const IDLE_FILES_MAX: u64 = 8;
/// Longest time that the edge may take to become idle after its visitors have left.
const SETTLE: Duration = Duration::from_secs(30);
/// Least length of a soak in which everything in [`HAPPENS`] must occur.
const WHOLE: Duration = Duration::from_secs(300);
const SLICE: Duration = Duration::from_millis(200);

type Metrics = BTreeMap<String, f64>;

/// Selects one figure of a sample.
type SampleFigure = fn(&ProcessSample) -> u64;

impl SoakState<'_> {
    /// Judges the samples and the final state of the edge, and ends it. Returns the figures with
    /// their limits.
    pub(super) fn judge(
        &self,
        edge: &mut Edge,
        start: ProcessSample,
        samples: &[ProcessSample],
        directory: &Path,
    ) -> Vec<String> {
        let mut figures = Vec::new();
        self.judge_samples(samples, &mut figures);
        let resident = resident_bytes_max(edge.pid());
        self.compare(&mut figures, "bytes resident at most", resident as f64, RESIDENT_BYTES_MAX as f64);
        let metrics = self.settle(edge.pid());
        self.judge_idle(start, self.at_rest(start, edge.pid()), directory, &mut figures);
        self.judge_counters(&metrics, &mut figures);
        edge.signal("TERM");
        if edge.wait() != Some(0) {
            self.complain("the edge did not end in good order");
        }
        self.judge_access_log(&metrics, directory, &mut figures);
        self.judge_messages(&edge.stderr());
        figures
    }

    fn compare(&self, figures: &mut Vec<String>, what: &str, figure: f64, limit: f64) {
        let line = format!("{what}: {figure} of at most {limit}");
        // A missing counter is NaN, and counts as a violation.
        if figure.is_nan() || figure > limit {
            self.complain(&line);
        }
        figures.push(line);
    }

    fn judge_samples(&self, samples: &[ProcessSample], figures: &mut Vec<String>) {
        let second = &samples[samples.len() / 2..];
        let columns: [(&str, SampleFigure); 2] =
            [("descriptors", |sample| sample.descriptors), ("threads", |sample| sample.threads)];
        for (what, column) in columns {
            let values: Vec<f64> = second.iter().map(|sample| column(sample) as f64).collect();
            let most = samples.iter().map(column).max().unwrap_or(0);
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            figures.push(format!("{what}: {mean:.0} in the second half on average, {most} at most"));
            let limit = GROWTH_MAX[0].max(GROWTH_MAX[1] * mean).round();
            let what = format!("growth of {what} in the second half");
            // In a short soak, there are too few samples for a growth.
            if self.plan.length >= WHOLE {
                self.compare(figures, &what, growth(&values).round(), limit);
            }
        }
    }

    /// Waits until the edge is idle. Returns its metrics.
    fn settle(&self, pid: u32) -> Metrics {
        let begun = self.health.now();
        loop {
            let Some(metrics) = self.metrics() else {
                self.complain(&format!("the edge (process {pid}) gives no metrics"));
                return Metrics::new();
            };
            let busy = |name: &&&str| metrics.get(**name).is_none_or(|value| *value > 0.0);
            let Some(name) = IDLE.iter().find(busy) else { return metrics };
            if self.health.now() > begun + SETTLE {
                self.complain(&format!("{name} is {:?} without visitors", metrics.get(*name)));
                return metrics;
            }
            std::thread::sleep(SLICE);
        }
    }

    /// The values of `/metrics`, each summed over its labels. `None` if the edge does not answer.
    fn metrics(&self) -> Option<Metrics> {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.admin);
        let answer = Client::try_connect(self.admin)?.try_answer(request, false)?;
        let mut metrics = Metrics::new();
        for line in answer.text().lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ')?;
            let name = name.split('{').next()?.to_owned();
            *metrics.entry(name).or_default() += value.parse().unwrap_or(0.0);
        }
        Some(metrics)
    }

    /// Waits until the process has no more sockets than at the `start`, because the edge may still
    /// be closing the connection for the metrics. Returns the last sample.
    fn at_rest(&self, start: ProcessSample, pid: u32) -> ProcessSample {
        let begun = self.health.now();
        loop {
            let sample = ProcessSample::take(pid);
            let is_at_rest = sample.connections == 0 && sample.sockets <= start.sockets;
            if is_at_rest || self.health.now() > begun + SETTLE {
                return sample;
            }
            std::thread::sleep(SLICE);
        }
    }

    fn judge_idle(
        &self,
        start: ProcessSample,
        idle: ProcessSample,
        directory: &Path,
        figures: &mut Vec<String>,
    ) {
        self.compare(figures, "connections without visitors", idle.connections as f64, 0.0);
        let segments = std::fs::read_dir(directory.join("disk")).into_iter().flatten().count() as u64;
        let sockets = start.sockets as f64;
        let files = (start.files + segments + IDLE_FILES_MAX) as f64;
        self.compare(figures, "sockets without visitors", idle.sockets as f64, sockets);
        self.compare(figures, "files without visitors", idle.files as f64, files);
    }

    fn judge_counters(&self, metrics: &Metrics, figures: &mut Vec<String>) {
        let value = |name: &str| metrics.get(name).copied().unwrap_or(f64::NAN);
        self.demand_zero(&ZERO, metrics, "nothing in the script explains that");
        let [refusals, hangs, errors] = [SoakFailure::Refuses, SoakFailure::Hangs, SoakFailure::Errs]
            .map(|failure| self.health.failures(failure) as f64);
        figures.push(format!(
            "failures of the origin: {refusals} times refusing, {hangs} hung, {errors} with 500"
        ));
        if refusals + hangs + errors == 0.0 {
            self.demand_zero(&FAILING, metrics, "the origin never failed");
        }
        let breaks = self.health.breaks() as f64;
        let gone = ["aborted downloads", "aborted uploads", "event streams left", "visits left at the end"];
        let gone: u64 = gone.iter().filter_map(|what| lock(&self.tally).get(what).copied()).sum();
        // An origin that stops ends at most as many connections as the edge has fetches.
        let ended = refusals * 64.0;
        let explained = [
            // At most ten probes a second, and the fetches that were in progress.
            ("petasos_origin_refusals_total", refusals * 160.0),
            ("petasos_origin_faults_total", breaks + ended),
            ("petasos_responses_cut_total", breaks + ended),
            ("petasos_visitors_gone_total", gone as f64 + breaks),
            ("petasos_origin_breaker_changes_total", 6.0 * (refusals + hangs)),
        ];
        for (name, limit) in explained {
            self.compare(figures, name, value(name), limit);
        }
        let lists = [&ZERO[..], &IDLE, &FAILING, &HAPPENS, &TOLD, &ORDINARY].concat();
        let has_rule =
            |name: &str| lists.contains(&name) || explained.iter().any(|(ruled, _)| *ruled == name);
        for name in metrics.keys().filter(|name| !has_rule(name)) {
            self.complain(&format!("{name} has no rule in soak/rules.rs: may it grow without an error?"));
        }
        let cut = lock(&self.tally).get("pages cut off by the origin").copied().unwrap_or(0);
        // Each truncated response may have had all visitors of pages as followers.
        self.compare(figures, "pages cut off by the origin", cut as f64, breaks * PAGE_VISITORS as f64);
        figures.extend(HAPPENS.iter().chain(&TOLD).map(|name| format!("{name}: {}", value(name))));
        if self.plan.length >= WHOLE {
            let untested = HAPPENS.iter().filter(|name| value(name) <= 0.0);
            untested.for_each(|name| self.complain(&format!("{name} is {}: it was not tested", value(name))));
        }
    }

    /// Reports each of these counters that is missing or not zero. `why` is the reason why it must
    /// be zero.
    fn demand_zero(&self, names: &[&str], metrics: &Metrics, why: &str) {
        for name in names {
            let value = metrics.get(*name).copied().unwrap_or(f64::NAN);
            if value != 0.0 {
                self.complain(&format!("{name} is {value}: {why}"));
            }
        }
    }

    fn judge_access_log(&self, metrics: &Metrics, directory: &Path, figures: &mut Vec<String>) {
        let lines =
            |path| std::fs::read(path).unwrap_or_default().iter().filter(|octet| **octet == b'\n').count();
        let logs = logs(directory);
        let (files, lines): (usize, usize) = (logs.len(), logs.into_iter().map(lines).sum());
        let requests = metrics.get("petasos_requests_total").copied().unwrap_or(f64::NAN);
        let line = format!("lines of the access log in {files} files: {lines}, of {requests} requests");
        if lines as f64 != requests {
            self.complain(&line);
        }
        figures.push(line);
    }

    /// Reports each line of standard error that nothing in the script explains.
    fn judge_messages(&self, stderr: &str) {
        let count = |what: &str| lock(&self.tally).get(what).copied().unwrap_or(0);
        let spells = [SoakFailure::Refuses, SoakFailure::Hangs].map(|failure| self.health.failures(failure));
        let spells: u64 = spells.iter().sum();
        let mut expected = [
            ("petasos: origin ", 6 * spells),
            ("petasos: the breaker of the origin", 6 * spells),
            ("refuses connections; start it", 6 * spells),
            ("closed the connection without a response", 6 * spells),
            ("SIGHUP: the log is reopened", count(HUP)),
            ("the configuration was read again; sites: 1 unchanged", count(HUP)),
            ("the access log", count(HUP) + count(USR1)),
            ("127.0.0.1: purge (", count("purges and writes")),
        ];
        for line in stderr.lines() {
            let rule = expected.iter_mut().find(|(part, left)| line.contains(part) && *left > 0);
            match rule {
                Some((_, left)) => *left -= 1,
                None => self.complain(&format!("nothing in the script explains the message {line:?}")),
            }
        }
    }
}

/// Median of the last quarter minus the median of the quarter before. A failure of the origin is
/// short and does not change a median.
fn growth(second_half: &[f64]) -> f64 {
    let (third, fourth) = second_half.split_at(second_half.len() / 2);
    median(fourth) - median(third)
}

/// The median; the upper of the two middle values if their number is even. 0 for no values.
fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::growth;

    #[test]
    fn short_failure_does_not_count_as_growth() {
        assert_eq!(growth(&[]), 0.0);
        assert_eq!(growth(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 3.0);
        assert_eq!(growth(&[4.0, 4.0, 4.0, 4.0, 900.0, 4.0]), 0.0);
    }
}
