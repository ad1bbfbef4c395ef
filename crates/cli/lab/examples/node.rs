//! `examples/node` in front of the Node lab, which sends its purges to the admin address.

use crate::stand::{Lab, Setup, Stand, is_hit};
use serde_json::json;

#[test]
fn node_example_serves_an_application() {
    let lab = Lab::find("node");
    let origin = lab.url("node");
    let mut stand = Stand::start(&Setup {
        name: "node",
        host: lab.value("host"),
        plain: None,
        admin: Some(lab.address("admin")),
        has_disk: true,
        replacements: &[("http://127.0.0.1:3000", &origin), ("http://127.0.0.1:3001", &origin)],
    });

    stand.has_the_common_parts();
    for target in ["/", "/articles/bread"] {
        stand.is_shared(target, &["/assets/"]);
    }
    stand.explains("/", "hit-fresh");
    let answer = stand.get("/");
    assert_eq!(answer.field("X-Frame-Options"), Some("SAMEORIGIN"), "{}", answer.head);
    assert_eq!(answer.field("Surrogate-Key"), None, "tags are for Petasos: {}", answer.head);

    let editor = stand.visitor();
    stand.open(&editor, "/login");
    stand.browser.type_into(&editor, "#name", "Ada");
    stand.browser.type_into(&editor, "#password", lab.value("user_password"));
    stand.follow(&editor, "document.querySelector('button').click()").is_own("<p id=\"user\">Ada</p>");
    files_are_shared_with_users(&mut stand, &editor);
    calls_and_events_pass(&mut stand, &editor);

    let title = format!("Bread {}", std::process::id());
    stand.open(&editor, "/articles/bread");
    stand.browser.type_into(&editor, "[name=title]", &title);
    stand.follow(&editor, "document.querySelector('form button').click()").is_own(&title);
    for target in ["/articles/bread", "/"] {
        // The application waits for the purge before it answers.
        let window = stand.visitor();
        let seen = stand.open(&window, target);
        assert!(seen.markup.contains(&title), "{target}: {}", seen.markup);
        stand.is_shared(target, &["/assets/"]);
    }
    assert!(stand.purges() >= 1.0, "the application sent no purge");
    stand.no_purge_was_refused();
}

/// Checks that a user's files come from the store and set no cookie, although the application's
/// session sets one with every response.
fn files_are_shared_with_users(stand: &mut Stand, editor: &crate::chromium::BrowserWindow) {
    // The leak guard compares the first hits of each file with the application.
    let served = (0..20).any(|_| {
        let seen = stand.open(editor, "/");
        seen.is_own("Ada");
        assert!(seen.page().field("set-cookie").is_some(), "the session does not roll: {}", seen.page().head);
        let mut files = seen.received.iter().filter(|one| one.url.contains("/assets/"));
        files.all(|file| is_hit(file) && file.field("set-cookie").is_none())
    });
    assert!(served, "the files of a user are no hits");
}

fn calls_and_events_pass(stand: &mut Stand, editor: &crate::chromium::BrowserWindow) {
    let call = "fetch('/api/visitor').then(answer => answer.json())";
    let visitor = stand.browser.evaluate(editor, call);
    assert_eq!(visitor, json!({"user": "Ada", "ip": "127.0.0.1", "protocol": "https"}));
    let large = stand.ask(&stand.host, "POST", "/api/visitor", &["Content-Length: 1048577"]);
    assert_eq!(large.status, 413, "{}", large.head);
    let mut stream = stand.send("GET", "/events", &[], "");
    assert_eq!(stream.read_head().status, 200);
    assert_eq!(stream.try_read_chunk().unwrap(), b"data: open\n\n");
}
