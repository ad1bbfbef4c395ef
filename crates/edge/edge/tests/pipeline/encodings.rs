//! Content codings: one stored form serves all clients and is decoded for those that refuse its
//! coding.

use crate::support::{Stage, behind, connect, reason};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::Path;
use testkit::{Action, Gate, Response, Seen, eventually, response};

const FRESH: &str = "Cache-Control: max-age=60";
const HTML: &str = "Content-Type: text/html";
const GZIP: &str = "Accept-Encoding: gzip";
const BROWSER: &str = "Accept-Encoding: gzip, deflate, br, zstd";
const REFUSES: &str = "Accept-Encoding: identity";

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// A response, with gzip coding if the request accepts it.
fn compressing(seen: &Seen, fields: &[&str], content: &[u8]) -> Vec<Action> {
    if seen.field("Accept-Encoding").is_some_and(|accepted| accepted.contains("gzip")) {
        let fields: Vec<&str> = fields.iter().copied().chain(["Content-Encoding: gzip"]).collect();
        return response("200 OK", &fields, &gzip(content));
    }
    response("200 OK", fields, content)
}

fn disk(directory: &Path) -> config::DiskPlan {
    config::DiskPlan {
        directory: directory.to_owned(),
        bytes_max: 256 << 20,
        power_safe_purges: false,
        state_directory: None,
        runtime_directory: None,
    }
}

fn accepted(stage: &Stage) -> Vec<String> {
    let field = |seen: Seen| seen.field("Accept-Encoding").unwrap_or("none").to_owned();
    stage.origin.seen().into_iter().map(field).collect()
}

/// Checks that a response is the decoded form of a page stored as gzip.
fn is_plain(response: &Response, content: &str) {
    assert_eq!((response.status, response.text()), (200, content), "{}", response.head);
    assert_eq!(response.field("Content-Encoding"), None, "{}", response.head);
    assert_eq!(response.field("Content-Length"), None, "{}", response.head);
    assert_eq!(response.field("Accept-Ranges"), None, "{}", response.head);
    assert_eq!(response.field("Vary"), Some("Accept-Encoding"), "{}", response.head);
}

#[test]
fn one_gzip_object_serves_every_client() {
    let fields = [FRESH, HTML, "ETag: \"1\"", "Accept-Ranges: bytes"];
    let stage = Stage::new(move |seen| compressing(seen, &fields, b"a page"));
    let first = stage.get("/", &[]);
    is_plain(&first, "a page");
    assert_eq!((first.field("ETag"), reason(&first)), (Some("W/\"1\""), "miss-absent"));
    let stored = stage.get("/", &[REFUSES]);
    is_plain(&stored, "a page");
    assert_eq!((stored.field("ETag"), reason(&stored)), (Some("W/\"1\""), "hit-fresh"));
    for field in [GZIP, BROWSER, "Accept-Encoding: x-gzip;q=0.5"] {
        let coded = stage.get("/", &[field]);
        assert_eq!((coded.body.clone(), reason(&coded)), (gzip(b"a page"), "hit-fresh"), "{field}");
        assert_eq!((coded.field("Content-Encoding"), coded.field("ETag")), (Some("gzip"), Some("\"1\"")));
        assert_eq!(coded.field("Vary"), Some("Accept-Encoding"));
    }
    assert_eq!(accepted(&stage), ["gzip"]);
    assert_eq!(stage.metric("petasos_responses_decoded_total", ""), 2);
}

#[test]
fn uncompressed_page_serves_every_class() {
    let stage = Stage::new(|_| response("200 OK", &[FRESH, HTML, "Vary: Accept-Encoding"], b"page"));
    stage.get("/", &[BROWSER]);
    for fields in [&[GZIP][..], &[REFUSES], &[], &[BROWSER]] {
        assert_eq!(reason(&stage.get("/", fields)), "hit-fresh", "{fields:?}");
    }
    assert_eq!(accepted(&stage), ["br, gzip"]);
    assert_eq!(stage.metric("petasos_store_objects", ""), 1);
}

