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

/// An application that starts a session for every visitor, at pages and files alike, as Flask, Laravel and PHP do when
/// they are told to. Its pictures have no extension.
fn sessions_for_all(seen: &Seen) -> Vec<Action> {
    let session = seen.field("Cookie").is_none().then_some("Set-Cookie: session=new; Path=/; HttpOnly");
    let (kind, control) = match seen.target().split('/').nth(1) {
        Some("static") => ("Content-Type: text/css", "Cache-Control: public, max-age=43200"),
        Some("media") => ("Content-Type: image/jpeg", "Cache-Control: public, max-age=43200"),
        _ => ("Content-Type: text/html", "Cache-Control: no-cache"),
    };
    let fields: Vec<_> = [kind, control].into_iter().chain(session).collect();
    response("200 OK", &fields, b"content")
}

#[test]
fn site_with_a_session_for_all_gets_hits_for_its_files() {
    let origin = Origin::start(sessions_for_all);
    let edge = Edge::start(&origin.url(), &[]);
    let (mut hits, mut views) = (0, 0);
    for view in 0..50 {
        let cookie = format!("Cookie: session=visitor-{}", view % 10);
        let cookies: &[&str] = if view < 10 { &[] } else { &[&cookie] };
        let page = get(edge.address, &format!("/page-{}", view % 7), cookies);
        assert!(!page.field("Cache-Status").unwrap().contains("; hit"));
        for number in 0..10 {
            let target =
                if number < 7 { format!("/static/{number}.css") } else { format!("/media/{number}") };
            let file = get(edge.address, &target, &[&cookie]);
            assert!(file.field("Set-Cookie").is_none(), "a file must not replace a session");
            views += 1;
            hits += usize::from(file.field("Cache-Status").unwrap().contains("; hit"));
        }
    }
    println!("clients: {hits} of {views} files of a site with a session for all hit, at least 425");
    // The leak guard compares some of them first.
    assert!(hits >= 425, "{hits} of {views}");
}
