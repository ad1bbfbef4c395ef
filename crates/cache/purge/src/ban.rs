//! Bans: lists of conditions. A ban invalidates a stored response that meets all of them.
//!
//! Invariant: a ban looks only at data stored with a response. It can therefore be tested
//! against each response at any later time.

use crate::ban_expression::{self, BanError};
use crate::equivalents::EquivalentTargets;
use crate::pattern::{self, BanPattern};
use bytes::Bytes;
use invalidation::{Haystack, Need, ResponseView};
use message::names;
use semantics::canonical_target;
use std::fmt;

/// A ban: the stored responses that meet all of its conditions are invalidated.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionBan {
    conditions: Vec<BanCondition>,
    /// The ban as an expression that [`ConditionBan::parse`] reads back.
    text: String,
}

/// Pages of a host, selected by path and query.
#[derive(Clone, Debug, PartialEq)]
pub enum HostPages {
    /// The page with this target.
    Target(Bytes),
    /// The pages whose target begins with this text.
    Prefix(Bytes),
    /// The pages in whose target the pattern finds a match.
    Pattern(BanPattern),
}

/// One condition of a ban.
#[derive(Clone, Debug, PartialEq)]
pub struct BanCondition {
    /// The tested part of the response.
    pub subject: BanSubject,
    /// The test.
    pub test: BanTest,
}

/// The part of a stored response that a condition tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BanSubject {
    /// The page's path and query: `req.url`. Targets that the response's `No-Vary-Search` makes
    /// equivalent are tested too.
    Target,
    /// The page's host, once with its port and once without: `req.http.host`. Letter case does not
    /// count.
    Host,
    /// The response's status code: `obj.status`.
    Status,
    /// The values of the response's header field of this name: `obj.http.NAME`.
    Field(Bytes),
    /// The response's tags: `obj.http.NAME` for any header that carries tags. Each tag is one
    /// value; all tags in alphabetical order, joined by commas, are another.
    Tags,
}

/// The test of a condition.
///
/// A subject may have several values. [`BanTest::Equals`] and [`BanTest::Matches`] hold if one
/// value passes; [`BanTest::Differs`] and [`BanTest::Avoids`] hold only if all do. Without any
/// value only [`BanTest::Differs`] holds.
#[derive(Clone, Debug, PartialEq)]
pub enum BanTest {
    /// `==`: the value is this text.
    Equals(Bytes),
    /// `!=`: the value is not this text.
    Differs(Bytes),
    /// `~`: the expression matches somewhere in the value.
    Matches(BanPattern),
    /// `!~`: the expression matches nowhere in the value.
    Avoids(BanPattern),
}

impl ConditionBan {
    /// Reads an expression in the language of Varnish's `ban`.
    ///
    /// # Errors
    /// [`BanError`], with the column.
    pub fn parse(text: &str) -> Result<Self, BanError> {
        ban_expression::read(text).map(Self::new)
    }

    /// Creates a ban of these conditions; there must be at least one.
    pub(crate) fn new(conditions: Vec<BanCondition>) -> Self {
        let text = conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" && ");
        Self { conditions, text }
    }

    /// The ban of pages of `host`, which is `name [":" port]`. A host without a port means any
    /// port, an empty one all hosts.
    pub fn of_pages(host: &[u8], pages: HostPages) -> Self {
        let test = match pages {
            HostPages::Target(target) => BanTest::Equals(target),
            HostPages::Prefix(prefix) => BanTest::Matches(BanPattern::of_prefix(&prefix)),
            HostPages::Pattern(pattern) => BanTest::Matches(pattern),
        };
        let target = BanCondition { subject: BanSubject::Target, test };
        let host = (!host.is_empty()).then(|| Self::host_condition(host));
        Self::new(host.into_iter().chain([target]).collect())
    }

    /// The ban of all pages of `host`, written as for [`ConditionBan::of_pages`].
    pub fn of_host(host: &[u8]) -> Self {
        Self::new(vec![Self::host_condition(host)])
    }

    fn host_condition(host: &[u8]) -> BanCondition {
        BanCondition {
            subject: BanSubject::Host,
            test: BanTest::Equals(Bytes::from(host.to_ascii_lowercase())),
        }
    }

    /// The conditions, at least one.
    pub fn conditions(&self) -> &[BanCondition] {
        &self.conditions
    }
}