#[test]
fn brotli_object_serves_only_clients_that_accept_it() {
    let stage = Stage::new(|seen| match seen.field("Accept-Encoding") {
        Some("br, gzip") => response("200 OK", &[FRESH, HTML, "Content-Encoding: br"], b"brotli"),
        _ => compressing(seen, &[FRESH, HTML], b"page"),
    });
    for round in ["miss", "hit"] {
        let expected = |first| if round == "hit" { "hit-fresh" } else { first };
        let answer = stage.get("/", &[BROWSER]);
        assert_eq!((answer.text(), reason(&answer)), ("brotli", expected("miss-absent")));
        let answer = stage.get("/", &[GZIP]);
        assert_eq!((answer.body.clone(), reason(&answer)), (gzip(b"page"), expected("miss-variant")));
        let answer = stage.get("/", &[]);
        is_plain(&answer, "page");
        assert_eq!(reason(&answer), "hit-fresh");
    }
    assert_eq!(accepted(&stage), ["br, gzip", "gzip"]);
}

#[test]
fn private_page_is_decoded_too() {
    let stage = Stage::new(|seen| compressing(seen, &["Cache-Control: no-store", HTML], b"own"));
    is_plain(&stage.get("/", &[]), "own");
    // The page has a hit-for-miss entry now, so the client's own request is forwarded unchanged.
    assert_eq!(stage.get("/", &[]).text(), "own");
    assert_eq!(accepted(&stage), ["gzip", "none"]);
}

#[test]
fn follower_receives_a_coding_that_it_accepts() {
    let gate = Gate::default();
    let stage = Stage::new({
        let gate = gate.clone();
        move |seen| behind(&gate, compressing(seen, &[FRESH, HTML], b"a page"))
    });
    let mut crowd = stage.crowd(3, &[]);
    let mut coded = stage.begin("GET", "/", &[GZIP]);
    gate.open();
    crowd.iter_mut().for_each(|client| is_plain(&client.read(), "a page"));
    assert_eq!(coded.read().body, gzip(b"a page"));
    stage.await_seen(1);
}

#[test]
fn conditions_of_decoded_page_use_a_weak_tag() {
    let stage = Stage::new(|seen| compressing(seen, &[FRESH, HTML, "ETag: \"1\""], b"page"));
    stage.get("/", &[]);
    for tag in ["W/\"1\"", "\"1\""] {
        let unchanged = stage.get("/", &[&format!("If-None-Match: {tag}")]);
        assert_eq!((unchanged.status, unchanged.field("ETag")), (304, Some("W/\"1\"")));
        assert_eq!(unchanged.field("Vary"), Some("Accept-Encoding"));
    }
    assert_eq!(stage.get("/", &["If-Match: \"1\""]).status, 412);
    assert_eq!(stage.get("/", &["If-Match: \"1\"", GZIP]).status, 200);
    is_plain(&stage.get("/", &["Range: bytes=0-1", "If-Range: \"1\""]), "page");
    let head = stage.ask("HEAD", "/", &[]);
    assert_eq!((head.field("Content-Encoding"), head.field("Content-Length")), (None, None));
    let mut old = connect(&stage.edge);
    old.send("GET / HTTP/1.0\r\nHost: example.test\r\n\r\n");
    is_plain(&old.read(), "page");
    stage.await_seen(1);
}

