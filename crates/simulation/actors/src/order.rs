//! One planned purge: its dialect, its scope and its text.
//!
//! Invariant: the text means the scope, as docs/purging.md says. A plan names pages by their paths,
//! so that removing other pages does not change it.

use crate::dialect::{Dialect, Softness};
use crate::event::Scope;
use crate::page::PagePlan;
use crate::site::SitePlan;
use std::fmt;
use world::Random;

/// The number of tags of a long list, which is longer than the head of any other request may be.
const LONG_TAGS: usize = 4000;

/// How often an author edits a page again at once, and the longest pause before it in milliseconds.
const AGAIN_PERCENT: u64 = 30;
const AGAIN_MS_MAX: u64 = 400;

/// How often an author gives a page a tag that only a confirmation brings, and the longest pause
/// between two steps of this in milliseconds.
const RETAGS_PERCENT: u64 = 6;
const RETAGS_MS_MAX: u64 = 1500;

/// One planned edit, and the purge that follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPurge {
    /// Its number in the plan.
    pub number: u64,
    /// The pause before it in milliseconds.
    pub pause_ms: u64,
    /// The path of the page that the author edits first, if any.
    pub edits: Option<String>,
    /// A tag that the edited page gets.
    pub new_tag: Option<String>,
    /// Whether the page gets the tag without a new version.
    pub only_retags: bool,
    /// The pause between the edit and the purge in milliseconds.
    pub after_edit_ms: u64,
    /// The form of the purge. `None`: the author edits without a purge.
    pub dialect: Option<Dialect>,
    /// The path of the page that it means.
    pub path: String,
    /// The prefix that it means.
    pub prefix: String,
    /// The tags that it means.
    pub tags: Vec<String>,
    /// Whether it asks for a soft purge.
    pub wants_soft: bool,
    /// Whether it asks for a refill.
    pub wants_refill: bool,
    /// Whether the client closes the connection before the answer.
    pub is_abandoned: bool,
    /// The pause in milliseconds after which the author looks at the page, if at all.
    pub looks_after_ms: Option<u64>,
    /// Whether edit, purge and look are at the other host of the site.
    pub is_other_host: bool,
    /// Whether a list of tags is longer than the head of any other request.
    pub is_long: bool,
    /// The pause in milliseconds after which the author has looked at the page, edits it again and
    /// repeats the purge, if at all. Two edits are then often within a second.
    pub again_after_ms: Option<u64>,
    /// The pause in milliseconds between two steps in which the author first gives the page a tag
    /// of its own without a new version, lets the edge confirm the page, and purges a new version
    /// by this tag, if at all.
    pub retags_ms: Option<u64>,
}

/// A purge as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPurge {
    /// The method, by which the reply is framed.
    pub method: String,
    /// Head and body.
    pub text: String,
    /// The pages that it means.
    pub scope: Scope,
    /// Whether it is soft.
    pub is_soft: bool,
    /// Whether it goes to the admin address.
    pub is_admin: bool,
}

/// The form of a purge: method, target, further fields and content.
struct Form {
    method: &'static str,
    target: String,
    fields: String,
    content: Option<String>,
    scope: Scope,
}

