//! An editor and an anonymous visitor, each in a separate browser window, through the edge. The
//! editor logs in, writes, publishes and corrects a post. The visitor sees content once it is
//! public, and nothing else.

use crate::chromium::{BrowserWindow, Chromium};
use crate::site::{HOST, WordPressLab};
use serde_json::json;
use std::net::SocketAddr;
use testkit::Edge;

/// Selector of the title in the block editor.
const TITLE: &str = ".wp-block-post-title";
/// Markup that only logged-in users have on a page.
const BAR: &str = "id=\"wpadminbar\"";
/// The block editor is loaded and its welcome guide is closed.
const READY: &str = "(() => {
    document.querySelector('.components-guide .components-modal__header button')?.click();
    return !!document.querySelector('.wp-block-post-title') && !document.querySelector('.components-guide');
})()";

/// Two windows in front of one edge.
struct EditorWindows {
    browser: Chromium,
    editor: BrowserWindow,
    anybody: BrowserWindow,
    /// Texts that an anonymous visitor must not see at present.
    secrets: Vec<String>,
}

impl EditorWindows {
    fn new(edge: SocketAddr) -> Self {
        let mut browser = Chromium::start(HOST, edge);
        let editor = browser.window();
        let anybody = browser.window();
        Self { browser, editor, anybody, secrets: vec![BAR.to_owned()] }
    }

    fn log_in(&mut self, user: &str, password: &str) {
        self.browser.open(&self.editor, &url("/wp-login.php"));
        // WordPress moves the focus to this field 0.2 s after the page has loaded. Text typed
        // elsewhere before this moment would be split.
        let is_focused = "document.activeElement?.id === 'user_login'";
        self.browser.until(&self.editor, "WordPress sets the focus", is_focused);
        self.browser.type_into(&self.editor, "#user_login", user);
        self.browser.type_into(&self.editor, "#user_pass", password);
        self.browser.follow(&self.editor, "document.querySelector('#wp-submit').click()");
        let place = self.browser.evaluate(&self.editor, "location.pathname");
        assert_eq!(place, "/wp-admin/", "{}", self.browser.markup(&self.editor));
    }

    /// The editor opens a page and must see this text, logged in.
    fn editor_sees(&mut self, target: &str, text: &str) {
        self.browser.open(&self.editor, &url(target));
        let page = self.browser.markup(&self.editor);
        assert!(page.contains(text) && page.contains(BAR), "the editor, {target}: no \"{text}\" in {page}");
    }

    /// The anonymous visitor opens a page, must see this text, and must see none of the secrets.
    fn anybody_sees(&mut self, target: &str, text: &str) {
        self.browser.open(&self.anybody, &url(target));
        let page = self.browser.markup(&self.anybody);
        assert!(page.contains(text), "an anonymous visitor, {target}: no \"{text}\" in {page}");
        for secret in &self.secrets {
            assert!(!page.contains(secret), "an anonymous visitor, {target}: \"{secret}\" in {page}");
        }
        assert_eq!(self.browser.cookies(&self.anybody), Vec::<String>::new(), "{target}");
    }

    /// Checks that the page in the anonymous window is a hit by now.
    fn is_shared(&mut self) {
        let ask =
            "fetch(location.href, {cache: 'no-store'}).then(answer => answer.headers.get('cache-status'))";
        let status = self.browser.evaluate(&self.anybody, ask);
        assert!(status.as_str().is_some_and(|status| status.starts_with("Petasos; hit")), "{status}");
    }

    fn begin(&mut self, target: &str) {
        self.browser.open(&self.editor, &url(target));
        self.browser.until(&self.editor, "the editor is ready", READY);
    }

