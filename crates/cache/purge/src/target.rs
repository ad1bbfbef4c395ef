//! Reads the request target of a purge as one page or as a pattern.
//!
//! Patterns follow the clients' conventions: `.*` and `*` match any run of characters and every
//! other character matches itself, so that `/a.b?c=d.*` needs no escapes. A target with bytes that
//! only make sense in a regular expression is read as one, if the client declared a pattern. A
//! declared pattern is anchored at the beginning of the target; any other text with wildcards must
//! match the whole target.

use crate::malformed::{Malformed, MalformedFault, MalformedPlace};
use crate::order::PurgeScope;
use crate::pattern::{BanPattern, PatternError};
use bytes::Bytes;

/// Bytes that show that a target was written as a regular expression.
const EXPRESSION: &[u8] = br"\^$|()[]{}";

/// Wildcards that match any run of characters. The longer is first, so that `.*` is not split at
/// its star.
const RUNS: [&str; 2] = [".*", "*"];

/// Reads a target with wildcards; `None` if it has none. All of the target must match.
pub(crate) fn wildcard(host: &Bytes, target: &[u8]) -> Option<Result<PurgeScope, Malformed>> {
    target.contains(&b'*').then(|| glob(host, target).map_err(at_target))
}

/// Reads a target that the client declared to be a pattern, anchored at its beginning only.
pub(crate) fn pattern(host: &Bytes, target: &[u8]) -> Result<PurgeScope, Malformed> {
    if target.iter().any(|octet| EXPRESSION.contains(octet)) {
        let anchored = [b"^(?:", target, b")"].concat();
        let pattern = BanPattern::compile(&anchored).map_err(at_target)?;
        return Ok(PurgeScope::Pattern { host: host.clone(), pattern });
    }
    // `glob` matches the whole target; a final star leaves the end open.
    glob(host, &[target, b"*"].concat()).map_err(at_target)
}

/// Reads a text with wildcards that must match the whole target.
///
/// The result is the simplest [`PurgeScope`] with this meaning: one page, the host, a prefix, or a
/// pattern.
///
/// # Errors
/// [`PatternError`] if the text is not UTF-8, or if the pattern is too long or too large.
pub(crate) fn glob(host: &Bytes, text: &[u8]) -> Result<PurgeScope, PatternError> {
    let text = std::str::from_utf8(text).map_err(|_| PatternError::NotText)?;
    let pieces = pieces(text);
    let host = host.clone();
    match pieces.as_slice() {
        [only] => Ok(PurgeScope::Target { host, target: Bytes::copy_from_slice(only.as_bytes()) }),
        ["" | "/", rest @ ..] if rest.iter().all(|piece| piece.is_empty()) => Ok(PurgeScope::Host { host }),
        [prefix, rest @ ..] if rest.iter().all(|piece| piece.is_empty()) => {
            Ok(PurgeScope::Prefix { host, prefix: Bytes::copy_from_slice(prefix.as_bytes()) })
        }
        pieces => {
            let escaped: Vec<_> = pieces.iter().map(|piece| regex::escape(piece)).collect();
            let pattern = BanPattern::compile(format!("^{}$", escaped.join(".*")).as_bytes())?;
            Ok(PurgeScope::Pattern { host, pattern })
        }
    }
}

/// The parts between the wildcards: at least one. Parts may be empty.
fn pieces(text: &str) -> Vec<&str> {
    let [long, short] = RUNS;
    text.split(long).flat_map(|part| part.split(short)).collect()
}

fn at_target(error: PatternError) -> Malformed {
    Malformed { place: MalformedPlace::Target, fault: MalformedFault::Pattern(error) }
}

/// Undoes Zope's virtual hosting, which Plone leaves in the paths that it sends to caches.
///
/// Returns the public host and target:
/// `/VirtualHostBase/http/www.example.org:80/Plone/VirtualHostRoot/news` is `/news` on
/// `www.example.org`. Segments `_vh_NAME` after the root belong to the public path. `None` for
/// other paths.
pub(crate) fn without_virtual_host(target: &[u8]) -> Option<(Bytes, Bytes)> {
    let rest = target.strip_prefix(b"/VirtualHostBase/")?;
    let (scheme, rest) = split_segment(rest)?;
    let (host, rest) = split_segment(rest)?;
    let root = b"VirtualHostRoot";
    let at = rest.windows(root.len()).position(|window| window == root)?;
    let before = rest.get(..at)?;
    let after = rest.get(at + root.len()..)?;
    if !(before.is_empty() || before.ends_with(b"/")) || !matches!(after.first(), None | Some(b'/' | b'?')) {
        return None;
    }
    let default_port: &[u8] = if scheme == b"https" { b":443" } else { b":80" };
    let host = host.strip_suffix(default_port).unwrap_or(host);
    let mut public = Vec::with_capacity(after.len() + 1);
    let mut inside = after;
    while let Some(named) = inside.strip_prefix(b"/_vh_") {
        let bytes = named.iter().position(|octet| matches!(octet, b'/' | b'?')).unwrap_or(named.len());
        let (name, left) = named.split_at(bytes);
        public.push(b'/');
        public.extend_from_slice(name);
        inside = left;
    }
    public.extend_from_slice(inside);
    if public.first() != Some(&b'/') {
        public.insert(0, b'/');
    }
    Some((Bytes::copy_from_slice(host), Bytes::from(public)))
}

