//! The visitors of the leak tests, the texts that identify each of them, and every kind of page
//! that they request.
//!
//! Invariant: everything made here is removed by [`Cast::leave`]. If a test panics, the next `up`
//! removes it.

use crate::site::{Editor, WordPressLab, ask, cookies, path};
use serde_json::{Value, json};

/// The kinds of pages that all visitors share, other than posts.
pub(crate) const SHARED: &[(&str, &str)] = &[
    ("the front page", "/"),
    ("its next", "/page/2/"),
    ("a page", "/bicycles-an-introduction/"),
    ("a category", "/category/bicycles/"),
    ("its next", "/category/bicycles/page/2/"),
    ("a tag", "/tag/tag-1/"),
    ("an author", "/author/ada-winter/"),
    ("a year", "/2025/"),
    ("a month", "/2025/11/"),
    ("a search", "/?s=river"),
    ("an attachment", "/picture-1/"),
    ("a feed", "/feed/"),
    ("a feed of comments", "/comments/feed/"),
    ("a sitemap", "/wp-sitemap.xml"),
    ("a sitemap of users", "/wp-sitemap-users-1.xml"),
    ("a picture", "/wp-content/uploads/picture-1.jpg"),
];

/// A visitor who requests pages.
pub(crate) struct CastVisitor {
    /// Name of the visitor in the tests.
    pub(crate) name: &'static str,
    /// Header line with the visitor's cookies, if there are any.
    pub(crate) cookie: Option<String>,
    /// Whether the cookies are without meaning, so that the visitor shares the anonymous pages.
    pub(crate) is_anybody: bool,
}

/// A text that only some visitors may read.
pub(crate) struct SecretText {
    /// The text.
    pub(crate) text: String,
    /// The visitor whose pages must contain it at least once.
    pub(crate) owner: &'static str,
    /// Other visitors whose pages may contain it.
    pub(crate) others: &'static [&'static str],
}

/// A kind of page.
pub(crate) struct PageKind {
    /// Name of the kind in messages.
    pub(crate) name: &'static str,
    /// Target of a page of this kind.
    pub(crate) target: String,
    /// Whether anonymous visitors come to share it, both with and without the plugin.
    pub(crate) is_shared: bool,
}

/// All visitors, with the texts and pages that they may see.
pub(crate) struct Cast {
    /// The visitors; [`Cast::visitor`] finds one by name.
    pub(crate) visitors: Vec<CastVisitor>,
    /// The texts that tell them apart.
    pub(crate) marks: Vec<SecretText>,
    /// Every kind of page.
    pub(crate) kinds: Vec<PageKind>,
    administrator: Editor,
    /// Routes of the created items, for their removal.
    made: Vec<String>,
}

impl Cast {
    /// Creates users, a held comment, a draft, a private post and a post with a password, and
    /// collects all visitors.
    pub(crate) fn gather(site: &WordPressLab) -> Self {
        let mut cast = Self {
            visitors: Vec::new(),
            marks: Vec::new(),
            kinds: Vec::new(),
            administrator: site.administrator(),
            made: Vec::new(),
        };
        let (post, number) = site.first("posts");
        cast.anybody();
        let erna = cast.user(site, "editor", "Erna Guarded");
        cast.user(site, "subscriber", "Silas Guarded");
        let door = cast.posts(erna);
        cast.knower(site);
        cast.commenter(number);
        cast.list(site, &post, &door);
        cast
    }

    /// The visitor with this name.
    pub(crate) fn visitor(&self, name: &str) -> &CastVisitor {
        let found = self.visitors.iter().find(|visitor| visitor.name == name);
        found.unwrap_or_else(|| panic!("nobody is called {name}"))
    }

    /// Removes all created content.
    pub(crate) fn leave(self) {
        for route in self.made.iter().rev() {
            self.administrator.call("DELETE", &format!("{route}force=true&reassign=1"), &json!({}));
        }
    }

    fn anybody(&mut self) {
        let measured = "Cookie: _ga=GA1.2.3; wordpress_test_cookie=1".to_owned();
        self.visitors.push(CastVisitor { name: "anonymous", cookie: None, is_anybody: true });
        self.visitors.push(CastVisitor { name: "measured", cookie: Some(measured), is_anybody: true });
    }

    /// Creates an item and returns it.
    fn make(&mut self, collection: &str, item: &Value) -> Value {
        let made = self.administrator.change(collection, item);
        self.made.push(format!("{collection}/{}?", made["id"]));
        made
    }

    /// Adds a user with this role, logged in. Returns the user's number.
    fn user(&mut self, site: &WordPressLab, role: &'static str, name: &str) -> Value {
        let login = format!("{role}{}", std::process::id());
        let email = format!("{login}@guarded.test");
        let password = "only-for-this";
        let user =
            json!({"username": login, "email": email, "password": password, "name": name, "roles": [role]});
        let number = self.make("users", &user)["id"].clone();
        let user = Editor::log_in(site.origin, &login, password);
        let nonce = user.see("/wp-admin/admin-ajax.php?action=rest-nonce").text().to_owned();
        for text in [name.to_owned(), email, nonce] {
            self.marks.push(SecretText { text, owner: role, others: &[] });
        }
        let bar = "id=\"wpadminbar\"".to_owned();
        self.marks.push(SecretText { text: bar, owner: role, others: &["editor", "subscriber"] });
        self.visitors.push(CastVisitor { name: role, cookie: Some(user.cookie), is_anybody: false });
        number
    }

