//! A record of a request as text for people.
//!
//! Invariant: text from clients is printed without control characters, so that it changes no
//! terminal.

use api::log::{LoggedFetch, LoggedRequest};
use std::fmt::Write;

/// Where the time of day begins and ends in a time of RFC 3339, milliseconds included.
const TIME_OF_DAY: std::ops::Range<usize> = 11..23;

/// Column at which the second line of a request begins.
const INDENT: &str = "              ";

/// One line for a request, and a second one with its phases if it waited for anything.
pub(crate) fn described(request: &LoggedRequest) -> String {
    let time = request.at.get(TIME_OF_DAY).unwrap_or(&request.at);
    let mut text = format!(
        "{} {} {:<8} {:<20} {:>8} {:>8}  {}  {} {}\n",
        printable(time),
        request.status,
        printable(&request.verdict),
        printable(&request.reason),
        time_text(request.time),
        size_text(request.bytes),
        printable(&request.client),
        printable(&request.method),
        url_of(request),
    );
    if let Some(phases) = phases_of(request) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{INDENT}{phases}");
    }
    text
}

/// The note about requests that were left out.
pub(crate) fn skipped(count: u64) -> String {
    format!("-- {count} requests were left out, because this reader is too slow --\n")
}

/// Where the time of a request went; `None` if it only was answered.
fn phases_of(request: &LoggedRequest) -> Option<String> {
    let phases = request.phases;
    let waits = [("disk", phases.disk), ("wait", phases.wait), ("own request", phases.pass)];
    let mut parts: Vec<String> = waits
        .into_iter()
        .filter(|(_, time)| *time > 0)
        .map(|(name, time)| format!("{name} {}", time_text(time)))
        .collect();
    if parts.is_empty() && request.fetch.is_none() {
        return None;
    }
    parts.push(format!("send {}", time_text(phases.send)));
    if let Some(LoggedFetch { number, queue, connect, first_byte }) = request.fetch {
        let [queue, connect, first_byte] = [queue, connect, first_byte].map(time_text);
        parts.push(format!("fetch {number}: queue {queue}, connect {connect}, first byte {first_byte}"));
    }
    Some(parts.join(" | "))
}

/// Host and target.
pub(crate) fn url_of(request: &LoggedRequest) -> String {
    let host = request.host.as_deref().unwrap_or_default();
    printable(&format!("{host}{}", request.target))
}

/// A text without control characters, and without those that change the direction of writing.
pub(crate) fn printable(text: &str) -> String {
    let is_harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(is_harmful) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|c| if is_harmful(c) { c.escape_unicode().collect::<Vec<_>>() } else { vec![c] })
        .collect()
}

/// A time in microseconds with three significant digits.
pub(crate) fn time_text(micros: u64) -> String {
    let millis = micros as f64 / 1e3;
    match micros {
        0..1000 => format!("{micros} µs"),
        1000..10_000 => format!("{millis:.2} ms"),
        10_000..100_000 => format!("{millis:.1} ms"),
        100_000..1_000_000 => format!("{millis:.0} ms"),
        _ => format!("{:.2} s", millis / 1e3),
    }
}

/// A size in bytes with about three significant digits.
pub(crate) fn size_text(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 1000.0 {
            let digits = if unit == "B" || value >= 99.95 { 0 } else { 1 };
            return format!("{value:.digits$} {unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

#[cfg(test)]
mod tests {
    use super::{described, printable, size_text, skipped, time_text};
    use api::log::{LoggedFetch, LoggedPhases, LoggedRequest};

    fn hit() -> LoggedRequest {
        LoggedRequest {
            at: "2026-01-02T03:04:05.678901Z".to_owned(),
            client: "192.0.2.7".to_owned(),
            method: "GET".to_owned(),
            host: Some("a.test".to_owned()),
            target: "/shop?x=1".to_owned(),
            status: 200,
            bytes: 12_972,
            verdict: "hit".to_owned(),
            reason: "hit-fresh".to_owned(),
            time: 42,
            phases: LoggedPhases { send: 42, ..LoggedPhases::default() },
            ..LoggedRequest::default()
        }
    }

    #[test]
    fn hit_is_one_line_and_miss_has_its_phases() {
        assert_eq!(
            described(&hit()),
            "03:04:05.678 200 hit      hit-fresh               42 µs  13.0 kB  192.0.2.7  GET a.test/shop?x=1\n"
        );
        let miss = LoggedRequest {
            time: 105_000,
            phases: LoggedPhases { wait: 104_000, send: 1000, ..LoggedPhases::default() },
            fetch: Some(LoggedFetch { number: 17, queue: 1000, connect: 200, first_byte: 102_800 }),
            ..hit()
        };
        let text = described(&miss);
        let second = "              wait 104 ms | send 1.00 ms | fetch 17: queue 1.00 ms, connect 200 µs, first byte 103 ms";
        assert_eq!(text.lines().nth(1), Some(second), "{text}");
        assert_eq!(skipped(5), "-- 5 requests were left out, because this reader is too slow --\n");
    }

    #[test]
    fn control_characters_of_clients_are_shown_as_escapes() {
        let hostile = LoggedRequest { target: "/\u{1b}[31m\u{202e}\n".to_owned(), ..hit() };
        let text = described(&hostile);
        assert!(text.ends_with("a.test/\\u{1b}[31m\\u{202e}\\u{a}\n"), "{text}");
        assert_eq!(printable("Grüße"), "Grüße");
    }

    #[test]
    fn quantities_have_about_three_digits() {
        let times = [0, 999, 1000, 99_940, 100_000, 999_499, 61_000_000].map(time_text);
        assert_eq!(times, ["0 µs", "999 µs", "1.00 ms", "99.9 ms", "100 ms", "999 ms", "61.00 s"]);
        let sizes = [0, 999, 1000, 12_972, 130_000, 5_000_000_000].map(size_text);
        assert_eq!(sizes, ["0 B", "999 B", "1.0 kB", "13.0 kB", "130 kB", "5.0 GB"]);
    }
}
