//! The rules of a site for robots (RFC 9309).
//!
//! Invariant: a fault of the file never grants more than the file without the faulty line. The work
//! of a look-up is bounded by [`ROBOTS_BYTES_MAX`]: patterns are matched without going back.

use memchr::memmem;
use semantics::percent_decoded;
use std::time::Duration;
use url::{Position, Url};

/// The product token of Petasos in robots.txt and `meta` elements, in lower case.
pub const PRODUCT_TOKEN: &str = "petasos";

/// Bytes of a robots.txt that are read. RFC 9309 section 2.5 demands at least this much.
pub const ROBOTS_BYTES_MAX: usize = 500 * 1024;

/// Longest `Crawl-delay` that a visit honours. With it, the 50 pages of `try` take 25 minutes.
pub const CRAWL_DELAY_MAX: Duration = Duration::from_secs(30);

/// `Sitemap` lines that are kept.
const SITEMAP_LINES_MAX: usize = 100;

/// The rules of a site's robots.txt for Petasos.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Robots {
    rules: Vec<Rule>,
    /// Whether nothing may be requested, whatever the rules are.
    forbids_all: bool,
    crawl_delay: Option<Duration>,
    sitemaps: Vec<String>,
}

/// An `Allow` or `Disallow` line of the group that applies.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    allows: bool,
    /// The pattern in its normal form, cut at each `*`. The first part is the beginning of the
    /// path.
    parts: Vec<Vec<u8>>,
    /// Whether the pattern ends with `$`, so that its last part is the end of the path.
    is_anchored: bool,
    /// Bytes of the pattern. The longest matching rule counts (section 2.2.2).
    bytes: usize,
}

/// The lines of a group, or of all groups for one name.
#[derive(Default)]
struct Group {
    /// Whether there is a `User-agent` line for it.
    is_named: bool,
    rules: Vec<Rule>,
    crawl_delay: Option<Duration>,
}

impl Robots {
    /// A site that permits everything.
    pub fn allow_all() -> Self {
        Self::default()
    }

    /// A site whose rules are unknown, because robots.txt had no response. Nothing may be requested
    /// (section 2.3.1.4).
    pub fn unreachable() -> Self {
        Self { forbids_all: true, ..Self::default() }
    }

    /// The rules by the response for `/robots.txt`, after redirects. `content` has no content
    /// coding.
    ///
    /// | status | meaning |
    /// |---|---|
    /// | 2xx | the rules in the content |
    /// | 429 | nothing may be requested: the server asks for fewer requests |
    /// | 4xx | there are no rules, so everything is permitted (section 2.3.1.3) |
    /// | 3xx | more redirects than the caller follows; as 4xx (section 2.3.1.2) |
    /// | 5xx and others | nothing may be requested (section 2.3.1.4) |
    pub fn from_response(status: u16, content: &[u8], token: &str) -> Self {
        match status {
            200..=299 => Self::parse(content, token),
            429 => Self::unreachable(),
            300..=499 => Self::allow_all(),
            _ => Self::unreachable(),
        }
    }

    /// Reads a robots.txt for the robot with the product token `token`. Bytes beyond
    /// [`ROBOTS_BYTES_MAX`] are ignored, with the line that they cut.
    pub fn parse(content: &[u8], token: &str) -> Self {
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        let content = match content.get(..ROBOTS_BYTES_MAX) {
            Some(kept) if content.len() > ROBOTS_BYTES_MAX => {
                let end = kept.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or_default();
                kept.get(..end).unwrap_or_default()
            }
            Some(_) | None => content,
        };
        let mut reading = Reading::default();
        for line in content.split(|byte| matches!(byte, b'\n' | b'\r')) {
            reading.line(line, token);
        }
        let Reading { own, others, sitemaps, .. } = reading;
        let group = if own.is_named { own } else { others };
        Self { rules: group.rules, forbids_all: false, crawl_delay: group.crawl_delay, sitemaps }
    }

