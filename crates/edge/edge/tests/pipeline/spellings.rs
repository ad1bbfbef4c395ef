//! A purge covers a page under every percent-encoding of its URL, and a write covers it under every
//! name of its site.

use crate::support::{Stage, behind, connect, metric, plan, reason, start};
use config::{DiskPlan, EdgePlan, StaticTreePlan};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Gate, Origin, Response, eventually, response};

const FRESH: &str = "Cache-Control: max-age=600";
const HTML: &str = "Content-Type: text/html; charset=utf-8";

/// Spellings of the same page (RFC 3986 section 6.2.2).
const SPELLINGS: [&[&str]; 4] = [
    &["/caf%C3%A9/", "/caf%c3%a9/", "/caf%c3%A9/"],
    &["/~user", "/%7Euser", "/%7euser"],
    &["/abc", "/%61bc", "/a%62%63"],
    &["/s?q=%C3%A9&r=1", "/s?q=%c3%a9&r=1", "/s?%71=%C3%a9&r=1"],
];

/// Targets of other pages that look similar.
const OTHERS: [&str; 4] = ["/a%2Fbc", "/a/bc", "/ab%20c", "/a+bc"];

/// A request that purges a target.
type Order = dyn Fn(&Stage, &str) -> Response;

/// The ways to purge one target.
const ORDERS: [&Order; 4] = [
    &|stage, target| stage.ask("PURGE", target, &[]),
    &|stage, target| stage.ask("POST", target, &["Content-Length: 0"]),
    &|stage, target| {
        let content = format!(r#"{{"type":"uri-prefix","selectors":["http://example.test{target}"]}}"#);
        stage.call_admin("POST", "/purge", &content)
    },
    &|stage, target| {
        let content = format!(r#"{{"type":"ban","selectors":["req.url == {target}"]}}"#);
        stage.call_admin("POST", "/purge", &content)
    },
];

fn fill(stage: &Stage, targets: &[&str]) {
    for target in targets {
        stage.get(target, &[]);
        assert_eq!(reason(&stage.get(target, &[])), "hit-fresh", "{target}");
    }
}

fn is_stored(stage: &Stage, target: &str) -> bool {
    reason(&stage.get(target, &["Cache-Control: only-if-cached"])) == "hit-fresh"
}

fn pages() -> Stage {
    Stage::new(|seen| response("200 OK", &[FRESH], seen.target().as_bytes()))
}

/// A client can request any spelling, and each look-up of the page visits all stored ones.
#[test]
fn made_up_spellings_of_a_page_are_bounded() {
    let stage = pages();
    fill(&stage, &["/letters"]);
    for bits in 1..200_u32 {
        let spelled = |(place, letter): (usize, char)| match bits >> place & 1 {
            1 => format!("%{:02x}", letter as u32),
            _ => letter.to_string(),
        };
        let target: String = "letters".chars().enumerate().map(spelled).collect();
        stage.get(&format!("/{target}"), &[]);
    }
    assert!(is_stored(&stage, "/letters"), "its spellings evicted the page");
    let stored = stage.metric("petasos_store_objects", "");
    assert!(stored <= 1 + 32, "{stored} objects of one page");
}

#[test]
fn purge_of_one_spelling_covers_all_spellings() {
    for (number, order) in ORDERS.iter().enumerate() {
        for spellings in SPELLINGS {
            for purged in spellings {
                let stage = pages();
                fill(&stage, spellings);
                fill(&stage, &OTHERS);
                // With several bans, the store checks all of them in one pass.
                for ban in ["/x1", "/x2", "/x3", "/x4"] {
                    let content = format!(r#"{{"type":"ban","selectors":["req.url == {ban}"]}}"#);
                    assert_eq!(stage.call_admin("POST", "/purge", &content).status, 200);
                }
                let answer = order(&stage, purged);
                assert_eq!(answer.status, 200, "{number} {purged} {}", answer.text());
                for target in spellings {
                    assert!(!is_stored(&stage, target), "order {number} for {purged} left {target}");
                }
                assert!(OTHERS.iter().all(|target| is_stored(&stage, target)), "order {number} for {purged}");
            }
        }
    }
}

/// Targets that are equivalent except for `utm`: the stored one, an equivalent one that is
/// requested, and the purged one.
const EQUIVALENT: [[&str; 3]; 3] = [
    ["/caf%C3%A9?id=1&utm=1", "/caf%C3%A9?id=1&utm=2", "/caf%c3%a9?id=1&utm=3"],
    ["/%7euser?utm=1", "/%7euser?utm=2", "/~user?utm=3"],
    ["/abc?utm=1", "/abc?utm=2", "/%61bc?utm=3"],
];

fn pages_whose_utm_is_ignored() -> Stage {
    const RULE: &str = "No-Vary-Search: params=(\"utm\")";
    Stage::new(|seen| response("200 OK", &[FRESH, RULE], seen.target().as_bytes()))
}

#[test]
fn purge_of_another_spelling_covers_equivalent_targets() {
    for (number, order) in ORDERS.iter().enumerate() {
        for [stored, equivalent, purged] in EQUIVALENT {
            let stage = pages_whose_utm_is_ignored();
            fill(&stage, &[stored, "/abd?utm=1"]);
            assert!(is_stored(&stage, equivalent), "{equivalent}");
            assert!(!is_stored(&stage, purged), "{purged} is another page to the origin");
            let answer = order(&stage, purged);
            assert_eq!(answer.status, 200, "{number} {purged} {}", answer.text());
            for target in [stored, equivalent] {
                assert!(!is_stored(&stage, target), "order {number} for {purged} left {target}");
            }
            assert!(is_stored(&stage, "/abd?utm=2"), "order {number} for {purged}");
        }
    }
}

#[test]
fn purge_covers_equivalent_pages_beyond_the_spelling_limit() {
    let stage = pages_whose_utm_is_ignored();
    fill(&stage, &["/letters?utm=1"]);
    for bits in 1..=40_u32 {
        let letter = |(place, letter): (usize, char)| match bits >> place & 1 {
            1 => format!("%{:02x}", letter as u32),
            _ => letter.to_string(),
        };
        let path: String = "letters".chars().enumerate().map(letter).collect();
        assert_eq!(stage.get(&format!("/{path}?utm=9"), &[]).status, 200);
    }
    assert_eq!(stage.ask("PURGE", "/letters?utm=2", &[]).status, 200);
    assert!(!is_stored(&stage, "/letters?utm=1"));
}

#[test]
fn fetch_of_an_equivalent_spelling_is_not_stored_after_purge() {
    for [fetched, equivalent, purged] in EQUIVALENT {
        let gate = Gate::default();
        let stage = pages_whose_utm_is_ignored();
        stage.becomes({
            let gate = gate.clone();
            move |_| behind(&gate, response("200 OK", &[FRESH, "No-Vary-Search: params=(\"utm\")"], b"old"))
        });
        let mut before = stage.begin("GET", fetched, &[]);
        stage.await_seen(1);
        assert_eq!(stage.ask("PURGE", purged, &[]).status, 200);
        gate.open();
        assert_eq!(before.read().text(), "old", "it was asked for before the purge");
        stage.await_quiet();
        assert!(!is_stored(&stage, fetched) && !is_stored(&stage, equivalent), "{purged}");
    }
}

#[test]
fn write_rate_counts_equivalent_pages_of_other_spellings() {
    for [stored, equivalent, written] in EQUIVALENT {
        const RULE: &str = "No-Vary-Search: params=(\"utm\")";
        let limits = |plan: &mut EdgePlan| plan.limits.page_writes_per_minute = 0;
        let stage = Stage::with(limits, |_| response("200 OK", &[FRESH, RULE], b"page"));
        fill(&stage, &[stored]);
        stage.ask("POST", written, &["Content-Length: 0"]);
        assert_eq!(stage.metric("petasos_page_writes_postponed_total", ""), 1, "{written}");
        assert!(is_stored(&stage, equivalent), "{written}");
    }
}

#[test]
fn purge_of_another_spelling_counts_the_removed_pages() {
    let stage = pages();
    fill(&stage, &["/caf%C3%A9/", "/caf%c3%a9/"]);
    let answer = stage.ask("PURGE", "/caf%C3%a9/", &[]);
    assert_eq!(answer.field("X-Purged-Count"), Some("2"));
}

#[test]
fn fetch_under_another_spelling_is_not_joined_after_a_purge() {
    let gate = Gate::default();
    let stage = Stage::new({
        let gate = gate.clone();
        move |_| behind(&gate, response("200 OK", &[FRESH], b"old"))
    });
    let mut before = stage.begin("GET", "/caf%C3%A9", &[]);
    stage.await_seen(1);
    assert_eq!(stage.ask("PURGE", "/caf%c3%a9", &[]).status, 200);
    stage.becomes(|_| response("200 OK", &[FRESH], b"new"));
    let mut after = stage.begin("GET", "/caf%C3%A9", &[]);
    assert_eq!(after.read().text(), "new");
    gate.open();
    assert_eq!(before.read().text(), "old", "it was asked for before the purge");
    stage.await_quiet();
    assert_eq!(stage.get("/caf%C3%A9", &[]).text(), "new");
}

#[test]
fn purge_of_another_spelling_removes_the_static_file() {
    for (stored, purged) in [("/caf%c3%a9/a", "/caf%C3%A9/a"), ("/a~b", "/a%7Eb"), ("/abc", "/%61bc")] {
        let directory = tempfile::tempdir().unwrap();
        let with_tree = |plan: &mut EdgePlan| {
            let directory = directory.path().to_owned();
            plan.static_tree = Some(StaticTreePlan { directory, pages_max: 100, bytes_max: 1 << 20 });
            plan.sites.iter_mut().for_each(|site| {
                site.names = vec!["example.test".to_owned()];
                site.static_tree_layout = Some("typo3".to_owned());
            });
        };
        let stage = Stage::with(with_tree, |_| response("200 OK", &[FRESH, HTML], b"page"));
        stage.get(stored, &[]);
        eventually("the page is a file", || stage.metric("petasos_static_tree_pages", "") == 1);
        assert_eq!(stage.ask("PURGE", purged, &[]).status, 200);
        assert_eq!(stage.metric("petasos_static_tree_pages", ""), 0, "{purged} left {stored}");
    }
}

fn with_disk(origin: &Origin, directory: &Path) -> petasos_edge::RunningEdge {
    let mut plan = plan(&origin.url());
    plan.disk = Some(DiskPlan {
        directory: directory.to_owned(),
        bytes_max: 256 << 20,
        power_safe_purges: false,
        state_directory: None,
        runtime_directory: None,
    });
    start(plan)
}

#[test]
fn purge_of_another_spelling_holds_after_a_restart() {
    let origin = Origin::start(|seen| response("200 OK", &[FRESH], seen.target().as_bytes()));
    let directory = tempfile::tempdir().unwrap();
    let targets = ["/caf%C3%A9", "/caf%c3%a9", "/kept"];
    let edge = with_disk(&origin, directory.path());
    for target in targets {
        connect(&edge).get(target, &[]);
    }
    eventually("the pages are on the disk", || metric(&edge, "petasos_disk_written_total", "") == 3);
    let mut client = connect(&edge);
    client.send("PURGE /caf%C3%a9 HTTP/1.1\r\nHost: example.test\r\n\r\n");
    assert_eq!(client.read().status, 200);
    drop(edge);
    let edge = with_disk(&origin, directory.path());
    let hits = targets.map(|target| reason(&connect(&edge).get(target, &[])).starts_with("hit"));
    assert_eq!(hits, [false, false, true]);
}

#[test]
fn write_invalidates_a_page_under_every_name_of_the_site() {
    let writes = AtomicUsize::new(0);
    let named = |plan: &mut EdgePlan| {
        plan.sites[0].names = vec!["example.test".to_owned(), "www.example.test".to_owned()];
    };
    let stage = Stage::with(named, move |seen| {
        if seen.head.starts_with("POST") {
            writes.fetch_add(1, Ordering::SeqCst);
            return response("303 See Other", &["Location: /b"], b"");
        }
        response("200 OK", &[FRESH], writes.load(Ordering::SeqCst).to_string().as_bytes())
    });
    let get = |host: &str, target: &str| {
        let mut client = connect(&stage.edge);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.read().text().to_owned()
    };
    let all = ["example.test", "www.example.test", "www.example.test:8080"];
    for host in all {
        assert_eq!((get(host, "/a"), get(host, "/b"), get(host, "/c")), ("0".into(), "0".into(), "0".into()));
    }
    stage.ask("POST", "/a", &["Content-Length: 0"]);
    for host in all {
        assert_eq!((get(host, "/a"), get(host, "/b")), ("1".to_owned(), "1".to_owned()), "{host}");
        assert_eq!(get(host, "/c"), "0");
    }
}

#[test]
fn write_rate_counts_pages_under_other_names_and_spellings() {
    for (host, target) in [("www.example.test", "/caf%C3%A9"), ("example.test", "/caf%c3%a9")] {
        let limits = |plan: &mut EdgePlan| {
            plan.limits.page_writes_per_minute = 0;
            plan.sites[0].names = vec!["example.test".to_owned(), "www.example.test".to_owned()];
        };
        let stage = Stage::with(limits, |_| response("200 OK", &[FRESH], b"page"));
        let get = || {
            let mut client = connect(&stage.edge);
            client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            reason(&client.read()).to_owned()
        };
        get();
        stage.ask("POST", "/caf%C3%A9", &["Content-Length: 0"]);
        assert_eq!(stage.metric("petasos_page_writes_postponed_total", ""), 1, "{host} {target}");
        assert!(get().starts_with("hit"), "{host} {target}");
    }
}

#[test]
fn equal_spellings_setting_shares_one_object() {
    let policy = || profiles::Policy { equal_spellings: true, ..profiles::Policy::default_profile() };
    let alike = |plan: &mut EdgePlan| plan.sites.iter_mut().for_each(|site| site.policy = policy());
    let stage = Stage::with(alike, |seen| response("200 OK", &[FRESH], seen.target().as_bytes()));
    for spellings in SPELLINGS {
        let [first, others @ ..] = spellings else { panic!("no spelling") };
        assert_eq!(stage.get(first, &[]).text(), *first);
        for other in others {
            let answer = stage.get(other, &[]);
            assert_eq!((answer.text(), reason(&answer)), (*first, "hit-fresh"), "{other}");
        }
    }
    stage.get("/a%2Fb", &[]);
    assert_eq!(stage.get("/a/b", &[]).text(), "/a/b", "an encoded slash is another character");
}
