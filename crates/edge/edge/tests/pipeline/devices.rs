//! A site with a mobile theme: two variants of each page, for all User-Agent values.

use crate::support::{Stage, connect, reason};
use profiles::{DeviceClass, Policy};
use testkit::{Gate, eventually, response};

const PHONE: &str = "User-Agent: Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Mobile/15E148";
const OTHER_PHONE: &str = "User-Agent: Mozilla/5.0 (Linux; Android 14; Pixel 8) Mobile Safari/537.36";
const DESKTOP: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0";

/// WordPress with a theme that calls wp_is_mobile.
fn themed(class: DeviceClass, vary: &'static [&'static str]) -> Stage {
    Stage::with(
        move |plan| {
            let policy = Policy { device_class: class, ..Policy::wordpress() };
            plan.sites.iter_mut().for_each(|site| site.policy = policy.clone());
        },
        move |seen| {
            let is_mobile = seen.field("User-Agent").unwrap_or_default().contains("Mobile");
            response("200 OK", vary, if is_mobile { b"small" } else { b"large" })
        },
    )
}

#[test]
fn phones_and_desktops_receive_their_own_variant() {
    for vary in [&[][..], &["Vary: User-Agent"]] {
        let stage = themed(DeviceClass::Mobile, vary);
        for _ in 0..3 {
            for (agent, expected) in [(PHONE, "small"), (DESKTOP, "large"), (OTHER_PHONE, "small")] {
                assert_eq!(stage.get("/", &[agent]).text(), expected, "{agent} {vary:?}");
            }
            assert_eq!(stage.get("/", &[]).text(), "large");
        }
        assert_eq!(stage.origin.seen().len(), 2, "one fetch for each class: {vary:?}");
        assert!(stage.origin.seen().iter().all(|seen| seen.field("User-Agent").unwrap().contains("Petasos")));
        stage.ask("PURGE", "/", &[]);
        for agent in [PHONE, DESKTOP] {
            assert!(reason(&stage.get("/", &[agent])).starts_with("miss"), "a purge means both");
        }
    }
}

/// The constant User-Agent of a device class must not count as a robot's.
#[test]
fn people_precede_robots_under_a_device_class() {
    let gate = Gate::default();
    let classes = |plan: &mut config::EdgePlan| {
        let policy = Policy { device_class: DeviceClass::Mobile, ..Policy::wordpress() };
        plan.sites.iter_mut().for_each(|site| site.policy = policy.clone());
        plan.limits.fetches_max = 1;
    };
    let stage = Stage::with(classes, {
        let gate = gate.clone();
        move |_| crate::support::behind(&gate, response("200 OK", &[], b"done"))
    });
    let robot = "User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
    let visits = [("/first", robot), ("/robot", robot), ("/person", DESKTOP), ("/phone", PHONE)];
    let mut clients = visits.map(|_| connect(&stage.edge));
    for ((client, (target, agent)), waiting) in clients.iter_mut().zip(visits).zip(0..) {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: example.test\r\n{agent}\r\n\r\n"));
        eventually("it is at the origin or in the queue", || {
            stage.metric("petasos_origin_fetches_active", "") == 1
                && stage.metric("petasos_origin_fetches_waiting", "") == waiting
        });
    }
    gate.open();
    assert!(clients.iter_mut().all(|client| client.read().text() == "done"));
    let asked: Vec<_> = stage.origin.seen().iter().map(|seen| seen.target().to_owned()).collect();
    assert_eq!(asked, ["/first", "/person", "/phone", "/robot"]);
}

/// A HEAD request for a private page is built from the looked-up request, like a leak check.
#[test]
fn head_requests_of_people_precede_robots() {
    let gate = Gate::default();
    let stage = Stage::with(
        |plan| plan.limits.fetches_max = 1,
        |_| response("200 OK", &["Cache-Control: private"], b"x"),
    );
    stage.ask("HEAD", "/page", &[DESKTOP]);
    stage.await_quiet();
    let before = stage.origin.seen().len();
    stage.becomes({
        let gate = gate.clone();
        move |_| crate::support::behind(&gate, response("200 OK", &["Cache-Control: private"], b"x"))
    });
    let robot = "User-Agent: Googlebot/2.1";
    let visits = [("GET", "/first", robot), ("GET", "/robot", robot), ("HEAD", "/page", DESKTOP)];
    let mut clients = visits.map(|_| connect(&stage.edge));
    for ((client, (method, target, agent)), waiting) in clients.iter_mut().zip(visits).zip(0..) {
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: example.test\r\n{agent}\r\n\r\n"));
        eventually("it is at the origin or in the queue", || {
            stage.metric("petasos_origin_fetches_active", "") == 1
                && stage.metric("petasos_origin_fetches_waiting", "") == waiting
        });
    }
    gate.open();
    let [first, robot, head] = &mut clients;
    assert_eq!((first.read().status, robot.read().status, head.read_head().status), (200, 200, 200));
    let asked: Vec<_> =
        stage.origin.seen().iter().skip(before).map(|seen| seen.target().to_owned()).collect();
    assert_eq!(asked, ["/first", "/page", "/robot"]);
}
