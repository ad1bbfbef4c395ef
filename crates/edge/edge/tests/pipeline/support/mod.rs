//! An edge in the test's process, in front of a scripted origin.

pub(crate) mod files;

use address::Address;
use clock::{Clock, ManualClock, Timestamp};
use config::EdgePlan;
use petasos_edge::{BoundEdge, RunningEdge, System};
use profiles::Policy;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::{Action, Client, Gate, Origin, Response, Seen, eventually};

/// The time at which a [`Stage`] begins.
pub(crate) const START: Timestamp = Timestamp::from_secs(1_700_000_000);

/// An edge in front of an origin whose behaviour the test changes, with a clock that only the test
/// moves.
pub(crate) struct Stage {
    pub(crate) origin: Origin,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) edge: RunningEdge,
    script: Arc<Mutex<Arc<Script>>>,
}

type Script = dyn Fn(&Seen) -> Vec<Action> + Send + Sync;

impl Stage {
    /// With the usual plan.
    pub(crate) fn new(script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static) -> Self {
        Self::with(|_| {}, script)
    }

    /// With the profile `rfc`.
    pub(crate) fn rfc(script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static) -> Self {
        Self::with(|plan| plan.sites.iter_mut().for_each(|site| site.policy = Policy::rfc()), script)
    }

    /// With the usual plan, modified by `change`.
    pub(crate) fn with(
        change: impl FnOnce(&mut EdgePlan),
        script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static,
    ) -> Self {
        let script: Arc<Mutex<Arc<Script>>> = Arc::new(Mutex::new(Arc::new(script)));
        let current = script.clone();
        let origin = Origin::start(move |seen| {
            let script = current.lock().unwrap().clone();
            script(seen)
        });
        let mut plan = plan(&origin.url());
        change(&mut plan);
        let clock = Arc::new(ManualClock::at(START));
        let edge = start_at(plan, clock.clone());
        Self { origin, clock, edge, script }
    }

    /// Replaces the behaviour of the origin.
    pub(crate) fn becomes(&self, script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static) {
        *self.script.lock().unwrap() = Arc::new(script);
    }

    /// Advances the clock.
    pub(crate) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// The response to a GET on a new connection.
    pub(crate) fn get(&self, target: &str, fields: &[&str]) -> Response {
        connect(&self.edge).get(target, fields)
    }

    /// The response to a request with this method and without content.
    pub(crate) fn ask(&self, method: &str, target: &str, fields: &[&str]) -> Response {
        let mut client = self.begin(method, target, fields);
        if method == "HEAD" { client.read_head() } else { client.read() }
    }

    /// The response of the admin address to this request with this JSON.
    pub(crate) fn call_admin(&self, method: &str, target: &str, content: &str) -> Response {
        let length = content.len();
        admin(
            &self.edge,
            &format!(
                "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Content-Length: {length}\r\n\r\n{content}"
            ),
        )
    }

    /// A new connection on which this request was sent and no response was read.
    pub(crate) fn begin(&self, method: &str, target: &str, fields: &[&str]) -> Client {
        let mut client = connect(&self.edge);
        let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: example.test\r\n{lines}\r\n"));
        client
    }

    /// `size` connections on which a GET for `/` with these fields was sent, all waiting for one
    /// fetch.
    pub(crate) fn crowd(&self, size: usize, fields: &[&str]) -> Vec<Client> {
        let before = self.metric("petasos_flight_waits_total", "");
        let clients = (0..size).map(|_| self.begin("GET", "/", fields)).collect();
        let waiting = size as u64 - 1;
        eventually("all but one wait", || self.metric("petasos_flight_waits_total", "") == before + waiting);
        clients
    }

    /// Waits until the origin has seen this many requests.
    pub(crate) fn await_seen(&self, count: usize) {
        eventually("the origin has seen the requests", || self.origin.seen().len() >= count);
        assert_eq!(self.origin.seen().len(), count, "requests at the origin");
    }

    /// The last request that the origin saw.
    pub(crate) fn last_seen(&self) -> Seen {
        self.origin.seen().pop().unwrap()
    }