impl PlannedPurge {
    /// A purge by chance; `None` if the site has no pages.
    pub fn random(random: &mut Random, number: u64, site: &SitePlan) -> Option<Self> {
        let page = random_page(random, site)?;
        let other = random_page(random, site)?;
        let pause_ms = random.between(1, 30_000);
        let edits = if random.percent(90) { page } else { other };
        let drawn = random.choice(&Dialect::ALL).copied();
        // Purges of everything hide what narrower ones miss, so that they are rare.
        let is_wide = |dialect| {
            matches!(
                dialect,
                Dialect::ClearCache
                    | Dialect::JsonHost
                    | Dialect::JsonAll
                    | Dialect::FastlyAll
                    | Dialect::CloudflareAll
            )
        };
        let is_rare = random.percent(60);
        let dialect = drawn.map(|drawn| if is_wide(drawn) && is_rare { Dialect::Purge } else { drawn });
        let section = page.path.split('/').nth(1).unwrap_or_default();
        let tag = match random.below(10) {
            0..6 => format!("page-{}", page.number),
            6..8 => format!("section-{}", page.number % 3),
            8 => format!("topic-{}", random.below(3)),
            _ => "all".to_owned(),
        };
        let looks = random.percent(60);
        let looks_after_ms = if random.percent(50) { 0 } else { random.between(1, 2000) };
        let mut tags = vec![tag];
        if random.percent(20) {
            tags.push(format!("page-{}", other.number));
        }
        Some(Self {
            number,
            pause_ms,
            edits: random.percent(85).then(|| edits.path.clone()),
            new_tag: random.percent(25).then(|| format!("topic-{}", random.below(3))),
            only_retags: random.percent(40),
            after_edit_ms: if random.percent(50) { 0 } else { random.between(1, 1500) },
            dialect: dialect.filter(|_| random.percent(90)),
            path: page.path.clone(),
            prefix: format!("/{section}/"),
            tags,
            wants_soft: random.percent(25),
            wants_refill: random.percent(20),
            is_abandoned: random.percent(4),
            looks_after_ms: looks.then_some(looks_after_ms),
            is_other_host: random.percent(30) && site.other_host.is_some(),
            is_long: random.percent(30),
            again_after_ms: random.percent(AGAIN_PERCENT).then(|| random.below(AGAIN_MS_MAX)),
            retags_ms: random.percent(RETAGS_PERCENT).then(|| random.below(RETAGS_MS_MAX)),
        })
    }

    /// The steps by which a page gets a tag that only a confirmation brings: the tag and a soft
    /// purge, then a new version and the purge by the tag.
    pub(crate) fn retagging(&self) -> [Self; 2] {
        let tag = format!("own-{}", self.number);
        let first = Self {
            edits: Some(self.path.clone()),
            new_tag: Some(tag.clone()),
            only_retags: true,
            dialect: Some(Dialect::Purge),
            wants_soft: true,
            wants_refill: false,
            is_abandoned: false,
            is_long: false,
            ..self.clone()
        };
        let dialect = Some(Dialect::SurrogateKey);
        let then = Self { new_tag: None, dialect, tags: vec![tag], wants_soft: false, ..first.clone() };
        [first, then]
    }

