//! The serialised requests, built once and sent repeatedly.
//!
//! Invariant: all requests of a URL are the same bytes. The order of the lines is that of `ab`:
//! request line, `Connection`, `Cookie`, `Authorization`, content fields, the user's fields. The
//! built-in fields that the user did not give come last.

use address::HttpUrl;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use message::names;
use record::{Plan, PlanError, Protocol, REQUEST_HEAD_BYTES_MAX, WeightedTarget};

/// The value of `User-Agent` unless the plan gives one.
pub const USER_AGENT: &str = concat!("Petasos/", env!("CARGO_PKG_VERSION"));

/// The largest total size of the requests of all URLs, in bytes. Each of them contains the content.
const IMAGES_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Serialises the plan's request for [`Plan::target`].
///
/// # Errors
/// If the plan is refused by [`Plan::check`], or the request head is too long.
pub fn image(plan: &Plan) -> Result<Bytes, PlanError> {
    plan.check()?;
    build(plan, &WeightedTarget::new(plan.target.clone(), 1))
}

/// Serialises the requests for each URL.
pub(crate) fn images(plan: &Plan) -> Result<Vec<Bytes>, PlanError> {
    if plan.targets.is_empty() {
        return Ok(vec![image(plan)?]);
    }
    plan.check()?;
    let mut bytes = 0;
    let images = plan.targets.iter().map(|of| {
        let image = build(plan, of)?;
        bytes += image.len();
        if bytes > IMAGES_BYTES_MAX { Err(PlanError::RequestsTooLarge(IMAGES_BYTES_MAX)) } else { Ok(image) }
    });
    images.collect()
}

fn build(plan: &Plan, of: &WeightedTarget) -> Result<Bytes, PlanError> {
    let mut image = head(plan, of);
    if image.len() > REQUEST_HEAD_BYTES_MAX {
        return Err(PlanError::HeadTooLong(image.len()));
    }
    if let Some(body) = &plan.body {
        image.extend_from_slice(&body.content);
    }
    Ok(Bytes::from(image))
}

fn head(plan: &Plan, of: &WeightedTarget) -> Vec<u8> {
    let target = &of.target;
    let mut head = Vec::new();
    head.extend_from_slice(plan.method.as_bytes());
    let asked = if plan.proxy.is_some() { target.as_str() } else { target.path_and_query() };
    head.extend_from_slice(format!(" {asked} {}\r\n", plan.http.name()).as_bytes());
    for (name, value) in fields(plan, target, &of.cookies) {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// The header fields of the plan's request to a URL, in order. `cookies` are those of the URL.
pub(crate) fn fields(plan: &Plan, target: &HttpUrl, cookies: &[String]) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let given = |name: &str| plan.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let mut field = |name: &str, value: &str| fields.push((name.to_owned(), value.to_owned()));
    // Each version states only a deviation from its default (RFC 9112 section 9.3). A connection
    // that lingers must not be closed by the server, so it counts as persistent here.
    match (plan.http, plan.keep_alive || !plan.linger.is_zero()) {
        _ if given(names::CONNECTION) => {}
        (Protocol::Http10, true) => field(names::CONNECTION, "Keep-Alive"),
        (Protocol::Http11, false) => field(names::CONNECTION, "close"),
        (Protocol::Http10, false) | (Protocol::Http11, true) | (Protocol::H2, _) => {}
    }
    let cookies: Vec<&str> = plan.cookies.iter().chain(cookies).map(String::as_str).collect();
    if !cookies.is_empty() {
        field(names::COOKIE, &cookies.join("; "));
    }
    if let Some(credentials) = &plan.basic_auth {
        field(names::AUTHORIZATION, &format!("Basic {}", STANDARD.encode(credentials)));
    }
    if let Some(credentials) = &plan.proxy_auth {
        field(names::PROXY_AUTHORIZATION, &format!("Basic {}", STANDARD.encode(credentials)));
    }
    if let Some(body) = &plan.body {
        field(names::CONTENT_LENGTH, &body.content.len().to_string());
        if !given(names::CONTENT_TYPE) {
            field(names::CONTENT_TYPE, &body.content_type);
        }
    }
    for (name, value) in &plan.headers {
        field(name, value);
    }
    let host = target.authority();
    for (name, value) in [(names::HOST, host), (names::USER_AGENT, USER_AGENT), ("Accept", "*/*")] {
        if !given(name) {
            field(name, value);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::{USER_AGENT, image};
    use address::HttpUrl;
    use bytes::Bytes;
    use message::Method;
    use record::{Plan, PlanError, Protocol, RequestBody, Stop};

    fn plan() -> Plan {
        let mut plan = Plan::new(HttpUrl::parse("http://example.test:81/a?b").unwrap());
        plan.stop = Stop { requests: Some(1), ..Stop::default() };
        plan
    }

    fn text(plan: &Plan) -> String {
        String::from_utf8(image(plan).unwrap().to_vec()).unwrap()
    }

    #[test]
    fn minimal_request_has_three_header_fields() {
        let expected = format!(
            "GET /a?b HTTP/1.1\r\nHost: example.test:81\r\nUser-Agent: {USER_AGENT}\r\nAccept: */*\r\n\r\n"
        );
        assert_eq!(text(&plan()), expected);
    }

    #[test]
    fn connection_field_is_sent_only_if_not_the_default() {
        let with = |http, keep_alive| text(&Plan { http, keep_alive, ..plan() });
        assert!(with(Protocol::Http10, true).contains("\r\nConnection: Keep-Alive\r\n"));
        assert!(with(Protocol::Http11, false).contains("\r\nConnection: close\r\n"));
        assert!(!with(Protocol::Http10, false).contains("Connection"));
        assert!(!with(Protocol::Http11, true).contains("Connection"));
    }

    #[test]
    fn fields_are_in_the_order_of_ab() {
        let plan = Plan {
            http: Protocol::Http10,
            method: Method::Post,
            headers: vec![("X-One".into(), "1".into()), ("host".into(), "other".into())],
            cookies: vec!["a=b".into(), "c=d".into()],
            basic_auth: Some("user:pass".into()),
            body: Some(RequestBody {
                content: Bytes::from_static(b"x=y"),
                content_type: "text/plain".into(),
            }),
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
    fn request_to_a_proxy_has_the_whole_url() {
        let proxy = Some(HttpUrl::parse("http://proxy.test:3128/").unwrap());
        let plan = Plan { proxy, proxy_auth: Some("user:pass".into()), ..plan() };
        let expected = "GET http://example.test:81/a?b HTTP/1.1\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n\
                        Host: example.test:81\r\n";
        assert!(text(&plan).starts_with(expected), "{}", text(&plan));
    }

    #[test]
    fn too_long_head_is_refused() {
        let mut plan = plan();
        plan.headers.push(("X".into(), "y".repeat(100_000)));
        assert!(matches!(image(&plan), Err(PlanError::HeadTooLong(bytes)) if bytes > 100_000));
    }
}
