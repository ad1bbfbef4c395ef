//! A cache's verdict about a request, according to the response's `Cache-Status` field (RFC 9211).
//! Without it, `X-Cache` is read; without both, `Age` (RFC 9111 section 5.1).
//!
//! Invariant: of several caches the nearest one counts, which is the last member of the list. An
//! age above 0 only proves that some cache had the response stored, so it has its own verdict.
//! Cache keys are ignored, and nothing is inferred from other fields.

use message::{list_members, names};

/// The verdict of the nearest cache. The verdicts are coarse enough for the dialects of all caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheVerdict {
    /// The response was stored and fresh.
    Hit,
    /// The response has an age, and no field that says more: some cache on the way had it stored.
    HitByAge,
    /// The response was stored and stale.
    Stale,
    /// The cache asked the origin whether its stored response is still valid, and it was.
    Revalidated,
    /// The cache fetched the response, because it had no usable one.
    Miss,
    /// The cache passed the request to the origin without a lookup.
    Pass,
    /// The field exists but has no known meaning.
    Other,
}

impl CacheVerdict {
    /// All verdicts, in the order in which they are reported.
    pub const ALL: [Self; 7] =
        [Self::Hit, Self::HitByAge, Self::Stale, Self::Revalidated, Self::Miss, Self::Pass, Self::Other];

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::HitByAge => "hit (by Age)",
            Self::Stale => "stale",
            Self::Revalidated => "revalidated",
            Self::Miss => "miss",
            Self::Pass => "pass",
            Self::Other => "other",
        }
    }

    /// The verdict of a response; `field` returns the value of a field by name. `None` if no field
    /// has a verdict.
    pub fn of<'a>(field: impl Fn(&str) -> Option<&'a [u8]>) -> Option<Self> {
        field(names::CACHE_STATUS)
            .map(Self::from_cache_status)
            .or_else(|| field("X-Cache").map(Self::from_x_cache))
            .or_else(|| field(names::AGE).and_then(Self::from_age))
    }

    /// Reads the value of an `Age` field. An age of 0 may belong to a response that was just
    /// fetched, so it has no verdict. A value without a number has none either.
    fn from_age(value: &[u8]) -> Option<Self> {
        let seconds = list_members(value).next().unwrap_or_default();
        let is_number = seconds.iter().all(u8::is_ascii_digit);
        (is_number && seconds.iter().any(|&digit| digit != b'0')).then_some(Self::HitByAge)
    }

    /// Reads the value of a `Cache-Status` field.
    pub fn from_cache_status(value: &[u8]) -> Self {
        let mut parameters =
            list_members(value).last().unwrap_or_default().split(|&byte| byte == b';').skip(1);
        let mut verdict = Self::Other;
        let mut forwarded_stale = false;
        for parameter in parameters.by_ref().map(<[u8]>::trim_ascii) {
            let (name, value) = split_parameter(parameter);
            match (name, value) {
                (b"hit", b"" | b"?1") => verdict = Self::Hit,
                (b"ttl", [b'-', ..]) if verdict == Self::Hit => verdict = Self::Stale,
                (b"fwd", b"bypass" | b"method" | b"request") => verdict = Self::Pass,
                (b"fwd", reason) => {
                    verdict = Self::Miss;
                    forwarded_stale = reason == b"stale";
                }
                (b"fwd-status", b"304") if forwarded_stale => verdict = Self::Revalidated,
                _ => {}
            }
        }
        verdict
    }

    /// Reads the value of an `X-Cache` field. It has no grammar: the words in the last member
    /// decide.
    pub fn from_x_cache(value: &[u8]) -> Self {
        let nearest = list_members(value).last().unwrap_or_default();
        let says = |word: &[u8]| nearest.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word));
        // "TCP_REFRESH_HIT" and "STALE-HIT" contain "hit", so the narrower words come first.
        if says(b"stale") || says(b"updating") {
            Self::Stale
        } else if says(b"revalidated") || says(b"refresh_hit") {
            Self::Revalidated
        } else if says(b"pass") || says(b"dynamic") {
            Self::Pass
        } else if says(b"miss") || says(b"expired") {
            Self::Miss
        } else if says(b"hit") {
            Self::Hit
        } else {
            Self::Other
        }
    }
}

