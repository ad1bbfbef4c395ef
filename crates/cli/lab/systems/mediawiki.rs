//! MediaWiki behind the edge (`cargo xtask lab mediawiki up`). Anonymous visitors share pages and
//! users see only their own pages. An edit is visible at once, because MediaWiki purges the page.

use super::running_lab::{Cms, LoginForm, RunningLab, is_known, sees};
use super::visitor::{FormFields, LabVisitor, between, within_two_seconds};
use std::path::Path;
use std::process::Command;
use testkit::Response;

const MEDIAWIKI: Cms = Cms {
    lab: "mediawiki",
    origin: "nginx_objects",
    profile: "mediawiki",
    shared: SHARED,
    own: OWN,
    users: ["Alice", "Bob"],
    login: LOGIN,
    check,
    // The second cookie remains after logout, and MediaWiki ignores it.
    idle_cookies: &[("_ga", "GA1.2.3"), ("wikiUserName", "Alice")],
};
pub(crate) const LOGIN: LoginForm = LoginForm {
    target: "/wiki/Special:UserLogin",
    sign: "wpLoginToken",
    name: "wpName",
    password: "wpPassword",
    more: &[],
};
/// Pages that MediaWiki allows caches to share.
const SHARED: &[&str] = &[
    "/wiki/Welcome",
    "/wiki/Bridge_of_Amberg",
    "/wiki/Talk:Bridge_of_Amberg",
    "/wiki/Category:Villages",
    "/index.php?title=Bridge_of_Amberg&action=history",
    "/index.php?title=Bridge_of_Amberg&diff=2&oldid=3",
    "/load.php?lang=en&modules=startup&only=scripts&raw=1&skin=vector",
];
/// Pages that are private to each visitor.
const OWN: &[&str] = &[
    "/index.php?title=Bridge_of_Amberg&action=edit",
    "/index.php?title=Bridge_of_Amberg&action=info",
    "/index.php?title=Bridge_of_Amberg&printable=yes",
    "/wiki/Special:RecentChanges",
    "/wiki/Special:Preferences",
    "/wiki/Special:Watchlist",
    "/wiki/Special:Search?search=bridge",
    "/index.php?title=Special:Search&search=bridge",
    "/index.php?search=bridge",
    "/wiki/Special:UserLogin",
    "/api.php?action=query&meta=userinfo&format=json",
    "/api.php?action=query&meta=tokens&format=json",
];

/// The checks run one after the other, because they share the edge's address, the target of
/// MediaWiki's purges.
#[test]
fn mediawiki_behind_the_edge() {
    let running = RunningLab::of(&MEDIAWIKI);
    running.anonymous_pages_become_hits();
    running.users_see_their_own_pages_only();
    an_edit_is_seen_by_everybody(&running);
    package_finds_nothing_to_change(&running);
    running.cookies_that_mean_nothing_do_not_matter();
}

/// Checks that a page belongs to this visitor, by the name and the tokens in it.
fn check(visitor: &LabVisitor<'_>, target: &str, answer: &Response) {
    let text = answer.text();
    let name = visitor.name.as_str();
    let is_known = is_known(visitor);
    let known = if is_known { format!("\"{name}\"") } else { "null".to_owned() };
    if let Some(user) = between(text, "\"wgUserName\":", ",") {
        assert_eq!(user, known, "{name} {target}: {}", answer.head);
        let bar = between(text, "id=\"pt-userpage\"", "</li>");
        assert!(bar.map_or(!is_known, |bar| is_known && bar.contains(name)), "{name} {target}: {bar:?}");
    } else if target.contains("userinfo") {
        let user = between(text, "\"name\":\"", "\"").unwrap();
        assert_eq!(user, if is_known { name } else { "127.0.0.1" }, "{name}: {text}");
    }
    // Tokens of anonymous visitors are the same for all of them, or as new as their session.
    if is_known {
        for token in &tokens(text) {
            visitor.own(token);
        }
    }
}

/// The tokens in the forms and API responses of a page, which the visitor sends back.
fn tokens(text: &str) -> Vec<String> {
    let names = ["wpEditToken", "wpLoginToken"].into_iter().filter(|name| text.contains(name));
    let in_forms = names.map(|name| FormFields::of(text, name).value(name).to_owned());
    in_forms.chain(between(text, "\"csrftoken\":\"", "\"").map(str::to_owned)).collect()
}

fn an_edit_is_seen_by_everybody(running: &RunningLab) {
    // Alice bypasses the edge, so only MediaWiki's purges tell the edge of her edits.
    let mut alice = running.user_behind_the_edge("Alice");
    let mut bob = running.user("Bob");
    let page = "/wiki/Lab_test";
    let history = "/index.php?title=Lab_test&action=history";
    for number in 1..=3 {
        let text = format!("edit-{number}-of-{}", std::process::id());
        running.are_stored_without(&[page, history], &text);
        let purges = running.purges();
        edit(&mut alice, "Lab_test", &text);
        running.nobody_misses(page, &text);
        running.nobody_misses(history, &text);
        within_two_seconds("another user sees it", || sees(&mut bob, page, &text));
        assert!(running.purges() > purges, "MediaWiki sent no purge");
        running.is_shared_again(page);
    }
    running.no_purge_was_refused();
}

/// Runs the check of `integrations/mediawiki`, as the wiki's owner does. The lab includes the
/// package's settings.
fn package_finds_nothing_to_change(running: &RunningLab) {
    let check = concat!(env!("CARGO_MANIFEST_DIR"), "/../../integrations/mediawiki/petasosCheck.php");
    let settings = Path::new(running.value("site")).join("conf/LocalSettings.php");
    let output = |edge: &str| {
        let mut command = Command::new("php8.2");
        command.arg(check).args(["--page", "/wiki/Welcome", "--edge", edge]).env("MW_CONFIG_FILE", &settings);
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (is_good, said) = output(running.value("edge"));
    assert!(is_good && said.contains("Everything is as it should be."), "{said}");
    assert_eq!(said.matches("ok ").count(), 9, "{said}");
    // The web server in place of the edge.
    let (is_good, said) = output(running.value("nginx_objects"));
    assert!(!is_good && said.contains("does not obey purges"), "{said}");
}

/// Edits a page. The text is also the edit's summary, which the history shows.
fn edit(user: &mut LabVisitor<'_>, title: &str, text: &str) {
    let tokens = user.get("/api.php?action=query&meta=tokens&format=json");
    let tokens: serde_json::Value = serde_json::from_slice(&tokens.body).unwrap();
    let token = tokens.pointer("/query/tokens/csrftoken").unwrap().as_str().unwrap().to_owned();
    let form = FormFields::new().with("action", "edit").with("format", "json").with("title", title);
    let form = form.with("text", text).with("summary", text).with("token", &token);
    let answer = user.post("/api.php", &form);
    assert!(answer.text().contains("\"result\":\"Success\""), "{}", answer.text());
}
