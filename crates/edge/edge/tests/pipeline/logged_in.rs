//! Copies of pages for one session each (`logged_in = "private"`).
//!
//! Each page names the user of the request that the origin answered, so a page of another user
//! shows at once. A copy is kept after its response was sent, so tests that expect one ask on the
//! same connection: the edge reads the next request after that.

use crate::support::{Stage, behind, connect, reason};
use config::{EdgePlan, LoggedIn};
use profiles::Policy;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testkit::{Action, Client, Gate, Response, Seen, response};

const OWN: &str = "Cache-Control: private, max-age=600";

fn private(plan: &mut EdgePlan) {
    plan.sites[0].policy = Policy::wordpress();
    plan.sites[0].logged_in = LoggedIn::Private;
}

/// The cookie line of a user in their nth session.
fn cookie(user: usize, session: u64) -> String {
    format!("Cookie: _ga=7; wordpress_logged_in_1=user{user}.{session}")
}

/// What the request says about its user.
fn user_of(seen: &Seen) -> &str {
    let cookies = seen.field("Cookie").unwrap_or_default();
    cookies.split("wordpress_logged_in_1=").nth(1).map_or("nobody", |rest| rest.split(';').next().unwrap())
}

fn page(seen: &Seen, fields: &[&str]) -> Vec<Action> {
    let text = format!("<{}> {} {}", user_of(seen), seen.target(), seen.field("Accept").unwrap_or_default());
    response("200 OK", fields, text.as_bytes())
}

fn stage() -> Stage {
    Stage::with(private, |seen| page(seen, &[OWN]))
}

/// The response to a request without content on this connection.
fn ask(client: &mut Client, method: &str, target: &str, cookies: &str) -> Response {
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: example.test\r\n{cookies}\r\nContent-Length: 0\r\n\r\n"
    ));
    client.read()
}

fn reasons(answers: &[Response]) -> Vec<&str> {
    answers.iter().map(reason).collect()
}

#[test]
fn session_gets_its_own_copy_and_nobody_else_does() {
    let stage = stage();
    let mut client = connect(&stage.edge);
    let (ann, ben) = (cookie(1, 0), cookie(2, 0));
    for (fields, expected, user) in [
        (vec![&ann[..]], "pass-private", "<user1.0>"),
        (vec![&ann[..]], "hit-private", "<user1.0>"),
        (vec![&ben[..]], "pass-private", "<user2.0>"),
        (vec![&ben[..]], "hit-private", "<user2.0>"),
        (vec![], "store-refused-private", "<nobody>"),
        (vec![&ann[..], "Accept: text/html"], "pass-private", "<user1.0>"),
        (vec![&ann[..], "X-Requested-With: XMLHttpRequest"], "pass-private", "<user1.0>"),
        (vec!["Cookie: wordpress_logged_in_1=user1.0; theme=dark"], "pass-private", "<user1.0>"),
        (vec!["Cookie: wordpress_logged_in_1=user1.0; _ga=8"], "hit-private", "<user1.0>"),
        (vec![&ann[..], "Cache-Control: no-cache"], "pass-private", "<user1.0>"),
        (vec![&ann[..], "Authorization: Basic eA=="], "pass-authorization", "<user1.0>"),
    ] {
        let answer = client.get("/", &fields);
        assert_eq!(reason(&answer), expected, "{fields:?}");
        assert!(answer.text().contains(user), "{fields:?}: {}", answer.text());
        if expected.ends_with("private") && expected != "store-refused-private" {
            assert_eq!(answer.field("Cache-Control"), Some("private, no-cache"));
        }
    }
    assert_eq!(stage.metric("petasos_private_sessions", ""), 2);
    assert_eq!(stage.metric("petasos_store_objects", ""), 0, "nothing is in the store");
    stage.pass(601);
    assert_eq!(reason(&stage.get("/", &[&ann])), "pass-private", "never stale");
}

