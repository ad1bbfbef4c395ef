//! Header sets of real clients before the real binary: which of them get what is stored.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use testkit::clients::{CLIENTS, ClientRow, target};
use testkit::{Action, Edge, Origin, Seen, get, response};

const PUBLIC: &str = "Cache-Control: public, max-age=600";

/// The origin of docs/clients.md.
fn site(seen: &Seen) -> Vec<Action> {
    let permits = |origin: &str| format!("Access-Control-Allow-Origin: {origin}");
    let reflected = seen.field("Origin").map(permits).unwrap_or_default();
    let with_origin = |kind: &str, body: &str| {
        let fields = [PUBLIC, kind, &reflected];
        response("200 OK", &fields[..fields.len() - usize::from(reflected.is_empty())], body.as_bytes())
    };
    match seen.target() {
        target::STYLE => response("200 OK", &[PUBLIC, "Content-Type: text/css"], b"a{}"),
        target::SCRIPT => {
            response("200 OK", &["Cache-Control: max-age=600", "Content-Type: text/javascript"], b"1;")
        }
        target::PICTURE => response("200 OK", &[PUBLIC, "Content-Type: image/png"], b"png"),
        target::FONT => response("200 OK", &[PUBLIC, "Content-Type: font/woff2", &permits("*")], b"font"),
        target::OWN_FONT => with_origin("Content-Type: font/woff2", "font"),
        target::FEED => {
            response("200 OK", &[PUBLIC, "Content-Type: application/rss+xml", "ETag: \"feed-1\""], b"<rss/>")
        }
        target::API => response("200 OK", &[PUBLIC, "Content-Type: application/json"], b"[]"),
        target::OWN_API => with_origin("Content-Type: application/json", "[]"),
        target::FRAGMENT => {
            let part = seen.field("HX-Request").or_else(|| seen.field("Turbo-Frame")).is_some();
            let body = if part { "<li>" } else { "<html><li>" };
            response("200 OK", &[PUBLIC, "Content-Type: text/html"], body.as_bytes())
        }
        _ => response("200 OK", &[PUBLIC, "Content-Type: text/html", "ETag: \"page-1\""], b"<html>"),
    }
}

fn hits(edge: &Edge, client: &ClientRow) -> (bool, String) {
    let mut last = String::new();
    for _ in 0..2 {
        let answer = get(edge.address, client.target, client.fields);
        last = answer.field("Cache-Status").unwrap_or_default().to_owned();
    }
    (last.contains("; hit"), last)
}

#[test]
fn clients_of_the_table_hit_as_it_says() {
    let origin = Origin::start(site);
    let edge = Edge::configured(&origin.url(), "[limits]\nleak_guard_every = 0\n", &[]);
    for client in CLIENTS {
        get(edge.address, client.target, &[]);
    }
    let mut wrong = Vec::new();
    let mut count = 0;
    for client in CLIENTS {
        let (is_hit, status) = hits(&edge, client);
        count += usize::from(is_hit);
        if is_hit != client.never_hits.is_none() {
            wrong.push(format!("{}: {status}", client.name));
        }
    }
    println!("clients: {count} of {} hit, at least 39", CLIENTS.len());
    assert!(
        wrong.is_empty(),
        "{count} of {} hit; otherwise than the table says:\n{}",
        CLIENTS.len(),
        wrong.join("\n")
    );
    assert!(count >= 39);
}
