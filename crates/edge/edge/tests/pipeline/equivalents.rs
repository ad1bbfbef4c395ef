//! Targets that are equivalent by `No-Vary-Search`, and responses that never or no longer state the
//! rule.

use crate::support::{Stage, behind, reason, tagged};
use testkit::{Action, Gate, Seen, response};

const RULE: &str = "No-Vary-Search: params=(\"utm\")";
const MINUTE: &str = "Cache-Control: max-age=60, must-revalidate";
const GERMAN: &[&str] = &["Accept-Language: de"];
const ENGLISH: &[&str] = &["Accept-Language: en"];

/// A response with these fields whose content names the target and the language.
fn named(seen: &Seen, fields: &[&str]) -> Vec<Action> {
    let content = format!("{} {}", seen.target(), seen.field("Accept-Language").unwrap_or_default());
    response("200 OK", fields, content.trim_end().as_bytes())
}

/// An origin whose German pages state no rule.
fn bilingual() -> Stage {
    Stage::new(|seen| {
        let fields = [MINUTE, "Vary: Accept-Language", RULE];
        let is_german = seen.field("Accept-Language") == Some("de");
        named(seen, if is_german { &fields[..2] } else { &fields })
    })
}

#[test]
fn variant_without_a_rule_is_used_only_for_its_own_target() {
    let stage = bilingual();
    for (target, language, content) in [
        ("/a?utm=1", GERMAN, "/a?utm=1 de"),
        ("/a?utm=1", ENGLISH, "/a?utm=1 en"),
        ("/a?utm=2", ENGLISH, "/a?utm=1 en"),
        ("/a?utm=2", GERMAN, "/a?utm=2 de"),
        ("/a?utm=3", GERMAN, "/a?utm=3 de"),
        ("/a?utm=1", GERMAN, "/a?utm=1 de"),
    ] {
        assert_eq!(stage.get(target, language).text(), content, "{target}");
    }
    for target in ["/a?utm=2", "/a?utm=3"] {
        let again = stage.get(target, GERMAN);
        assert_eq!((again.text(), reason(&again)), (&format!("{target} de")[..], "hit-fresh"));
    }
}

#[test]
fn error_of_one_variant_leaves_the_others_stored() {
    let stage = Stage::new(|seen| {
        if seen.field("Accept-Language") == Some("de") {
            let fields = ["Cache-Control: max-age=5", "Vary: Accept-Language"];
            return response("503 Service Unavailable", &fields, b"closed");
        }
        named(seen, &[MINUTE, "Vary: Accept-Language", RULE])
    });
    assert_eq!(stage.get("/a?utm=1", ENGLISH).text(), "/a?utm=1 en");
    assert_eq!(stage.get("/a?utm=1", GERMAN).text(), "closed");
    for target in ["/a?utm=1", "/a?utm=2"] {
        let english = stage.get(target, ENGLISH);
        assert_eq!((english.text(), reason(&english)), ("/a?utm=1 en", "hit-fresh"), "{target}");
    }
}

#[test]
fn response_that_ends_the_rule_is_used_for_no_other_target() {
    for fields in [&[MINUTE][..], &["Cache-Control: private"], &[MINUTE, "No-Vary-Search: params=(\"x\")"]] {
        let stage = Stage::new(|seen| named(seen, &[MINUTE, RULE]));
        stage.get("/a?utm=1", &[]);
        assert_eq!(stage.get("/a?utm=2", &[]).text(), "/a?utm=1");
        stage.pass(61);
        let gate = Gate::default();
        let closed = gate.clone();
        stage.becomes(move |seen| behind(&closed, named(seen, fields)));
        let leader = stage.begin("GET", "/a?utm=2", &[]);
        let flying = || stage.metric("petasos_flight_waits_total", "");
        testkit::eventually("the fetch has a leader", || stage.metric("petasos_flights_open", "") == 1);
        let before = flying();
        let follower = stage.begin("GET", "/a?utm=3", &[]);
        testkit::eventually("a request follows", || flying() == before + 1);
        gate.open();
        for (mut client, target) in [(leader, "/a?utm=2"), (follower, "/a?utm=3")] {
            assert_eq!(client.read().text(), target, "{fields:?}");
        }
        assert_eq!(stage.get("/a?utm=4", &[]).text(), "/a?utm=4", "{fields:?}");
    }
}

#[test]
fn rule_changed_by_a_304_applies_from_then_on() {
    let stage = Stage::new(|seen| tagged(seen, "\"1\"", &[MINUTE, RULE], seen.target()));
    stage.get("/a?utm=1", &[]);
    assert_eq!(stage.get("/a?utm=2", &[]).text(), "/a?utm=1");
    stage.pass(61);
    stage.becomes(|seen| tagged(seen, "\"1\"", &[MINUTE, "No-Vary-Search: params=(\"x\")"], seen.target()));
    assert_eq!(stage.get("/a?utm=2", &[]).text(), "/a?utm=2");
    assert_eq!(stage.get("/a?utm=1", &[]).text(), "/a?utm=1");
    assert_eq!(stage.get("/a?utm=1&x=1", &[]).text(), "/a?utm=1", "the new rule");
}

#[test]
fn head_of_another_target_without_the_rule_renews_nothing() {
    let page = |fields: &'static [&str]| {
        move |seen: &Seen| {
            let fields = [fields, &["ETag: \"1\""]].concat();
            if seen.head.starts_with("HEAD") {
                crate::support::bare("200 OK", &fields)
            } else {
                named(seen, &fields)
            }
        }
    };
    let stage = Stage::new(page(&[MINUTE, RULE]));
    stage.get("/a?utm=1", &[]);
    stage.pass(61);
    stage.becomes(page(&[MINUTE]));
    assert_eq!(stage.ask("HEAD", "/a?utm=2", &[]).status, 200);
    assert_eq!(stage.last_seen().target(), "/a?utm=2", "the HEAD is about its own target");
    assert_eq!(stage.get("/a?utm=2", &[]).text(), "/a?utm=2");
}

#[test]
fn page_that_lost_its_rule_stays_purged() {
    let stage = bilingual();
    stage.get("/a?utm=1", ENGLISH);
    stage.get("/a?utm=1", GERMAN);
    assert_eq!(stage.ask("PURGE", "/a?utm=9", &[]).status, 200);
    stage.becomes(|seen| {
        let is_german = seen.field("Accept-Language") == Some("de");
        let fields = [MINUTE, "Vary: Accept-Language", RULE];
        response("200 OK", if is_german { &fields[..2] } else { &fields }, b"new")
    });
    // The rule is learned for another target, and ended by its German variant.
    stage.get("/a?utm=3", ENGLISH);
    stage.get("/a?utm=3", GERMAN);
    assert_eq!(stage.get("/a?utm=1", ENGLISH).text(), "new");
}
