//! Static files for clients with sessions: they are fetched without cookies and shared, unless the
//! response turns out to be no file.

use crate::support::{Stage, bare, behind, reason};
use testkit::{Action, Gate, Seen, eventually, response};

const PUBLIC: &str = "Cache-Control: public, max-age=60";
const CSS: &str = "Content-Type: text/css";
const HTML: &str = "Content-Type: text/html";
const SESSION: &[&str] = &["Cookie: sessionid=ann"];

fn stage(script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static) -> Stage {
    Stage::with(|plan| plan.limits.leak_guard_every = 0, script)
}

/// For each request that the origin saw: whether it carried a cookie.
fn with_cookies(stage: &Stage) -> Vec<bool> {
    stage.origin.seen().iter().map(|seen| seen.field("Cookie").is_some()).collect()
}

#[test]
fn clients_with_sessions_share_one_fetch_without_cookies() {
    let gate = Gate::default();
    let stage = stage({
        let gate = gate.clone();
        move |_| behind(&gate, response("200 OK", &[PUBLIC, CSS, "Set-Cookie: sessionid=new"], b"a{}"))
    });
    let mut clients: Vec<_> = (0..20).map(|_| stage.begin("GET", "/a.css", SESSION)).collect();
    eventually("all but one wait", || stage.metric("petasos_flight_waits_total", "") == 19);
    gate.open();
    for client in &mut clients {
        let answer = client.read();
        assert_eq!((answer.text(), answer.field("Set-Cookie")), ("a{}", None));
    }
    assert_eq!(with_cookies(&stage), [false]);
    assert_eq!(reason(&stage.get("/a.css", SESSION)), "hit-fresh");
}

#[test]
fn page_at_the_path_of_a_file_costs_a_single_extra_fetch() {
    for control in [PUBLIC, "Cache-Control: no-store"] {
        let stage = stage(move |seen| {
            let page = seen.field("Cookie").unwrap_or("nobody").to_owned();
            response("200 OK", &[control, HTML], page.as_bytes())
        });
        for _ in 0..3 {
            let answer = stage.get("/account/x.css", SESSION);
            assert_eq!((answer.text(), reason(&answer)), ("sessionid=ann", "pass-cookie"));
        }
        assert_eq!(with_cookies(&stage), [false, true, true, true], "{control}");
    }
}

#[test]
fn file_that_needs_a_session_is_fetched_with_it() {
    for refusal in ["302 Found", "403 Forbidden", "404 Not Found", "500 Oh"] {
        let stage = stage(move |seen| match seen.field("Cookie") {
            Some(_) => response("200 OK", &["Content-Type: image/png"], b"secret"),
            None => response(refusal, &[PUBLIC, "Location: /login"], b"no"),
        });
        for _ in 0..2 {
            assert_eq!(stage.get("/private/a.png", SESSION).text(), "secret", "{refusal}");
            assert_ne!(stage.get("/private/a.png", &[]).text(), "secret", "{refusal}");
        }
    }
}

#[test]
fn file_without_extension_is_recognised_by_its_response() {
    let stage = stage(|_| response("200 OK", &[PUBLIC, "Content-Type: image/png"], b"png"));
    let reasons: Vec<_> = (0..3).map(|_| reason(&stage.get("/media/7", SESSION)).to_owned()).collect();
    assert_eq!(reasons, ["pass-cookie", "miss-absent", "hit-fresh"]);
    assert_eq!(with_cookies(&stage), [true, false]);
}

#[test]
fn file_without_lifetime_is_revalidated_without_cookies() {
    let stage = stage(|seen| {
        let dated = ["Last-Modified: Mon, 03 Nov 2025 10:00:00 GMT", "ETag: \"1\"", CSS];
        match seen.field("If-None-Match") {
            Some(_) => bare("304 Not Modified", &["ETag: \"1\""]),
            None => response("200 OK", &dated, b"a{}"),
        }
    });
    let reasons: Vec<_> = (0..3).map(|_| reason(&stage.get("/a.css", SESSION)).to_owned()).collect();
    assert_eq!(reasons, ["miss-absent", "hit-revalidated", "hit-revalidated"]);
    assert_eq!(with_cookies(&stage), [false, false, false]);
}

