//! The pages that a change purges at once for every visitor, and those that stay in the edge's
//! store.

use crate::cast::SHARED;
use crate::personal_parts::PersonalParts;
use crate::site::{Editor, WordPressLab, ask, get, get_with, is_hit, path};
use serde_json::{Value, json};
use std::time::Duration;
use testkit::{Edge, eventually};

/// A page without posts. Only a change that affects all pages affects it.
const PAGE: &str = "/bicycles-an-introduction/";

/// A site with an edge in front, and a logged-in editor.
struct EditedSite {
    site: WordPressLab,
    edge: Edge,
    editor: Editor,
}

impl EditedSite {
    fn new(layers: &str) -> Self {
        let site = WordPressLab::with("");
        let edge = site.edge(layers);
        let editor = site.administrator();
        Self { site, edge, editor }
    }

    /// Fills the store, makes the change and requests all pages again. Pages of `changed` must be
    /// new and contain the text; pages of `kept` must be hits.
    fn check(&self, what: &str, changed: &[(&str, &str)], kept: &[&str], change: impl FnOnce(&Editor)) {
        for target in changed.iter().map(|(target, _)| target).chain(kept) {
            get(self.edge.address, target);
            let again = get(self.edge.address, target);
            assert!(is_hit(&again), "before {what}, {target}: {}", again.head);
        }
        change(&self.editor);
        for (target, text) in changed {
            let answer = get(self.edge.address, target);
            assert!(!is_hit(&answer), "{what}: {target} came from the store");
            assert!(answer.text().contains(text), "{what}: {target} does not say \"{text}\"");
        }
        for target in kept {
            let answer = get(self.edge.address, target);
            assert!(is_hit(&answer), "{what}: {target} was purged for nothing: {}", answer.head);
        }
    }
}

#[test]
fn post_changes_purge_exactly_their_pages() {
    let edited = EditedSite::new("plugin=on");
    let (newest, number) = edited.site.first("posts");
    let (oldest, old_number) = edited.site.first("posts?order=asc");
    let route = format!("posts/{number}");
    let old_route = format!("posts/{old_number}");
    edited.check(
        "an excerpt",
        &[(&newest, "A harbour in words"), ("/", "A harbour in words"), ("/feed/", "A harbour in words")],
        &[PAGE, &oldest, "/2024/01/", "/nothing-here/"],
        |editor| {
            editor.change(&route, &json!({"excerpt": "A harbour in words", "content": "A harbour in words"}));
        },
    );
    edited.check(
        "the title of an old post",
        &[(&oldest, "An older harbour"), ("/2024/01/page/2/", "An older harbour")],
        &["/", PAGE, &newest],
        |editor| {
            editor.change(&old_route, &json!({"title": "An older harbour"}));
        },
    );
    edited.check("a draft", &[], &["/", PAGE, &newest, "/feed/", "/category/bicycles/"], |editor| {
        let made = editor.change("posts", &json!({"title": "Not yet", "status": "draft"}));
        editor.change(&format!("posts/{}", made["id"]), &json!({"content": "Still not"}));
    });
    let category = edited.editor.call("GET", "categories?slug=bicycles", &json!({}))[0]["id"].clone();
    let mut made = Value::Null;
    let new = &mut made;
    let slug = format!("quite-new-{}", std::process::id());
    let missing = format!("/{slug}/");
    edited.check(
        "a new post",
        // All posts move by one place. The missing page was a 404; WordPress now redirects it to
        // the post.
        &[
            ("/", "Quite new"),
            ("/feed/", "Quite new"),
            ("/category/bicycles/", "Quite new"),
            ("/page/2/", "</html>"),
            (&missing, ""),
        ],
        &[PAGE, &oldest, "/category/cities/", "/2024/01/"],
        |editor| {
            *new = editor.change(
                "posts",
                &json!({"title": "Quite new", "status": "publish", "slug": slug, "categories": [category]}),
            );
        },
    );
    let target = path(made["link"].as_str().unwrap());
    edited.check(
        "the end of a post",
        &[("/", "A harbour in words"), ("/category/bicycles/page/2/", "</html>"), (&target, "404")],
        &[PAGE, &oldest],
        |editor| {
            editor.call("DELETE", &format!("posts/{}?force=true", made["id"]), &json!({}));
        },
    );
}

