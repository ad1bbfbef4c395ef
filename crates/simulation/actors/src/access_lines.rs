//! The record of the access log: the requests that must have lines, and the content of the lines.
//!
//! Invariants: each request that was answered has exactly one line, or is among those that the edge
//! counts as lost. A line agrees with the response that its visitor got. Each line is whole, unless
//! the disk was ill or its bytes have changed.

use crate::event::Asked;
use crate::exchange::Reply;
use crate::ledger::Ledger;
use crate::moment::Moment;
use crate::rules::Rule;
use std::collections::BTreeMap;

/// The URL in `Referer` by which the line of a request is known, before its number.
const REFERER: &str = "https://log.test/";

/// The least status whose requests are never left out of a sample.
const ERROR_MIN: u16 = 500;

/// The status of a request whose head never ended, which is none yet, or whose content did not.
const REQUEST_TIMEOUT: u16 = 408;

/// The settings of the log that its lines must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogForm {
    /// Whether a line is an object of JSON. Otherwise it has the combined format.
    pub is_json: bool,
    /// Whether there are lines of a part of the requests only.
    pub is_sampled: bool,
    /// The least status that has a line.
    pub status_min: u16,
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    status: u16,
    /// `None` for a response whose visitor decodes it.
    bytes: Option<u64>,
    reason: String,
    /// The number of the request, if it is one of a visitor.
    number: Option<u64>,
}

/// A request that a visitor numbers.
#[derive(Debug, Default)]
struct Numbered {
    /// The response, if the request was answered.
    answer: Option<Line>,
    /// How often it was sent again.
    repeats: u64,
}

/// The requests of a life whose edge has an access log.
#[derive(Debug)]
pub(crate) struct LogRecord {
    form: LogForm,
    requests: Vec<Numbered>,
    /// Lines that the processes that ended call lost.
    lost: u64,
    /// Whether bytes of the files can have changed.
    pub(crate) is_damaged: bool,
    /// Whether the receiver of the lines was in trouble.
    is_troubled: bool,
}

/// The state of the log when the last process has ended.
#[derive(Clone, Copy, Debug)]
pub struct LogEnd {
    /// Whether writing can have failed.
    pub was_ill: bool,
    /// Whether the queue of lines can have been full.
    pub is_short: bool,
}

impl LogRecord {
    fn new(form: LogForm) -> Self {
        Self { form, requests: Vec::new(), lost: 0, is_damaged: false, is_troubled: false }
    }

    /// The first fault of the lines in the files.
    fn fault(&self, files: &[Vec<u8>], end: LogEnd) -> Option<String> {
        let mut found: BTreeMap<u64, Vec<Line>> = BTreeMap::new();
        let text: Vec<_> = files.iter().map(|file| String::from_utf8_lossy(file)).collect();
        for text in text.iter().flat_map(|text| text.lines()) {
            match self.form.line(text) {
                Some(line) if line.status < self.form.status_min => {
                    return Some(format!("a line that the filter excludes: {text}"));
                }
                Some(line) => found.entry(line.number.unwrap_or(u64::MAX)).or_default().push(line),
                None if end.was_ill || self.is_damaged => {}
                None => return Some(format!("a line that cannot be read: {text:?}")),
            }
        }
        let mut missing = Vec::new();
        for (number, request) in (0..).zip(&self.requests) {
            let lines = found.get(&number).map_or(&[][..], Vec::as_slice);
            if lines.len() as u64 > 1 + request.repeats {
                return Some(format!("request {number} has {} lines", lines.len()));
            }
            let Some(answer) = &request.answer else { continue };
            match lines.last() {
                Some(_) if self.is_damaged || lines.iter().any(|line| line.says(answer)) => {}
                Some(line) => return Some(format!("{line:?} in place of {answer:?}")),
                None if self.form.has_line(answer.status) => missing.push(number),
                None => {}
            }
        }
        if missing.len() as u64 > self.lost && !self.is_damaged {
            return Some(format!("the lines of {missing:?} are missing, and {} counted as lost", self.lost));
        }
        let is_explained = end.was_ill || end.is_short || self.is_troubled;
        (self.lost > 0 && !is_explained).then(|| format!("{} lines are lost without a fault", self.lost))
    }
}

