//! The probes: requests that are sent to a site to examine a page.
//!
//! Invariant: every probe is a GET of the same page on the same host. It differs from the plain
//! probe only in the part that it tests. [`Probe::ALL`] limits the number of requests to a site.

use crate::HeaderLine;
use address::HttpUrl;
use message::{Fields, Method, RequestHead, ResponseHead, Version, names};
use semantics::{AcceptedCodings, SHARED_USER_AGENT, validation_fields};

/// One probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Probe {
    /// The page for a visitor without cookies, without content coding.
    Plain,
    /// With cookies of web analytics and of a consent banner.
    NoiseCookies,
    /// With query parameters of advertisements.
    NoiseParameters,
    /// With a cookie that no application sets.
    UnknownCookie,
    /// With the content codings that Petasos offers to an origin.
    Compressed,
    /// As `Compressed`, with the field Via, which every proxy adds.
    CompressedVia,
    /// With the conditions of a cache that has stored the plain response.
    Conditional,
    /// The plain probe again. It is the last one, so that parts that change with time have had time
    /// to change.
    PlainAgain,
}

/// The value of Via by which servers recognise requests from Petasos.
pub(crate) const VIA: &str = "1.1 petasos";

/// Cookies that scripts set in the browser and that an application should ignore.
pub(crate) const NOISE_COOKIES: &str = "_ga=GA1.1.1234567890.1234567890; _gid=GA1.1.1234567890.1234567890; _fbp=fb.1.1234567890.1234567890; \
     cookieconsent_status=dismiss";

/// Query parameters that advertisements and newsletters add to links.
pub(crate) const NOISE_PARAMETERS: &str = "utm_source=petasos&utm_medium=why&fbclid=petasos";

/// A cookie that no application sets.
pub(crate) const UNKNOWN_COOKIE: &str = "petasos_why=1";

impl Probe {
    /// All probes, in the order of sending.
    pub const ALL: [Self; 8] = [
        Self::Plain,
        Self::NoiseCookies,
        Self::NoiseParameters,
        Self::UnknownCookie,
        Self::Compressed,
        Self::CompressedVia,
        Self::Conditional,
        Self::PlainAgain,
    ];

    /// The probe's name in the JSON document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::NoiseCookies => "noise_cookies",
            Self::NoiseParameters => "noise_parameters",
            Self::UnknownCookie => "unknown_cookie",
            Self::Compressed => "compressed",
            Self::CompressedVia => "compressed_via",
            Self::Conditional => "conditional",
            Self::PlainAgain => "plain_again",
        }
    }

    /// Whether the probe makes sense if the plain response is a redirect or an error.
    pub const fn asks_about_any_answer(self) -> bool {
        matches!(self, Self::Plain | Self::PlainAgain)
    }

    /// The request of this probe. `plain` is the response to the plain probe; without a validator
    /// in it, there is no conditional probe.
    pub fn request(self, url: &HttpUrl, lines: &[HeaderLine], plain: &ResponseHead) -> Option<RequestHead> {
        let mut head = plain_request(url, lines);
        match self {
            Self::Plain | Self::PlainAgain => {}
            Self::NoiseCookies => add_cookies(&mut head.fields, NOISE_COOKIES),
            Self::UnknownCookie => add_cookies(&mut head.fields, UNKNOWN_COOKIE),
            Self::NoiseParameters => head.target = url.with_parameters(NOISE_PARAMETERS).into(),
            Self::Compressed | Self::CompressedVia => {
                head.fields.set(names::ACCEPT_ENCODING, AcceptedCodings::BROTLI_AND_GZIP.value());
                if self == Self::CompressedVia {
                    head.fields.set(names::VIA, VIA);
                }
            }
            Self::Conditional => {
                let conditions = validation_fields(plain);
                if conditions.is_empty() {
                    return None;
                }
                conditions.iter().for_each(|field| head.fields.push(field.name.clone(), field.value.clone()));
            }
        }
        Some(head)
    }
}

/// The request of the plain probe.
pub fn plain_request(url: &HttpUrl, lines: &[HeaderLine]) -> RequestHead {
    RequestHead {
        method: Method::Get,
        target: url.path_and_query().to_owned().into(),
        version: Version::Http11,
        fields: base_fields(url, lines),
    }
}