    /// Waits until no fetch is under way.
    pub(crate) fn await_quiet(&self) {
        eventually("all fetches have ended", || self.metric("petasos_flights_open", "") == 0);
    }

    /// The value of a metric; see [`metric`].
    pub(crate) fn metric(&self, name: &str, label: &str) -> u64 {
        metric(&self.edge, name, label)
    }
}

/// These actions, after the gate was opened.
pub(crate) fn behind(gate: &Gate, actions: Vec<Action>) -> Vec<Action> {
    [vec![Action::Await(gate.clone())], actions].concat()
}

/// A response head without content and without a length.
pub(crate) fn bare(status: &str, fields: &[&str]) -> Vec<Action> {
    let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    vec![Action::Send(format!("HTTP/1.1 {status}\r\n{lines}\r\n").into_bytes())]
}

/// The response of an origin whose page has this entity tag: 304 if the client has it, otherwise
/// the page.
pub(crate) fn tagged(seen: &Seen, tag: &str, fields: &[&str], body: &str) -> Vec<Action> {
    let tag_line = format!("ETag: {tag}");
    let fields: Vec<&str> = fields.iter().copied().chain([&tag_line[..]]).collect();
    if seen.field("If-None-Match") == Some(tag) {
        return bare("304 Not Modified", &fields);
    }
    testkit::response("200 OK", &fields, body.as_bytes())
}

/// A plan for `origin` with free loopback ports and two workers.
pub(crate) fn plan(origin: &str) -> EdgePlan {
    let mut plan = EdgePlan::for_origin(origin.parse().unwrap());
    plan.listeners[0].address = "127.0.0.1:0".parse().unwrap();
    plan.admin = "127.0.0.1:0".parse().unwrap();
    plan.workers = 2;
    // The leak guard has separate tests; here its checks would be unexpected requests.
    plan.limits.leak_guard_every = 0;
    // Only time that the test lets pass counts, not delays of a busy machine.
    plan.limits.stale_wait = plan.limits.flight_wait;
    // Tests purge at the visitors' address, like an origin that is listed in `purge_peers`.
    plan.purge_peers = ["127.0.0.1".parse::<address::Prefix>().unwrap()].into_iter().collect();
    plan
}

/// Starts an edge.
pub(crate) fn start(plan: EdgePlan) -> RunningEdge {
    BoundEdge::bind(plan, System::of_machine()).unwrap().start().unwrap()
}

/// Starts an edge with this clock.
pub(crate) fn start_at(plan: EdgePlan, clock: Arc<dyn Clock>) -> RunningEdge {
    let system = System { clock, ..System::of_machine() };
    BoundEdge::bind(plan, system).unwrap().start().unwrap()
}

/// Starts an edge with the usual plan.
pub(crate) fn before(origin: &Origin) -> RunningEdge {
    start(plan(&origin.url()))
}

/// The address for visitors.
pub(crate) fn address(edge: &RunningEdge) -> SocketAddr {
    socket(&edge.bound().listen[0])
}

/// A connection to the edge.
pub(crate) fn connect(edge: &RunningEdge) -> Client {
    Client::connect(address(edge))
}

/// The response of the admin address to these bytes.
pub(crate) fn admin(edge: &RunningEdge, request: &str) -> Response {
    let mut client = Client::connect(socket(&edge.bound().admin));
    client.send(request);
    client.read()
}

/// The value of a metric, summed over all labels that contain `label`.
pub(crate) fn metric(edge: &RunningEdge, name: &str, label: &str) -> u64 {
    let admin = socket(&edge.bound().admin);
    let mut client = Client::connect(admin);
    client.send(format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n\r\n"));
    let page = client.read();
    let named = |line: &&str| line.split(['{', ' ']).next() == Some(name) && line.contains(label);
    page.text().lines().filter(named).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// The reason in a response's Cache-Status.
pub(crate) fn reason(response: &Response) -> &str {
    response.field("Cache-Status").unwrap().rsplit("detail=").next().unwrap()
}

/// An IP address of the edge.
pub(crate) fn socket(address: &Address) -> SocketAddr {
    match address {
        Address::Ip(address) => *address,
        other => panic!("not an IP address: {other}"),
    }
}
