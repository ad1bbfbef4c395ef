//! Patterns over names, paths and parameters.
//!
//! Invariant: matching takes time proportional to the product of both lengths at most, for any
//! input. A pattern decides nothing; its list determines the meaning of a match.

use std::fmt;

/// A pattern over bytes in which `*` matches any run, including an empty one.
///
/// Names of cookies and fields, paths and parameters are compared without regard to ASCII case. A
/// pattern that matches too much only makes a request pass, or removes a cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Box<[u8]>);

impl Pattern {
    /// Creates the pattern written as `text`.
    pub fn new(text: &str) -> Self {
        Self(text.to_ascii_lowercase().into_bytes().into())
    }

    /// Whether the whole of `octets` matches, in time proportional to the product of both lengths
    /// at most.
    pub fn matches(&self, octets: &[u8]) -> bool {
        let (mut rest, mut pattern) = (octets, &*self.0);
        // The state to return to if the run that the last `*` matched is too short.
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
    /// The shortest text that the `*` at the pattern's beginning can match in `octets`. Empty if
    /// the pattern begins with something else or does not match.
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
    fn start_is_the_text_matched_by_the_first_star() {
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
    fn patterns_match_the_whole_text() {
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
