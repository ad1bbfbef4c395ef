//! Detection of a site's profile, and its effect on pages that were stored before.

use crate::support::{Stage, bare, behind, reason};
use api::profile::{ProfileRefusal, ProfileReply};
use api::status::EdgeStatus;
use config::{DiskPlan, EdgePlan};
use testkit::{Action, Gate, Seen, response};

const FRESH: &str = "Cache-Control: max-age=60";
const WORDPRESS: &str = "Link: <http://example.test/wp-json/>; rel=\"https://api.w.org/\"";

const HTML: &str = "Content-Type: text/html; charset=UTF-8";
/// The start page of a WordPress site that sends no `Link` field.
const WORDPRESS_PAGE: &str = "<html><head><meta name=\"generator\" content=\"WordPress 6.1.9\">\
     <link rel=\"stylesheet\" href=\"http://example.test/wp-includes/css/a.css\"></head><body>";

/// A page as WordPress sends it to anonymous visitors.
fn blog(_: &Seen) -> Vec<Action> {
    response("200 OK", &[WORDPRESS, "Content-Type: text/html"], b"post")
}

/// The answers of `/why` and `/status` about the profile.
fn told(stage: &Stage) -> (String, String) {
    let why = stage.call_admin("POST", "/why", "{\"url\":\"http://example.test/\"}").text().to_owned();
    (why, stage.call_admin("GET", "/status", "").text().to_owned())
}

#[test]
fn detected_site_is_shared_by_the_rules_of_its_profile() {
    let stage = Stage::new(blog);
    let (why, status) = told(&stage);
    for text in [&why, &status] {
        assert!(text.contains("\"profile\": \"auto\"") && text.contains("\"rules\": \"default\""), "{text}");
        assert!(text.contains("\"recognised_by\": null"), "{text}");
    }
    // The first rules would not share this response. The new rules may, although it was fetched
    // before the change.
    let first = stage.get("/", &[]);
    assert!(!reason(&first).starts_with("hit"), "{}", first.head);
    stage.get("/", &[]);
    assert_eq!(reason(&stage.get("/", &["Cookie: wordpress_test_cookie=1"])), "hit-fresh");
    assert_eq!(reason(&stage.get("/", &["Cookie: wordpress_logged_in_0a=1"])), "pass-cookie");
    assert_eq!(reason(&stage.get("/wp-admin/", &[])), "pass-path");
    let (why, status) = told(&stage);
    for text in [&why, &status] {
        assert!(text.contains("\"rules\": \"wordpress\"") && text.contains("api.w.org"), "{text}");
    }
    assert_eq!(stage.metric("petasos_sites_recognised_total", ""), 1);
}

#[test]
fn site_without_signs_keeps_the_default_rules() {
    let stage = Stage::new(|_| {
        response("200 OK", &["X-Powered-By: PHP/8.2", "Set-Cookie: SESSION=1"], b"a /wp-content/ b")
    });
    for _ in 0..3 {
        assert_eq!(reason(&stage.get("/", &[])), "store-refused-set-cookie");
    }
    stage.becomes(|_| response("200 OK", &["Content-Type: text/html"], b"<p>/wp-content/ /wp-includes/</p>"));
    for target in ["/a", "/b"] {
        assert_eq!(reason(&stage.get(target, &[])), "store-refused-no-freshness");
    }
    assert_eq!(stage.metric("petasos_sites_recognised_total", ""), 0);
}

#[test]
fn configured_profile_is_not_replaced_by_detection() {
    for policy in [profiles::Policy::default_profile(), profiles::Policy::rfc()] {
        let chosen = |plan: &mut EdgePlan| {
            plan.sites[0].policy = policy.clone();
            plan.sites[0].recognisable.clear();
        };
        let stage = Stage::with(chosen, blog);
        for _ in 0..3 {
            assert_eq!(reason(&stage.get("/", &[])), "store-refused-no-freshness", "{}", policy.name);
        }
    }
}

