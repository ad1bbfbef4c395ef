//! Misses that are compressed while they arrive: `compression.misses = "gzip"`.

use crate::coded_forms::{BR, FRESH, GZIP, HTML, PLAIN, TAG, coding, decoded, page};
use crate::support::{self, Stage, behind, reason};
use semantics::MissForm;
use testkit::{Action, Gate, Http2Client, Seen, eventually, response};

/// An edge that compresses misses and accepts HTTP/2.
fn stage(script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static) -> Stage {
    Stage::with(
        |plan| {
            plan.sites[0].compression.as_mut().unwrap().misses = MissForm::Gzip;
            plan.listeners.iter_mut().for_each(|listener| listener.http2 = true);
        },
        script,
    )
}

/// A response without a length whose content begins with this text.
fn begun(content: &str) -> Action {
    let head = format!("HTTP/1.1 200 OK\r\n{FRESH}\r\n{HTML}\r\nConnection: close\r\n\r\n{content}");
    Action::Send(head.into_bytes())
}

#[test]
fn shared_miss_is_coded_for_clients_that_accept_gzip() {
    let stage = stage(|_| {
        let fields = [FRESH, HTML, TAG, "Repr-Digest: sha-256=:AAAA:"];
        response("200 OK", &fields, page("a").as_bytes())
    });
    let miss = stage.get("/", &[BR]);
    assert_eq!((coding(&miss), decoded(&miss)), ("gzip", page("a")));
    let tag_and_vary = (miss.field("ETag"), miss.field("Vary"));
    assert_eq!(tag_and_vary, (Some("W/\"1~petasos-gzip\""), Some("Accept-Encoding")));
    assert_eq!((miss.field("Content-Length"), reason(&miss)), (None, "miss-absent"));
    assert_eq!(miss.field("Repr-Digest"), None);
    assert_eq!(stage.get("/", &[GZIP, "If-None-Match: W/\"1~petasos-gzip\""]).status, 304);
    assert_eq!(stage.get("/", &[PLAIN]).field("Repr-Digest"), Some("sha-256=:AAAA:"));
    assert_eq!(coding(&stage.get("/plain", &[PLAIN])), "none");
    let head = stage.ask("HEAD", "/head", &[BR]);
    assert_eq!((head.status, head.body.len()), (200, 0));
    let second =
        Http2Client::connect(support::address(&stage.edge)).get("/second", &["accept-encoding: gzip"]);
    assert_eq!((coding(&second), decoded(&second), second.complete), ("gzip", page("a"), true));
    let mut old = stage.begin("GET", "/old", &[]);
    assert_eq!(coding(&old.read()), "none");
    old.send(format!("GET /older HTTP/1.0\r\nHost: example.test\r\n{GZIP}\r\n\r\n"));
    let answer = old.read();
    assert_eq!((coding(&answer), decoded(&answer)), ("gzip", page("a")));
    assert_eq!(stage.metric("petasos_misses_coded_total", ""), 4);
}

#[test]
fn response_for_one_client_is_never_coded() {
    let stage = stage(|seen| {
        let fields: &[&str] = match seen.target() {
            "/private" => &["Cache-Control: private", HTML],
            "/no-store" => &["Cache-Control: no-store", HTML],
            "/no-transform" => &["Cache-Control: max-age=60, no-transform", HTML],
            "/cookie" => &["Set-Cookie: sessionid=1", HTML],
            _ => &[FRESH, HTML],
        };
        response("200 OK", fields, page("a").as_bytes())
    });
    let session = "Cookie: sessionid=1";
    for target in ["/private", "/no-store", "/no-transform", "/cookie", "/session"] {
        for _ in 0..4 {
            let answer = stage.get(target, &[BR, if target == "/session" { session } else { "X: y" }]);
            assert_eq!((coding(&answer), answer.text()), ("none", &page("a")[..]), "{target}");
        }
    }
    assert_eq!(coding(&stage.get("/basic", &[BR, "Authorization: Basic eDp5"])), "none");
    assert_eq!(stage.metric("petasos_misses_coded_total", ""), 0);
    assert_eq!(stage.metric("petasos_encodings_total", ""), 0);
}

#[test]
fn coded_miss_arrives_without_delay() {
    let gate = Gate::default();
    let stage = stage({
        let gate = gate.clone();
        move |_| {
            let rest = vec![Action::Send(page("second").into_bytes()), Action::Close];
            [vec![begun(&page("first"))], behind(&gate, rest)].concat()
        }
    });
    // The client receives what has arrived, although the origin pauses.
    let mut client = stage.begin("GET", "/", &[GZIP]);
    let mut answer = client.read_head();
    assert_eq!(coding(&answer), "gzip");
    gate.open();
    assert!(client.read_body(&mut answer));
    assert_eq!(decoded(&answer), page("first") + &page("second"));
    eventually("it is stored", || reason(&stage.get("/", &[PLAIN])) == "hit-fresh");
    assert_eq!(stage.get("/", &[PLAIN]).text(), page("first") + &page("second"), "stored uncompressed");
}

#[test]
fn coded_miss_ends_as_incomplete_with_its_source() {
    let stage = stage(|seen| match seen.target() {
        "/cut" => {
            let content = page("a");
            let head = format!(
                "HTTP/1.1 200 OK\r\n{FRESH}\r\n{HTML}\r\nContent-Length: {}\r\n\r\n{content}",
                content.len() + 1
            );
            vec![Action::Send(head.into_bytes()), Action::Close]
        }
        _ => {
            let (content, size) = (page("a"), page("a").len());
            let head = format!("HTTP/1.1 200 OK\r\n{FRESH}\r\n{HTML}\r\nTransfer-Encoding: chunked\r\n\r\n");
            let end = "0\r\nRepr-Digest: sha-256=:AAAA:\r\n\r\n";
            vec![Action::Send(format!("{head}{size:x}\r\n{content}\r\n{end}").into_bytes())]
        }
    });
    let cut = stage.get("/cut", &[GZIP]);
    assert_eq!((coding(&cut), cut.complete), ("gzip", false));
    assert_eq!(reason(&stage.get("/cut", &[GZIP])), "miss-absent", "not stored");
    // A trailer section may describe the content as the origin sent it.
    let whole = stage.get("/trailer", &[GZIP]);
    assert_eq!((coding(&whole), decoded(&whole), &whole.trailers[..]), ("gzip", page("a"), ""));
}
