//! Invalidations that an origin asks for in its responses.
//!
//! Invariants: a field invalidates what its origin meant, or more, but never less. No response can
//! be refused here, so a word that cannot be read hides no other word of its field.
//!
//! Only shared responses are purged. LiteSpeed's plugins also purge responses that they keep for
//! single visitors; Petasos does not store these, so such purges are ignored. The caller decides
//! whether the origin is trusted, and removes the fields for which [`is_hidden`] holds before it
//! forwards the response.

use crate::malformed::{Malformed, MalformedFault};
use crate::order::{OrderItem, PurgeScope, Reach};
use crate::tag_headers::{TAG_BYTES_MAX, TAG_HEADERS, TAGS_MAX};
use crate::tags::group_tag;
use crate::target;
use bytes::Bytes;
use invalidation::Mode;
use message::{Method, ResponseHead, names};

/// A response field that asks for invalidations.
pub(crate) struct Signal {
    /// The field's name.
    pub(crate) name: &'static str,
    /// The applications that send it.
    pub(crate) who: &'static str,
    /// The meaning of its value.
    pub(crate) meaning: &'static str,
}

const PURGE: &str = "X-LiteSpeed-Purge";
const PURGE2: &str = "X-LiteSpeed-Purge2";
const INVALIDATE: &str = "X-Cache-Invalidate";
/// An origin's statement that it purges by itself whatever its writes change.
const PURGES_ITSELF: &str = "X-Petasos-Purges";

/// All response fields that ask for invalidations.
pub(crate) const SIGNALS: &[Signal] = &[
    Signal {
        name: PURGE,
        who: "LiteSpeed's plugins",
        meaning: "tags (`a`, `tag=a`), paths (`/a`) or everything (`*`) of the site, soft after `stale`; Petasos ignores the part after `private`",
    },
    Signal { name: PURGE2, who: "LiteSpeed's plugins", meaning: "the same as `X-LiteSpeed-Purge`" },
    Signal {
        name: INVALIDATE,
        who: "Ghost",
        meaning: "paths of the host, separated by commas; `*` matches any text, `/*` the whole host",
    },
    Signal {
        name: names::CACHE_GROUP_INVALIDATION,
        who: "RFC 9875",
        meaning: "groups of the origin, in the response to an unsafe method; Petasos forwards this field to the client",
    },
];

/// Whether a response field is meant for the cache alone. It is removed before the response goes to
/// the client.
pub fn is_hidden(name: &[u8]) -> bool {
    let is = |hidden: &str| hidden.as_bytes().eq_ignore_ascii_case(name);
    [PURGE, PURGE2, INVALIDATE, PURGES_ITSELF].into_iter().any(is)
        || TAG_HEADERS.iter().any(|header| header.is_stated() && is(header.name))
}

/// Whether a response says that its origin purges by itself. Either it orders a purge that Petasos
/// can read, or it has `X-Petasos-Purges: 1`, which Petasos' WordPress plugin sends while it can
/// reach its edges.
///
/// A field without a readable order does not count: neither it nor the rules for writes would then
/// invalidate anything.
pub fn purges_itself(answer: &ResponseHead) -> bool {
    let said = answer.fields.only(PURGES_ITSELF).is_some_and(|value| value.eq_ignore_ascii_case(b"1"));
    said || readings(answer, &Bytes::new()).any(|(_, reading)| reading.is_order())
}

/// The invalidations that a response asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signals {
    /// The invalidations, to be carried out before the response is forwarded.
    pub invalidations: Vec<OrderItem>,
    /// The parts of fields that could not be read, to be counted.
    pub malformed: Vec<Malformed>,
}

/// Reads the invalidations that a response asks for.
///
/// `method` is the method of the request; `https` and `host` are its origin, with `host` in lower
/// case and without a default port.
pub fn signals(method: &Method, answer: &ResponseHead, https: bool, host: &[u8]) -> Signals {
    let host = Bytes::copy_from_slice(host);
    let mut signals = Signals::default();
    for (name, reading) in readings(answer, &host) {
        signals.invalidations.extend(reading.invalidations);
        signals.malformed.extend(reading.faults.into_iter().map(|fault| Malformed::header(name, fault)));
    }
    let groups = semantics::invalidated_groups(method, answer);
    if !groups.is_empty() {
        let any_of = groups.iter().map(|group| group_tag(https, &host, group)).collect();
        let scope = PurgeScope::Tags { reach: Reach::Site(host), any_of, all_of: Vec::new() };
        signals.invalidations.push(OrderItem { scope, mode: Mode::Hard });
    }
    signals
}

