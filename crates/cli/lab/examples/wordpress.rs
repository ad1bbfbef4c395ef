//! `examples/wordpress` in front of the WordPress lab, with the plugin of `integrations/wordpress`.

use crate::chromium::BrowserWindow;
use crate::stand::{Lab, Setup, Stand, request};
use serde_json::{Value, json};
use testkit::{Client, Response};

/// Markup that only pages of logged-in users have.
const BAR: &str = "id=\"wpadminbar\"";

#[test]
fn wordpress_example_serves_wordpress() {
    let lab = Lab::find("wordpress");
    let origin = lab.url("nginx_opcode");
    let mut stand = Stand::start(&Setup {
        name: "wordpress",
        host: lab.value("host"),
        plain: None,
        admin: None,
        has_disk: true,
        replacements: &[("http://127.0.0.1:8000", &origin)],
    });
    // The plugin with the constant that the example's page names.
    let switched = ask(&lab, "POST", &format!("/lab-layers.php?plugin=on&admin={}", stand.edge.admin));
    assert_eq!(switched.status, 200, "{}", switched.text());
    let (article, number) = first(&lab, "posts");

    stand.has_the_common_parts();
    stand.is_shared("/", &[".css", ".js"]);
    stand.explains("/", "hit-fresh");
    stand.is_shared(&article, &[".css"]);
    routes_answer(&lab, &stand);

    let editor = stand.visitor();
    log_in(&mut stand, &editor, lab.value("admin_password"));
    stand.open(&editor, "/").is_own(BAR);
    let title = format!("Edited behind the example {}", std::process::id());
    edit(&mut stand, &editor, number, &title);
    stand.open(&editor, &article).is_own(&title);
    for target in ["/", &*article] {
        stand.strangers_see(target, &title);
        stand.is_shared(target, &[".css"]);
    }
    assert!(stand.purges() >= 1.0, "the plugin sent no purge");
    stand.no_purge_was_refused();
    ask(&lab, "POST", "/lab-layers.php");
    // The content has changed; the next `up` makes it again.
    ask(&lab, "POST", "/lab-layers.php?forget");
}

/// Sends a request to the lab's nginx itself.
fn ask(lab: &Lab, method: &str, target: &str) -> Response {
    let mut client = Client::connect(lab.address("nginx_opcode"));
    client.send(request(lab.value("host"), method, target, &["Content-Length: 0"]));
    client.read()
}

/// Path of the first item of a REST collection, and its number.
fn first(lab: &Lab, collection: &str) -> (String, u64) {
    let items: Value =
        serde_json::from_slice(&ask(lab, "GET", &format!("/wp-json/wp/v2/{collection}")).body).unwrap();
    let field = if collection == "media" { "source_url" } else { "link" };
    let url = items[0][field].as_str().unwrap_or_else(|| panic!("{collection}: {items}"));
    (url.split_once(lab.value("host")).unwrap().1.to_owned(), items[0]["id"].as_u64().unwrap())
}

fn routes_answer(lab: &Lab, stand: &Stand) {
    for (method, target) in [("GET", "/xmlrpc.php"), ("POST", "/xmlrpc.php"), ("POST", "/xmlrpc.php/x")] {
        let answer = stand.ask(&stand.host, method, target, &["Content-Length: 0"]);
        assert_eq!((answer.status, answer.text()), (403, "This site does not use XML-RPC.\n"));
        assert!(answer.field("Cache-Status").unwrap().contains("fixed-answer"), "{}", answer.head);
    }
    let answer = stand.get("/");
    assert_eq!(answer.field("X-Frame-Options"), Some("SAMEORIGIN"), "{}", answer.head);
    stand.is_upload(&first(lab, "media").0, 2_592_000);
}

fn log_in(stand: &mut Stand, editor: &BrowserWindow, password: &str) {
    stand.open(editor, "/wp-login.php");
    // WordPress moves the focus to this field 0.2 s after the page has loaded.
    let is_focused = "document.activeElement?.id === 'user_login'";
    stand.browser.until(editor, "WordPress sets the focus", is_focused);
    stand.browser.type_into(editor, "#user_login", "admin");
    stand.browser.type_into(editor, "#user_pass", password);
    stand.follow(editor, "document.querySelector('#wp-submit').click()").is_own("wp-admin");
}

/// Changes a post's title as WordPress' own scripts do.
fn edit(stand: &mut Stand, editor: &BrowserWindow, number: u64, title: &str) {
    let content = json!(json!({"title": title}).to_string());
    let script = format!(
        "fetch('/wp-admin/admin-ajax.php?action=rest-nonce').then(answer => answer.text())\
         .then(nonce => fetch('/wp-json/wp/v2/posts/{number}', {{method: 'POST', body: {content},\
         headers: {{'X-WP-Nonce': nonce, 'Content-Type': 'application/json'}}}})).then(answer => answer.status)"
    );
    assert_eq!(stand.browser.evaluate(editor, &script), 200);
}