impl LogForm {
    /// Whether a response with this status must have a line.
    const fn has_line(self, status: u16) -> bool {
        let is_chosen = status >= self.status_min && (!self.is_sampled || status >= ERROR_MIN);
        is_chosen && status != REQUEST_TIMEOUT
    }

    fn line(self, text: &str) -> Option<Line> {
        if self.is_json { of_json(text) } else { of_combined(text) }
    }
}

impl Line {
    /// Whether it agrees with the response that a visitor got.
    fn says(&self, answer: &Self) -> bool {
        let has_bytes = answer.bytes.is_none() || self.bytes == answer.bytes;
        (self.status, &self.reason) == (answer.status, &answer.reason) && has_bytes
    }
}

/// Reads an object of JSON.
fn of_json(text: &str) -> Option<Line> {
    let line: serde_json::Value = serde_json::from_str(text).ok()?;
    let number = |name: &str| line.get(name)?.as_u64();
    let text = |name: &str| line.get(name)?.as_str();
    let has_times = number("time").is_some() && line.get("phases")?.get("send").is_some();
    has_times.then_some(Line {
        status: u16::try_from(number("status")?).ok()?,
        bytes: Some(number("bytes")?),
        reason: text("reason")?.to_owned(),
        number: text("referer").and_then(number_of),
    })
}

/// Reads a line in the combined format, followed by the fields of the edge.
fn of_combined(text: &str) -> Option<Line> {
    // Quotes within the parts are escaped.
    let parts: Vec<_> = text.split('"').collect();
    let [peer, _, numbers, referer, " ", _, own] = parts.as_slice() else { return None };
    let (status, bytes) = numbers.trim().split_once(' ')?;
    let [_, _, reason, micros] = own.trim().split(' ').collect::<Vec<_>>().try_into().ok()?;
    let is_whole = peer.contains(" - - [") && peer.ends_with("] ") && micros.parse::<u64>().is_ok();
    is_whole.then_some(Line {
        status: status.parse().ok()?,
        bytes: Some(bytes.parse().ok()?),
        reason: reason.to_owned(),
        number: number_of(referer),
    })
}

fn number_of(referer: &str) -> Option<u64> {
    referer.strip_prefix(REFERER)?.parse().ok()
}

impl Ledger {
    /// Begins to record requests in a life whose edge has an access log.
    pub fn watch_log(&mut self, form: LogForm) {
        self.log_lines = Some(LogRecord::new(form));
    }

    /// The number of the next request in the access log, with the line of its head.
    pub(crate) fn log_number(&mut self) -> Option<(u64, String)> {
        let record = self.log_lines.as_mut()?;
        record.requests.push(Numbered::default());
        let number = record.requests.len() as u64 - 1;
        Some((number, format!("Referer: {REFERER}{number}\r\n")))
    }

    /// A visitor sends a request again, because it got nothing.
    pub(crate) fn is_repeated(&mut self, number: Option<u64>) {
        if let Some(request) = self.numbered(number) {
            request.repeats += 1;
        }
    }

    /// Records the response that a visitor got, with which its line must agree.
    pub(crate) fn log_answer(&mut self, asked: &Asked, reply: &Reply) {
        let Some(request) = self.numbered(asked.ask.log_number) else { return };
        let status = reply.status.filter(|_| reply.is_complete() && !reply.reason().is_empty());
        let bytes = reply.field("Content-Encoding").is_none().then_some(reply.body.len() as u64);
        request.answer = status.map(|status| Line {
            status,
            bytes,
            reason: reply.reason().to_owned(),
            number: asked.ask.log_number,
        });
    }

    fn numbered(&mut self, number: Option<u64>) -> Option<&mut Numbered> {
        self.log_lines.as_mut()?.requests.get_mut(usize::try_from(number?).ok()?)
    }

