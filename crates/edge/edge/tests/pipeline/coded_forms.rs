//! Coded forms of stored responses: made in the background at the second use, sent to clients that
//! accept them, and gone with their response.

use crate::support::{Stage, bare, reason, tagged};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use semantics::{Coding, CompressionRules};
use std::io::{Read, Write};
use testkit::{Response, Seen, eventually, response};

pub(crate) const FRESH: &str = "Cache-Control: max-age=60";
pub(crate) const HTML: &str = "Content-Type: text/html";
pub(crate) const TAG: &str = "ETag: \"1\"";
pub(crate) const BR: &str = "Accept-Encoding: gzip, deflate, br, zstd";
const ZSTD: &str = "Accept-Encoding: zstd, gzip, br;q=0";
pub(crate) const GZIP: &str = "Accept-Encoding: gzip";
pub(crate) const PLAIN: &str = "Accept-Encoding: identity";
const PURGE_PEER: &str = "X: y";

/// A page of more than 1 KiB that names `version`.
pub(crate) fn page(version: &str) -> String {
    (0..200).map(|line| format!("<li>{version}: {}</li>\n", line * 37 % 101)).collect()
}

/// A page whose gzip form has more than 1 KiB.
fn long() -> String {
    (0..2_000_u32).map(|line| format!("<li>{}</li>\n", line.wrapping_mul(2_654_435_761))).collect()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn decoded(answer: &Response) -> String {
    let (mut text, body) = (String::new(), &answer.body[..]);
    match answer.field("Content-Encoding") {
        None => return answer.text().to_owned(),
        Some("br") => brotli::Decompressor::new(body, 4096).read_to_string(&mut text).unwrap(),
        Some("zstd") => zstd::stream::read::Decoder::new(body).unwrap().read_to_string(&mut text).unwrap(),
        Some("gzip") => GzDecoder::new(body).read_to_string(&mut text).unwrap(),
        Some(other) => panic!("{other}"),
    };
    text
}

/// Requests a page until its forms were made.
fn warm(stage: &Stage, target: &str, field: &str) {
    let before = stage.metric("petasos_encodings_total", "");
    (0..3).for_each(|_| drop(stage.get(target, &[field])));
    eventually("the forms are made", || stage.metric("petasos_encodings_total", "") > before);
}

/// Waits until the encoder has nothing to do, and checks that it has made no forms.
fn nothing_made(stage: &Stage) {
    assert_eq!(stage.metric("petasos_encodings_waiting", ""), 0);
    assert_eq!(stage.metric("petasos_encodings_total", ""), 0);
    assert_eq!(stage.metric("petasos_store_form_bytes", ""), 0);
}

pub(crate) fn coding(answer: &Response) -> &str {
    answer.field("Content-Encoding").unwrap_or("none")
}

#[test]
fn second_use_orders_forms_for_every_class_of_clients() {
    let stage =
        Stage::new(|_| response("200 OK", &[FRESH, HTML, TAG, "Accept-Ranges: bytes"], page("a").as_bytes()));
    let miss = stage.get("/", &[BR]);
    assert_eq!((coding(&miss), miss.field("Vary")), ("none", Some("Accept-Encoding")));
    stage.get("/", &[BR]);
    // Clients that accept no coding gain nothing, so they order nothing.
    (0..3).for_each(|_| drop(stage.get("/", &[PLAIN])));
    nothing_made(&stage);
    stage.get("/", &[BR]);
    eventually("the forms are made", || stage.metric("petasos_encodings_total", "") == 1);
    let mut sizes = Vec::new();
    stage.get("/", &[BR, "If-None-Match: \"1\""]);
    assert_eq!(stage.metric("petasos_responses_br_total", ""), 0, "304 has no form");
    for (field, expected, tag) in [
        (BR, "br", "\"1~petasos-br\""),
        (ZSTD, "zstd", "\"1~petasos-zstd\""),
        (GZIP, "gzip", "\"1~petasos-gzip\""),
        ("Accept-Encoding: gzip;q=0, br", "br", "\"1~petasos-br\""),
        ("Accept-Encoding: gzip;q=0, zstd;q=0.5", "zstd", "\"1~petasos-zstd\""),
        ("Accept-Encoding: br;q=0, zstd;q=0.000, x-gzip", "gzip", "\"1~petasos-gzip\""),
        (PLAIN, "none", "\"1\""),
        ("Accept-Encoding: br;q=0", "none", "\"1\""),
        ("Accept-Encoding: *", "none", "\"1\""),
    ] {
        let answer = stage.get("/", &[field]);
        assert_eq!((coding(&answer), reason(&answer)), (expected, "hit-fresh"), "{field}");
        assert_eq!(answer.field("ETag"), Some(tag), "{field}");
        assert_eq!(answer.field("Vary"), Some("Accept-Encoding"), "{field}");
        assert_eq!(answer.field("Content-Length").unwrap(), answer.body.len().to_string(), "{field}");
        assert_eq!(answer.field("Accept-Ranges").is_some(), expected == "none", "{field}");
        assert_eq!(decoded(&answer), page("a"), "{field}");
        let head = stage.ask("HEAD", "/", &[field]);
        for name in ["Content-Encoding", "Content-Length", "ETag", "Vary"] {
            assert_eq!(head.field(name), answer.field(name), "{field} {name}");
        }
        sizes.push(answer.body.len());
    }
    assert!(sizes[..3].iter().all(|size| size * 3 < page("a").len()), "{sizes:?}");
    assert!(stage.metric("petasos_store_form_bytes", "") >= sizes[..3].iter().sum::<usize>() as u64);
    assert_eq!(stage.metric("petasos_responses_br_total", ""), 4);
    assert_eq!(stage.metric("petasos_responses_zstd_total", ""), 4);
    assert_eq!(stage.metric("petasos_responses_gzip_total", ""), 4);
    assert_eq!(stage.metric("petasos_encoding_bytes_read_total", ""), 3 * page("a").len() as u64);
    let question = r#"{"url":"http://example.test/"}"#;
    let why = stage.call_admin("POST", "/why", question);
    let stored = serde_json::from_str::<api::why::WhyReply>(why.text()).unwrap().stored.unwrap();
    let told: Vec<_> =
        stored.forms.iter().map(|form| (&form.coding[..], form.content_bytes as usize)).collect();
    assert_eq!(told, [("br", sizes[0]), ("zstd", sizes[1]), ("gzip", sizes[2])]);
    stage.await_seen(1);
}

#[test]
fn condition_may_name_any_form_of_the_content() {
    let stage = Stage::new(|_| response("200 OK", &[FRESH, HTML, TAG], page("a").as_bytes()));
    let tags =
        ["\"1\"", "\"1~petasos-br\"", "\"1~petasos-zstd\"", "\"1~petasos-gzip\"", "W/\"1~petasos-br\""];
    // A form is confirmed only to a client that can use it: a cache in front may list them all.
    let usable = |field: &str, tag: &str| match tag.split_once('-') {
        None => true,
        Some((_, coding)) if field == ZSTD => !coding.starts_with("br"),
        Some((_, coding)) if field == GZIP => coding.starts_with("gzip"),
        Some(_) => field == BR,
    };
    let check = |stage: &Stage| {
        for field in [BR, ZSTD, GZIP, PLAIN] {
            for tag in tags {
                let answer = stage.get("/", &[field, &format!("If-None-Match: \"x\", {tag}")]);
                assert_eq!(answer.field("Vary"), Some("Accept-Encoding"), "{field} {tag}");
                if !usable(field, tag) {
                    assert_eq!((answer.status, decoded(&answer)), (200, page("a")), "{field} {tag}");
                    continue;
                }
                assert_eq!((answer.status, answer.body.len()), (304, 0), "{field} {tag}");
                let named = answer.field("ETag").unwrap().trim_start_matches("W/");
                assert_eq!(named, tag.trim_start_matches("W/"), "{field}");
                assert_eq!(answer.field("Content-Encoding"), None);
            }
            for tag in ["\"2\"", "\"2~petasos-br\"", "\"1~petasos-lzma\"", "\"1-br\""] {
                let changed = stage.get("/", &[field, &format!("If-None-Match: {tag}")]);
                assert_eq!((changed.status, decoded(&changed)), (200, page("a")), "{field} {tag}");
            }
        }
    };
    stage.get("/", &[PLAIN]);
    check(&stage);
    warm(&stage, "/other", BR);
    eventually("the forms are made", || coding(&stage.get("/", &[BR])) == "br");
    check(&stage);
}

#[test]
fn ranges_are_those_of_the_response_itself() {
    let dated = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";
    let stage = Stage::new(move |seen| {
        let tag = if seen.target() == "/dated" { dated } else { TAG };
        response("200 OK", &[FRESH, HTML, tag], page("a").as_bytes())
    });
    for target in ["/", "/dated"] {
        warm(&stage, target, BR);
    }
    let part = stage.get("/", &[BR, "Range: bytes=4-9"]);
    assert_eq!((part.status, part.text(), coding(&part)), (206, &page("a")[4..10], "none"));
    assert_eq!((part.field("ETag"), part.field("Vary")), (Some("\"1\""), Some("Accept-Encoding")));
    let resumed = stage.get("/", &[BR, "Range: bytes=4-9", "If-Range: \"1\""]);
    assert_eq!((resumed.status, resumed.text()), (206, &page("a")[4..10]));
    for validator in ["\"1~petasos-br\"", "\"2\"", "W/\"1\"", "Sun, 06 Nov 1994 08:49:37 GMT"] {
        let whole = stage.get("/", &[BR, "Range: bytes=4-9", &format!("If-Range: {validator}")]);
        assert_eq!((whole.status, decoded(&whole)), (200, page("a")), "{validator}");
    }
    // The date is the same for all forms, so it does not say which one the client has a part of.
    let whole = stage.get("/dated", &[BR, "Range: bytes=4-9", "If-Range: Sun, 06 Nov 1994 08:49:37 GMT"]);
    assert_eq!((whole.status, decoded(&whole)), (200, page("a")));
    assert_eq!(stage.get("/dated", &[BR, "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"]).status, 304);
    stage.await_seen(2);
    // A page that is not stored is fetched whole.
    let whole = stage.get("/new", &["Range: bytes=4-9", "If-Range: \"1~petasos-br\""]);
    assert_eq!((whole.status, decoded(&whole)), (200, page("a")));
    assert_eq!(stage.last_seen().field("Range"), None);
}

#[test]
fn purge_and_newer_content_remove_the_forms() {
    let stage = Stage::new(|_| response("200 OK", &[FRESH, HTML, TAG], page("old").as_bytes()));
    warm(&stage, "/", BR);
    assert_eq!(coding(&stage.get("/", &[BR])), "br");
    stage.becomes(|_| response("200 OK", &[FRESH, HTML, TAG], page("new").as_bytes()));
    assert_eq!(stage.ask("PURGE", "/", &[PURGE_PEER]).status, 200);
    assert_eq!(stage.metric("petasos_store_form_bytes", ""), 0);
    for field in [BR, ZSTD, GZIP, PLAIN] {
        let answer = stage.get("/", &[field]);
        assert_eq!(decoded(&answer), page("new"), "{field}");
    }
    stage.becomes(|_| response("200 OK", &[FRESH, HTML, "ETag: \"2\""], page("newer").as_bytes()));
    warm(&stage, "/", BR);
    stage.pass(61);
    let renewed = stage.get("/", &[BR]);
    assert_eq!((coding(&renewed), decoded(&renewed)), ("none", page("newer")));
    assert_eq!(stage.metric("petasos_store_form_bytes", ""), 0);
}

#[test]
fn confirmed_response_keeps_its_forms_with_new_heads() {
    let stage = Stage::new(|seen| tagged(seen, "\"1\"", &[FRESH, HTML, "X-Round: 1"], &page("a")));
    warm(&stage, "/", BR);
    stage.becomes(|seen| {
        let no_transform = seen.target() == "/" && seen.field("X").is_some();
        assert!(!no_transform);
        tagged(seen, "\"1\"", &[FRESH, HTML, "X-Round: 2"], &page("a"))
    });
    stage.pass(61);
    let confirmed = stage.get("/", &[BR]);
    assert_eq!(stage.last_seen().field("If-None-Match"), Some("\"1\""), "the origin's own tag");
    assert_eq!((reason(&confirmed), coding(&confirmed)), ("hit-revalidated", "br"));
    for field in [BR, ZSTD, GZIP, PLAIN] {
        let answer = stage.get("/", &[field]);
        assert_eq!((answer.field("X-Round"), decoded(&answer)), (Some("2"), page("a")), "{field}");
        assert_eq!(answer.field("Age"), Some("0"), "{field}");
        assert_eq!(coding(&answer) == "none", field == PLAIN);
    }
    assert_eq!(stage.metric("petasos_encodings_total", ""), 1, "the forms were not made again");
    // A client's tag of a form leads to the confirmation of the response.
    stage.pass(61);
    let unchanged = stage.get("/", &[BR, "If-None-Match: \"1~petasos-br\""]);
    assert_eq!((unchanged.status, unchanged.field("ETag")), (304, Some("\"1~petasos-br\"")));
    assert_eq!(stage.last_seen().field("If-None-Match"), Some("\"1\""));
    // The origin forbids transformations from now on.
    stage.becomes(|seen| {
        tagged(seen, "\"1\"", &["Cache-Control: max-age=60, no-transform", HTML], &page("a"))
    });
    stage.pass(61);
    for _ in 0..4 {
        assert_eq!(coding(&stage.get("/", &[BR])), "none");
    }
    assert_eq!(stage.metric("petasos_store_form_bytes", ""), 0);
}

#[test]
fn weak_tags_stay_weak_and_absent_ones_absent() {
    let stage = Stage::new(|seen| match seen.target() {
        "/weak" => response("200 OK", &[FRESH, HTML, "ETag: W/\"1\""], page("a").as_bytes()),
        _ => response("200 OK", &[FRESH, HTML], page("a").as_bytes()),
    });
    for (target, tag) in [("/weak", Some("W/\"1~petasos-br\"")), ("/none", None)] {
        warm(&stage, target, BR);
        let answer = stage.get(target, &[BR]);
        assert_eq!((coding(&answer), answer.field("ETag")), ("br", tag), "{target}");
    }
    assert_eq!(stage.get("/weak", &[BR, "If-None-Match: W/\"1\""]).status, 304);
}

#[test]
fn gzip_of_the_origin_is_kept_and_gets_further_forms() {
    for name in ["gzip", "X-Gzip"] {
        let field = format!("Content-Encoding: {name}");
        let fields = [FRESH.to_owned(), HTML.to_owned(), TAG.to_owned(), field];
        let stage = Stage::new(move |_| {
            let fields: Vec<&str> = fields.iter().map(|field| &field[..]).collect();
            response("200 OK", &fields, &gzip(long().as_bytes()))
        });
        warm(&stage, "/", BR);
        for (field, expected, tag) in [
            (BR, "br", "\"1~petasos-br\""),
            ("Accept-Encoding: br", "br", "\"1~petasos-br\""),
            (ZSTD, "zstd", "\"1~petasos-zstd\""),
            (PLAIN, "none", "W/\"1\""),
        ] {
            let answer = stage.get("/", &[field]);
            assert_eq!((coding(&answer), answer.field("ETag")), (expected, Some(tag)), "{name} {field}");
            assert_eq!(decoded(&answer), long(), "{name} {field}");
        }
        let own = stage.get("/", &[GZIP]);
        assert_eq!((own.body.clone(), own.field("ETag")), (gzip(long().as_bytes()), Some("\"1\"")));
        assert_eq!(stage.metric("petasos_responses_gzip_total", ""), 0);
        stage.await_seen(1);
    }
}

#[test]
fn gzip_of_the_origin_counts_among_preferred_codings() {
    let rules = CompressionRules { codings: vec![Coding::Gzip, Coding::Brotli], ..Default::default() };
    let stage = Stage::with(
        move |plan| plan.sites[0].compression = Some(rules),
        |_| response("200 OK", &[FRESH, HTML, "Content-Encoding: gzip"], &gzip(long().as_bytes())),
    );
    warm(&stage, "/", BR);
    assert_eq!(stage.get("/", &[BR]).body, gzip(long().as_bytes()));
    assert_eq!(coding(&stage.get("/", &["Accept-Encoding: br"])), "br");
}

#[test]
fn content_that_is_not_what_it_says_has_no_forms() {
    let stage = Stage::new(|seen| match seen.target() {
        "/text" => response("200 OK", &[FRESH, HTML, "Content-Encoding: gzip"], page("a").as_bytes()),
        "/short" => {
            let whole = gzip(&page("b").repeat(40).into_bytes());
            response("200 OK", &[FRESH, HTML, "Content-Encoding: gzip"], &whole[..whole.len() - 4])
        }
        _ => response("200 OK", &[FRESH, HTML, "Content-Encoding: gzip"], &gzip(&vec![b' '; 6_000_000])),
    });
    for (number, target) in ["/text", "/short", "/bomb"].into_iter().enumerate() {
        let first = stage.get(target, &[BR]);
        (0..4).for_each(|_| assert!(stage.get(target, &[BR]).body == first.body, "{target}"));
        let expected = number as u64 + 1;
        // The third content is longer than the greatest size.
        eventually("it is found useless", || stage.metric("petasos_encodings_useless_total", "") == expected);
    }
    nothing_made(&stage);
}

#[test]
fn responses_that_must_not_be_coded_are_left_alone() {
    let stage = Stage::new(|seen| {
        let page = page("a");
        let page = page.as_bytes();
        match seen.target() {
            "/no-transform" => response("200 OK", &["Cache-Control: max-age=60, no-transform", HTML], page),
            "/br" => response("200 OK", &[FRESH, HTML, "Content-Encoding: br"], page),
            "/zstd" => response("200 OK", &[FRESH, HTML, "Content-Encoding: zstd"], page),
            "/picture" => response("200 OK", &[FRESH, "Content-Type: image/png"], page),
            "/small" => response("200 OK", &[FRESH, HTML], &page[..1000]),
            "/error" => response("404 Not Found", &[FRESH, HTML], page),
            "/events" => response("200 OK", &[FRESH, "Content-Type: text/event-stream"], page),
            "/private" => response("200 OK", &["Cache-Control: private", HTML], page),
            "/cookie" => response("200 OK", &["Set-Cookie: session=1", HTML], page),
            other => panic!("{other}"),
        }
    });
    let targets =
        ["/no-transform", "/br", "/zstd", "/picture", "/small", "/error", "/events", "/private", "/cookie"];
    for target in targets {
        let first = stage.get(target, &[BR]);
        for _ in 0..4 {
            let answer = stage.get(target, &[BR]);
            assert!(answer.body == first.body && coding(&answer) == coding(&first), "{target}");
            assert_eq!(answer.field("Vary"), None, "{target}");
        }
    }
    nothing_made(&stage);
}

#[test]
fn settings_choose_codings_types_and_sizes() {
    let rules = CompressionRules {
        codings: vec![Coding::Gzip, Coding::Brotli],
        types: vec![profiles::Pattern::new("application/x-own")],
        bytes_min: 100,
        bytes_max: 3000,
        ..CompressionRules::default()
    };
    let stage = Stage::with(
        move |plan| plan.sites[0].compression = Some(rules),
        |seen| match seen.target() {
            "/html" => response("200 OK", &[FRESH, HTML], &page("a").as_bytes()[..2000]),
            "/long" => response("200 OK", &[FRESH, "Content-Type: application/x-own"], &[b'a'; 3001]),
            _ => {
                response("200 OK", &[FRESH, "Content-Type: application/x-own"], &page("a").as_bytes()[..200])
            }
        },
    );
    for target in ["/html", "/long"] {
        (0..4).for_each(|_| assert_eq!(coding(&stage.get(target, &[BR])), "none"));
    }
    nothing_made(&stage);
    warm(&stage, "/own", BR);
    assert_eq!(coding(&stage.get("/own", &[BR])), "gzip", "the first coding that is accepted");
    assert_eq!(coding(&stage.get("/own", &["Accept-Encoding: br, zstd"])), "br");
    assert_eq!(coding(&stage.get("/own", &["Accept-Encoding: zstd"])), "none");
}

#[test]
fn nothing_is_coded_if_compression_is_off_or_the_profile_is_rfc() {
    let script = |_: &Seen| response("200 OK", &[FRESH, HTML], page("a").as_bytes());
    let off = Stage::with(|plan| plan.sites[0].compression = None, script);
    let letter = Stage::rfc(script);
    for stage in [off, letter] {
        for _ in 0..4 {
            let answer = stage.get("/", &[BR]);
            assert_eq!((coding(&answer), answer.field("Vary")), ("none", None));
        }
        nothing_made(&stage);
    }
}

#[test]
fn each_variant_has_its_own_forms() {
    let stage = Stage::new(|seen| {
        let language = seen.field("Accept-Language").unwrap_or("none").to_owned();
        let fields = [FRESH, HTML, "Vary: Accept-Encoding, Accept-Language"];
        response("200 OK", &fields, page(&language).as_bytes())
    });
    let languages = ["Accept-Language: de", "Accept-Language: fr"];
    // The first response teaches the edge what pages vary on.
    stage.get("/", &[]);
    for language in languages {
        (0..4).for_each(|_| drop(stage.get("/", &[BR, language])));
    }
    eventually("both have forms", || stage.metric("petasos_encodings_total", "") == 2);
    for (language, name) in languages.into_iter().zip(["de", "fr"]) {
        for field in [BR, ZSTD, GZIP, PLAIN] {
            let answer = stage.get("/", &[field, language]);
            assert_eq!((decoded(&answer), reason(&answer)), (page(name), "hit-fresh"));
            assert_eq!(answer.field("Vary"), Some("Accept-Encoding, Accept-Language"));
        }
        assert_eq!(coding(&stage.get("/", &[BR, language])), "br");
    }
}

#[test]
fn origin_sees_its_own_tags_in_passed_requests() {
    let stage = Stage::new(|seen| {
        if seen.field("If-None-Match") == Some("\"1\"") {
            return bare("304 Not Modified", &["ETag: \"1\"", "Cache-Control: private"]);
        }
        response("200 OK", &["Cache-Control: private", HTML, TAG], page("own").as_bytes())
    });
    let session = "Cookie: sessionid=1";
    let unchanged = stage.get("/", &[BR, session, "If-None-Match: \"1~petasos-br\""]);
    assert_eq!((unchanged.status, unchanged.field("ETag")), (304, Some("\"1~petasos-br\"")));
    assert_eq!(stage.last_seen().field("If-None-Match"), Some("\"1\""));
    stage.ask("DELETE", "/", &[session, "If-Match: \"1~petasos-gzip\""]);
    assert_eq!(stage.last_seen().field("If-Match"), Some("\"1\""));
    stage.get("/", &[session, "Range: bytes=1-2", "If-Range: \"1~petasos-br\""]);
    assert_eq!((stage.last_seen().field("Range"), stage.last_seen().field("If-Range")), (None, None));
}

#[test]
fn form_never_outlives_a_purge_during_its_making() {
    let stage = Stage::new(|_| response("200 OK", &[FRESH, HTML], page("old").repeat(300).as_bytes()));
    for round in 0..20 {
        let old = format!("old{round}");
        let content = page(&old).repeat(300);
        stage.becomes(move |_| response("200 OK", &[FRESH, HTML], content.as_bytes()));
        assert_eq!(stage.ask("PURGE", "/", &[PURGE_PEER]).status, 200);
        (0..3).for_each(|_| assert!(decoded(&stage.get("/", &[BR])).starts_with(&format!("<li>{old}:"))));
    }
    eventually("the encoder rests", || stage.metric("petasos_encodings_waiting", "") == 0);
    let (made, void) =
        (stage.metric("petasos_encodings_total", ""), stage.metric("petasos_encodings_void_total", ""));
    assert!(void > 0, "no purge fell into the making of forms: {made} made, {void} void");
}
