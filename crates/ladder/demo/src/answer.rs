//! Responses: converts the scripts' return values to HTTP, and answers conditional requests.

use bytes::Bytes;
use clock::Timestamp;
use message::{Fields, Status, names};
use rhai::{Array, Dynamic, ImmutableString, Map};
use std::time::Duration;

/// A complete response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) fields: Fields,
    pub(crate) body: Bytes,
}

/// Fields that a 304 repeats (RFC 9110 section 15.4.5), and fields for surrogates.
const KEPT_IN_304: &[&str] = &[
    names::CACHE_CONTROL,
    names::ETAG,
    names::EXPIRES,
    names::LAST_MODIFIED,
    names::SURROGATE_CONTROL,
    names::SURROGATE_KEY,
    names::VARY,
];

/// Least age of a Last-Modified date that may yield a 304. A page may change again within the same
/// second.
const DATE_SETTLED: Duration = Duration::from_secs(2);

impl Answer {
    /// A short text response that may not be stored.
    pub(crate) fn plain(code: u16, text: impl Into<Bytes>) -> Self {
        let mut fields = Fields::new();
        fields.push(names::CONTENT_TYPE, "text/plain; charset=utf-8");
        fields.push(names::CACHE_CONTROL, "no-store");
        Self { status: Status::from_code(code).unwrap_or(Status::BAD_REQUEST), fields, body: text.into() }
    }

    /// The response that a script returned: `#{ status, body, headers: [[name, value], ...] }`.
    /// `None` if the value does not have this form.
    pub(crate) fn from_script(value: Dynamic) -> Option<Self> {
        let mut map = value.try_cast::<Map>()?;
        let code = map.get("status")?.as_int().ok()?;
        let body = map.remove("body")?.into_immutable_string().ok()?;
        let mut fields = Fields::new();
        for line in map.remove("headers")?.try_cast::<Array>()? {
            let mut line = line.try_cast::<Array>()?.into_iter();
            let name: ImmutableString = line.next()?.into_immutable_string().ok()?;
            let value: ImmutableString = line.next()?.into_immutable_string().ok()?;
            fields.push(name.to_string(), value.to_string());
        }
        Some(Self {
            status: Status::from_code(u16::try_from(code).ok()?)?,
            fields,
            body: Bytes::from(body.to_string()),
        })
    }

    /// Appends a comment with the duration of this response to an HTML page.
    pub(crate) fn note_time(&mut self, took_ms: f64) {
        let is_html = |value: &Bytes| value.starts_with(b"text/html");
        if self.status == Status::OK && self.fields.first(names::CONTENT_TYPE).is_some_and(is_html) {
            let note = format!("<!-- Parsed in {} ms -->\n", (took_ms * 10.0).round() / 10.0);
            self.body = [&self.body[..], note.as_bytes()].concat().into();
        }
    }

    /// This response, or a 304 if the client already has it (RFC 9110 section 13).
    #[must_use]
    pub(crate) fn conditional(mut self, request: &Fields, now: Timestamp) -> Self {
        if self.status != Status::OK || !self.is_known_to(request, now) {
            return self;
        }
        self.fields.retain(|field| KEPT_IN_304.iter().any(|name| field.is(name)));
        Self { status: Status::NOT_MODIFIED, fields: self.fields, body: Bytes::new() }
    }

    fn is_known_to(&self, request: &Fields, now: Timestamp) -> bool {
        if request.has(names::IF_NONE_MATCH) {
            let Some(etag) = self.fields.only(names::ETAG) else { return false };
            return request.list(names::IF_NONE_MATCH).any(|tag| tag == b"*" || opaque(tag) == opaque(etag));
        }
        let date = |fields: &Fields, name| {
            let text = std::str::from_utf8(fields.only(name)?).ok()?;
            Some(Timestamp::from_system_time(httpdate::parse_http_date(text).ok()?))
        };
        match (date(request, names::IF_MODIFIED_SINCE), date(&self.fields, names::LAST_MODIFIED)) {
            (Some(since), Some(modified)) => modified <= since && now.since(modified) >= DATE_SETTLED,
            _ => false,
        }
    }
}

/// The opaque part of an entity tag, without the mark of weakness (RFC 9110 section 8.8.3.2).
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::Answer;
    use clock::Timestamp;
    use message::Fields;
    use rhai::Engine;

    /// 1994-11-06 08:49:37 UTC.
    const MODIFIED: u64 = 784_111_777;

    fn page() -> Answer {
        let script = r#"#{ status: 200, body: "page", headers: [["ETag", "W/\"a\""], ["Set-Cookie", "x"],
            ["Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"]] }"#;
        Answer::from_script(Engine::new().eval(script).unwrap()).unwrap()
    }

    fn status(name: &'static str, value: &'static str, now: u64) -> u16 {
        let mut request = Fields::new();
        request.push(name, value);
        page().conditional(&request, Timestamp::from_secs(now)).status.code()
    }

    #[test]
    fn only_html_pages_get_the_timing_comment() {
        let noted = |kind: &'static str, took_ms| {
            let mut answer = page();
            answer.fields.push("Content-Type", kind);
            answer.note_time(took_ms);
            String::from_utf8(answer.body.to_vec()).unwrap()
        };
        assert_eq!(noted("text/html; charset=utf-8", 12.34), "page<!-- Parsed in 12.3 ms -->\n");
        assert_eq!(noted("text/html", 37.98), "page<!-- Parsed in 38 ms -->\n");
        assert_eq!(noted("text/css", 1.0), "page");
    }

    #[test]
    fn known_tag_or_date_gets_304_without_body_and_cookie() {
        for (name, value, expected) in [
            ("If-None-Match", "\"x\", W/\"a\"", 304),
            ("If-None-Match", "\"a\"", 304),
            ("If-None-Match", "*", 304),
            ("If-None-Match", "\"b\"", 200),
            ("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT", 304),
            ("If-Modified-Since", "Sun, 06 Nov 1994 08:49:36 GMT", 200),
            ("If-Modified-Since", "yesterday", 200),
        ] {
            assert_eq!(status(name, value, MODIFIED + 10), expected, "{name}: {value}");
        }
        let mut request = Fields::new();
        request.push("If-None-Match", "*");
        let answer = page().conditional(&request, Timestamp::from_secs(MODIFIED));
        assert!(answer.body.is_empty() && !answer.fields.has("Set-Cookie") && answer.fields.has("ETag"));
    }

    #[test]
    fn recent_date_does_not_yield_304() {
        assert_eq!(status("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT", MODIFIED + 1), 200);
    }

    #[test]
    fn entity_tag_takes_precedence_over_date() {
        let mut request = Fields::new();
        request.push("If-None-Match", "\"b\"");
        request.push("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(page().conditional(&request, Timestamp::from_secs(MODIFIED + 10)).status.code(), 200);
    }

    #[test]
    fn malformed_script_values_are_not_responses() {
        for script in
            ["1", "#{}", "#{ status: 99, body: \"\", headers: [] }", "#{ status: 200, body: 1, headers: [] }"]
        {
            assert!(Answer::from_script(Engine::new().eval(script).unwrap()).is_none(), "{script}");
        }
    }
}
