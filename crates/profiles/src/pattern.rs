//! Patterns over names, paths and parameters.
//!
//! Invariant: matching takes time in proportion to the product of both lengths at most, whatever they are. A pattern
//! decides nothing; what a match means says the list it stands in.

use std::fmt;

/// A pattern over octets in which `*` stands for any run of them, empty included. Names of cookies and fields,
/// paths and parameters are compared without regard to ASCII case: a pattern that matches too much makes a
/// request pass, or removes a cookie that nobody would otherwise have kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Box<[u8]>);

impl Pattern {
    /// The pattern written as `text`.
    pub fn new(text: &str) -> Self {
        Self(text.to_ascii_lowercase().into_bytes().into())
    }

    /// Whether the whole of `octets` matches. Takes time in proportion to the product of both lengths at most.
    pub fn matches(&self, octets: &[u8]) -> bool {
        let (mut rest, mut pattern) = (octets, &*self.0);
        // Where to go on when the run that the last `*` took turns out too short.
        let mut retry: Option<(&[u8], &[u8])> = None;
        loop {
            match (pattern.split_first(), rest.split_first()) {
                (Some((b'*', after)), _) => {
                    retry = Some((after, rest));
                    pattern = after;
                }
                (Some((expected, after)), Some((octet, others)))
                    if *expected == octet.to_ascii_lowercase() =>
                {
                    (pattern, rest) = (after, others);
                }
                (None, None) => return true,
                _ => {
                    let Some((after, [_, shorter @ ..])) = retry else { return false };
                    retry = Some((after, shorter));
                    (pattern, rest) = (after, shorter);
                }
            }
        }
    }
}

impl Pattern {
    /// What the `*` at the beginning of the pattern stands for in octets that match it, at its shortest; empty if it
    /// begins with something else.
    pub fn start_in<'a>(&self, octets: &'a [u8]) -> &'a [u8] {
        let Some(rest) = self.0.strip_prefix(b"*") else { return &[] };
        let rest = Self(rest.into());
        let matches = |start: &usize| octets.get(*start..).is_some_and(|octets| rest.matches(octets));
        (0..=octets.len()).find(matches).and_then(|start| octets.get(..start)).unwrap_or_default()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn the_start_is_what_the_first_star_stands_for() {
        for (pattern, text, expected) in [
            ("*/a.php", "/blog/a.php", "/blog"),
            ("*/a.php", "/a.php", ""),
            ("*/a/*", "/b/a/a/c", "/b"),
            ("/a/*", "/a/b", ""),
            ("*/a", "/b", ""),
        ] {
            assert_eq!(
                Pattern::new(pattern).start_in(text.as_bytes()),
                expected.as_bytes(),
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn patterns_match_the_whole() {
        let cases = [
            ("abc", "aBc", true),
            ("abc", "abcd", false),
            ("abc", "ab", false),
            ("", "", true),
            ("*", "", true),
            ("ab*", "ab", true),
            ("ab*", "xab", false),
            ("*ab", "aab", true),
            ("*ab", "aba", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "acb", false),
            ("*a*", "xay", true),
            ("*aab", "aaaab", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(Pattern::new(pattern).matches(text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
