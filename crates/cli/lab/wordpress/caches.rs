//! The caches inside WordPress: every mode of the page cache stores and invalidates pages, and
//! every object cache server is used.

use crate::site::{WordPressLab, ask, get, get_with};
use serde_json::json;
use testkit::Response;

/// State of the page cache in a response; empty if the page cache was not consulted.
fn pages(answer: &Response) -> &str {
    answer.field("X-Petasos-Pages").unwrap_or_default()
}

#[test]
fn every_page_cache_mode_stores_and_invalidates_pages() {
    let site = WordPressLab::with("");
    let (oldest, number) = site.first("posts?order=asc");
    for mode in ["database", "files", "aggressive"] {
        site.empty();
        site.layers(&format!("plugin=on&pages={mode}"));
        let hit = format!("{mode}; hit");
        let miss = format!("{mode}; miss");
        let made = get(site.origin, &oldest);
        let kept = get(site.origin, &oldest);
        assert_eq!((pages(&made), pages(&kept)), (miss.as_str(), hit.as_str()));
        assert_eq!(made.body, kept.body, "{mode}");
        for name in ["Cache-Control", "Surrogate-Key", "ETag", "Last-Modified", "Content-Type", "Link"] {
            assert_eq!(made.field(name), kept.field(name), "{mode}");
        }
        assert!(kept.field("Age").is_some(), "{mode}");
        let tag = format!("If-None-Match: {}", kept.field("ETag").unwrap());
        assert_eq!(get_with(site.origin, &oldest, &[&tag]).status, 304, "{mode}");
        // A campaign parameter does not change the page; an unknown parameter does.
        assert_eq!(pages(&get(site.origin, &format!("{oldest}?utm_source=letter"))), hit, "{mode}");
        assert_eq!(pages(&get(site.origin, &format!("{oldest}?who=knows"))), "", "{mode}");
        assert_eq!(pages(&get_with(site.origin, &oldest, &["Cookie: _ga=1"])), hit, "{mode}");
        assert_eq!(pages(&get_with(site.origin, &oldest, &["Cookie: a=1"])), "", "{mode}");
        assert_eq!(pages(&ask(site.origin, "POST", &oldest, &[], "a=b")), "", "{mode}");
        assert_eq!(pages(&get(site.origin, "/?s=river")), "", "{mode}: a search");
        for _ in 0..2 {
            assert_eq!(pages(&get(site.origin, "/nothing-here/")), miss, "{mode}: what is not there");
        }
        get(site.origin, "/");
        assert_eq!(pages(&get(site.origin, "/")), hit, "{mode}");
        let text = format!("In mode {mode}");
        site.administrator().change(&format!("posts/{number}"), &json!({"content": text}));
        let anew = get(site.origin, &oldest);
        assert_eq!(pages(&anew), miss, "{mode}");
        assert!(anew.text().contains(&text), "{mode}");
        assert_eq!(pages(&get(site.origin, "/")), hit, "{mode}: what did not change");
        assert_eq!(pages(&get(site.origin, &oldest)), hit, "{mode}");
    }
}

#[test]
fn no_page_is_stored_without_the_plugin() {
    let site = WordPressLab::with("");
    for mode in ["database", "files", "aggressive"] {
        site.empty();
        site.layers(&format!("plugin=off&pages={mode}"));
        for _ in 0..2 {
            assert_eq!(pages(&get(site.origin, "/")), format!("{mode}; miss"));
        }
    }
}

/// A number in the field X-Petasos-Objects.
fn figure(answer: &Response, name: &str) -> u64 {
    let field = answer.field("X-Petasos-Objects").unwrap_or_else(|| panic!("{}", answer.head));
    let word = field.split("; ").find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    word.unwrap_or_else(|| panic!("{field}")).parse().unwrap()
}

#[test]
fn every_object_cache_server_is_used() {
    let site = WordPressLab::with("");
    let (newest, number) = site.first("posts");
    for kind in ["apcu", "redis", "memcached", "database"] {
        site.layers(&format!("plugin=on&objects={kind}"));
        let first = get(site.origin, &newest);
        let second = get(site.origin, &newest);
        assert!(
            first.field("X-Petasos-Objects").unwrap().starts_with(&format!("{kind}; ")),
            "{}",
            first.head
        );
        let found = figure(&second, "found");
        assert!(found >= 10, "{kind}: {found} values found");
        if kind != "database" {
            let many = figure(&first, "queries");
            let few = figure(&second, "queries");
            assert!(few * 2 <= many, "{kind}: {few} queries with objects, {many} without");
        }
        assert_eq!(first.body, second.body, "{kind}");
        let text = format!("Kept in {kind}");
        site.administrator().change(&format!("posts/{number}"), &json!({"content": text}));
        assert!(get(site.origin, &newest).text().contains(&text), "{kind}");
    }
}

#[test]
fn missing_object_server_is_reported_once_and_pages_work() {
    let site = WordPressLab::with("plugin=on&objects=gone");
    let answer = get(site.origin, "/");
    assert_eq!(answer.status, 200);
    assert!(
        answer.field("X-Petasos-Objects").unwrap().starts_with("redis gone; found=0;"),
        "{}",
        answer.head
    );
    let screen = site.administrator().see("/wp-admin/index.php");
    assert_eq!(screen.text().matches("petasos-objects").count(), 1);
    site.layers("plugin=on&objects=redis");
    assert!(!site.administrator().see("/wp-admin/index.php").text().contains("petasos-objects"));
}

#[test]
fn pages_can_be_stored_in_the_object_cache() {
    let site = WordPressLab::with("");
    let (oldest, number) = site.first("posts?order=asc");
    for kind in ["apcu", "redis", "memcached"] {
        site.layers(&format!("plugin=on&pages=aggressive&objects={kind}"));
        let states = ["miss", "hit"].map(|state| format!("aggressive {kind}; {state}"));
        let answers = [get(site.origin, &oldest), get(site.origin, &oldest)];
        assert_eq!(answers.each_ref().map(pages), states);
        let text = format!("A page in {kind}");
        site.administrator().change(&format!("posts/{number}"), &json!({"content": text}));
        let answers = [get(site.origin, &oldest), get(site.origin, &oldest)];
        assert_eq!(answers.each_ref().map(pages), states);
        assert!(answers.iter().all(|answer| answer.text().contains(&text)), "{kind}");
    }
    let kept = std::fs::read_dir(site.files.join("wordpress/wp-content/cache/petasos"));
    let count = kept.map_or(0, |found| {
        found.flatten().filter(|entry| entry.path().is_dir()).map(|entry| files(&entry.path())).sum()
    });
    assert_eq!(count, 0, "pages in files");
}

fn files(directory: &std::path::Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}
