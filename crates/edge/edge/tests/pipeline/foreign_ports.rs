//! Foreign ports in `Host`, and for how many of them pages are stored.

use crate::support::{Stage, connect, reason};
use testkit::{Response, Seen, response};

const FRESH: &str = "Cache-Control: max-age=86400";

fn page(seen: &Seen) -> Vec<testkit::Action> {
    response("200 OK", &[FRESH], seen.field("Host").unwrap_or_default().as_bytes())
}

fn get(stage: &Stage, host: &str, fields: &str) -> Response {
    let mut client = connect(&stage.edge);
    client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
    client.read()
}

/// The reason of the second of two responses.
fn again(stage: &Stage, host: &str, fields: &str) -> String {
    get(stage, host, fields);
    reason(&get(stage, host, fields)).to_owned()
}

fn listener_port(stage: &Stage) -> u16 {
    stage.edge.bound().listen[0].port().unwrap()
}

#[test]
fn made_up_ports_do_not_multiply_the_stored_pages() {
    for names in [&[][..], &["example.test".to_owned()]] {
        let stage = Stage::with(|plan| plan.sites[0].names = names.to_vec(), page);
        let ports: Vec<_> = (1000..1040).map(|port| format!("example.test:{port}")).collect();
        for host in &ports {
            assert_eq!(get(&stage, host, "").text(), host, "Host is forwarded unchanged");
        }
        let stored = stage.metric("petasos_store_objects", "");
        assert_eq!(stored, 4, "objects of one page by 40 ports");
        assert_eq!(stage.metric("petasos_foreign_ports_total", ""), 36);
        assert_eq!(reason(&get(&stage, &ports[0], "")), "hit-fresh");
        assert_eq!(reason(&get(&stage, &ports[39], "")), "pass-foreign-port");
        assert_eq!(again(&stage, "example.test", ""), "hit-fresh");
        assert_eq!(again(&stage, "example.test:80", ""), "hit-fresh");
    }
}

#[test]
fn pages_of_the_sites_own_ports_are_always_stored() {
    let stage = Stage::with(
        |plan| {
            plan.limits.foreign_ports_max = 0;
            plan.trusted_proxies = ["127.0.0.0/8".parse::<address::Prefix>().unwrap()].into_iter().collect();
        },
        page,
    );
    let own = format!("example.test:{}", listener_port(&stage));
    assert_eq!(again(&stage, &own, ""), "hit-fresh", "the port of `listen`");
    assert_eq!(again(&stage, "example.test:81", ""), "pass-foreign-port");
    assert_eq!(again(&stage, "example.test:81", "X-Forwarded-Port: 82\r\n"), "pass-foreign-port");
    assert_eq!(
        again(&stage, "example.test:81", "X-Forwarded-Port: 81\r\n"),
        "hit-fresh",
        "a trusted proxy's"
    );
}

#[test]
fn made_up_ports_do_not_displace_the_sites_own() {
    let stage = Stage::with(|plan| plan.sites[0].ports = vec![8081, 8443], page);
    for made_up in 1..=4 {
        assert_eq!(again(&stage, &format!("example.test:{made_up}"), ""), "hit-fresh", "{made_up}");
    }
    assert_eq!(again(&stage, "example.test:5", ""), "pass-foreign-port");
    let listener = listener_port(&stage);
    for own in [8081, 8443, 80, listener] {
        assert_eq!(again(&stage, &format!("example.test:{own}"), ""), "hit-fresh", "{own}");
    }
    assert_eq!(again(&stage, "example.test:08081", ""), "pass-foreign-port", "no usual digits");
}

#[test]
fn x_forwarded_port_of_an_untrusted_client_is_ignored() {
    let stage = Stage::with(|plan| plan.limits.foreign_ports_max = 0, page);
    assert_eq!(again(&stage, "example.test:81", "X-Forwarded-Port: 81\r\n"), "pass-foreign-port");
}

#[test]
fn idle_foreign_port_makes_room_for_another() {
    let stage = Stage::with(|plan| plan.limits.foreign_ports_max = 1, page);
    assert_eq!(again(&stage, "example.test:81", ""), "hit-fresh");
    stage.pass(3599);
    assert_eq!(again(&stage, "example.test:82", ""), "pass-foreign-port");
    stage.pass(1);
    assert_eq!(again(&stage, "example.test:82", ""), "hit-fresh");
}

#[test]
fn ports_in_non_canonical_form_are_not_stored() {
    let stage = Stage::new(page);
    for port in ["", "08080", "008080", "0"] {
        let answer = get(&stage, &format!("example.test:{port}"), "");
        assert_eq!(answer.status, 200, "{port}");
    }
    // Port 0 is in canonical form and counts as a port; the other spellings do not.
    assert_eq!(stage.metric("petasos_store_objects", ""), 1);
}
