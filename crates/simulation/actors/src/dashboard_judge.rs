//! Whether an answer of the dashboard has the form that docs/dashboard.md promises.
//!
//! Invariant: a page is whole and forbids what is not its own; values have equal columns; events
//! are complete, and as many as their time permits.

use crate::exchange::Reply;
use std::time::Duration;

/// The longest time until the whole answer, or until the first event of a stream.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Time between two events, and the number after which a stream ends.
pub(crate) const EVENT_EVERY: Duration = Duration::from_secs(2);
pub(crate) const EVENTS_MAX: usize = 150;

/// How much later than planned events may come: the disk has its time for the past.
const EVENTS_SLACK: Duration = Duration::from_secs(10);

/// Fields of every answer.
const SHIELD: [(&str, &str); 3] = [
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
];

/// Further fields of everything that a browser shows.
const PAGE_SHIELD: [(&str, &str); 3] = [
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
];

/// Parts of the policy of a page.
const POLICIES: [&str; 6] = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
];

/// The fault in the fields or the content of a whole answer. `media_type` is that of an
/// answer with status 200. An answer to HEAD has no content.
pub(crate) fn fault_of_form(reply: &Reply, media_type: &str, is_head: bool) -> Option<String> {
    let found = reply.field("Content-Type").unwrap_or_default();
    let found = found.split(';').next().unwrap_or_default();
    if reply.status == Some(200) && found != media_type {
        return Some(format!("it is {found} and not {media_type}"));
    }
    let lacks = |fields: &[(&str, &str)]| {
        let missing = fields.iter().find(|(name, value)| reply.field(name) != Some(value));
        missing.map(|(name, _)| format!("the field {name} is {:?}", reply.field(name)))
    };
    let is_page = reply.status == Some(303)
        || !matches!(found, "text/plain" | "application/json" | "text/markdown" | "text/event-stream");
    let policy = reply.field("Content-Security-Policy").unwrap_or_default();
    let fault = lacks(&SHIELD).or_else(|| lacks(&PAGE_SHIELD).filter(|_| is_page));
    if fault.is_some() {
        return fault;
    }
    if is_page && !POLICIES.iter().all(|part| policy.contains(part)) {
        return Some(format!("its policy is {policy:?}"));
    }
    if is_head {
        return (!reply.body.is_empty()).then(|| "an answer to HEAD has content".to_owned());
    }
    fault_of_content(reply, found)
}

fn fault_of_content(reply: &Reply, media_type: &str) -> Option<String> {
    let Ok(text) = std::str::from_utf8(&reply.body) else { return Some("it is no text".to_owned()) };
    if reply.status == Some(303) {
        let location = reply.field("Location").unwrap_or_default();
        return (!location.starts_with("/dashboard")).then(|| format!("it leads to {location:?}"));
    }
    let is_right = match media_type {
        "text/html" => is_whole_page(text),
        "text/csv" => has_equal_columns(text),
        "application/json" => serde_json::from_str::<serde_json::Value>(text).is_ok(),
        // The stream has rules of its own.
        "text/event-stream" => true,
        _ => !text.is_empty(),
    };
    (!is_right).then(|| format!("its content is no whole {media_type}: {text:.200}"))
}

/// Whether a text is a whole page, without a script inside.
fn is_whole_page(text: &str) -> bool {
    let count = |part: &str| text.matches(part).count();
    text.starts_with("<!DOCTYPE html>")
        && text.ends_with("</html>")
        && !text.contains("<script>")
        && ["section", "form", "table", "main"].iter().all(|name| {
            count(&format!("<{name}>")) + count(&format!("<{name} ")) == count(&format!("</{name}>"))
        })
}

/// Whether all lines of comma-separated values (RFC 4180) have as many columns, and there is one
/// beside the first.
fn has_equal_columns(text: &str) -> bool {
    let mut counts = vec![1];
    let mut is_quoted = false;
    for letter in text.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => counts.last_mut().into_iter().for_each(|count| *count += 1),
            '\n' if !is_quoted => counts.push(1),
            _ => {}
        }
    }
    // The last line ends as well.
    let is_ended = text.ends_with("\r\n") && counts.pop() == Some(1);
    is_ended && !is_quoted && counts.len() > 1 && counts.windows(2).all(|two| two.first() == two.last())
}