    /// Writes a post and saves it as a draft. Returns its number.
    fn draft(&mut self, title: &str, words: &str) -> u64 {
        self.begin("/wp-admin/post-new.php");
        self.browser.type_into(&self.editor, TITLE, title);
        self.browser.focus(&self.editor, ".block-editor-default-block-appender__content");
        self.browser.type_into(&self.editor, "p.wp-block-paragraph", words);
        self.browser.press(&self.editor, ".editor-post-save-draft");
        self.browser.until(
            &self.editor,
            "it is kept",
            "!!document.querySelector('.editor-post-saved-state.is-saved')",
        );
        let number = self.browser.evaluate(&self.editor, "wp.data.select('core/editor').getCurrentPostId()");
        number.as_u64().unwrap()
    }

    /// Publishes the post in the editor. Returns its path.
    fn publish(&mut self) -> String {
        self.browser.press(&self.editor, ".editor-post-publish-panel__toggle");
        self.browser.press(&self.editor, ".editor-post-publish-panel .editor-post-publish-button");
        let link = "document.querySelector('.post-publish-panel__postpublish-header a')";
        self.browser.until(&self.editor, "it is published", &format!("!!{link}"));
        let link = self.browser.evaluate(&self.editor, &format!("{link}.pathname"));
        link.as_str().unwrap().to_owned()
    }
}

fn url(target: &str) -> String {
    format!("http://{HOST}{target}")
}

#[test]
fn editor_sees_edits_and_anonymous_visitor_only_public_pages() {
    let site = WordPressLab::with("");
    let administrator = site.administrator();
    let name = format!("writer{}", std::process::id());
    let password = "only-for-this";
    let email = format!("{name}@guarded.test");
    let user = json!({"username": name, "email": email, "password": password, "roles": ["editor"]});
    let user = administrator.change("users", &user)["id"].clone();
    for layers in ["", "plugin=on"] {
        let edge = site.edge(layers);
        let post = write(&edge, &name, password, &email);
        administrator.call("DELETE", &format!("posts/{post}?force=true"), &json!({}));
    }
    administrator.call("DELETE", &format!("users/{user}?force=true&reassign=1"), &json!({}));
}

/// Takes a post from draft to correction. Returns its number.
fn write(edge: &Edge, name: &str, password: &str, email: &str) -> u64 {
    let mut windows = EditorWindows::new(edge.address);
    windows.secrets.push(email.to_owned());
    windows.anybody_sees("/", "</html>");
    windows.is_shared();
    windows.log_in(name, password);
    windows.editor_sees("/", name);
    windows.secrets.push(name.to_owned());
    windows.anybody_sees("/", "</html>");

    let [title, words, correction] =
        ["A harbour", "Words about ships", "A better harbour"].map(|text| format!("{text} {}", edge.pid()));
    let number = windows.draft(&title, &words);
    let preview = format!("/?p={number}&preview=true");
    let plain = format!("/?p={number}");
    windows.secrets.extend([title.clone(), words.clone()]);
    windows.editor_sees(&preview, &words);
    for target in ["/", &preview, &plain] {
        windows.anybody_sees(target, "</html>");
    }

    windows.begin(&format!("/wp-admin/post.php?post={number}&action=edit"));
    let place = windows.publish();
    // From now on, the author's name is public too.
    windows.secrets.retain(|secret| *secret == email || *secret == BAR);
    windows.editor_sees(&place, &words);
    windows.anybody_sees("/", &title);
    windows.anybody_sees(&place, &words);
    windows.is_shared();

    windows.begin(&format!("/wp-admin/post.php?post={number}&action=edit"));
    windows.browser.type_into(&windows.editor, TITLE, &correction);
    windows.secrets.push(correction.clone());
    windows.anybody_sees(&place, &title);
    windows.browser.press(&windows.editor, ".editor-post-publish-button");
    windows.browser.until(
        &windows.editor,
        "it is updated",
        "!!document.querySelector('.components-snackbar')",
    );
    windows.secrets.retain(|secret| *secret != correction);
    windows.editor_sees(&place, &correction);
    windows.anybody_sees(&place, &correction);
    windows.anybody_sees("/", &correction);
    windows.is_shared();
    number
}
