//! Coded forms by route, and after a reload and a restart with other settings.

use crate::coded_forms::{BR, HTML, coding, decoded, page};
use crate::support::{connect, metric, plan, socket, start};
use config::{DiskPlan, SitePlan};
use petasos_edge::{BoundEdge, PlanSource, RunningEdge, System};
use semantics::{Coding, CompressionRules};
use std::path::Path;
use std::sync::{Arc, Mutex};
use testkit::{Client, Origin, Response, eventually, response};

fn origin() -> Origin {
    Origin::start(|_| response("200 OK", &["Cache-Control: max-age=600", HTML], page("a").as_bytes()))
}

fn get(edge: &RunningEdge, target: &str) -> Response {
    connect(edge).get(target, &[BR])
}

/// Requests a page until its forms were made.
fn warm(edge: &RunningEdge, target: &str) {
    let before = metric(edge, "petasos_encodings_total", "");
    (0..3).for_each(|_| drop(get(edge, target)));
    eventually("the forms are made", || metric(edge, "petasos_encodings_total", "") > before);
}

#[test]
fn route_may_compress_otherwise_than_its_site() {
    let origin = origin();
    let text = format!(
        "origin = '{}'\n[[site]]\ncompression.codings = ['zstd']\n\
         [[site.route]]\npath = ['/plain/*']\ncompression.enabled = false\n\
         [[site.route]]\npath = ['/gzip/*']\ncompression.codings = ['gzip']\ncompression.misses = 'gzip'\n",
        origin.url()
    );
    let read = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    let machine = config::Machine {
        cores: 2,
        memory_bytes: 1 << 30,
        state_directory: None,
        runtime_directory: None,
        spool_directory: std::env::temp_dir(),
    };
    let configured = config::load("petasos.toml", &text, &Vec::new(), &machine, &read).unwrap();
    let mut plan = plan(&origin.url());
    plan.sites = configured.sites;
    plan.routes = configured.routes;
    let edge = start(plan);
    for (target, miss, hit) in [("/a", "none", "zstd"), ("/gzip/a", "gzip", "gzip")] {
        assert_eq!(coding(&get(&edge, target)), miss, "{target}");
        warm(&edge, target);
        let answer = get(&edge, target);
        assert_eq!((coding(&answer), decoded(&answer)), (hit, page("a")), "{target}");
    }
    for _ in 0..4 {
        let answer = get(&edge, "/plain/a");
        assert_eq!((coding(&answer), answer.field("Vary")), ("none", None));
    }
    assert_eq!(metric(&edge, "petasos_encodings_total", ""), 2);
}

#[test]
fn reload_changes_the_forms_that_are_sent() {
    let origin = origin();
    let next = Arc::new(Mutex::new(plan(&origin.url())));
    let read = Arc::clone(&next);
    let source: PlanSource = Arc::new(move || Ok(read.lock().unwrap().clone()));
    let first = next.lock().unwrap().clone();
    let edge = BoundEdge::bind_again(first, source, System::of_machine()).unwrap().start().unwrap();
    let change = |change: &dyn Fn(&mut SitePlan)| {
        change(&mut next.lock().unwrap().sites[0]);
        let admin = socket(&edge.bound().admin);
        let mut client = Client::connect(admin);
        client.send(format!("POST /reload HTTP/1.1\r\nHost: {admin}\r\n\r\n"));
        assert_eq!(client.read().status, 200);
    };
    warm(&edge, "/a");
    assert_eq!(coding(&get(&edge, "/a")), "br");
    change(&|site| {
        site.compression = Some(CompressionRules {
            codings: vec![Coding::Gzip, Coding::Zstd],
            ..CompressionRules::default()
        });
    });
    assert_eq!(coding(&get(&edge, "/a")), "gzip", "the form that is preferred now");
    change(&|site| site.compression = None);
    let answer = get(&edge, "/a");
    assert_eq!((coding(&answer), decoded(&answer)), ("none", page("a")));
    (0..3).for_each(|_| drop(get(&edge, "/b")));
    change(&|site| site.compression = Some(CompressionRules::default()));
    assert_eq!(coding(&get(&edge, "/a")), "br");
    // The response was stored without `Vary`, so caches may give it to every client.
    for _ in 0..4 {
        let answer = get(&edge, "/b");
        assert_eq!((coding(&answer), answer.field("Vary")), ("none", None));
    }
    assert_eq!(metric(&edge, "petasos_encodings_waiting", ""), 0);
    assert_eq!(origin.seen().len(), 2);
}

/// An edge with its disk tier in `directory`.
fn life(origin: &Origin, directory: &Path, change: impl FnOnce(&mut SitePlan)) -> RunningEdge {
    let mut plan = plan(&origin.url());
    plan.disk = Some(DiskPlan {
        directory: directory.to_owned(),
        bytes_max: 256 << 20,
        power_safe_purges: false,
        state_directory: None,
        runtime_directory: None,
    });
    change(&mut plan.sites[0]);
    start(plan)
}

#[test]
fn restarted_edge_makes_forms_of_pages_that_announce_them() {
    let (origin, directory) = (origin(), tempfile::tempdir().unwrap());
    let store = |edge: &RunningEdge, target: &str, count| {
        get(edge, target);
        eventually("it is on the disk", || metric(edge, "petasos_disk_written_total", "") == count);
    };
    let edge = life(&origin, directory.path(), |site| site.compression = None);
    store(&edge, "/silent", 1);
    drop(edge);
    let edge = life(&origin, directory.path(), |_| {});
    store(&edge, "/announced", 1);
    warm(&edge, "/announced");
    drop(edge);
    let edge = life(&origin, directory.path(), |_| {});
    // Its forms would be ordered first.
    (0..4).for_each(|_| assert_eq!(coding(&get(&edge, "/silent")), "none"));
    assert_eq!(coding(&get(&edge, "/announced")), "none", "forms are not on the disk");
    warm(&edge, "/announced");
    let answer = get(&edge, "/announced");
    assert_eq!((coding(&answer), decoded(&answer)), ("br", page("a")));
    let answer = get(&edge, "/silent");
    assert_eq!((coding(&answer), answer.field("Vary")), ("none", None));
    assert_eq!(metric(&edge, "petasos_encodings_total", ""), 1);
    assert_eq!(origin.seen().len(), 2);
}
