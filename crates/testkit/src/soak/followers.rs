//! Clients of `GET /log`: one that keeps the last records for messages about problems, one with a
//! condition that connects again and again, and one that reads too slowly.
//!
//! Invariant: each line of the stream is a record that meets the condition, or says how many
//! records its client missed.

use super::{SoakState, lock};
use crate::Client;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Number of records that are kept.
const RECORDS_MAX: usize = 4_000;
/// Number of records about the same target, and of other ones, that a problem shows.
const SHOWN: usize = 6;
/// Time until the records of a request have arrived.
const DELAY: Duration = Duration::from_millis(300);
/// Records after which a client with a condition connects again.
const RECORDS_PER_CONNECTION: usize = 200;
/// How a client reads its stream.
#[derive(Clone, Copy)]
struct Pace {
    /// Approximate size of its receive buffer, in bytes.
    receive_bytes: usize,
    /// Its pause after each chunk.
    pause: Duration,
}

/// Reads at once. With a buffer of a few KiB, the kernel of the sender waits longer and longer for
/// room after a lost packet, so that even this reader would look as if it read nothing.
const PROMPT: Pace = Pace { receive_bytes: 256 << 10, pause: Duration::ZERO };
/// Reads more slowly than requests end.
const SLOW: Pace = Pace { receive_bytes: 4 << 10, pause: Duration::from_millis(400) };

/// Name under which records are counted that a client missed.
pub(super) const FOLLOWED: &str = "records followed";

/// The last records of requests.
#[derive(Default)]
pub(super) struct RecentRecords(VecDeque<String>);

impl RecentRecords {
    fn push(&mut self, record: &str) {
        if self.0.len() == RECORDS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(record.to_owned());
    }

    /// The records that may explain a problem: the last ones of its target, and the last ones of
    /// all.
    fn around(&self, problem: &str) -> Vec<&str> {
        let is_of_target = |record: &&String| {
            let record: Value = serde_json::from_str(record).unwrap_or_default();
            let target = record["target"].as_str().unwrap_or("");
            target.len() > 1 && problem.contains(target)
        };
        let own = self.0.iter().rev().filter(is_of_target).take(SHOWN);
        let last = self.0.iter().rev().take(SHOWN);
        let mut shown: Vec<&str> = own.chain(last).map(String::as_str).collect();
        shown.dedup();
        shown
    }
}

/// The records around a problem, one on each line.
pub(super) fn neighbourhood(stage: &SoakState<'_>, problem: &str) -> String {
    std::thread::sleep(DELAY);
    lock(&stage.records).around(problem).iter().map(|record| format!("\n    {record}")).collect()
}

/// Keeps the last records until the end.
pub(super) fn keep(stage: &SoakState<'_>) {
    while !stage.is_over() {
        follow(stage, "", usize::MAX, PROMPT, &|record, text| {
            if record.get("skipped").is_none() {
                lock(&stage.records).push(text);
            }
            Ok(())
        });
    }
}

/// Follows the requests that failed or were refused, in many streams.
pub(super) fn select(stage: &SoakState<'_>) {
    while !stage.is_over() {
        // status >= 400 or verdict = pass
        let condition = "?where=status%20%3E%3D%20400%20or%20verdict%20%3D%20pass";
        follow(stage, condition, RECORDS_PER_CONNECTION, PROMPT, &|record, _| {
            let is_selected = record["status"].as_u64() >= Some(400) || record["verdict"] == "pass";
            if is_selected || record.get("skipped").is_some() {
                Ok(())
            } else {
                Err(format!("{record} does not meet the condition"))
            }
        });
        stage.count("streams of the log");
    }
}

/// Reads more slowly than requests end.
pub(super) fn lag(stage: &SoakState<'_>) {
    while !stage.is_over() {
        follow(stage, "", RECORDS_PER_CONNECTION * 100, SLOW, &|_, _| Ok(()));
    }
}

/// Follows the log for this many records. `check` receives each line.
fn follow(
    stage: &SoakState<'_>,
    query: &str,
    records: usize,
    pace: Pace,
    check: &dyn Fn(&Value, &str) -> Result<(), String>,
) {
    let Some(mut client) = Client::try_connect_from([127, 0, 0, 1], stage.admin, pace.receive_bytes) else {
        return stage.complain("the admin address refused a connection");
    };
    let request = format!("GET /log{query} HTTP/1.1\r\nHost: {}\r\n\r\n", stage.admin);
    let head = client.try_send(request).and_then(|()| client.try_read_head());
    if head.as_ref().is_none_or(|head| head.status != 200) {
        return stage.complain(&format!("the log cannot be followed: {:?}", head.map(|head| head.head)));
    }
    let mut text = Vec::new();
    let mut count = 0;
    while count < records && !stage.is_over() {
        let Some(chunk) = client.try_read_chunk() else {
            return stage.complain(&format!("the stream of /log{query} ended after {count} records"));
        };
        text.extend_from_slice(&chunk);
        while let Some(end) = text.iter().position(|octet| *octet == b'\n') {
            let line = String::from_utf8_lossy(&text[..end]).into_owned();
            text.drain(..=end);
            if line.is_empty() {
                continue;
            }
            let Ok(record) = serde_json::from_str::<Value>(&line) else {
                return stage.complain(&format!("a line of the log is no JSON: {line}"));
            };
            if let Some(skipped) = record["skipped"].as_u64() {
                stage.skipped.fetch_add(skipped, Ordering::SeqCst);
            }
            if let Err(problem) = check(&record, &line) {
                return stage.complain(&problem);
            }
            stage.count(FOLLOWED);
            count += 1;
        }
        std::thread::sleep(pace.pause);
    }
}

#[cfg(test)]
mod tests {
    use super::{RECORDS_MAX, RecentRecords};

    #[test]
    fn problem_shows_the_records_of_its_target() {
        let mut records = RecentRecords::default();
        records.push(r#"{"target":"/plain/1","status":200}"#);
        for number in 0..100 {
            records.push(&format!(r#"{{"target":"/other/{number}"}}"#));
        }
        let shown = records.around("/plain/1 has a wrong body");
        assert_eq!(shown[0], r#"{"target":"/plain/1","status":200}"#);
        assert_eq!(shown[1], r#"{"target":"/other/99"}"#);
        (0..RECORDS_MAX).for_each(|_| records.push("{}"));
        assert_eq!(records.0.len(), RECORDS_MAX);
        assert_eq!(records.around("/plain/1").len(), 1);
    }
}
