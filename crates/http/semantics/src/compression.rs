//! The responses that Petasos makes coded forms of.
//!
//! Invariants: only a complete and successful response is coded. A response that must not be
//! transformed stays unchanged, as does one with a coding of the origin other than gzip. Streams of
//! messages are never coded.

use crate::Directives;
use crate::accepted_codings::{AcceptedCodings, Coding};
use crate::coding::{is_archive, is_coded, is_gzip, media_type};
use message::{Fields, ResponseHead, Status, names};
use profiles::Pattern;

/// The form in which a shared response without a coding is sent while it is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissForm {
    /// As the origin sends it.
    Identity,
    /// With gzip, coded while it is sent.
    Gzip,
}

/// Which coded forms Petasos makes of stored responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionRules {
    /// The codings, the preferred one first.
    pub codings: Vec<Coding>,
    /// The media types of responses that are coded.
    pub types: Vec<Pattern>,
    /// The shortest content to code, in bytes.
    pub bytes_min: u64,
    /// The longest content to code, in bytes.
    pub bytes_max: u64,
    /// How a response is sent while it is fetched.
    pub misses: MissForm,
}

impl Default for CompressionRules {
    fn default() -> Self {
        Self {
            codings: Coding::ALL.to_vec(),
            types: DEFAULT_TYPES.iter().map(|name| Pattern::new(name)).collect(),
            bytes_min: 1024,
            bytes_max: 4 << 20,
            misses: MissForm::Identity,
        }
    }
}

impl CompressionRules {
    /// The media types that are coded if no others are configured.
    pub const DEFAULT_TYPES: &[&str] = &DEFAULT_TYPES;

    /// Whether forms may be made of responses with these fields.
    pub fn concern(&self, response: &Fields) -> bool {
        let is_codable = !is_coded(response) || is_gzip(response);
        if self.codings.is_empty() || !is_codable || Directives::of_response(response).no_transform {
            return false;
        }
        let media_type = media_type(response);
        !is_stream(&media_type)
            && self.types.iter().any(|pattern| pattern.matches(media_type.as_bytes()))
            && !is_archive(response)
    }

    /// Whether forms may be made of a response with this head and `bytes` bytes of content.
    pub fn cover(&self, head: &ResponseHead, bytes: u64) -> bool {
        head.status == Status::OK
            && !head.fields.has(names::CONTENT_RANGE)
            && (self.bytes_min..=self.bytes_max).contains(&bytes)
            && self.concern(&head.fields)
    }

    /// Whether forms may be made of a response with this head, whose content has `bytes` bytes if
    /// its length is known.
    pub fn may_cover(&self, head: &ResponseHead, bytes: Option<u64>) -> bool {
        self.cover(head, bytes.unwrap_or(self.bytes_min))
    }

    /// The codings of the forms to be made of a response with these fields. A response with gzip is
    /// its own form in this coding.
    pub fn codings_for(&self, response: &Fields) -> Vec<Coding> {
        let has_gzip = is_gzip(response);
        self.codings.iter().copied().filter(|coding| !(has_gzip && *coding == Coding::Gzip)).collect()
    }

    /// Whether a response without a coding is sent with gzip while it is fetched, to a client that
    /// accepts these codings. `bytes` is the length of its content, if it is known.
    pub fn code_misses(&self, head: &ResponseHead, bytes: Option<u64>, accepted: AcceptedCodings) -> bool {
        self.misses == MissForm::Gzip
            && accepted.has(Coding::Gzip)
            && head.status == Status::OK
            && !is_coded(&head.fields)
            && !head.fields.has(names::CONTENT_RANGE)
            && bytes.is_none_or(|bytes| bytes >= self.bytes_min)
            && self.concern(&head.fields)
    }
}

/// Whether contents of a type are messages that must arrive at once. gRPC compresses its messages
/// by itself.
fn is_stream(media_type: &str) -> bool {
    media_type == "text/event-stream" || media_type.starts_with("application/grpc")
}

/// Text, and formats that are as compressible as text.
const DEFAULT_TYPES: [&str; 19] = [
    "text/*",
    "application/*+json",
    "application/*+xml",
    "application/eot",
    "application/geo+json",
    "application/javascript",
    "application/json",
    "application/manifest+json",
    "application/rtf",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-javascript",
    "application/x-ndjson",
    "application/xml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/svg+xml",
    "image/x-icon",
];

