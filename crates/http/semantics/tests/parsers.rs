//! The checks in `support/checks.rs`, applied to generated field values and to the committed seeds
//! of the fuzz targets. This keeps the seeds passing without a fuzzer.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "support/checks.rs"]
mod checks;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use testkit::Seeds;

/// Up to `count` of the parts, in any order. Random bytes alone would rarely form a valid value.
fn parts(parts: &'static [&'static str], count: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(select(parts), 0..count).prop_map(|parts| parts.concat().into_bytes())
}

const CACHE_CONTROL: &[&str] = &[
    "max-age",
    "S-MaxAge",
    "no-cache",
    "no-store",
    "private",
    "public",
    "must-revalidate",
    "max-stale",
    "min-fresh",
    "immutable",
    "stale-if-error",
    "x-other",
    "=",
    "=",
    "=",
    "10",
    "0",
    "4294967296",
    "-1",
    "\"",
    "\"",
    "\\",
    ",",
    ", ",
    ", ",
    " ",
    "\t",
    "\n",
    "Set-Cookie",
    "a, b",
    "\u{fc}",
];

const VARY: &[&str] = &[
    "Accept-Language",
    "accept-encoding",
    "User-Agent",
    "Cookie",
    "Foo",
    "foo",
    "Bar",
    "*",
    ",",
    ", ",
    "\n",
    "\n",
    "\n\n",
    "\n\n",
    ": ",
    ": ",
    "1",
    "gzip, br",
    "\"",
    " ",
    "X-Forwarded-For",
    "Accept",
];

const DATES: &[&str] = &[
    "Sun", "Mon", "Sunday", ", ", " ", "06", " 6", "-", "Nov", "Feb", "29", "31", "94", "69", "1994", "2024",
    "9999", "08", "23", "24", ":49", ":37", ":60", " GMT", " UTC",
];

const RANGES: &[&str] = &[
    "bytes=",
    "Bytes=",
    "bytes ",
    "items=",
    "0",
    "1",
    "4",
    "5",
    "9",
    "10",
    "99",
    "18446744073709551616",
    "-",
    "-",
    "-",
    "-",
    "/",
    "/",
    "*",
    ",",
    ",",
    ", ",
    "\n",
    "\n",
    "\n",
    "\"a\"",
    "W/",
    "0-4/10",
    "5-9/10",
];

const STRUCTURED: &[&str] = &[
    "params",
    "except",
    "key-order",
    "a",
    "b",
    "max-age",
    "=",
    "=",
    "(",
    ")",
    "(\"a\" \"b\")",
    "\"a\"",
    "\"",
    "\\",
    "?0",
    "?1",
    "1",
    "-7",
    "1.5",
    ":YQ==:",
    "@1",
    "%\"%c3%bc\"",
    "tok/en",
    ";q",
    ";q=1",
    ",",
    ", ",
    " ",
    "\n",
    "\n",
    "/p?",
    "?",
    "&",
    "a=1",
    "%61",
    "+",
    "%",
    "%C3%A9",
    "%ff",
    "\u{e9}",
    "b=2",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cache_control(octets in parts(CACHE_CONTROL, 16)) {
        checks::cache_control(&octets);
    }

    #[test]
    fn vary(octets in parts(VARY, 20)) {
        checks::vary(&octets);
    }

    #[test]
    fn dates(octets in parts(DATES, 12)) {
        checks::dates(&octets);
    }

    #[test]
    fn dates_of_every_year(moment in any::<u64>()) {
        checks::dates(&moment.to_be_bytes());
    }

    #[test]
    fn ranges(octets in parts(RANGES, 20)) {
        checks::ranges(&octets);
    }

    #[test]
    fn several_ranges(
        specs in vec((0_u64..30, prop::option::of(0_u64..12)), 1..6),
        part in (0_u64..20, 0_u64..20, 1_u64..5),
        complete in 0_u64..40,
    ) {
        let specs: Vec<_> = specs
            .iter()
            .map(|(first, length)| match length {
                Some(length) => format!("{first}-{}", first + length),
                None if first % 2 == 0 => format!("{first}-"),
                None => format!("-{first}"),
            })
            .collect();
        let first = part.0;
        let last = part.0 + part.1;
        let more = part.2;
        let extents = format!("bytes {first}-{last}/{}\nbytes {}-{}/*", last + more, last + more - 1, last + more);
        checks::ranges(format!("bytes={}\n\n\"a\"\n{extents}\n{complete}", specs.join(",")).as_bytes());
    }

    #[test]
    fn structured(octets in parts(STRUCTURED, 16)) {
        checks::structured(&octets);
    }

    #[test]
    fn query_strings(
        rule in select(&["params", "key-order", "params=(\"a\")", "except=(\"a\" \"%C3%A9\")",
            "key-order, except=(\"b\" \"a\")", "key-order, params=(\"%26\" \"+\")"][..]),
        targets in vec(parts(&["?", "&", "&", "=", "a", "b", "é", "%C3%A9", "%26", "+", "%2B", "%20", "%", "%f", "1"], 9), 0..6),
    ) {
        let targets: Vec<_> = targets.into_iter().map(|target| [&b"/?"[..], &target].concat()).collect();
        checks::structured(&[rule.as_bytes(), b"\n", &targets.join(&b'\n')].concat());
    }

    #[test]
    fn arbitrary_bytes(octets in vec(any::<u8>(), 0..80)) {
        checks::cache_control(&octets);
        checks::vary(&octets);
        checks::dates(&octets);
        checks::ranges(&octets);
        checks::structured(&octets);
    }
}

/// The committed seeds of the fuzz targets.
const SEEDS: Seeds = Seeds::of(env!("CARGO_MANIFEST_DIR"));

#[test]
fn seeds_of_cache_control() {
    SEEDS.replay("cache_control", checks::cache_control);
}

#[test]
fn seeds_of_vary() {
    SEEDS.replay("vary", checks::vary);
}

#[test]
fn seeds_of_dates() {
    SEEDS.replay("dates", checks::dates);
}

#[test]
fn seeds_of_ranges() {
    SEEDS.replay("ranges", checks::ranges);
}

#[test]
fn seeds_of_structured() {
    SEEDS.replay("structured", checks::structured);
}
