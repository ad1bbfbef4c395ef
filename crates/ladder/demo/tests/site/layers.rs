//! Tests of the layers: each has its effect, and none changes a page or serves it too long.

use crate::browser::{LAYERS, Running, normalised};

const PAGES: [&str; 6] =
    ["/", "/shop/bells", "/journal?page=1", "/topics/repairs", "/search?q=chain", "/about-us"];

/// Value of `X-Demo-Layers` in the second response, for each entry of [`LAYERS`].
const PROOFS: [&str; 5] = [
    "page_cache=off opcode=off aggressive=off objects=off",
    "page_cache=hit opcode=off aggressive=off objects=off",
    "page_cache=hit opcode=on aggressive=off objects=off",
    "page_cache=hit opcode=on aggressive=on objects=off",
    "page_cache=hit opcode=on aggressive=on objects=on",
];

#[test]
fn page_is_the_same_in_every_layer() {
    let site = Running::start();
    for target in PAGES {
        let mut pages = Vec::new();
        for layer in LAYERS {
            site.switch(layer);
            for round in ["made", "kept"] {
                let page = site.visitor().get(target);
                assert_eq!(page.status, 200, "{target} {layer} {round}");
                let fields =
                    ["ETag", "Cache-Control", "Vary", "Last-Modified", "Surrogate-Key", "Content-Type"];
                let fields = fields.map(|name| page.field(name).map(str::to_owned));
                pages.push((normalised(&page), fields));
            }
        }
        for page in &pages {
            assert_eq!(*page, pages[0], "{target}");
        }
    }
}

#[test]
fn layers_field_and_counters_show_effective_layers() {
    let site = Running::start();
    for (layer, proof) in LAYERS.into_iter().zip(PROOFS) {
        site.switch(layer);
        site.visitor().get("/about-us");
        let before = ["compiles", "page_cache_hits", "queries"].map(|name| site.counter(name));
        let page = site.visitor().get("/about-us");
        let after = ["compiles", "page_cache_hits", "queries"].map(|name| site.counter(name));
        assert_eq!(page.field("X-Demo-Layers"), Some(proof));
        assert_eq!(after[0] > before[0], proof.contains("opcode=off"), "compiles, {proof}");
        assert_eq!(after[1] - before[1], i64::from(proof.contains("hit")), "hits, {proof}");
        assert_eq!(after[2] == before[2], proof.contains("objects=on"), "queries, {proof}");
    }
}

#[test]
fn first_response_after_a_flush_reports_misses() {
    let site = Running::start();
    site.switch(LAYERS[4]);
    let first = site.visitor().get("/about-us");
    assert_eq!(first.field("X-Demo-Layers"), Some("page_cache=miss opcode=fill aggressive=late objects=on"));
    assert_eq!(site.visitor().send("POST", "/_flush", &[], "").status, 200);
    assert!(
        site.visitor()
            .get("/about-us")
            .field("X-Demo-Layers")
            .unwrap()
            .starts_with("page_cache=miss opcode=fill")
    );
}

#[test]
fn cached_page_equals_the_page_that_was_made() {
    let site = Running::start();
    for layer in &LAYERS[1..] {
        site.switch(layer);
        assert_eq!(site.visitor().get("/").body, site.visitor().get("/").body, "{layer}");
    }
}

#[test]
fn timing_note_has_constant_length() {
    let site = Running::start();
    let pages: Vec<usize> = (0..5).map(|_| site.visitor().get("/about-us").body.len()).collect();
    assert!(pages.iter().all(|bytes| *bytes == pages[0]), "{pages:?}");
    assert!(site.visitor().get("/about-us").text().ends_with(" queries -->\n"));
}

#[test]
fn new_comment_is_visible_to_all_at_once_in_every_layer() {
    let site = Running::start();
    let target = site.visitor().get("/node/3").field("Location").unwrap().to_owned();
    for (index, layer) in LAYERS.into_iter().enumerate() {
        site.switch(layer);
        let front = site.visitor().get("/");
        site.visitor().get(&target);
        let text = format!("Remark <b>number</b> {index}");
        let mut writer = site.visitor();
        let seen = writer.submit(&target, "comment", &[("name", "Zoe"), ("comment", &text), ("rating", "4")]);
        assert_eq!(seen.status, 200);
        let shown = format!("Remark &lt;b&gt;number&lt;/b&gt; {index}");
        assert!(
            seen.text().contains(&shown) && seen.text().contains("Thank you, your comment is there."),
            "{layer}"
        );
        let other = site.visitor().get(&target);
        assert!(other.text().contains(&shown), "{layer}: another visitor sees the page as it was");
        assert!(!other.text().contains("Thank you"), "{layer}: a message for one reached another");
        // The front page lists recent comments, so it must change too.
        let after = site.visitor().get("/");
        assert!(after.text().contains(">Zoe<"), "{layer}");
        assert_ne!(after.field("ETag"), front.field("ETag"), "{layer}");
    }
}

#[test]
fn visitors_with_a_session_neither_store_nor_get_shared_pages() {
    let site = Running::start();
    for layer in &LAYERS[1..] {
        site.switch(layer);
        let mut member = site.visitor();
        member.log_in("alice", "bell-and-lamp");
        site.visitor().send("POST", "/_flush", &[], "");
        let stores = site.counter("page_cache_stores");
        for target in PAGES {
            let own = member.get(target);
            assert!(own.text().contains(">alice</a>"), "{layer} {target}");
            assert!(own.field("X-Demo-Layers").unwrap().starts_with("page_cache=pass"), "{layer} {target}");
            assert_eq!(own.field("Cache-Control"), Some("private, no-store"));
            assert_eq!((own.field("Surrogate-Control"), own.field("Surrogate-Key")), (None, None));
        }
        assert_eq!(site.counter("page_cache_stores"), stores, "{layer}");
        for target in PAGES {
            let shared = site.visitor().get(target);
            assert!(!shared.text().contains("alice"), "{layer} {target}");
            assert!(!member.get(target).field("X-Demo-Layers").unwrap().contains("hit"), "{layer} {target}");
        }
    }
}

#[test]
fn shared_pages_are_public_and_set_no_cookie() {
    let site = Running::start();
    for layer in LAYERS {
        site.switch(layer);
        for _ in 0..2 {
            let page = site.visitor().get("/");
            assert_eq!(page.field("Cache-Control"), Some("public, max-age=60, s-maxage=600"));
            assert_eq!(page.field("Surrogate-Control"), Some("max-age=600"));
            assert_eq!(page.field("Vary"), Some("Cookie"));
            assert_eq!(page.field("Set-Cookie"), None);
            assert!(page.field("Surrogate-Key").unwrap().split(' ').any(|key| key == "front"));
        }
    }
}

#[test]
fn pages_with_different_queries_are_cached_separately() {
    let site = Running::start();
    for layer in &LAYERS[1..] {
        site.switch(layer);
        let first = normalised(&site.visitor().get("/journal"));
        let second = normalised(&site.visitor().get("/journal?page=1"));
        assert_ne!(first, second, "{layer}");
        assert_eq!(normalised(&site.visitor().get("/journal?page=1")), second, "{layer}");
    }
}
