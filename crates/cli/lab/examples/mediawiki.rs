//! `examples/mediawiki` in front of the MediaWiki lab, which sends its purges to the plain port.

use crate::chromium::BrowserWindow;
use crate::stand::{Lab, Setup, Stand};
use serde_json::json;
use std::path::Path;

/// A picture with a script.
const PICTURE: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>";

#[test]
fn mediawiki_example_serves_mediawiki() {
    let lab = Lab::find("mediawiki");
    let origin = lab.url("nginx_objects");
    let mut stand = Stand::start(&Setup {
        name: "mediawiki",
        host: lab.value("host"),
        plain: Some(lab.address("edge")),
        admin: None,
        has_disk: true,
        replacements: &[("http://127.0.0.1:8000", &origin)],
    });
    std::fs::write(Path::new(lab.value("site")).join("images/example.svg"), PICTURE).unwrap();

    stand.has_the_common_parts();
    stand.is_shared("/wiki/Welcome", &["/load.php"]);
    stand.explains("/wiki/Welcome", "hit-fresh");
    stand.is_shared("/wiki/Bridge_of_Amberg", &["/load.php"]);
    for target in ["/mw-config", "/mw-config/index.php"] {
        let answer = stand.get(target);
        assert!(answer.field("Cache-Status").unwrap().contains("fixed-answer"), "{}", answer.head);
        assert_eq!(answer.status, 404, "{target}");
    }
    stand.is_upload("/images/example.svg", 3600);

    let alice = stand.visitor();
    stand.open(&alice, "/wiki/Special:UserLogin");
    stand.browser.type_into(&alice, "#wpName1", "Alice");
    stand.browser.type_into(&alice, "#wpPassword1", lab.value("user_password"));
    stand
        .follow(&alice, "document.querySelector('#wpLoginAttempt').click()")
        .is_own("\"wgUserName\":\"Alice\"");
    edit(&mut stand, &alice, "The first words.");
    stand.is_shared("/wiki/Example_test", &["/load.php"]);
    let purges = stand.purges();
    let words = format!("edited behind the example {}", std::process::id());
    edit(&mut stand, &alice, &words);
    stand.strangers_see("/wiki/Example_test", &words);
    stand.open(&alice, "/wiki/Example_test").is_own(&words);
    stand.is_shared("/wiki/Example_test", &["/load.php"]);
    assert!(stand.purges() > purges, "MediaWiki sent no purge");
    stand.no_purge_was_refused();
}

/// Writes a page as MediaWiki's own scripts do.
fn edit(stand: &mut Stand, editor: &BrowserWindow, words: &str) {
    let form =
        json!({"action": "edit", "format": "json", "title": "Example test", "text": words, "summary": words});
    let script = format!(
        "fetch('/api.php?action=query&meta=tokens&format=json').then(answer => answer.json())\
         .then(tokens => fetch('/api.php', {{method: 'POST', body: new URLSearchParams({{...{form},\
         token: tokens.query.tokens.csrftoken}})}})).then(answer => answer.json())\
         .then(answer => answer.edit?.result)"
    );
    assert_eq!(stand.browser.evaluate(editor, &script), "Success");
}