    /// Whether a URL of the site may be requested. Of the matching rules the longest counts, and
    /// `Allow` between rules of equal length. `/robots.txt` itself is always permitted.
    pub fn allows(&self, url: &Url) -> bool {
        if url.path() == "/robots.txt" {
            return true;
        }
        let path = normal_path(url[Position::BeforePath..Position::AfterQuery].as_bytes());
        let matching = self.rules.iter().filter(|rule| rule.matches(&path));
        let strongest = matching.max_by_key(|rule| (rule.bytes, rule.allows));
        !self.forbids_all && strongest.is_none_or(|rule| rule.allows)
    }

    /// Whether nothing at all may be requested, because the rules are unknown.
    pub fn forbids_all(&self) -> bool {
        self.forbids_all
    }

    /// The time between two requests that the site asks for, at most [`CRAWL_DELAY_MAX`]. The field
    /// is not part of RFC 9309.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.crawl_delay
    }

    /// The values of `Sitemap` lines, which belong to no group.
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }
}

/// The state between two lines of a robots.txt.
#[derive(Default)]
struct Reading {
    /// The lines of the groups for this robot.
    own: Group,
    /// The lines of the groups for `*`.
    others: Group,
    sitemaps: Vec<String>,
    /// Whether the current group names this robot, and whether it names `*`.
    is_own: bool,
    is_others: bool,
    /// Whether the current group has a rule, so that the next `User-agent` starts a new group.
    has_rule: bool,
}

impl Reading {
    fn line(&mut self, line: &[u8], token: &str) {
        let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { return };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        match name.trim_ascii().to_ascii_lowercase().as_slice() {
            b"user-agent" => self.user_agent(value, token),
            b"allow" => self.rule(true, value),
            b"disallow" => self.rule(false, value),
            b"crawl-delay" => self.crawl_delay(value),
            b"sitemap" if self.sitemaps.len() < SITEMAP_LINES_MAX => {
                self.sitemaps.push(String::from_utf8_lossy(value).into_owned());
            }
            _ => {}
        }
    }

    fn user_agent(&mut self, value: &[u8], token: &str) {
        if std::mem::take(&mut self.has_rule) {
            (self.is_own, self.is_others) = (false, false);
        }
        // A value may have a version, as in `Petasos/1.0`; the token ends before it.
        let is_token = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_');
        let end = value.iter().position(|byte| !is_token(byte)).unwrap_or(value.len());
        let name = value.get(..end).unwrap_or_default();
        self.is_own |= name.eq_ignore_ascii_case(token.as_bytes());
        self.is_others |= value.first() == Some(&b'*') && value.get(1).is_none_or(u8::is_ascii_whitespace);
        self.own.is_named |= self.is_own;
        self.others.is_named |= self.is_others;
    }

    fn groups(&mut self) -> impl Iterator<Item = &mut Group> {
        let own = self.is_own.then_some(&mut self.own);
        own.into_iter().chain(self.is_others.then_some(&mut self.others))
    }

    fn rule(&mut self, allows: bool, pattern: &[u8]) {
        self.has_rule = true;
        // A rule without a pattern matches nothing.
        if let Some(rule) = Rule::new(allows, pattern) {
            self.groups().for_each(|group| group.rules.push(rule.clone()));
        }
    }

    /// The longest delay of a group counts.
    fn crawl_delay(&mut self, value: &[u8]) {
        let seconds = str::from_utf8(value).ok().and_then(|value| value.parse::<f64>().ok());
        let seconds = seconds.filter(|seconds| *seconds >= 0.0);
        let Some(seconds) = seconds.map(|seconds| seconds.min(CRAWL_DELAY_MAX.as_secs_f64())) else { return };
        let delay = Duration::from_secs_f64(seconds);
        self.groups().for_each(|group| group.crawl_delay = group.crawl_delay.max(Some(delay)));
    }
}

