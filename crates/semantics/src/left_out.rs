//! What of a request is left out of its look-up, and which responses answer the request all the same.
//!
//! Invariant: a request gets a response that was fetched without a part of it only if the response itself shows that
//! the part makes no difference. Otherwise the whole request goes to the origin, for its client alone.

use crate::selecting::ORIGIN;
use crate::static_files::is_for_any_cookie;
use crate::vary::is_zero_weight;
use crate::{Policy, Reason, RequestClass};
use message::{Fields, RequestHead, ResponseHead, names};

/// The parts of a request that its look-up leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Cookies, and why the request passes with them.
    cookies: Option<Reason>,
    /// The site that a script comes from.
    origin: bool,
    /// That the client takes particular media types only.
    accept: bool,
}

impl LeftOut {
    /// What the look-up of a request of this class leaves out.
    pub fn of(class: &RequestClass, request: &RequestHead, policy: &Policy) -> Self {
        let cookies = match class {
            RequestClass::LookupStatic { otherwise, .. } => Some(*otherwise),
            RequestClass::Lookup(_) | RequestClass::Pass(_) => None,
        };
        let is_keyed = policy.forwarding == crate::Forwarding::Keyed;
        Self { cookies, origin: false, accept: is_keyed && !accepts_anything(&request.fields) }
    }

    /// The same, where the look-up does without `Origin`.
    #[must_use]
    pub const fn and_origin(self) -> Self {
        Self { origin: true, ..self }
    }

    /// Whether cookies are left out, which may be a session's.
    pub const fn has_cookies(&self) -> bool {
        self.cookies.is_some()
    }

    /// Why the request passes if the response is none for it; `None` if nothing is left out.
    pub fn reason(&self) -> Option<Reason> {
        let origin = self.origin.then_some(Reason::PassForeignOrigin);
        self.cookies.or(origin).or_else(|| self.accept.then_some(Reason::PassAccept))
    }

    /// Whether the response for this target answers a request with these fields with the parts that are left out, too.
    pub fn permits(&self, target: &[u8], request: &Fields, response: &ResponseHead, policy: &Policy) -> bool {
        let fields = &response.fields;
        (self.cookies.is_none() || is_for_any_cookie(target, response.status, fields, policy))
            && (!self.origin || permits_every_origin(fields))
            && (!self.accept || is_accepted(request, fields))
    }

    /// Whether [`LeftOut::permits`] asks for the response field called `name`.
    pub fn concerns(name: &[u8]) -> bool {
        CONCERNED.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    }
}

/// The fields of responses that decide.
const CONCERNED: &[&str] = &[
    ALLOW_ORIGIN,
    names::CACHE_CONTROL,
    names::CDN_CACHE_CONTROL,
    names::CONTENT_TYPE,
    names::DATE,
    names::EXPIRES,
    names::LAST_MODIFIED,
    names::SET_COOKIE,
    names::SURROGATE_CONTROL,
    names::VARY,
];

const ALLOW_ORIGIN: &str = "Access-Control-Allow-Origin";

/// Whether scripts of every site may read the response, and it does not depend on which one asks.
fn permits_every_origin(response: &Fields) -> bool {
    response.only(ALLOW_ORIGIN).is_some_and(|sites| &sites[..] == b"*") && !varies_on(response, ORIGIN)
}

fn varies_on(response: &Fields, name: &str) -> bool {
    response.list(names::VARY).any(|member| member == b"*" || member.eq_ignore_ascii_case(name.as_bytes()))
}

/// Whether the client takes any media type, as browsers do everywhere: `Accept` is missing or has `*/*`.
pub(crate) fn accepts_anything(fields: &Fields) -> bool {
    let takes_all = |member: &[u8]| {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        parts.next() == Some(b"*/*") && !parts.any(is_zero_weight)
    };
    match fields.only("Accept") {
        // Every hit asks, and scripts and tools send just this.
        Some(value) if &value[..] == b"*/*" => true,
        _ => !fields.has("Accept") || fields.list("Accept").any(takes_all),
    }
}

/// Whether the client asks for a stream of events, which lasts as long as its client and is shared with nobody.
pub(crate) fn wants_events(fields: &Fields) -> bool {
    let is_stream = |member: &[u8]| {
        let name = member.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        name.eq_ignore_ascii_case(b"text/event-stream")
    };
    // Every look-up asks: a list without the hyphen of the type needs no reading.
    fields.all("Accept").any(|value| value.contains(&b'-')) && fields.list("Accept").any(is_stream)
}

