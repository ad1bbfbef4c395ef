//! The lifetime of static files in browsers, if the application states none.

use crate::support::Stage;
use testkit::{Action, Response, Seen, response};

const YEAR: Option<&str> = Some("max-age=31536000, immutable");
const WEEK: Option<&str> = Some("max-age=604800");

/// A style sheet as a file server without settings sends it.
fn file(_: &Seen) -> Vec<Action> {
    let fields = ["Content-Type: text/css", "Last-Modified: Mon, 02 Jan 2023 03:04:05 GMT", "ETag: \"1\""];
    response("200 OK", &fields, b"a{}")
}

fn verdict_and_lifetime(answer: &Response) -> (&str, Option<&str>) {
    let verdict = if answer.field("Age").is_some_and(|age| age != "0") { "old" } else { "new" };
    (verdict, answer.field("Cache-Control"))
}

#[test]
fn file_gets_a_lifetime_as_miss_hit_part_and_304() {
    let stage = Stage::new(file);
    for (target, lifetime) in [("/style.css?ver=6.5", YEAR), ("/a/app.3f9a2b1c.css", YEAR), ("/a.css", WEEK)]
    {
        assert_eq!(verdict_and_lifetime(&stage.get(target, &[])), ("new", lifetime), "{target}");
        stage.pass(2);
        assert_eq!(verdict_and_lifetime(&stage.get(target, &[])), ("old", lifetime), "{target}");
        // A session does not matter for a static file.
        let session = stage.get(target, &["Cookie: PHPSESSID=1"]);
        assert_eq!(verdict_and_lifetime(&session), ("old", lifetime), "{target}");
        let part = stage.get(target, &["Range: bytes=0-0"]);
        assert_eq!((part.status, part.field("Cache-Control")), (206, lifetime), "{target}");
        let known = stage.get(target, &["If-None-Match: \"1\""]);
        assert_eq!((known.status, known.field("Cache-Control")), (304, lifetime), "{target}");
    }
    assert_eq!(stage.origin.seen().len(), 3);
}

#[test]
fn response_to_a_pass_gets_no_lifetime() {
    let stage = Stage::new(file);
    for fields in [&["Authorization: Basic YTpi"][..], &["Cache-Control: no-store"]] {
        assert_eq!(stage.get("/style.css?ver=1", fields).field("Cache-Control"), None, "{fields:?}");
    }
}

#[test]
fn statement_of_the_application_is_kept() {
    let stage = Stage::new(|_| {
        response("200 OK", &["Content-Type: text/css", "Cache-Control: max-age=5, must-revalidate"], b"a{}")
    });
    for _ in 0..2 {
        let answer = stage.get("/style.css?ver=1", &[]);
        assert_eq!(answer.field("Cache-Control"), Some("max-age=5, must-revalidate"));
    }
}

#[test]
fn setting_and_profile_switch_it_off() {
    let off = Stage::with(|plan| plan.sites[0].policy.browser_caching = false, file);
    let letter = Stage::rfc(file);
    for stage in [&off, &letter] {
        for _ in 0..2 {
            assert_eq!(stage.get("/style.css?ver=1", &[]).field("Cache-Control"), None);
        }
    }
}

#[test]
fn new_content_keeps_the_lifetime_after_revalidation() {
    let stage = Stage::new(|seen| {
        if seen.field("If-None-Match").is_some() {
            response("304 Not Modified", &["ETag: \"1\""], b"")
        } else {
            file(seen)
        }
    });
    assert_eq!(stage.get("/a.css", &[]).field("Cache-Control"), WEEK);
    stage.pass(3600);
    for _ in 0..2 {
        assert_eq!(stage.get("/a.css", &[]).field("Cache-Control"), WEEK);
    }
    stage.await_quiet();
    assert_eq!(stage.last_seen().field("If-None-Match"), Some("\"1\""));
}
