//! Renders the metrics as OpenMetrics text, for `GET /metrics` at the admin address.
//!
//! Invariant: every row of the table and every reason is present, even at zero, so that a dashboard
//! can be built before anything goes wrong.

use crate::control::counters::{Kind, METRICS, Row};
use crate::shared::Shared;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use semantics::Reason;
use std::fmt;
use std::sync::Arc;

/// The media type of the text (OpenMetrics 1.0).
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// One value of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The site, for a metric with one value per site.
    pub(crate) site: Option<String>,
    pub(crate) value: u64,
}

/// The text of all metrics.
pub(crate) fn render(shared: &Arc<Shared>) -> String {
    let mut registry = Registry::with_prefix("petasos");
    registry.register_collector(Box::new(Table { shared: Arc::clone(shared) }));
    let mut text = String::with_capacity(32 * 1024);
    // Cannot fail: writing to a String succeeds, and a test encodes all names of the table.
    let _ = text::encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Table {
    shared: Arc<Shared>,
}

impl Collector for Table {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_requests(&mut encoder)?;
        METRICS.iter().try_for_each(|row| encode_row(&mut encoder, row, &self.shared.read(row.metric)))
    }
}

impl Table {
    fn encode_requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests by verdict and reason. docs/reasons.md says what to do about each.";
        let mut family = encoder.encode_descriptor("requests", help, None, MetricType::Counter)?;
        for &reason in Reason::ALL {
            let labels = [("verdict", reason.verdict().name()), ("reason", reason.name())];
            let value = self.shared.counters.requests(reason);
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn encode_row(encoder: &mut DescriptorEncoder<'_>, row: &Row, readings: &[Reading]) -> fmt::Result {
    let metric_type = match row.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
    };
    let mut family = encoder.encode_descriptor(row.name, row.help, None, metric_type)?;
    for reading in readings {
        match &reading.site {
            Some(site) => {
                encode_value(family.encode_family(&[("site", site.as_str())])?, row.kind, reading.value)?;
            }
            // Without a label there is exactly one reading.
            None => return encode_value(family, row.kind, reading.value),
        }
    }
    Ok(())
}

fn encode_value(encoder: MetricEncoder<'_>, kind: Kind, value: u64) -> fmt::Result {
    match kind {
        Kind::Counter => ConstCounter::new(value).encode(encoder),
        Kind::Gauge => ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(encoder),
    }
}

#[cfg(test)]
mod tests {
    use super::render;
    use crate::control::counters::{METRICS, Metric};
    use crate::shared::Shared;
    use config::Plan;
    use platform::SystemClock;
    use semantics::Reason;
    use std::sync::Arc;

    #[test]
    fn every_row_and_reason_is_rendered() {
        let mut plan = Plan::for_origin("http://127.0.0.1:9".parse().unwrap());
        plan.sites[0].names = vec!["a.test".to_owned()];
        let shared = Arc::new(Shared::new(plan, None, Arc::new(SystemClock::new())));
        shared.cells(0).add(Metric::BytesSent, 7);
        shared.cells(0).count_reason(Reason::HitFresh);
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
            "petasos_requests_total{verdict=\"hit\",reason=\"hit-fresh\"} 1",
            "petasos_origin_fetches_waiting{site=\"a.test\"} 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
    }
}
