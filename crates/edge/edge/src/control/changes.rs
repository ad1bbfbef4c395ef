//! The audit log: each purge and reload at the admin address, as a line on standard error and in
//! the dashboard.
//!
//! Invariant: text from clients is printable and bounded before it is kept or written.

use crate::shared::Shared;
use crate::upkeep::reload::reload;
use dashboard::Change;
use purge::{OrderItem, PurgeOrder, PurgeOutcome, PurgeScope, Reach};
use std::sync::Arc;

/// Maximum number of characters of a text.
const TEXT_MAX: usize = 300;

/// Maximum number of invalidations of an order that are named.
const NAMED_MAX: usize = 3;

/// Records a change, and returns its number.
pub(crate) fn record(shared: &Shared, who: &str, what: &str, result: &str, is_done: bool) -> u64 {
    let [who, what, result] = [who, what, result].map(bounded);
    if is_done {
        tracing::info!("{who}: {what}: {result}");
    } else {
        tracing::warn!("{who}: {what}: {result}");
    }
    let at_secs = shared.clock.now().as_secs();
    shared.dashboard.changes.add(Change { number: 0, at_secs, who, what, result, is_done })
}

/// Puts a changed configuration in force. Returns the result in words, and whether it is in force.
pub(crate) async fn reload_for(shared: &Arc<Shared>, who: &str) -> (u64, Result<String, String>) {
    let own = Arc::clone(shared);
    let outcome = match threads::run_aside(move || reload(&own)).await {
        Some(outcome) => outcome.map(|summary| summary.to_string()),
        None => Err("The reload ended unexpectedly; the log says why.".to_owned()),
    };
    let result = outcome.as_ref().unwrap_or_else(|why| why);
    (record(shared, who, "reload", result, outcome.is_ok()), outcome)
}

/// The outcome of a purge in a sentence.
pub(crate) fn outcome_text(outcome: PurgeOutcome) -> String {
    let counted = |count: u64, done: &str| match count {
        1 => format!("1 stored response was {done}."),
        count => format!("{count} stored responses were {done}."),
    };
    let mut text = match (outcome.purged, outcome.softened) {
        (0, 0) if outcome.uncounted > 0 => String::new(),
        (0, 0) => "Nothing was stored.".to_owned(),
        (purged, 0) => counted(purged, "removed"),
        (0, softened) => counted(softened, "marked stale"),
        (purged, softened) => format!("{} {}", counted(purged, "removed"), counted(softened, "marked stale")),
    };
    if outcome.uncounted > 0 {
        text.push_str(
            " Petasos serves no purged response; those that are not counted go when they are found.",
        );
    }
    if outcome.undurable {
        text.push_str(" A restart would undo this, because no place for it can be written.");
    }
    if outcome.in_tree {
        text.push_str(" A file of the static tree could not be removed.");
    }
    text.trim_start().to_owned()
}

/// What an order purges, in words.
pub(crate) fn order_text(order: &PurgeOrder) -> String {
    let named: Vec<_> = order.invalidations.iter().take(NAMED_MAX).map(item_text).collect();
    let more = order.invalidations.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("purge ({}): {}{more}", order.dialect, named.join(", "))
}

fn item_text(item: &OrderItem) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let at = |reach: &Reach| match reach {
        Reach::Site(host) if !host.is_empty() => format!(" at {}", text(host)),
        Reach::Site(_) | Reach::Everywhere => String::new(),
    };
    let all = |tags: &[bytes::Bytes]| tags.iter().map(|tag| text(tag)).collect::<Vec<_>>().join(" ");
    let scope = match &item.scope {
        PurgeScope::Target { host, target } => format!("{}{}", text(host), text(target)),
        PurgeScope::Prefix { host, prefix } => format!("{}{}*", text(host), text(prefix)),
        PurgeScope::Pattern { host, .. } => format!("a pattern of {}", text(host)),
        PurgeScope::Host { host } => format!("all of {}", text(host)),
        PurgeScope::Tags { reach, any_of, all_of } => {
            format!("tags {}{}", all(&[any_of.as_slice(), all_of].concat()), at(reach))
        }
        PurgeScope::Ban { reach, .. } => format!("a ban{}", at(reach)),
        PurgeScope::Everything { reach } => format!("everything{}", at(reach)),
    };
    match item.mode {
        invalidation::Mode::Hard => scope,
        invalidation::Mode::Soft => format!("{scope} (soft)"),
    }
}

/// The text without control characters and not longer than allowed.
fn bounded(text: &str) -> String {
    // Also the characters that change the direction of the text after them.
    let is_hostile = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut bounded: String = text
        .chars()
        .take(TEXT_MAX)
        .map(|letter| if is_hostile(letter) { '\u{fffd}' } else { letter })
        .collect();
    if text.chars().nth(TEXT_MAX).is_some() {
        bounded.push('…');
    }
    bounded
}

#[cfg(test)]
mod tests {
    use super::{TEXT_MAX, bounded, order_text, outcome_text};
    use message::{Fields, Method};
    use purge::PurgeOutcome;
    use purge::api::{ApiRoute, read};

    #[test]
    fn text_is_printable_and_bounded() {
        assert_eq!(bounded("a\r\nb\u{202e}c"), "a\u{fffd}\u{fffd}b\u{fffd}c");
        assert_eq!(bounded(&"é".repeat(TEXT_MAX + 1)).chars().count(), TEXT_MAX + 1);
        assert_eq!(bounded(&"é".repeat(TEXT_MAX)), "é".repeat(TEXT_MAX));
    }

    #[test]
    fn order_and_outcome_are_told_in_words() {
        let told = |content: &str| {
            order_text(&read(&ApiRoute::Native, &Method::Post, &Fields::new(), content.as_bytes()).unwrap())
        };
        assert_eq!(
            told(r#"{"type":"tag","selectors":["a","b"],"purge":false}"#),
            "purge (api): tags a b (soft)"
        );
        assert_eq!(
            told(r#"{"type":"uri","selectors":["http://a.test/x"],"purge":true}"#),
            "purge (api): a.test/x"
        );
        let urls = r#"["http://a/1","http://a/2","http://a/3","http://a/4"]"#;
        let told = told(&format!(r#"{{"type":"uri","selectors":{urls},"purge":true}}"#));
        assert_eq!(told, "purge (api): a/1, a/2, a/3 and 1 more");
        let outcome = |purged, softened, uncounted| {
            outcome_text(PurgeOutcome { purged, softened, uncounted, ..PurgeOutcome::default() })
        };
        assert_eq!(outcome(0, 0, 0), "Nothing was stored.");
        assert_eq!(outcome(1, 2, 0), "1 stored response was removed. 2 stored responses were marked stale.");
        assert!(outcome(0, 0, 1).starts_with("Petasos serves no purged response"));
    }
}
