//! Imports JMeter's results as XML: `<testResults>` with `<httpSample>` and `<sample>` elements.
//! Their attributes have short names: t elapsed, lt latency, ct connect, ts start, s success, rc
//! code, rm message, by bytes, sby sent bytes, na all threads.
//!
//! Embedded resources and the samples of transactions are nested in their parent, whose time
//! includes theirs. Only the outer samples are counted, as in the CSV.

use super::jtl::{JtlSample, Sum};
use super::{ImportError, ImportedRun};
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use std::io::BufRead;

/// Deepest accepted nesting of elements.
const DEPTH_MAX: usize = 64;

/// Reads samples until the document ends.
pub(super) fn import(file: impl BufRead) -> Result<ImportedRun, ImportError> {
    let mut reader = Reader::from_reader(file);
    let mut buffer = Vec::new();
    let mut depth = 0_usize;
    let mut sum = Sum::default();
    // The current sample, and whether its URL is being read.
    let (mut sample, mut is_url): (Option<JtlSample>, bool) = (None, false);
    let mut has_results = false;
    loop {
        buffer.clear();
        let at = |reader: &Reader<_>, reason: String| {
            ImportError::Missing(format!("byte {}: {reason}", reader.buffer_position()))
        };
        let event = reader.read_event_into(&mut buffer).map_err(|error| at(&reader, error.to_string()))?;
        match event {
            Event::Start(start) => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err(at(&reader, format!("elements are nested deeper than {DEPTH_MAX}")));
                }
                match (depth, start.name().as_ref()) {
                    (1, "testResults") => has_results = true,
                    (1, _) => return Err(ImportError::Unknown),
                    (2, "httpSample" | "sample") => {
                        sample = Some(read_sample(&start).map_err(|reason| at(&reader, reason))?);
                    }
                    (3, "java.net.URL") => is_url = true,
                    _ => {}
                }
            }
            Event::Empty(start) if depth == 1 && matches!(start.name().as_ref(), "httpSample" | "sample") => {
                let added = read_sample(&start).and_then(|sample| sum.add(&sample));
                added.map_err(|reason| at(&reader, reason))?;
            }
            Event::Text(text) if is_url => {
                if let Some(sample) = &mut sample {
                    sample.url = Some(sample.url.take().unwrap_or_default() + text.trim());
                }
            }
            Event::GeneralRef(reference) if is_url && *reference == *"amp" => {
                if let Some(url) = sample.as_mut().and_then(|sample| sample.url.as_mut()) {
                    url.push('&');
                }
            }
            Event::End(_) => {
                depth = depth.saturating_sub(1);
                is_url = false;
                if depth == 1 {
                    let added = sample.take().iter().try_for_each(|sample| sum.add(sample));
                    added.map_err(|reason| at(&reader, reason))?;
                }
            }
            Event::Eof if has_results => return sum.imported(),
            Event::Eof => return Err(ImportError::Unknown),
            _ => {}
        }
    }
}

/// Reads the attributes of a sample.
fn read_sample(start: &BytesStart<'_>) -> Result<JtlSample, String> {
    let mut sample = JtlSample::default();
    let mut has_start = false;
    let mut has_time = false;
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let value = attribute.normalized_value(XmlVersion::Explicit1_0).map_err(|error| error.to_string())?;
        let number = || {
            let name = attribute.key.as_ref().to_owned();
            value.parse::<u64>().map_err(|_| format!("{name}: {value:?} is not a whole number"))
        };
        match attribute.key.as_ref() {
            "ts" => (sample.start_ms, has_start) = (number()?, true),
            "t" => (sample.elapsed_ms, has_time) = (number()?, true),
            "lt" => sample.latency_ms = Some(number()?),
            "ct" => sample.connect_ms = Some(number()?),
            "s" => sample.is_success = value == "true",
            "rc" => sample.code = value.into_owned(),
            "rm" => sample.message = value.into_owned(),
            "by" => sample.received_bytes = Some(number()?),
            "sby" => sample.sent_bytes = Some(number()?),
            "na" => sample.threads = Some(number()?),
            _ => {}
        }
    }
    if has_start && has_time { Ok(sample) } else { Err("a sample without ts and t".to_owned()) }
}