#[test]
fn site_without_the_mode_passes() {
    let stage = Stage::with(|plan| plan.sites[0].policy = Policy::wordpress(), |seen| page(seen, &[OWN]));
    let ann = cookie(1, 0);
    let answers = [stage.get("/", &[&ann]), stage.get("/", &[&ann])];
    assert_eq!(reasons(&answers), ["pass-cookie"; 2]);
}

#[test]
fn only_permitted_responses_are_kept() {
    let cases: [(&[&str], Option<u64>, bool); 7] = [
        (&["Cache-Control: private, max-age=600, no-store"], Some(60), false),
        (&["Cache-Control: private, no-cache"], Some(60), false),
        (&[OWN, "Set-Cookie: a=1"], Some(60), false),
        (&[OWN, "Vary: X-Currency"], Some(60), false),
        (&[OWN, "Vary: Cookie"], None, true),
        (&["Cache-Control: private"], None, false),
        (&["Cache-Control: private"], Some(60), true),
    ];
    for (fields, ttl_secs, kept) in cases {
        let change = |plan: &mut EdgePlan| {
            private(plan);
            plan.sites[0].private_ttl = ttl_secs.map(Duration::from_secs);
        };
        let owned: Vec<String> = fields.iter().map(ToString::to_string).collect();
        let stage = Stage::with(change, move |seen| {
            page(seen, &owned.iter().map(String::as_str).collect::<Vec<_>>())
        });
        let (mut client, ann) = (connect(&stage.edge), cookie(1, 0));
        client.get("/", &[&ann]);
        let expected = if kept { "hit-private" } else { "pass-private" };
        assert_eq!(reason(&client.get("/", &[&ann])), expected, "{fields:?} {ttl_secs:?}");
        assert_eq!(reason(&client.get("/wp-admin/", &[&ann])), "pass-path");
    }
}

#[test]
fn write_and_new_cookie_end_the_session() {
    let stage = Stage::with(private, |seen| match seen.target() {
        "/logout" => response("200 OK", &["Set-Cookie: wordpress_logged_in_1=; Max-Age=0"], b"bye"),
        _ => page(seen, &[OWN]),
    });
    let (ann, ben) = (cookie(1, 0), cookie(2, 0));
    let mut client = connect(&stage.edge);
    // The request of a write often has further cookies, which have other paths.
    let more = format!("{ann}; wordpress_sec_1=x");
    for (method, target) in
        [("POST", "/save"), ("DELETE", "/x"), ("GET", "/wp-admin/edit.php"), ("GET", "/logout")]
    {
        for fields in [&ann, &ben] {
            client.get("/", &[fields]);
            assert_eq!(reason(&client.get("/", &[fields])), "hit-private");
        }
        ask(&mut client, method, target, &more);
        assert_eq!(reason(&client.get("/", &[&ann])), "pass-private", "{method} {target}");
        assert_eq!(reason(&client.get("/", &[&ben])), "hit-private", "another session");
    }
}

#[test]
fn response_from_before_a_write_is_not_kept() {
    let gate = Gate::default();
    let held = gate.clone();
    let stage = Stage::with(private, move |seen| match seen.target() {
        "/slow" => behind(&held, page(seen, &[OWN])),
        _ => page(seen, &[OWN]),
    });
    let ann = cookie(1, 0);
    let mut slow = stage.begin("GET", "/slow", &[&ann]);
    stage.await_seen(1);
    let mut client = connect(&stage.edge);
    ask(&mut client, "POST", "/save", &ann);
    gate.open();
    assert_eq!(reason(&slow.read()), "pass-private");
    slow.get("/other", &[]);
    assert_eq!(reason(&client.get("/slow", &[&ann])), "pass-private");
    assert_eq!(reason(&client.get("/slow", &[&ann])), "hit-private");
}

