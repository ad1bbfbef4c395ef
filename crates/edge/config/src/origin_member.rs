//! One of the origins of a site, as operators write it: a URL, and optionally its weight.

use address::OriginUrl;
use std::fmt;

/// An origin with its share of the requests: `URL` or `URL weight=N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginMember {
    /// The address of the origin.
    pub url: OriginUrl,
    /// Its share of the requests, relative to the weights of the site's other origins. From 1 to
    /// [`WEIGHT_MAX`].
    pub weight: u32,
}

/// The largest weight of an origin.
const WEIGHT_MAX: u32 = 100;

impl OriginMember {
    /// Reads an origin. Without a weight, it is 1.
    ///
    /// # Errors
    /// A sentence that says how to write an origin.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (url, weight) = match text.rsplit_once(char::is_whitespace) {
            Some((url, weight)) if weight.contains('=') => (url.trim_end(), Some(weight)),
            _ => (text, None),
        };
        let url = url.parse().map_err(|error: address::OriginUrlError| error.to_string())?;
        let weight = weight.map_or(Ok(1), parse_weight)?;
        Ok(Self { url, weight })
    }
}

fn parse_weight(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix("weight=").and_then(|number| number.parse().ok());
    let number = number.filter(|number| (1..=WEIGHT_MAX).contains(number));
    number.ok_or_else(|| format!("`{text}` is not weight=N with N from 1 to {WEIGHT_MAX}"))
}

impl fmt::Display for OriginMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)?;
        if self.weight == 1 { Ok(()) } else { write!(f, " weight={}", self.weight) }
    }
}

#[cfg(test)]
mod tests {
    use super::OriginMember;

    #[test]
    fn weight_follows_the_url() {
        for (text, weight) in [
            ("http://a:80", 1),
            ("http://a weight=3", 3),
            ("unix:/run/a b.sock  weight=100", 100),
            ("unix:/run/a b.sock", 1),
        ] {
            let member = OriginMember::parse(text).unwrap();
            assert_eq!(member.weight, weight, "{text}");
            assert_eq!(OriginMember::parse(&member.to_string()), Ok(member));
        }
        for text in ["http://a weight=0", "http://a weight=101", "http://a wait=1", "a weight=1", ""] {
            assert!(OriginMember::parse(text).is_err(), "{text}");
        }
    }
}
