//! Assembled pages with gzip: joined from parts that were compressed before, and from others that
//! are not compressed.

use crate::coded_forms::{FRESH, GZIP, HTML, PLAIN, coding, decoded, page};
use crate::esi::{STORED, TEMPLATE, with_esi};
use crate::support::{Stage, behind, tagged};
use config::EdgePlan;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::{Gate, Response, Seen, eventually, response};

const MARKUP: &str = "<esi:include src=\"/shared\"/>\n<esi:include src=\"/private\"/>$(HTTP_HOST)\
    <esi:vars>Hello $(HTTP_REFERER|nobody)!</esi:vars><esi:include src=\"/short\"/>";

/// A template of more than 1 KiB with this markup.
fn template(markup: &str) -> String {
    format!("{}{markup}{}", page("above"), page("below"))
}

/// A stage whose page `/` is this template.
fn stage(template: String, secret: &'static str) -> Stage {
    Stage::with(with_esi, move |seen| match seen.target() {
        "/" => response("200 OK", &[TEMPLATE, STORED, HTML, "ETag: \"t\""], template.as_bytes()),
        "/shared" => response("200 OK", &[STORED, HTML], page("shared").as_bytes()),
        "/long" => response("200 OK", &[STORED, HTML], &[b'x'; (1 << 20) + 1]),
        "/short" => response("200 OK", &[STORED, HTML], b"short"),
        "/private" => response("200 OK", &["Cache-Control: private", HTML], secret.as_bytes()),
        _ => response("404 Not Found", &[STORED], b"no"),
    })
}

/// Requests the page until it comes with gzip, and the number of forms no longer grows.
fn compressed(stage: &Stage, forms: u64) -> Response {
    eventually("the forms are made", || {
        let answer = stage.get("/", &[GZIP, "Referer: staff"]);
        coding(&answer) == "gzip" && stage.metric("petasos_encodings_total", "") >= forms
    });
    stage.get("/", &[GZIP, "Referer: staff"])
}

/// Runs a program that decodes standard input; returns its output.
fn decoded_by(program: &str, arguments: &[&str], coded: &[u8]) -> Vec<u8> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    let (mut input, coded) = (child.stdin.take().unwrap(), coded.to_vec());
    let writing = std::thread::spawn(move || input.write_all(&coded));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    assert!(output.status.success(), "{program}: {}", output.status);
    output.stdout
}

#[test]
fn gzip_page_decodes_to_the_page_without_coding() {
    let stage = stage(template(MARKUP), "the visitor's own");
    let answer = compressed(&stage, 2);
    let plain = stage.get("/", &[PLAIN, "Referer: staff"]);
    assert_eq!((coding(&plain), plain.field("Vary")), ("none", Some("Accept-Encoding")));
    assert!(plain.text().contains("the visitor's own") && plain.text().contains("Hello staff!short"));
    assert_eq!(decoded(&answer), plain.text());
    assert!(answer.body.len() * 3 < plain.body.len(), "{} bytes", answer.body.len());
    assert_eq!((answer.field("Vary"), answer.field("ETag")), (Some("Accept-Encoding"), None));
    assert_eq!(answer.field("Cache-Control"), Some("private, no-store"));
    assert!(decoded_by("gzip", &["-t"], &answer.body).is_empty());
    assert_eq!(decoded_by("gzip", &["-dc"], &answer.body), plain.body);
    let script = "import sys,zlib; d=zlib.decompressobj(31); i=sys.stdin.buffer.read(); \
        sys.stdout.buffer.write(d.decompress(i)); assert d.eof and not d.unused_data";
    assert_eq!(decoded_by("python3", &["-c", script], &answer.body), plain.body);
}

#[test]
fn client_without_gzip_gets_the_page_without_coding() {
    let stage = stage(template(MARKUP), "own");
    compressed(&stage, 2);
    for accepted in [PLAIN, "Accept-Encoding: br", "Accept-Encoding: zstd, gzip;q=0"] {
        assert_eq!(coding(&stage.get("/", &[accepted])), "none", "{accepted}");
    }
    let head = stage.ask("HEAD", "/", &[GZIP]);
    assert_eq!((coding(&head), &head.body[..]), ("gzip", &b""[..]));
}

#[test]
fn private_fragments_and_values_are_not_compressed() {
    let bytes_with = |secret: &'static str| {
        // The template repeats one of the secrets, which would then compress well.
        let stage = stage(template(&format!("{}{MARKUP}", "token-of-alice ".repeat(20))), secret);
        let answer = compressed(&stage, 2);
        let has = |text: &str| answer.body.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(has(secret) && has("staff"), "they are in the page as they are");
        answer.body.len()
    };
    assert_eq!(bytes_with("token-of-alice"), bytes_with("token-xy-12345"));
}

#[test]
fn attempt_that_fails_leaves_a_whole_gzip_page() {
    let markup = "<esi:try><esi:attempt>lost<esi:include src=\"/shared\"/><esi:include src=\"/no\"/>\
        </esi:attempt><esi:except>instead<esi:include src=\"/shared\"/></esi:except></esi:try>";
    let stage = stage(template(markup), "");
    let text = decoded(&compressed(&stage, 2));
    assert!(text.contains("instead<li>shared") && !text.contains("lost"), "{text}");
    assert_eq!(text, stage.get("/", &[PLAIN]).text());
}

