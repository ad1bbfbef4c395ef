//! The administrators' screens: the edge's state, the purge button, and the notice about a failed
//! purge.

use crate::site::{Editor, WordPressLab, get, is_hit};
use serde_json::json;
use testkit::eventually;

/// Target of the plugin's screen.
const SCREEN: &str = "/wp-admin/tools.php?page=petasos";
const BUTTON: &str = "/wp-admin/admin-post.php";
/// Markup of the notice.
const NOTICE: &str = "petasos-failure";

/// The nonce of the form that purges everything.
fn nonce(page: &str) -> &str {
    let form = page.split_once("value=\"petasos_purge\"").unwrap_or_else(|| panic!("no form: {page}")).1;
    let field = form.split_once("name=\"_wpnonce\" value=\"").unwrap_or_else(|| panic!("no nonce: {page}")).1;
    field.split('"').next().unwrap_or_default()
}

#[test]
fn plugin_screen_shows_the_edge_and_its_button_purges() {
    let site = WordPressLab::with("");
    let edge = site.edge("plugin=on");
    let editor = site.administrator();
    let stored = || {
        get(edge.address, "/");
        is_hit(&get(edge.address, "/"))
    };
    assert!(stored());
    let by_visit = editor.see(SCREEN);
    assert!(
        by_visit.text().contains("Cache-Status") && by_visit.text().contains("Petasos; hit"),
        "{}",
        by_visit.text()
    );
    site.layers(&format!("plugin=on&admin={}", edge.admin));
    let by_status = editor.see(SCREEN);
    assert!(by_status.text().contains("stored responses"), "{}", by_status.text());

    let refused = editor.submit(BUTTON, "action=petasos_purge&_wpnonce=0000000000");
    assert_eq!(refused.status, 403, "{}", refused.head);
    assert!(is_hit(&get(edge.address, "/")), "without a nonce nothing is purged");

    let name = format!("helper{}", std::process::id());
    let email = format!("{name}@wordpress.test");
    let login = json!({"username": name, "email": email, "password": "only-for-this", "roles": ["author"]});
    let user = editor.change("users", &login);
    let author = Editor::log_in(site.origin, &name, "only-for-this");
    assert_eq!(author.see(SCREEN).status, 403);
    let own = author.see("/?lab=nonce").text().to_owned();
    let refused = author.submit(BUTTON, &format!("action=petasos_purge&_wpnonce={own}"));
    assert_eq!(refused.status, 403, "{}", refused.head);
    assert!(is_hit(&get(edge.address, "/")), "an author may not purge");
    editor.call("DELETE", &format!("users/{}?force=true&reassign=1", user["id"]), &json!({}));

    for layers in [format!("plugin=on&admin={}", edge.admin), format!("plugin=on&edge={}", edge.address)] {
        site.layers(&layers);
        assert!(stored());
        let nonce = nonce(editor.see(SCREEN).text()).to_owned();
        let done = editor.submit(BUTTON, &format!("action=petasos_purge&_wpnonce={nonce}"));
        assert!(
            done.status == 302 && done.field("Location").unwrap().ends_with("purged=yes"),
            "{}",
            done.head
        );
        assert!(!is_hit(&get(edge.address, "/")), "{layers}: everything was purged");
    }
}

#[test]
fn no_action_runs_without_its_nonce_and_right() {
    let site = WordPressLab::with("plugin=on");
    let editor = site.administrator();
    let name = format!("writer{}", std::process::id());
    let email = format!("{name}@wordpress.test");
    let login = json!({"username": name, "email": email, "password": "only-for-this", "roles": ["editor"]});
    let user = editor.change("users", &login);
    let writer = Editor::log_in(site.origin, &name, "only-for-this");
    let purge = nonce(editor.see(SCREEN).text()).to_owned();
    for action in ["purge", "measure", "find", "edge", "exclude", "install", "remove"] {
        let form = format!("action=petasos_{action}&layer=pages&kind=apcu&_wpnonce=");
        assert_eq!(editor.submit(BUTTON, &form).status, 403, "{action} without a nonce");
        if action != "purge" {
            let refused = editor.submit(BUTTON, &format!("{form}{purge}"));
            assert_eq!(refused.status, 403, "{action} with the nonce of another action");
        }
        assert_eq!(
            writer.submit(BUTTON, &format!("{form}{purge}")).status,
            403,
            "{action} without the right"
        );
    }
    let stored = editor.see("/wp-admin/options.php").text().contains("petasos_settings");
    assert!(!stored, "no action has stored anything");
    editor.call("DELETE", &format!("users/{}?force=true&reassign=1", user["id"]), &json!({}));
}

#[test]
fn failed_purge_is_shown_and_retried_once() {
    let site = WordPressLab::with("");
    let edge = site.edge("plugin=on");
    let editor = site.administrator();
    let (newest, number) = site.first("posts");
    let edit = |text: &str| editor.change(&format!("posts/{number}"), &json!({"content": text}));
    let noticed = || editor.see("/wp-admin/index.php").text().contains(NOTICE);
    // WordPress responds before it runs the scheduled tasks.
    let cron = || assert_eq!(get(site.origin, "/wp-cron.php?doing_wp_cron").status, 200);
    let vain = || editor.see("/wp-admin/index.php").text().contains("in vain");
    get(edge.address, &newest);
    assert!(is_hit(&get(edge.address, &newest)) && !noticed());

    // No server listens at port 1.
    let dead = "plugin=on&edge=127.0.0.1:1";
    site.layers(dead);
    edit("Said to nobody");
    assert!(noticed(), "a failure is shown");
    assert!(is_hit(&get(edge.address, &newest)), "the edge could not be told");
    site.layers(&format!("plugin=on&edge={}", edge.address));
    cron();
    eventually("the second try succeeds", || !noticed());
    assert!(get(edge.address, &newest).text().contains("Said to nobody"));

    site.layers(dead);
    edit("Said to nobody again");
    cron();
    eventually("the second try fails", vain);
    site.layers(&format!("plugin=on&edge={}", edge.address));
    cron();
    assert!(vain(), "there is no third try");
    let nonce = nonce(editor.see(SCREEN).text()).to_owned();
    editor.submit(BUTTON, &format!("action=petasos_purge&_wpnonce={nonce}"));
    assert!(!noticed());
    assert!(get(edge.address, &newest).text().contains("Said to nobody again"));
}
