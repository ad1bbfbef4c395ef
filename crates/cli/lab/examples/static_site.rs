//! `examples/static`: a directory of files, without a web server behind Petasos.

use crate::stand::{Setup, Stand};
use std::process::Command;

const PICTURE: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 8 8\"/>";

fn page(title: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><title>{title}</title><link rel=\"icon\" href=\"/assets/logo.1f3a.svg\">\
         <link rel=\"stylesheet\" href=\"/assets/style.9c2e.css\"><h1>{title}</h1></html>"
    )
}

#[test]
fn static_example_serves_a_directory() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    for directory in ["assets", "news", ".git"] {
        std::fs::create_dir(root.join(directory)).unwrap();
    }
    for (file, text) in [
        ("index.html", &*page("Front")),
        ("news/first.html", &page("First")),
        ("feed.xml", "<rss/>"),
        ("news/first.html.bak", "old"),
        (".git/config", "[core]"),
        ("assets/style.9c2e.css", &"body { margin: 2rem; }\n".repeat(100)),
        ("assets/logo.1f3a.svg", PICTURE),
    ] {
        std::fs::write(root.join(file), text).unwrap();
    }
    let style = root.join("assets/style.9c2e.css");
    assert!(Command::new("gzip").arg("--keep").arg(style).status().unwrap().success());
    let files = format!("\"{}\"", root.display());
    let mut stand = Stand::start(&Setup {
        name: "static",
        host: "www.static.test",
        plain: None,
        admin: None,
        has_disk: false,
        replacements: &[("\"/var/www/site\"", &files), ("\"/var/www/staging\"", &files)],
    });
    stand.has_the_common_parts();
    for (target, title) in [("/", "Front"), ("/news/first.html", "First"), ("/news/first", "First")] {
        let visitor = stand.visitor();
        let seen = stand.open(&visitor, target);
        assert!(seen.markup.contains(title), "{target}: {}", seen.markup);
        assert!(seen.received.iter().any(|one| one.url.ends_with("/assets/style.9c2e.css")), "{target}");
    }
    stand.explains("/", "static-file");
    let answer = stand.get("/news/first.html");
    assert_eq!(answer.field("Content-Security-Policy"), Some("default-src 'self'"), "{}", answer.head);
    assert_eq!(answer.field("Cache-Control"), Some("no-cache"), "{}", answer.head);
    let known = format!("If-None-Match: {}", answer.field("ETag").unwrap());
    assert_eq!(stand.ask(&stand.host, "GET", "/news/first.html", &[&known]).status, 304);
    let file = stand.get("/assets/logo.1f3a.svg");
    assert_eq!(file.field("Cache-Control"), Some("public, max-age=31536000, immutable"), "{}", file.head);
    assert_eq!(file.field("Content-Security-Policy"), None, "{}", file.head);
    for (target, status) in [("/.git/config", 404), ("/news/first.html.bak", 404), ("/feed.rss", 308)] {
        let answer = stand.get(target);
        assert_eq!(answer.status, status, "{target}: {}", answer.head);
    }
    assert_eq!(stand.get("/feed.xml").text(), "<rss/>");
    let coded = stand.ask(&stand.host, "GET", "/assets/style.9c2e.css", &["Accept-Encoding: gzip, br"]);
    assert_eq!(coded.field("Content-Encoding"), Some("gzip"), "{}", coded.head);

    // As rsync does it.
    std::fs::write(root.join("news/.first"), page("Changed")).unwrap();
    std::fs::rename(root.join("news/.first"), root.join("news/first.html")).unwrap();
    stand.strangers_see("/news/first.html", "Changed");
}