/// The fault in the events that arrived within `took`. `is_whole`: the stream has ended, so
/// that no event may be incomplete. Returns their number if all is well.
///
/// # Errors
/// The fault in words.
pub(crate) fn events_of(reply: &Reply, took: Duration, is_whole: bool) -> Result<usize, String> {
    let text = String::from_utf8_lossy(&reply.body);
    let mut parts: Vec<_> = text.split("\n\n").collect();
    let rest = parts.pop().unwrap_or_default();
    if is_whole && !rest.is_empty() {
        return Err(format!("the stream ends within an event: {rest:.100}"));
    }
    if let Some(wrong) = parts.iter().find(|event| !is_event(event)) {
        return Err(format!("this is no event: {wrong:.100}"));
    }
    let due = |took: Duration| (took.as_millis() / EVENT_EVERY.as_millis()) as usize;
    let (least, most) = (due(took.saturating_sub(EVENTS_SLACK + took / 10)), due(took) + 1);
    if parts.len() > most.min(EVENTS_MAX) || parts.len() < least.min(EVENTS_MAX) {
        return Err(format!("{} events in {} ms", parts.len(), took.as_millis()));
    }
    Ok(parts.len())
}

/// Whether this is a comment, or an event with JSON whose HTML is closed.
fn is_event(event: &str) -> bool {
    let data = event.strip_prefix("event: ").and_then(|rest| rest.split_once("\ndata: "));
    event == ":"
        || data.is_some_and(|(name, data)| {
            matches!(name, "sections" | "requests")
                && serde_json::from_str::<serde_json::Value>(data).is_ok_and(|data| data.is_object())
        })
}

/// The token of the forms in a page.
pub(crate) fn form_token(reply: &Reply) -> Option<String> {
    let text = std::str::from_utf8(&reply.body).ok()?;
    let (_, rest) = text.split_once("name=\"form_token\" value=\"")?;
    rest.split_once('"').map(|(token, _)| token.to_owned()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{events_of, fault_of_form, form_token, has_equal_columns, is_whole_page};
    use crate::exchange::{Ending, Reply};
    use std::time::Duration;

    fn reply(status: u16, media_type: &'static str, body: &'static str) -> Reply {
        let mut reply = Reply { ending: Ending::Complete, status: Some(status), ..Reply::default() };
        reply.body = body.into();
        for (name, value) in super::SHIELD.iter().chain(&super::PAGE_SHIELD) {
            reply.fields.push(*name, *value);
        }
        reply.fields.push("Content-Type", media_type);
        reply.fields.push("Content-Security-Policy", super::POLICIES.join("; "));
        reply
    }

    #[test]
    fn page_is_whole_and_has_its_policy() {
        let text = "<!DOCTYPE html><html><main><form a></form></main></html>";
        assert!(is_whole_page(text));
        assert_eq!(fault_of_form(&reply(200, "text/html; charset=utf-8", text), "text/html", false), None);
        let cut = reply(200, "text/html", "<!DOCTYPE html><html><main></main>");
        assert!(fault_of_form(&cut, "text/html", false).is_some());
        assert!(fault_of_form(&reply(200, "text/html", text), "text/css", false).is_some());
        assert!(!is_whole_page("<!DOCTYPE html><html><main><form a></main></html>"), "a form is open");
        assert!(!is_whole_page("<!DOCTYPE html><html><script>x</script></html>"));
        let mut bare = reply(200, "text/html", text);
        bare.fields = message::Fields::new();
        bare.fields.push("Content-Type", "text/html");
        assert!(fault_of_form(&bare, "text/html", false).is_some());
    }

    #[test]
    fn columns_are_counted_outside_of_quotes() {
        assert!(has_equal_columns("a,b\r\n\"x,\"\"y\",2\r\n"));
        assert!(!has_equal_columns("a,b\r\n1\r\n"));
        assert!(!has_equal_columns("a,b\r\n1,2"), "cut");
        assert!(!has_equal_columns("a,b\r\n"), "no values");
    }

    #[test]
    fn events_are_whole_and_in_time() {
        let stream = "event: sections\ndata: {\"a\":\"b\"}\n\n:\n\nevent: requ";
        let stream = reply(200, "text/event-stream", stream);
        let secs = Duration::from_secs;
        assert_eq!(events_of(&stream, secs(3), false), Ok(2));
        assert!(events_of(&stream, secs(3), true).is_err(), "cut within an event");
        assert!(events_of(&stream, secs(1), false).is_err(), "too many");
        assert!(events_of(&stream, secs(20), false).is_err(), "too few");
        let wrong = reply(200, "text/event-stream", "data: {\n\n");
        assert!(events_of(&wrong, secs(1), false).is_err());
    }

    #[test]
    fn token_of_forms_is_read_from_a_page() {
        let page = reply(200, "text/html", "<input type=\"hidden\" name=\"form_token\" value=\"abc\">");
        assert_eq!(form_token(&page).as_deref(), Some("abc"));
        assert_eq!(form_token(&reply(200, "text/html", "<p>")), None);
    }
}