#[test]
fn documents_are_inspected_for_every_kind_of_response() {
    // Covers a request that passes, shared and private responses, gzip and identity, and content in
    // one or several pieces.
    let passes = Stage::new(blog);
    passes.get("/a", &["Cookie: theme=1"]);
    let page = WORDPRESS_PAGE.as_bytes();
    let packed: &[u8] = include_bytes!("support/wordpress.html.gz");
    const GZIP: &str = "Content-Encoding: gzip";
    let mut stages = vec![passes];
    stages.push(Stage::new(|_| response("200 OK", &[HTML], page)));
    stages.push(Stage::new(|_| response("200 OK", &[HTML, FRESH], page)));
    stages.push(Stage::new(|_| response("200 OK", &[HTML, GZIP], packed)));
    stages.push(Stage::new(|_| response("200 OK", &[HTML, GZIP, FRESH], packed)));
    for fields in [&[HTML][..], &[HTML, FRESH]] {
        stages.push(Stage::new(move |_| in_pieces(fields, page)));
    }
    for (number, stage) in stages.iter().enumerate() {
        stage.get("/", &["Accept-Encoding: gzip"]);
        let recognised = || stage.metric("petasos_sites_recognised_total", "") == 1;
        testkit::eventually(&format!("stage {number} is recognised"), recognised);
    }
}

/// A page whose content is sent in pieces of 40 bytes.
fn in_pieces(fields: &[&str], page: &[u8]) -> Vec<Action> {
    let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let head = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: {}\r\n\r\n", page.len());
    let pieces = page.chunks(40).map(|piece| Action::Send(piece.to_vec()));
    [Action::Send(head.into_bytes())].into_iter().chain(pieces).collect()
}

#[test]
fn redirect_target_of_the_root_counts_as_start_page() {
    let wiki = "<html><head><meta name=\"generator\" content=\"MediaWiki 1.39.17\">\
                <link rel=\"stylesheet\" href=\"/load.php?lang=en&amp;modules=skins.vector&amp;only=styles\"></head>";
    let stage = Stage::new(move |seen| match seen.target() {
        "/" => bare("301 Moved", &["Location: http://example.test/wiki/Welcome", "Content-Length: 0"]),
        _ => response("200 OK", &[HTML], wiki.as_bytes()),
    });
    stage.get("/wiki/Welcome", &[]);
    // A redirect that may depend on the visitor's cookie does not count.
    stage.get("/", &["Cookie: back=1"]);
    stage.get("/wiki/Welcome", &[]);
    assert_eq!(stage.metric("petasos_sites_recognised_total", ""), 0, "it may be an upload");
    stage.get("/", &[]);
    stage.get("/wiki/Other", &[]);
    assert_eq!(stage.metric("petasos_sites_recognised_total", ""), 0, "another page may be an upload too");
    stage.get("/wiki/Welcome", &[]);
    // The worker inspects the document after it has sent the response.
    let recognised = || stage.metric("petasos_sites_recognised_total", "") == 1;
    testkit::eventually("the wiki is recognised", recognised);
    let (why, _) = told(&stage);
    assert!(why.contains("generator: MediaWiki 1.39.17 and asset: /load.php"), "{why}");
}

#[test]
fn admin_of_wagtail_is_recognised_by_page_and_cookie() {
    let login = "<html><head><link rel=\"stylesheet\" href=\"/static/wagtailadmin/css/core.css\"></head>";
    let stage = Stage::new(move |_| {
        response("200 OK", &[HTML, "Set-Cookie: csrftoken=x; Path=/", "Vary: Cookie"], login.as_bytes())
    });
    let mut client = crate::support::connect(&stage.edge);
    client.get("/admin/login/", &[]);
    client.get("/admin/login/", &[]);
    assert!(told(&stage).1.contains("\"rules\": \"wagtail\""));
}

#[test]
fn documents_beyond_the_rate_are_not_parsed() {
    let stage = Stage::new(|_| response("200 OK", &[HTML], b"<html><head>"));
    let mut client = crate::support::connect(&stage.edge);
    for _ in 0..70 {
        client.get("/", &[]);
    }
    assert_eq!(stage.metric("petasos_detection_documents_total", ""), 60);
    stage.pass(60);
    client.get("/", &[]);
    client.get("/", &[]);
    assert!(stage.metric("petasos_detection_documents_total", "") > 60);
}

