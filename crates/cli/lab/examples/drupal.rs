//! `examples/drupal` in front of a stub that sends the responses and purges of Drupal 10 with the
//! modules Purge and Varnish Purge. With `PETASOS_EXAMPLES_SOURCE=drupal`, in front of the Drupal
//! lab instead. That Drupal has no module that purges, so the profile's rules for writes must show
//! an edit.

use crate::stand::{Lab, Setup, Stand};
use crate::stub::{Stub, System};

/// Sources: FinishResponseSubscriber.php of Drupal's core, ZeroConfigPurger.php of the module
/// Varnish Purge.
const DRUPAL: System = System {
    article: "/node/1",
    login: "/user/login",
    session: "SSESS7e2a4cc2a4b0f9d1",
    public: &[
        "Cache-Control: max-age=86400, public",
        "Expires: Sun, 19 Nov 1978 05:00:00 GMT",
        "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT",
        "Vary: Cookie",
        "X-Drupal-Cache: MISS",
        "X-Generator: Drupal 10 (https://www.drupal.org)",
        "Cache-Tags: config:system.site http_response node:1 node_list rendered",
    ],
    private: &[
        "Cache-Control: must-revalidate, no-cache, private",
        "Expires: Sun, 19 Nov 1978 05:00:00 GMT",
        "X-Generator: Drupal 10 (https://www.drupal.org)",
    ],
    files: ["/sites/default/files/css/css_9fTk.css", "/sites/default/files/2026-01/door.svg"],
    purge: "BAN /tags HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: GuzzleHttp/7\r\nCache-Tags: node:1 node_list\r\n",
};

/// A picture with a script.
const PICTURE: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>";

#[test]
fn drupal_example_serves_drupal() {
    match std::env::var("PETASOS_EXAMPLES_SOURCE").as_deref() {
        Ok("drupal") => serves_the_lab(&Lab::find("drupal")),
        Ok(other) => panic!("PETASOS_EXAMPLES_SOURCE names {other}"),
        Err(_) => serves_a_stub(),
    }
}

fn stand(host: &str, origin: &str) -> Stand {
    Stand::start(&Setup {
        name: "drupal",
        host,
        plain: None,
        admin: None,
        has_disk: true,
        replacements: &[("http://127.0.0.1:8000", origin)],
    })
}

fn serves_a_stub() {
    let stub = Stub::start(DRUPAL);
    let mut stand = stand("www.drupal.test", &stub.origin.url());
    stand.serves(&stub);
    routes_answer(&stand, "/sites/default/files/2026-01/door.svg");
}

fn serves_the_lab(lab: &Lab) {
    let mut stand = stand(lab.value("host"), &lab.url("nginx_objects"));
    let path = format!("{}/drupal/sites/default/files/door.svg", lab.value("site"));
    std::fs::write(path, PICTURE).unwrap();
    stand.has_the_common_parts();
    for target in ["/", "/node/100"] {
        stand.is_shared(target, &[".css"]);
    }
    routes_answer(&stand, "/sites/default/files/door.svg");

    let alice = stand.visitor();
    stand.open(&alice, "/user/login");
    stand.browser.type_into(&alice, "#edit-name", "alice");
    stand.browser.type_into(&alice, "#edit-pass", lab.value("user_password"));
    stand.follow(&alice, "document.querySelector('#user-login #edit-submit').click()").is_own("alice");
    let title = format!("Edited behind the example {}", std::process::id());
    stand.open(&alice, "/node/100/edit").is_own("edit-title");
    stand.browser.type_into(&alice, "#edit-title", &title);
    stand.follow(&alice, "document.querySelector('#edit-submit').click()").is_own(&title);
    for target in ["/node/100", "/"] {
        stand.strangers_see(target, &title);
        stand.is_shared(target, &[".css"]);
    }
}

fn routes_answer(stand: &Stand, upload: &str) {
    let answer = stand.get("/");
    assert_eq!(answer.field("X-Generator"), None, "{}", answer.head);
    for target in ["/update.php/x", "/core/install.php?profile=standard", "/cron/secret", "/core/Install.php"]
    {
        let answer = stand.get(target);
        assert_eq!(answer.status, 403, "{target}: {}", answer.head);
        assert!(answer.field("Cache-Status").unwrap().contains("fixed-answer"), "{}", answer.head);
    }
    // Spellings of a path that could bypass a route.
    for target in ["//update.php", "/x/../update.php", "/core%2finstall.php"] {
        assert_eq!(stand.get(target).status, 400, "{target}");
    }
    stand.is_upload(upload, 2_592_000);
}
