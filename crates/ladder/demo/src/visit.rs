//! A request in the form in which the site's scripts see it: parsed and decoded.

use crate::limits;
use crate::script::object::Object;
use crate::text::decode_url;
use bytes::Bytes;
use message::{Fields, Method, RequestHead, names};
use rhai::{Dynamic, Map};
use std::net::SocketAddr;

/// A complete request.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) head: RequestHead,
    pub(crate) content: Bytes,
    /// The address of the client's end of the connection.
    pub(crate) peer: SocketAddr,
}

impl Visit {
    /// The path as sent, without decoding. Empty if the target is not for this server.
    pub(crate) fn path(&self) -> &[u8] {
        self.target().0
    }

    /// The query as sent, without the question mark.
    pub(crate) fn query(&self) -> &[u8] {
        self.target().1
    }

    /// Whether the method is HEAD.
    pub(crate) fn is_head(&self) -> bool {
        self.head.method == Method::Head
    }

    /// Whether the request comes from this machine without a proxy. With a proxy on this machine,
    /// every visitor would seem local.
    pub(crate) fn is_local(&self) -> bool {
        let forwarded = [names::X_FORWARDED_FOR, names::X_FORWARDED_HOST, names::FORWARDED, names::VIA];
        self.peer.ip().to_canonical().is_loopback()
            && !forwarded.iter().any(|name| self.head.fields.has(name))
    }

    /// The request as an object for the scripts.
    pub(crate) fn to_object(&self) -> Object {
        let object = Object::default();
        let (path, query) = self.target();
        let decoded = decode_url(path, false);
        object.set("method", String::from_utf8_lossy(self.head.method.as_bytes()).as_ref().into());
        object.set("path", decoded.trim_matches('/').into());
        object.set("raw_path", String::from_utf8_lossy(path).as_ref().into());
        object.set("raw_query", String::from_utf8_lossy(query).as_ref().into());
        object.set("query", Dynamic::from_map(pairs(query, b'&', true)));
        object.set("form", Dynamic::from_map(self.form()));
        object.set("cookies", Dynamic::from_map(self.cookies()));
        object.set("address", self.peer.ip().to_canonical().to_string().into());
        object.set("host", field_text(&self.head.fields, names::HOST).into());
        object.set("origin", field_text(&self.head.fields, "Origin").into());
        object.set("fetch_site", field_text(&self.head.fields, "Sec-Fetch-Site").into());
        object
    }

    fn target(&self) -> (&[u8], &[u8]) {
        h1::Target::split(&self.head.method, &self.head.target)
            .map_or((b"", b""), |target| (target.path(), target.query().unwrap_or_default()))
    }

    fn form(&self) -> Map {
        let kind = self.head.fields.only(names::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_ref());
        let kind = kind.split(|&octet| octet == b';').next().unwrap_or_default().trim_ascii();
        if kind.eq_ignore_ascii_case(b"application/x-www-form-urlencoded") {
            pairs(&self.content, b'&', true)
        } else {
            Map::new()
        }
    }

    fn cookies(&self) -> Map {
        self.head.fields.all(names::COOKIE).flat_map(|line| pairs(line, b';', false)).collect()
    }
}

/// Decodes `name=value` pairs. Among pairs of one name, the last counts. Names and values are not
/// interpreted here.
fn pairs(text: &[u8], separator: u8, plus: bool) -> Map {
    text.split(|&octet| octet == separator)
        .map(<[u8]>::trim_ascii)
        .filter(|pair| !pair.is_empty())
        .take(limits::FORM_FIELDS_MAX)
        .map(|pair| {
            let at = pair.iter().position(|&octet| octet == b'=').unwrap_or(pair.len());
            let (name, value) = pair.split_at(at);
            let value = value.get(1..).unwrap_or_default();
            (decode_url(name, plus).into(), decode_url(value, plus).into())
        })
        .collect()
}

fn field_text(fields: &Fields, name: &str) -> String {
    fields.only(name).map_or_else(String::new, |value| String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::Visit;
    use bytes::Bytes;
    use message::{Fields, Method, RequestHead, Version};
    use rhai::Map;

    fn visit(target: &'static str, fields: &[(&'static str, &'static str)], content: &'static str) -> Visit {
        let mut list = Fields::new();
        for (name, value) in fields {
            list.push(*name, *value);
        }
        let target = Bytes::from_static(target.as_bytes());
        Visit {
            head: RequestHead { method: Method::Post, target, version: Version::Http11, fields: list },
            content: Bytes::from_static(content.as_bytes()),
            peer: "127.0.0.1:9".parse().unwrap(),
        }
    }

    fn entry(visit: &Visit, part: &str, name: &str) -> Option<String> {
        visit.to_object().value(part).cast::<Map>().get(name).map(ToString::to_string)
    }

    #[test]
    fn query_form_and_cookies_are_decoded() {
        let form = ("Content-Type", "application/x-www-form-urlencoded; charset=utf-8");
        let sent = visit("/a%20b/?q=x+y%26&q=last", &[form, ("Cookie", "s=1; t=a=b")], "name=%3Cb%3E&empty");
        assert_eq!(sent.to_object().value("path").to_string(), "a b");
        assert_eq!(entry(&sent, "query", "q").as_deref(), Some("last"));
        assert_eq!(entry(&sent, "form", "name").as_deref(), Some("<b>"));
        assert_eq!(entry(&sent, "form", "empty").as_deref(), Some(""));
        assert_eq!(entry(&sent, "cookies", "t").as_deref(), Some("a=b"));
    }

    #[test]
    fn content_of_another_type_is_not_a_form() {
        let sent = visit("/", &[("Content-Type", "text/plain")], "name=x");
        assert_eq!(entry(&sent, "form", "name"), None);
    }

    #[test]
    fn proxied_request_is_not_local() {
        assert!(visit("/_status", &[], "").is_local());
        for name in ["X-Forwarded-For", "Forwarded", "Via"] {
            assert!(!visit("/_status", &[(name, "x")], "").is_local());
        }
    }
}
