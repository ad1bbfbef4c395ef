//! Reloads: a changed configuration serves the next request, and a bad one changes nothing.

use crate::support::{self, metric, plan, reason, socket};
use address::Prefix;
use config::{DiskPlan, EdgePlan, OriginMember, OriginTlsPlan, SitePlan};
use document::Place;
use petasos_edge::{BoundEdge, PlanSource, RunningEdge, System};
use profiles::Policy;
use std::path::Path;
use std::sync::{Arc, Mutex};
use testkit::{
    Action, Certificate, Client, Gate, Http2Client, Origin, Response, TlsFront, eventually, response,
};

const FRESH: &str = "Cache-Control: max-age=60";

/// An edge whose configuration the test changes.
struct Changing {
    edge: RunningEdge,
    next: Arc<Mutex<Result<EdgePlan, String>>>,
    origin: Origin,
}

impl Changing {
    fn start(change: impl FnOnce(&mut EdgePlan)) -> Self {
        let origin = Origin::start(|seen| {
            let said = format!("{} of {}", seen.target(), seen.field("Host").unwrap_or("none"));
            response("200 OK", &[FRESH], said.as_bytes())
        });
        let mut plan = plan(&origin.url());
        change(&mut plan);
        let next = Arc::new(Mutex::new(Ok(plan.clone())));
        let read = Arc::clone(&next);
        let source: PlanSource = Arc::new(move || read.lock().unwrap().clone());
        let bound = BoundEdge::bind_again(plan, source, System::of_machine()).unwrap();
        Self { edge: bound.start().unwrap(), next, origin }
    }

    /// Changes the configuration, and orders a reload.
    fn change(&self, change: impl FnOnce(&mut EdgePlan)) -> Response {
        let mut plan = self.next.lock().unwrap().clone().unwrap();
        change(&mut plan);
        *self.next.lock().unwrap() = Ok(plan);
        self.reload()
    }

    fn reload(&self) -> Response {
        let admin = socket(&self.edge.bound().admin);
        let mut client = Client::connect(admin);
        client.send(format!("POST /reload HTTP/1.1\r\nHost: {admin}\r\n\r\n"));
        client.read()
    }

    fn get(&self, host: &str, target: &str) -> Response {
        let mut client = support::connect(&self.edge);
        ask(&mut client, host, target)
    }
}

fn ask(client: &mut Client, host: &str, target: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.read()
}

/// A site like the first one of the plan, with this name.
fn site(plan: &EdgePlan, id: u32, name: &str) -> SitePlan {
    SitePlan { id, names: vec![name.to_owned()], ..plan.sites[0].clone() }
}

fn disk(directory: &Path) -> DiskPlan {
    DiskPlan {
        directory: directory.join("disk"),
        bytes_max: 64 << 20,
        state_directory: None,
        runtime_directory: None,
        power_safe_purges: false,
    }
}

#[test]
fn figures_of_a_site_outlast_its_reload() {
    let changing = Changing::start(|plan| {
        plan.sites =
            ["a.test", "b.test"].into_iter().zip(0..).map(|(name, id)| site(plan, id, name)).collect();
    });
    let requests = |label: &str| metric(&changing.edge, "petasos_requests_total", label);
    changing.get("a.test", "/");
    changing.get("b.test", "/");
    let answer = changing.change(|plan| {
        plan.sites.truncate(1);
        plan.sites[0].policy = Policy::rfc();
    });
    assert_eq!(answer.status, 200, "{}", answer.text());
    changing.get("a.test", "/");
    eventually("its requests are summed", || requests("site=\"a.test\",verdict=\"miss\"") == 2);
    assert_eq!(requests("site=\"b.test\""), 1, "the sum over all sites must not fall");
    changing.get("b.test", "/");
    eventually("the host has no site", || requests("site=\"-\",verdict=\"refused\"") == 1);
}

#[test]
fn reload_switches_the_cache_off_and_on_again() {
    let changing = Changing::start(|plan| plan.sites = vec![site(plan, 0, "a.test")]);
    assert_eq!(reason(&changing.get("a.test", "/")), "miss-absent");
    assert_eq!(reason(&changing.get("a.test", "/")), "hit-fresh");
    changing.change(|plan| plan.sites[0].policy.caches = false);
    for _ in 0..2 {
        assert_eq!(reason(&changing.get("a.test", "/")), "pass-cache-off");
    }
    changing.change(|plan| plan.sites[0].policy.caches = true);
    assert_eq!(reason(&changing.get("a.test", "/")), "miss-absent", "what was stored before is gone");
}