impl invalidation::Ban for ConditionBan {
    fn matches(&self, stored: &dyn ResponseView) -> bool {
        self.conditions.iter().all(|condition| condition.holds(stored))
    }

    fn need(&self) -> Option<Need> {
        let needs = self.conditions.iter().filter_map(BanCondition::need);
        // Targets differ most between bans, and tags differ more than other fields. The store tests
        // fewer bans if their needs differ.
        needs.min_by_key(|need| match need.haystack {
            Haystack::Target => 0,
            Haystack::Tags => 1,
            Haystack::Field(_) => 2,
        })
    }

    fn text(&self) -> &str {
        &self.text
    }
}

impl BanCondition {
    /// The match that every response meeting the condition must contain. `None` if a response can
    /// meet it without any match.
    fn need(&self) -> Option<Need> {
        let haystack = match &self.subject {
            BanSubject::Target => Haystack::Target,
            BanSubject::Tags => Haystack::Tags,
            BanSubject::Field(name) => Haystack::Field(name.clone()),
            BanSubject::Host | BanSubject::Status => return None,
        };
        let pattern = match (&self.subject, &self.test) {
            (_, BanTest::Matches(pattern)) => pattern.as_str().to_owned(),
            // A search covers the canonical spelling of the target as well.
            (BanSubject::Target, BanTest::Equals(text)) => pattern::of_whole(&canonical_target(text))?,
            (_, BanTest::Equals(text)) => pattern::of_whole(text)?,
            (_, BanTest::Differs(_) | BanTest::Avoids(_)) => return None,
        };
        Some(Need { haystack, pattern })
    }

    fn holds(&self, stored: &dyn ResponseView) -> bool {
        match &self.subject {
            BanSubject::Target => {
                self.test.holds_of_target(stored.target()) || self.test.may_hold_of_equivalents(stored)
            }
            BanSubject::Host => self.test.holds(&[stored.host(), h1::split_port(stored.host()).0]),
            BanSubject::Status => self.test.holds(&[stored.status().to_string().as_bytes()]),
            BanSubject::Field(name) => self.test.holds(&stored.values(name)),
            BanSubject::Tags => {
                let mut values = stored.tags();
                values.sort_unstable();
                let joined = values.join(&b","[..]);
                if values.len() > 1 {
                    values.push(&joined);
                }
                self.test.holds(&values)
            }
        }
    }
}

impl BanTest {
    fn holds(&self, values: &[&[u8]]) -> bool {
        match self {
            Self::Equals(text) => values.iter().any(|value| **value == **text),
            Self::Differs(text) => values.iter().all(|value| **value != **text),
            Self::Matches(pattern) => values.iter().any(|value| pattern.is_match(value)),
            Self::Avoids(pattern) => {
                !values.is_empty() && values.iter().all(|value| !pattern.is_match(value))
            }
        }
    }

    /// Whether the test holds for a target in any of its percent-encodings. [`BanTest::Differs`]
    /// and [`BanTest::Avoids`] name pages that are spared, so they look at the stored spelling
    /// alone.
    fn holds_of_target(&self, target: &[u8]) -> bool {
        let canonical = || canonical_target(target);
        self.holds(&[target])
            || match self {
                Self::Equals(text) => canonical() == canonical_target(text),
                Self::Matches(pattern) => pattern.is_match(&canonical()),
                Self::Differs(_) | Self::Avoids(_) => false,
            }
    }

    /// Whether the test may hold for another target under which visitors receive the stored
    /// response, as its `No-Vary-Search` allows. [`BanTest::Differs`] and [`BanTest::Avoids`] look
    /// at the stored target alone.
    fn may_hold_of_equivalents(&self, stored: &dyn ResponseView) -> bool {
        let equivalents =
            || EquivalentTargets::of(&stored.values(names::NO_VARY_SEARCH.as_bytes()), stored.target());
        match self {
            Self::Equals(text) => equivalents().is_some_and(|equivalents| equivalents.contain(text)),
            Self::Matches(pattern) => equivalents().is_some_and(|equivalents| equivalents.may_meet(pattern)),
            Self::Differs(_) | Self::Avoids(_) => false,
        }
    }
}

