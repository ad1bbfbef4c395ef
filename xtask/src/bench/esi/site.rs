//! The application of the benchmark: templates with five fragments, in the markup of the server
//! that asks, and pages that need no assembly.
//!
//! Invariant: a page has the same bytes behind every server, and as a page in one piece.

use std::time::Duration;
use testkit::{Action, Origin, Seen, response};

/// Time that the application takes for the slow fragment.
pub(super) const SLOW: Duration = Duration::from_millis(100);

/// Lifetimes of the fragments in seconds, longer than a run: the load generator counts responses of
/// another length as failed, and a new fragment has no coded form at first.
const LIFETIMES: [u32; 5] = [3600, 7200, 14_400, 36_000, 86_400];

/// Length of each of the six texts between fragments, and of a fragment, in bytes.
const TEXT_BYTES: usize = 4096;
const FRAGMENT_BYTES: usize = 1024;

/// The number of the uncacheable fragment, on the page that has one.
const SLOW_FRAGMENT: usize = 2;

const HTML: &str = "Content-Type: text/html; charset=UTF-8";

/// Starts the application. Its targets begin with `/plain` or `/gzip`, which peers store in
/// different ways. Then follow `/page`, a template; `/slow-page`, a template with one fragment that
/// is slow and never stored; `/whole`, the page of both in one piece.
pub(super) fn start() -> Origin {
    Origin::start(|seen| {
        let target = seen.target();
        let folder = if target.starts_with("/gzip/") { "/gzip" } else { "/plain" };
        let name = target.strip_prefix(folder).unwrap_or_default();
        let day = "Cache-Control: max-age=86400";
        match name.strip_prefix("/fragment/").and_then(|number| number.parse().ok()) {
            Some(number) => fragment(number),
            None if name == "/slow" => slow(),
            None if name == "/whole" => response("200 OK", &[HTML, day], &whole()),
            None => {
                let slow = (name == "/slow-page").then_some(SLOW_FRAGMENT);
                let declared = "Surrogate-Control: content=\"ESI/1.0\"";
                response("200 OK", &[HTML, day, declared], &template(seen, folder, slow))
            }
        }
    })
}

/// The page that every server must deliver.
pub(super) fn whole() -> Vec<u8> {
    (0..=LIFETIMES.len())
        .flat_map(|number| {
            let fragment =
                if number < LIFETIMES.len() { words(100 + number, FRAGMENT_BYTES) } else { vec![] };
            [words(number, TEXT_BYTES), fragment].concat()
        })
        .collect()
}

fn fragment(number: usize) -> Vec<Action> {
    let lifetime = LIFETIMES.get(number).copied().unwrap_or_default();
    let fields = [HTML, &format!("Cache-Control: max-age={lifetime}")];
    response("200 OK", &fields, &words(100 + number, FRAGMENT_BYTES))
}

fn slow() -> Vec<Action> {
    let fields = [HTML, "Cache-Control: no-store"];
    let answer = response("200 OK", &fields, &words(100 + SLOW_FRAGMENT, FRAGMENT_BYTES));
    [Action::Pause(SLOW)].into_iter().chain(answer).collect()
}

fn template(seen: &Seen, folder: &str, slow: Option<usize>) -> Vec<u8> {
    let mut text = Vec::new();
    for number in 0..=LIFETIMES.len() {
        text.extend(words(number, TEXT_BYTES));
        if number == LIFETIMES.len() {
            break;
        }
        let url = match slow == Some(number) {
            true => format!("{folder}/slow"),
            false => format!("{folder}/fragment/{number}"),
        };
        let include = match seen.field("X-Markup") {
            Some("ssi") => format!("<!--# include virtual=\"{url}\" -->"),
            _ => format!("<esi:include src=\"{url}\"/>"),
        };
        text.extend(include.into_bytes());
    }
    text
}

/// Markup of this length, with words that repeat as in a page.
fn words(seed: usize, bytes: usize) -> Vec<u8> {
    const WORDS: [&str; 10] = [
        "<p class=\"entry\">",
        "the page",
        "of a site",
        "</p>\n",
        "<a href=\"/news/\">",
        "</a>",
        "answers",
        "a visitor",
        "and",
        "request",
    ];
    const END: &[u8] = b"</div>";
    let mut random = stats::Random::from_seed(seed as u64);
    let mut text = Vec::from(&b"<div>"[..]);
    loop {
        let word = WORDS.get(random.below(WORDS.len())).copied().unwrap_or_default();
        let piece = format!("{word} {} ", random.below(1000));
        if text.len() + piece.len() + END.len() > bytes {
            text.resize(bytes - END.len(), b' ');
            text.extend_from_slice(END);
            return text;
        }
        text.extend_from_slice(piece.as_bytes());
    }
}