#[test]
fn fragment_beyond_its_limit_is_missing_with_gzip_too() {
    let stage = stage(template("[<esi:include src=\"/long\"/>]"), "");
    compressed(&stage, 1);
    // The form of the fragment is far below the limit.
    (0..3).for_each(|_| drop(stage.get("/long", &[GZIP])));
    eventually("the form is made", || coding(&stage.get("/long", &[GZIP])) == "gzip");
    let text = decoded(&stage.get("/", &[GZIP]));
    assert!(text.contains("[<!-- a fragment of this page is missing -->]"));
}

#[test]
fn page_that_a_renewal_makes_a_template_gets_gzip() {
    const NO_TEMPLATE: &str = "Surrogate-Control: max-age=60";
    let content = |control| {
        move |seen: &Seen| match seen.target() {
            "/" => tagged(seen, "\"1\"", &[control, FRESH, HTML], &template("<esi:include src=\"/in\"/>")),
            _ => response("200 OK", &[STORED, HTML], page("leaf").as_bytes()),
        }
    };
    let stage = Stage::with(with_esi, content(NO_TEMPLATE));
    assert!(decoded(&compressed(&stage, 1)).contains("<esi:include"));
    for control in [TEMPLATE, NO_TEMPLATE] {
        stage.becomes(content(control));
        stage.pass(61);
        let text = stage.get("/", &[PLAIN]).text().to_owned();
        assert_eq!(text.contains("<li>leaf"), control == TEMPLATE);
        assert_eq!(decoded(&compressed(&stage, 1)), text, "{control}");
    }
}

#[test]
fn purged_fragment_shows_at_once_with_gzip() {
    let stage = stage(template(MARKUP), "own");
    compressed(&stage, 2);
    assert_eq!(stage.ask("PURGE", "/shared", &[]).status, 200);
    let answer = stage.get("/", &[GZIP]);
    assert_eq!((coding(&answer), stage.origin.count("/shared")), ("gzip", 2));
    assert_eq!(decoded(&answer), stage.get("/", &[PLAIN]).text());
}

#[test]
fn texts_of_a_gzip_page_count_towards_the_memory() {
    const TEXTS: u64 = 1000;
    let gate = Gate::default();
    let held = gate.clone();
    let texts = format!("{}<esi:comment text=\"\"/>", "ab".repeat(40)).repeat(TEXTS as usize);
    let template = format!("{texts}<esi:include src=\"/slow\"/>");
    let is_slow = Arc::new(AtomicBool::new(false));
    let slow = Arc::clone(&is_slow);
    let stage = Stage::with(with_esi, move |seen| match seen.target() {
        "/" => response("200 OK", &[TEMPLATE, STORED, HTML], template.as_bytes()),
        _ if slow.load(Ordering::SeqCst) => behind(&held, response("200 OK", &[], b"slow")),
        _ => response("200 OK", &[], b"fast"),
    });
    compressed(&stage, 1);
    eventually("the memory is given back", || stage.metric("petasos_buffered_bytes", "") == 0);
    is_slow.store(true, Ordering::SeqCst);
    let mut client = stage.begin("GET", "/", &[GZIP]);
    assert_eq!(coding(&client.read_head()), "gzip");
    // Each entry of the list has 32 bytes, and 16 KiB of a page need no budget.
    assert!(stage.metric("petasos_buffered_bytes", "") >= TEXTS * 32 - 16 * 1024);
    gate.open();
    drop(client);
    eventually("the memory is given back", || stage.metric("petasos_buffered_bytes", "") == 0);
}

#[test]
fn parts_that_a_cookie_selects_are_not_compressed() {
    let change = |plan: &mut EdgePlan| {
        with_esi(plan);
        plan.sites[0].policy.keyed_cookies = vec!["group".to_owned()];
    };
    let shared = template("<esi:include src=\"/in\"/>");
    let stage = Stage::with(change, move |seen| match seen.target() {
        "/" => response("200 OK", &[TEMPLATE, STORED, HTML], shared.as_bytes()),
        _ => response("200 OK", &[STORED, HTML], page(seen.field("Cookie").unwrap_or("nobody")).as_bytes()),
    });
    assert!(decoded(&compressed(&stage, 2)).contains("<li>nobody"));
    let forms = stage.metric("petasos_encodings_total", "");
    for _ in 0..4 {
        let answer = stage.get("/", &[GZIP, "Cookie: group=staff"]);
        assert_eq!(coding(&answer), "none");
        assert!(answer.text().contains("<li>group=staff"), "{}", answer.text());
    }
    // A direct request has a form, as a page that is not assembled. No page takes it as a part.
    let direct = || stage.get("/in", &[GZIP, "Cookie: group=staff"]);
    eventually("the form is made", || coding(&direct()) == "gzip");
    assert_eq!(stage.metric("petasos_encodings_total", ""), forms + 1);
    assert_eq!(coding(&stage.get("/", &[GZIP, "Cookie: group=staff"])), "none");
    assert_eq!(coding(&stage.get("/", &[GZIP])), "gzip");
}

#[test]
fn template_within_a_page_is_a_part_without_compression() {
    let inner = template("<esi:include src=\"/leaf\"/>");
    let stage = Stage::with(with_esi, move |seen| match seen.target() {
        "/" => {
            response("200 OK", &[TEMPLATE, STORED, HTML], template("<esi:include src=\"/in\"/>").as_bytes())
        }
        "/in" => response("200 OK", &[TEMPLATE, STORED, HTML], inner.as_bytes()),
        _ => response("200 OK", &[STORED, HTML], page("leaf").as_bytes()),
    });
    let text = decoded(&compressed(&stage, 1));
    assert!(text.contains("<li>leaf"), "{text}");
    assert_eq!(text, stage.get("/", &[PLAIN]).text());
}
