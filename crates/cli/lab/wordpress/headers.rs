//! Response headers of every kind of page.

use crate::site::{HOST, WordPressLab, ask, get, get_with, is_hit};

/// The kinds of pages: target, a tag that the response must have (or its prefix, if it ends with
/// `-`), and status.
const PAGES: &[(&str, &str, u16)] = &[
    ("/", "front", 200),
    ("/page/2/", "type-post", 200),
    ("/bicycles-an-introduction/", "comments-", 200),
    ("/category/bicycles/", "list-term-", 200),
    ("/tag/tag-1/", "list-term-", 200),
    ("/author/ada-winter/", "list-author-", 200),
    ("/2025/", "list-date-2025", 200),
    ("/2025/11/", "list-date-2025-11", 200),
    ("/?s=river", "search", 200),
    ("/feed/", "feed", 200),
    ("/category/bicycles/feed/", "list-term-", 200),
    ("/comments/feed/", "type-comment", 200),
    ("/picture-1/", "comments-", 200),
    ("/nothing-here/", "404", 404),
    ("/wp-sitemap.xml", "type-post", 200),
    ("/wp-json/wp/v2/posts", "type-post", 200),
    ("/wp-json/wp/v2/categories", "tax-category", 200),
];

#[test]
fn every_page_has_a_lifetime_and_its_surrogate_keys() {
    let site = WordPressLab::with("plugin=on");
    let (post, number) = site.first("posts");
    let post_tag = format!("post-{number}");
    let pages = PAGES.iter().copied().chain([(post.as_str(), post_tag.as_str(), 200)]);
    for (target, tag, status) in pages {
        let answer = get(site.origin, target);
        assert_eq!(answer.status, status, "{target}");
        let field = |name: &str| {
            answer.field(name).unwrap_or_else(|| panic!("{target} has no {name}: {}", answer.head))
        };
        let control = field("Cache-Control");
        assert!(control.starts_with("public, max-age=0, s-maxage="), "{target}: {control}");
        assert!(field("Last-Modified").ends_with(" GMT"), "{target}");
        let tags: Vec<_> = field("Surrogate-Key").split(' ').collect();
        assert!(tags.contains(&"site"), "{target}: {tags:?}");
        let has = |tag: &str| {
            tags.iter().any(|found| *found == tag || (tag.ends_with('-') && found.starts_with(tag)))
        };
        assert!(has(tag), "{target} has no {tag}: {tags:?}");
        for name in ["Set-Cookie", "Expires", "Pragma"] {
            assert_eq!(answer.field(name), None, "{target}: {name}");
        }
    }
}