#[test]
fn detection_without_confirmation_expires() {
    let stage = Stage::new(blog);
    stage.get("/", &[]);
    stage.get("/a", &[]);
    stage.pass(6 * 24 * 3600);
    stage.get("/b", &[]);
    // The request above confirmed the detection; from here on no response shows a sign.
    stage.becomes(|_| response("200 OK", &[HTML, FRESH], b"other"));
    stage.pass(6 * 24 * 3600);
    stage.get("/c", &[]);
    assert!(told(&stage).1.contains("\"rules\": \"wordpress\""));
    assert_eq!(reason(&stage.get("/c", &[])), "hit-fresh");
    stage.pass(30);
    assert_eq!(reason(&stage.get("/c", &[])), "hit-fresh");
    stage.pass(24 * 3600 - 60);
    stage.get("/d", &[]);
    assert!(told(&stage).1.contains("\"rules\": \"wordpress\""));
    stage.pass(60);
    stage.get("/e", &[]);
    let (why, status) = told(&stage);
    for text in [&why, &status] {
        assert!(
            text.contains("\"rules\": \"default\"") && text.contains("\"recognised_by\": null"),
            "{text}"
        );
    }
    assert_eq!(stage.metric("petasos_detections_dropped_total", ""), 1);
    stage.await_quiet();
    assert_eq!(reason(&stage.get("/d", &[])), "miss-absent", "stored by the rules before");
    stage.becomes(blog);
    stage.get("/f", &[]);
    assert!(told(&stage).1.contains("\"rules\": \"wordpress\""), "it is detected again");
}

/// The status of the response to a call about the detected profile.
fn call(stage: &Stage, content: &str) -> u16 {
    stage.call_admin("POST", "/profile", content).status
}

#[test]
fn operator_call_drops_a_detection_and_allows_it_again() {
    let stage = Stage::new(blog);
    stage.get("/", &[]);
    stage.get("/", &[]);
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
    assert_eq!(call(&stage, "{\"site\":\"any\",\"detect\":false}"), 200);
    let status = told(&stage).1;
    assert!(
        status.contains("\"rules\": \"default\"") && status.contains("\"recognition_off\": true"),
        "{status}"
    );
    for _ in 0..2 {
        assert_eq!(
            reason(&stage.get("/", &[])),
            "store-refused-no-freshness",
            "neither stored nor detected again"
        );
    }
    assert_eq!(call(&stage, "{\"site\":\"any\",\"detect\":true}"), 200);
    stage.get("/x", &[]);
    assert!(told(&stage).1.contains("\"rules\": \"wordpress\""));
    for (content, status) in [
        ("{\"site\":\"other\",\"detect\":false}", 404),
        ("{\"site\":\"any\"}", 400),
        ("{\"site\":\"any\",\"detect\":1,\"x\":2}", 400),
        ("", 400),
    ] {
        assert_eq!(call(&stage, content), status, "{content}");
    }
    assert_eq!(stage.call_admin("GET", "/profile", "").status, 405);
    assert!(told(&stage).1.contains("\"rules\": \"wordpress\""));
    assert_eq!(stage.metric("petasos_detections_dropped_total", ""), 1);
}

#[test]
fn call_that_the_disk_cannot_record_is_answered_503() {
    let (directory, stage) = detected_on_disk();
    // The file of detections is first written under this name.
    let in_the_way = directory.path().join(format!("recognised.{}.partial", std::process::id()));
    std::fs::create_dir(&in_the_way).unwrap();
    let ask = || stage.call_admin("POST", "/profile", "{\"site\":\"any\",\"detect\":false}");
    let answer = ask();
    assert_eq!(answer.status, 503, "{}", answer.head);
    for words in ["\"in_force\": true", "\"durable\": false", "a restart may undo it"] {
        assert!(answer.text().contains(words), "{words} in\n{}", answer.text());
    }
    assert!(told(&stage).1.contains("\"recognition_off\": true"), "it is in force");
    std::fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(ask().status, 200);
}

#[test]
fn replies_about_profiles_and_the_status_parse_as_their_types() {
    let (directory, stage) = detected_on_disk();
    let done = stage.call_admin("POST", "/profile", "{\"site\":\"any\",\"detect\":false}");
    let expected = "{\n  \"before\": \"wordpress\",\n  \"detect\": false,\n  \"rules\": \"default\",\n  \
                    \"site\": \"any\"\n}\n";
    assert_eq!(done.text(), expected);
    let done: ProfileReply = serde_json::from_str(done.text()).unwrap();
    assert_eq!((&done.before[..], &done.rules[..]), ("wordpress", "default"));
    let refused = stage.call_admin("POST", "/profile", "{\"site\":\"b\",\"detect\":false}");
    assert_eq!(refused.text(), "{\n  \"error\": \"There is no site `b`.\"\n}\n");
    let refused: ProfileRefusal = serde_json::from_str(refused.text()).unwrap();
    assert_eq!((refused.in_force, refused.durable), (None, None));
    let status: EdgeStatus = serde_json::from_str(&told(&stage).1).unwrap();
    assert!(status.sites[0].recognition_off);
    assert_eq!(status.disk.unwrap().directory, directory.path().display().to_string());
}

