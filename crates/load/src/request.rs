//! The request as it goes over the wire, built once and sent again and again.
//!
//! Invariant: every request of a run is this same sequence of octets. The order of the lines is that of `ab`:
//! request line, `Connection`, `Cookie`, `Authorization`, content fields, the user's fields, then the built-in
//! ones the user did not give.

use crate::plan::{Plan, PlanError, REQUEST_HEAD_BYTES_MAX};
use bytes::Bytes;
use message::{Version, names};

/// The value of `User-Agent` unless the plan gives one.
pub const USER_AGENT: &str = concat!("Petasos/", env!("CARGO_PKG_VERSION"));

/// Builds the octets of the plan's request.
///
/// # Errors
/// When the plan's request cannot be sent: see [`Plan::check`]; or its head is too long.
pub fn image(plan: &Plan) -> Result<Bytes, PlanError> {
    plan.check()?;
    let mut image = head(plan);
    if image.len() > REQUEST_HEAD_BYTES_MAX {
        return Err(PlanError::HeadTooLong(image.len()));
    }
    if let Some(body) = &plan.body {
        image.extend_from_slice(&body.content);
    }
    Ok(Bytes::from(image))
}

fn head(plan: &Plan) -> Vec<u8> {
    let mut head = Vec::new();
    head.extend_from_slice(plan.method.as_bytes());
    head.extend_from_slice(format!(" {} {}\r\n", plan.target.path(), plan.protocol()).as_bytes());
    let given = |name: &str| plan.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let mut line = |name: &str, value: &str| {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    };
    // Each version says only what is not its default (RFC 9112 section 9.3).
    match (plan.version, plan.keep_alive) {
        _ if given(names::CONNECTION) => {}
        (Version::Http10, true) => line(names::CONNECTION, "Keep-Alive"),
        (Version::Http11, false) => line(names::CONNECTION, "close"),
        (Version::Http10, false) | (Version::Http11, true) => {}
    }
    if !plan.cookies.is_empty() {
        line(names::COOKIE, &plan.cookies.join("; "));
    }
    if let Some(credentials) = &plan.basic_auth {
        line(names::AUTHORIZATION, &format!("Basic {}", base64(credentials.as_bytes())));
    }
    if let Some(body) = &plan.body {
        line(names::CONTENT_LENGTH, &body.content.len().to_string());
        if !given(names::CONTENT_TYPE) {
            line(names::CONTENT_TYPE, &body.content_type);
        }
    }
    for (name, value) in &plan.headers {
        line(name, value);
    }
    let built_in =
        [(names::HOST, plan.target.authority().as_str()), (names::USER_AGENT, USER_AGENT), ("Accept", "*/*")]
            .map(|(name, value)| (name, value.to_owned()));
    for (name, value) in built_in.iter().filter(|(name, _)| !given(name)) {
        line(name, value);
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Base 64 with padding (RFC 4648 section 4).
fn base64(octets: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(octets.len().div_ceil(3) * 4);
    for chunk in octets.chunks(3) {
        let octet = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = octet(0) << 16 | octet(1) << 8 | octet(2);
        for place in 0..4 {
            let sextet = (group >> (18 - 6 * place) & 63) as usize;
            let letter = ALPHABET.get(sextet).copied().unwrap_or(b'=');
            text.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{USER_AGENT, base64, image};
    use crate::{Body, Plan, PlanError, Stop, Target};
    use bytes::Bytes;
    use message::{Method, Version};

    fn plan() -> Plan {
        let mut plan = Plan::new(Target::parse("http://example.test:81/a?b").unwrap());
        plan.stop = Stop { requests: Some(1), ..Stop::default() };
        plan
    }

    fn text(plan: &Plan) -> String {
        String::from_utf8(image(plan).unwrap().to_vec()).unwrap()
    }

    #[test]
    fn the_smallest_request() {
        let expected = format!(
            "GET /a?b HTTP/1.1\r\nHost: example.test:81\r\nUser-Agent: {USER_AGENT}\r\nAccept: */*\r\n\r\n"
        );
        assert_eq!(text(&plan()), expected);
    }

    #[test]
    fn the_connection_field_says_what_is_not_the_default() {
        let with = |version, keep_alive| text(&Plan { version, keep_alive, ..plan() });
        assert!(with(Version::Http10, true).contains("\r\nConnection: Keep-Alive\r\n"));
        assert!(with(Version::Http11, false).contains("\r\nConnection: close\r\n"));
        assert!(!with(Version::Http10, false).contains("Connection"));
        assert!(!with(Version::Http11, true).contains("Connection"));
    }

    #[test]
    fn everything_at_once_is_in_the_order_of_ab() {
        let plan = Plan {
            version: Version::Http10,
            method: Method::Post,
            headers: vec![("X-One".into(), "1".into()), ("host".into(), "other".into())],
            cookies: vec!["a=b".into(), "c=d".into()],
            basic_auth: Some("user:pass".into()),
            body: Some(Body { content: Bytes::from_static(b"x=y"), content_type: "text/plain".into() }),
            ..plan()
        };
        let expected = format!(
            "POST /a?b HTTP/1.0\r\nConnection: Keep-Alive\r\nCookie: a=b; c=d\r\n\
             Authorization: Basic dXNlcjpwYXNz\r\nContent-Length: 3\r\nContent-Type: text/plain\r\nX-One: 1\r\n\
             host: other\r\nUser-Agent: {USER_AGENT}\r\nAccept: */*\r\n\r\nx=y"
        );
        assert_eq!(text(&plan), expected);
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let mut plan = plan();
        plan.headers.push(("X".into(), "y".repeat(100_000)));
        assert!(matches!(image(&plan), Err(PlanError::HeadTooLong(bytes)) if bytes > 100_000));
    }

    #[test]
    fn base64_pads() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
    }
}