    /// The text of the purge. `token` is the one that the edge asks for.
    pub fn write(&self, site: &SitePlan, token: Option<&str>) -> Option<WrittenPurge> {
        let dialect = self.dialect?;
        let is_soft = match dialect.softness() {
            Softness::Always => true,
            Softness::Never => false,
            Softness::AsAsked => self.wants_soft,
        };
        let form = if dialect.is_admin() {
            self.admin_form(dialect, site, is_soft)
        } else {
            self.visitors_form(dialect, site)
        };
        let Form { method, target, fields, content, scope } = form;
        // A call by tags or for everything means all hosts, unless it names a site.
        let is_wide = matches!(dialect, Dialect::JsonTag | Dialect::JsonAllTags | Dialect::JsonAll);
        let scope = if is_wide { scope } else { scope.at(site, self.is_other_host) };
        let host = if dialect.is_admin() { "localhost" } else { site.host_name(self.is_other_host) };
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}");
        if is_soft {
            text.push_str("Fastly-Soft-Purge: 1\r\n");
        }
        if self.wants_refill && !dialect.is_admin() && dialect != Dialect::RefreshGet {
            text.push_str("Petasos-Refill: 1\r\n");
        }
        if let Some(token) = token {
            text.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        if let Some(content) = &content {
            text.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {}\r\n",
                content.len()
            ));
        } else if method == "POST" {
            text.push_str("Content-Length: 0\r\n");
        }
        text.push_str("\r\n");
        text.push_str(&content.unwrap_or_default());
        Some(WrittenPurge { method: method.to_owned(), text, scope, is_soft, is_admin: dialect.is_admin() })
    }

    /// The form of a purge request at the visitors' address.
    fn visitors_form(&self, dialect: Dialect, site: &SitePlan) -> Form {
        let Self { path, prefix, tags, .. } = self;
        let form = |method, target: &str, fields: String, scope| {
            let target = target.to_owned();
            Form { method, target, fields, content: None, scope }
        };
        let page = || Scope::Target(path.clone());
        let section = || Scope::Prefix(prefix.clone());
        let tagged = || Scope::AnyTag(tags.clone());
        // Tags that no page has stand before those of pages, so that each of them must be read.
        let others = (0..if self.is_long { LONG_TAGS } else { 0 }).map(|number| format!("none-{number}"));
        let words = others.chain(tags.iter().cloned()).collect::<Vec<_>>().join(" ");
        let none = String::new();
        match dialect {
            Dialect::AbsolutePurge => {
                let host = site.host_name(self.is_other_host);
                form("PURGE", &format!("http://{host}{path}"), none, page())
            }
            Dialect::Ban => form("BAN", path, none, page()),
            Dialect::UriBan => form("URIBAN", path, none, page()),
            Dialect::Refresh => form("REFRESH", path, none, page()),
            Dialect::RefreshGet => form("GET", path, "X-Refresh: 1\r\n".to_owned(), page()),
            Dialect::SurrogateKey => form("PURGE", "/", format!("Surrogate-Key: {words}\r\n"), tagged()),
            Dialect::CacheTags => form("PURGE", "/", format!("Cache-Tags: {}\r\n", tags.join("|")), tagged()),
            Dialect::TagPattern => {
                form("BAN", "/", format!("X-Cache-Tags: (^|,)({})(,|$)\r\n", tags.join("|")), tagged())
            }
            Dialect::XkeyPurge => form("PURGEKEYS", "/", format!("xkey-purge: {words}\r\n"), tagged()),
            Dialect::XkeySoftPurge => {
                form("PURGEKEYS", "/", format!("xkey-softpurge: {words}\r\n"), tagged())
            }
            Dialect::UrlCondition => form("BAN", "/", format!("X-Url: ^{path}$\r\n"), page()),
            Dialect::Pattern => {
                form("PURGE", &format!("{prefix}.*"), "X-Purge-Method: regex\r\n".to_owned(), section())
            }
            Dialect::Wildcard => form("PURGE", &format!("{prefix}*"), none, section()),
            Dialect::ClearCache => form("PURGE", "/", "Clear-Cache: true\r\n".to_owned(), Scope::Everything),
            _ => form("PURGE", path, none, page()),
        }
    }

    /// The form of a call at the admin address.
    fn admin_form(&self, dialect: Dialect, site: &SitePlan, is_soft: bool) -> Form {
        let Self { path, prefix, tags, .. } = self;
        let host = site.host_name(self.is_other_host);
        let first_tag = tags.first().cloned().unwrap_or_default();
        let form = |target: String, content: Option<String>, scope| Form {
            method: "POST",
            target,
            fields: String::new(),
            content,
            scope,
        };
        let refill = if self.wants_refill { ",\"refill\":true" } else { "" };
        let native = |kind: &str, selectors: &str, more: &str, scope| {
            let purge = !is_soft;
            let start = format!("{{\"type\":\"{kind}\",\"purge\":{purge}{refill}{more}");
            let selectors =
                if selectors.is_empty() { "}".to_owned() } else { format!(",\"selectors\":[{selectors}]}}") };
            form("/purge".to_owned(), Some(start + &selectors), scope)
        };
        let quoted = quoted(tags);
        let page = || Scope::Target(path.clone());
        let section = || Scope::Prefix(prefix.clone());
        let tagged = || Scope::AnyTag(tags.clone());
        let zone =
            |content| form(format!("/client/v4/zones/{host}/purge_cache"), Some(content), Scope::Everything);
        match dialect {
            Dialect::JsonPrefix => native("uri-prefix", &format!("\"http://{host}{prefix}\""), "", section()),
            Dialect::JsonTag => native("tag", &quoted, "", tagged()),
            Dialect::JsonAllTags => {
                native("tag", &quoted, ",\"match\":\"all\"", Scope::AllTags(tags.clone()))
            }
            Dialect::JsonBan => native("ban", &format!("\"req.url ~ ^{prefix}\""), "", section()),
            Dialect::JsonHost => native("host", &format!("\"{host}\""), "", Scope::Everything),
            Dialect::JsonAll => native("all", "", "", Scope::Everything),
            Dialect::FastlyKey => {
                form(format!("/service/{host}/purge/{first_tag}"), None, Scope::AnyTag(vec![first_tag]))
            }
            Dialect::FastlyKeys => {
                let content = format!("{{\"surrogate_keys\":[{quoted}]}}");
                form(format!("/service/{host}/purge"), Some(content), tagged())
            }
            Dialect::FastlyPage => form(format!("/purge/{host}{path}"), None, page()),
            Dialect::FastlyAll => form(format!("/service/{host}/purge_all"), None, Scope::Everything),
            Dialect::CloudflareFiles => {
                Form { scope: page(), ..zone(format!("{{\"files\":[\"http://{host}{path}\"]}}")) }
            }
            Dialect::CloudflareTags => Form { scope: tagged(), ..zone(format!("{{\"tags\":[{quoted}]}}")) },
            Dialect::CloudflarePrefixes => {
                Form { scope: section(), ..zone(format!("{{\"prefixes\":[\"{host}{prefix}\"]}}")) }
            }
            Dialect::CloudflareAll => zone("{\"purge_everything\":true}".to_owned()),
            _ => native("uri", &format!("\"http://{host}{path}\""), "", page()),
        }
    }
}