#[test]
fn call_about_the_profile_needs_permission_to_purge() {
    let stage = Stage::new(blog);
    stage.get("/", &[]);
    let content = "{\"site\":\"any\",\"detect\":false}";
    let call = |fields: &str| {
        let (length, json) = (content.len(), "Content-Type: application/json");
        let head =
            format!("POST /profile HTTP/1.1\r\n{json}\r\nContent-Length: {length}\r\n{fields}\r\n\r\n");
        crate::support::admin(&stage.edge, &format!("{head}{content}")).status
    };
    assert_eq!(call("Host: localhost\r\nX-Forwarded-For: 192.0.2.1"), 403);
    assert_eq!(call("Host: evil.test"), 403);
    assert_eq!(call("Host: localhost\r\nOrigin: http://evil.test"), 403);
    assert!(told(&stage).1.contains("\"rules\": \"wordpress\""));
}

#[test]
fn configured_profile_cannot_be_dropped_by_a_call() {
    let stage = Stage::with(|plan| plan.sites[0].recognisable.clear(), blog);
    assert_eq!(call(&stage, "{\"site\":\"any\",\"detect\":false}"), 409);
}

#[test]
fn responses_stored_before_a_detection_are_not_used_after_it() {
    let stage = Stage::new(|seen| response("200 OK", &[FRESH], seen.target().as_bytes()));
    for target in ["/", "/a"] {
        stage.get(target, &[]);
        assert_eq!(reason(&stage.get(target, &[])), "hit-fresh");
    }
    stage.becomes(|seen| {
        response("200 OK", &[FRESH, HTML, WORDPRESS], format!("new {}", seen.target()).as_bytes())
    });
    stage.get("/b", &[]);
    for target in ["/", "/a", "/b"] {
        assert_eq!(stage.get(target, &[]).text(), format!("new {target}"));
    }
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
}

#[test]
fn fetch_begun_before_a_detection_is_not_stored() {
    let gate = Gate::default();
    let held = gate.clone();
    let stage = Stage::new(move |seen| match seen.target() {
        "/slow" => behind(&held, response("200 OK", &[FRESH], b"slow")),
        _ => blog(seen),
    });
    let mut slow = stage.begin("GET", "/slow", &[]);
    stage.await_seen(1);
    stage.get("/", &[]);
    assert_eq!(stage.metric("petasos_sites_recognised_total", ""), 1);
    gate.open();
    assert_eq!(slow.read().text(), "slow");
    stage.await_quiet();
    assert_eq!(reason(&stage.get("/slow", &[])), "miss-absent", "it was not stored");
    assert_eq!(reason(&stage.get("/slow", &[])), "hit-fresh");
}

#[test]
fn detection_and_later_responses_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let disk = disk(&directory);
    let on_disk = |plan: &mut EdgePlan| plan.disk = Some(disk.clone());
    let first = Stage::with(on_disk, |seen| response("200 OK", &[FRESH], seen.target().as_bytes()));
    first.get("/before", &[]);
    first.becomes(blog);
    first.get("/x", &[]);
    first.get("/after", &[]);
    assert_eq!(reason(&first.get("/after", &[])), "hit-fresh");
    testkit::eventually("the profile is recorded", || directory.path().join("recognised").exists());
    let (origin, edge) = (first.origin, first.edge);
    drop(edge);
    let mut plan = crate::support::plan(&origin.url());
    on_disk(&mut plan);
    let second = crate::support::start_at(plan, first.clock);
    let get = |target| crate::support::connect(&second).get(target, &[]);
    assert_eq!(reason(&get("/after")), "hit-fresh");
    assert_eq!(reason(&get("/before")), "miss-absent");
    assert_eq!(crate::support::metric(&second, "petasos_sites_recognised_total", ""), 0, "it knew");
}

/// A directory with a disk tier, and an edge that has detected WordPress and recorded that there.
fn detected_on_disk() -> (tempfile::TempDir, Stage) {
    let directory = tempfile::tempdir().unwrap();
    let disk = disk(&directory);
    let stage = Stage::with(move |plan| plan.disk = Some(disk), blog);
    stage.get("/", &[]);
    testkit::eventually("the profile is recorded", || directory.path().join("recognised").exists());
    (directory, stage)
}

