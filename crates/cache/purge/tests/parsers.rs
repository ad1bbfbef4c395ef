//! Property tests of the parsers: the checks of `support/checks.rs` on generated requests and on
//! the seeds of the fuzz targets. The seeds stay valid even where no fuzzer runs.

#[path = "support/checks.rs"]
mod checks;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use testkit::Seeds;

/// Up to `count` of the parts in any order. Random bytes alone rarely form anything readable.
fn parts(parts: &'static [&'static str], count: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(select(parts), 0..count).prop_map(|parts| parts.concat().into_bytes())
}

const METHODS: &[&str] = &["PURGE", "BAN", "URIBAN", "PURGEKEYS", "PURGETAGS", "REFRESH", "GET"];

const TARGETS: &[&str] = &[
    "/",
    "/",
    "a",
    ".*",
    "*",
    "?q=1",
    "http://",
    "h.test",
    ":80",
    "/site",
    "(",
    ")",
    "|",
    "^",
    "%2a",
    "/VirtualHostBase/http/w.test:80",
    "/VirtualHostRoot",
    "/_vh_x",
];

const NAMES: &[&str] = &[
    "Host",
    "Cache-Tags",
    "X-Cache-Tags",
    "X-Magento-Tags-Pattern",
    "xkey",
    "xkey-purge",
    "xkey-softpurge",
    "X-Host",
    "X-Url",
    "X-Content-Type",
    "Clear-Cache",
    "X-Varnish-Purge-All",
    "X-TYPO3-Sitename",
    "Varnish-Ban-TYPO3-Pid",
    "X-Purge-Method",
    "X-Purge",
    "Fastly-Soft-Purge",
    "X-Acquia-Purge",
];

const VALUES: &[&str] = &[
    "h.test",
    "a",
    "node:1",
    ",",
    "|",
    " ",
    ".*",
    "(^|,)",
    "(,|$)",
    "(,.+)?$",
    "(",
    ")",
    "\\",
    "\\b",
    "^",
    "$",
    "1",
    "true",
    "regex",
    "default",
    "exact",
    "tags",
    "invalidate",
    "revalidate",
    "\\{[^}]*,",
    "{",
    "}",
    "\u{fc}",
];

const BANS: &[&str] = &[
    "req.url",
    "req.http.host",
    "req.http.x",
    "obj.http.",
    "obj.status",
    "obj.age",
    "content-type",
    "xkey",
    " ",
    " ",
    " ",
    "==",
    "!=",
    "~",
    "!~",
    "&&",
    "&&",
    "\"",
    "\"",
    "\\",
    "a",
    "(",
    "[a-z]+",
    "^/",
    "200",
    "\u{fc}",
];

const CALLS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ":",
    ",",
    ",",
    "\"type\"",
    "\"uri\"",
    "\"uri-prefix\"",
    "\"origin\"",
    "\"group\"",
    "\"tag\"",
    "\"ban\"",
    "\"all\"",
    "\"host\"",
    "\"selectors\"",
    "\"groups\"",
    "\"purge\"",
    "\"match\"",
    "\"site\"",
    "true",
    "false",
    "null",
    "1",
    "\"http://a.test/b\"",
    "\"a\"",
    "\"\"",
    "\"req.url ~ a\"",
    "\"files\"",
    "\"tags\"",
    "\"surrogate_keys\"",
    "\"url\"",
];

const ROUTES: &[&str] =
    &["/purge", "/service/a/purge", "/service/a/purge/k", "/purge/h/p", "/zones/a/purge_cache"];

const SIGNALS: &[&str] = &[
    "public", "private", "stale", "tag=", "a", "b_Po.1", "*", "/", "/", "/x", ",", ",", ";", " ", "\"a\"",
    "\"", "(", "\u{fc}", "\n",
];

/// A whole request, with fields that clients send.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let field = (select(NAMES), parts(VALUES, 6));
    (select(METHODS), parts(TARGETS, 5), vec(field, 0..4)).prop_map(|(method, target, fields)| {
        let mut request = [method.as_bytes(), b" /", &target].concat();
        for (name, value) in fields {
            request.extend([b"\n", name.as_bytes(), b": ", &value].concat());
        }
        request
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn orders(request in request()) {
        checks::orders(&request);
    }

    #[test]
    fn tags(octets in parts(VALUES, 10)) {
        checks::tags(&octets);
    }

    #[test]
    fn any_tags(octets in vec(any::<u8>(), 0..40)) {
        checks::tags(&octets);
    }

    #[test]
    fn bans(octets in parts(BANS, 14)) {
        checks::bans(&octets);
    }

    #[test]
    fn calls(route in select(ROUTES), content in parts(CALLS, 16)) {
        checks::calls(&[route.as_bytes(), b"\n", &content].concat());
    }

    #[test]
    fn asked_by_answers(octets in parts(SIGNALS, 12)) {
        checks::asked_by_answers(&octets);
    }

    #[test]
    fn any_octets(octets in vec(any::<u8>(), 0..80)) {
        checks::orders(&octets);
        checks::bans(&octets);
        checks::calls(&[b"/purge\n", &octets[..]].concat());
        checks::asked_by_answers(&octets);
    }
}

/// Well-formed calls with one member replaced.
#[test]
fn calls_with_a_member_of_any_kind() {
    let kinds = ["uri", "uri-prefix", "origin", "host", "group", "tag", "ban", "all"];
    let values =
        ["null", "1", "true", "\"a\"", "[]", "[\"a\"]", "[\"http://a.test\"]", "[\"req.url ~ a\"]", "{}"];
    for kind in kinds {
        for member in ["selectors", "groups", "purge", "match", "site"] {
            for value in values {
                let selectors = if member == "selectors" { "" } else { ",\"selectors\":[\"http://a.test\"]" };
                let call = format!("/purge\n{{\"type\":\"{kind}\",\"{member}\":{value}{selectors}}}");
                checks::calls(call.as_bytes());
            }
        }
    }
}

/// The committed seeds of the fuzz targets.
const SEEDS: Seeds = Seeds::of(env!("CARGO_MANIFEST_DIR"));

#[test]
fn seeds_of_orders() {
    SEEDS.replay("orders", checks::orders);
}

#[test]
fn seeds_of_tags() {
    SEEDS.replay("tags", checks::tags);
}

#[test]
fn seeds_of_bans() {
    SEEDS.replay("bans", checks::bans);
}

#[test]
fn seeds_of_calls() {
    SEEDS.replay("calls", checks::calls);
}

#[test]
fn seeds_of_signals() {
    SEEDS.replay("signals", checks::asked_by_answers);
}
