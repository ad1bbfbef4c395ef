//! The pages that a purge covers if its client names one of several hosts, or a host of no site.

use crate::support::{Stage, address, connect, reason};
use testkit::{Client, Response, Seen, eventually, response};

const FRESH: &str = "Cache-Control: max-age=600";

fn page(seen: &Seen) -> Vec<testkit::Action> {
    response("200 OK", &[FRESH], seen.target().as_bytes())
}

/// An edge whose first site has these names, and whose second has `other.test`.
fn named(names: &[&str]) -> Stage {
    named_and(names, |_| {})
}

/// Like [`named`], with further changes to the plan.
fn named_and(names: &[&str], change: impl FnOnce(&mut config::EdgePlan)) -> Stage {
    Stage::with(
        |plan| {
            change(plan);
            let site = plan.sites.remove(0);
            let of = |id, names: &[&str]| {
                let names = names.iter().map(|name| (*name).to_owned()).collect();
                config::SitePlan { id, names, ..site.clone() }
            };
            plan.sites = vec![of(0, names), of(1, &["other.test"])];
        },
        page,
    )
}

/// The response to a request that names this host.
fn ask(stage: &Stage, method: &str, host: &str, target: &str, fields: &str) -> Response {
    let mut client = connect(&stage.edge);
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
    client.read()
}

fn fill(stage: &Stage, hosts: &[&str], target: &str) {
    for host in hosts {
        ask(stage, "GET", host, target, "");
        assert_eq!(reason(&ask(stage, "GET", host, target, "")), "hit-fresh", "{host}");
    }
}

fn found(stage: &Stage, hosts: &[&str], target: &str) -> Vec<bool> {
    let only = "Cache-Control: only-if-cached\r\n";
    hosts.iter().map(|host| reason(&ask(stage, "GET", host, target, only)) == "hit-fresh").collect()
}