/// Splits a path behind its first segment, which must not be empty; the slash between them is
/// dropped.
fn split_segment(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = path.iter().position(|&octet| octet == b'/').filter(|&bytes| bytes > 0)?;
    Some((path.get(..slash)?, path.get(slash + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::{glob, pattern, wildcard, without_virtual_host};
    use crate::order::PurgeScope;
    use bytes::Bytes;

    fn shown(scope: PurgeScope) -> String {
        match scope {
            PurgeScope::Target { target, .. } => format!("target {}", target.escape_ascii()),
            PurgeScope::Prefix { prefix, .. } => format!("prefix {}", prefix.escape_ascii()),
            PurgeScope::Host { .. } => "host".to_owned(),
            PurgeScope::Pattern { pattern, .. } => format!("pattern {}", pattern.as_str()),
            other => panic!("{other:?}"),
        }
    }

    const HOST: Bytes = Bytes::from_static(b"a.test");

    #[test]
    fn wildcards_match_anything_and_other_text_itself() {
        for (text, expected) in [
            ("/.*", "host"),
            ("/*", "host"),
            (".*", "host"),
            ("/a/.*", "prefix /a/"),
            ("/a/*", "prefix /a/"),
            ("/a.b?c=d.*", "prefix /a.b?c=d"),
            ("/.*projects.*", r"pattern ^/.*projects.*$"),
            ("/*.png", r"pattern ^/.*\.png$"),
            ("/wiki/M*A*S*H", r"pattern ^/wiki/M.*A.*S.*H$"),
        ] {
            assert_eq!(shown(wildcard(&HOST, text.as_bytes()).unwrap().unwrap()), expected, "{text}");
        }
        assert!(wildcard(&HOST, b"/a.b(c)|d").is_none());
        assert_eq!(shown(glob(&HOST, b"/plain").unwrap()), "target /plain");
        assert!(glob(&HOST, b"/\xff*").is_err());
    }

    #[test]
    fn declared_pattern_is_anchored_at_its_beginning() {
        for (text, expected) in [
            ("/.*", "host"),
            ("/2024/01/.*", "prefix /2024/01/"),
            ("/2024", "prefix /2024"),
            ("/(a|b)/.*", "pattern ^(?:/(a|b)/.*)"),
            ("/a|/b", "pattern ^(?:/a|/b)"),
        ] {
            assert_eq!(shown(pattern(&HOST, text.as_bytes()).unwrap()), expected, "{text}");
        }
        let error = pattern(&HOST, b"/(a").unwrap_err().to_string();
        assert_eq!(error, "the target: not a regular expression that can be used here: unclosed group");
    }

    #[test]
    fn zope_virtual_hosting_is_undone() {
        let undone = |target: &str| {
            without_virtual_host(target.as_bytes())
                .map(|(host, target)| format!("{} {}", host.escape_ascii(), target.escape_ascii()))
        };
        for (target, expected) in [
            (
                "/VirtualHostBase/http/www.example.org:80/Plone/VirtualHostRoot/doc",
                Some("www.example.org /doc"),
            ),
            ("/VirtualHostBase/https/example.org:443/Plone/VirtualHostRoot", Some("example.org /")),
            ("/VirtualHostBase/http/a:8080/VirtualHostRoot/a/view?b", Some("a:8080 /a/view?b")),
            ("/VirtualHostBase/http/a/Plone/VirtualHostRoot?b", Some("a /?b")),
            ("/VirtualHostBase/http/a/P/VirtualHostRoot/_vh_x/_vh_y/z", Some("a /x/y/z")),
            ("/VirtualHostBase/http/a/P/VirtualHostRoot/_vh_x", Some("a /x")),
            ("/VirtualHostBase/http/a/P/xVirtualHostRoot/y", None),
            ("/VirtualHostBase/http/a/P/VirtualHostRooty", None),
            ("/VirtualHostBase/http/a/P/", None),
            ("/VirtualHostBase//a/VirtualHostRoot", None),
            ("/VirtualHostBase/http", None),
            ("/doc", None),
        ] {
            assert_eq!(undone(target).as_deref(), expected, "{target}");
        }
    }
}
