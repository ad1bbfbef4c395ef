//! Compares page mode with headless Chromium on a site that has one of everything, over HTTP/1.1
//! and HTTP/2. Both must request the same files, except for the differences in
//! `expected/everything.txt`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod common;

use clock::Clock;
use petasos_browse::{PageError, PagePlan, run};
use platform::SystemClock;
use record::{PageFigures, PageOutcome};
use resource::ResourceClass;
use std::net::SocketAddr;
use std::sync::Arc;
use testkit::web_server::Nginx;
use testkit::{Action, Origin, Seen, response};

/// An image of one pixel.
const GIF: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

fn site(seen: &Seen) -> Vec<Action> {
    let html = |text: &str| response("200 OK", &["Content-Type: text/html; charset=utf-8"], text.as_bytes());
    let css = |text: &str| response("200 OK", &["Content-Type: text/css"], text.as_bytes());
    let path = seen.target().split('?').next().unwrap_or_default();
    match path {
        "/" => html(include_str!("site/page.html")),
        "/main.css" => css(include_str!("site/main.css")),
        "/imported.css" => css("@import url(/deep.css) layer(x); .i{background:url(/i-imported.gif)}"),
        "/deep.css" => css(".d{background:url(/i-deep.gif)} .i{background:url(/i-layered-loses.gif)}"),
        "/import-print.css" => css(".d{background:url(/i-import-print.gif)}"),
        "/print.css" => css("@import url(/print-imported.css); .d{background:url(/i-print.gif)!important}"),
        "/frame.html" => html(
            "<style>@media (max-width:400px){p{background:url(/i-frame-narrow.gif)}} @media (min-width:401px){p{background:url(/i-frame-wide.gif)}}</style><p>f<img src=/i-in-frame.gif>",
        ),
        "/moved.gif" => response("302 Found", &["Location: /i-moved-here.gif"], b""),
        _ if path.ends_with(".css") => css("/* nothing */"),
        _ if path.ends_with(".js") => response("200 OK", &["Content-Type: text/javascript"], b""),
        _ if path.ends_with(".gif") || path.ends_with(".ico") => {
            response("200 OK", &["Content-Type: image/gif"], GIF)
        }
        _ if path.ends_with(".woff2") => response("200 OK", &["Content-Type: font/woff2"], b"no font"),
        _ => response("404 Not Found", &["Content-Type: text/plain"], b"no"),
    }
}

/// Starts nginx as a proxy in front of `origin`. It forwards the protocol of each request in a
/// header field.
fn nginx_before(origin: SocketAddr) -> Nginx {
    Nginx::start(&format!(
        "proxy_http_version 1.1; proxy_set_header Connection ''; proxy_set_header Host $http_host;
         proxy_set_header X-Protocol $server_protocol;
         location / {{ proxy_pass http://{origin}; }}"
    ))
}

#[test]
fn chromium_and_page_mode_load_the_same_files() {
    let origin = Origin::start(site);
    let url = format!("{}/", origin.url());
    let plan = PagePlan::new(&url).unwrap();
    let expected = include_str!("expected/everything.txt");
    let (both, asked) = common::compare(&plan, origin.address(), &origin, expected);
    assert!(both >= 40, "{both} in common: {asked:?}");
}

#[test]
fn chromium_and_page_mode_load_the_same_files_over_http2() {
    let origin = Origin::start(site);
    let nginx = nginx_before(origin.address());
    let url = format!("https://localhost:{}/", nginx.secure_port);
    let plan = PagePlan { is_http2: true, ca_file: Some(nginx.authority()), ..PagePlan::new(&url).unwrap() };
    let address = SocketAddr::from(([127, 0, 0, 1], nginx.secure_port));
    let (both, asked) = common::compare(&plan, address, &origin, include_str!("expected/everything.txt"));
    let is_http2 = |seen: &Seen| seen.field("X-Protocol") == Some("HTTP/2.0");
    assert!(both >= 40 && asked.iter().all(is_http2), "{both} in common: {asked:?}");
}

fn load(plan: &PagePlan) -> Result<PageOutcome, PageError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    run(plan, &clock, &Arc::default())
}

#[test]
fn http2_page_uses_one_connection_or_names_the_reason() {
    let origin = Origin::start(site);
    let nginx = nginx_before(origin.address());
    let plan = |url: String| PagePlan {
        is_http2: true,
        ca_file: Some(nginx.authority()),
        pages: Some(3),
        time: None,
        threads: 1,
        ..PagePlan::new(&url).unwrap()
    };
    let old = load(&PagePlan { is_http2: false, ..plan(format!("{}/", origin.url())) }).unwrap();
    for url in [
        format!("https://localhost:{}/", nginx.secure_port),
        format!("http://127.0.0.1:{}/", nginx.plain_port),
    ] {
        let outcome = load(&plan(url)).unwrap();
        let (figures, before) = (&outcome.figures, &old.figures);
        assert_eq!((figures.pages, figures.connections), (before.pages, 3));
        assert_eq!((figures.requests(), &figures.statuses), (before.requests(), &before.statuses));
        assert_eq!(
            (figures.redirects, figures.failed_requests()),
            (before.redirects, before.failed_requests())
        );
        assert!(outcome.is_http2);
        // Each response is counted with its own content. Heads are compressed, and contents are
        // equal.
        for class in [ResourceClass::Document, ResourceClass::Stylesheet, ResourceClass::Image] {
            let bytes = |figures: &PageFigures| figures.class(class).unwrap().received_bytes;
            let (ours, plain) = (bytes(figures), bytes(before));
            assert!(ours > plain / 3 && ours < plain + plain / 10, "{}: {ours}, {plain}", class.name());
        }
    }
    for (url, reason) in [
        (
            format!("https://localhost:{}/", nginx.secure_http1_port),
            "the server does not speak HTTP/2: it did not choose h2 in the TLS handshake",
        ),
        (format!("{}/", origin.url()), "the server does not speak HTTP/2 without TLS; use --http 1.1"),
    ] {
        let error = load(&plan(url.clone())).unwrap_err();
        assert_eq!(error.to_string(), format!("{url}: cannot load the page: {reason}"));
    }
}