#[test]
fn origin_field_listed_in_connection_stores_nothing() {
    let stage = stage(|seen| {
        let from = seen.field("Origin").unwrap_or("none").to_owned();
        response("200 OK", &[PUBLIC, HTML], from.as_bytes())
    });
    let forged = &["Origin: https://evil.example", "Connection: close, Origin"];
    for _ in 0..2 {
        stage.get("/", forged);
        assert_eq!(stage.get("/", &[]).text(), "none");
        assert_eq!(stage.get("/", &["Origin: https://evil.example"]).text(), "https://evil.example");
    }
}

#[test]
fn page_is_not_shared_with_sessions() {
    let stage =
        stage(|seen| response("200 OK", &[PUBLIC, HTML], seen.field("Cookie").unwrap_or("page").as_bytes()));
    assert_eq!(stage.get("/", &[]).text(), "page");
    assert_eq!(reason(&stage.get("/", SESSION)), "pass-cookie");
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
}

#[test]
fn static_files_setting_off_makes_files_pass() {
    let stage = Stage::with(
        |plan| plan.sites[0].policy.static_files = false,
        |_| response("200 OK", &[PUBLIC, CSS], b"a{}"),
    );
    stage.get("/a.css", &[]);
    assert_eq!(reason(&stage.get("/a.css", SESSION)), "pass-cookie");
}

#[test]
fn cross_origin_request_shares_the_page_while_all_are_allowed() {
    let stage = stage(|seen| {
        let count = usize::from(seen.target().contains("own"));
        let permits = ["Access-Control-Allow-Origin: *", "Access-Control-Allow-Origin: https://a.example"];
        response("200 OK", &[PUBLIC, permits[count], "Content-Type: font/woff2"], b"font")
    });
    let from = |site: &str, target: &str| {
        reason(&stage.get(target, &[&format!("Origin: https://{site}.example")])).to_owned()
    };
    stage.get("/all", &[]);
    assert_eq!([from("a", "/all"), from("b", "/all")], ["hit-fresh", "hit-fresh"]);
    stage.get("/own", &[]);
    assert_eq!([from("a", "/own"), from("a", "/own")], ["miss-variant", "hit-fresh"]);
    assert_eq!(from("b", "/own"), "miss-variant");
    assert_eq!(reason(&stage.get("/own", &[])), "hit-fresh");
    assert_eq!(stage.origin.count("/own"), 3);
}

#[test]
fn client_that_accepts_one_type_receives_it_or_passes() {
    let stage = stage(|seen| match seen.target() {
        "/api" => response("200 OK", &[PUBLIC, "Content-Type: application/json"], b"{}"),
        "/vary" => {
            let accept = seen.field("Accept").unwrap_or_default().to_owned();
            response("200 OK", &[PUBLIC, "Vary: Accept", "Content-Type: x/y"], accept.as_bytes())
        }
        _ => response("200 OK", &[PUBLIC, HTML], b"page"),
    });
    let json = &["Accept: application/json"];
    assert_eq!(reason(&stage.get("/api", json)), "miss-absent");
    assert_eq!(reason(&stage.get("/api", json)), "hit-fresh");
    assert_eq!(reason(&stage.get("/", json)), "pass-accept");
    assert_eq!(reason(&stage.get("/", json)), "pass-accept");
    assert_eq!(stage.origin.count("/"), 3, "one for all, and each its own");
    assert_eq!(stage.get("/vary", json).text(), "application/json");
    assert_eq!(reason(&stage.get("/vary", json)), "hit-fresh");
    assert_eq!(reason(&stage.get("/api", &["Accept: text/event-stream"])), "pass-accept");
}