/// The expression that [`ConditionBan::parse`] reads back.
impl fmt::Display for ConditionBan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for BanCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operator, argument) = match &self.test {
            BanTest::Equals(text) => ("==", &**text),
            BanTest::Differs(text) => ("!=", &**text),
            BanTest::Matches(pattern) => ("~", pattern.as_str().as_bytes()),
            BanTest::Avoids(pattern) => ("!~", pattern.as_str().as_bytes()),
        };
        let argument = String::from_utf8_lossy(argument).replace('\\', r"\\").replace('"', r#"\""#);
        write!(f, "{} {operator} \"{argument}\"", self.subject)
    }
}

impl fmt::Display for BanSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target => f.write_str("req.url"),
            Self::Host => f.write_str("req.http.host"),
            Self::Status => f.write_str("obj.status"),
            Self::Field(name) => write!(f, "obj.http.{}", name.escape_ascii()),
            Self::Tags => f.write_str("obj.http.X-Cache-Tags"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ConditionBan, HostPages};
    use crate::pattern::BanPattern;
    use invalidation::{Ban as _, Haystack, ResponseView};
    use message::Status;

    struct StoredPage<'a> {
        host: &'a [u8],
        target: &'a [u8],
        lines: &'a [(&'a str, &'a str)],
        tags: &'a [&'a [u8]],
    }

    impl ResponseView for StoredPage<'_> {
        fn host(&self) -> &[u8] {
            self.host
        }

        fn target(&self) -> &[u8] {
            self.target
        }

        fn status(&self) -> Status {
            Status::OK
        }

        fn values(&self, name: &[u8]) -> Vec<&[u8]> {
            let named = self.lines.iter().filter(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
            named.map(|(_, value)| value.as_bytes()).collect()
        }

        fn tags(&self) -> Vec<&[u8]> {
            self.tags.to_vec()
        }
    }

    fn holds(ban: &str) -> bool {
        let stored = StoredPage {
            host: b"www.example.org:8080",
            target: b"/news/1?page=2",
            lines: &[("Content-Type", "text/html; charset=utf-8"), ("Link", "<a>"), ("link", "<b>")],
            tags: &[b"rendered", b"node:1"],
        };
        let ban = ConditionBan::parse(ban).unwrap_or_else(|error| panic!("{ban}: {error}"));
        let again = ConditionBan::parse(&ban.to_string()).unwrap();
        assert_eq!(again, ban, "written and read again");
        let holds = ban.matches(&stored);
        assert!(!holds || is_need_found(&ban, &stored), "{ban} means a response without its need");
        holds
    }

    /// Whether the ban has no need, or one that is found in the response. Searches as the store
    /// does.
    fn is_need_found(ban: &ConditionBan, stored: &StoredPage<'_>) -> bool {
        let Some(need) = ban.need() else { return true };
        let regex = regex::bytes::RegexBuilder::new(&need.pattern).unicode(false).build().unwrap();
        let mut tags = stored.tags();
        tags.sort_unstable();
        let joined = tags.join(&b","[..]);
        tags.push(&joined);
        let lines;
        let values = match &need.haystack {
            Haystack::Target => &[stored.target][..],
            Haystack::Tags => &tags[..],
            Haystack::Field(name) => {
                lines = stored.values(name);
                &lines[..]
            }
        };
        values.iter().any(|value| regex.is_match(value))
    }

    #[test]
    fn host_without_port_means_any_port_and_no_host_any_host() {
        let meets = |asked: &str, host: &str, target: &str| {
            let pattern = HostPages::Pattern(BanPattern::compile(b"^/a.*z$").unwrap());
            let host = host.as_bytes();
            let target = target.as_bytes();
            let stored = StoredPage { host, target, lines: &[], tags: &[] };
            ConditionBan::of_pages(asked.as_bytes(), pattern).matches(&stored)
        };
        assert!(meets("A.test", "a.test", "/abz") && meets("a.test", "a.test:8080", "/az"));
        assert!(meets("", "b.test", "/az"));
        assert!(!meets("a.test:8080", "a.test", "/az") && !meets("a.test", "b.test", "/az"));
        assert!(!meets("a.test", "a.test", "/az/"));
    }

    #[test]
    fn bans_of_pages_can_be_read_again() {
        let stored = StoredPage { host: b"a.test:81", target: b"/a.b?c=(d\xfc", lines: &[], tags: &[] };
        let prefix =
            |octets: &'static [u8]| ConditionBan::of_pages(b"a.test", HostPages::Prefix(octets.into()));
        for (ban, means) in [
            (prefix(b"/a.b?c=(d\xfc"), true),
            (prefix(b"/a.b?"), true),
            (prefix(b"/aab?"), false),
            (prefix(b"/a.b?c=(d\xfce"), false),
            (ConditionBan::of_pages(b"b.test", HostPages::Prefix("/".into())), false),
            (ConditionBan::of_pages(b"", HostPages::Target("/a.b".into())), false),
            (ConditionBan::of_host(b"A.test"), true),
            (ConditionBan::of_host(b"a.test:82"), false),
        ] {
            assert_eq!(ban.matches(&stored), means, "{ban}");
            assert!(!means || is_need_found(&ban, &stored), "{ban}");
            assert_eq!(ConditionBan::parse(&ban.to_string()).unwrap(), ban);
        }
        let long = ConditionBan::of_pages(b"", HostPages::Prefix(vec![b'\n'; 100_000].into()));
        assert_eq!(ConditionBan::parse(&long.to_string()).unwrap(), long);
    }

    #[test]
    fn ban_covers_targets_equivalent_by_no_vary_search() {
        let holds = |ban: &str, rule: &'static str, target: &str| {
            let lines = [("No-Vary-Search", rule)];
            let stored = StoredPage { host: b"a.test", target: target.as_bytes(), lines: &lines, tags: &[] };
            ConditionBan::parse(ban).unwrap().matches(&stored)
        };
        let utm = "params=(\"utm\")";
        for (ban, meant) in [
            ("req.url == /a?id=1&utm=2", true),
            ("req.url == /a?utm=2&id=1", true),
            ("req.url == /a?id=1", true),
            ("req.url == /a?id=2", false),
            ("req.url == /b?id=1", false),
            ("req.url ~ utm=2", true),
            ("req.url ~ ^/a.utm=2", true),
            ("req.url ~ ^/b.utm=2", false),
            ("req.url ~ ^/a/", false),
            ("req.url ~ ^/a$", true),
            ("req.url ~ /a.id=1$", true),
            ("req.url != /a?id=1&utm=1", false),
            ("req.url !~ ^/a", false),
            (r#"req.url ~ "^/(?-u:\b)?b""#, false),
        ] {
            assert_eq!(holds(ban, utm, "/a?id=1&utm=1"), meant, "{ban}");
        }
        assert!(!holds("req.url ~ utm=2", "", "/a?utm=1") && !holds("req.url ~ utm=2", "x=(", "/a?utm=1"));
    }

    #[test]
    fn conditions_hold_as_in_varnish() {
        for ban in [
            r#"req.url ~ "^/news" && obj.http.content-type ~ "html""#,
            "req.url == /news/1?page=2",
            "req.url != /news/1",
            r"req.url ~ ^/news/\d",
            r#"req.url ~ "^/news/\\d""#,
            r#"req.url ~ "^/news/\d""#,
            "req.url !~ ^/blog",
            r#"req.http.host ~ "^(?i)(www\\.)?example\\.org$" && req.url ~ ."#,
            "req.http.host == WWW.Example.org",
            "req.http.Host == www.example.org:8080",
            "obj.status == 200 && obj.status != 404",
            "obj.http.Content-Type ~ text/html",
            "obj.http.link == <b>",
            "obj.http.x-missing != a",
            "obj.http.x-cache-tags ~ (^|,)node:1(,|$)",
            "obj.http.Surrogate-Key == node:1",
            "obj.http.xkey ~ node:1,rendered",
            "req.url~^/news && obj.status==200",
        ] {
            assert!(holds(ban), "{ban}");
        }
        for ban in [
            "req.url ~ ^/blog",
            "req.url ~ ^/news && obj.status == 404",
            "req.http.host == example.org",
            "req.http.host != www.example.org",
            "obj.http.x-missing == a",
            "obj.http.x-missing ~ .",
            "obj.http.x-missing !~ a",
            "obj.http.link != <b>",
            "obj.http.link !~ a",
            "obj.http.cache-tags == node",
            "obj.http.xkey ~ ^node:1$ && obj.http.xkey !~ rendered",
        ] {
            assert!(!holds(ban), "{ban}");
        }
    }
}
