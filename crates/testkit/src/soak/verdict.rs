//! The verdict on a soak: whether the process stayed within its limits, and whether each counter
//! and each message has a cause in the script.
//!
//! Invariant: each metric of the edge has a rule. A metric without one is reported as a problem, so
//! that a new error counter cannot grow unnoticed.

use super::configuration::FILES;
use super::guards::{DENIALS, FLOODS, TOO_FAST};
use super::health::{FailureLog, SoakFailure};
use super::reloads::{CERTIFICATES, REFUSED, RELOADS, SIGNALS};
use super::rotation::{ROTATIONS, logs};
use super::rules::{FAILING, GUARDED, HAPPENS, IDLE, KEPT, ORDINARY, TOLD, ZERO};
use super::watch::{ProcessSample, resident_bytes_max};
use super::{GREEDY, MEMORY_BYTES, SoakState, reasons, visitors};
use crate::{Client, Edge};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Upper bound of resident memory.
const RESIDENT_BYTES_MAX: u64 = Edge::resident_bytes_max(MEMORY_BYTES);
/// Allowed growth of descriptors and threads in the second half of the soak: an absolute number,
/// and a share of their mean. The greater one counts.
const GROWTH_MAX: [f64; 2] = [8.0, 0.1];
/// The same for resident memory, in bytes.
const RESIDENT_GROWTH_MAX: [f64; 2] = [(4 << 20) as f64, 0.05];
/// Descriptors of files that the idle process may have in addition to those at the start, the
/// disk's segments and the files that a route serves.
const IDLE_FILES_MAX: u64 = 8;
/// Longest time that the edge may take to become idle after its visitors have left.
const SETTLE: Duration = Duration::from_secs(30);
/// Least length of a soak in which everything in [`HAPPENS`] must occur.
const WHOLE: Duration = Duration::from_secs(300);
const SLICE: Duration = Duration::from_millis(200);
/// Fetches that an origin that ends its connections may break off: `limits.fetches_max`.
const FETCHES_MAX: u64 = 64;
/// Requests that an origin may refuse each time that it ends its connections: all fetches, and ten
/// probes a second.
const REFUSALS_MAX: u64 = FETCHES_MAX + 200;
/// Requests that one visit may leave unanswered.
const REQUESTS_PER_VISIT_MAX: u64 = 18;

