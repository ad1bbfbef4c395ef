//! Tests of accounts and forms: permissions, and separation of visitors.

use crate::browser::{LAYERS, Running, Visitor, form};
use std::collections::BTreeMap;

const ALICE: (&str, &str) = ("alice", "bell-and-lamp");
const BRUNO: (&str, &str) = ("bruno", "chain-and-oil");
const EDITOR: (&str, &str) = ("editor", "two-wheels");

/// The target of a product.
fn product(site: &Running) -> String {
    let page = site.visitor().get("/shop/bells");
    page.text().split("<h3><a href=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

fn logged_in(site: &Running, (name, password): (&str, &str)) -> Visitor {
    let mut visitor = site.visitor();
    visitor.log_in(name, password);
    visitor
}

#[test]
fn session_lasts_from_log_in_to_log_out() {
    let site = Running::start();
    let mut member = site.visitor();
    member.visit("/user");
    assert!(member.cookies.is_empty());
    let own = member.log_in(ALICE.0, ALICE.1);
    assert!(own.text().contains("<h1>alice</h1>"));
    assert_eq!(member.cookies.len(), 1);
    assert!(member.get("/").text().contains("Log out"));
    let kept = member.cookies.clone();
    member.submit("/user/logout", "logout", &[]);
    assert!(member.cookies.is_empty());
    // The cookie is no longer valid.
    member.cookies = kept;
    assert!(!member.get("/").text().contains("alice"));
}

#[test]
fn wrong_passwords_are_refused_and_rate_limited() {
    let site = Running::start();
    let mut guest = site.visitor();
    for (name, password) in
        [("alice", "wrong"), ("nobody", "bell-and-lamp"), ("Ada Arnold", ""), ("alice", "")]
    {
        let page = guest.log_in(name, password);
        assert!(page.text().contains("Name and password do not match."), "{name}");
        assert!(guest.cookies.is_empty());
    }
    for _ in 0..4 {
        guest.log_in(BRUNO.0, "wrong");
    }
    assert!(guest.log_in(BRUNO.0, "wrong").text().contains("do not match"));
    assert!(guest.log_in(BRUNO.0, BRUNO.1).text().contains("Too many attempts."));
    assert!(guest.cookies.is_empty());
}

#[test]
fn session_is_renamed_at_log_in() {
    let site = Running::start();
    let mut member = site.visitor();
    // The thanks for a comment start a session, which then remembers the product.
    member.submit(&product(&site), "comment", &[("comment", "Before the log-in")]);
    let before = member.cookies.clone();
    assert_eq!(before.len(), 1);
    assert!(member.get("/").text().contains("You have looked at"));
    member.log_in(ALICE.0, ALICE.1);
    assert_ne!(member.cookies, before);
    // The remembered product is kept, and the old session name is no longer valid.
    assert!(member.get("/").text().contains("You have looked at"));
    let mut thief = site.visitor();
    thief.cookies = before;
    assert!(!thief.get("/").text().contains("You have looked at"));
}

#[test]
fn two_members_never_see_each_other() {
    let site = Running::start();
    let target = product(&site);
    for layer in LAYERS {
        site.switch(layer);
        let (mut alice, mut bruno) = (site.visitor(), site.visitor());
        alice.log_in(ALICE.0, ALICE.1);
        bruno.log_in(BRUNO.0, BRUNO.1);
        alice.visit(&target);
        for page in ["/", "/shop", "/about-us", &target] {
            let (hers, his) = (alice.get(page), bruno.get(page));
            assert!(hers.text().contains(">alice</a>") && !hers.text().contains("bruno"), "{layer} {page}");
            assert!(his.text().contains(">bruno</a>") && !his.text().contains("alice"), "{layer} {page}");
            // On its own page, the product is left out of the list of viewed products.
            assert_eq!(hers.text().contains("You have looked at"), page != target, "{layer} {page}");
            let his_list = his.text().contains("You have looked at");
            assert!(!his_list, "{layer} {page}: he has looked at nothing");
            let guest = site.visitor().get(page);
            assert!(!guest.text().contains("alice") && !guest.text().contains("bruno"), "{layer} {page}");
            assert!(!guest.text().contains("You have looked at"), "{layer} {page}");
        }
    }
}

#[test]
fn form_without_a_valid_token_has_no_effect() {
    let site = Running::start();
    let mut member = site.visitor();
    member.log_in(ALICE.0, ALICE.1);
    let target = product(&site);
    let (action, mut genuine) = form(member.get(&target).text(), "comment").unwrap();
    genuine.insert("comment".into(), "Hello".into());
    let is_there = || site.visitor().get(&target).text().contains("<p>Hello</p>");
    let mut forged = genuine.clone();
    forged.insert("token".into(), "0".repeat(32));
    assert!(member.post(&action, &forged).text().contains("This form has expired."));
    // A token of another visitor, or one for visitors without a session, is not valid for a member.
    for mut other in [site.visitor(), logged_in(&site, BRUNO)] {
        let (_, mut theirs) = form(other.visit(&target).text(), "comment").unwrap();
        theirs.insert("comment".into(), "Hello".into());
        assert!(member.post(&action, &theirs).text().contains("This form has expired."));
    }
    assert!(!is_there());
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let content: Vec<String> = genuine.iter().map(|(name, value)| format!("{name}={value}")).collect();
    for foreign in ["Origin: http://evil.test", "Sec-Fetch-Site: cross-site"] {
        member.send("POST", &action, &[kind, foreign], &content.join("&"));
    }
    assert!(!is_there());
    member.send("POST", &action, &[kind, "Origin: http://shop.test"], &content.join("&"));
    assert!(is_there());
}

#[test]
fn visitors_markup_is_shown_as_text() {
    let site = Running::start();
    let nasty = "<script>alert('x')</script> \"quoted\" & https://a.test/?q=\"><b> **not strong**";
    let target = site.visitor().get("/node/5").field("Location").unwrap().to_owned();
    let mut guest = site.visitor();
    let page = guest.submit(&target, "comment", &[("name", "<i>N</i>"), ("comment", nasty)]);
    assert!(page.text().contains("&lt;script&gt;alert(") && page.text().contains("&lt;i&gt;N&lt;/i&gt;"));
    for forbidden in ["<script>alert", "<i>N", "\"><b>"] {
        assert!(!page.text().contains(forbidden), "{forbidden}");
    }
    let empty = guest.submit(&target, "comment", &[("comment", "   ")]);
    assert!(empty.text().contains("Please write something."));
}

#[test]
fn staff_may_do_what_others_may_not() {
    let site = Running::start();
    let pages = [
        "/admin",
        "/admin/log",
        "/admin/comments",
        "/admin/statistics",
        "/admin/contact",
        "/admin/people",
        "/admin/settings",
    ];
    let (mut editor, mut member) = (site.visitor(), site.visitor());
    editor.log_in(EDITOR.0, EDITOR.1);
    member.log_in(ALICE.0, ALICE.1);
    for page in pages {
        assert_eq!(editor.get(page).status, 200, "{page}");
        assert_eq!((member.get(page).status, site.visitor().get(page).status), (403, 403), "{page}");
    }
    let hidden = editor.submit("/admin/comments", "comment_hide", &[]);
    assert_eq!(hidden.status, 200);
    assert_eq!(site.counter("script_failures"), 0);
}

#[test]
fn contact_form_needs_no_session() {
    let site = Running::start();
    let mut guest = site.visitor();
    let wrong = [("name", "N"), ("mail", "no address"), ("message", "Hello")];
    assert!(guest.submit("/contact", "contact", &wrong).text().contains("This is no e-mail address."));
    let message = [("name", "N"), ("mail", "a@b.test"), ("message", "Hello")];
    assert!(guest.submit("/contact", "contact", &message).text().contains("within a working day"));
    assert!(guest.cookies.is_empty());
    // Content of another type is not read as a form.
    let answer = guest.send("POST", "/contact", &["Content-Type: text/plain"], "form=contact");
    assert!(answer.status == 200 && answer.text().contains("name=\"message\""));
    assert_eq!(guest.post("/nothing", &BTreeMap::new()).status, 404);
}

#[test]
fn visitor_with_a_session_sees_recently_viewed_products() {
    let site = Running::start();
    let target = product(&site);
    let mut member = site.visitor();
    member.log_in(ALICE.0, ALICE.1);
    member.visit(&target);
    assert!(member.get("/").text().contains("You have looked at"));
    let mut guest = site.visitor();
    guest.visit(&target);
    assert!(guest.cookies.is_empty() && !guest.get("/").text().contains("You have looked at"));
}
