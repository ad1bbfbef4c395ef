//! The questions that are put to a site: which they are, and the request of each.
//!
//! Invariant: every question is a GET of the same page on the same host; they differ from the plain one in exactly
//! what they are about. [`Probe::ALL`] bounds how often a site is asked.

use crate::{HeaderLine, SiteUrl};
use message::{Fields, Method, RequestHead, ResponseHead, Version, names};
use semantics::{AcceptedCodings, SHARED_USER_AGENT, validation_fields};

/// One question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Probe {
    /// The page as a visitor without cookies gets it, without content coding.
    Plain,
    /// With the cookies of audience measurement and of a consent banner.
    NoiseCookies,
    /// With the parameters of advertisements.
    NoiseParameters,
    /// With a cookie that nobody has ever set.
    UnknownCookie,
    /// With the content codings that browsers accept.
    Compressed,
    /// The same with Via, as every request has that comes through a proxy.
    CompressedVia,
    /// With the conditions that a cache sends which has the plain answer.
    Conditional,
    /// The plain question again. It comes last, so that whatever changes with time has had time to.
    PlainAgain,
}

/// The field by which servers see that a request came through Petasos.
pub(crate) const VIA: &str = "1.1 petasos";

/// Cookies that scripts in the browser set and no application should look at.
pub(crate) const NOISE_COOKIES: &str = "_ga=GA1.1.1234567890.1234567890; _gid=GA1.1.1234567890.1234567890; _fbp=fb.1.1234567890.1234567890; \
     cookieconsent_status=dismiss";

/// Parameters that advertisements and newsletters add to links.
pub(crate) const NOISE_PARAMETERS: &str = "utm_source=petasos&utm_medium=why&fbclid=petasos";

/// A cookie of no application.
pub(crate) const UNKNOWN_COOKIE: &str = "petasos_why=1";

impl Probe {
    /// Every question in the order in which they are put.
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

    /// The name in the JSON document.
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

    /// Whether the question is worth asking after a plain answer that is no page (a redirect or an error).
    pub const fn asks_about_any_answer(self) -> bool {
        matches!(self, Self::Plain | Self::PlainAgain)
    }

    /// The request after `plain`, the answer to the plain question; none if that answer has no validator and this
    /// is the conditional question.
    pub fn request(self, url: &SiteUrl, lines: &[HeaderLine], plain: &ResponseHead) -> Option<RequestHead> {
        let mut head = plain_request(url, lines);
        match self {
            Self::Plain | Self::PlainAgain => {}
            Self::NoiseCookies => add_cookies(&mut head.fields, NOISE_COOKIES),
            Self::UnknownCookie => add_cookies(&mut head.fields, UNKNOWN_COOKIE),
            Self::NoiseParameters => head.target = url.target_with(NOISE_PARAMETERS).into(),
            Self::Compressed | Self::CompressedVia => {
                head.fields.set(names::ACCEPT_ENCODING, AcceptedCodings::BrotliAndGzip.value());
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

/// The plain question.
pub(crate) fn plain_request(url: &SiteUrl, lines: &[HeaderLine]) -> RequestHead {
    RequestHead {
        method: Method::Get,
        target: url.target().to_owned().into(),
        version: Version::Http11,
        fields: base_fields(url, lines),
    }
}

/// The fields of the plain question: what Petasos sends on a fetch whose answer may be shared, and the user's own.
fn base_fields(url: &SiteUrl, lines: &[HeaderLine]) -> Fields {
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
    fields.push(names::ACCEPT_ENCODING, AcceptedCodings::Identity.value());
    fields.push(names::CONNECTION, "close");
    fields
}

/// Adds cookies to those there are: servers read one Cookie line.
fn add_cookies(fields: &mut Fields, cookies: &str) {
    let own = fields.all(names::COOKIE).map(|line| &line[..]);
    let line = own.chain([cookies.as_bytes()]).collect::<Vec<_>>().join(&b"; "[..]);
    fields.set(names::COOKIE, line);
}

#[cfg(test)]
mod tests {
    use super::{NOISE_COOKIES, Probe};
    use crate::{HeaderLine, SiteUrl};
    use message::{Fields, RequestHead, ResponseHead, Status};
    use semantics::{Policy, RequestClass, classify_request};

    fn asked(probe: Probe, lines: &[&str]) -> RequestHead {
        let lines: Vec<HeaderLine> = lines.iter().map(|line| line.parse().unwrap()).collect();
        let mut plain = ResponseHead::new(Status::OK);
        plain.fields.push("ETag", "\"1\"");
        probe.request(&SiteUrl::parse("http://a/b").unwrap(), &lines, &plain).unwrap()
    }

    fn values(fields: &Fields, name: &str) -> Vec<String> {
        fields.all(name).map(|value| value.escape_ascii().to_string()).collect()
    }

    #[test]
    fn questions_differ_from_the_plain_one_in_what_they_are_about() {
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
    fn the_users_lines_replace_ours_and_are_joined_by_our_cookies() {
        let head = asked(Probe::NoiseCookies, &["host: b.test", "User-Agent: x", "Cookie: s=1"]);
        assert_eq!(values(&head.fields, "Host"), ["b.test"]);
        assert_eq!(values(&head.fields, "User-Agent"), ["x"]);
        assert_eq!(values(&head.fields, "Cookie"), [format!("s=1; {NOISE_COOKIES}")]);
    }

    #[test]
    fn without_validators_there_is_no_conditional_question() {
        let plain = ResponseHead::new(Status::OK);
        let url = SiteUrl::parse("http://a/").unwrap();
        assert_eq!(Probe::Conditional.request(&url, &[], &plain), None);
    }

    #[test]
    fn the_plain_question_is_one_that_petasos_would_look_up() {
        let head = asked(Probe::Plain, &[]);
        let class = classify_request(&head, false, &Policy::default_profile());
        assert!(matches!(class, RequestClass::Lookup(_)), "{class:?}");
    }
}