/// For each kind of purge that names `asked`: whether the pages `/news?a=1` under these hosts are
/// still stored.
fn left_after(stage: &Stage, hosts: &[&str], asked: &str) -> Vec<Vec<bool>> {
    let call = |kind: &str, selector: String| {
        let content = format!(r#"{{"type":"{kind}","selectors":["{selector}"]}}"#);
        assert_eq!(stage.call_admin("POST", "/purge", &content).status, 200);
    };
    let target = "/news?a=1";
    let purges: [&dyn Fn(); 7] = [
        &|| assert_eq!(ask(stage, "PURGE", asked, target, "").status, 200),
        &|| assert_eq!(ask(stage, "PURGE", asked, "/ne*", "").status, 200),
        &|| assert_eq!(ask(stage, "PURGE", asked, "/ne.*=1", "X-Purge-Method: regex\r\n").status, 200),
        &|| assert_eq!(ask(stage, "PURGE", asked, "/*", "").status, 200),
        &|| call("uri-prefix", format!("http://{asked}/ne")),
        &|| call("uri-prefix", format!("http://{asked}/news?a")),
        &|| call("host", asked.to_owned()),
    ];
    let left = purges.iter().map(|purge| {
        fill(stage, hosts, target);
        purge();
        found(stage, hosts, target)
    });
    left.collect()
}

#[test]
fn purge_by_one_name_covers_all_names_and_ports_of_the_site() {
    let stage = named(&["a.test", "www.a.test"]);
    let hosts = ["a.test", "a.test:8080", "WWW.a.test", "www.a.test:81", "other.test"];
    for asked in ["www.a.test", "a.test:9999"] {
        for left in left_after(&stage, &hosts, asked) {
            assert_eq!(left, [false, false, false, false, true], "{asked}");
        }
    }
}

#[test]
fn purge_by_an_unknown_host_covers_all_sites() {
    let stage = named(&["a.test"]);
    for asked in ["127.0.0.1:6081", "cache", "unknown.test"] {
        for left in left_after(&stage, &["a.test:8080", "other.test"], asked) {
            assert_eq!(left, [false, false], "{asked}");
        }
    }
}

#[test]
fn purge_on_a_catch_all_site_covers_the_name_with_all_ports() {
    let stage = Stage::new(page);
    let hosts = ["a.test", "a.test:8080", "b.test", "127.0.0.1:80"];
    for left in left_after(&stage, &hosts, "a.test") {
        assert_eq!(left, [false, false, true, true]);
    }
    for left in left_after(&stage, &hosts, "127.0.0.1") {
        assert_eq!(left, [false; 4], "an address as the host means every name");
    }
}

#[test]
fn purge_covers_more_hosts_than_are_listed() {
    let stage = named_and(&["a.test"], |plan| plan.limits.foreign_ports_max = 100);
    let hosts: Vec<_> = (1..=70).map(|port| format!("a.test:{port}")).collect();
    let hosts: Vec<_> = hosts.iter().map(String::as_str).collect();
    fill(&stage, &hosts, "/a");
    fill(&stage, &hosts[..1], "/b");
    assert_eq!(ask(&stage, "PURGE", "a.test", "/a", "").status, 200);
    assert_eq!(found(&stage, &hosts, "/a"), vec![false; 70]);
    assert_eq!(found(&stage, &hosts[..1], "/b"), [true]);
}

#[test]
fn purge_by_a_response_covers_only_its_own_site() {
    let stage = named(&["a.test", "www.a.test"]);
    let hosts = ["a.test:8080", "www.a.test", "other.test"];
    fill(&stage, &hosts, "/a");
    stage.becomes(|_| response("200 OK", &["X-Cache-Invalidate: /a"], b"saved"));
    assert_eq!(ask(&stage, "POST", "a.test", "/save", "Content-Length: 0\r\n").status, 200);
    assert_eq!(found(&stage, &hosts, "/a"), [false, false, true]);
}

#[test]
fn page_fetched_under_another_name_is_not_stored_after_purge() {
    for (method, target) in [("PURGE", "/a"), ("PURGE", "/a*")] {
        let gate = testkit::Gate::default();
        let stage = named(&["a.test", "www.a.test"]);
        let behind = gate.clone();
        stage.becomes(move |seen| crate::support::behind(&behind, page(seen)));
        let mut early = connect(&stage.edge);
        early.send("GET /a HTTP/1.1\r\nHost: www.a.test:8080\r\n\r\n");
        stage.await_seen(1);
        assert_eq!(ask(&stage, method, "a.test", target, "").status, 200);
        gate.open();
        assert_eq!(early.read().text(), "/a");
        stage.await_quiet();
        assert_eq!(found(&stage, &["www.a.test:8080"], "/a"), [false], "{target}");
    }
}

#[test]
fn large_body_under_another_name_is_not_stored_after_purge() {
    let directory = tempfile::tempdir().unwrap();
    let disk = config::DiskPlan {
        directory: directory.path().to_owned(),
        bytes_max: 256 << 20,
        power_safe_purges: false,
        state_directory: None,
        runtime_directory: None,
    };
    let stage = named_and(&["a.test", "www.a.test"], |plan| {
        plan.limits.object_bytes_max = 100_000;
        // The body is not read ahead of its client into a file.
        plan.limits.response_buffer_bytes_max = 0;
        plan.disk = Some(disk);
    });
    stage.becomes(|_| response("200 OK", &[FRESH], "f".repeat(8_000_000).as_bytes()));
    let mut slow = Client::connect_from([127, 0, 0, 1], address(&stage.edge), 4096);
    slow.send("GET /film HTTP/1.1\r\nHost: www.a.test\r\n\r\n");
    let stalled = || stage.metric("petasos_origin_fetches_stalled", "") == 1;
    eventually("the fetch waits for its slow client, and no request can join it", stalled);
    assert_eq!(ask(&stage, "PURGE", "a.test", "/film", "").status, 200);
    drop(slow);
    stage.await_quiet();
    // The disk has one writer, so whatever was left of the first body is stored before the second.
    ask(&stage, "GET", "www.a.test", "/later", "");
    eventually("a later body is stored", || found(&stage, &["www.a.test"], "/later") == [true]);
    assert_eq!(found(&stage, &["www.a.test"], "/film"), [false]);
}

#[test]
fn prefixes_and_patterns_cover_equivalent_targets() {
    let stage = Stage::new(|_| response("200 OK", &[FRESH, "No-Vary-Search: params=(\"utm\")"], b"page"));
    let hosts = ["a.test"];
    for purge in
        [r#""uri-prefix","selectors":["http://a.test/a?utm=2"]"#, r#""ban","selectors":["req.url ~ utm=2$"]"#]
    {
        fill(&stage, &hosts, "/a?utm=1");
        fill(&stage, &hosts, "/b?id=1&utm=1");
        assert_eq!(found(&stage, &hosts, "/a?utm=2"), [true], "one page by two targets");
        let answer = stage.call_admin("POST", "/purge", &format!(r#"{{"type":{purge}}}"#));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(found(&stage, &hosts, "/a?utm=2"), [false], "{purge}");
        assert_eq!(found(&stage, &hosts, "/a?utm=1"), [false], "{purge}");
        let spared = purge.contains("prefix");
        assert_eq!(found(&stage, &hosts, "/b?id=1&utm=1"), [spared], "{purge}");
    }
}

#[test]
fn bans_beyond_the_list_limit_are_all_in_force() {
    let stage = Stage::new(page);
    fill(&stage, &["a.test"], "/last");
    for batch in 0..40 {
        let bans: Vec<_> = (0..15).map(|number| format!(r#""req.url == /{batch}/{number}""#)).collect();
        let content = format!(r#"{{"type":"ban","selectors":[{}]}}"#, bans.join(","));
        assert_eq!(stage.call_admin("POST", "/purge", &content).status, 200);
    }
    assert_eq!(found(&stage, &["a.test"], "/last"), [true]);
    assert_eq!(ask(&stage, "BAN", "a.test", "/", "X-Url: ^/last$\r\n").status, 200);
    assert_eq!(found(&stage, &["a.test"], "/last"), [false]);
}
