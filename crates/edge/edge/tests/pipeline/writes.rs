//! Invalidation by writes, and the effect of HEAD responses on stored pages.

use crate::support::{Stage, bare, behind, reason, tagged};
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Action, Gate, Seen, eventually, response};

const FRESH: &str = "Cache-Control: max-age=60";

fn method(seen: &Seen) -> &str {
    seen.head.split(' ').next().unwrap()
}

/// A site whose pages contain the number of writes so far. Writes receive this status and these
/// fields.
fn site(status: &'static str, fields: &'static [&'static str]) -> Stage {
    let writes = AtomicUsize::new(0);
    Stage::new(move |seen| match method(seen) {
        "GET" | "HEAD" => {
            let state = writes.load(Ordering::SeqCst);
            let language = seen.field("Accept-Language").unwrap_or("none");
            let vary = [FRESH, "Vary: Accept-Language"];
            response("200 OK", &vary, format!("{} {state} {language}", seen.target()).as_bytes())
        }
        _ => {
            writes.fetch_add(1, Ordering::SeqCst);
            response(status, fields, b"")
        }
    })
}

fn write(stage: &Stage, method: &str, target: &str) -> u16 {
    stage.ask(method, target, &["Content-Length: 0", "Cookie: session=1"]).status
}

#[test]
fn successful_write_invalidates_its_page() {
    for status in ["200 OK", "201 Made", "204 Done", "299 Fine", "301 Moved", "303 Look"] {
        for method in ["POST", "PUT", "DELETE", "PATCH", "FROBNICATE"] {
            let stage = site(status, &[]);
            for target in ["/a?b", "/a", "/c"] {
                stage.get(target, &["Accept-Language: fr"]);
                stage.get(target, &[]);
            }
            write(&stage, method, "/a?b");
            for language in ["none", "fr"] {
                let field = format!("Accept-Language: {language}");
                let fields: &[&str] = if language == "none" { &[] } else { &[&field] };
                assert_eq!(
                    stage.get("/a?b", fields).text(),
                    format!("/a?b 1 {language}"),
                    "{method} {status}"
                );
                for other in ["/a", "/c"] {
                    assert_eq!(stage.get(other, fields).text(), format!("{other} 0 {language}"));
                }
            }
        }
    }
}

#[test]
fn failed_or_undelivered_unsafe_request_invalidates_nothing() {
    for status in ["400 Bad", "403 No", "404 Gone", "409 Clash", "500 Oops", "503 Busy"] {
        let stage = site(status, &["Location: /b"]);
        stage.get("/a", &[]);
        stage.get("/b", &[]);
        write(&stage, "POST", "/a");
        assert_eq!(reason(&stage.get("/a", &[])), "hit-fresh", "{status}");
        assert_eq!(reason(&stage.get("/b", &[])), "hit-fresh", "{status}");
    }
    let stage = site("200 OK", &[]);
    stage.get("/a", &[]);
    assert_eq!(stage.ask("OPTIONS", "/a", &[]).status, 200);
    assert_eq!(reason(&stage.get("/a", &[])), "hit-fresh", "OPTIONS is safe");
    stage.origin.kill();
    assert_eq!(write(&stage, "POST", "/a"), 502);
    assert_eq!(reason(&stage.get("/a", &[])), "hit-fresh");
}

#[test]
fn write_invalidates_its_location_within_the_same_origin() {
    for name in ["Location", "Content-Location"] {
        for (reference, gone) in [
            ("/b", true),
            ("b", true),
            ("http://example.test/b", true),
            ("http://EXAMPLE.test:80/b#part", true),
            ("//example.test/b", true),
            ("/x/../b", true),
            ("http://other.test/b", false),
            ("https://example.test/b", false),
            ("http://example.test:8080/b", false),
            ("/c", false),
        ] {
            let line = format!("{name}: {reference}");
            let stage = Stage::new(move |seen| match method(seen) {
                "GET" => response("200 OK", &[FRESH], b"page"),
                _ => response("201 Made", &[&line], b""),
            });
            stage.get("/a", &[]);
            stage.get("/b", &[]);
            write(&stage, "POST", "/a");
            let expected = if gone { "miss-absent" } else { "hit-fresh" };
            assert_eq!(reason(&stage.get("/b", &[])), expected, "{name}: {reference}");
        }
    }
}

#[test]
fn write_to_one_host_keeps_pages_of_other_hosts() {
    let stage = site("200 OK", &["Location: http://other.test/"]);
    let ask = |host: &str| {
        let mut client = crate::support::connect(&stage.edge);
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.read()
    };
    ask("example.test");
    ask("other.test");
    write(&stage, "POST", "/");
    assert_eq!(reason(&ask("other.test")), "hit-fresh");
    assert_eq!(reason(&ask("example.test")), "miss-absent");
}

/// Lets a write overtake a GET. `prepare` sets the state before it; `halves` is the response to the
/// GET, before and after the gate.
fn overtaken(
    prepare: impl Fn(&Stage),
    halves: impl Fn(&Seen) -> (Vec<Action>, Vec<Action>) + Send + Sync + 'static,
) {
    let (gate, written) = (Gate::default(), AtomicUsize::new(0));
    let page = ["Cache-Control: max-age=60, stale-while-revalidate=600"];
    let stage = Stage::new(move |seen| tagged(seen, "\"old\"", &page, "old"));
    prepare(&stage);
    let before = stage.origin.seen().len();
    stage.becomes({
        let gate = gate.clone();
        move |seen| match method(seen) {
            "POST" => {
                written.fetch_add(1, Ordering::SeqCst);
                response("200 OK", &[], b"")
            }
            _ if written.load(Ordering::SeqCst) > 0 => tagged(seen, "\"new\"", &page, "new"),
            _ => {
                let (first, rest) = halves(seen);
                [first, behind(&gate, rest)].concat()
            }
        }
    });
    let mut overtaken = stage.begin("GET", "/", &[]);
    stage.await_seen(before + 1);
    assert_eq!(write(&stage, "POST", "/"), 200);
    let mut next = stage.begin("GET", "/", &[]);
    assert_eq!(next.read().text(), "new", "it does not join a fetch from before the write");
    gate.open();
    assert_eq!(overtaken.read().text(), "old", "the fetch began before the write");
    stage.await_quiet();
    let last = stage.get("/", &[]);
    assert_eq!((last.text(), reason(&last)), ("new", "hit-fresh"), "nothing old came back");
}

#[test]
fn fetch_overtaken_by_a_write_is_neither_stored_nor_joined() {
    overtaken(|_| {}, |seen| (Vec::new(), tagged(seen, "\"old\"", &[FRESH], "old")));
    // Also if its head has arrived and the content has not.
    overtaken(
        |_| {},
        |_| {
            let head = format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nContent-Length: 3\r\n\r\no");
            (vec![Action::Send(head.into_bytes())], vec![Action::Send(b"ld".to_vec())])
        },
    );
}

#[test]
fn revalidation_overtaken_by_a_write_does_not_revive_a_page() {
    let expired = |stage: &Stage| {
        stage.get("/", &[]);
        stage.pass(60 + 600);
    };
    overtaken(expired, |seen| {
        assert!(seen.field("If-None-Match").is_some());
        (Vec::new(), bare("304 Not Modified", &["ETag: \"old\"", FRESH]))
    });
    let refreshing = |stage: &Stage| {
        stage.get("/", &[]);
        stage.pass(60);
    };
    overtaken(refreshing, |seen| (Vec::new(), tagged(seen, "\"old\"", &[FRESH], "old")));
}

#[test]
fn completion_overtaken_by_a_write_does_not_revive_a_page() {
    let part = |stage: &Stage| {
        stage.becomes(|_| {
            let fields = [FRESH, "ETag: \"old\"", "Content-Range: bytes 0-0/3"];
            response("206 Partial Content", &fields, b"o")
        });
        stage.get("/", &["Range: bytes=0-0"]);
    };
    overtaken(part, |seen| {
        assert_eq!(seen.field("Range"), Some("bytes=1-"));
        let fields = [FRESH, "ETag: \"old\"", "Content-Range: bytes 1-2/3"];
        (Vec::new(), response("206 Partial Content", &fields, b"ld"))
    });
}

#[test]
fn write_removes_the_hit_for_miss_entry_of_its_page() {
    let stage = Stage::new(|seen| match method(seen) {
        "GET" => response("200 OK", &["Cache-Control: private"], b"own"),
        _ => response("200 OK", &[], b""),
    });
    stage.get("/", &[]);
    write(&stage, "POST", "/");
    stage.becomes(|_| response("200 OK", &[FRESH], b"page"));
    stage.get("/", &[]);
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
}

/// A site whose pages are in the groups "news" and "all", except `/alone`, which is only in "all".
/// A write invalidates "news".
fn grouped(seen: &Seen, tag: &str) -> Vec<Action> {
    if method(seen) == "POST" {
        return response("200 OK", &["Cache-Group-Invalidation: \"news\", \"none\""], b"");
    }
    let groups = if seen.target() == "/alone" { "\"all\"" } else { "\"news\", \"all\"" };
    let groups = format!("Cache-Groups: {groups}");
    tagged(seen, tag, &[FRESH, &groups, "Cache-Group-Invalidation: \"all\""], tag)
}

#[test]
fn write_invalidates_all_pages_of_a_group() {
    let stage = Stage::new(|seen| grouped(seen, "\"1\""));
    for target in ["/a", "/b", "/alone"] {
        stage.get(target, &[]);
        assert_eq!(reason(&stage.get(target, &[])), "hit-fresh", "{target}: a GET invalidates nothing");
    }
    assert_eq!(write(&stage, "POST", "/elsewhere"), 200);
    assert_eq!(reason(&stage.get("/a", &[])), "miss-absent");
    assert_eq!(reason(&stage.get("/a", &[])), "hit-fresh");
    stage.origin.kill();
    assert_eq!(stage.get("/b", &[]).status, 502, "no invalidated page replaces an error");
    assert_eq!(reason(&stage.get("/alone", &[])), "hit-fresh");
    stage.origin.revive();
    stage.pass(1);
    stage.becomes(|seen| grouped(seen, "\"2\""));
    assert_eq!(stage.get("/b", &[]).text(), "\"2\"");
    stage.becomes(|_| response("403 No", &["Cache-Group-Invalidation: \"all\""], b""));
    write(&stage, "POST", "/elsewhere");
    assert_eq!(reason(&stage.get("/alone", &[])), "hit-fresh", "a write that fails invalidates nothing");
}

#[test]
fn group_invalidation_covers_a_member_that_is_being_fetched() {
    // Before and after the arrival of the head, which names the groups.
    for head_first in [false, true] {
        let gate = Gate::default();
        let stage = Stage::new({
            let gate = gate.clone();
            move |seen| match (method(seen), head_first) {
                ("POST", _) => grouped(seen, ""),
                (_, false) => behind(&gate, grouped(seen, "\"old\"")),
                (_, true) => {
                    let head = format!(
                        "HTTP/1.1 200 OK\r\n{FRESH}\r\nCache-Groups: \"news\"\r\nContent-Length: 5\r\n\r\n\"o"
                    );
                    let rest = behind(&gate, vec![Action::Send(b"ld\"".to_vec())]);
                    [vec![Action::Send(head.into_bytes())], rest].concat()
                }
            }
        });
        let mut before = stage.begin("GET", "/", &[]);
        stage.await_seen(1);
        if head_first {
            before.read_head();
        }
        assert_eq!(write(&stage, "POST", "/elsewhere"), 200);
        stage.becomes(|seen| grouped(seen, "\"new\""));
        let mut after = stage.begin("GET", "/", &[]);
        if !head_first {
            eventually("the request waits, as the group is not known yet", || {
                stage.metric("petasos_flight_waits_total", "") == 1
            });
            gate.open();
            assert_eq!(before.read().text(), "\"old\"");
        }
        assert_eq!(after.read().text(), "\"new\"", "head first: {head_first}");
        gate.open();
        stage.await_quiet();
        assert_eq!(stage.get("/", &[]).text(), "\"new\"");
    }
}

#[test]
fn group_invalidation_covers_a_member_being_revalidated() {
    let stage = Stage::new(|seen| grouped(seen, "\"old\""));
    stage.get("/", &[]);
    stage.pass(60);
    let gate = Gate::default();
    stage.becomes({
        let gate = gate.clone();
        move |seen| match method(seen) {
            "POST" => grouped(seen, ""),
            _ => behind(&gate, grouped(seen, "\"old\"")),
        }
    });
    let mut before = stage.begin("GET", "/", &[]);
    stage.await_seen(2);
    assert_eq!(write(&stage, "POST", "/elsewhere"), 200);
    stage.becomes(|seen| grouped(seen, "\"new\""));
    let mut after = stage.begin("GET", "/", &[]);
    eventually("the request waits", || stage.metric("petasos_flight_waits_total", "") == 1);
    gate.open();
    assert_eq!((before.read().text(), after.read().text()), ("\"old\"", "\"new\""));
    assert_eq!(stage.get("/", &[]).text(), "\"new\"");
}

/// A stage with a stale page, after a HEAD request for it was answered with this status and these
/// fields.
fn after_head(status: &'static str, fields: &'static [&'static str]) -> Stage {
    let page = [FRESH, "ETag: \"1\"", "X-Is: old"];
    let stage = Stage::new(move |_| response("200 OK", &page, b"page"));
    stage.get("/", &[]);
    stage.pass(60);
    stage.becomes(move |seen| match method(seen) {
        "HEAD" => bare(status, fields),
        _ => response("200 OK", &page, b"new page"),
    });
    let answer = stage.ask("HEAD", "/", &[]);
    assert_eq!(format!("{}", answer.status), &status[..3]);
    stage
}

#[test]
fn matching_head_response_renews_the_stored_page() {
    for fields in [
        &["Cache-Control: max-age=90", "ETag: \"1\"", "Content-Length: 4", "X-Is: new"][..],
        &["Cache-Control: max-age=90", "X-Is: new"],
    ] {
        let stage = after_head("200 OK", fields);
        stage.pass(89);
        let hit = stage.get("/", &[]);
        assert_eq!((hit.text(), reason(&hit), hit.field("Age")), ("page", "hit-fresh", Some("89")));
        assert_eq!((hit.field("X-Is"), hit.field("Content-Length")), (Some("new"), Some("4")));
        stage.await_seen(2);
    }
}

#[test]
fn differing_or_private_head_response_removes_the_page() {
    for fields in [
        &[FRESH, "ETag: \"2\""][..],
        &[FRESH, "ETag: \"1\"", "Content-Length: 5"],
        &["Cache-Control: private", "ETag: \"1\""],
        &["Cache-Control: no-store", "ETag: \"1\""],
    ] {
        let stage = after_head("200 OK", fields);
        assert_eq!(stage.metric("petasos_store_objects", ""), 0, "{fields:?}");
        assert_eq!(stage.get("/", &[]).text(), "new page");
        assert_eq!(stage.last_seen().field("If-None-Match"), None);
    }
}

#[test]
fn failed_head_request_keeps_the_stored_page() {
    for status in ["404 Gone", "500 Oops", "503 Busy", "405 No"] {
        let stage = Stage::new(|_| response("200 OK", &[FRESH, "ETag: \"1\""], b"page"));
        stage.get("/", &[]);
        stage.pass(10);
        stage.becomes(move |_| bare(status, &[]));
        stage.ask("HEAD", "/", &["Cache-Control: no-cache"]);
        assert_eq!(reason(&stage.get("/", &[])), "hit-fresh", "{status}");
    }
}

#[test]
fn conditions_of_a_head_request_are_evaluated() {
    let stage = Stage::new(|_| bare("200 OK", &[FRESH, "ETag: \"1\"", "Content-Length: 4"]));
    let answer = stage.ask("HEAD", "/", &["If-None-Match: \"1\""]);
    assert_eq!((answer.status, answer.field("ETag")), (304, Some("\"1\"")));
    assert_eq!(stage.ask("HEAD", "/", &["If-None-Match: \"2\""]).status, 200);
    assert_eq!(stage.ask("HEAD", "/", &["If-Match: \"2\""]).status, 412);
}

#[test]
fn head_overtaken_by_a_write_does_not_renew_a_page() {
    let stage = Stage::new(|_| response("200 OK", &[FRESH, "ETag: \"1\""], b"old"));
    stage.get("/", &[]);
    stage.pass(60);
    let gate = Gate::default();
    stage.becomes({
        let gate = gate.clone();
        move |seen| match method(seen) {
            "HEAD" => behind(&gate, bare("200 OK", &[FRESH, "ETag: \"1\""])),
            "POST" => response("200 OK", &[], b""),
            _ => response("200 OK", &[FRESH, "ETag: \"1\""], b"new"),
        }
    });
    let mut head = stage.begin("HEAD", "/", &[]);
    stage.await_seen(2);
    write(&stage, "POST", "/");
    gate.open();
    assert_eq!(head.read_head().status, 200);
    assert_eq!(stage.get("/", &[]).text(), "new");
}

/// A WordPress site. Writes receive this status and these fields.
fn blog(status: &'static str, fields: &'static [&'static str]) -> Stage {
    blog_with(|_| {}, status, fields, b"")
}

/// Like [`blog`], with a plan modified by `change`, and this content in responses to writes.
fn blog_with(
    change: impl FnOnce(&mut config::EdgePlan),
    status: &'static str,
    fields: &'static [&'static str],
    content: &'static [u8],
) -> Stage {
    let writes = AtomicUsize::new(0);
    let wordpress = |plan: &mut config::EdgePlan| {
        plan.sites.iter_mut().for_each(|site| site.policy = profiles::Policy::wordpress());
        change(plan);
    };
    Stage::with(wordpress, move |seen| match method(seen) {
        "GET" => {
            let state = writes.load(Ordering::SeqCst);
            response("200 OK", &[], format!("{} {state}", seen.target()).as_bytes())
        }
        _ => {
            writes.fetch_add(1, Ordering::SeqCst);
            response(status, fields, content)
        }
    })
}

/// Fields of the WordPress REST API's responses to editors.
const TO_EDITORS: &[&str] = &[
    "Content-Type: application/json; charset=UTF-8",
    "X-WP-Nonce: 0a1b2c3d4e",
    "Cache-Control: no-cache, must-revalidate, max-age=0",
];
const SAVED: &[&str] = &["Location: http://example.test/wp-admin/post.php?post=1&action=edit&message=1"];
const PURGES_ITSELF: &[&str] =
    &["Location: http://example.test/wp-admin/post.php?post=1&action=edit&message=1", "X-Petasos-Purges: 1"];
const PURGES_UNREADABLY: &[&str] = &[
    "Location: http://example.test/wp-admin/post.php?post=1&action=edit&message=1",
    "X-Cache-Invalidate: posts",
];
const EDITOR: &str = "Cookie: wordpress_logged_in_0a=1";

fn post(stage: &Stage, target: &str, fields: &[&str], form: &str) {
    let length = format!("Content-Length: {}", form.len());
    let media_type = "Content-Type: application/x-www-form-urlencoded; charset=UTF-8";
    let mut client = stage.begin("POST", target, &[fields, &[&length[..], media_type]].concat());
    client.send(form);
    client.read();
}

#[test]
fn edit_by_an_editor_is_seen_by_the_next_visitor() {
    let stage =
        blog("302 Found", &["Location: http://example.test/wp-admin/post.php?post=1&action=edit&message=1"]);
    for target in ["/", "/post/", "/?p=7"] {
        stage.get(target, &[]);
        assert_eq!(reason(&stage.get(target, &[])), "hit-fresh");
    }
    post(&stage, "/wp-admin/post.php", &[EDITOR], "action=editpost&post_title=x");
    for target in ["/", "/post/", "/?p=7"] {
        let answer = stage.get(target, &[]);
        assert_eq!((answer.text(), reason(&answer)), (&format!("{target} 1")[..], "miss-invalidated"));
        assert_eq!(reason(&stage.get(target, &[])), "hit-fresh");
    }
    assert_eq!(stage.metric("petasos_purges_by_writes_total", ""), 1);
}

#[test]
fn page_changed_by_a_write_is_served_if_the_origin_fails() {
    let stage = blog("200 OK", TO_EDITORS);
    stage.get("/post/", &[]);
    stage.ask("PUT", "/wp-json/wp/v2/posts/1", &["Content-Length: 0", EDITOR]);
    stage.origin.kill();
    let answer = stage.get("/post/", &[]);
    assert_eq!((answer.text(), reason(&answer)), ("/post/ 0", "stale-on-error"));
}

#[test]
fn wordpress_write_that_fails_invalidates_nothing() {
    let login: &[&str] =
        &["Location: http://example.test/wp-login.php?redirect_to=http%3A%2F%2Fexample.test%2Fwp-admin%2F"];
    for (status, fields) in [("302 Found", login), ("403 No", &[]), ("500 Oops", &[]), ("200 OK", &[])] {
        let stage = blog(status, fields);
        stage.get("/post/", &[]);
        post(&stage, "/wp-admin/post.php", &[EDITOR], "action=editpost");
        assert_eq!(reason(&stage.get("/post/", &[])), "hit-fresh", "{status}");
    }
    let stage = blog("302 Found", &["Location: http://example.test/wp-admin/"]);
    stage.get("/post/", &[]);
    stage.origin.kill();
    post(&stage, "/wp-admin/post.php", &[EDITOR], "action=editpost");
    assert_eq!(reason(&stage.get("/post/", &[])), "hit-fresh", "it never arrived");
}

#[test]
fn form_fields_decide_whether_a_request_is_a_write() {
    let stage = blog_with(|_| {}, "200 OK", &[], b"<tr id=\"post-1\" class=\"iedit\">");
    stage.get("/post/", &[]);
    let filler = "x=".to_owned() + &"y".repeat(2000);
    for (form, expected) in [
        ("action=heartbeat&interval=60".to_owned(), "hit-fresh"),
        (format!("{filler}&action=inline-save"), "miss-invalidated"),
        (format!("{}&action=inline-save", filler.repeat(50)), "miss-invalidated"),
        ("action=inline-save&action=heartbeat".to_owned(), "hit-fresh"),
    ] {
        post(&stage, "/wp-admin/admin-ajax.php", &[EDITOR], &form);
        assert_eq!(reason(&stage.get("/post/", &[])), expected, "{} octets", form.len());
    }

    // A visitor who is not logged in cannot save.
    post(&stage, "/wp-admin/admin-ajax.php", &[], "action=inline-save");
    assert_eq!(reason(&stage.get("/post/", &[])), "hit-fresh");
}

#[test]
fn comment_invalidates_front_page_feeds_and_its_page() {
    let stage = blog("302 Found", &["Location: http://example.test/post/#comment-2"]);
    let targets = ["/", "/feed/", "/post/", "/other/"];
    targets.iter().for_each(|target| drop(stage.get(target, &[])));
    post(&stage, "/wp-comments-post.php", &[], "comment=hello");
    for (target, expected) in
        targets.iter().zip(["miss-invalidated", "miss-invalidated", "miss-absent", "hit-fresh"])
    {
        assert_eq!(reason(&stage.get(target, &[])), expected, "{target}");
    }
}

#[test]
fn wordpress_write_keeps_pages_of_other_hosts() {
    let stage = blog("302 Found", &["Location: /wp-admin/post.php?post=1&message=1"]);
    let other = |stage: &Stage| {
        let mut client = crate::support::connect(&stage.edge);
        client.send("GET /post/ HTTP/1.1\r\nHost: other.test\r\n\r\n");
        client.read()
    };
    stage.get("/post/", &[]);
    other(&stage);
    post(&stage, "/wp-admin/post.php", &[EDITOR], "");
    assert_eq!(reason(&other(&stage)), "hit-fresh");
    assert_eq!(reason(&stage.get("/post/", &[])), "miss-invalidated");
}

#[test]
fn response_content_in_any_pieces_proves_a_write() {
    let batch = br#"{"responses":[{"body":{"code":"x"},"status":404},{"body":{},"status":200}]}"#;
    for framing in ["Content-Length: 75", "Transfer-Encoding: chunked", "Connection: close"] {
        for cut in [1, 40, 74] {
            let stage = blog("200 OK", &[]);
            stage.get("/post/", &[]);
            stage.becomes(move |seen| {
                if method(seen) == "GET" {
                    return response("200 OK", &[], b"new");
                }
                assert_eq!(seen.field("Accept-Encoding"), Some("identity"));
                let fields = TO_EDITORS.join("\r\n");
                let head = format!("HTTP/1.1 207 Multi-Status\r\n{fields}\r\n{framing}\r\n\r\n");
                let piece = |octets: &[u8]| {
                    if framing.ends_with("chunked") {
                        [format!("{:x}\r\n", octets.len()).as_bytes(), octets, b"\r\n"].concat()
                    } else {
                        octets.to_vec()
                    }
                };
                let mut actions = vec![Action::Send(head.into()), Action::Send(piece(&batch[..cut]))];
                actions.push(Action::Send(piece(&batch[cut..])));
                if framing.ends_with("chunked") {
                    actions.push(Action::Send(b"0\r\n\r\n".to_vec()));
                } else if framing.ends_with("close") {
                    actions.push(Action::Close);
                }
                actions
            });
            let answer =
                stage.ask("POST", "/wp-json/batch/v1", &["Content-Length: 0", "Accept-Encoding: gzip"]);
            assert_eq!(answer.text().as_bytes(), batch, "{framing} {cut}");
            assert_eq!(stage.get("/post/", &[]).text(), "new", "{framing} {cut}");
        }
    }
}

#[test]
fn write_counts_if_its_client_disconnects_early() {
    let gate = Gate::default();
    let stage = blog("200 OK", &[]);
    stage.get("/post/", &[]);
    stage.becomes({
        let gate = gate.clone();
        move |seen| {
            if method(seen) == "GET" {
                return response("200 OK", &[], b"new");
            }
            let fields = TO_EDITORS.join("\r\n");
            let head = format!("HTTP/1.1 207 Multi-Status\r\n{fields}\r\nContent-Length: 300043\r\n\r\n");
            let start = Action::Send(
                [&br#"{"responses":[{"body":{},"status":200}],""#[..], &b"x".repeat(300_000)].concat(),
            );
            vec![Action::Send(head.into()), Action::Await(gate.clone()), start, Action::Send(b"\"}".to_vec())]
        }
    });
    let mut client = stage.begin("POST", "/wp-json/batch/v1", &["Content-Length: 0"]);
    client.read_head();
    drop(client);
    gate.open();
    eventually("the page is stale", || reason(&stage.get("/post/", &[])) != "hit-fresh");
}

#[test]
fn writes_beyond_the_rate_cause_a_background_refresh() {
    let stage = blog_with(|plan| plan.limits.writes_per_minute = 2, "302 Found", SAVED, b"");
    let postponed = |stage: &Stage| stage.metric("petasos_writes_postponed_total", "");
    for round in 1..=2 {
        stage.get("/post/", &[]);
        post(&stage, "/wp-admin/post.php", &[EDITOR], "");
        assert_eq!(stage.get("/post/", &[]).text(), format!("/post/ {round}"));
    }
    for _ in 0..3 {
        post(&stage, "/wp-admin/post.php", &[EDITOR], "");
    }
    assert_eq!((reason(&stage.get("/post/", &[])), postponed(&stage)), ("hit-fresh", 3));
    stage.pass(10);
    let answer = stage.get("/post/", &[]);
    assert_eq!((answer.text(), reason(&answer)), ("/post/ 2", "stale-while-revalidate"));
    stage.await_quiet();
    let answer = stage.get("/post/", &[]);
    assert_eq!((answer.text(), reason(&answer)), ("/post/ 5", "hit-fresh"));
    stage.pass(20);
    post(&stage, "/wp-admin/post.php", &[EDITOR], "");
    assert_eq!(reason(&stage.get("/post/", &[])), "miss-invalidated", "within the rate again");
}

#[test]
fn write_rules_do_not_apply_if_the_response_says_it_purges() {
    let stage = blog("302 Found", PURGES_ITSELF);
    stage.get("/post/", &[]);
    let answer = stage.ask("POST", "/wp-admin/post.php", &["Content-Length: 0", EDITOR]);
    assert_eq!(answer.field("X-Petasos-Purges"), None);
    assert_eq!(reason(&stage.get("/post/", &[])), "hit-fresh");
    assert_eq!(stage.metric("petasos_writes_left_to_purges_total", ""), 1);
    // The field has no effect in a request: only the origin may declare this.
    let stage = blog("302 Found", SAVED);
    stage.get("/post/", &[]);
    post(&stage, "/wp-admin/post.php", &[EDITOR, "X-Petasos-Purges: 1"], "");
    assert_eq!(reason(&stage.get("/post/", &[])), "miss-invalidated");
}

#[test]
fn write_rules_apply_if_the_purge_of_the_response_is_unreadable() {
    let stage = blog("302 Found", PURGES_UNREADABLY);
    stage.get("/post/", &[]);
    post(&stage, "/wp-admin/post.php", &[EDITOR], "");
    assert_eq!(reason(&stage.get("/post/", &[])), "miss-invalidated");
    assert_eq!(stage.metric("petasos_writes_left_to_purges_total", ""), 0);
    assert_eq!(stage.metric("petasos_purges_malformed_total", ""), 1);
}

#[test]
fn write_rules_pause_after_purges_near_writes() {
    let stage = blog("302 Found", SAVED);
    let save = |stage: &Stage| {
        stage.get("/post/", &[]);
        post(stage, "/wp-admin/post.php", &[EDITOR], "");
        reason(&stage.get("/post/", &[])).to_owned()
    };
    let purge = |stage: &Stage| {
        let purged = stage.call_admin("POST", "/purge", r#"{"type": "tag", "selectors": ["elsewhere"]}"#);
        assert_eq!(purged.status, 200, "{}", purged.text());
    };
    purge(&stage);
    stage.pass(1);
    assert_eq!(save(&stage), "miss-invalidated", "an operator's purge");
    stage.pass(11);
    purge(&stage);
    stage.pass(1);
    assert_eq!(save(&stage), "miss-invalidated", "too late to be the write's");
    purge(&stage);
    assert_eq!(save(&stage), "hit-fresh");
    stage.pass(3600);
    assert_eq!(save(&stage), "miss-invalidated", "the purges near writes are forgotten");
}
