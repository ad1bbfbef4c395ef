//! The counters as OpenMetrics text, for `GET /metrics` at the admin address.
//!
//! Invariant: every row of the counter table and every reason appears, also at zero, so that a dashboard can
//! be built before anything goes wrong.

use crate::counters::{COUNTERS, Counters, Kind};
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

/// A value that is measured when it is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// The metric's name without the `petasos_` in front.
    pub(crate) name: &'static str,
    /// What it means and what to do about it.
    pub(crate) help: &'static str,
    /// Whether it only grows.
    pub(crate) kind: Kind,
    /// A label and its value for each reading; no label for a single one.
    pub(crate) readings: Vec<(Option<(&'static str, String)>, u64)>,
}

/// The text of all counters and of the given samples.
pub(crate) fn render(counters: Arc<Counters>, samples: Vec<Sample>) -> String {
    let mut registry = Registry::with_prefix("petasos");
    registry.register_collector(Box::new(Table { counters, samples }));
    let mut text = String::with_capacity(32 * 1024);
    // Writing to a String cannot fail, and the table's names are legal: a test encodes them all.
    let _ = text::encode(&mut text, &registry);
    text
}

struct Table {
    counters: Arc<Counters>,
    samples: Vec<Sample>,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Table")
    }
}

impl Collector for Table {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_requests(&mut encoder)?;
        for row in COUNTERS {
            let readings = [(None, self.counters.value(row.counter))];
            encode_readings(&mut encoder, row.name, row.help, row.kind, &readings)?;
        }
        for sample in &self.samples {
            encode_readings(&mut encoder, sample.name, sample.help, sample.kind, &sample.readings)?;
        }
        Ok(())
    }
}

impl Table {
    fn encode_requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "requests",
            "Requests by verdict and reason. The table of reasons in the documentation says what to do about each.",
            None,
            MetricType::Counter,
        )?;
        for &reason in Reason::ALL {
            let labels = [("verdict", reason.verdict().name()), ("reason", reason.name())];
            ConstCounter::new(self.counters.requests(reason)).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn encode_readings(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    kind: Kind,
    readings: &[(Option<(&'static str, String)>, u64)],
) -> fmt::Result {
    let metric_type = match kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
    };
    let mut family = encoder.encode_descriptor(name, help, None, metric_type)?;
    for (label, value) in readings {
        match label {
            Some((name, text)) => {
                encode_value(family.encode_family(&[(*name, text.as_str())])?, kind, *value)?
            }
            // Without a label there is one reading, which ends the family.
            None => return encode_value(family, kind, *value),
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
    use super::{Sample, render};
    use crate::counters::{COUNTERS, Counter, Counters, Kind};
    use semantics::Reason;
    use std::sync::Arc;

    #[test]
    fn every_row_and_reason_is_rendered() {
        let counters = Arc::new(Counters::new(2));
        counters.worker(1).add(Counter::BytesSent, 7);
        counters.worker(0).count(Counter::ConnectionsOpen);
        counters.worker(0).count_reason(Reason::HitFresh);
        let sample = Sample {
            name: "origin_queue",
            help: "Requests that wait.",
            kind: Kind::Gauge,
            readings: vec![(Some(("site", "a\"b".to_owned())), 3)],
        };
        let text = render(counters, vec![sample]);
        for row in COUNTERS {
            assert!(text.contains(&format!("# HELP petasos_{} ", row.name)), "{}", row.name);
        }
        for reason in Reason::ALL {
            assert!(text.contains(&format!("reason=\"{reason}\"")), "{reason}");
        }
        for line in [
            "petasos_bytes_sent_total 7",
            "petasos_connections_open 1",
            "petasos_requests_total{verdict=\"hit\",reason=\"hit-fresh\"} 1",
            "petasos_origin_queue{site=\"a\\\"b\"} 3",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
    }
}
