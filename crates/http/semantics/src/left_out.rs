//! The parts of a request that its lookup leaves out, and the responses that answer it
//! nevertheless.
//!
//! Invariant: a response that was fetched without a part of the request answers it only if the
//! response itself shows that the part makes no difference. Otherwise the whole request goes to the
//! origin, for its client alone.

use crate::accepted_codings::is_zero_weight;
use crate::selecting::ORIGIN;
use crate::static_files::is_for_any_cookie;
use crate::{Reason, RequestClass};
use message::{Fields, RequestHead, ResponseHead, names};
use profiles::Policy;

/// The parts of a request that its lookup leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Set if the cookies are left out: why the request passes with them.
    cookies: Option<Reason>,
    /// Whether `Origin`, the site of the requesting script, is left out.
    origin: bool,
    /// Whether the client accepts only particular media types, which the lookup ignores.
    accept: bool,
}

impl LeftOut {
    /// The parts that the lookup of a request of this class leaves out.
    pub fn of(class: &RequestClass, request: &RequestHead, policy: &Policy) -> Self {
        let cookies = match class {
            RequestClass::LookupStatic { otherwise, .. } => Some(*otherwise),
            RequestClass::Lookup(_) | RequestClass::Pass(_) => None,
        };
        let is_keyed = policy.forwarding == profiles::Forwarding::Keyed;
        Self { cookies, origin: false, accept: is_keyed && !accepts_anything(&request.fields) }
    }

    /// The same, for a lookup that also leaves out `Origin`.
    #[must_use]
    pub const fn and_origin(self) -> Self {
        Self { origin: true, ..self }
    }

    /// Whether cookies are left out. They may include a session cookie.
    pub const fn has_cookies(&self) -> bool {
        self.cookies.is_some()
    }

    /// Why the request passes if the response does not answer it; `None` if nothing is left out.
    pub fn reason(&self) -> Option<Reason> {
        let origin = self.origin.then_some(Reason::PassForeignOrigin);
        self.cookies.or(origin).or_else(|| self.accept.then_some(Reason::PassAccept))
    }

    /// Whether the response for this target also answers the complete request, with the parts that
    /// its lookup left out.
    pub fn permits(&self, target: &[u8], request: &Fields, response: &ResponseHead, policy: &Policy) -> bool {
        let fields = &response.fields;
        (self.cookies.is_none() || is_for_any_cookie(target, response.status, fields, policy))
            && (!self.origin || permits_every_origin(fields))
            && (!self.accept || is_accepted(request, fields))
    }

    /// Whether [`LeftOut::permits`] reads the response field called `name`.
    pub fn concerns(name: &[u8]) -> bool {
        CONCERNED.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    }
}

/// The response fields that [`LeftOut::permits`] reads.
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

/// Whether scripts of every site may read the response, and it does not depend on the site.
fn permits_every_origin(response: &Fields) -> bool {
    response.only(ALLOW_ORIGIN).is_some_and(|sites| &sites[..] == b"*") && !varies_on(response, ORIGIN)
}

fn varies_on(response: &Fields, name: &str) -> bool {
    response.list(names::VARY).any(|member| member == b"*" || member.eq_ignore_ascii_case(name.as_bytes()))
}

/// Whether the client accepts any media type, as browsers do: `Accept` is missing or contains
/// `*/*`.
pub(crate) fn accepts_anything(fields: &Fields) -> bool {
    let takes_all = |member: &[u8]| {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        parts.next() == Some(b"*/*") && !parts.any(is_zero_weight)
    };
    match fields.only("Accept") {
        // This is checked on every hit, and scripts and tools send exactly this value.
        Some(value) if &value[..] == b"*/*" => true,
        _ => !fields.has("Accept") || fields.list("Accept").any(takes_all),
    }
}

/// Whether the client asks for an event stream. It lasts as long as its client's connection and
/// cannot be shared.
pub(crate) fn wants_events(fields: &Fields) -> bool {
    let is_stream = |member: &[u8]| {
        let name = member.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        name.eq_ignore_ascii_case(b"text/event-stream")
    };
    // This is checked on every lookup. A list without a hyphen cannot contain the type, so it is
    // not parsed.
    fields.all("Accept").any(|value| value.contains(&b'-')) && fields.list("Accept").any(is_stream)
}

/// Whether the response has one of the types that the client prefers most.
///
/// A response that varies on `Accept` was selected by this very field, so it is accepted too.
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
    /// In lower case. Empty if the member has parameters of the media type, so that it matches no
    /// response.
    name: Vec<u8>,
    /// The weight in thousandths.
    weight: u16,
}

impl Range {
    fn read(member: &[u8]) -> Self {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let mut weight = 1_000;
        let mut is_narrower = false;
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

/// The weight in thousandths of a value such as `0.25`; zero if it cannot be read.
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
    fn stored_type_must_be_among_the_most_preferred() {
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
    fn only_an_allow_origin_of_star_permits_every_origin() {
        let of =
            |lines: &[(&'static str, &'static str)]| permits_every_origin(&lines.iter().copied().collect());
        let star = ("Access-Control-Allow-Origin", "*");
        assert!(of(&[star]) && of(&[star, ("Vary", "Accept-Encoding")]));
        assert!(!of(&[star, ("Vary", "Origin")]) && !of(&[star, star]) && !of(&[]));
        assert!(!of(&[("Access-Control-Allow-Origin", "https://a.example")]));
    }

    #[test]
    fn event_streams_are_recognised_by_their_type() {
        assert!(wants_events(&fields("Accept", "application/json, Text/Event-Stream;q=0.9")));
        assert!(!wants_events(&fields("Accept", "text/*")) && !wants_events(&Fields::new()));
    }
}