#[cfg(test)]
mod tests {
    use super::{CompressionRules, MissForm};
    use crate::accepted_codings::{AcceptedCodings, Coding};
    use crate::tests::FieldLines;
    use message::{ResponseHead, Status};
    use profiles::Pattern;

    const HTML: (&str, &str) = ("Content-Type", "text/html; charset=utf-8");

    fn head(lines: &FieldLines) -> ResponseHead {
        ResponseHead { fields: lines.iter().copied().collect(), ..ResponseHead::new(Status::OK) }
    }

    #[test]
    fn listed_types_of_whole_responses_are_covered() {
        let rules = CompressionRules::default();
        let gzip = ("Content-Encoding", "gzip");
        for lines in [
            &[HTML][..],
            &[HTML, gzip],
            &[HTML, ("Content-Encoding", "x-gzip")],
            &[HTML, ("Content-Encoding", "identity")],
            &[("Content-Type", "application/ld+json")],
            &[("Content-Type", "IMAGE/SVG+XML")],
        ] {
            assert!(rules.cover(&head(lines), 5_000), "{lines:?}");
        }
        for lines in [
            &[][..],
            &[("Content-Type", "image/png")],
            &[("Content-Type", "text/event-stream")],
            &[("Content-Type", "application/gzip"), gzip],
            &[HTML, ("Content-Encoding", "br")],
            &[HTML, ("Content-Encoding", "zstd")],
            &[HTML, gzip, gzip],
            &[HTML, ("Content-Range", "bytes 0-1/2")],
            &[HTML, ("Cache-Control", "max-age=5, no-transform")],
        ] {
            assert!(!rules.cover(&head(lines), 5_000), "{lines:?}");
        }
        let all = CompressionRules { types: vec![Pattern::new("*")], ..rules.clone() };
        for (name, is_covered) in
            [("image/png", true), ("text/event-stream", false), ("application/grpc+proto", false)]
        {
            assert_eq!(all.cover(&head(&[("Content-Type", name)]), 5_000), is_covered, "{name}");
        }
        let other = ResponseHead { status: Status::PARTIAL_CONTENT, ..head(&[HTML]) };
        assert!(!rules.cover(&other, 5_000));
    }

    #[test]
    fn lengths_have_bounds() {
        let rules = CompressionRules { bytes_min: 10, bytes_max: 20, ..CompressionRules::default() };
        let covered: Vec<u64> = (0..30).filter(|bytes| rules.cover(&head(&[HTML]), *bytes)).collect();
        assert_eq!((covered.first(), covered.last()), (Some(&10), Some(&20)));
        let none = CompressionRules { codings: Vec::new(), ..CompressionRules::default() };
        assert!(!none.cover(&head(&[HTML]), 5_000));
    }

    #[test]
    fn gzip_of_the_origin_is_not_made_again() {
        let rules = CompressionRules::default();
        assert_eq!(rules.codings_for(&head(&[HTML]).fields), Coding::ALL);
        let coded = head(&[HTML, ("Content-Encoding", "gzip")]);
        assert_eq!(rules.codings_for(&coded.fields), [Coding::Brotli, Coding::Zstd]);
    }

    #[test]
    fn miss_is_coded_only_if_the_setting_says_so() {
        let rules = CompressionRules { misses: MissForm::Gzip, ..CompressionRules::default() };
        let accepted = AcceptedCodings::BROTLI_AND_GZIP;
        let codes = |rules: &CompressionRules, lines: &FieldLines, bytes| {
            rules.code_misses(&head(lines), bytes, accepted)
        };
        assert!(codes(&rules, &[HTML], None) && codes(&rules, &[HTML], Some(1024)));
        assert!(!codes(&rules, &[HTML], Some(1023)));
        assert!(!codes(&rules, &[HTML, ("Content-Encoding", "gzip")], None));
        assert!(!codes(&rules, &[HTML, ("Cache-Control", "no-transform")], None));
        assert!(!rules.code_misses(&head(&[HTML]), None, AcceptedCodings::of_codings(&[Coding::Brotli])));
        assert!(!codes(&CompressionRules::default(), &[HTML], None));
    }
}