#[test]
fn unchanged_page_is_revalidated_with_304() {
    let site = WordPressLab::with("plugin=on");
    let tag = get(site.origin, "/").field("ETag").unwrap().to_owned();
    let answer = get_with(site.origin, "/", &[&format!("If-None-Match: {tag}")]);
    assert_eq!((answer.status, answer.field("ETag")), (304, Some(tag.as_str())));
    assert!(answer.field("Surrogate-Key").is_some() && answer.body.is_empty());
    assert_eq!(get_with(site.origin, "/", &["If-None-Match: \"other\""]).status, 200);
    let mut client = testkit::Client::connect(site.origin);
    client.send(format!("HEAD / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    let head = client.read_head();
    for name in ["ETag", "Surrogate-Key", "Cache-Control"] {
        assert_eq!(head.field(name), get(site.origin, "/").field(name), "{}", head.head);
    }
}

#[test]
fn personal_responses_are_private() {
    let site = WordPressLab::with("plugin=on");
    let editor = site.administrator();
    let (post, _) = site.first("posts");
    for (target, fields) in [
        ("/", &[editor.cookie.as_str()][..]),
        ("/", &["Cookie: comment_author_0a=Ada"]),
        ("/", &["Cookie: wp-postpass_0a=x"]),
        ("/", &["Cookie: woocommerce_items_in_cart=1"]),
        ("/", &["Cookie: language=de"]),
        ("/", &["Authorization: Basic YTpi"]),
        ("/?preview=true", &[editor.cookie.as_str()]),
        (&format!("{post}?unapproved=1&moderation-hash=x"), &[]),
        ("/wp-json/wp/v2/posts", &["X-WP-Nonce: 0"]),
        ("/wp-json/wp/v2/users", &[]),
        ("/wp-json/", &[]),
        ("/wp-login.php", &[]),
        ("/wp-admin/admin-ajax.php?action=none", &[]),
    ] {
        let answer = get_with(site.origin, target, fields);
        let control = answer.field("Cache-Control").unwrap_or_default();
        assert!(control.starts_with("private, no-store"), "{target} {fields:?}: {control}");
    }
    for cookie in ["Cookie: _ga=1", "Cookie: wordpress_test_cookie=1", "Cookie: wp-settings-time-1=5"] {
        let control =
            get_with(site.origin, "/", &[cookie]).field("Cache-Control").unwrap_or_default().to_owned();
        assert!(control.starts_with("public"), "{cookie}: {control}");
    }
    let post = ask(site.origin, "POST", "/", &[], "");
    assert!(post.field("Cache-Control").unwrap().starts_with("private"), "{}", post.head);
}

#[test]
fn responses_that_other_plugins_mark_uncacheable_are_private() {
    let site = WordPressLab::with("plugin=on");
    for kind in ["cart", "used-session", "cookie", "uncached", "constant", "flush"] {
        let answer = get(site.origin, &format!("/?lab={kind}"));
        assert_eq!(answer.status, 200);
        assert_eq!(answer.field("Cache-Control"), Some("private, no-store"), "{kind}: {}", answer.head);
        assert!(answer.text().trim_end().ends_with("</html>"), "{kind}");
    }
    for kind in ["used-session", "cookie"] {
        assert!(get(site.origin, &format!("/?lab={kind}")).field("Set-Cookie").is_some(), "{kind}");
    }
    // An empty session is not started.
    let answer = get(site.origin, "/?lab=session");
    assert_eq!(answer.field("Set-Cookie"), None, "{}", answer.head);
    assert!(answer.field("Cache-Control").unwrap().starts_with("public, max-age=0"), "{}", answer.head);
    assert_eq!(get(site.origin, "/?lab=own").field("Cache-Control"), Some("public, max-age=7"));
}

#[test]
fn other_plugins_may_tag_and_purge() {
    let site = WordPressLab::with("");
    let edge = site.edge("plugin=on");
    for target in ["/?lab=tags", "/"] {
        get(edge.address, target);
        assert!(is_hit(&get(edge.address, target)), "{target}");
    }
    assert!(get(site.origin, "/?lab=tags").field("Surrogate-Key").unwrap().contains(" mine yours "));
    get(site.origin, "/?lab=purge");
    assert!(!is_hit(&get(edge.address, "/?lab=tags")));
    assert!(is_hit(&get(edge.address, "/")));
}

#[test]
fn page_with_a_password_is_private_and_never_leaks() {
    let site = WordPressLab::with("");
    let edge = site.edge("plugin=on&pages=files");
    let editor = site.administrator();
    let made = editor.change(
        "posts",
        &serde_json::json!({
            "title": "Behind a door", "content": "what only some may read", "status": "publish", "password": "sesame",
        }),
    );
    let target = crate::site::path(made["link"].as_str().unwrap());
    let closed = |who: &str| {
        for address in [site.origin, edge.address] {
            let answer = get(address, &target);
            assert!(!answer.text().contains("what only some may read"), "{who}");
            assert!(answer.field("Cache-Control").unwrap().starts_with("private"), "{}", answer.head);
        }
    };
    closed("before");
    let form = ["Content-Type: application/x-www-form-urlencoded"];
    let opened = ask(site.origin, "POST", "/wp-login.php?action=postpass", &form, "post_password=sesame");
    let cookie = format!("Cookie: {}", crate::site::cookies(&opened).join("; "));
    for address in [site.origin, edge.address] {
        let answer = get_with(address, &target, &[&cookie]);
        assert!(answer.text().contains("what only some may read"), "{}", answer.head);
        assert!(answer.field("Cache-Control").unwrap().starts_with("private"), "{}", answer.head);
    }
    closed("afterwards");
    editor.call("DELETE", &format!("posts/{}?force=true", made["id"]), &serde_json::json!({}));
}