#[test]
fn unchanged_sites_keep_their_pages_and_others_begin_empty() {
    let changing = Changing::start(|plan| {
        plan.sites = ["kept.test", "page.test", "rules.test", "gone.test"]
            .into_iter()
            .zip(0..)
            .map(|(name, id)| site(plan, id, name))
            .collect();
    });
    for host in ["kept.test", "page.test", "rules.test", "gone.test"] {
        assert_eq!(reason(&changing.get(host, "/")), "miss-absent", "{host}");
        assert_eq!(reason(&changing.get(host, "/")), "hit-fresh", "{host}");
    }
    let answer = changing.change(|plan| {
        plan.sites.truncate(3);
        plan.sites[1].error_page = Some("sorry".into());
        plan.sites[2].policy = Policy::rfc();
        plan.sites.push(site(plan, 3, "new.test"));
        // The order of the file is no setting.
        plan.sites.swap(0, 1);
        plan.sites.iter_mut().zip(0..).for_each(|(site, id)| site.id = id);
    });
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        answer.text(),
        "the configuration was read again; sites: 1 unchanged, 1 changed with their pages kept, 2 new or \
         changed without pages, 1 gone\n"
    );
    for (host, expected) in [
        ("kept.test", "hit-fresh"),
        ("page.test", "hit-fresh"),
        ("rules.test", "miss-absent"),
        ("new.test", "miss-absent"),
        ("gone.test", "unknown-site"),
    ] {
        assert_eq!(reason(&changing.get(host, "/")), expected, "{host}");
    }
    assert_eq!(changing.get("new.test", "/").text(), "/ of new.test");
    eventually("the pages of the site that is gone are freed", || {
        metric(&changing.edge, "petasos_store_objects", "") == 4
    });
    // A site that comes back begins empty.
    changing.change(|plan| plan.sites.push(site(plan, 4, "gone.test")));
    assert_eq!(reason(&changing.get("gone.test", "/")), "miss-absent");
    assert_eq!(metric(&changing.edge, "petasos_reloads_total", ""), 2);
}

#[test]
fn open_connections_obey_the_new_plan_at_their_next_request() {
    let changing = Changing::start(|plan| plan.listeners[0].http2 = true);
    let mut kept = support::connect(&changing.edge);
    let mut multiplexed = Http2Client::connect(support::address(&changing.edge));
    assert_eq!(ask(&mut kept, "a.test", "/").status, 200);
    assert_eq!(multiplexed.get("/", &[]).status, 200);
    changing.change(|plan| plan.sites[0].names = vec!["b.test".to_owned()]);
    assert_eq!(ask(&mut kept, "a.test", "/").status, 421);
    assert_eq!(ask(&mut kept, "b.test", "/").status, 200);
    assert_eq!(multiplexed.get("/", &[]).status, 421);
    multiplexed.call_host("b.test");
    assert_eq!(multiplexed.get("/", &[]).status, 200);
}

#[test]
fn bad_configuration_changes_nothing_and_says_why() {
    let changing = Changing::start(|_| {});
    changing.get("a.test", "/");
    let fixed = changing.change(|plan| {
        plan.workers += 1;
        plan.memory_bytes *= 2;
        plan.sites[0].names = vec!["b.test".to_owned()];
    });
    assert_eq!(fixed.status, 422);
    assert_eq!(fixed.text(), "a running edge cannot change workers, memory; restart it for that\n");
    assert_eq!(reason(&changing.get("a.test", "/")), "hit-fresh");
    *changing.next.lock().unwrap() = Err("line 3 is wrong".to_owned());
    let unreadable = changing.reload();
    assert_eq!((unreadable.status, unreadable.text()), (422, "line 3 is wrong\n"));
    assert_eq!(reason(&changing.get("a.test", "/")), "hit-fresh");
    assert_eq!(metric(&changing.edge, "petasos_reloads_refused_total", ""), 2);
    assert_eq!(metric(&changing.edge, "petasos_reloads_total", ""), 0);
}

#[test]
fn request_under_way_ends_under_its_plan() {
    let gate = Gate::default();
    let opened = gate.clone();
    let slow = Origin::start(move |_| {
        [vec![Action::Await(opened.clone())], response("200 OK", &[FRESH], b"slow")].concat()
    });
    let changing = Changing::start(|plan| plan.sites[0].origin = slow.url().parse().unwrap());
    let mut waiting = support::connect(&changing.edge);
    waiting.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    eventually("the request is at the origin", || slow.count("/") == 1);
    let quick = changing.origin.url();
    changing.change(|plan| plan.sites[0].origin = quick.parse().unwrap());
    // Another origin makes another site: its page is fetched there.
    assert_eq!(changing.get("a.test", "/").text(), "/ of a.test");
    gate.open();
    assert_eq!(waiting.read().text(), "slow");
    assert_eq!(changing.get("a.test", "/").text(), "/ of a.test", "the late page is not found");
}

