//! A site without the plugin. A change made through the edge is visible to every visitor at once. A
//! request that changes nothing leaves all pages stored.

use crate::personal_parts::PersonalParts;
use crate::site::{Editor, WordPressLab, get, get_with, is_hit};
use crate::visitor::{FormFields, between};
use serde_json::{Value, json};
use testkit::{Edge, Response, eventually};

/// The pages that every test requests, in addition to some posts.
const PAGES: &[&str] = &[
    "/",
    "/page/2/",
    "/feed/",
    "/comments/feed/",
    "/bicycles-an-introduction/",
    "/category/bicycles/",
    "/author/ada-winter/",
    "/2024/01/",
];
/// Pages of single posts among them, in contrast to lists.
const SINGLE: &[&str] = &["/bicycles-an-introduction/"];
/// Pages that a visible comment changes in addition to its post.
const FRONTS: &[&str] = &["/", "/feed/", "/comments/feed/"];
/// The cookie of a visitor with a measurement cookie only.
const MEASURED: &str = "Cookie: _ga=GA1.2.3";

/// The effect of a request.
enum WriteEffects<'a> {
    /// Every page.
    Everything,
    /// This post and all lists at once; pages of other posts are refreshed in the background.
    ListsAnd(&'a str),
    /// The front page, the feeds and this post.
    FrontsAnd(&'a str),
    /// No page.
    Nothing,
}

/// The site without the plugin, with an edge in front.
struct SiteWithoutPlugin {
    site: WordPressLab,
    edge: Edge,
    /// Logged in through the edge.
    editor: Editor,
    newest: (String, u64),
    oldest: (String, u64),
}

impl SiteWithoutPlugin {
    fn new() -> Self {
        let site = WordPressLab::with("");
        let edge = site.edge("");
        let editor = Editor::log_in(edge.address, "admin", site.password());
        let newest = site.first("posts");
        let oldest = site.first("posts?order=asc");
        Self { site, edge, editor, newest, oldest }
    }

    /// Fills the store, sends the request and requests all pages again. A page that the request
    /// changes must be fetched once and equal WordPress' own. Other pages must be hits and also be
    /// right. The targets of `texts` must contain their texts.
    fn check(
        &self,
        what: &str,
        changes: &WriteEffects<'_>,
        texts: &[(&str, &str)],
        request: impl FnOnce(&Self),
    ) {
        let mut pages: Vec<&str> = [PAGES, &[&self.newest.0, &self.oldest.0]].concat();
        pages.extend(texts.iter().map(|(target, _)| *target));
        pages.sort_unstable();
        pages.dedup();
        for target in &pages {
            get(self.edge.address, target);
            let again = get(self.edge.address, target);
            assert!(is_hit(&again), "before {what}, {target}: {}", again.head);
        }
        request(self);
        for target in &pages {
            let must_change = match changes {
                WriteEffects::Everything => true,
                WriteEffects::ListsAnd(post) => target == post || !self.is_single(target),
                WriteEffects::FrontsAnd(post) => target == post || FRONTS.contains(target),
                WriteEffects::Nothing => false,
            };
            let next = get(self.edge.address, target);
            assert_eq!(is_hit(&next), !must_change, "{what}: {target}: {}", next.head);
            if matches!(changes, WriteEffects::ListsAnd(_)) && !must_change {
                continue;
            }
            let own = PersonalParts::of(&get(self.site.origin, target));
            for answer in
                [next, get_with(self.edge.address, target, &[MEASURED]), get(self.edge.address, target)]
            {
                let got = PersonalParts::of(&answer);
                let is_right = got.is_as(&own) || self.is_confirmed(target, &answer);
                assert!(is_right, "{what}: {target}: {}\n{}", answer.head, got.difference(&own));
            }
            assert!(is_hit(&get(self.edge.address, target)), "{what}: {target} is not stored again");
        }
        for (target, text) in texts {
            let answer = get(self.edge.address, target);
            assert!(answer.text().contains(text), "{what}: {target} does not say \"{text}\"");
        }
    }

    /// Whether this is the page of a single post.
    fn is_single(&self, target: &str) -> bool {
        SINGLE.contains(&target) || [&self.newest.0, &self.oldest.0].into_iter().any(|post| post == target)
    }

    /// Waits until the pages of single posts equal WordPress' own. Each is served stale until its
    /// refresh is complete.
    fn require_single_pages_to_follow(&self) {
        for target in SINGLE.iter().copied().chain([self.newest.0.as_str(), &self.oldest.0]) {
            eventually(&format!("{target} is as WordPress has it"), || {
                let own = PersonalParts::of(&get(self.site.origin, target));
                PersonalParts::of(&get(self.edge.address, target)).is_as(&own)
            });
        }
    }

    /// Whether WordPress confirms this response with 304. Its feeds use the time of the last post
    /// or comment as validator, so they are confirmed although a name in them has changed.
    fn is_confirmed(&self, target: &str, answer: &Response) -> bool {
        let of = |name| answer.field(name).unwrap_or("none");
        let [tag, time] =
            [format!("If-None-Match: {}", of("ETag")), format!("If-Modified-Since: {}", of("Last-Modified"))];
        get_with(self.site.origin, target, &[&tag, &time]).status == 304
    }

    /// Fills in a form of wp-admin, sends it and returns the status of the response.
    fn fill(&self, page: &str, sign: &str, action: &str, values: &[(&str, &str)]) -> u16 {
        let page = self.editor.see(page);
        let form = FormFields::of(page.text(), sign);
        let form = values.iter().fold(form, |form, (name, value)| form.with(name, value));
        let answer = self.editor.submit(action, &form.encode());
        assert!(matches!(answer.status, 200 | 302), "{action}: {}\n{}", answer.head, answer.text());
        answer.status
    }

    /// Follows the first link of a page of wp-admin that contains `sign`.
    fn follow(&self, page: &str, sign: &str) {
        let page = self.editor.see(page);
        let links = page.text().split("href=").filter_map(|rest| {
            let quote = rest.chars().next()?;
            rest.get(1..)?.split(quote).next()
        });
        let link = links
            .map(|link| link.replace("&#038;", "&").replace("&amp;", "&"))
            .find(|link| link.contains(sign));
        let link = link.unwrap_or_else(|| panic!("no link with {sign} in {}", page.text()));
        let link = link.rsplit_once("/wp-admin/").map_or(link.as_str(), |(_, rest)| rest);
        let answer = self.editor.see(&format!("/wp-admin/{link}"));
        assert_eq!(answer.status, 302, "{link}: {}", answer.head);
    }

    /// A new user with the right to comment only, logged in through the edge.
    fn subscriber(&self, name: &str) -> Editor {
        let login = format!("{name}{}", std::process::id());
        let email = format!("{login}@wordpress.test");
        let user =
            json!({"username": login, "email": email, "password": "only-for-this", "roles": ["subscriber"]});
        self.editor.change("users", &user);
        Editor::log_in(self.edge.address, &login, "only-for-this")
    }

    /// Adds a comment to a post as this user and returns the redirect's target. WordPress makes
    /// each user wait between two comments.
    fn comment(&self, user: &Editor, post: &str, text: &str) -> String {
        let page = user.see(post);
        let form = FormFields::of(page.text(), "comment_post_ID").with("comment", text);
        let answer = user.submit("/wp-comments-post.php", &form.encode());
        assert_eq!(answer.status, 302, "{}\n{}", answer.head, answer.text());
        answer.field("Location").unwrap().to_owned()
    }
}

#[test]
fn edited_post_is_visible_at_once_from_every_editor() {
    let bare = SiteWithoutPlugin::new();
    let post = &bare.newest.0;
    let number = bare.newest.1;
    let texts = |text| [(post.as_str(), text), ("/", text), ("/feed/", text)];
    bare.check("the block editor", &WriteEffects::ListsAnd(post), &texts("Said in JSON"), |bare| {
        bare.editor.change(&format!("posts/{number}"), &json!({"title": "Said in JSON"}));
    });
    let page = format!("/wp-admin/post.php?post={number}&action=edit");
    bare.check("a form", &WriteEffects::ListsAnd(post), &texts("Said in a form"), |bare| {
        let values =
            [("post_title", "Said in a form"), ("post_status", "publish"), ("comment_status", "open")];
        assert_eq!(bare.fill(&page, "metabox-base-form", "/wp-admin/post.php", &values), 302);
    });
    bare.check("the list's quick form", &WriteEffects::ListsAnd(post), &texts("Said quickly"), |bare| {
        let list = bare.editor.see("/wp-admin/edit.php");
        let nonce = between(list.text(), "name=\"_inline_edit\" value=\"", "\"").unwrap().to_owned();
        let number = number.to_string();
        let form = FormFields::new()
            .with("action", "inline-save")
            .with("post_type", "post")
            .with("post_ID", &number);
        let form =
            form.with("_inline_edit", &nonce).with("post_title", "Said quickly").with("_status", "publish");
        let form = form.with("screen", "edit-post").with("post_view", "list").with("comment_status", "open");
        assert_eq!(bare.editor.submit("/wp-admin/admin-ajax.php", &form.encode()).status, 200);
    });
    let slug = format!("short-lived-{}", std::process::id());
    let mut made = Value::Null;
    let new = &mut made;
    let new_page = format!("/{slug}/");
    bare.check("a new post", &WriteEffects::ListsAnd(&new_page), &[("/", "Short-lived")], |bare| {
        *new =
            bare.editor.change("posts", &json!({"title": "Short-lived", "status": "publish", "slug": slug}));
    });
    bare.check("its way into the bin", &WriteEffects::ListsAnd(&new_page), &[], |bare| {
        bare.follow("/wp-admin/edit.php", &format!("post.php?post={}&action=trash", made["id"]));
    });
    assert!(!get(bare.edge.address, "/").text().contains("Short-lived"));
    bare.require_single_pages_to_follow();
    bare.editor.call("DELETE", &format!("posts/{}?force=true", made["id"]), &json!({}));
}

#[test]
fn comment_is_visible_at_once_and_other_pages_are_kept() {
    let bare = SiteWithoutPlugin::new();
    let (post, _) = &bare.oldest;
    let [shown, held] = ["Seen by all", "Seen by none"].map(|text| format!("{text} {}", std::process::id()));
    let speaker = bare.subscriber("speaker");
    let other = bare.subscriber("advertiser");
    let texts = [(post.as_str(), shown.as_str()), ("/comments/feed/", &shown)];
    bare.check("a comment", &WriteEffects::FrontsAnd(post), &texts, |bare| {
        bare.comment(&speaker, post, &shown);
    });
    let mut place = String::new();
    let to = &mut place;
    bare.check("a comment that waits", &WriteEffects::Nothing, &[], |bare| {
        *to = bare.comment(&other, post, &format!("{held} {}", "http://a.test/ ".repeat(5)));
    });
    assert!(!get(bare.edge.address, post).text().contains(&held));
    let number = between(&place, "unapproved=", "&").unwrap();
    let texts = [(post.as_str(), held.as_str()), ("/comments/feed/", &held)];
    bare.check("its approval", &WriteEffects::Everything, &texts, |bare| {
        let sign = format!("comment.php?c={number}&action=approvecomment");
        bare.follow("/wp-admin/edit-comments.php?comment_status=moderated", &sign);
    });
    bare.editor.call("DELETE", &format!("comments/{number}?force=true"), &json!({}));
}

#[test]
fn changes_of_menus_terms_options_and_users_are_visible() {
    let bare = SiteWithoutPlugin::new();
    let page = "/bicycles-an-introduction/";
    let navigation = bare.editor.call("GET", "navigation?context=edit", &json!({}))[0].clone();
    let (route, raw) =
        (format!("navigation/{}", navigation["id"]), navigation["content"]["raw"].as_str().unwrap());
    let link = r#"<!-- wp:navigation-link {"label":"Side door","url":"/side/","kind":"custom"} /-->"#;
    bare.check(
        "the navigation",
        &WriteEffects::Everything,
        &[("/", "Side door"), (page, "Side door")],
        |bare| {
            bare.editor.change(&route, &json!({"content": format!("{raw}{link}")}));
        },
    );
    bare.editor.change(&route, &json!({"content": raw}));

    let menus = bare.editor.call("GET", "menus", &json!({}));
    let menu =
        menus.as_array().unwrap().iter().find(|menu| menu["name"] == "Main menu").unwrap()["id"].clone();
    let item = bare.editor.call("GET", &format!("menu-items?menus={menu}"), &json!({}))[0]["id"].clone();
    let screen = format!("/wp-admin/nav-menus.php?action=edit&menu={menu}");
    let label = format!("menu-item-title[{item}]");
    // The theme shows no classic menu, but this page does.
    bare.check("a classic menu", &WriteEffects::Everything, &[("/?lab=parts", "Front door")], |bare| {
        let values = [(label.as_str(), "Front door")];
        assert_eq!(bare.fill(&screen, "id=\"update-nav-menu\"", &screen, &values), 200);
    });

    let category = bare.editor.call("GET", "categories?slug=bicycles", &json!({}))[0]["id"].to_string();
    let term = format!("/wp-admin/term.php?taxonomy=category&tag_ID={category}");
    let rename = |bare: &SiteWithoutPlugin, name| {
        assert_eq!(bare.fill(&term, "editedtag", "/wp-admin/edit-tags.php", &[("name", name)]), 302);
    };
    bare.check(
        "a term's name",
        &WriteEffects::Everything,
        &[("/category/bicycles/", "Three wheels")],
        |bare| {
            rename(bare, "Three wheels");
        },
    );
    rename(&bare, "Bicycles");

    let title = |bare: &SiteWithoutPlugin, title| {
        let chosen = [("default_role", "subscriber"), ("start_of_week", "1"), ("timezone_string", "UTC+0")];
        let values = [&[("blogname", title)][..], &chosen].concat();
        let status =
            bare.fill("/wp-admin/options-general.php", "option_page", "/wp-admin/options.php", &values);
        assert_eq!(status, 302);
    };
    bare.check(
        "the site's title",
        &WriteEffects::Everything,
        &[("/", "A lab by a form"), (page, "A lab by a form")],
        |bare| {
            title(bare, "A lab by a form");
        },
    );
    title(&bare, "Petasos lab");

    let user = bare.editor.call("GET", "users?slug=ada-winter", &json!({}))[0]["id"].to_string();
    let profile = format!("/wp-admin/user-edit.php?user_id={user}");
    let call = |bare: &SiteWithoutPlugin, name| {
        let values = [("nickname", name), ("display_name", name)];
        assert_eq!(bare.fill(&profile, "your-profile", "/wp-admin/user-edit.php", &values), 302);
    };
    bare.check(
        "a user's name",
        &WriteEffects::Everything,
        &[("/author/ada-winter/", "Ada Autumn")],
        |bare| {
            call(bare, "Ada Autumn");
        },
    );
    call(&bare, "Ada Winter");
}

#[test]
fn failed_or_irrelevant_writes_leave_all_pages_stored() {
    let bare = SiteWithoutPlugin::new();
    let number = bare.newest.1;
    let user = bare.subscriber("bystander");
    let draft = bare.editor.change("posts", &json!({"title": "Kept back", "status": "draft"}));
    bare.check("a draft that is kept while it is written", &WriteEffects::Nothing, &[], |bare| {
        bare.editor.change(&format!("posts/{}/autosaves", draft["id"]), &json!({"content": "Word by word"}));
    });
    bare.editor.call("DELETE", &format!("posts/{}?force=true", draft["id"]), &json!({}));
    bare.check("what a user may not do", &WriteEffects::Nothing, &[], |bare| {
        let form = format!("action=editpost&post_ID={number}&post_title=Mine&_wpnonce=0000000000");
        assert_eq!(user.submit("/wp-admin/post.php", &form).status, 403);
        assert_eq!(bare.editor.submit("/wp-admin/post.php", &form).status, 403, "without a nonce");
        assert_eq!(user.submit(&format!("/wp-json/wp/v2/posts/{number}"), "title=Mine").status, 401);
        assert_eq!(
            user.submit("/wp-admin/options.php", "option_page=general&action=update&blogname=Mine").status,
            403
        );
        let link = format!("/wp-admin/post.php?post={number}&action=trash&_wpnonce=0000000000");
        assert_eq!(user.see(&link).status, 403);
    });
    bare.check("a login", &WriteEffects::Nothing, &[], |bare| {
        Editor::log_in(bare.edge.address, "admin", bare.site.password());
    });
}