/// The order of one field line.
#[derive(Default)]
struct SignalLine {
    invalidations: Vec<OrderItem>,
    /// Whether it purges responses that are kept for single visitors.
    is_private: bool,
    faults: Vec<MalformedFault>,
}

/// The readings of all field lines for which only the cache has a use.
fn readings(answer: &ResponseHead, host: &Bytes) -> impl Iterator<Item = (&'static str, SignalLine)> {
    let lines = move |name| answer.fields.all(name).map(move |value| (name, value));
    let purges = [PURGE, PURGE2].into_iter().flat_map(lines);
    let purges = purges.map(move |(name, value)| (name, lite_speed(value, host)));
    purges.chain(lines(INVALIDATE).map(move |(name, value)| (name, paths(value, host))))
}

impl SignalLine {
    /// Whether the line orders anything that could be read.
    const fn is_order(&self) -> bool {
        self.is_private || !self.invalidations.is_empty()
    }

    fn order(&mut self, scope: PurgeScope, mode: Mode) {
        self.invalidations.push(OrderItem { scope, mode });
    }

    /// Orders a purge of the pages that match `path`. A path that cannot be read could be any page
    /// of the host.
    fn order_path(&mut self, host: &Bytes, path: &[u8], mode: Mode) {
        let scope = target::glob(host, path).unwrap_or_else(|error| {
            self.faults.push(MalformedFault::Pattern(error));
            PurgeScope::Host { host: host.clone() }
        });
        self.order(scope, mode);
    }

    /// Orders a purge of the responses with one of `tags`. If there are too many, the whole site is
    /// purged.
    fn order_tags(&mut self, host: &Bytes, mut tags: Vec<Bytes>, mode: Mode) {
        let stated = tags.len();
        // No stored response has a longer tag.
        tags.retain(|tag| tag.len() <= TAG_BYTES_MAX);
        if tags.len() < stated {
            self.faults.push(MalformedFault::TagTooLong);
        }
        let reach = Reach::Site(host.clone());
        if tags.len() > TAGS_MAX {
            self.faults.push(MalformedFault::TooManyTags);
            self.order(PurgeScope::Everything { reach }, mode);
        } else if !tags.is_empty() {
            self.order(PurgeScope::Tags { reach, any_of: tags, all_of: Vec::new() }, mode);
        }
    }
}

/// Reads `[public,] [stale,] word, word; private, word`, where a word is a tag, a path or `*`.
fn lite_speed(value: &[u8], host: &Bytes) -> SignalLine {
    let mut reading = SignalLine::default();
    for section in value.split(|&octet| octet == b';') {
        let mut words = section.split(|&octet| octet == b',').map(<[u8]>::trim_ascii).peekable();
        let mut mode = Mode::Hard;
        let mut is_private = false;
        while let Some(word) = words.next_if(|word| matches!(*word, b"public" | b"private" | b"stale" | b""))
        {
            is_private |= word == b"private";
            mode = if word == b"stale" { Mode::Soft } else { mode };
        }
        if is_private {
            reading.is_private = true;
            continue;
        }
        let mut tags = Vec::new();
        let words = words.map(|word| word.strip_prefix(b"tag=").unwrap_or(word));
        for word in words.filter(|word| !word.is_empty()) {
            match word {
                b"*" => reading.order(PurgeScope::Everything { reach: Reach::Site(host.clone()) }, mode),
                path @ [b'/', ..] => reading.order_path(host, path, mode),
                tag => tags.push(Bytes::copy_from_slice(tag)),
            }
        }
        reading.order_tags(host, tags, mode);
    }
    reading
}

/// Reads paths separated by commas.
fn paths(value: &[u8], host: &Bytes) -> SignalLine {
    let mut reading = SignalLine::default();
    let paths = value.split(|&octet| octet == b',').map(<[u8]>::trim_ascii).filter(|path| !path.is_empty());
    for path in paths {
        if path.starts_with(b"/") {
            reading.order_path(host, path, Mode::Hard);
        } else {
            reading.faults.push(MalformedFault::expected("paths that begin with a slash", path));
        }
    }
    reading
}