#[test]
fn right_to_purge_follows_the_new_plan() {
    let changing = Changing::start(|_| {});
    let purge = || {
        let mut client = support::connect(&changing.edge);
        client.send("PURGE / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        client.read().status
    };
    changing.get("a.test", "/");
    assert_eq!(purge(), 200);
    changing.change(|plan| {
        plan.purge_peers = ["192.0.2.1".parse::<Prefix>().unwrap()].into_iter().collect();
    });
    assert_eq!(purge(), 403);
    changing.get("a.test", "/");
    assert_eq!(reason(&changing.get("a.test", "/")), "hit-fresh");
}

#[test]
fn purges_and_reloads_at_once_leave_no_stale_page() {
    let version = Arc::new(Mutex::new(0));
    let current = Arc::clone(&version);
    let origin = Origin::start(move |_| {
        let body = current.lock().unwrap().to_string();
        response("200 OK", &[FRESH], body.as_bytes())
    });
    let changing = Changing::start(|plan| plan.sites[0].origin = origin.url().parse().unwrap());
    for round in 1..=30 {
        changing.get("a.test", "/");
        *version.lock().unwrap() = round;
        let purged = std::thread::scope(|scope| {
            let reload = scope.spawn(|| {
                changing.change(|plan| plan.sites[0].hsts_secs = Some(round));
            });
            let mut client = support::connect(&changing.edge);
            client.send("PURGE / HTTP/1.1\r\nHost: a.test\r\n\r\n");
            let status = client.read().status;
            reload.join().unwrap();
            status
        });
        assert_eq!(purged, 200);
        assert_eq!(changing.get("a.test", "/").text(), round.to_string(), "a purged page returned");
    }
}

#[test]
fn write_that_ends_after_a_reload_purges_the_new_page() {
    let gate = Gate::default();
    let opened = gate.clone();
    let origin = Origin::start(move |seen| {
        let page = response("200 OK", &[FRESH], b"a page");
        if seen.head.starts_with("POST") { support::behind(&opened, page) } else { page }
    });
    let changing = Changing::start(|plan| plan.sites[0].origin = origin.url().parse().unwrap());
    let mut writer = support::connect(&changing.edge);
    writer.send("POST /post HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\nx");
    eventually("the write is at the origin", || origin.count("/post") == 1);
    changing.change(|plan| plan.sites[0].policy = Policy::rfc());
    assert_eq!(reason(&changing.get("a.test", "/post")), "miss-absent");
    assert_eq!(reason(&changing.get("a.test", "/post")), "hit-fresh");
    gate.open();
    assert_eq!(writer.read().status, 200);
    assert_ne!(reason(&changing.get("a.test", "/post")), "hit-fresh", "the write changed the page");
}

#[test]
fn pages_on_disk_are_found_after_a_change_and_its_return() {
    let directory = tempfile::tempdir().unwrap();
    let changing = Changing::start(|plan| {
        plan.memory_bytes = 8 << 20;
        plan.disk = Some(disk(directory.path()));
    });
    let usual = changing.next.lock().unwrap().clone().unwrap().sites[0].policy.clone();
    changing.change(|plan| plan.sites[0].policy = Policy::rfc());
    changing.change(|plan| plan.sites[0].policy = usual);
    let target = |number: usize| format!("/{}{number}", "x".repeat(4_000));
    let mut client = support::connect(&changing.edge);
    for number in 0..1_500 {
        assert_eq!(reason(&ask(&mut client, "a.test", &target(number))), "miss-absent");
    }
    eventually("the first pages are on the disk only", || {
        metric(&changing.edge, "petasos_store_shelved", "") >= 100
    });
    let stored = metric(&changing.edge, "petasos_store_objects", "");
    // Pages that were evicted before they were written are nowhere.
    let mut is_hit = |number: &usize| reason(&ask(&mut client, "a.test", &target(*number))) == "hit-fresh";
    let hits = (0..1_500).rev().filter(|number| is_hit(number)).count();
    let reads = metric(&changing.edge, "petasos_disk_reads_total", "");
    assert!(hits as u64 >= stored - 20 && reads >= 50, "{hits} hits of {stored}, {reads} reads");
    assert_eq!(metric(&changing.edge, "petasos_disk_damaged_total", ""), 0);
}

#[test]
fn page_fetched_under_an_earlier_plan_does_not_return() {
    let (directory, gate) = (tempfile::tempdir().unwrap(), Gate::default());
    let (version, opened) = (Arc::new(Mutex::new("old")), gate.clone());
    let current = Arc::clone(&version);
    let origin = Origin::start(move |seen| {
        let body = *current.lock().unwrap();
        let page = response("200 OK", &[FRESH, "Vary: Accept-Language"], body.as_bytes());
        let is_first = seen.target() == "/page" && seen.field("Accept-Language").is_none();
        if is_first { support::behind(&opened, page) } else { page }
    });
    let usual = |plan: &mut EdgePlan| {
        plan.sites[0].origin = origin.url().parse().unwrap();
        plan.disk = Some(disk(directory.path()));
    };
    let send = |changing: &Changing, method: &str| {
        let mut client = support::connect(&changing.edge);
        client.send(format!("{method} /page HTTP/1.1\r\nHost: a.test\r\nAccept-Language: de\r\n\r\n"));
        client
    };
    let changing = Changing::start(usual);
    let mut early = send(&changing, "GET");
    eventually("the fetch is at the origin", || origin.count("/page") == 1);
    changing.change(|plan| plan.sites[0].policy = Policy::rfc());
    gate.open();
    assert_eq!(early.read().text(), "old");
    // The first fetch did not name the language, so another one began after the reload.
    assert!(origin.count("/page") > 1);
    *version.lock().unwrap() = "new";
    assert_eq!(send(&changing, "PURGE").read().status, 200);
    drop((early, changing));
    let again = Changing::start(usual);
    assert_eq!(send(&again, "GET").read().text(), "new", "a purged page returned");
}

#[test]
fn reload_without_a_configuration_is_refused() {
    let origin = Origin::start(|_| response("200 OK", &[FRESH], b"a page"));
    let edge = support::before(&origin);
    let admin = socket(&edge.bound().admin);
    let ask = |method: &str| {
        let mut client = Client::connect(admin);
        client.send(format!("{method} /reload HTTP/1.1\r\nHost: {admin}\r\n\r\n"));
        client.read().status
    };
    assert_eq!((ask("POST"), ask("GET")), (422, 405));
}

#[test]
fn origins_over_tls_follow_a_reload() {
    let changing = Changing::start(|_| {});
    let front = TlsFront::start(changing.origin.address(), Certificate::Good);
    let secured = EdgePlan::for_origin(format!("https://{}", front.address).parse().unwrap()).sites;
    let tls = |plan: &mut EdgePlan, change: &dyn Fn(&mut OriginTlsPlan)| {
        change(plan.sites[0].origin_tls.as_mut().unwrap());
    };
    let answer = changing.change(|plan| {
        plan.sites = secured;
        tls(plan, &|tls| tls.is_verified = false);
    });
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(changing.get("a.test", "/secured").status, 200);
    assert_eq!(front.handshakes(), 1);
    let moved = changing.change(|plan| tls(plan, &|tls| tls.place = Place::Flag("--other".to_owned())));
    assert!(moved.text().contains("1 unchanged"), "its place is no setting: {}", moved.text());
    let refused = changing.change(|plan| {
        tls(plan, &|tls| (tls.is_verified, tls.authorities) = (true, Some("/none/ca.pem".into())));
    });
    assert_eq!(refused.status, 422);
    assert!(refused.text().contains("cannot read /none/ca.pem"), "{}", refused.text());
    assert_eq!(changing.get("a.test", "/still").status, 200);
    assert_eq!(front.handshakes(), 1, "the old connections go on");
}

#[test]
fn pages_and_connections_outlive_a_further_origin() {
    let changing = Changing::start(|_| {});
    let further = Origin::start(|_| response("200 OK", &[], b"further"));
    assert_eq!(reason(&changing.get("a.test", "/")), "miss-absent");
    let member = OriginMember::parse(&further.url()).unwrap();
    assert_eq!(changing.change(|plan| plan.sites[0].balance.others.push(member)).status, 200);
    assert_eq!(reason(&changing.get("a.test", "/")), "hit-fresh");
    let connections = |label: &str| metric(&changing.edge, "petasos_origin_connections_idle", label);
    assert_eq!(connections(&changing.origin.url()), 1, "the connection is kept");
    let again = changing.change(|plan| plan.sites[0].balance.others.clear());
    assert_eq!((again.status, reason(&changing.get("a.test", "/"))), (200, "hit-fresh"));
    assert_eq!(connections(""), 1);
}
