//! Header sets of real clients before the real binary: which of them get stored responses.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::clients::{CLIENTS, ClientRow, target};
use testkit::{Action, Edge, Origin, Seen, eventually, get, petasos, response};

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

/// An application that starts a session for every visitor, at pages and files alike, as Flask,
/// Laravel and PHP do if configured so. Its pictures have no extension.
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
    let mut hits = 0;
    let mut views = 0;
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

/// Files of applications whose configuration gives them no lifetime, as of version `version`: nginx
/// sends the date alone, and Flask says `no-cache` and sets the session's cookie.
fn files_without_lifetime(version: &AtomicUsize, seen: &Seen) -> Vec<Action> {
    let version = version.load(Ordering::SeqCst);
    let kind = "Content-Type: text/css";
    let date = "Last-Modified: Sat, 01 Nov 2025 10:00:00 GMT";
    let tag = format!("ETag: \"{version}\"");
    let session =
        ["Cache-Control: no-cache", "Vary: Cookie", "Set-Cookie: session=eyJ2IjoxfQ.aA.bB; HttpOnly; Path=/"];
    let fields = match seen.target() {
        "/static/nginx.css" => vec![kind, date, &tag],
        "/static/flask.css" => [kind, date, &tag].into_iter().chain(session).collect(),
        _ => [&["Content-Type: text/html"][..], &session].concat(),
    };
    if seen.field("If-None-Match") == tag.split_once(' ').map(|(_, value)| value) {
        return response("304 Not Modified", &fields[1..], b"");
    }
    response("200 OK", &fields, format!("version {version}").as_bytes())
}

/// The response to a visitor with a session, and whether it was a hit that cost the origin no
/// request.
fn visited(edge: &Edge, target: &str) -> (String, bool) {
    let file = get(edge.address, target, &["Cookie: session=visitor"]);
    let is_hit = file.field("Cache-Status").unwrap().starts_with("Petasos; hit");
    assert!(!is_hit || file.field("Set-Cookie").is_none(), "a hit must not replace a session");
    (String::from_utf8(file.body).unwrap(), is_hit)
}

#[test]
fn file_without_lifetime_is_a_hit_until_it_is_purged() {
    for (target, arguments) in
        [("/static/nginx.css", &[][..]), ("/static/flask.css", &["--profile", "flask"])]
    {
        let version = Arc::new(AtomicUsize::new(1));
        let served = Arc::clone(&version);
        let origin = Origin::start(move |seen| files_without_lifetime(&served, seen));
        let edge = Edge::start(&origin.url(), arguments);
        // The leak guard compares some hits first, and a slow machine needs longer than a lifetime
        // for some.
        eventually(&format!("a hit of {target}"), || visited(&edge, target).1);
        version.store(2, Ordering::SeqCst);
        let admin = edge.admin.to_string();
        let url = format!("http://example.test{target}");
        assert_eq!(petasos(["purge", "--admin", &admin, &url]).code, Some(0));
        assert_eq!(visited(&edge, target).0, "version 2", "{target}");
    }
}

#[test]
fn changed_file_is_seen_after_static_ttl_max_without_a_purge() {
    for (target, profile) in [("/static/nginx.css", "default"), ("/static/flask.css", "flask")] {
        let version = Arc::new(AtomicUsize::new(1));
        let served = Arc::clone(&version);
        let origin = Origin::start(move |seen| files_without_lifetime(&served, seen));
        let configuration =
            format!("profile = \"{profile}\"\nstatic_ttl_max = \"1s\"\n[limits]\nleak_guard_every = 0\n");
        let edge = Edge::configured(&origin.url(), &configuration, &[]);
        eventually(&format!("a hit of {target}"), || visited(&edge, target).1);
        version.store(2, Ordering::SeqCst);
        eventually(&format!("the change of {target}"), || visited(&edge, target).0 == "version 2");
    }
}