/// Name and value of one parameter of a structured field item; the value is empty if there is none.
fn split_parameter(parameter: &[u8]) -> (&[u8], &[u8]) {
    let end = parameter.iter().position(|&byte| byte == b'=').unwrap_or(parameter.len());
    let (name, rest) = parameter.split_at(end);
    (name, rest.get(1..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::CacheVerdict;

    #[test]
    fn cache_status_is_read_from_the_nearest_cache() {
        let read = |value: &str| CacheVerdict::from_cache_status(value.as_bytes());
        assert_eq!(read("petasos; hit; ttl=30"), CacheVerdict::Hit);
        assert_eq!(read("petasos; hit; ttl=-30; detail=stale"), CacheVerdict::Stale);
        assert_eq!(read("petasos; fwd=uri-miss; stored"), CacheVerdict::Miss);
        assert_eq!(read("petasos;fwd=stale;fwd-status=304"), CacheVerdict::Revalidated);
        assert_eq!(read("petasos; fwd=stale; fwd-status=200"), CacheVerdict::Miss);
        assert_eq!(read("petasos; fwd=bypass; detail=cookie"), CacheVerdict::Pass);
        assert_eq!(read("far; hit, near; fwd=miss"), CacheVerdict::Miss);
        assert_eq!(read("\"a, b; hit\"; fwd=method"), CacheVerdict::Pass);
        assert_eq!(read("petasos"), CacheVerdict::Other);
        assert_eq!(read(""), CacheVerdict::Other);
    }

    #[test]
    fn age_counts_only_without_other_fields() {
        let read = |fields: &[(&str, &'static str)]| {
            CacheVerdict::of(|name| {
                let found = fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.as_bytes())
            })
        };
        assert_eq!(read(&[("Age", "7")]), Some(CacheVerdict::HitByAge));
        assert_eq!(read(&[("age", "100")]), Some(CacheVerdict::HitByAge));
        for silent in ["0", "00", "", "-1", "soon", "1.5"] {
            assert_eq!(read(&[("Age", silent)]), None, "{silent}");
        }
        assert_eq!(read(&[("Age", "7"), ("X-Cache", "MISS")]), Some(CacheVerdict::Miss));
        assert_eq!(read(&[("Age", "7"), ("Cache-Status", "p; hit")]), Some(CacheVerdict::Hit));
        assert_eq!(
            read(&[("X-Cache", "MISS"), ("Cache-Status", "p; hit")]),
            Some(CacheVerdict::Hit),
            "the standard field comes first"
        );
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn each_verdict_has_its_own_index() {
        let places = CacheVerdict::ALL.map(|verdict| verdict as usize);
        assert_eq!(places, std::array::from_fn(|place| place));
    }

    #[test]
    fn x_cache_dialects_are_understood() {
        let read = |value: &str| CacheVerdict::from_x_cache(value.as_bytes());
        assert_eq!(read("HIT"), CacheVerdict::Hit);
        assert_eq!(read("Hit from cloudfront"), CacheVerdict::Hit);
        assert_eq!(read("MISS, HIT"), CacheVerdict::Hit);
        assert_eq!(read("TCP_REFRESH_HIT from a.test"), CacheVerdict::Revalidated);
        assert_eq!(read("Miss from cloudfront"), CacheVerdict::Miss);
        assert_eq!(read("pass"), CacheVerdict::Pass);
        assert_eq!(read("UPDATING"), CacheVerdict::Stale);
        assert_eq!(read("yes"), CacheVerdict::Other);
    }
}
