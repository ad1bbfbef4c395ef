//! What of an answer is its visitor's, to compare what the edge says with what WordPress itself says.

use crate::site::cookies;
use testkit::Response;

/// What makes an answer somebody's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    status: u16,
    kind: Option<String>,
    location: Option<String>,
    /// The content.
    pub(crate) content: String,
    /// The cookies that it sets.
    pub(crate) cookies: Vec<String>,
}

impl Answer {
    /// Takes it from a response.
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

    /// Whether this may have come to somebody who would get `own` from WordPress. What the edge shares sets no cookies.
    pub(crate) fn is_as(&self, own: &Self) -> bool {
        (self.status, &self.kind, &self.location, &self.content)
            == (own.status, &own.kind, &own.location, &own.content)
            && self.cookies.iter().all(|cookie| own.cookies.contains(cookie))
    }

    /// In what this differs from `own`, for people.
    pub(crate) fn difference(&self, own: &Self) -> String {
        let line = self.content.lines().zip(own.content.lines()).find(|(here, there)| here != there);
        let head = |answer: &Self| {
            format!("{} {:?} {:?} {:?}", answer.status, answer.kind, answer.location, answer.cookies)
        };
        format!("got {}\nown {}\n{line:?}", head(self), head(own))
    }
}

/// A page without what is another thing each time: the second it was made in, and a password that is proposed.
fn steady(page: String) -> String {
    let passing = [("\"time\":\"", "\""), (" data-pw=\"", "\"")];
    passing.iter().fold(page, |page, (from, to)| match page.split_once(from) {
        Some((before, rest)) => format!("{before}{}", rest.split_once(to).map_or("", |(_, after)| after)),
        None => page,
    })
}

/// A cookie without what is another thing each time; of a login the user's name stays.
fn lasting(cookie: &str) -> String {
    match cookie.split_once('=') {
        Some((name, _)) if name.starts_with("wp-settings-time-") => name.to_owned(),
        Some((_, value)) if value.contains("%7C") => {
            cookie.split("%7C").next().unwrap_or_default().to_owned()
        }
        _ => cookie.to_owned(),
    }
}