#[test]
fn comment_changes_purge_exactly_their_pages() {
    let edited = EditedSite::new("plugin=on");
    let (oldest, number) = edited.site.first("posts?order=asc");
    let kept = ["/", PAGE, "/feed/", "/category/bicycles/"];
    // WordPress holds a comment with this many links.
    let links = "http%3A%2F%2Fa.test%2F+".repeat(5);
    let form = format!(
        "comment_post_ID={number}&author=Ada&email=ada%40visitors.test&comment=Unheard+of+{}+{links}",
        std::process::id()
    );
    edited.check("a comment that waits", &[], &["/", PAGE, &oldest, "/comments/feed/"], |_| {
        let fields = ["Content-Type: application/x-www-form-urlencoded"];
        // WordPress allows an address one comment in fifteen seconds, and refuses earlier ones with
        // 429. Tests beside this one write comments, too.
        eventually("WordPress accepts another comment", || {
            let answer = ask(edited.site.origin, "POST", "/wp-comments-post.php", &fields, &form);
            if answer.status == 302 {
                assert!(answer.field("Location").unwrap().contains("moderation-hash"), "{}", answer.head);
            } else {
                assert_eq!(answer.status, 429, "{}", answer.head);
                std::thread::sleep(Duration::from_secs(1));
            }
            answer.status == 302
        });
    });
    // WordPress rejects a duplicate comment, so the text is unique.
    let said = format!("Well said {}", std::process::id());
    edited.check("a comment", &[(&oldest, &said), ("/comments/feed/", &said)], &kept, |editor| {
        editor.change("comments", &json!({"post": number, "content": said, "status": "approved"}));
    });
    let held = edited.editor.call("GET", "comments?status=hold", &json!({}));
    let route = format!("comments/{}", held[0]["id"]);
    edited.check("its approval", &[(&oldest, "Unheard of")], &kept, |editor| {
        editor.change(&route, &json!({"status": "approved"}));
    });
    edited.check("its end", &[(&oldest, &said)], &kept, |editor| {
        editor.call("DELETE", &format!("{route}?force=true"), &json!({}));
    });
    assert!(!get(edited.edge.address, &oldest).text().contains("Unheard of"));
}

#[test]
fn menu_and_widget_changes_purge_exactly_their_pages() {
    let edited = EditedSite::new("plugin=on");
    let (oldest, _) = edited.site.first("posts?order=asc");
    let navigation = edited.editor.call("GET", "navigation", &json!({}))[0].clone();
    let link = r#"<!-- wp:navigation-link {"label":"Way out","url":"/out/","kind":"custom"} /-->"#;
    let content = format!("{}{link}", navigation["content"]["raw"].as_str().unwrap_or_default());
    edited.check(
        "the navigation",
        &[("/", "Way out"), (PAGE, "Way out"), (&oldest, "Way out")],
        // Feeds show no menu.
        &["/feed/"],
        |editor| {
            editor.change(&format!("navigation/{}", navigation["id"]), &json!({"content": content}));
        },
    );
    // The theme shows neither classic menus nor widgets, but this page does.
    let parts = "/?lab=parts";
    let menus = edited.editor.call("GET", "menus", &json!({}));
    let menu = menus.as_array().unwrap().iter().find(|menu| menu["name"] == "Main menu").unwrap();
    let new = json!({"title": "By the menu", "url": "http://wordpress.test/", "menus": menu["id"], "status": "publish"});
    let mut made = Value::Null;
    let item = &mut made;
    edited.check("a classic menu", &[(parts, "By the menu")], &["/", PAGE, &oldest], |editor| {
        *item = editor.change("menu-items", &new);
    });
    edited.check("its end", &[(parts, "</html>")], &["/", PAGE], |editor| {
        editor.call("DELETE", &format!("menu-items/{}?force=true", made["id"]), &json!({}));
    });
    assert!(!get(edited.edge.address, parts).text().contains("By the menu"));
    let content = json!({"raw": {"content": "<p>In a widget</p>"}});
    let widget = json!({"id_base": "block", "sidebar": "lab", "instance": content});
    let made = edited.editor.change("widgets", &widget);
    edited.check("a widget", &[(parts, "In a widget")], &["/", PAGE, &oldest], |editor| {
        editor.change("sidebars/lab", &json!({"widgets": [made["id"]]}));
    });
}