/// The fields of the plain probe: those that Petasos sends on a shareable fetch, and the user's
/// lines. A user's line replaces the field of the same name.
fn base_fields(url: &HttpUrl, lines: &[HeaderLine]) -> Fields {
    let given = |name: &str| lines.iter().any(|line| line.field().is(name));
    let mut fields = Fields::new();
    for (name, value) in
        [(names::HOST, url.authority()), (names::USER_AGENT, SHARED_USER_AGENT), ("Accept", "*/*")]
    {
        if !given(name) {
            fields.push(name, value.to_owned());
        }
    }
    for line in lines {
        fields.push(line.field().name.clone(), line.field().value.clone());
    }
    fields.push(names::ACCEPT_ENCODING, AcceptedCodings::NONE.value());
    fields.push(names::CONNECTION, "close");
    fields
}

/// Appends cookies to the existing ones in a single Cookie line, because servers read only one.
fn add_cookies(fields: &mut Fields, cookies: &str) {
    let own = fields.all(names::COOKIE).map(|line| &line[..]);
    let line = own.chain([cookies.as_bytes()]).collect::<Vec<_>>().join(&b"; "[..]);
    fields.set(names::COOKIE, line);
}

#[cfg(test)]
mod tests {
    use super::{NOISE_COOKIES, Probe};
    use crate::HeaderLine;
    use address::HttpUrl;
    use message::{Fields, RequestHead, ResponseHead, Status};
    use profiles::Policy;
    use semantics::{RequestClass, classify_request};

    fn asked(probe: Probe, lines: &[&str]) -> RequestHead {
        let lines: Vec<HeaderLine> = lines.iter().map(|line| line.parse().unwrap()).collect();
        let mut plain = ResponseHead::new(Status::OK);
        plain.fields.push("ETag", "\"1\"");
        probe.request(&HttpUrl::parse("http://a/b").unwrap(), &lines, &plain).unwrap()
    }

    fn values(fields: &Fields, name: &str) -> Vec<String> {
        fields.all(name).map(|value| value.escape_ascii().to_string()).collect()
    }

    #[test]
    fn probes_differ_from_the_plain_one_only_in_their_subject() {
        let plain = asked(Probe::Plain, &[]);
        assert_eq!(plain, asked(Probe::PlainAgain, &[]));
        for probe in Probe::ALL {
            let head = asked(probe, &[]);
            let new = head.fields.iter().filter(|field| !plain.fields.iter().any(|known| known == *field));
            let new: Vec<_> = new.map(|field| field.name.escape_ascii().to_string()).collect();
            let expected = match probe {
                Probe::Plain | Probe::PlainAgain | Probe::NoiseParameters => None,
                Probe::NoiseCookies | Probe::UnknownCookie => Some("Cookie"),
                Probe::Compressed => Some("Accept-Encoding"),
                Probe::CompressedVia => Some("Accept-Encoding Via"),
                Probe::Conditional => Some("If-None-Match"),
            };
            assert_eq!(new.join(" "), expected.unwrap_or_default(), "{probe:?}");
            assert_eq!(head.target != plain.target, probe == Probe::NoiseParameters, "{probe:?}");
        }
    }

    #[test]
    fn user_lines_replace_defaults_and_cookies_are_joined() {
        let head = asked(Probe::NoiseCookies, &["host: b.test", "User-Agent: x", "Cookie: s=1"]);
        assert_eq!(values(&head.fields, "Host"), ["b.test"]);
        assert_eq!(values(&head.fields, "User-Agent"), ["x"]);
        assert_eq!(values(&head.fields, "Cookie"), [format!("s=1; {NOISE_COOKIES}")]);
    }

    #[test]
    fn without_validator_there_is_no_conditional_probe() {
        let plain = ResponseHead::new(Status::OK);
        let url = HttpUrl::parse("http://a/").unwrap();
        assert_eq!(Probe::Conditional.request(&url, &[], &plain), None);
    }

    #[test]
    fn plain_probe_would_be_looked_up_by_the_edge() {
        let head = asked(Probe::Plain, &[]);
        let class = classify_request(&head, false, &Policy::default_profile());
        assert!(matches!(class, RequestClass::Lookup(_)), "{class:?}");
    }
}
