//! `petasos adopt` with real web servers: the original configuration serves pages, the written
//! copies with Petasos serve the same ones at the same addresses, and the way back restores
//! the original.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod debian;
mod lab;
mod place;

use place::{Place, Server};
use testkit::{Edge, PemFiles, Response, Trust, eventually, petasos};

/// Header fields that differ, because Petasos sends the response in its own framing and says so, or
/// because they follow the clock.
const OWN_FIELDS: [&str; 11] = [
    "age",
    "cache-status",
    "connection",
    "content-length",
    "date",
    "expires",
    "keep-alive",
    "transfer-encoding",
    "vary",
    "via",
    "upgrade",
];

/// Status, header fields and content of a response, for a comparison. A `Location` counts without
/// scheme and host, because nginx now states it without them.
fn essence(response: &Response) -> (u16, Vec<String>, Vec<u8>) {
    let origin_form = |line: &str| match line.split_once("://") {
        Some((before, url)) if line.to_ascii_lowercase().starts_with("location:") => {
            let path = url.find('/').map_or("/", |at| &url[at..]);
            format!("{} {path}", before.split(':').next().unwrap())
        }
        _ => line.replacen(": ", " ", 1),
    };
    let is_own = |line: &&str| {
        let name = line.split(':').next().unwrap().to_ascii_lowercase();
        OWN_FIELDS.contains(&name.as_str()) || name.starts_with("accept-ranges")
    };
    let mut fields: Vec<String> =
        response.head.lines().skip(1).filter(|line| !is_own(line)).map(origin_form).collect();
    fields.sort();
    (response.status, fields, response.body.clone())
}

/// The responses that are compared.
fn pages(place: &Place, trust: Option<&Trust>) -> Vec<(u16, Vec<String>, Vec<u8>)> {
    let requests = place.requests();
    // Twice, so that pages from the store are compared too.
    let responses = requests.iter().chain(requests).map(|request| place.ask(request, trust));
    responses.map(|response| essence(&response)).collect()
}

/// Adopts the place, switches, compares, and goes back.
fn adopted_site_serves_the_same_pages(server: Server, with_tls: bool) {
    let files = with_tls.then(PemFiles::make);
    let mut place = Place::make(server, files.as_ref());
    let trust = files.as_ref().map(|files| Trust::of(&files.authority));
    place.start();
    let before = pages(&place, trust.as_ref());
    assert_eq!(before[0].0, 200);
    let page = String::from_utf8(before[4].2.clone()).unwrap();
    assert!(page.contains(if with_tls { "scheme=https" } else { "scheme=http\n" }), "{page}");
    let posted = String::from_utf8(before[5].2.clone()).unwrap();
    assert!(posted.contains("client=127.0.0.9\n"), "{posted}");
    let originals = place.configuration();

    let inside = place.path("etc/sites-available/copies");
    let main = place.main_file();
    let output = petasos(["adopt", main.to_str().unwrap(), "--write", inside.to_str().unwrap()]);
    assert!(output.code == Some(2) && !inside.exists(), "{}", output.stderr);
    let written = place.path("adopted");
    let port = place.inner.number().to_string();
    let arguments = ["adopt", main.to_str().unwrap(), "--port", &port, "--write", written.to_str().unwrap()];
    let output = petasos(arguments);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(place.configuration(), originals, "the command has changed a file");
    assert_eq!(petasos(arguments).code, Some(2), "a directory that is not empty is refused");
    let file = written.join("petasos.toml");
    let checked = petasos(["check", file.to_str().unwrap()]);
    assert_eq!(checked.code, Some(0), "{}{}", checked.stderr, std::fs::read_to_string(&file).unwrap());

    place.copy_from("after");
    place.reload();
    let edge = Edge::of_file(&file, None);
    let after = pages(&place, trust.as_ref());
    for (number, (before, mut after)) in before.iter().zip(after).enumerate() {
        // Browsers may keep a file for a week if the web server does not say otherwise.
        if !before.1.iter().any(|line| line.starts_with("Cache-Control ")) {
            after.1.retain(|line| line != "Cache-Control max-age=604800");
        }
        let texts = (String::from_utf8_lossy(&before.2), String::from_utf8_lossy(&after.2));
        assert_eq!(*before, after, "response {number}: {texts:?}");
    }
    assert!(edge.metric("petasos_requests_total", "hit") >= 1.0, "no page came from the store");
    if with_tls {
        let redirect = place.ask("GET /folder/x?y", None);
        assert!([301, 308].contains(&redirect.status), "{}", redirect.head);
        let target = redirect.field("Location").unwrap();
        assert!(target.starts_with("https://") && target.ends_with("/folder/x?y"), "{target}");
    }

    drop(edge);
    place.copy_from("before");
    place.reload();
    assert_eq!(place.configuration(), originals);
    eventually("the web server has its own address again", || place.is_open());
    assert_eq!(pages(&place, trust.as_ref()), before);
}

#[test]
fn nginx_site_with_php_moves_and_comes_back() {
    adopted_site_serves_the_same_pages(Server::Nginx, false);
}

#[test]
fn nginx_site_with_tls_moves_and_comes_back() {
    adopted_site_serves_the_same_pages(Server::Nginx, true);
}

#[test]
fn apache_site_with_php_moves_and_comes_back() {
    adopted_site_serves_the_same_pages(Server::Apache, false);
}

#[test]
fn apache_site_with_tls_moves_and_comes_back() {
    adopted_site_serves_the_same_pages(Server::Apache, true);
}

#[test]
fn default_site_of_nginx_moves_and_comes_back() {
    adopted_site_serves_the_same_pages(Server::DebianNginx, false);
}

#[test]
fn default_site_of_apache_moves_and_comes_back() {
    adopted_site_serves_the_same_pages(Server::DebianApache, false);
}

#[test]
fn configuration_of_the_wordpress_lab_moves() {
    adopted_site_serves_the_same_pages(Server::Lab(&lab::WORDPRESS), false);
}

#[test]
fn configuration_of_the_mediawiki_lab_moves() {
    adopted_site_serves_the_same_pages(Server::Lab(&lab::MEDIAWIKI), false);
}

#[test]
fn configuration_of_the_drupal_lab_moves() {
    adopted_site_serves_the_same_pages(Server::Lab(&lab::DRUPAL), false);
}

#[test]
fn configuration_of_the_wagtail_lab_moves() {
    adopted_site_serves_the_same_pages(Server::Lab(&lab::WAGTAIL), false);
}
