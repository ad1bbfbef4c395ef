//! Tests that every kind of page answers with its content, and that no input breaks a page.

use crate::browser::{Running, links};
use std::collections::BTreeSet;
use testkit::Client;

/// A page of each kind, with a text that only this kind has.
const PAGES: &[(&str, &str)] = &[
    ("/", "New in the shop"),
    ("/new", "class=\"pager\""),
    ("/shop", "City bikes"),
    ("/shop/bicycles", "class=\"kind\""),
    ("/shop/bells", "class=\"card"),
    ("/shop/bells?page=1", "aria-current=\"page\""),
    ("/brands/bernal", "class=\"badge sale\""),
    ("/journal", "journal/feed"),
    ("/journal/feed", "<rss version=\"2.0\">"),
    ("/topics/repairs", "How to mend it"),
    ("/tags/rain", "class=\"teaser"),
    ("/search", "role=\"search\""),
    ("/search?q=chain", "class=\"results\""),
    ("/search?q=zzzzzz", "Nothing was found"),
    ("/user", "name=\"password\""),
    ("/people/alice", "Member since"),
    ("/contact", "name=\"message\""),
    ("/about-us", "since 1998"),
    ("/sitemap.xml", "<urlset"),
    ("/robots.txt", "Disallow: /user"),
];

#[test]
fn every_kind_of_page_answers_with_its_content() {
    let site = Running::start();
    for (target, content) in PAGES {
        let page = site.visitor().get(target);
        assert_eq!(page.status, 200, "{target}");
        assert!(content.split('|').any(|one| page.text().contains(one)), "{target} without {content}");
        assert_eq!(page.field("Set-Cookie"), None, "{target}");
    }
    assert_eq!(site.counter("script_failures"), 0);
}

#[test]
fn every_link_of_the_main_pages_works() {
    let site = Running::start();
    site.switch("page_cache=off&opcode=on&aggressive=off&objects=on");
    let mut targets = BTreeSet::new();
    for page in ["/", "/shop", "/journal", "/shop/wheels"] {
        targets.extend(links(site.visitor().get(page).text()));
    }
    assert!(targets.len() > 100, "{}", targets.len());
    for target in targets {
        let page = site.visitor().get(&target);
        assert!(page.status == 200, "{target}: {}", page.status);
    }
}

#[test]
fn front_page_has_the_size_of_its_model() {
    let site = Running::start();
    let bytes = site.visitor().get("/").body.len();
    assert!((12_600..13_400).contains(&bytes), "{bytes}");
}

#[test]
fn product_page_has_price_features_and_comments() {
    let site = Running::start();
    let page = site.visitor().get("/search?q=bell");
    let product = links(page.text()).into_iter().find(|link| link.starts_with("/shop/bells/")).unwrap();
    let page = site.visitor().get(&product);
    for part in ["class=\"amount\"", "class=\"features\"", "id=\"comments\""] {
        assert!(page.text().contains(part), "{part}");
    }
}

#[test]
fn internal_path_redirects_to_the_public_one() {
    let site = Running::start();
    let answer = site.visitor().get("/node/1");
    assert_eq!(answer.status, 301);
    let location = answer.field("Location").unwrap().to_owned();
    assert!(location.starts_with("/shop/"), "{location}");
    assert_eq!(site.visitor().get(&location).status, 200);
}

#[test]
fn missing_pages_get_404_with_a_page() {
    let site = Running::start();
    for target in [
        "/nothing",
        "/node/99999",
        "/node/x",
        "/taxonomy/term/0",
        "/shop/bells?page=900",
        "/people/nobody",
        "/user/0",
    ] {
        let page = site.visitor().get(target);
        assert_eq!(page.status, 404, "{target}");
        assert!(page.text().contains("Page not found"), "{target}");
    }
    let found = site.visitor().get("/aurora-bells");
    assert!(found.text().contains("/shop/"), "no suggestions");
    assert_eq!(site.visitor().get("/admin").status, 403);
}

#[test]
fn hostile_input_breaks_no_page_and_is_escaped() {
    let site = Running::start();
    let long = "x".repeat(4000);
    let targets = [
        "/search?q=%3Cscript%3Ealert(1)%3C/script%3E".to_owned(),
        "/search?q='%22;DROP%20TABLE%20node;--".to_owned(),
        "/search?q=%ff%fe%00".to_owned(),
        "/search?q=%&page=-1".to_owned(),
        "/search?q=chain&page=99999999999999999999".to_owned(),
        format!("/search?q={long}"),
        format!("/{long}"),
        "/%00/../%2e%2e/etc/passwd".to_owned(),
        "/shop/bells?page=%27&page=;".to_owned(),
        "/?&&==&%3D".to_owned(),
        "//".to_owned(),
        "/${x}/`y`".to_owned(),
    ];
    for target in targets {
        let page = site.visitor().get(&target);
        assert!(matches!(page.status, 200 | 404), "{target}: {}", page.status);
        assert!(!page.text().contains("<script>alert"), "{target}");
    }
    assert_eq!(site.counter("script_failures"), 0);
    assert_eq!(site.visitor().get("/shop").status, 200);
}

#[test]
fn conditional_requests_get_304() {
    let site = Running::start();
    for target in ["/", "/shop/bells", "/topics/repairs"] {
        let page = site.visitor().get(target);
        let (etag, modified) = (page.field("ETag").unwrap(), page.field("Last-Modified").unwrap());
        let known = |field: String| site.visitor().send("GET", target, &[&field], "");
        let answer = known(format!("If-None-Match: {etag}"));
        assert_eq!((answer.status, answer.body.len()), (304, 0), "{target}");
        assert_eq!(answer.field("ETag"), Some(etag));
        assert_eq!(answer.field("Cache-Control"), page.field("Cache-Control"));
        assert_eq!(answer.field("Content-Length"), None);
        assert_eq!(known("If-None-Match: \"other\"".into()).status, 200);
        assert_eq!(known(format!("If-None-Match: \"other\"\r\nIf-Modified-Since: {modified}")).status, 200);
        assert_eq!(known("If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT".into()).status, 200);
    }
}

#[test]
fn head_has_the_fields_of_get_and_no_body() {
    let site = Running::start();
    let page = site.visitor().get("/about-us");
    let mut client = Client::connect(site.address());
    client.send("HEAD /about-us HTTP/1.1\r\nHost: x\r\n\r\nGET /robots.txt HTTP/1.1\r\nHost: x\r\n\r\n");
    let head = client.read_head();
    assert_eq!((head.status, head.field("Content-Length")), (200, page.field("Content-Length")));
    assert!(client.read().text().starts_with("User-agent"));
}

#[test]
fn assets_exist_and_are_cacheable() {
    let site = Running::start();
    let page = site.visitor().get("/");
    let sources =
        page.text().split(" src=\"/").skip(1).map(|rest| format!("/{}", rest.split('"').next().unwrap()));
    let files: BTreeSet<String> =
        sources.chain(links(page.text())).filter(|link| link.starts_with("/assets/")).collect();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let answer = site.visitor().get(&file);
        assert_eq!(answer.status, 200, "{file}");
        assert_eq!(answer.field("Cache-Control"), Some("public, max-age=86400"));
        let etag = answer.field("ETag").unwrap();
        assert_eq!(site.visitor().send("GET", &file, &[&format!("If-None-Match: {etag}")], "").status, 304);
    }
    assert_eq!(site.visitor().get("/assets/../Cargo.toml").status, 404);
}
