//! A file server for tests of ranges, and checks of its responses.

use super::{Stage, bare, reason};
use testkit::{Action, Response, Seen, response};

pub(crate) const FRESH: &str = "Cache-Control: max-age=60";
pub(crate) const DIGITS: &str = "0123456789";
pub(crate) const LETTERS: &str = "abcdefghij";

/// The response of a file server with this content and entity tag. It supports a single range,
/// `If-Range` and `If-None-Match`.
pub(crate) fn file(seen: &Seen, tag: &str, content: &str) -> Vec<Action> {
    let tag_line = format!("ETag: {tag}");
    if seen.field("If-None-Match") == Some(tag) {
        return bare("304 Not Modified", &[FRESH, &tag_line]);
    }
    let unchanged = seen.field("If-Range").is_none_or(|validator| validator == tag);
    let Some((first, last)) =
        seen.field("Range").filter(|_| unchanged).and_then(|range| wanted(range, content.len()))
    else {
        return response("200 OK", &[FRESH, &tag_line], content.as_bytes());
    };
    part(first, &content[first..=last], content.len(), &tag_line)
}

fn wanted(range: &str, bytes: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    if first.is_empty() {
        return Some((bytes.saturating_sub(last.parse().ok()?), bytes - 1));
    }
    Some((first.parse().ok()?, last.parse().unwrap_or(bytes).min(bytes - 1)))
}

/// A 206 response with this part.
pub(crate) fn part(first: usize, content: &str, complete: usize, field: &str) -> Vec<Action> {
    let range = format!("Content-Range: bytes {first}-{}/{complete}", first + content.len() - 1);
    response("206 Partial Content", &[FRESH, field, &range], content.as_bytes())
}

/// A stage whose origin serves the digits with the entity tag "1".
pub(crate) fn digits() -> Stage {
    Stage::new(|seen| file(seen, "\"1\"", DIGITS))
}

/// Checks that the response is this part of the content, for this reason.
pub(crate) fn is_part(answer: &Response, content: &str, range: &str, why: &str) {
    let told = (answer.status, answer.text(), answer.field("Content-Range"), reason(answer));
    assert_eq!(told, (206, content, Some(&format!("bytes {range}")[..]), why), "{}", answer.head);
    assert_eq!(answer.field("Content-Length"), Some(&content.len().to_string()[..]));
}

/// Checks that the response is the whole content, for this reason.
pub(crate) fn is_whole(answer: &Response, content: &str, why: &str) {
    let told = (answer.status, answer.text(), answer.field("Content-Range"), reason(answer));
    assert_eq!(told, (200, content, None, why), "{}", answer.head);
}
