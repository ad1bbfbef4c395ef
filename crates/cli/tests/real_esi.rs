//! A page that is assembled from coded parts, in a real browser: it decodes the joined gzip stream,
//! and the text is that of the page without a coding.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

#[path = "../lab/wordpress/chromium.rs"]
#[allow(dead_code, reason = "each set of tests uses its part")]
mod chromium;

use chromium::Chromium;
use serde_json::json;
use testkit::{Client, Edge, Origin, eventually, response};

const HTML: &str = "Content-Type: text/html; charset=utf-8";
const STORED: &str = "Cache-Control: max-age=600";
const TEMPLATE: &str = "Surrogate-Control: content=\"ESI/1.0\"";

/// The settings of the site. The cookie changes nothing at the origin. The leak guard would compare
/// the first visits with it with the origin's response, and such a page has no coded parts.
const SETTINGS: &str = "esi = true\nesi_cookies = [\"group\"]\nnoise_cookies = [\"group\"]\n\
                        limits.leak_guard_every = 0\n";

/// A list long enough for a coded form, with characters of several bytes.
fn list(name: &str) -> String {
    (0..200).map(|entry| format!("<li>{name} {entry} größer 雪</li>\n")).collect()
}

fn site() -> Origin {
    Origin::start(|seen| match seen.target() {
        "/" => {
            let page = format!(
                "<!doctype html><title>assembled</title><ul>{}</ul><p id=\"who\">\
                 <esi:vars>Hello $(HTTP_COOKIE{{group}}|nobody)!</esi:vars></p>\
                 <esi:include src=\"/shared\"/><esi:include src=\"/own\"/><ul>{}</ul><p id=\"end\">end</p>",
                list("above"),
                list("below")
            );
            response("200 OK", &[TEMPLATE, STORED, HTML], page.as_bytes())
        }
        "/shared" => response("200 OK", &[STORED, HTML], format!("<ul>{}</ul>", list("shared")).as_bytes()),
        "/own" => response("200 OK", &["Cache-Control: private", HTML], b"<p id=\"own\">for one</p>"),
        _ => response("404 Not Found", &[], b""),
    })
}

#[test]
fn chromium_shows_the_text_of_a_joined_gzip_page() {
    let origin = site();
    let edge = Edge::configured(&origin.url(), SETTINGS, &[]);
    eventually("the forms of template and fragment are made", || {
        let mut client = Client::connect(edge.address);
        client.send("GET / HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n");
        let answer = client.read();
        answer.field("Content-Encoding") == Some("gzip") && edge.metric("petasos_encodings_total", "") >= 2.0
    });
    let mut browser = Chromium::start("localhost", edge.address);
    let window = browser.window();
    for domain in ["Network.enable", "Log.enable"] {
        browser.command(&window, domain, &json!({}));
    }
    let cookie = json!({"name": "group", "value": "<b>staff</b>&amp", "url": "http://localhost/"});
    assert_eq!(browser.command(&window, "Network.setCookie", &cookie)["success"], true);
    browser.open(&window, "http://localhost/");
    let shown = browser.evaluate(&window, "document.body.innerText").as_str().unwrap().to_owned();
    let lists = ["above", "shared", "below"].map(|name| {
        let lines: Vec<String> = (0..200).map(|entry| format!("{name} {entry} größer 雪")).collect();
        lines.join("\n")
    });
    let expected =
        format!("{}\n\nHello <b>staff</b>&amp!\n\n{}\n\nfor one\n\n{}\n\nend", lists[0], lists[1], lists[2]);
    assert_eq!(shown.trim(), expected);
    let elements = browser.evaluate(&window, "document.querySelectorAll('li').length");
    assert_eq!(elements, 600, "the value became no element, and no part is missing");
    let mut codings = Vec::new();
    for event in browser.kept_events(&window) {
        assert_ne!(event["method"], "Network.loadingFailed", "{event}");
        let answer = &event["params"]["response"];
        if event["method"] == "Network.responseReceived" && answer["url"] == "http://localhost/" {
            let fields = answer["headers"].as_object().unwrap();
            let coding = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-encoding"));
            codings.push(coding.map(|(_, value)| value.clone()));
        }
    }
    assert_eq!(codings, [Some(json!("gzip"))]);
}
