//! Renders the metrics as OpenMetrics text, for `GET /metrics` at the admin address.
//!
//! Invariant: the text has every metric of `METRICS` and every `Reason`, even if its value is zero.
//! A dashboard can thus be built before anything goes wrong. A site has only the reasons that
//! occurred there.

use crate::control::access_log::AccessLog;
use crate::control::counters::{METRICS, Metric, MetricKind, MetricRow};
use crate::control::operator;
use crate::control::request_times;
use crate::fetch::breaker::state_number;
use crate::memory::warmer::WarmTotals;
use crate::shared::Shared;
use crate::sites::Site;
use crate::upkeep::supervisor;
use crate::upkeep::warming;
use clock::Timestamp;
use origin::{Gauges, Origin, Standing};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use semantics::Reason;
use static_tree::TreeRefusal;
use std::fmt;
use std::sync::Arc;

/// The media type of the text (OpenMetrics 1.0).
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// One value of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MetricValue {
    /// The site, for a metric with one value per site.
    site: Option<String>,
    /// The origin, if the site has several.
    origin: Option<String>,
    value: u64,
}

/// The text of all metrics.
pub(crate) fn render(shared: &Arc<Shared>) -> String {
    let mut registry = Registry::with_prefix("petasos");
    registry.register_collector(Box::new(MetricCollector { shared: Arc::clone(shared) }));
    let mut text = String::with_capacity(32 * 1024);
    // This cannot fail: writing to a String succeeds, and a test encodes the names of all metrics.
    let _ = text::encode(&mut text, &registry);
    request_times::add_to(&mut text, shared.sites.measures());
    text
}

#[derive(Debug)]
struct MetricCollector {
    shared: Arc<Shared>,
}

impl Collector for MetricCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_requests(&mut encoder)?;
        METRICS.iter().try_for_each(|row| encode_row(&mut encoder, row, &read(&self.shared, row.metric)))
    }
}