/// Texts as members of a JSON list. Tags need no escaping.
fn quoted(texts: &[String]) -> String {
    texts.iter().map(|text| format!("\"{text}\"")).collect::<Vec<_>>().join(",")
}

/// A page of the site. The first pages are the popular ones.
fn random_page<'a>(random: &mut Random, site: &'a SitePlan) -> Option<&'a PagePlan> {
    let popular = site.pages.get(..site.pages.len().min(3)).unwrap_or_default();
    let is_popular = random.percent(60);
    random.choice(if is_popular { popular } else { &site.pages })
}

impl fmt::Display for PlannedPurge {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "purge {}: after {} ms", self.number, self.pause_ms)?;
        if let Some(path) = &self.edits {
            write!(to, ", edits {path}")?;
            if let Some(tag) = &self.new_tag {
                write!(to, " with the tag {tag}, only that: {}", self.only_retags)?;
            }
        }
        if self.is_other_host {
            to.write_str(", at the other host")?;
        }
        let Some(dialect) = self.dialect else { return Ok(()) };
        write!(to, ", after {} ms {dialect:?} of {}", self.after_edit_ms, self.path)?;
        write!(to, " (prefix {}, tags {})", self.prefix, self.tags.join(" "))?;
        let flags =
            [(self.wants_soft, "soft"), (self.wants_refill, "refill"), (self.is_abandoned, "abandoned")];
        flags.iter().filter(|(is_set, _)| *is_set).try_for_each(|(_, flag)| write!(to, ", {flag}"))?;
        if let Some(pause_ms) = self.looks_after_ms {
            write!(to, ", looks at the page after {pause_ms} ms")?;
        }
        if let Some(pause_ms) = self.retags_ms {
            write!(to, ", first has a new tag confirmed, with pauses of {pause_ms} ms")?;
        }
        match self.again_after_ms {
            Some(pause_ms) => write!(to, ", does all again after {pause_ms} ms"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Dialect, PlannedPurge};
    use crate::event::Scope;
    use crate::site::{SitePlan, split_host};
    use bytes::BytesMut;
    use h1::{Limits, Strictness, parse_request};
    use invalidation::Mode;
    use purge::{OrderItem, PurgeOrder, PurgeScope, Reach};
    use world::Random;

    fn site() -> SitePlan {
        let other_host = Some("b.test".to_owned());
        SitePlan { other_host, ..SitePlan::random(&mut Random::new(5), "a.test") }
    }

    fn planned(dialect: Dialect, wants_soft: bool) -> PlannedPurge {
        let random = PlannedPurge::random(&mut Random::new(1), 1, &site()).unwrap();
        PlannedPurge { dialect: Some(dialect), wants_soft, is_long: false, ..random }
    }

    /// The order that the edge reads from a purge.
    fn read(purge: &PlannedPurge) -> PurgeOrder {
        let written = purge.write(&site(), Some("secret")).unwrap();
        let mut octets = BytesMut::from(written.text.as_bytes());
        let request = parse_request(&mut octets, &Limits::DEFAULT, Strictness::Strict).unwrap().unwrap();
        if written.is_admin {
            {
                let head = &request.head;
                let route = purge::api::ApiRoute::of(&head.target).unwrap();
                purge::api::read(&route, &head.method, &head.fields, &octets)
                    .unwrap_or_else(|error| panic!("{}: {error:?}", written.text))
            }
        } else if purge.dialect == Some(Dialect::RefreshGet) {
            purge::refresh_by_get(&request.head).unwrap()
        } else {
            purge::read(&request.head).unwrap()
        }
    }

    /// Whether a purge reaches the pages of a host.
    fn is_reach_of(reach: &Reach, host: &str) -> bool {
        matches!(reach, Reach::Site(found) if String::from_utf8_lossy(found) == host)
    }

    /// Whether the edge's reading means the pages of a scope.
    fn agrees(item: &OrderItem, scope: &Scope, host: &str) -> bool {
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        let same = |tags: &[bytes::Bytes], expected: &[String]| {
            tags.iter().map(|tag| text(tag)).collect::<Vec<_>>() == expected
        };
        match (&item.scope, scope) {
            (PurgeScope::Target { host: found, target }, Scope::Target(expected)) => {
                text(found) == host && text(target) == split_host(expected).1
            }
            (PurgeScope::Prefix { host: found, prefix }, Scope::Prefix(expected)) => {
                text(found) == host && text(prefix) == split_host(expected).1
            }
            (PurgeScope::Tags { any_of, .. }, Scope::AnyTag(tags)) => same(any_of, tags),
            (PurgeScope::Tags { all_of, .. }, Scope::AllTags(tags)) => same(all_of, tags),
            (PurgeScope::Host { host: found }, Scope::AtHost(_, scope)) => {
                text(found) == host && **scope == Scope::Everything
            }
            (PurgeScope::Everything { reach } | PurgeScope::Tags { reach, .. }, Scope::AtHost(_, scope)) => {
                is_reach_of(reach, host) && agrees(item, scope, host)
            }
            (PurgeScope::Everything { .. }, Scope::Everything) => true,
            (PurgeScope::Ban { .. }, Scope::Prefix(_) | Scope::Target(_)) => true,
            _ => false,
        }
    }

    #[test]
    fn edge_reads_each_dialect_as_it_is_meant() {
        for dialect in Dialect::ALL {
            for (soft, is_other_host) in [(false, false), (true, false), (false, true), (true, true)] {
                let purge = PlannedPurge { is_other_host, ..planned(dialect, soft) };
                let host = site().host_name(is_other_host).to_owned();
                let written = purge.write(&site(), None).unwrap();
                let order = read(&purge);
                assert!(!order.invalidations.is_empty());
                for item in &order.invalidations {
                    assert!(agrees(item, &written.scope, &host), "{dialect:?}: {item:?} {}", written.scope);
                    let mode = if written.is_soft { Mode::Soft } else { Mode::Hard };
                    assert_eq!(item.mode, mode, "{dialect:?}");
                }
            }
        }
    }

    #[test]
    fn refill_is_asked_for_in_both_ways() {
        for dialect in [Dialect::Purge, Dialect::JsonUri] {
            let purge = PlannedPurge { wants_refill: true, ..planned(dialect, false) };
            assert_eq!(read(&purge).refill, Some(true), "{dialect:?}");
        }
    }
}