#[cfg(test)]
mod tests {
    use super::{Signals, is_hidden, purges_itself, signals};
    use crate::order::{OrderItem, PurgeScope};
    use crate::pattern::PATTERN_BYTES_MAX;
    use crate::tag_headers::{TAG_BYTES_MAX, TAGS_MAX};
    use invalidation::Mode;
    use message::{Method, ResponseHead, Status};

    fn of(name: &'static str, value: &'static str) -> Signals {
        let mut answer = ResponseHead::new(Status::OK);
        answer.fields.push(name, value);
        signals(&Method::Put, &answer, false, b"a.test")
    }

    fn shown(invalidation: &OrderItem) -> String {
        let text = |octets: &[u8]| octets.escape_ascii().to_string();
        let scope = match &invalidation.scope {
            PurgeScope::Target { target, .. } => format!("target {}", text(target)),
            PurgeScope::Prefix { prefix, .. } => format!("prefix {}", text(prefix)),
            PurgeScope::Pattern { pattern, .. } => format!("pattern {}", pattern.as_str()),
            PurgeScope::Host { .. } => "host".to_owned(),
            PurgeScope::Everything { .. } => "everything".to_owned(),
            PurgeScope::Tags { any_of, .. } => format!("tags {}", text(&any_of.join(&b" "[..]))),
            other => panic!("{other:?}"),
        };
        format!("{scope}{}", if invalidation.mode == Mode::Soft { " soft" } else { "" })
    }

    #[test]
    fn fields_of_each_application_are_read() {
        for (name, value, expected) in [
            // LiteSpeed's plugins.
            ("X-LiteSpeed-Purge", "public,7d2_Po.12,7d2_F", &["tags 7d2_Po.12 7d2_F"][..]),
            ("X-LiteSpeed-Purge", "public,stale,7d2_Po.12", &["tags 7d2_Po.12 soft"]),
            ("X-LiteSpeed-Purge", "public,7d2_Po.12;private,7d2_W.3", &["tags 7d2_Po.12"]),
            ("X-LiteSpeed-Purge", "private,*", &[]),
            ("X-LiteSpeed-Purge2", "public,7d2_CSS.1", &["tags 7d2_CSS.1"]),
            ("X-LiteSpeed-Purge", "*", &["everything"]),
            ("X-LiteSpeed-Purge", "public, tag=*", &["everything"]),
            ("X-LiteSpeed-Purge", "tag=Cat1, tag=Page2", &["tags Cat1 Page2"]),
            ("X-LiteSpeed-Purge", "/phpinfo.php", &["target /phpinfo.php"]),
            (
                "X-LiteSpeed-Purge",
                "public, stale, tag=pubtag1, /a; private, stale, tag=privtag1",
                &["target /a soft", "tags pubtag1 soft"],
            ),
            ("X-LiteSpeed-Purge", "public,private", &[]),
            // Ghost.
            ("X-Cache-Invalidate", "/*", &["host"]),
            (
                "X-Cache-Invalidate",
                "/, /page/*, /rss/, /welcome/",
                &["target /", "prefix /page/", "target /rss/", "target /welcome/"],
            ),
            ("X-Cache-Invalidate", "/p/5a1f/", &["target /p/5a1f/"]),
            ("X-Cache-Invalidate", "", &[]),
        ] {
            let signals = of(name, value);
            let found: Vec<_> = signals.invalidations.iter().map(shown).collect();
            assert_eq!(
                (found.iter().map(String::as_str).collect::<Vec<_>>(), signals.malformed),
                (expected.to_vec(), vec![]),
                "{name}: {value}"
            );
        }
    }