#[test]
fn term_changes_purge_exactly_their_pages() {
    let edited = EditedSite::new("plugin=on");
    let category = edited.editor.call("GET", "categories?slug=bicycles", &json!({}))[0].clone();
    let (inside, _) = edited.site.first(&format!("posts?categories={}&order=asc", category["id"]));
    let (outside, _) = edited.site.first(&format!("posts?categories_exclude={}&order=asc", category["id"]));
    let route = format!("categories/{}", category["id"]);
    edited.check(
        "a term's name",
        &[(&inside, "Two wheels"), ("/category/bicycles/", "Two wheels")],
        &[PAGE, &outside],
        |editor| {
            editor.change(&route, &json!({"name": "Two wheels"}));
        },
    );
    edited.editor.change(&route, &json!({"name": "Bicycles"}));
}

#[test]
fn option_and_user_changes_purge_exactly_their_pages() {
    let edited = EditedSite::new("plugin=on");
    let (oldest, _) = edited.site.first("posts?order=asc");
    let all = [
        ("/", "Another lab"),
        (PAGE, "Another lab"),
        (oldest.as_str(), "Another lab"),
        ("/feed/", "Another lab"),
    ];
    edited.check("the site's title", &all, &[], |editor| {
        editor.change("settings", &json!({"title": "Another lab"}));
    });
    edited.editor.change("settings", &json!({"title": "Petasos lab"}));
    edited.check("an option that no page shows", &[], &["/", PAGE, &oldest, "/feed/"], |editor| {
        editor.change("settings", &json!({"default_comment_status": "closed"}));
    });
    edited.editor.change("settings", &json!({"default_comment_status": "open"}));
    let user = edited.editor.call("GET", "users?slug=ada-winter", &json!({}))[0]["id"].clone();
    edited.check(
        "a user's name",
        &[("/author/ada-winter/", "Ada Summer")],
        &["/", PAGE, "/author/bruno-falk/"],
        |editor| {
            editor.change(&format!("users/{user}"), &json!({"name": "Ada Summer"}));
        },
    );
    edited.editor.change(&format!("users/{user}"), &json!({"name": "Ada Winter"}));
    edited.check("the theme's styles", &[("/", "</html>"), (PAGE, "</html>")], &[], |editor| {
        let parts = editor.call("GET", "template-parts", &json!({}));
        let part = parts.as_array().unwrap().iter().find(|part| part["slug"] == "footer").unwrap();
        let id = part["id"].as_str().unwrap();
        let content = part["content"]["raw"].as_str().unwrap();
        let made =
            editor.change(&format!("template-parts/{id}"), &json!({"content": format!("{content}<!-- -->")}));
        editor.call(
            "DELETE",
            &format!("template-parts/{}?force=true", made["id"].as_str().unwrap()),
            &json!({}),
        );
    });
}

/// Sitemaps. They show the time of these changes but not their content.
const SITEMAPS: &[&str] = &["/wp-sitemap.xml", "/wp-sitemap-users-1.xml"];

/// A request to WordPress' REST API, and the pages that it may purge although they do not change.
struct RestChange {
    what: &'static str,
    target: String,
    said: Value,
    spare: &'static [&'static str],
}

