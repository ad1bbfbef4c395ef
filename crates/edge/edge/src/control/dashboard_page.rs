//! Parts of the dashboard's responses: its parameters, the figures of a page, and heads.
//!
//! Invariant: every page forbids scripts, styles and frames that are not the dashboard's own.

use crate::control::figures;
use crate::shared::Shared;
use ::dashboard::{FileCertificate, POINTS_MAX, POLICY, Range, Reports, View, fields};
use api::dashboard::History;
use bytes::Bytes;
use message::{RequestHead, ResponseHead, Status, names};
use purge::PurgeReply;
use std::sync::Arc;

/// The values of the minutes of a period; without series if they cannot be read.
pub(crate) async fn history(shared: &Arc<Shared>, range: Range) -> History {
    let read = figures::history(shared, range.minutes(), POINTS_MAX).await;
    read.unwrap_or_else(|| History { first_minute: 0, minutes_per_value: 1, series: Vec::new() })
}

/// The certificates that serve.
fn certificates(shared: &Shared) -> Vec<FileCertificate> {
    let expiries = shared.listeners.expiries().into_iter();
    expiries.map(|(names, at)| FileCertificate { names, expires_secs: at.as_secs() }).collect()
}

/// Calls `render` with the figures of now, and the values of the minutes of a period.
pub(crate) fn with_view<T>(
    shared: &Shared,
    range: Range,
    history: &History,
    render: impl FnOnce(View<'_>) -> T,
) -> T {
    let data = figures::data(shared);
    let samples = shared.dashboard.sample(shared.clock.monotonic(), &data);
    render(View {
        data: &data,
        samples: &samples,
        history,
        range,
        certificates: &certificates(shared),
        changes: &shared.dashboard.changes.recent(),
        reports: Reports::NoDirectory,
        summary: None,
    })
}

/// The parameters of a query.
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(crate) fn of(head: &RequestHead) -> Self {
        let mark = head.target.iter().position(|&octet| octet == b'?');
        let query = mark.and_then(|mark| head.target.get(mark + 1..)).unwrap_or_default();
        Self(url::form_urlencoded::parse(query).into_owned().collect())
    }

    /// The value of the first parameter with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn range(&self) -> Range {
        self.get(fields::RANGE).and_then(Range::by_name).unwrap_or_default()
    }
}

/// A page with one message.
pub(crate) fn notice(code: u16, title: &str, text: &str) -> PurgeReply {
    html(code, ::dashboard::notice(title, text, None))
}

pub(crate) fn html(code: u16, text: String) -> PurgeReply {
    reply(code, "text/html; charset=utf-8", POLICY, text.into())
}

pub(crate) fn content(media_type: &'static str, text: &'static str) -> PurgeReply {
    reply(200, media_type, POLICY, Bytes::from_static(text.as_bytes()))
}

/// A redirection to a path of this address, which may set a cookie.
pub(crate) fn redirect(path: &str, cookie: Option<&str>) -> PurgeReply {
    let mut redirect = reply(303, "text/plain; charset=utf-8", POLICY, Bytes::new());
    redirect.head.fields.push(names::LOCATION, path.to_owned());
    if let Some(cookie) = cookie {
        redirect.head.fields.push(names::SET_COOKIE, cookie.to_owned());
    }
    redirect
}

pub(crate) fn reply(code: u16, media_type: &'static str, policy: &'static str, content: Bytes) -> PurgeReply {
    let mut head = ResponseHead::new(Status::from_code(code).unwrap_or(Status::OK));
    for (name, value) in [
        (names::CONTENT_TYPE, media_type),
        (names::CACHE_CONTROL, "no-store"),
        ("Content-Security-Policy", policy),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        // Without a referrer at all, browsers would send forms with `Origin: null`.
        ("Referrer-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    ] {
        head.fields.push(name, value);
    }
    PurgeReply { head, content }
}
