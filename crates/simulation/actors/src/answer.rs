//! The honest response of the origin to a request, before any fault.
//!
//! Invariant: a function of the request, the page and its state. A page with only a modification
//! date is judged by whole seconds: an edit within the second of the client's copy is not seen.

use crate::content::{self, ContentId};
use crate::exchange::RangeSpec;
use crate::moment::{http_date, parse_http_date};
use crate::page::{Framing, PageKind, PagePlan};
use crate::routing::HIDDEN_FIELD;
use crate::site::{NICK_COOKIE, Recognised, USER_COOKIE};
use crate::template;
use message::Fields;

/// A response that is ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: Fields,
    pub(crate) body: Vec<u8>,
    pub(crate) framing: Framing,
    /// The content, unless the response has none of the site.
    pub(crate) id: Option<ContentId>,
}

/// The field by which a response tells the ledger its tags. No cache knows it.
pub(crate) const TAGS_FIELD: &str = "X-Sim-Tags";

/// The facts of a request that its answer depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conditions<'a> {
    pub(crate) is_head: bool,
    pub(crate) if_none_match: Option<&'a str>,
    pub(crate) if_modified_since: Option<&'a str>,
    pub(crate) range: Option<&'a str>,
    pub(crate) if_range: Option<&'a str>,
    pub(crate) user: Option<&'a str>,
    pub(crate) accepts_gzip: bool,
    pub(crate) assembles: bool,
}

impl<'a> Conditions<'a> {
    /// Reads the fields of a request.
    pub(crate) fn of(fields: &'a Fields, is_head: bool) -> Self {
        let text = |name| fields.first(name).and_then(|value| std::str::from_utf8(value).ok());
        Self {
            is_head,
            if_none_match: text("If-None-Match"),
            if_modified_since: text("If-Modified-Since"),
            range: text("Range"),
            if_range: text("If-Range"),
            user: user_of(fields),
            accepts_gzip: text("Accept-Encoding").is_some_and(|value| accepts(value, "gzip")),
            assembles: template::assembles(fields),
        }
    }
}

/// Whether a client with this `Accept-Encoding` accepts a coding. The only weight of zero that
/// clients of a simulation write is `q=0`.
pub(crate) fn accepts(value: &str, coding: &str) -> bool {
    value.split(',').any(|member| {
        let (name, weight) = member.split_once(';').unwrap_or((member, ""));
        name.trim() == coding && weight.trim() != "q=0"
    })
}

/// The user that the cookies of a request name.
pub(crate) fn user_of(fields: &Fields) -> Option<&str> {
    cookie(fields, USER_COOKIE)
}

/// What the origin learns from the cookies of a request.
pub(crate) fn recognised(fields: &Fields) -> Recognised<'_> {
    Recognised { user: user_of(fields), nick: cookie(fields, NICK_COOKIE) }
}

/// The value of a cookie.
fn cookie<'a>(fields: &'a Fields, wanted: &str) -> Option<&'a str> {
    let lines = fields.iter().filter(|field| field.is("Cookie"));
    let lines = lines.filter_map(|field| std::str::from_utf8(&field.value).ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == wanted).map(|(_, value)| value).next()
}

/// The response with `id` of `page`, edited in the second `modified_secs`.
pub(crate) fn answer(
    asked: Conditions<'_>,
    page: &PagePlan,
    id: &ContentId,
    tags: &[String],
    modified_secs: u64,
) -> Answer {
    let mut fields = Fields::new();
    let is_template = asked.assembles && !page.template.is_empty();
    let etag = page.etag(id);
    let etag = if is_template { template::etag(&etag) } else { etag };
    let modified = http_date(modified_secs);
    if page.validator.has_etag() {
        fields.push("ETag", etag.clone());
    }
    if page.validator.has_date() {
        fields.push("Last-Modified", modified.clone());
    }
    fields.push(HIDDEN_FIELD, "1");
    push_caching(&mut fields, page, id, tags, asked.user);
    if is_template {
        template::declare(&mut fields);
    }
    if is_unmodified(asked, page, &etag, modified_secs) {
        return Answer { status: 304, fields, body: Vec::new(), framing: page.framing, id: Some(id.clone()) };
    }
    fields.push("X-Sim", id.to_string());
    fields.push("Content-Type", if page.kind == PageKind::Static { "text/css" } else { "text/html" });
    if page.kind == PageKind::Redirect {
        fields.push("Location", "/");
    }
    if is_template {
        let body = template::body(page, id);
        return Answer { status: page.status(), fields, body, framing: page.framing, id: Some(id.clone()) };
    }
    let bytes = page.length_bytes(id.version);
    let validator_holds = match asked.if_range {
        None => true,
        Some(tag) if tag.starts_with('"') => page.validator.has_etag() && tag == etag,
        Some(date) => page.validator.has_date() && date == modified,
    };
    let range = asked.range.filter(|_| page.has_ranges() && validator_holds && !asked.is_head);
    // Several ranges get the whole content, which RFC 9110 section 14.2 permits.
    let range = range.and_then(|range| RangeSpec::parse(range.strip_prefix("bytes=")?));
    if page.is_coded && asked.accepts_gzip {
        fields.push("Content-Encoding", "gzip");
        let body = page.coded_form(id);
        return Answer { status: page.status(), fields, body, framing: page.framing, id: Some(id.clone()) };
    }
    let id = Some(id.clone());
    match range.map(|range| range.resolve(bytes)) {
        Some(Some((first, last))) => {
            fields.push("Content-Range", format!("bytes {first}-{last}/{bytes}"));
            let body = id.as_ref().map(|id| content::slice(id, first, last + 1)).unwrap_or_default();
            Answer { status: 206, fields, body, framing: page.framing, id }
        }
        Some(None) => {
            fields.push("Content-Range", format!("bytes */{bytes}"));
            Answer { status: 416, fields, body: Vec::new(), framing: Framing::Length, id }
        }
        None => {
            let body = id.as_ref().map(|id| content::slice(id, 0, bytes)).unwrap_or_default();
            Answer { status: page.status(), fields, body, framing: page.framing, id }
        }
    }
}