#[test]
fn purges_reach_private_copies() {
    let stage = Stage::with(private, |seen| page(seen, &[OWN, "Surrogate-Key: news"]));
    let (mut client, ann) = (connect(&stage.edge), cookie(1, 0));
    for purge in ["page", "tag", "everything"] {
        for target in ["/a", "/b"] {
            client.get(target, &[&ann]);
            assert_eq!(reason(&client.get(target, &[&ann])), "hit-private");
        }
        let everything = r#"{"purge_everything":true}"#;
        let purged = match purge {
            "page" => stage.ask("PURGE", "/a", &[]),
            "tag" => stage.ask("PURGE", "/", &["Surrogate-Key: news"]),
            _ => stage.call_admin("POST", "/client/v4/zones/any/purge_cache", everything),
        };
        assert_eq!(purged.status, 200, "{}", purged.text());
        assert_eq!(reason(&client.get("/a", &[&ann])), "pass-private", "{purge}");
        let other = if purge == "page" { "hit-private" } else { "pass-private" };
        assert_eq!(reason(&client.get("/b", &[&ann])), other, "{purge}");
    }
}

#[test]
fn why_names_the_copy_without_using_it() {
    let stage = stage();
    let ask = |headers: &str| {
        let question = format!(r#"{{"url":"http://example.test/","headers":[{headers}]}}"#);
        stage.call_admin("POST", "/why", &question)
    };
    let of_ann = r#"["Cookie","wordpress_logged_in_1=user1.0"],["X-Forwarded-For","127.0.0.1"]"#;
    let without = ask(of_ann);
    assert!(without.text().contains("pass-private"), "{}", without.text());
    assert!(without.text().contains("wordpress_logged_in_1"), "{}", without.text());
    let mut client = connect(&stage.edge);
    client.get("/", &[&cookie(1, 0)]);
    assert_eq!(reason(&client.get("/", &[&cookie(1, 0)])), "hit-private");
    assert!(ask(of_ann).text().contains("hit-private"), "{}", ask(of_ann).text());
    let elsewhere = of_ann.replace("127.0.0.1", "192.0.2.7");
    assert!(ask(&elsewhere).text().contains("pass-private"), "a session belongs to its address");
    stage.await_seen(1);
}

/// Users read, write, log in and out and change roles at the same time, with purges in between.
/// Returns the number of pages that were not the user's own, and the number of hits.
fn mix_users(users: usize, rounds: u64) -> (u64, u64) {
    let stage = stage();
    let (wrong, hits) = (AtomicU64::new(0), AtomicU64::new(0));
    let visit = |user: usize| {
        let mut client = connect(&stage.edge);
        for round in 0..rounds {
            // A new role or a new log-in is a new session of the same user.
            let session = round / 5;
            let own = cookie(user, session);
            for target in ["/", "/a", "/"] {
                let answer = client.get(target, &[&own]);
                let expected = format!("<user{user}.{session}> {target} ");
                wrong.fetch_add(u64::from(answer.text() != expected), Ordering::Relaxed);
                hits.fetch_add(u64::from(reason(&answer) == "hit-private"), Ordering::Relaxed);
            }
            match round % 5 {
                1 => drop(ask(&mut client, "POST", "/save", &own)),
                3 if user == 0 => drop(stage.ask("PURGE", "/a", &[])),
                _ => {}
            }
            let public = client.get("/", &[]);
            wrong.fetch_add(u64::from(!public.text().starts_with("<nobody>")), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for user in 0..users {
            let visit = &visit;
            scope.spawn(move || visit(user));
        }
    });
    (wrong.load(Ordering::Relaxed), hits.load(Ordering::Relaxed))
}

#[test]
fn two_users_never_see_each_other() {
    let (wrong, hits) = mix_users(2, 40);
    assert_eq!(wrong, 0);
    assert!(hits >= 2 * 40, "{hits}");
}

#[test]
fn fifty_users_never_see_each_other() {
    let (wrong, hits) = mix_users(50, 8);
    assert_eq!(wrong, 0);
    assert!(hits >= 50 * 8, "{hits}");
}