impl MetricCollector {
    fn encode_requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests by site, verdict and reason. docs/reasons.md says what to do about each.";
        let mut family = encoder.encode_descriptor("requests", help, None, MetricType::Counter)?;
        for (number, site) in self.shared.sites.measures().all().iter().enumerate() {
            for &reason in Reason::ALL {
                let value = site.requests(reason);
                // The first are those without a site. All reasons of each site would be a long
                // text.
                if number > 0 && value == 0 {
                    continue;
                }
                let verdict = reason.verdict().name();
                let labels = [("site", site.label()), ("verdict", verdict), ("reason", reason.name())];
                ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn encode_row(encoder: &mut DescriptorEncoder<'_>, row: &MetricRow, values: &[MetricValue]) -> fmt::Result {
    let metric_type = match row.kind {
        MetricKind::Counter => MetricType::Counter,
        MetricKind::Gauge => MetricType::Gauge,
    };
    let mut family = encoder.encode_descriptor(row.name, row.help, None, metric_type)?;
    for reading in values {
        let site = reading.site.as_ref().map(|site| ("site", site.as_str()));
        let origin = reading.origin.as_ref().map(|origin| ("origin", origin.as_str()));
        let labels: Vec<_> = site.into_iter().chain(origin).collect();
        if labels.is_empty() {
            // A metric without a label has exactly one value.
            return encode_value(family, row.kind, reading.value);
        }
        encode_value(family.encode_family(&labels)?, row.kind, reading.value)?;
    }
    Ok(())
}

fn encode_value(encoder: MetricEncoder<'_>, kind: MetricKind, value: u64) -> fmt::Result {
    match kind {
        MetricKind::Counter => ConstCounter::new(value).encode(encoder),
        MetricKind::Gauge => ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(encoder),
    }
}

/// The current value of a metric, summed over all sites.
pub(crate) fn sum(shared: &Shared, metric: Metric) -> u64 {
    read(shared, metric).iter().map(|reading| reading.value).sum()
}

/// The current values of a metric: one, or one for each site.
fn read(shared: &Shared, metric: Metric) -> Vec<MetricValue> {
    let store = || shared.store.stats();
    let value = match metric {
        Metric::OriginFetchesActive => return read_gauges(shared, |gauges| gauges.active),
        Metric::OriginFetchesMax => return read_gauges(shared, |gauges| gauges.limit),
        Metric::OriginFetchesWaiting => return read_gauges(shared, |gauges| gauges.waiting),
        Metric::OriginFetchesStalled => return read_gauges(shared, |gauges| gauges.stalled),
        Metric::OriginBreakerState => {
            return read_origins(shared, |origin| state_number(origin.breaker_state()));
        }
        Metric::OriginFailing => {
            return read_origins(shared, |origin| u64::from(origin.standing() == Standing::Failing));
        }
        Metric::WarmedPages => return read_warming(shared, |totals| totals.warmed),
        Metric::WarmFreshPages => return read_warming(shared, |totals| totals.fresh),
        Metric::WarmUncacheablePages => return read_warming(shared, |totals| totals.not_cacheable),
        Metric::WarmFailures => return read_warming(shared, |totals| totals.failed),
        Metric::WarmPagesLeft => return read_warming(shared, |totals| totals.left),
        Metric::OriginRetries => shared.sites.of_each_origin().map(|site| site.origin.retries()).sum(),
        Metric::OriginBreakerChanges => return read_origins(shared, Origin::breaker_changes),
        Metric::OriginConnectionsIdle => return read_gauges(shared, |gauges| gauges.idle),
        Metric::ConnectionsOpen => shared.connections() as u64,
        Metric::FlightsOpen => shared.fetches.len() as u64,
        Metric::UncompressedSites => {
            shared.sites.of_each_origin().filter(|site| site.uncompressed.found().is_some()).count() as u64
        }
        Metric::FilesOpen => shared.sites.open_files() as u64,
        Metric::PopularPages => shared.hot_pages.len() as u64,
        Metric::FillingBytes => shared.transit.taken(),
        Metric::BufferedBytes => shared.buffers.memory().taken(),
        Metric::SpoolBytes => shared.buffers.spool.bytes(),
        Metric::SpoolClosing => shared.buffers.spool.closing(),
        Metric::SpoolErrors => shared.buffers.spool.errors(),
        Metric::LingeringBytes => shared.store.lingering_bytes(),
        Metric::PrivateEnded => shared.private_copies.totals().ended,
        Metric::PrivateEvicted => shared.private_copies.totals().evicted,
        Metric::PrivateSessions => shared.private_copies.totals().sessions,
        Metric::PrivateBytes => shared.private_copies.totals().bytes,
        Metric::ContextEvicted => shared.context_copies.totals().evicted,
        Metric::Contexts => shared.context_copies.totals().contexts,
        Metric::ContextCopies => shared.context_copies.totals().copies,
        Metric::ContextBytes => shared.context_copies.totals().bytes,
        Metric::ContextSessions => shared.context_sessions.len() as u64,
        Metric::StoreBytes => store().bytes,
        Metric::StoreBytesMax => store().budget_bytes,
        Metric::StoreObjects => store().objects,
        Metric::StorePublished => store().published,
        Metric::StoreEvicted => store().evicted,
        Metric::StoreShelved => store().shelved,
        Metric::FormBytes => store().form_bytes,
        Metric::EncodingsWaiting => shared.encodings.len() as u64,
        Metric::PurgesListed => store().listed,
        Metric::PurgesWidened => store().widened,
        Metric::PurgeComparisons => store().comparisons,
        Metric::CertificateExpiry => shared.listeners.first_expiry().map_or(0, Timestamp::as_secs),
        Metric::AcmeFailing => shared.listeners.issuance.failing(),
        Metric::AcmeNextAttempt => shared.listeners.issuance.next_attempt().map_or(0, Timestamp::as_secs),
        Metric::MessagesLost => operator::lost(),
        Metric::ThreadsLost => supervisor::lost(),
        Metric::Panics => supervisor::panics(),
        Metric::AccessLogDropped => lines_lost(shared),
        Metric::HistoryOff => u64::from(shared.minutes.is_off()),
        Metric::DashboardStreams => shared.dashboard.streams() as u64,
        Metric::LogFollowers => shared.followers.len() as u64,
        Metric::LogSkipped => shared.followers.skipped(),
        Metric::TraceSpansExported => shared.traces.as_ref().map_or(0, |traces| traces.exported()),
        Metric::TraceSpansDropped => shared.traces.as_ref().map_or(0, |traces| traces.dropped()),
        Metric::TraceExportFailures => shared.traces.as_ref().map_or(0, |traces| traces.failures()),
        other => read_disk(shared, other),
    };
    vec![MetricValue { site: None, origin: None, value }]
}

/// The current value of a metric of the disk tier or of the static tree, or of a counter.
fn read_disk(shared: &Shared, metric: Metric) -> u64 {
    match metric {
        Metric::DiskOff => u64::from(shared.persistence.is_off()),
        Metric::DiskDistrusted => u64::from(shared.persistence.is_distrusted()),
        Metric::PurgesAtRisk => u64::from(shared.persistence.is_at_risk(&shared.store)),
        Metric::DiskBytes => shared.persistence.figures().bytes,
        Metric::DiskObjects => shared.persistence.figures().objects,
        Metric::DiskQueueBytes => shared.persistence.figures().queue_bytes,
        Metric::DiskAccepted => shared.persistence.figures().accepted,
        Metric::DiskDurable => shared.persistence.figures().durable,
        Metric::DiskWritten => shared.persistence.figures().written,
        Metric::DiskRefused => shared.persistence.figures().refused,
        Metric::DiskEvicted => shared.persistence.figures().evicted,
        Metric::DiskTorn => shared.persistence.figures().torn,
        Metric::DiskFull => shared.persistence.figures().full,
        Metric::DiskErrors => shared.persistence.figures().io_errors,
        Metric::DiskHangs => shared.persistence.figures().hangs,
        Metric::DiskStuck => shared.persistence.figures().stuck,
        Metric::DiskFillBytes => shared.persistence.figures().fill_bytes,
        Metric::DiskFillWaitingBytes => shared.persistence.figures().fill_waiting_bytes,
        Metric::DiskFillsUnshared => shared.persistence.figures().fills_unshared,
        Metric::DiskDamaged => shared.persistence.figures().damaged,
        Metric::DiskVerifiedBytes => shared.verifier.verified_bytes(),
        Metric::DiskVerifyDamaged => shared.verifier.damaged(),
        other => read_tree(shared, other),
    }
}

/// The current value of a metric of the static tree, or of a counter.
fn read_tree(shared: &Shared, metric: Metric) -> u64 {
    match metric {
        Metric::StaticTreeOff => u64::from(shared.static_tree.is_off()),
        Metric::StaticTreePages => shared.static_tree.figures().pages,
        Metric::StaticTreeBytes => shared.static_tree.figures().bytes,
        Metric::StaticTreeWritten => shared.static_tree.figures().written,
        Metric::StaticTreeRemoved => shared.static_tree.figures().removed,
        Metric::StaticTreeErrors => shared.static_tree.figures().errors,
        Metric::StaticTreeNoPages => shared.static_tree.figures().refused(TreeRefusal::NoPage),
        Metric::StaticTreeNotForAll => shared.static_tree.figures().refused(TreeRefusal::NotForAll),
        Metric::StaticTreeShortLived => shared.static_tree.figures().refused(TreeRefusal::ShortLived),
        Metric::StaticTreePaths => shared.static_tree.figures().refused(TreeRefusal::Path),
        Metric::StaticTreeFull => shared.static_tree.figures().refused(TreeRefusal::Full),
        Metric::StaticTreeBusy => shared.static_tree.figures().refused(TreeRefusal::Busy),
        counted => shared.counters.value(counted),
    }
}

/// Number of lines of the access log that were not written.
fn lines_lost(shared: &Shared) -> u64 {
    let dropped = shared.counters.value(Metric::AccessLogDropped);
    dropped + shared.log.as_ref().map_or(0, AccessLog::lost)
}

fn read_gauges(shared: &Shared, value: impl Fn(Gauges) -> usize) -> Vec<MetricValue> {
    read_origins(shared, |origin| value(origin.gauges()) as u64)
}

fn read_origins(shared: &Shared, value: impl Fn(&Origin) -> u64) -> Vec<MetricValue> {
    let read = |site: &Site, origin: &Origin| MetricValue {
        site: Some(site.label().to_owned()),
        origin: site.origin.is_plural().then(|| origin.url().to_string()),
        value: value(origin),
    };
    let sites = shared.sites.of_each_origin();
    sites.flat_map(|site| site.origin.origins().map(|origin| read(site, origin))).collect()
}

fn read_warming(shared: &Shared, value: impl Fn(WarmTotals) -> u64) -> Vec<MetricValue> {
    let read = |site: &str| MetricValue {
        site: Some(site.to_owned()),
        origin: None,
        value: value(shared.warmer.totals(site)),
    };
    warming::sites(shared).into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::render;
    use crate::control::counters::{METRICS, Metric};
    use crate::shared::Shared;
    use crate::system::System;
    use config::EdgePlan;
    use semantics::Reason;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn every_row_and_reason_is_rendered() {
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        plan.sites[0].names = vec!["a.test".to_owned()];
        let shared = Arc::new(Shared::new(plan, None, System::of_machine()));
        shared.cells(0).add(Metric::BytesSent, 7);
        shared.sites.iter().for_each(|site| {
            site.measures.note(0, Reason::HitFresh, Duration::from_millis(2), None);
        });
        shared.sites.measures().no_site().count(0, Reason::UnknownSite);
        let text = render(&shared);
        for row in METRICS {
            assert!(text.contains(&format!("\npetasos_{}", row.name)), "{} has no value", row.name);
            assert!(text.contains(&format!("# HELP petasos_{} {}", row.name, row.help)), "{}", row.name);
        }
        for reason in Reason::ALL {
            assert!(text.contains(&format!("reason=\"{reason}\"")), "{reason}");
        }
        for line in [
            "petasos_bytes_sent_total 7",
            "petasos_connections_open 0",
            "petasos_requests_total{site=\"a.test\",verdict=\"hit\",reason=\"hit-fresh\"} 1",
            "petasos_requests_total{site=\"-\",verdict=\"hit\",reason=\"hit-fresh\"} 0",
            "petasos_request_duration_seconds_count{site=\"a.test\",verdict=\"hit\"} 1",
            "petasos_origin_fetches_waiting{site=\"a.test\"} 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
    }
}