/// Whether no other type of response would be nearer to what the client asks for: the response's type is among those
/// that the client prefers to all others, or the response was selected by this very `Accept`.
fn is_accepted(request: &Fields, response: &Fields) -> bool {
    if varies_on(response, "Accept") {
        return true;
    }
    let Some(value) = response.only(names::CONTENT_TYPE) else { return false };
    let media_type =
        value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
    let ranges: Vec<Range> = request.list("Accept").map(Range::read).collect();
    let heaviest = ranges.iter().map(|range| range.weight).max().unwrap_or_default();
    let matching = ranges.iter().filter(|range| range.takes(&media_type));
    let nearest = matching.max_by_key(|range| range.is_exact());
    nearest.is_some_and(|range| range.weight > 0 && range.weight == heaviest)
}

/// A member of `Accept`.
struct Range {
    /// In lower case; empty for one with parameters of the media type, which no response is compared with.
    name: Vec<u8>,
    /// In thousandths.
    weight: u16,
}

impl Range {
    fn read(member: &[u8]) -> Self {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let (mut weight, mut is_narrower) = (1_000, false);
        for parameter in parts {
            match parameter.split_at_checked(2) {
                Some((name, value)) if name.eq_ignore_ascii_case(b"q=") => weight = thousandths(value),
                _ => is_narrower = true,
            }
        }
        Self { name: if is_narrower { Vec::new() } else { name }, weight }
    }

    fn is_exact(&self) -> bool {
        !self.name.ends_with(b"/*")
    }

    fn takes(&self, media_type: &[u8]) -> bool {
        match self.name.strip_suffix(b"*") {
            Some(start) => start.len() > 1 && media_type.starts_with(start),
            None => !self.name.is_empty() && self.name == media_type,
        }
    }
}

/// A weight such as `0.25`; zero for what cannot be read.
fn thousandths(value: &[u8]) -> u16 {
    let weight =
        std::str::from_utf8(value).ok().and_then(|text| text.parse::<f32>().ok()).unwrap_or_default();
    (weight.clamp(0.0, 1.0) * 1_000.0) as u16
}

#[cfg(test)]
mod tests {
    use super::{is_accepted, permits_every_origin, wants_events};
    use message::Fields;

    fn fields(name: &'static str, value: &'static str) -> Fields {
        [(name, value)].into_iter().collect()
    }

    #[test]
    fn stored_type_answers_who_prefers_no_other() {
        let is = |accept, kind| is_accepted(&fields("Accept", accept), &fields("Content-Type", kind));
        for (accept, kind) in [
            ("application/json", "application/json; charset=utf-8"),
            ("application/rss+xml, application/atom+xml", "application/atom+xml"),
            ("text/html, application/xhtml+xml, text/plain;q=0.5", "text/html"),
            ("image/*", "image/png"),
            ("application/JSON;q=1.0", "Application/Json"),
        ] {
            assert!(is(accept, kind), "{accept} {kind}");
        }
        for (accept, kind) in [
            ("application/json", "text/html"),
            ("application/json, text/html;q=0.9", "text/html"),
            ("text/*, text/html;q=0.5", "text/html"),
            ("text/html;level=1", "text/html"),
            ("application/vnd.github+json", "application/json"),
            ("*/*;q=0", "text/html"),
            ("text/html;q=0", "text/html"),
            ("text/html;q=nonsense", "text/html"),
            ("*", "text/html"),
            ("", "text/html"),
        ] {
            assert!(!is(accept, kind), "{accept} {kind}");
        }
        assert!(!is_accepted(&fields("Accept", "text/html"), &Fields::new()));
        assert!(
            is_accepted(&fields("Accept", "a/b"), &fields("Vary", "accept")),
            "it was selected by the field"
        );
    }

    #[test]
    fn only_a_star_permits_every_origin() {
        let of =
            |lines: &[(&'static str, &'static str)]| permits_every_origin(&lines.iter().copied().collect());
        let star = ("Access-Control-Allow-Origin", "*");
        assert!(of(&[star]) && of(&[star, ("Vary", "Accept-Encoding")]));
        assert!(!of(&[star, ("Vary", "Origin")]) && !of(&[star, star]) && !of(&[]));
        assert!(!of(&[("Access-Control-Allow-Origin", "https://a.example")]));
    }

    #[test]
    fn streams_of_events_are_told_by_their_type() {
        assert!(wants_events(&fields("Accept", "application/json, Text/Event-Stream;q=0.9")));
        assert!(!wants_events(&fields("Accept", "text/*")) && !wants_events(&Fields::new()));
    }
}
