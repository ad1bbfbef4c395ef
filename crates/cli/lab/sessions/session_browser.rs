//! Three windows at one address that share nothing: an editor's, a visitor's and a stranger's.
//!
//! Invariant: every step waits for its effect in the page or at WordPress. No step waits for a
//! fixed time.

use crate::chromium::{BrowserWindow, Chromium};
use crate::site::{HOST, get, is_hit};
use serde_json::Value;
use std::net::SocketAddr;
use testkit::eventually;

/// Markup that only pages of logged-in users have.
const BAR: &str = "id=\"wpadminbar\"";

/// The browser with its windows.
pub(crate) struct SessionBrowser {
    pub(crate) browser: Chromium,
    pub(crate) editor: BrowserWindow,
    pub(crate) visitor: BrowserWindow,
    pub(crate) stranger: BrowserWindow,
}

impl SessionBrowser {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let mut browser = Chromium::start(HOST, address);
        let [editor, visitor, stranger] = [(); 3].map(|()| browser.window());
        Self { browser, editor, visitor, stranger }
    }

    /// Waits until the edge has detected WordPress. Only then does it store a front page without
    /// Cache-Control.
    pub(crate) fn detected(edge: SocketAddr) {
        eventually("the front page is a hit", || is_hit(&get(edge, "/")));
    }

    /// Logs in with WordPress' form.
    pub(crate) fn log_in(&mut self, user: &str, password: &str) {
        self.open("/wp-login.php");
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

    /// Logs out by the link in the admin bar. Afterwards the editor must not see pages of users.
    pub(crate) fn sign_out(&mut self) {
        self.editor_sees("/", BAR);
        self.browser.follow(&self.editor, "document.querySelector('#wp-admin-bar-logout a').click()");
        let place = self.browser.evaluate(&self.editor, "location.search");
        assert!(place.as_str().unwrap().contains("loggedout=true"), "{place}");
        self.editor_sees("/wp-admin/", "id=\"loginform\"");
        self.open("/");
        let page = self.browser.markup(&self.editor);
        assert!(!page.contains(BAR), "the admin bar is shown after signing out: {page}");
    }

    /// The editor opens a page.
    pub(crate) fn open(&mut self, target: &str) {
        self.browser.open(&self.editor, &url(target));
    }

    /// The editor opens a page, which must contain this text.
    pub(crate) fn editor_sees(&mut self, target: &str, text: &str) {
        let page = self.page(&self.editor.clone(), target);
        assert!(page.contains(text), "the editor, {target}: no \"{text}\"");
    }

    /// The visitor and the stranger open a page, which must contain this text for both.
    pub(crate) fn public_sees(&mut self, target: &str, text: &str) {
        for window in [self.visitor.clone(), self.stranger.clone()] {
            let page = self.page(&window, target);
            assert!(page.contains(text), "anonymous, {target}: no \"{text}\"");
            assert!(!page.contains(BAR), "anonymous, {target}: an admin bar");
        }
    }

    /// The visitor and the stranger open a page, which must contain this text for neither.
    pub(crate) fn public_misses(&mut self, target: &str, text: &str) {
        for window in [self.visitor.clone(), self.stranger.clone()] {
            let page = self.page(&window, target);
            assert!(!page.contains(text), "anonymous, {target}: shows \"{text}\"");
        }
    }

    /// Opens a page in a window and returns its markup.
    pub(crate) fn page(&mut self, window: &BrowserWindow, target: &str) -> String {
        self.browser.open(window, &url(target));
        self.browser.markup(window)
    }

    /// Calls the REST API as scripts of the editor's page do: DELETE and PUT are sent as POST with
    /// `X-HTTP-Method-Override`. Returns the response's content.
    pub(crate) fn call(&mut self, options: &Value) -> Value {
        self.browser.until(&self.editor, "the page has wp.apiFetch", "!!window.wp?.apiFetch");
        let call =
            format!("wp.apiFetch({options}).catch(error => ({{refused: error.code, why: error.message}}))");
        let answer = self.browser.evaluate(&self.editor, &call);
        assert_eq!(answer.get("refused"), None, "{options}: {answer}");
        answer
    }
}

/// The URL of a page.
pub(crate) fn url(target: &str) -> String {
    format!("http://{HOST}{target}")
}

/// Words with the process id, which makes them unique to this process but equal in both sessions.
pub(crate) fn own(words: &str) -> String {
    format!("{words} {}", std::process::id())
}