    /// The receiver of the lines is in trouble, so that some of them may be lost.
    pub fn log_is_troubled(&mut self) {
        if let Some(record) = &mut self.log_lines {
            record.is_troubled = true;
        }
    }

    /// Records how many lines a process that has ended calls lost.
    pub fn lines_lost(&mut self, at: Moment, lost: u64) {
        if let Some(record) = &mut self.log_lines {
            record.lost += lost;
            self.note(at, || format!("a process has lost {lost} lines of its log"));
        }
    }

    /// Judges the files of the access log when the last process has ended.
    pub fn log_ends(&mut self, at: Moment, files: &[Vec<u8>], end: LogEnd) {
        if self.is_dead() {
            return;
        }
        let fault = self.log_lines.as_ref().and_then(|record| record.fault(files, end));
        if let Some(fault) = fault {
            self.violate(Rule::Logging, at, format!("the access log has {fault}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LogEnd, LogForm, LogRecord, Numbered};

    const WELL: LogEnd = LogEnd { was_ill: false, is_short: false };

    const COMBINED: LogForm = LogForm { is_json: false, is_sampled: false, status_min: 0 };

    fn line(number: u64, status: u16) -> String {
        format!(
            "192.0.2.1 - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" {status} 5 \"https://log.test/{number}\" \
             \"-\" a.test hit hit-fresh 42\n"
        )
    }

    /// A log of two requests, whose responses had the status 200 and 404.
    fn record(form: LogForm) -> LogRecord {
        let answered = |number| {
            let status = if number == 0 { 200 } else { 404 };
            Numbered { answer: COMBINED.line(line(number, status).trim_end()), repeats: 0 }
        };
        LogRecord {
            form,
            requests: (0..2).map(answered).collect(),
            lost: 0,
            is_damaged: false,
            is_troubled: false,
        }
    }

    #[test]
    fn each_request_has_one_line_that_says_what_its_visitor_got() {
        let fault = |text: String, end| record(COMBINED).fault(&[text.into_bytes()], end).unwrap_or_default();
        let both = line(0, 200) + &line(1, 404);
        assert_eq!(fault(both.clone(), WELL), "");
        assert!(fault(line(0, 200), WELL).contains("are missing"));
        assert!(fault(both.clone() + &line(0, 200), WELL).contains("has 2 lines"));
        assert!(fault(line(0, 304) + &line(1, 404), WELL).contains("in place of"));
        assert!(fault(both.clone() + "192.0.2.1 - - [06/N", WELL).contains("cannot be read"));
        assert_eq!(fault(both + "192.0.2.1 - - [06/N", LogEnd { was_ill: true, ..WELL }), "");
    }

    #[test]
    fn lost_lines_are_counted_and_have_a_cause() {
        let lost = LogRecord { lost: 1, ..record(COMBINED) };
        let files = [line(0, 200).into_bytes()];
        assert!(lost.fault(&files, WELL).unwrap().contains("without a fault"));
        assert_eq!(lost.fault(&files, LogEnd { is_short: true, ..WELL }), None);
    }

    #[test]
    fn filter_and_sample_leave_lines_out() {
        let filtered = record(LogForm { status_min: 400, ..COMBINED });
        assert_eq!(filtered.fault(&[line(1, 404).into_bytes()], WELL), None);
        assert!(filtered.fault(&[line(0, 200).into_bytes()], WELL).unwrap().contains("excludes"));
        assert_eq!(record(LogForm { is_sampled: true, ..COMBINED }).fault(&[], WELL), None);
    }

    #[test]
    fn line_of_json_is_read() {
        let form = LogForm { is_json: true, ..COMBINED };
        let text = "{\"status\":200,\"bytes\":7,\"reason\":\"hit-fresh\",\"referer\":\"https://log.test/3\",\
                    \"time\":9,\"phases\":{\"send\":9}}";
        let line = form.line(text).unwrap();
        assert_eq!((line.status, line.bytes, line.number), (200, Some(7), Some(3)));
        assert_eq!(form.line(&text[..20]), None);
    }
}
