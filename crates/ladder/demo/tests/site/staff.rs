//! Tests of the pages for staff and members: writing, editing and replying. All visitors
//! must see changes at once.

use crate::browser::{LAYERS, Running, Visitor, links};

fn editor(site: &Running) -> Visitor {
    let mut editor = site.visitor();
    editor.log_in("editor", "two-wheels");
    editor
}

fn address(site: &Running, path: &str) -> String {
    site.visitor().get(path).field("Location").unwrap().to_owned()
}

#[test]
fn article_can_be_written_changed_hidden_and_removed() {
    let site = Running::start();
    for (index, layer) in LAYERS.into_iter().enumerate() {
        site.switch(layer);
        site.visitor().get("/journal");
        site.visitor().get("/");
        let mut staff = editor(&site);
        let (title, words) =
            (format!("Chain number {index}"), "Quite *new* words\n\n## And more\n\n- one\n- two");
        let topic = form_option(staff.get("/node/add/article").text(), "Repairs");
        let values = [
            ("title", title.as_str()),
            ("body", words),
            ("topic", &topic),
            ("status", "1"),
            ("promote", "1"),
            ("comment", "1"),
        ];
        let page = staff.submit("/node/add/article", "edit", &values);
        assert!(page.text().contains("has been saved") && page.text().contains("<em>new</em>"), "{layer}");
        let target = format!("/journal/chain-number-{index}");
        for listing in ["/journal", "/", "/topics/repairs", "/search?q=chain+number"] {
            assert!(site.visitor().get(listing).text().contains(&title), "{layer} {listing}");
        }
        assert_eq!(site.visitor().get(&target).status, 200);
        assert!(staff.get("/admin/content").text().contains(&title), "{layer}");
        let edit = links(staff.get(&target).text()).into_iter().find(|link| link.ends_with("/edit")).unwrap();
        let changed = format!("Belt number {index}");
        let all = [
            ("title", changed.as_str()),
            ("body", words),
            ("topic", &topic),
            ("status", "1"),
            ("comment", "1"),
        ];
        staff.submit(&edit, "edit", &all);
        let seen = site.visitor().get(&target);
        assert!(seen.text().contains(&changed) && !seen.text().contains(&title), "{layer}");
        assert!(
            !site.visitor().get("/").text().contains(&changed),
            "{layer}: it is not on the front page any more"
        );
        staff.submit(&edit, "edit", &all[..3]);
        assert_eq!(site.visitor().get(&target).status, 403, "{layer}: hidden");
        staff.submit(&edit.replace("/edit", "/delete"), "delete", &[]);
        assert_eq!(site.visitor().get(&target).status, 404, "{layer}: removed");
    }
    assert_eq!(site.counter("script_failures"), 0);
}

/// The value of the option with this text.
fn form_option(html: &str, text: &str) -> String {
    let option = html
        .split("<option ")
        .find(|option| option.split("</option>").next().unwrap().ends_with(text))
        .unwrap();
    option.split("value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

#[test]
fn reply_appears_below_its_comment() {
    let site = Running::start();
    let target = address(&site, "/node/3");
    let mut guest = site.visitor();
    guest.submit(&target, "comment", &[("name", "First"), ("comment", "A question about it")]);
    let page = guest.get(&target);
    let answer = links(page.text()).into_iter().rfind(|link| link.ends_with("/answer")).unwrap();
    let seen = guest.submit(&answer, "comment", &[("name", "Second"), ("comment", "And the answer to it")]);
    let (question, reply) = (
        seen.text().find("A question about it").unwrap(),
        seen.text().rfind("And the answer to it").unwrap(),
    );
    assert!(question < reply && seen.text()[question..reply].contains("depth-1"));
    assert_eq!(guest.get("/comment/999999/answer").status, 404);
}

#[test]
fn blocked_account_loses_its_session_at_once() {
    let site = Running::start();
    let (mut staff, mut bruno) = (editor(&site), site.visitor());
    bruno.log_in("bruno", "chain-and-oil");
    assert!(bruno.get("/").text().contains("bruno"));
    staff.submit("/admin/people", "user_block", &[("uid", "3")]);
    assert!(!bruno.get("/").text().contains("bruno"));
    assert!(site.visitor().log_in("bruno", "chain-and-oil").text().contains("do not match"));
}

#[test]
fn staff_can_change_settings() {
    let site = Running::start();
    site.switch(LAYERS[4]);
    site.visitor().get("/");
    let mut staff = editor(&site);
    let settings: Vec<(String, String)> = staff
        .get("/admin/settings")
        .text()
        .split("<input type=\"text\" name=\"")
        .skip(1)
        .map(|input| {
            let value = input.split("value=\"").nth(1).unwrap().split('"').next().unwrap();
            (input.split('"').next().unwrap().to_owned(), value.to_owned())
        })
        .collect();
    let mut values: Vec<(&str, &str)> =
        settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    values.push(("site_slogan", "Slower & better"));
    assert!(staff.submit("/admin/settings", "settings", &values).text().contains("have been saved"));
    assert!(site.visitor().get("/").text().contains("Slower &amp; better"));
    values.push(("search_limit", "1000"));
    assert!(staff.submit("/admin/settings", "settings", &values).text().contains("Results on a page"));
    assert!(staff.get("/admin/people").text().contains("alice"));
    assert_eq!(site.counter("script_failures"), 0);
}