    #[test]
    fn groups_are_invalidated_by_unsafe_methods_only() {
        let found = of("Cache-Group-Invalidation", r#""a", "b""#).invalidations;
        assert_eq!(
            found.iter().map(shown).collect::<Vec<_>>(),
            [r"tags \x00group:http://a.test/a \x00group:http://a.test/b"]
        );
        let mut answer = ResponseHead::new(Status::OK);
        answer.fields.push("Cache-Group-Invalidation", r#""a""#);
        assert_eq!(signals(&Method::Get, &answer, false, b"a.test"), Signals::default());
    }

    #[test]
    fn unreadable_values_are_reported_and_others_still_count() {
        let mut answer = ResponseHead::new(Status::OK);
        answer.fields.push("X-Cache-Invalidate", "posts");
        answer.fields.push("X-Cache-Invalidate", "/a");
        let signals = signals(&Method::Post, &answer, false, b"a.test");
        assert_eq!(signals.invalidations.iter().map(shown).collect::<Vec<_>>(), ["target /a"]);
        let told: Vec<_> = signals.malformed.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            ["the header X-Cache-Invalidate: expected paths that begin with a slash, found `posts`"]
        );
    }

    /// The invalidations and faults of one field line, and whether a write with it is left to it.
    fn read(name: &'static str, value: &[u8]) -> (Vec<String>, Vec<String>, bool) {
        let mut answer = ResponseHead::new(Status::OK);
        answer.fields.push(name, value.to_vec());
        let found = signals(&Method::Post, &answer, false, b"a.test");
        let faults = found.malformed.iter().map(|malformed| malformed.fault.to_string());
        let invalidations = found.invalidations.iter().map(shown).collect();
        (invalidations, faults.collect(), purges_itself(&answer))
    }

    #[test]
    fn unreadable_word_hides_no_other_word_of_its_field() {
        let (found, faults, _) = read("X-LiteSpeed-Purge", b"public,tag1,/caf\xe9,tag2");
        assert_eq!((found, faults.len()), (vec!["host".to_owned(), "tags tag1 tag2".to_owned()], 1));

        let glob = format!("/a, /*{}*b, /c", "x".repeat(PATTERN_BYTES_MAX));
        let (found, faults, _) = read("X-Cache-Invalidate", glob.as_bytes());
        assert_eq!((&found.join(", ")[..], faults.len()), ("target /a, host, target /c", 1));

        let long = format!("a,{},b", "x".repeat(TAG_BYTES_MAX + 1));
        let (found, faults, _) = read("X-LiteSpeed-Purge", long.as_bytes());
        assert_eq!((&found.join(", ")[..], faults.len()), ("tags a b", 1));

        let many: Vec<_> = (0..=TAGS_MAX).map(|number| format!("t{number}")).collect();
        let many = format!("/a,{}; stale,b", many.join(","));
        let (found, faults, _) = read("X-LiteSpeed-Purge", many.as_bytes());
        assert_eq!((&found.join(", ")[..], faults.len()), ("target /a, everything, tags b soft", 1));

        let (found, faults, _) = read("X-Cache-Invalidate", b"/, posts, /rss/");
        assert_eq!((&found.join(", ")[..], faults.len()), ("target /, target /rss/", 1));
    }

    #[test]
    fn write_is_left_only_to_a_purge_that_could_be_read() {
        let long = format!("tag={}", "x".repeat(TAG_BYTES_MAX + 1));
        for (name, value, is_left) in [
            ("X-LiteSpeed-Purge", "tag=a", true),
            ("X-LiteSpeed-Purge2", "private,*", true),
            ("X-LiteSpeed-Purge", &long[..], false),
            ("X-LiteSpeed-Purge", "", false),
            ("X-Cache-Invalidate", "/a", true),
            ("X-Cache-Invalidate", "posts, /a", true),
            ("X-Cache-Invalidate", "posts", false),
            ("X-Petasos-Purges", "1", true),
            ("X-Petasos-Purges", "0", false),
        ] {
            assert_eq!(read(name, value.as_bytes()).2, is_left, "{name}: {value}");
        }
    }

    #[test]
    fn fields_meant_for_the_cache_are_hidden_from_clients() {
        for name in ["x-litespeed-purge", "X-Cache-Invalidate", "Surrogate-Key", "cache-tags", "TYPO3-Pid"] {
            assert!(is_hidden(name.as_bytes()), "{name}");
        }
        for name in ["Cache-Groups", "Cache-Group-Invalidation", "xkey-purge", "Cache-Control", "Link"] {
            assert!(!is_hidden(name.as_bytes()), "{name}");
        }
    }
}
