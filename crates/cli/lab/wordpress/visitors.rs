//! Personal pages: an administrator and an anonymous visitor take turns, with every cache.

use crate::site::{WordPressLab, get, get_with, is_hit};

/// Markup that only logged-in users see.
const BAR: &str = "wpadminbar";

#[test]
fn users_and_anonymous_visitors_get_only_their_own_pages() {
    let site = WordPressLab::with("");
    let (post, _) = site.first("posts");
    for mode in ["off", "database", "files", "aggressive"] {
        let edge = site.edge(&format!("plugin=on&pages={mode}"));
        let editor = site.administrator();
        let commenter = "Cookie: comment_author_0123456789abcdef0123456789abcdef=Somebody";
        for round in 0..4 {
            for target in ["/", &post] {
                for address in [site.origin, edge.address] {
                    let own = get_with(address, target, &[&editor.cookie]);
                    assert!(own.text().contains(BAR), "{mode} {target} {round}: {}", own.head);
                    assert!(own.field("Cache-Control").unwrap().starts_with("private"), "{}", own.head);
                    assert!(own.field("X-Petasos-Pages").is_none() && !is_hit(&own), "{}", own.head);
                    let anybody = get(address, target);
                    assert!(!anybody.text().contains(BAR), "{mode} {target} {round}: {}", anybody.head);
                    // Cache-Control for other caches in front differs: through the edge it is
                    // `no-cache`, because purges reach only the edge.
                    let told = if address == edge.address { "no-cache" } else { "public" };
                    assert!(anybody.field("Cache-Control").unwrap().starts_with(told), "{}", anybody.head);
                    let remembered = get_with(address, target, &[commenter]);
                    assert!(
                        remembered.field("X-Petasos-Pages").is_none() && !is_hit(&remembered),
                        "{}",
                        remembered.head
                    );
                }
            }
        }
        assert!(is_hit(&get(edge.address, &post)), "{mode}");
    }
}
