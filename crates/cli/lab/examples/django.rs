//! `examples/django` in front of the Wagtail lab, which sends its purges to the plain port.

use crate::stand::{Lab, Setup, Stand, is_hit};
use serde_json::json;

#[test]
fn django_example_serves_wagtail() {
    let lab = Lab::find("wagtail");
    let gunicorn = format!("unix:{}/run/templates.sock", lab.value("site"));
    let files = lab.url("nginx_templates");
    let mut stand = Stand::start(&Setup {
        name: "django",
        host: lab.value("host"),
        plain: Some(lab.address("edge")),
        admin: None,
        has_disk: true,
        replacements: &[
            ("unix:/run/gunicorn/site.sock", &gunicorn),
            ("unix:/run/gunicorn/staging.sock", &gunicorn),
            ("http://127.0.0.1:8000", &files),
        ],
    });
    let page = "/articles/article-100/";

    stand.has_the_common_parts();
    for target in ["/", page] {
        stand.is_shared(target, &[]);
    }
    stand.explains("/", "hit-fresh");
    files_have_their_fields(&mut stand);

    let alice = stand.visitor();
    stand.open(&alice, "/admin/login/");
    stand.browser.type_into(&alice, "#id_username", "alice");
    stand.browser.type_into(&alice, "#id_password", lab.value("user_password"));
    stand.follow(&alice, "document.querySelector('form button[type=submit]').click()").is_own("alice");
    let seen = stand.open(&alice, page);
    // The article's number is in the editors' bar, whose script moves it out of the markup.
    let text = &seen.page().body;
    assert!(text.contains("w-userbar") && !is_hit(seen.page()), "no editors' bar in {text}");
    let before = text.split_once("/edit/").unwrap().0;
    let number = before.rsplit('/').next().unwrap();
    let title = format!("Edited behind the example {}", std::process::id());
    let purges = stand.purges();
    publish(&mut stand, &alice, number, &title);
    stand.open(&alice, page).is_own(&title);
    // The newest article, which the front page also shows.
    for target in [page, "/"] {
        stand.strangers_see(target, &title);
        stand.is_shared(target, &[]);
    }
    assert!(stand.purges() > purges, "Wagtail sent no purge");
    stand.no_purge_was_refused();
}

/// Publishes an article with a new title by the form of Wagtail's admin.
fn publish(stand: &mut Stand, editor: &crate::chromium::BrowserWindow, number: &str, title: &str) {
    let form = json!(format!("/admin/pages/{number}/edit/"));
    let title = json!(title);
    let script = format!(
        "fetch({form}).then(answer => answer.text()).then(text => {{\
         const page = new DOMParser().parseFromString(text, 'text/html');\
         const data = new FormData(page.querySelector('form[id=page-edit-form], form:has([name=title])'));\
         data.set('title', {title}); data.set('action-publish', 'action-publish');\
         return fetch({form}, {{method: 'POST', body: data}}); }}).then(answer => answer.status)"
    );
    assert_eq!(stand.browser.evaluate(editor, &script), 200, "publishing {number}");
}

fn files_have_their_fields(stand: &mut Stand) {
    // The lab's own pages have no files.
    let window = stand.visitor();
    let seen = stand.open(&window, "/admin/login/");
    let file = seen.received.iter().find(|one| one.url.contains("/static/")).unwrap();
    assert_eq!(file.field("cache-control"), Some("public, max-age=2592000"), "{}", file.head);
    let target = file.url.split_once(&stand.host).unwrap().1;
    let again = stand.get(target);
    assert!(again.field("Cache-Status").unwrap().starts_with("Petasos; hit"), "{}", again.head);
    // The lab has no uploaded file. A rule about Cache-Control does not apply to a 404.
    let answer = stand.get("/media/nothing.svg");
    assert_eq!(answer.status, 404, "{}", answer.head);
    assert_eq!(answer.field("Content-Security-Policy"), Some("script-src 'none'"), "{}", answer.head);
    assert_ne!(answer.field("Cache-Control"), Some("public, max-age=2592000"), "{}", answer.head);
}
