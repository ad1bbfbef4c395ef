//! Histograms as an HdrHistogram interval log, format V2, which HdrHistogram's own tools and
//! plotters read.
//!
//! Invariant: values in the log are the histogram's microseconds, within 0.1 percent. The column of
//! maximum values is in milliseconds, as is usual in this format.

use crate::histogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::io;
use std::time::{Duration, SystemTime};

/// Microseconds in one unit of the column of maximum values.
const MAX_VALUE_DIVISOR: f64 = 1_000.0;

/// A line of the log.
#[derive(Clone, Debug)]
pub struct LogLine<'a> {
    /// The name of the values. Spaces, commas and line ends in it are replaced by `_`.
    pub tag: String,
    /// The start of the interval, relative to the start of the log.
    pub start: Duration,
    /// The length of the interval.
    pub duration: Duration,
    /// The values.
    pub histogram: &'a Histogram,
}

/// Writes a log of `lines`. `started` is the start of the log since 1970-01-01 UTC. Histograms
/// without a value are skipped.
///
/// # Errors
/// If a histogram cannot be encoded.
pub fn hdr_log(comment: &str, started: Duration, lines: &[LogLine<'_>]) -> io::Result<Vec<u8>> {
    let mut log = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let start = SystemTime::UNIX_EPOCH + started;
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment(comment).with_start_time(start).with_base_time(start);
    builder.with_max_value_divisor(MAX_VALUE_DIVISOR);
    let mut writer = builder.begin_log_with(&mut log, &mut serializer)?;
    for line in lines.iter().filter(|line| !line.histogram.is_empty()) {
        let tag: String = line.tag.replace([' ', ',', '\r', '\n'], "_");
        writer
            .write_histogram(line.histogram.buckets(), line.start, line.duration, Tag::new(&tag))
            .map_err(|error| io::Error::other(format!("{error:?}")))?;
    }
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::{LogLine, hdr_log};
    use crate::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use std::time::Duration;

    /// The bytes of a text in base64 (RFC 4648 section 4).
    fn base64(text: &str) -> Vec<u8> {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').collect();
        let mut octets = Vec::new();
        for group in digits.chunks(4) {
            let digit = |byte: &u8| alphabet.iter().position(|letter| letter == byte).unwrap() as u32;
            let bits = group.iter().fold(0, |bits, byte| bits << 6 | digit(byte)) << (6 * (4 - group.len()));
            octets.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
        }
        octets
    }

    #[test]
    fn log_is_read_back_by_an_independent_reader() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|value| histogram.record(value * 10));
        let empty = Histogram::new();
        let line = |tag: &str, histogram| LogLine {
            tag: tag.to_owned(),
            start: Duration::from_secs(2),
            duration: Duration::from_millis(500),
            histogram,
        };
        let log = hdr_log(
            "made by a test",
            Duration::from_secs(9),
            &[line("stage 1", &histogram), line("x", &empty)],
        );
        let log = log.unwrap();
        let text = String::from_utf8(log.clone()).unwrap();
        assert!(text.starts_with("#made by a test\n#[StartTime: 9.000 "), "{text}");
        assert!(text.contains("\nTag=stage_1,2.000,0.500,10.0"), "{text}");
        let mut entries = IntervalLogIterator::new(&log).filter_map(|entry| match entry.unwrap() {
            LogEntry::Interval(interval) => Some(interval),
            _ => None,
        });
        let entry = entries.next().unwrap();
        let octets = base64(entry.encoded_histogram());
        let read: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut octets.as_slice()).unwrap();
        assert_eq!((read.len(), read.value_at_quantile(0.5)), (1000, histogram.median_us()));
        assert!(entries.next().is_none());
    }
}