/// One change of each kind. A term purges every list that contains its posts.
fn changes(edited: &EditedSite) -> [RestChange; 6] {
    let number_of = |collection: &str| edited.editor.call("GET", collection, &json!({}))[0]["id"].to_string();
    let change = |what, target: String, said, spare| RestChange { what, target, said, spare };
    let newest = edited.site.first("posts").1;
    let oldest = edited.site.first("posts?order=asc").1;
    let comment = format!("Heard by everybody {}", std::process::id());
    let lists = &["/", "/page/2/", "/author/ada-winter/", "/2025/", "/2025/11/", "/?lab=parts"];
    let [item, category, user] =
        [("menu-items", ""), ("categories", "?slug=bicycles"), ("users", "?slug=ada-winter")]
            .map(|(kind, query)| format!("{kind}/{}", number_of(&format!("{kind}{query}"))));
    [
        change("a post", format!("posts/{newest}"), json!({"title": "Everybody's title"}), SITEMAPS),
        change(
            "a comment",
            "comments".into(),
            json!({"post": oldest, "content": comment, "status": "approved"}),
            &[],
        ),
        change("a menu", item, json!({"title": "Everybody's door"}), &[]),
        change("a term", category, json!({"name": "Everybody's wheels"}), lists),
        change("an option", "settings".into(), json!({"title": "Everybody's lab"}), SITEMAPS),
        change("a user", user, json!({"name": "Everybody's Ada"}), SITEMAPS),
    ]
}

/// After each change, every kind of page must equal WordPress' own, also for visitors with cookies
/// without meaning. Pages that did not change must still be stored, except those that the change
/// may purge.
#[test]
fn change_updates_its_pages_for_all_and_keeps_the_others() {
    let edited = EditedSite::new("plugin=on");
    let EditedSite { site, edge, editor } = &edited;
    let newest = site.first("posts").0;
    let oldest = site.first("posts?order=asc").0;
    let targets: Vec<&str> =
        SHARED.iter().map(|(_, target)| *target).chain([newest.as_str(), &oldest, "/?lab=parts"]).collect();
    let changes = changes(&edited);
    let own =
        || targets.iter().map(|target| PersonalParts::of(&get(site.origin, target))).collect::<Vec<_>>();
    let mut before = own();
    let mut vain = Vec::new();
    for RestChange { what, target, said, spare } in &changes {
        for target in &targets {
            get(edge.address, target);
            let again = get(edge.address, target);
            assert!(is_hit(&again), "before {what}, {target}: {}", again.head);
        }
        editor.change(target, said);
        let now = own();
        assert!(before != now, "{what} changed nothing");
        for ((target, before), now) in targets.iter().zip(&before).zip(&now) {
            let next = get(edge.address, target);
            let measured = get_with(edge.address, target, &["Cookie: _ga=GA1.2.3"]);
            for answer in [&next, &measured] {
                let got = PersonalParts::of(answer);
                assert!(got.is_as(now), "{what}: {target}: {}\n{}", answer.head, got.difference(now));
            }
            if !is_hit(&next) && before == now && !spare.contains(target) {
                vain.push(format!("{what}: {target}"));
            }
        }
        before = now;
    }
    editor.change("settings", &json!({"title": "Petasos lab"}));
    editor.change(&changes[3].target, &json!({"name": "Bicycles"}));
    editor.change(&changes[5].target, &json!({"name": "Ada Winter"}));
    assert_eq!(vain, Vec::<String>::new(), "purged for nothing");
}

#[test]
fn purges_work_through_the_admin_address() {
    let edited = EditedSite::new("plugin=on");
    edited.site.layers(&format!("plugin=on&admin={}", edited.edge.admin));
    let (newest, number) = edited.site.first("posts");
    edited.check("an excerpt", &[(&newest, "Told in JSON")], &[PAGE], |editor| {
        editor.change(&format!("posts/{number}"), &json!({"content": "Told in JSON"}));
    });
}

#[test]
fn changes_pass_through_page_cache_and_edge() {
    for mode in ["database", "files", "aggressive"] {
        let edited = EditedSite::new(&format!("plugin=on&pages={mode}"));
        let (oldest, number) = edited.site.first("posts?order=asc");
        let text = format!("Both caches, {mode}");
        edited.check("an excerpt", &[(&oldest, &text)], &["/", PAGE], |editor| {
            editor.change(&format!("posts/{number}"), &json!({"content": text}));
        });
    }
}
