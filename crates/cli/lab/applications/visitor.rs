//! Visitors of an application, each in a window with separate cookies.
//!
//! Invariant: all responses to a visitor are kept until all visits are over. Then they are searched
//! for the secrets of the other visitors.

use crate::application::Application;
use crate::chromium::{BrowserWindow, Chromium};
use crate::network::{NetworkResponse, view, watch};
use serde_json::json;
use std::collections::BTreeSet;

/// Smallest length of a secret in bytes. Shorter values may be equal by chance.
const SECRET_BYTES_MIN: usize = 16;
/// JavaScript expression for the tokens of the forms in a page.
const TOKENS: &str = "[...document.querySelectorAll('input[type=hidden]')]\
    .filter(field => /csrf|token/i.test(field.name)).map(field => field.value)";

/// A visitor.
pub(crate) struct ApplicationVisitor<'a> {
    application: &'a Application,
    host: &'a str,
    /// Name of the account, if there is one.
    user: Option<&'static str>,
    window: BrowserWindow,
    /// The session identifier that the pages have shown.
    session: Option<String>,
    /// Values that only this visitor may receive: session identifiers, form tokens, a mark with the
    /// user's name.
    secrets: BTreeSet<String>,
    received: Vec<NetworkResponse>,
    /// Number of responses received before the page views began.
    viewed_from: usize,
}

impl<'a> ApplicationVisitor<'a> {
    /// A new visitor in a new window.
    pub(crate) fn new(
        browser: &mut Chromium,
        application: &'a Application,
        host: &'a str,
        user: Option<&'static str>,
    ) -> Self {
        let window = browser.window();
        watch(browser, &window);
        let secrets = user.map(application.mark).into_iter().collect();
        Self { application, host, user, window, session: None, secrets, received: Vec::new(), viewed_from: 0 }
    }

    /// Logs in with the application's form, if the visitor has an account.
    pub(crate) fn log_in(&mut self, browser: &mut Chromium, password: &str) {
        if let Some(user) = self.user {
            let login = &self.application.login;
            let url = format!("http://{}{}", self.host, login.page);
            self.act(browser, |browser, window| browser.open(window, &url));
            self.act(browser, |browser, window| {
                browser.type_into(window, login.name, user);
                browser.type_into(window, login.password, password);
                let submit = json!(login.submit);
                browser.follow(window, &format!("document.querySelector({submit}).click()"));
            });
        }
        self.viewed_from = self.received.len();
    }

    /// Views a page, which must show this visitor's name or session.
    pub(crate) fn view(&mut self, browser: &mut Chromium, page: &str) {
        let url = format!("http://{}{page}", self.host);
        self.act(browser, |browser, window| browser.open(window, &url));
        if let Some(user) = self.user {
            let markup = browser.markup(&self.window);
            assert!(markup.contains(&(self.application.mark)(user)), "{page} is not {user}'s: {markup}");
        }
        if let Some(session) = self.application.session {
            let shown = browser.evaluate(&self.window, session);
            let shown = shown.as_str().unwrap_or_else(|| panic!("{page} shows no session"));
            let session = self.session.get_or_insert_with(|| shown.to_owned());
            assert_eq!(session, shown, "{page} shows another session than this visitor's");
            self.secrets.insert(shown.to_owned());
        }
    }

    fn act(&mut self, browser: &mut Chromium, act: impl FnOnce(&mut Chromium, &BrowserWindow)) {
        let received = view(browser, &self.window, &format!("http://{}", self.host), act).received;
        let lines = received.iter().flat_map(|received| received.head.lines());
        let fields = lines.filter_map(|line| line.split_once(": "));
        for (_, cookie) in fields.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
            self.keep(cookie.split(';').next().unwrap().split_once('=').unwrap().1);
        }
        self.received.extend(received);
        let tokens = browser.evaluate(&self.window, TOKENS);
        tokens.as_array().unwrap().iter().for_each(|token| self.keep(token.as_str().unwrap()));
    }

    fn keep(&mut self, secret: &str) {
        if secret.len() >= SECRET_BYTES_MIN {
            self.secrets.insert(secret.to_owned());
        }
    }

    /// The responses of the page views, without those of the login.
    pub(crate) fn viewed(&self) -> &[NetworkResponse] {
        &self.received[self.viewed_from..]
    }
}

/// Checks that no visitor received a secret of another.
pub(crate) fn nothing_is_shared(name: &str, visitors: &[ApplicationVisitor<'_>]) {
    let mut searched = 0;
    for (owner, one) in visitors.iter().enumerate() {
        assert!(!one.secrets.is_empty(), "{name}: a visitor without a session proves nothing");
        for (other, two) in visitors.iter().enumerate().filter(|(other, _)| *other != owner) {
            for received in &two.received {
                searched += 1;
                let found = one
                    .secrets
                    .iter()
                    .find(|secret| received.head.contains(*secret) || received.body.contains(*secret));
                assert!(
                    found.is_none(),
                    "{name}: visitor {other} got {found:?} of {owner}: {}",
                    received.url
                );
            }
        }
    }
    let secrets: usize = visitors.iter().map(|visitor| visitor.secrets.len()).sum();
    println!("attack: {name}: 0 of {secrets} secrets found in {searched} responses to others, at most 0");
}