fn disk(directory: &tempfile::TempDir) -> DiskPlan {
    DiskPlan {
        directory: directory.path().to_owned(),
        bytes_max: 16 << 20,
        power_safe_purges: false,
        state_directory: None,
        runtime_directory: None,
    }
}

/// The rules of the next process, after `between` was applied to the file of detections.
fn rules_after(between: impl FnOnce(&std::path::Path, &Stage)) -> String {
    let (directory, stage) = detected_on_disk();
    between(&directory.path().join("recognised"), &stage);
    let Stage { origin, edge, clock, .. } = stage;
    drop(edge);
    let mut plan = crate::support::plan(&origin.url());
    plan.disk = Some(disk(&directory));
    let second = crate::support::start_at(plan, clock);
    let status = crate::support::admin(&second, "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let status: serde_json::Value = serde_json::from_str(status.text()).unwrap();
    status["sites"][0]["rules"].as_str().unwrap().to_owned()
}

#[test]
fn recorded_detection_is_used_unless_it_does_not_fit() {
    let written =
        |text: &'static str| move |file: &std::path::Path, _: &Stage| std::fs::write(file, text).unwrap();
    assert_eq!(rules_after(|_, _| {}), "wordpress");
    assert_eq!(rules_after(written("any http://127.0.0.1:1 wordpress generator: WordPress\n")), "default");
    assert_eq!(rules_after(written("{\"format\":3,\"sites\":[]}")), "default");
    assert_eq!(rules_after(|_, stage| stage.pass(6 * 24 * 3600)), "wordpress");
    assert_eq!(rules_after(|_, stage| stage.pass(7 * 24 * 3600)), "default");
    let changed = |from: &'static str, to: &'static str| {
        move |file: &std::path::Path, _: &Stage| {
            let text = std::fs::read_to_string(file).unwrap();
            assert!(text.contains(from), "{text}");
            std::fs::write(file, text.replace(from, to)).unwrap();
        }
    };
    assert_eq!(rules_after(changed("\"wordpress\"", "\"rfc\"")), "default");
    assert_eq!(rules_after(changed("\"site\": \"any\"", "\"site\": \"a.test\"")), "default");
}

#[test]
fn switched_off_detection_stays_off_after_a_restart() {
    let refused = |_: &std::path::Path, stage: &Stage| {
        assert_eq!(call(stage, "{\"site\":\"any\",\"detect\":false}"), 200);
    };
    assert_eq!(rules_after(refused), "default");
}

#[test]
fn lost_detection_file_brings_no_purged_page_back() {
    let directory = tempfile::tempdir().unwrap();
    let own_disk = disk(&directory);
    let first = Stage::with(move |plan| plan.disk = Some(own_disk), |_| response("200 OK", &[FRESH], b"old"));
    first.get("/page", &[]);
    testkit::eventually("it is on the disk", || first.metric("petasos_disk_written_total", "") > 0);
    // The files as after a kill that came before the removal of the page was written: the record is
    // there, and so is the journal.
    let crashed = tempfile::tempdir().unwrap();
    let copy = |is_meant: &dyn Fn(&str) -> bool| {
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
            if is_meant(name.to_str().unwrap()) {
                std::fs::copy(&path, crashed.path().join(name)).unwrap();
            }
        }
    };
    copy(&|_| true);
    first.becomes(blog);
    first.get("/x", &[]);
    testkit::eventually("the profile is recorded", || directory.path().join("recognised").exists());
    copy(&|name| name == "invalidations");
    let mut plan = crate::support::plan(&first.origin.url());
    plan.disk = Some(disk(&crashed));
    let second = crate::support::start_at(plan, first.clock);
    assert_eq!(reason(&crate::support::connect(&second).get("/page", &[])), "miss-absent");
}

#[test]
fn detection_clears_the_hit_for_miss_entries() {
    let stage = Stage::new(|seen| match seen.target() {
        "/feed" => response("200 OK", &[WORDPRESS, HTML], b"feed"),
        _ => response("200 OK", &[], b"page"),
    });
    for _ in 0..2 {
        assert_eq!(reason(&stage.get("/", &[])), "store-refused-no-freshness");
    }
    stage.get("/feed", &[]);
    stage.get("/", &[]);
    assert_eq!(reason(&stage.get("/", &[])), "hit-fresh");
}