#[test]
fn coded_part_and_no_transform_are_not_decoded() {
    let stage = Stage::new(|seen| match seen.field("Accept-Encoding") {
        Some(accepted) if accepted.contains("gzip") && seen.field("Range").is_some() => response(
            "206 Partial Content",
            &[FRESH, HTML, "Content-Encoding: gzip", "Content-Range: bytes 0-1/30"],
            &gzip(b"part")[..2],
        ),
        _ if seen.field("Range").is_some() => {
            response("206 Partial Content", &[FRESH, HTML, "Content-Range: bytes 0-1/4"], b"pl")
        }
        _ => compressing(seen, &["Cache-Control: max-age=60, no-transform", HTML], b"kept"),
    });
    let range = "Range: bytes=0-1";
    assert_eq!(stage.get("/part", &[range, GZIP]).body, &gzip(b"part")[..2]);
    for _ in 0..2 {
        let part = stage.get("/part", &[range, REFUSES]);
        assert_eq!((part.status, part.text()), (206, "pl"), "{}", part.head);
        let kept = stage.get("/kept", &[REFUSES]);
        assert_eq!((kept.text(), kept.field("Content-Encoding")), ("kept", None));
    }
    assert_eq!(stage.get("/kept", &[GZIP]).body, gzip(b"kept"));
    assert_eq!(stage.origin.seen().last().unwrap().field("Accept-Encoding"), Some("identity"));
}

#[test]
fn coded_archive_is_sent_unchanged() {
    let fields = [FRESH, "Content-Type: application/x-tar", "Content-Encoding: gzip"];
    let stage = Stage::new(move |_| response("200 OK", &fields, &gzip(b"archive")));
    for _ in 0..2 {
        let answer = stage.get("/a.tar.gz", &[]);
        assert_eq!((answer.body.clone(), answer.field("Content-Encoding")), (gzip(b"archive"), Some("gzip")));
    }
    stage.await_seen(1);
}

#[test]
fn decompression_bomb_and_broken_gzip_are_cut() {
    let fields = [FRESH, HTML, "Content-Encoding: gzip"];
    let stage = Stage::with(
        |plan| plan.limits.decoded_bytes_max = 100_000,
        move |seen| {
            let whole = gzip(&vec![b'a'; 3_000_000]);
            match seen.target() {
                "/bomb" => response("200 OK", &fields, &whole),
                "/short" => response("200 OK", &fields, &whole[..whole.len() - 4]),
                _ => response("200 OK", &fields, b"no gzip at all, but some text"),
            }
        },
    );
    for (number, target) in ["/bomb", "/bomb", "/short", "/none", "/none"].into_iter().enumerate() {
        let mut client = stage.begin("GET", target, &[]);
        let mut answer = client.read_head();
        assert!(!client.read_body(&mut answer), "{target} is not whole");
        assert!(answer.body.len() <= 100_000, "{target}: {} bytes", answer.body.len());
        assert_eq!(stage.metric("petasos_decodings_failed_total", ""), number as u64 + 1);
    }
}

#[test]
fn page_on_disk_is_decoded_while_it_is_sent() {
    let mut content = Vec::new();
    for number in 0_u64..200_000 {
        content.extend_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    }
    let page = content.clone();
    let directory = tempfile::tempdir().unwrap();
    let stage = Stage::with(
        |plan| {
            plan.limits.object_bytes_max = 64 << 10;
            plan.disk = Some(disk(directory.path()));
        },
        move |seen| compressing(seen, &["Cache-Control: max-age=600", HTML, "ETag: \"1\""], &page),
    );
    for expected in ["miss-absent", "hit-fresh", "hit-fresh"] {
        let answer = stage.get("/", &[]);
        assert_eq!(reason(&answer), expected);
        assert!(answer.body == content, "{expected}: {} bytes", answer.body.len());
        eventually("the page is on the disk", || stage.metric("petasos_disk_objects", "") == 1);
    }
    assert!(stage.get("/", &[GZIP]).body == gzip(&content));
    stage.await_seen(1);
}

#[test]
fn rfc_profile_forwards_accept_encoding() {
    let stage = Stage::rfc(|seen| compressing(seen, &[FRESH, HTML, "Vary: Accept-Encoding"], b"page"));
    assert_eq!(stage.get("/", &[REFUSES]).field("Content-Length"), Some("4"));
    assert_eq!(stage.get("/", &["Accept-Encoding: gzip;q=0.5"]).body, gzip(b"page"));
    assert_eq!(accepted(&stage), ["identity", "gzip;q=0.5"]);
}