impl Rule {
    fn new(allows: bool, pattern: &[u8]) -> Option<Self> {
        if pattern.is_empty() {
            return None;
        }
        // A pattern begins with a slash (section 2.2.2); without one, its author meant it.
        let slash: &[u8] = if matches!(pattern.first(), Some(b'/' | b'*')) { b"" } else { b"/" };
        let pattern = [slash, pattern].concat();
        let (pattern, is_anchored) = match pattern.strip_suffix(b"$") {
            Some(pattern) => (pattern, true),
            None => (&pattern[..], false),
        };
        let mut is_query = false;
        let mut parts: Vec<Vec<u8>> = Vec::new();
        for (place, part) in pattern.split(|&byte| byte == b'*').enumerate() {
            let part = normal_part(part, &mut is_query);
            // `**` is `*`. The empty last part of `a*` stays: after it, anything may follow.
            let is_last_empty = place > 1 && parts.last().is_some_and(Vec::is_empty);
            if is_last_empty {
                parts.pop();
            }
            parts.push(part);
        }
        let bytes = parts.iter().map(Vec::len).sum::<usize>() + parts.len() - 1 + usize::from(is_anchored);
        Some(Self { allows, parts, is_anchored, bytes })
    }

    /// Whether the pattern matches the beginning of `path`, or the whole of it if it is anchored.
    /// The earliest place of each part leaves the most room for the following ones.
    fn matches(&self, path: &[u8]) -> bool {
        let Some((first, rest)) = self.parts.split_first() else { return false };
        let Some(mut left) = path.strip_prefix(&first[..]) else { return false };
        let Some((last, between)) = rest.split_last() else { return !self.is_anchored || left.is_empty() };
        for part in between {
            let Some(place) = memmem::find(left, part) else { return false };
            left = left.get(place + part.len()..).unwrap_or_default();
        }
        if self.is_anchored { left.ends_with(last) } else { memmem::find(left, last).is_some() }
    }
}

/// The form of a path and query in which it is compared with patterns (section 2.2.2).
fn normal_path(path: &[u8]) -> Vec<u8> {
    normal_part(path, &mut false)
}