    /// Adds posts that not every visitor may read. Returns the target of the post with a password.
    fn posts(&mut self, author: Value) -> String {
        for (status, text) in [("draft", "what is not yet written"), ("private", "what stays in the office")]
        {
            let text = format!("{text} {}", std::process::id());
            let made = json!({"title": status, "content": text, "status": status, "author": author});
            let made = self.make("posts", &made);
            self.marks.push(SecretText { text, owner: "editor", others: &[] });
            let number = &made["id"];
            let targets = match status {
                "draft" => vec![
                    ("a draft", format!("/?p={number}&preview=true")),
                    ("a draft, not as such", format!("/?p={number}")),
                ],
                _ => vec![
                    ("a private post", path(made["link"].as_str().unwrap())),
                    ("a private post in JSON", format!("/wp-json/wp/v2/posts/{number}")),
                ],
            };
            self.kinds.extend(targets.into_iter().map(|(name, target)| PageKind {
                name,
                target,
                is_shared: false,
            }));
        }
        let text = format!("what only some may read {}", std::process::id());
        let made =
            json!({"title": "Behind a door", "content": text, "status": "publish", "password": "sesame"});
        let made = self.make("posts", &made);
        self.marks.push(SecretText { text, owner: "knower", others: &[] });
        path(made["link"].as_str().unwrap())
    }

    /// Adds a visitor who knows the password.
    fn knower(&mut self, site: &WordPressLab) {
        let form = ["Content-Type: application/x-www-form-urlencoded"];
        let opened = ask(site.origin, "POST", "/wp-login.php?action=postpass", &form, "post_password=sesame");
        let cookie = format!("Cookie: {}", cookies(&opened).join("; "));
        self.visitors.push(CastVisitor { name: "knower", cookie: Some(cookie), is_anybody: false });
    }

    /// Adds a visitor whose name and email address WordPress fills into its forms, and whose held
    /// comment no other visitor may see.
    fn commenter(&mut self, post: u64) {
        let email = format!("cora{}@guarded.test", std::process::id());
        let name = "Cora Guarded";
        let said = format!("what waits for approval {}", std::process::id());
        let comment = json!({"post": post, "author_name": name, "author_email": email, "content": said, "status": "hold"});
        self.make("comments", &comment);
        let hash = self.visitor("knower").cookie.as_ref().unwrap();
        let hash = hash.split_once("wp-postpass_").unwrap().1.split('=').next().unwrap();
        let cookie = format!(
            "Cookie: comment_author_{hash}=Cora%20Guarded; comment_author_email_{hash}={}",
            email.replace('@', "%40")
        );
        self.marks.push(SecretText { text: name.to_owned(), owner: "commenter", others: &["editor"] });
        self.marks.push(SecretText { text: email, owner: "commenter", others: &["editor"] });
        self.marks.push(SecretText { text: said, owner: "commenter", others: &["editor"] });
        self.visitors.push(CastVisitor { name: "commenter", cookie: Some(cookie), is_anybody: false });
    }

    /// Adds every other kind of page.
    fn list(&mut self, site: &WordPressLab, post: &str, door: &str) {
        let (_, oldest) = site.first("posts?order=asc");
        let comments = format!("{post}feed/");
        let answer = format!("{post}?replytocom=1");
        let of_post =
            [("a post with its form for comments", post), ("a feed of a post's comments", &comments)];
        let moderated = format!("{post}?unapproved=1&moderation-hash=0a");
        let plain = format!("/?p={oldest}");
        let own = [
            ("what is not there", "/nothing-here/"),
            ("a redirect", "/category/bicycles"),
            ("a post by number", &plain),
            ("an answer's form", &answer),
            ("a comment that waits", &moderated),
            ("a post behind a password", door),
            ("the API", "/wp-json/"),
            ("posts in JSON", "/wp-json/wp/v2/posts?per_page=2"),
            ("posts in JSON by a parameter", "/?rest_route=/wp/v2/users/me"),
            ("the user in JSON", "/wp-json/wp/v2/users/me"),
            ("the login", "/wp-login.php"),
            ("the dashboard", "/wp-admin/"),
            ("the own profile", "/wp-admin/profile.php"),
            ("a nonce", "/wp-admin/admin-ajax.php?action=rest-nonce"),
        ];
        for (list, is_shared) in [(SHARED, true), (&of_post[..], true), (&own[..], false)] {
            self.kinds.extend(list.iter().map(|&(name, target)| PageKind {
                name,
                target: target.to_owned(),
                is_shared,
            }));
        }
    }
}
