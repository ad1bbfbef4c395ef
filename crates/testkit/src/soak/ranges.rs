//! Visits that request a part of a response, or a response only under a condition.
//!
//! Invariant: a part has exactly the bytes that its `Content-Range` states, and they are those of
//! the whole content. A whole response is always permitted (RFC 9110 section 14.2).

use super::SoakState;
use super::application::{LARGE_ETAG, SOAK_HOST, octets};
use super::configuration::FILES;
use super::connection::{Message, Visitor};
use super::visitors::{PLAIN, large};
use crate::Response;
use stats::Random;

/// Requests one or two parts of a large response, of a small one or of a file.
pub(super) fn part(stage: &SoakState<'_>, visitor: &mut Visitor) {
    let random = &mut visitor.random;
    let target = match random.below(4) {
        0 => format!("/files/{}.bin", random.below(FILES)),
        1 => format!("/plain/{}", random.below(PLAIN)),
        _ => large(random),
    };
    let content = octets(&target);
    let range = format!("Range: bytes={}", ranges(random, content.len()));
    let validator = match random.below(4) {
        0 => Some("If-Range: \"other\""),
        1 => Some("If-Range: \"large\""),
        _ => None,
    };
    let fields: Vec<&str> = std::iter::once(range.as_str()).chain(validator).collect();
    let sent = stage.health.now();
    let Some(answer) = ask(stage, visitor, &target, &fields) else {
        return stage.excuse(sent, &format!("{target} {fields:?} was not answered"));
    };
    let is_sound = match answer.status {
        200 if answer.complete => answer.body == content,
        206 if answer.complete && validator == Some("If-Range: \"other\"") => false,
        206 if answer.complete => is_part(&answer, &content) || are_parts(&answer, &content),
        416 => answer.field("Content-Range") == Some(&format!("bytes */{}", content.len())),
        _ => return stage.excuse_answer(sent, &target, &answer),
    };
    if !is_sound {
        let bytes = answer.body.len();
        return stage.complain(&format!("{target} {fields:?} sent {bytes} wrong bytes: {}", answer.head));
    }
    stage.count(match answer.status {
        206 if answer.field("Content-Range").is_some() => "parts",
        206 => "several parts",
        416 => "parts that do not exist",
        _ => "whole responses to a range",
    });
}

/// Requests a response that the client has already.
pub(super) fn condition(stage: &SoakState<'_>, visitor: &mut Visitor) {
    let target = large(&mut visitor.random);
    let (field, status) = match visitor.random.below(3) {
        0 => (format!("If-None-Match: {LARGE_ETAG}"), 304),
        1 => (format!("If-None-Match: \"a\", W/{LARGE_ETAG}"), 304),
        _ => ("If-None-Match: \"other\"".to_owned(), 200),
    };
    let sent = stage.health.now();
    let Some(answer) = ask(stage, visitor, &target, &[&field]) else {
        return stage.excuse(sent, &format!("{target} {field} was not answered"));
    };
    // The origin understands one strong tag alone, and a miss passes its response on.
    if answer.complete && answer.status == 200 {
        stage.count(if status == 200 { "changed responses" } else { "whole responses to a condition" });
        if answer.body != octets(&target) {
            stage.complain(&format!("{target} {field} has a wrong body: {}", answer.head));
        }
    } else if answer.complete && (answer.status, status) == (304, 304) {
        stage.count("responses confirmed to visitors");
    } else {
        stage.excuse_answer(sent, &format!("{target} {field}"), &answer);
    }
}

fn ask(stage: &SoakState<'_>, visitor: &mut Visitor, target: &str, fields: &[&str]) -> Option<Response> {
    let message = Message { method: "GET", host: SOAK_HOST, target, fields, content: None };
    visitor.exchange(stage, &message)
}

/// One or two ranges of a content with this many bytes.
fn ranges(random: &mut Random, bytes: usize) -> String {
    let first = random.below(bytes);
    match random.below(8) {
        0 => format!("{first}-"),
        1 => format!("-{}", 1 + random.below(bytes)),
        2 => format!("{}-", bytes + random.below(100)),
        3 => {
            let other = random.below(bytes);
            format!("{}-{}, {}-{}", first / 4, first / 4 + 99, other, other + random.below(5_000))
        }
        _ => format!("{first}-{}", first + random.below(300_000)),
    }
}

/// The bytes that a value of `Content-Range` names.
fn extent<'a>(range: &str, content: &'a [u8]) -> Option<&'a [u8]> {
    let (extent, bytes) = range.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = extent.split_once('-')?;
    let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
    if bytes.parse() == Ok(content.len()) { content.get(first..=last) } else { None }
}

fn is_part(answer: &Response, content: &[u8]) -> bool {
    let range = answer.field("Content-Range").and_then(|range| extent(range, content));
    range.is_some_and(|expected| answer.body == expected)
}

/// Whether the response has several parts, all of them right (RFC 9110 section 14.6).
fn are_parts(answer: &Response, content: &[u8]) -> bool {
    let kind = answer.field("Content-Type").unwrap_or("");
    let Some((_, boundary)) = kind.split_once("multipart/byteranges; boundary=") else { return false };
    let mut rest = &answer.body[..];
    let mut parts = 0;
    while let Some((head, after)) = split(rest, b"\r\n\r\n") {
        let head = String::from_utf8_lossy(head);
        let range = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("Content-Range").then_some(value)
        });
        let expected = range.and_then(|range| extent(range, content));
        let Some(expected) = expected.filter(|expected| after.starts_with(expected)) else { return false };
        rest = &after[expected.len()..];
        if !head.contains(boundary) {
            return false;
        }
        parts += 1;
    }
    parts > 0 && rest.starts_with(format!("\r\n--{boundary}--").as_bytes())
}

fn split<'a>(octets: &'a [u8], by: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = octets.windows(by.len()).position(|window| window == by)?;
    Some((&octets[..at], &octets[at + by.len()..]))
}

#[cfg(test)]
mod tests {
    use super::{are_parts, is_part};
    use crate::Response;

    fn answer(fields: &str, body: &str) -> Response {
        Response {
            status: 206,
            head: format!("HTTP/1.1 206 Partial Content\r\n{fields}"),
            body: body.as_bytes().to_vec(),
            trailers: String::new(),
            complete: true,
        }
    }

    #[test]
    fn wrong_parts_are_recognised() {
        let content = b"0123456789";
        assert!(is_part(&answer("Content-Range: bytes 2-4/10", "234"), content));
        for (range, body) in [("2-4/10", "235"), ("2-4/11", "234"), ("2-5/10", "234"), ("8-12/10", "89")] {
            assert!(!is_part(&answer(&format!("Content-Range: bytes {range}"), body), content), "{range}");
        }
        let several = |first: &str, end: &str| {
            let body = format!(
                "--b\r\nContent-Range: bytes 0-1/10\r\n\r\n{first}\r\n--b\r\nContent-Range: bytes 9-9/10\r\n\r\n9{end}"
            );
            are_parts(&answer("Content-Type: multipart/byteranges; boundary=b", &body), content)
        };
        assert!(several("01", "\r\n--b--\r\n"));
        assert!(!several("02", "\r\n--b--\r\n") && !several("01", ""));
    }
}
