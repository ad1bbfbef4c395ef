//! `examples/static` in front of nginx with a directory.

use crate::stand::{Setup, Stand};
use testkit::petasos;
use testkit::web_server::Nginx;

/// nginx' settings for the directory, beside the root.
const NGINX: &str = "types { text/html html; text/css css; image/svg+xml svg; application/xml xml; }\n";
const PICTURE: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 8 8\"/>";

fn page(title: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><title>{title}</title><link rel=\"icon\" href=\"/assets/logo.1f3a.svg\">\
         <link rel=\"stylesheet\" href=\"/assets/style.9c2e.css\"><h1>{title}</h1></html>"
    )
}

#[test]
fn static_example_serves_a_directory() {
    let nginx = Nginx::start(NGINX);
    let root = nginx.root();
    for directory in ["assets", "news", ".git"] {
        std::fs::create_dir(root.join(directory)).unwrap();
    }
    for (file, text) in [
        ("index.html", &*page("Front")),
        ("news/first.html", &page("First")),
        ("feed.xml", "<rss/>"),
        ("news/first.html.bak", "old"),
        (".git/config", "[core]"),
        ("assets/style.9c2e.css", "body { margin: 2rem; }"),
        ("assets/logo.1f3a.svg", PICTURE),
    ] {
        std::fs::write(root.join(file), text).unwrap();
    }
    let origin = format!("http://127.0.0.1:{}", nginx.http1_port);
    let mut stand = Stand::start(&Setup {
        name: "static",
        host: "www.static.test",
        plain: None,
        admin: None,
        has_disk: false,
        replacements: &[("http://127.0.0.1:8000", &origin), ("http://127.0.0.1:8001", &origin)],
    });
    stand.has_the_common_parts();
    for target in ["/", "/news/first.html"] {
        stand.is_shared(target, &["/assets/"]);
    }
    stand.explains("/");
    let answer = stand.get("/news/first.html");
    assert_eq!(answer.field("Content-Security-Policy"), Some("default-src 'self'"), "{}", answer.head);
    assert_eq!(answer.field("Cache-Control"), Some("no-cache"), "{}", answer.head);
    let file = stand.get("/assets/logo.1f3a.svg");
    assert_eq!(file.field("Cache-Control"), Some("public, max-age=31536000, immutable"), "{}", file.head);
    assert_eq!(file.field("Content-Security-Policy"), None, "{}", file.head);
    for (target, status) in [("/.git/config", 404), ("/news/first.html.bak", 404), ("/feed.rss", 308)] {
        let answer = stand.get(target);
        assert_eq!(answer.status, status, "{target}: {}", answer.head);
        assert!(answer.field("Cache-Status").unwrap().starts_with("Petasos"), "{}", answer.head);
    }
    assert_eq!(stand.get("/feed.xml").text(), "<rss/>");

    std::fs::write(root.join("news/first.html"), page("Changed")).unwrap();
    let old = stand.get("/news/first.html");
    assert!(old.text().contains("First"), "without a purge a page is fresh for a day: {}", old.text());
    let admin = stand.edge.admin.to_string();
    let purged = petasos(["purge", "--host", &stand.host, "--admin", &admin]);
    assert_eq!(purged.code, Some(0), "{}", purged.stderr);
    stand.strangers_see("/news/first.html", "Changed");
    stand.is_shared("/news/first.html", &["/assets/"]);
}
