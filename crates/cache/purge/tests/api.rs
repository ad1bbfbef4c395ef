//! Calls of the JSON API as clients write them, each with the invalidations that it must give.

#![expect(clippy::panic, reason = "a test fails by panicking")]

mod support;

use message::{Fields, Method, Status};
use petasos_purge::{PurgeOrder, PurgeOutcome, api, reply};
use support::shown;

fn called(
    path: &str,
    fields: &[(&'static str, &'static str)],
    content: &str,
) -> Result<PurgeOrder, api::CallRefusal> {
    let route = api::ApiRoute::of(path.as_bytes()).unwrap_or_else(|| panic!("{path} is no route"));
    let mut all = Fields::new();
    for (name, value) in fields {
        all.push(*name, *value);
    }
    api::read(&route, &Method::Post, &all, content.as_bytes())
}

fn check(path: &str, fields: &[(&'static str, &'static str)], table: &[(&str, &[&str])]) {
    for (content, expected) in table {
        let order = called(path, fields, content)
            .unwrap_or_else(|refused| panic!("{content}: {}", refused.malformed));
        let found: Vec<_> = order.invalidations.iter().map(shown).collect();
        assert_eq!(found, *expected, "{path} {content}");
    }
}

#[test]
fn native() {
    check(
        "/purge",
        &[],
        &[
            // The draft's own examples.
            (
                r#"{"type": "uri", "selectors": ["https://example.com/foo/bar", "https://example.com/foo/bar/baz"]}"#,
                &["example.com /foo/bar", "example.com /foo/bar/baz"],
            ),
            (
                r#"{"type": "group", "selectors": ["https://example.com:443", "http://www.example.com:80"], "groups": ["scripts"]}"#,
                &[
                    r"example.com any of \x00group:https://example.com/scripts",
                    r"www.example.com any of \x00group:http://www.example.com/scripts",
                ],
            ),
            (r#"{"type": "origin", "selectors": ["https://example.net:8080"]}"#, &["example.net:8080 host"]),
            (
                r#"{"type": "uri-prefix", "selectors": ["https://example.com/foo/bar"]}"#,
                &["example.com prefix /foo/bar"],
            ),
            // Hard, soft, and by default hard.
            (r#"{"type": "uri", "selectors": ["http://a.test/"], "purge": true}"#, &["a.test /"]),
            (
                r#"{"type": "uri", "selectors": ["http://a.test/"], "purge": false, "unknown": 1}"#,
                &["soft a.test /"],
            ),
            // Types and members that the draft does not have.
            (r#"{"type": "host", "selectors": ["A.test:8080"]}"#, &["a.test:8080 host"]),
            (r#"{"type": "tag", "selectors": ["node:1", "a b"]}"#, &["all sites any of node:1 a b"]),
            (
                r#"{"type": "tag", "selectors": ["a", "b"], "match": "all", "site": "a.test"}"#,
                &["a.test all of a b"],
            ),
            (
                r#"{"type": "ban", "selectors": ["req.url ~ ^/news", "obj.status == 404"]}"#,
                &["all sites ban req.url ~ \"^/news\"", "all sites ban obj.status == \"404\""],
            ),
            (r#"{"type": "all"}"#, &["all sites everything"]),
            (
                r#"{"type": "all", "site": "a.test", "purge": false, "selectors": null}"#,
                &["soft a.test everything"],
            ),
        ],
    );
}

#[test]
fn fastly() {
    check("/service/a.test/purge", &[], &[(r#"{"surrogate_keys": ["k1", "k2"]}"#, &["a.test any of k1 k2"])]);
    check("/service/a.test/purge", &[("Surrogate-Key", "k1 k2")], &[("", &["a.test any of k1 k2"])]);
    check(
        "/service/a.test/purge",
        &[("Surrogate-Key", "a"), ("Surrogate-Key", "b")],
        &[
            ("", &["a.test any of a b"]),
            (r#"{"surrogate_keys": ["c"]}"#, &["a.test any of a b c"]),
            ("{}", &["a.test any of a b"]),
        ],
    );
    let refused = called("/service/a.test/purge", &[("Surrogate-Key", "a")], "b").expect_err("no JSON");
    assert_eq!(refused.status.code(), 400);
    check("/service/a.test/purge/k%201", &[("Fastly-Soft-Purge", "1")], &[("", &["soft a.test any of k 1"])]);
    check("/service/a.test/purge_all", &[("Fastly-Soft-Purge", "1")], &[("", &["a.test everything"])]);
    check("/purge/www.example.com/path?x=1", &[], &[("", &["www.example.com /path?x=1"])]);
    let order = called("/service/a.test/purge", &[("Surrogate-Key", "k1 k2")], "").expect("a call");
    let reply = reply(
        &order,
        PurgeOutcome { purged: 5, sequence: 9, ..PurgeOutcome::default() },
        Status::SERVICE_UNAVAILABLE,
    );
    assert_eq!(reply.content, "{\"k1\":\"9\",\"k2\":\"9\"}\n");
    assert_eq!(reply.head.fields.first("X-Purged-Count").expect("a count"), "5");
}

#[test]
fn cloudflare() {
    for path in ["/zones/a.test/purge_cache", "/client/v4/zones/a.test/purge_cache"] {
        check(
            path,
            &[("Authorization", "Bearer secret")],
            &[
                (
                    r#"{"files":["http://www.example.com/css/styles.css"]}"#,
                    &["www.example.com /css/styles.css"],
                ),
                (
                    r#"{"files":[{"url":"http://www.example.com/cat.jpg","headers":{"CF-IPCountry":"US"}}]}"#,
                    &["www.example.com /cat.jpg"],
                ),
                (r#"{"tags":["some-tag","another-tag"]}"#, &["a.test any of some-tag another-tag"]),
                (
                    r#"{"hosts":["www.example.com","images.example.com"]}"#,
                    &["www.example.com host", "images.example.com host"],
                ),
                (r#"{"prefixes":["www.example.com/foo"]}"#, &["www.example.com prefix /foo"]),
                (r#"{"purge_everything":true}"#, &["a.test everything"]),
                (r#"{"purge_everything":false,"hosts":["b.test"]}"#, &["b.test host"]),
            ],
        );
    }
}

/// Path, content, status and reason of calls that are refused.
const WRONG: &[(&str, &str, u16, &str)] = &[
    ("/purge", "", 400, "the content: missing; expected a JSON object"),
    ("/purge", "[1]", 400, "the content: expected an object, found an array"),
    ("/purge", "{}", 400, "type: missing; expected uri, uri-prefix, origin, host, group, tag, ban or all"),
    ("/purge", r#"{"type": 1}"#, 400, "type: expected a string, found a number"),
    ("/purge", r#"{"type": "regex", "selectors": ["a"]}"#, 501, "type: `regex` is not supported"),
    ("/purge", r#"{"type": "uri"}"#, 400, "selectors: missing; expected an array with at least one element"),
    (
        "/purge",
        r#"{"type": "uri", "selectors": []}"#,
        400,
        "selectors: missing; expected at least one element",
    ),
    ("/purge", r#"{"type": "uri", "selectors": "a"}"#, 400, "selectors: expected an array, found a string"),
    (
        "/purge",
        r#"{"type": "uri", "selectors": ["http://a/", 2]}"#,
        400,
        "selectors[1]: expected a string, found a number",
    ),
    (
        "/purge",
        r#"{"type": "uri", "selectors": ["/a"]}"#,
        400,
        "selectors[0]: no URL: relative URL without a base",
    ),
    (
        "/purge",
        r#"{"type": "origin", "selectors": ["http://a/b"]}"#,
        400,
        "selectors[0]: expected scheme, host and port only, found `http://a/b`",
    ),
    (
        "/purge",
        r#"{"type": "group", "selectors": ["http://a"]}"#,
        400,
        "groups: missing; expected an array with at least one element",
    ),
    (
        "/purge",
        r#"{"type": "host", "selectors": ["a/b"]}"#,
        400,
        "selectors[0]: expected a host name, found `a/b`",
    ),
    (
        "/purge",
        r#"{"type": "tag", "selectors": ["a"], "match": "some"}"#,
        400,
        "match: expected any or all, found `some`",
    ),
    (
        "/purge",
        r#"{"type": "tag", "selectors": [""]}"#,
        400,
        "selectors[0]: missing; expected a text that is not empty",
    ),
    ("/purge", r#"{"type": "all", "purge": "no"}"#, 400, "purge: expected true or false, found a string"),
    ("/purge", r#"{"type": "all", "site": "a b"}"#, 400, "site: expected a host name, found `a b`"),
    (
        "/purge",
        r#"{"type": "ban", "selectors": ["req.url = a"]}"#,
        400,
        "selectors[0]: the ban expression cannot be read at column 9: expected one of == != ~ !~, found `=`",
    ),
    (
        "/service/a/purge",
        r#"{"keys": ["a"]}"#,
        400,
        "surrogate_keys: missing; expected an array with at least one element",
    ),
    (
        "/zones/a/purge_cache",
        "{}",
        400,
        "the content: missing; expected files, tags, hosts, prefixes or \"purge_everything\": true",
    ),
    ("/zones/a/purge_cache", r#"{"files": [{"headers": {}}]}"#, 400, "files[0].url: missing; expected a URL"),
    (
        "/zones/a/purge_cache",
        r#"{"files": [true]}"#,
        400,
        "files[0]: expected a URL, or an object with one, found true or false",
    ),
];

#[test]
fn faults_are_reported_with_their_path() {
    for &(path, content, code, reason) in WRONG {
        let refused = called(path, &[], content).expect_err(content);
        assert_eq!(
            (refused.status.code(), refused.malformed.to_string()),
            (code, reason.to_owned()),
            "{content}"
        );
        assert_eq!(refused.reply().head.status.code(), code);
    }
}

#[test]
fn selectors_and_bans_are_limited() {
    let call = |count: usize, kind: &str, selector: &str| {
        let selectors = vec![format!("\"{selector}\""); count].join(",");
        called("/purge", &[], &format!(r#"{{"type": "{kind}", "selectors": [{selectors}]}}"#))
            .map(|order| order.invalidations.len())
    };
    assert_eq!(call(api::SELECTORS_MAX, "host", "a").ok(), Some(api::SELECTORS_MAX));
    let refused = call(api::SELECTORS_MAX + 1, "host", "a").expect_err("too many");
    assert_eq!(refused.malformed.to_string(), "selectors: more than 4096 entries; send several requests");
    assert_eq!(call(api::BANS_MAX, "ban", "req.url ~ a").ok(), Some(api::BANS_MAX));
    assert!(call(api::BANS_MAX + 1, "ban", "req.url ~ a").is_err());
}
