//! An edge in this process before a scripted origin.

use config::Plan;
use net::Address;
use petasos_edge::{Edge, Running};
use platform::{Clock, SystemClock};
use std::net::SocketAddr;
use std::sync::Arc;
use testkit::{Client, Origin};

/// A plan for `origin` on free loopback ports with two workers.
pub(crate) fn plan(origin: &str) -> Plan {
    let mut plan = Plan::for_origin(origin.parse().unwrap());
    plan.listen = "127.0.0.1:0".parse().unwrap();
    plan.admin = "127.0.0.1:0".parse().unwrap();
    plan.workers = 2;
    plan
}

/// Starts an edge.
pub(crate) fn start(plan: Plan) -> Running {
    start_at(plan, Arc::new(SystemClock::new()))
}

/// Starts an edge with this clock.
pub(crate) fn start_at(plan: Plan, clock: Arc<dyn Clock>) -> Running {
    Edge::bind(plan, clock).unwrap().start().unwrap()
}

/// Starts an edge with the usual plan.
pub(crate) fn before(origin: &Origin) -> Running {
    start(plan(&origin.url()))
}

/// Where visitors connect.
pub(crate) fn address(edge: &Running) -> SocketAddr {
    socket(&edge.bound().listen)
}

/// A connection to the edge.
pub(crate) fn connect(edge: &Running) -> Client {
    Client::connect(address(edge))
}

/// The value of a metric, summed over its labels that contain `label`.
pub(crate) fn metric(edge: &Running, name: &str, label: &str) -> u64 {
    let admin = socket(&edge.bound().admin);
    let mut client = Client::connect(admin);
    client.send(format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n\r\n"));
    let page = client.read();
    let named = |line: &&str| line.split(['{', ' ']).next() == Some(name) && line.contains(label);
    page.text().lines().filter(named).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// The reason in a response's Cache-Status.
pub(crate) fn reason(response: &testkit::Response) -> &str {
    response.field("Cache-Status").unwrap().rsplit("detail=").next().unwrap()
}

fn socket(address: &Address) -> SocketAddr {
    match address {
        Address::Ip(address) => *address,
        other => panic!("not an IP address: {other}"),
    }
}