/// Values of metrics by their names.
pub(super) type Metrics = BTreeMap<String, f64>;

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
        self.judge_reasons(&mut figures);
        edge.signal("TERM");
        if edge.wait() != Some(0) {
            self.complain("the edge did not end in good order");
        }
        self.judge_access_log(&metrics, directory, &mut figures);
        self.judge_messages(&metrics, &edge.stderr());
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
        let columns: [(&str, SampleFigure, [f64; 2]); 3] = [
            ("descriptors", |sample| sample.descriptors, GROWTH_MAX),
            ("threads", |sample| sample.threads, GROWTH_MAX),
            ("resident bytes", |sample| sample.resident_bytes, RESIDENT_GROWTH_MAX),
        ];
        for (what, column, [least, share]) in columns {
            let values: Vec<f64> = second.iter().map(|sample| column(sample) as f64).collect();
            let most = samples.iter().map(column).max().unwrap_or(0);
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            figures.push(format!("{what}: {mean:.0} in the second half on average, {most} at most"));
            let limit = least.max(share * mean).round();
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
            let mut limits = IDLE.iter().map(|name| (*name, 0.0)).chain([KEPT]);
            let busy = |(name, most): &(&str, f64)| metrics.get(*name).is_none_or(|value| value > most);
            let Some((name, _)) = limits.find(busy) else { return metrics };
            if self.health.now() > begun + SETTLE {
                self.complain(&format!("{name} is {:?} without visitors", metrics.get(name)));
                return metrics;
            }
            std::thread::sleep(SLICE);
        }
    }

    /// The text of `/metrics`. `None` if the edge does not answer.
    fn metrics_text(&self) -> Option<String> {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.admin);
        let answer = Client::try_connect(self.admin)?.try_answer(request, false)?;
        Some(answer.text().to_owned())
    }

    /// The values of `/metrics`, each summed over its labels. `None` if the edge does not answer.
    pub(super) fn metrics(&self) -> Option<Metrics> {
        let text = self.metrics_text()?;
        let mut metrics = Metrics::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
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
            let is_at_rest = sample.connections as f64 <= KEPT.1 && sample.sockets <= start.sockets;
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
        self.compare(figures, "connections without visitors", idle.connections as f64, KEPT.1);
        let segments = std::fs::read_dir(directory.join("disk")).into_iter().flatten().count() as u64;
        let sockets = start.sockets as f64;
        let files = (start.files + segments + FILES as u64 + IDLE_FILES_MAX) as f64;
        self.compare(figures, "sockets without visitors", idle.sockets as f64, sockets);
        self.compare(figures, "files without visitors", idle.files as f64, files);
    }

    /// Number of failures of this kind, of all origins.
    fn failures(&self, failure: SoakFailure) -> u64 {
        self.health.failures(failure) + self.pair_health.failures(failure)
    }

    fn of_both(&self, number: fn(&FailureLog) -> u64) -> u64 {
        number(self.health) + number(self.pair_health)
    }

    fn judge_counters(&self, metrics: &Metrics, figures: &mut Vec<String>) {
        let value = |name: &str| metrics.get(name).copied().unwrap_or(f64::NAN);
        self.demand_zero(&ZERO, metrics, "nothing in the script explains that");
        let failures = SoakFailure::ALL.map(|failure| (failure, self.failures(failure)));
        figures.push(format!("failures of the origins: {failures:?}"));
        if failures.iter().all(|(_, count)| *count == 0) {
            self.demand_zero(&FAILING, metrics, "no origin ever failed");
        }
        let explained = self.explained();
        for (name, limit) in explained {
            self.compare(figures, name, value(name), limit as f64);
        }
        let equal = [
            ("petasos_reloads_total", RELOADS),
            ("petasos_reloads_refused_total", REFUSED),
            ("petasos_parameter_floods_total", FLOODS),
            ("petasos_clients_denied_total", DENIALS),
        ];
        for (name, what) in equal {
            let counted = self.counted(what) as f64;
            if value(name) != counted {
                self.complain(&format!("{name} is {}, and the script counted {counted}", value(name)));
            }
        }
        let lists = [&ZERO[..], &[KEPT.0], &IDLE, &FAILING, &GUARDED, &HAPPENS, &TOLD, &ORDINARY].concat();
        let has_rule =
            |name: &str| lists.contains(&name) || explained.iter().any(|(ruled, _)| *ruled == name);
        for name in metrics.keys().filter(|name| !has_rule(name)) {
            self.complain(&format!("{name} has no rule in soak/rules.rs: may it grow without an error?"));
        }
        // Each truncated response may have had every visitor as a follower.
        let cut = self.counted("pages cut off by the origin") as f64;
        let cut_max = (self.health.breaks() + self.health.ends() * FETCHES_MAX) * visitors::COUNT;
        self.compare(figures, "pages cut off by the origin", cut, cut_max as f64);
        let skipped = self.skipped.load(Ordering::SeqCst) as f64;
        let line = format!("records that followers of the log missed: {skipped} of those skipped");
        self.compare(figures, &line, skipped, value("petasos_log_skipped_total"));
        figures.extend(
            HAPPENS.iter().chain(&TOLD).chain(&GUARDED).map(|name| format!("{name}: {}", value(name))),
        );
        if self.plan.length >= WHOLE {
            let untested = HAPPENS.iter().filter(|name| value(name) <= 0.0);
            untested.for_each(|name| self.complain(&format!("{name} is {}: it was not tested", value(name))));
        }
    }

    /// Counters that the script increases, with the greatest values that it explains.
    fn explained(&self) -> [(&'static str, u64); 7] {
        let breaks = self.of_both(FailureLog::breaks);
        let ends = self.of_both(FailureLog::ends);
        let cut = breaks + ends * FETCHES_MAX;
        let gone = [
            "aborted downloads",
            "aborted uploads",
            "event streams left",
            "visits left at the end",
            "streams reset",
            "streams left",
            "requests broken off",
            "responses left",
            "tunnels",
            "streams of the log",
            TOO_FAST,
        ];
        let gone: u64 = gone.iter().map(|what| self.counted(what)).sum();
        let many = ["pipelines left", "failed with the origin", "failed with one of the pair"];
        let many: u64 = many.iter().map(|what| self.counted(what)).sum();
        let gone = gone + REQUESTS_PER_VISIT_MAX * (many + visitors::COUNT);
        let changes = 4 * ends + 6 * self.failures(SoakFailure::Hangs);
        [
            ("petasos_origin_refusals_total", ends * REFUSALS_MAX),
            ("petasos_origin_faults_total", cut),
            // A truncated response may have had every visitor as a follower.
            ("petasos_responses_cut_total", cut * visitors::COUNT),
            ("petasos_visitors_gone_total", gone + breaks),
            ("petasos_origin_breaker_changes_total", changes),
            ("petasos_tls_handshakes_failed_total", self.counted("handshakes broken off")),
            ("petasos_certificates_replaced_total", self.counted(CERTIFICATES)),
        ]
    }

    /// Compares the reasons of all responses with their rules.
    fn judge_reasons(&self, figures: &mut Vec<String>) {
        let Some(text) = self.metrics_text() else { return self.complain("the edge gives no metrics") };
        let counts = text.lines().filter_map(|line| {
            let (labels, count) = line.strip_prefix("petasos_requests_total{")?.split_once("} ")?;
            let reason = labels.split_once("reason=\"")?.1.split('"').next()?;
            Some((reason, count.parse::<f64>().ok()?))
        });
        let has_failed = SoakFailure::ALL.into_iter().any(|failure| self.failures(failure) > 0);
        let mut seen = Vec::new();
        for (reason, count) in counts.filter(|(_, count)| *count > 0.0) {
            let has_rule = reasons::ORDINARY.contains(&reason)
                || reasons::LEFT.contains(&reason)
                || reasons::GUARDED.contains(&reason)
                || has_failed && reasons::FAILING.contains(&reason);
            if !has_rule {
                self.complain(&format!("{count} responses have the reason {reason}, which nothing explains"));
            }
            seen.push(format!("{reason} {count}"));
        }
        figures.push(format!("reasons: {}", seen.join(", ")));
    }

    /// Reports each of these counters if it is missing or not zero. `why` is the reason why it must
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
    fn judge_messages(&self, metrics: &Metrics, stderr: &str) {
        let ends = self.of_both(FailureLog::ends);
        let failures: u64 = SoakFailure::ALL.into_iter().map(|failure| self.failures(failure)).sum();
        let changes = metrics.get("petasos_origin_breaker_changes_total").copied().unwrap_or(0.0) as u64;
        let [hang_ups, rotations] = [SIGNALS, ROTATIONS].map(|what| self.counted(what));
        let mut expected = [
            // The audit log of the admin address.
            ("127.0.0.1: purge (", self.counted("purges and writes")),
            ("127.0.0.1: reload: ", self.counted(RELOADS) + self.counted(REFUSED)),
            ("SIGHUP: the log is reopened", hang_ups),
            ("the configuration was read again", self.counted(RELOADS)),
            ("the configuration was not read again", self.counted(REFUSED)),
            ("the access log", hang_ups + rotations),
            ("petasos: the certificate", self.counted(CERTIFICATES)),
            // Once a minute for each greedy client.
            ("goes on beyond its limits (guard)", u64::from(GREEDY) * (1 + self.plan.length.as_secs() / 60)),
            ("health checks", 4 * self.pair_failures()),
            ("answers again after", changes),
            ("stale copies are served at once", changes),
            ("the site's other origins get its requests", changes),
            ("petasos: origin ", 8 * failures + ends),
            // Each kind of failure once a minute.
            ("petasos: the origin http://", 8 * failures),
            ("petasos: one of the origins http://", 8 * failures),
            ("petasos: the breaker of the origin http://", 2 * failures),
        ];
        for line in stderr.lines() {
            let rule = expected.iter_mut().find(|(part, left)| line.contains(part) && *left > 0);
            match rule {
                Some((_, left)) => *left -= 1,
                None => self.complain(&format!("nothing in the script explains the message {line:?}")),
            }
        }
    }

    fn pair_failures(&self) -> u64 {
        SoakFailure::ALL.into_iter().map(|failure| self.pair_health.failures(failure)).sum()
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