/// The normal form of a part of a pattern or of a path. `is_query` says whether a question mark is
/// before it, and is updated.
///
/// An encoded unreserved character is decoded. All other characters that are not unreserved,
/// except the delimiters of a URL, are encoded, and so are `*` and `$`, which mean themselves only
/// when encoded. In a query, `:` and `/` are the same encoded or not, because forms write them in
/// both ways.
fn normal_part(part: &[u8], is_query: &mut bool) -> Vec<u8> {
    let mut normal = Vec::with_capacity(part.len());
    let mut rest = part;
    while let Some((&byte, after)) = rest.split_first() {
        let encoded = rest.get(..3).filter(|_| byte == b'%').map(percent_decoded);
        let (value, is_encoded) = match encoded.as_deref() {
            Some(&[value]) => (value, true),
            Some(_) | None => (byte, false),
        };
        rest = if is_encoded { rest.get(3..).unwrap_or_default() } else { after };
        let is_unreserved = value.is_ascii_alphanumeric() || matches!(value, b'-' | b'.' | b'_' | b'~');
        let is_delimiter = matches!(
            value,
            b':' | b'/'
                | b'?'
                | b'#'
                | b'['
                | b']'
                | b'@'
                | b'!'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'+'
                | b','
                | b';'
                | b'='
        );
        let is_plain_in_query = *is_query && matches!(value, b':' | b'/');
        *is_query |= value == b'?' && !is_encoded;
        if is_unreserved || is_plain_in_query || is_delimiter && !is_encoded {
            normal.push(value);
        } else {
            normal.extend(format!("%{value:02X}").into_bytes());
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::{CRAWL_DELAY_MAX, ROBOTS_BYTES_MAX, Robots, Rule, normal_path};
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};
    use std::time::Duration;
    use url::Url;

    fn allows(file: &str, path: &str) -> bool {
        let url = Url::parse("http://site.test").unwrap().join(path).unwrap();
        Robots::parse(file.as_bytes(), "petasos").allows(&url)
    }

    #[test]
    fn own_group_precedes_the_group_of_all() {
        let file = "User-agent: *\nDisallow: /a\n\nUser-agent: PETASOS/1.0\nDisallow: /b\n";
        assert!(allows(file, "/a") && !allows(file, "/b"));
        let file = "User-agent: petasosbot\nDisallow: /a\nUser-agent: *\nDisallow: /b";
        assert!(allows(file, "/a") && !allows(file, "/b"), "another robot with a longer name");
        let empty = "User-agent: *\nDisallow: /\nUser-agent: petasos\nDisallow:\n";
        assert!(allows(empty, "/a"), "an own group without a pattern permits everything");
        assert!(!allows("User-agent: *\nDisallow: /\nUser-agent: x\nAllow: /", "/a"));
    }

    #[test]
    fn groups_of_one_name_are_joined() {
        let file = "user-agent: petasos\ndisallow: /a\nuser-agent: x\ndisallow: /c\n\
                    user-agent: y\nuser-agent: petasos\nSitemap: s\ncrawl-delay: 1\n\ndisallow: /b";
        assert!(!allows(file, "/a") && !allows(file, "/b") && allows(file, "/c"));
        let file = "Disallow: /a\nUser-agent: *\nDisallow: /b";
        assert!(allows(file, "/a") && !allows(file, "/b"), "a rule before any group is ignored");
    }

    #[test]
    fn longest_rule_counts_and_allow_wins_a_tie() {
        let file = "User-agent: *\nAllow: /p\nDisallow: /\nDisallow: /p/secret\nAllow: /p/secret/but\n\
                    Disallow: /tie\nAllow: /tie";
        for (path, expected) in [
            ("/p", true),
            ("/page", true),
            ("/q", false),
            ("/p/secret", false),
            ("/p/secret/button", true),
            ("/tie", true),
            ("/robots.txt", true),
        ] {
            assert_eq!(allows(file, path), expected, "{path}");
        }
        assert!(allows("User-agent: *\nDisallow: /*.html\nAllow: /page.html", "/page.html"));
    }

    #[test]
    fn wildcards_and_anchors_match_as_in_the_rfc() {
        for (pattern, path, expected) in [
            ("/fish", "/fish.html", true),
            ("/fish", "/Fish.asp", false),
            ("/fish*", "/fishheads/yummy", true),
            ("/fish/", "/fish", false),
            ("/*.php", "/folder/filename.php?parameters", true),
            ("/*.php$", "/filename.php?parameters", false),
            ("/*.php$", "/a.php/b.php", true),
            ("/fish*.php", "/catfish.php", false),
            ("/$", "/", true),
            ("/$", "/a", false),
            ("*a", "/ba", true),
            ("/a*$", "/abc", true),
            ("/a**b$", "/a-b", true),
            ("/a*b*b$", "/ab", false),
            ("/*?*replytocom=", "/p/?a=1&replytocom=5", true),
            ("private", "/private/a", true),
            ("/a$b", "/a$bc", true),
        ] {
            let file = format!("User-agent: *\nDisallow: {pattern}");
            assert_eq!(!allows(&file, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn percent_encodings_are_compared_in_one_form() {
        for (pattern, path) in [
            ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar"),
            ("/foo/bar?baz=https%3a%2f%2ffoo.bar", "/foo/bar?baz=https://foo.bar"),
            ("/foo/bar/\u{30c4}", "/foo/bar/%E3%83%84"),
            ("/foo/bar/%e3%83%84", "/foo/bar/\u{30c4}"),
            ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
            ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html"),
            ("/path/foo-%24", "/path/foo-$"),
            ("/a b", "/a%20b"),
            ("/100%", "/100%"),
        ] {
            assert!(!allows(&format!("User-agent: *\nDisallow: {pattern}"), path), "{pattern} {path}");
        }
        assert!(allows("User-agent: *\nDisallow: /a%2Fb", "/a/b"), "an encoded slash is no delimiter");
    }

    #[test]
    fn line_ends_comments_and_byte_order_mark_are_read() {
        let file = "\u{feff}USER-AGENT : * # all\r\rDisallow : /a # b\rnonsense\nDisallow /b\r\n: /c\n";
        assert!(!allows(file, "/a") && allows(file, "/b") && allows(file, "/c"));
        let invalid = b"User-agent: *\nDisallow: /\xff\xfe\nDisallow: /b";
        let robots = Robots::parse(invalid, "petasos");
        assert!(!robots.allows(&Url::parse("http://h/b").unwrap()));
        assert!(!robots.allows(&Url::parse("http://h/%FF%FEx").unwrap()));
    }

    #[test]
    fn content_beyond_the_limit_is_ignored_with_the_cut_line() {
        let start = "User-agent: *\nDisallow: /a\n";
        let line = "Disallow: /b\n";
        let padding = "#".repeat(ROBOTS_BYTES_MAX - start.len() - line.len() - 1);
        let whole = format!("{start}{padding}\n{line}Disallow: /c");
        assert_eq!(whole.find("Disallow: /c"), Some(ROBOTS_BYTES_MAX));
        assert!(!allows(&whole, "/a") && !allows(&whole, "/b") && allows(&whole, "/c"));
        let cut = format!("{start}{padding}###\nDisallow: /bcd");
        assert!(allows(&cut, "/bcd"), "a cut line is dropped, not shortened");
    }

    #[test]
    fn statuses_decide_without_content() {
        let url = Url::parse("http://h/a").unwrap();
        let file = b"User-agent: *\nDisallow: /";
        for (status, expected) in [
            (200, false),
            (404, true),
            (401, true),
            (302, true),
            (429, false),
            (500, false),
            (503, false),
            (0, false),
        ] {
            assert_eq!(Robots::from_response(status, file, "petasos").allows(&url), expected, "{status}");
        }
        assert!(!Robots::unreachable().allows(&url) && Robots::unreachable().forbids_all());
    }

    #[test]
    fn crawl_delay_and_sitemaps_are_found() {
        let of = |file: &str| Robots::parse(file.as_bytes(), "petasos");
        assert_eq!(of("User-agent: *\nCrawl-delay: 2.5").crawl_delay(), Some(Duration::from_millis(2_500)));
        assert_eq!(of("User-agent: *\nCrawl-delay: 1e99").crawl_delay(), Some(CRAWL_DELAY_MAX));
        for value in ["-1", "NaN", "soon", ""] {
            assert_eq!(of(&format!("User-agent: *\nCrawl-delay: {value}")).crawl_delay(), None, "{value}");
        }
        assert_eq!(of("User-agent: x\nCrawl-delay: 9\n").crawl_delay(), None);
        let file = of("Sitemap: http://h/s.xml\nUser-agent: x\nDisallow: /\nSITEMAP:/t.xml#c");
        assert_eq!(file.sitemaps(), ["http://h/s.xml", "/t.xml"]);
        assert_eq!(of(&"Sitemap: /a\n".repeat(500)).sitemaps().len(), 100);
    }

    #[test]
    fn hostile_file_is_matched_without_going_back() {
        let star = format!("User-agent: *\nDisallow: /{}\n", "a*".repeat(200_000));
        assert!(allows(&star, &format!("/{}b", "a".repeat(1_500))));
        let many = format!("User-agent: *\n{}", "Disallow: *a*b\n".repeat(30_000));
        assert!(allows(&many, &format!("/{}", "a".repeat(2_000))));
    }

    /// The slow model: tries every way to match a normal pattern.
    fn model(pattern: &[u8], path: &[u8]) -> bool {
        match pattern {
            [] => true,
            [b'$'] => path.is_empty(),
            [b'*', rest @ ..] => (0..=path.len()).any(|skip| model(rest, &path[skip..])),
            [byte, rest @ ..] => path.first() == Some(byte) && model(rest, &path[1..]),
        }
    }

    proptest! {
        #[test]
        fn patterns_match_as_in_the_slow_model(
            pattern in prop::collection::vec(prop::sample::select(b"ab*".to_vec()), 0..8),
            is_anchored in any::<bool>(),
            path in prop::collection::vec(prop::sample::select(b"ab".to_vec()), 0..10),
        ) {
            let end: &[u8] = if is_anchored { b"$" } else { b"" };
            let pattern = [&b"/"[..], &pattern, end].concat();
            let path = [&b"/"[..], &path].concat();
            let rule = Rule::new(true, &pattern).unwrap();
            prop_assert_eq!(rule.matches(&path), model(&pattern, &path));
        }

        #[test]
        fn normal_path_is_stable(path in prop::collection::vec(any::<u8>(), 0..20)) {
            let once = normal_path(&path);
            prop_assert_eq!(normal_path(&once), once);
        }

        #[test]
        fn any_bytes_are_read(content in prop::collection::vec(any::<u8>(), 0..300)) {
            let robots = Robots::parse(&content, "petasos");
            robots.allows(&Url::parse("http://h/a?b").unwrap());
        }
    }
}
