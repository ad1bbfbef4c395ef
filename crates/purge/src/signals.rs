//! Invalidations that an origin asks for in its responses.
//!
//! Invariant: only shared responses are purged. LiteSpeed's plugins also purge responses that they
//! keep for single visitors; Petasos does not store these, so such purges are ignored. The caller
//! decides whether the origin is trusted, and removes the fields for which [`is_hidden`] holds
//! before it forwards the response.

use crate::malformed::{Fault, Malformed};
use crate::order::{Invalidation, Reach, Want};
use crate::tags::{TAG_HEADERS, checked, group_tag};
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

/// Whether a response says that its origin purges by itself. Either it asks for a purge, or it has
/// `X-Petasos-Purges: 1`, which Petasos' WordPress plugin sends while it can reach its edges.
pub fn purges_itself(answer: &ResponseHead) -> bool {
    let said = answer.fields.only(PURGES_ITSELF).is_some_and(|value| value.eq_ignore_ascii_case(b"1"));
    said || [PURGE, PURGE2, INVALIDATE].into_iter().any(|name| answer.fields.has(name))
}

/// The invalidations that a response asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signals {
    /// The invalidations, to be carried out before the response is forwarded.
    pub invalidations: Vec<Invalidation>,
    /// The fields that could not be read, to be counted.
    pub malformed: Vec<Malformed>,
}

/// Reads the invalidations that a response asks for.
///
/// `method` is the method of the request; `https` and `host` are its origin, with `host` in lower
/// case and without a default port.
pub fn signals(method: &Method, answer: &ResponseHead, https: bool, host: &[u8]) -> Signals {
    let host = Bytes::copy_from_slice(host);
    let mut signals = Signals::default();
    for name in [PURGE, PURGE2] {
        for value in answer.fields.all(name) {
            signals.add(name, lite_speed(value, &host));
        }
    }
    for value in answer.fields.all(INVALIDATE) {
        signals.add(INVALIDATE, paths(value, &host));
    }
    let groups = semantics::invalidated_groups(method, answer);
    if !groups.is_empty() {
        let any_of = groups.iter().map(|group| group_tag(https, &host, group)).collect();
        let want = Want::Tags { reach: Reach::Site(host), any_of, all_of: Vec::new() };
        signals.invalidations.push(Invalidation { want, mode: Mode::Hard });
    }
    signals
}

impl Signals {
    fn add(&mut self, name: &'static str, read: Result<Vec<Invalidation>, Fault>) {
        match read {
            Ok(mut invalidations) => self.invalidations.append(&mut invalidations),
            Err(fault) => self.malformed.push(Malformed::header(name, fault)),
        }
    }
}

/// Reads `[public,] [stale,] word, word; private, word`, where a word is a tag, a path or `*`.
fn lite_speed(value: &[u8], host: &Bytes) -> Result<Vec<Invalidation>, Fault> {
    let mut invalidations = Vec::new();
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
            continue;
        }
        let mut tags = Vec::new();
        let words = words.map(|word| word.strip_prefix(b"tag=").unwrap_or(word));
        for word in words.filter(|word| !word.is_empty()) {
            let want = match word {
                b"*" => Want::Everything { reach: Reach::Site(host.clone()) },
                path @ [b'/', ..] => target::glob(host, path)?,
                tag => {
                    tags.push(Bytes::copy_from_slice(tag));
                    continue;
                }
            };
            invalidations.push(Invalidation { want, mode });
        }
        if !tags.is_empty() {
            let want =
                Want::Tags { reach: Reach::Site(host.clone()), any_of: checked(tags)?, all_of: Vec::new() };
            invalidations.push(Invalidation { want, mode });
        }
    }
    Ok(invalidations)
}

/// Reads paths separated by commas.
fn paths(value: &[u8], host: &Bytes) -> Result<Vec<Invalidation>, Fault> {
    let paths = value.split(|&octet| octet == b',').map(<[u8]>::trim_ascii).filter(|path| !path.is_empty());
    paths
        .map(|path| {
            if !path.starts_with(b"/") {
                return Err(Fault::expected("paths that begin with a slash", path));
            }
            Ok(Invalidation { want: target::glob(host, path)?, mode: Mode::Hard })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Signals, is_hidden, signals};
    use crate::order::{Invalidation, Want};
    use invalidation::Mode;
    use message::{Method, ResponseHead, Status};

    fn of(name: &'static str, value: &'static str) -> Signals {
        let mut answer = ResponseHead::new(Status::OK);
        answer.fields.push(name, value);
        signals(&Method::Put, &answer, false, b"a.test")
    }

    fn shown(invalidation: &Invalidation) -> String {
        let text = |octets: &[u8]| octets.escape_ascii().to_string();
        let want = match &invalidation.want {
            Want::Target { target, .. } => format!("target {}", text(target)),
            Want::Prefix { prefix, .. } => format!("prefix {}", text(prefix)),
            Want::Pattern { pattern, .. } => format!("pattern {}", pattern.as_str()),
            Want::Host { .. } => "host".to_owned(),
            Want::Everything { .. } => "everything".to_owned(),
            Want::Tags { any_of, .. } => format!("tags {}", text(&any_of.join(&b" "[..]))),
            other => panic!("{other:?}"),
        };
        format!("{want}{}", if invalidation.mode == Mode::Soft { " soft" } else { "" })
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