/// The fields about caching.
fn push_caching(fields: &mut Fields, page: &PagePlan, id: &ContentId, tags: &[String], user: Option<&str>) {
    // A page that greets says nothing about that.
    if id.user == content::NONE || page.kind != PageKind::Personal {
        let directives = page.lifetime.directives();
        if !directives.is_empty() {
            fields.push("Cache-Control", directives);
        }
    } else {
        fields.push("Cache-Control", "private, max-age=60");
    }
    if let (PageKind::Personal, Some(user)) = (page.kind, user) {
        fields.push("Set-Cookie", format!("{USER_COOKIE}={user}; Path=/"));
    }
    match page.kind {
        PageKind::Language => fields.push("Vary", "Accept-Language"),
        PageKind::Personal => fields.push("Vary", "Cookie"),
        _ => {}
    }
    if page.is_coded {
        fields.push("Vary", "Accept-Encoding");
    }
    if page.ignores_query {
        fields.push("No-Vary-Search", "params");
    }
    if !tags.is_empty() {
        fields.push(page.tag_field, tags.join(" "));
        fields.push(TAGS_FIELD, tags.join(" "));
        let groups: Vec<_> = tags.iter().map(|tag| format!("\"{tag}\"")).collect();
        fields.push("Cache-Groups", groups.join(", "));
    }
}

fn is_unmodified(asked: Conditions<'_>, page: &PagePlan, etag: &str, modified_secs: u64) -> bool {
    if page.status() != 200 {
        return false;
    }
    match (asked.if_none_match, asked.if_modified_since) {
        (Some(tags), _) => page.validator.has_etag() && tags.split(',').any(|tag| tag.trim() == etag),
        (None, Some(date)) => {
            page.validator.has_date() && parse_http_date(date).is_some_and(|date| modified_secs <= date)
        }
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Conditions, answer, user_of};
    use crate::moment::http_date;
    use crate::page::{PageKind, PagePlan, Validator};
    use message::Fields;
    use world::Random;

    fn page(validator: Validator) -> PagePlan {
        let kind = PageKind::Shared;
        PagePlan {
            kind,
            validator,
            bytes: 1000,
            is_coded: false,
            ..PagePlan::random(&mut Random::new(2), 2, 1)
        }
    }

    fn ask(page: &PagePlan, version: u64, asked: Conditions<'_>) -> Answer {
        let id = page.identify(&page.path, version, "-", "en");
        answer(asked, page, &id, &page.tags, 1000)
    }

    #[test]
    fn entity_tag_of_the_present_version_is_confirmed() {
        let page = page(Validator::Both);
        let etag = page.identify(&page.path, 2, "-", "en").etag();
        let asked = Conditions { if_none_match: Some(&etag), ..Conditions::default() };
        assert_eq!(ask(&page, 2, asked).status, 304);
        assert_eq!(ask(&page, 3, asked).status, 200);
        let date = http_date(2000);
        let both = Conditions { if_modified_since: Some(&date), ..asked };
        assert_eq!(ask(&page, 3, both).status, 200, "the entity tag takes precedence");
    }

    #[test]
    fn edit_within_the_same_second_is_not_seen_by_date() {
        let page = page(Validator::LastModified);
        let (same, before) = (http_date(1000), http_date(999));
        let asked = |date| Conditions { if_modified_since: Some(date), ..Conditions::default() };
        assert_eq!(ask(&page, 3, asked(&same)).status, 304);
        assert_eq!(ask(&page, 3, asked(&before)).status, 200);
    }

    #[test]
    fn ranges_are_sent_if_their_validator_holds() {
        let page = page(Validator::Etag);
        let range = Conditions { range: Some("bytes=10-19"), ..Conditions::default() };
        let part = ask(&page, 1, range);
        assert_eq!((part.status, part.body.len()), (206, 10));
        let other = Conditions { if_range: Some("\"other\""), ..range };
        assert_eq!(ask(&page, 1, other).status, 200);
        let beyond = Conditions { range: Some("bytes=5000-"), ..Conditions::default() };
        assert_eq!(ask(&page, 1, beyond).status, 416);
        let several = Conditions { range: Some("bytes=0-1,5-6"), ..Conditions::default() };
        assert_eq!(ask(&page, 1, several).status, 200);
    }

    #[test]
    fn coded_form_is_sent_to_clients_that_accept_it() {
        let page = PagePlan { is_coded: true, bytes: 10_000, ..page(Validator::Etag) };
        let plain = ask(&page, 1, Conditions::default());
        let coded = ask(&page, 1, Conditions { accepts_gzip: true, ..Conditions::default() });
        assert_eq!(plain.body.len(), page.length_bytes(1));
        assert_eq!(coded.fields.first("Content-Encoding").map(|coding| &coding[..]), Some(&b"gzip"[..]));
        assert!(coded.body.len() < plain.body.len() && !plain.fields.has("Content-Encoding"));
        // One tag names both forms, so that it must be weak.
        assert_eq!(plain.fields.first("ETag"), coded.fields.first("ETag"));
        assert!(plain.fields.first("ETag").unwrap().starts_with(b"W/"));
    }

    #[test]
    fn user_is_read_from_the_cookies() {
        let mut fields = Fields::new();
        fields.push("Cookie", "_ga=1; session=u2");
        assert_eq!(user_of(&fields), Some("u2"));
        assert_eq!(user_of(&Fields::new()), None);
    }
}
