//! The parts of a response that may be personal, for comparing the edge's response with WordPress'
//! own.

use crate::site::cookies;
use testkit::Response;

/// The personal parts of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PersonalParts {
    status: u16,
    kind: Option<String>,
    location: Option<String>,
    /// The content without volatile parts.
    pub(crate) content: String,
    /// The cookies that the response sets, without volatile values.
    pub(crate) cookies: Vec<String>,
}

impl PersonalParts {
    /// Extracts the parts from a response.
    pub(crate) fn of(answer: &Response) -> Self {
        let field = |name: &str| answer.field(name).map(str::to_owned);
        Self {
            status: answer.status,
            kind: field("Content-Type"),
            location: field("Location"),
            content: steady(String::from_utf8_lossy(&answer.body).into_owned()),
            cookies: cookies(answer).iter().map(|cookie| lasting(cookie)).collect(),
        }
    }

    /// Whether this response is acceptable for a visitor who would receive `own` from WordPress. It
    /// may set fewer cookies, because shared responses set none.
    pub(crate) fn is_as(&self, own: &Self) -> bool {
        (self.status, &self.kind, &self.location, &self.content)
            == (own.status, &own.kind, &own.location, &own.content)
            && self.cookies.iter().all(|cookie| own.cookies.contains(cookie))
    }

    /// Describes the difference from `own` for the test's message.
    pub(crate) fn difference(&self, own: &Self) -> String {
        let line = self.content.lines().zip(own.content.lines()).find(|(here, there)| here != there);
        let head = |answer: &Self| {
            format!("{} {:?} {:?} {:?}", answer.status, answer.kind, answer.location, answer.cookies)
        };
        format!("got {}\nown {}\n{line:?}", head(self), head(own))
    }
}

/// Removes the parts of a page that differ every time: the time it was generated and a proposed
/// password.
fn steady(page: String) -> String {
    let passing = [("\"time\":\"", "\""), (" data-pw=\"", "\"")];
    passing.iter().fold(page, |page, (from, to)| match page.split_once(from) {
        Some((before, rest)) => format!("{before}{}", rest.split_once(to).map_or("", |(_, after)| after)),
        None => page,
    })
}

/// Removes the parts of a cookie that differ every time. The user's name in a login cookie is kept.
fn lasting(cookie: &str) -> String {
    match cookie.split_once('=') {
        Some((name, _)) if name.starts_with("wp-settings-time-") => name.to_owned(),
        Some((_, value)) if value.contains("%7C") => {
            cookie.split("%7C").next().unwrap_or_default().to_owned()
        }
        _ => cookie.to_owned(),
    }
}
