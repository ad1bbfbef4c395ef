//! 103 (Early Hints, RFC 8297) for a page that must be fetched although an older copy is stored.
//!
//! Invariant: hints are links that the stored response has, unchanged. They go only to a browser
//! that opens a page: other clients have no use for them, and some mistake them for the response.

use bytes::Bytes;
use message::{Fields, Method, RequestHead, ResponseHead, Status, names};

/// The relations of links that a browser acts on before it has the page.
const RELATIONS: [&[u8]; 3] = [b"preload", b"modulepreload", b"preconnect"];

/// The field that tells the browser's purpose of a request, and its value for a page.
const SEC_FETCH_MODE: &str = "Sec-Fetch-Mode";
const NAVIGATE: &[u8] = b"navigate";

/// The response 103 with the links of a stored page, for a request that waits for a newer copy.
/// `None`: there is nothing to say, or the client is not to be told.
pub fn early_hints(request: &RequestHead, stored: &ResponseHead) -> Option<ResponseHead> {
    let opens_page = request.fields.only(SEC_FETCH_MODE).is_some_and(|mode| **mode == *NAVIGATE);
    if request.method != Method::Get || !opens_page || stored.status != Status::OK {
        return None;
    }
    let links = stored.fields.list(names::LINK).filter(|link| is_hint(link));
    let fields: Fields = links.map(|link| (names::LINK, Bytes::copy_from_slice(link))).collect();
    if !fields.has(names::LINK) {
        return None;
    }
    Some(ResponseHead { fields, ..ResponseHead::new(Status::EARLY_HINTS) })
}

/// Whether a link has one of the [`RELATIONS`], as in `</a.css>; rel="preload"; as=style`.
fn is_hint(link: &[u8]) -> bool {
    let Some(end) = link.iter().position(|octet| *octet == b'>').filter(|_| link.starts_with(b"<")) else {
        return false;
    };
    let parameters = link.get(end + 1..).unwrap_or_default().split(|octet| *octet == b';');
    // The first `rel` counts (RFC 8288 section 3.3).
    let relation = parameters.filter_map(value_of_rel).next().unwrap_or_default();
    let mut words = relation.split(u8::is_ascii_whitespace);
    words.any(|word| RELATIONS.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

/// The value of a parameter called `rel`, without quotes.
fn value_of_rel(parameter: &[u8]) -> Option<&[u8]> {
    let equals = parameter.iter().position(|octet| *octet == b'=')?;
    let (name, value) = parameter.split_at(equals);
    let value = value.get(1..)?.trim_ascii();
    let unquoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    name.trim_ascii().eq_ignore_ascii_case(b"rel").then(|| unquoted.unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::early_hints;
    use bytes::Bytes;
    use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};

    fn hints(request: &[(&str, &str)], stored: &[(&str, &str)]) -> Option<Vec<String>> {
        let fields = |lines: &[(&str, &str)]| -> Fields {
            lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let request = RequestHead {
            method: Method::Get,
            target: Bytes::from_static(b"/"),
            version: Version::Http11,
            fields: fields(request),
        };
        let stored = ResponseHead { fields: fields(stored), ..ResponseHead::new(Status::OK) };
        let told = early_hints(&request, &stored)?;
        assert_eq!(told.status.code(), 103);
        let lines = told.fields.all("Link").map(|value| String::from_utf8(value.to_vec()).unwrap());
        Some(lines.collect())
    }

    const BROWSER: [(&str, &str); 1] = [("Sec-Fetch-Mode", "navigate")];

    #[test]
    fn only_links_that_load_something_are_hints() {
        let all = "</a.css>; rel=preload; as=style, </b>; rel=next, <https://c.test>; rel=\"preconnect\"";
        let stored = [("Link", all), ("Link", "</m.js>;REL=\"x ModulePreload\""), ("Set-Cookie", "a=b")];
        let expected = [
            "</a.css>; rel=preload; as=style",
            "<https://c.test>; rel=\"preconnect\"",
            "</m.js>;REL=\"x ModulePreload\"",
        ];
        assert_eq!(hints(&BROWSER, &stored).unwrap(), expected);
        for none in ["", "</a>", "</a>; rel=canonical; rel=preload", "a; rel=preload", "</a,b; rel=preload"] {
            assert_eq!(hints(&BROWSER, &[("Link", none)]), None, "{none}");
        }
    }

    #[test]
    fn only_a_browser_that_opens_a_page_is_told() {
        let stored = [("Link", "</a.css>; rel=preload")];
        assert!(hints(&BROWSER, &stored).is_some());
        assert_eq!(hints(&[], &stored), None);
        assert_eq!(hints(&[("Sec-Fetch-Mode", "cors")], &stored), None);
    }
}
