//! The traffic of an ordinary site on every lab, through an edge configured only with the origin's
//! address. The test measures the share of requests that the application does not see, and checks
//! that no response leaks personal content.
//!
//! The traffic is 20,000 requests over every URL of the site, with popularity by Zipf's law, from
//! one seed. Visitors have six measurement cookies, one unknown cookie and campaign parameters; one
//! in twenty is a robot. The store is empty at first, and the misses that fill it count. Each
//! minute (67 requests a second), the first page is purged, and another one drawn by popularity.
//! Every fortieth request is followed by a request of a logged-in user for the same page. These
//! requests are not part of the ratio, because their responses may not be shared.
//!
//! `PETASOS_TRAFFIC` sets the extent. `full` sends the requests as fast as the responses come and
//! purges where the minutes would end. `paced` takes real minutes. Without it, the test uses a part
//! of the site, for the test command.
//!
//! Invariant: the ratio covers anonymous requests only, and all of them, whatever the reason of a
//! miss.

use super::crawl::crawl;
use super::visitor::{FormFields, LabVariables, LabVisitor, Owners, is_hit};
use clock::Clock as _;
use platform::SystemClock;
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::traffic::{RATE, RequestSequence, SequenceRequest};
use testkit::{Client, Edge, Response};

const SEED: u64 = 0x5eed_0203;
/// Share of all requests that must be hits.
const HITS_MIN: f64 = 0.95;
/// Number of anonymous requests between two of logged-in users.
const LOGGED_IN_EVERY: usize = 40;

/// The properties of a system.
struct System {
    lab: &'static str,
    origin: &'static str,
    start: &'static str,
    /// Prefixes that robots must avoid, in addition to those in its `robots.txt`.
    disallowed: &'static [&'static str],
    /// Switches off all additions to the plain system.
    prepare: fn(&LabVariables),
    users: &'static [&'static str],
    log_in: fn(&mut LabVisitor<'_>, &LabVariables),
    /// Text that every page of this logged-in user contains, and no other visitor's page.
    mark: fn(&str) -> String,
    /// Prefixes of targets of files that are the same for every visitor.
    files: &'static [&'static str],
    /// Texts before and after a token in a user's page.
    tokens: &'static [(&'static str, &'static str)],
}

/// Size and speed of the traffic.
struct TrafficSize {
    urls_max: usize,
    requests: usize,
    minute: usize,
    paced: bool,
}

impl TrafficSize {
    fn chosen() -> Self {
        let full = Self { urls_max: usize::MAX, requests: 20_000, minute: 60 * RATE as usize, paced: false };
        match std::env::var("PETASOS_TRAFFIC").as_deref() {
            Ok("full") => full,
            Ok("paced") => Self { paced: true, ..full },
            Ok(other) => panic!("PETASOS_TRAFFIC is `{other}`: it is `full` or `paced`, or not set"),
            Err(_) => Self { urls_max: 60, requests: 4_000, minute: 800, paced: false },
        }
    }
}

#[test]
fn wordpress() {
    run(&System {
        lab: "wordpress",
        origin: "nginx_opcode",
        start: "/",
        disallowed: &[],
        // No plugin and no cache inside WordPress.
        prepare: |lab| {
            let owners = Owners::default();
            let mut anybody =
                LabVisitor::new("anybody", lab.address("nginx_opcode"), lab.value("host"), &owners);
            let answer = anybody.post("/lab-layers.php?", &FormFields::new());
            assert_eq!(answer.status, 200, "{}", answer.head);
        },
        users: &["admin"],
        log_in: |user, lab| {
            let form = FormFields::of(user.get("/wp-login.php").text(), "user_pass").with("log", "admin");
            let answer = user.post("/wp-login.php", &form.with("pwd", lab.value("admin_password")));
            assert_eq!(answer.status, 302, "{}", answer.head);
        },
        mark: |_| "id=\"wpadminbar\"".to_owned(),
        files: &["/wp-content/", "/wp-includes/"],
        tokens: &[("_wpnonce=", "\""), ("createNonceMiddleware( \"", "\"")],
    });
}

#[test]
fn mediawiki() {
    run(&System {
        lab: "mediawiki",
        origin: "nginx_objects",
        start: "/wiki/Welcome",
        // https://www.mediawiki.org/wiki/Manual:Robots.txt
        disallowed: &["/index.php", "/wiki/Special:"],
        prepare: |_| {},
        users: &["Alice", "Bob"],
        log_in: |user, lab| super::mediawiki::LOGIN.log_in(user, lab.value("user_password")),
        mark: |name| format!("\"wgUserName\":\"{name}\""),
        files: &["/images/", "/resources/", "/skins/"],
        tokens: &[("Token\":\"", "\"")],
    });
}

#[test]
fn wagtail() {
    run(&System {
        lab: "wagtail",
        origin: "nginx_templates",
        start: "/",
        disallowed: &[],
        prepare: |_| {},
        users: &["alice", "bob"],
        log_in: |user, lab| super::wagtail::LOGIN.log_in(user, lab.value("user_password")),
        mark: |name| format!("Logged in as {name}"),
        files: &["/static/", "/media/"],
        tokens: &[("name=\"csrfmiddlewaretoken\" value=\"", "\"")],
    });
}

fn run(system: &System) {
    let lab = LabVariables::find(system.lab);
    let extent = TrafficSize::chosen();
    let host = lab.value("host");
    (system.prepare)(&lab);
    let pages = crawl(lab.address(system.origin), host, system.start, system.disallowed, extent.urls_max);
    println!("{}: {} URLs", system.lab, pages.len());
    let edge = Edge::start(&format!("http://{}", lab.value(system.origin)), &[]);
    let owners = Owners::default();
    let mut users: Vec<_> =
        system.users.iter().map(|name| LabVisitor::new(name, edge.address, host, &owners)).collect();
    users.iter_mut().for_each(|user| (system.log_in)(user, &lab));
    // Visitors first open the site's root. A system without specific header fields is detected by
    // its start page alone.
    let mut anybody = LabVisitor::new("anybody", edge.address, host, &owners);
    ["/", system.start].into_iter().for_each(|target| drop(anybody.get(target)));
    let mut site = TrafficSite {
        system,
        client: Client::connect(edge.address),
        edge: &edge,
        host,
        owners: &owners,
        last: BTreeMap::new(),
        reasons: BTreeMap::new(),
        hits: 0,
    };
    let mut traffic = RequestSequence::shuffled(SEED, pages);
    let clock = SystemClock::new();
    let begun = clock.monotonic();
    for count in 1..=extent.requests {
        let visit = traffic.visit();
        site.visit(&visit);
        if count % LOGGED_IN_EVERY == 0 {
            let users_count = users.len();
            let user = &mut users[count / LOGGED_IN_EVERY % users_count];
            site.visit_logged_in(user, &visit.target);
        }
        if count % extent.minute == 0 {
            let page = traffic.page();
            [&traffic.pages()[page], system.start].into_iter().for_each(|target| site.purge(target));
        }
        if extent.paced {
            let due = Duration::from_secs_f64(count as f64 / f64::from(RATE));
            std::thread::sleep(due.saturating_sub(clock.monotonic().since(begun)));
        }
    }
    site.report(extent.requests, clock.monotonic().since(begun));
    let said = edge.stderr();
    let recognised = format!("profile {} from now on", system.lab);
    assert!(said.contains(&recognised), "the system was not recognised: {said}");
    assert!(!said.contains("depends on a cookie"), "a cookie that means nothing is blamed: {said}");
    let ratio = site.hits as f64 / extent.requests as f64;
    site.one_object_with_and_without_noise(&mut traffic);
    assert!(ratio >= HITS_MIN, "{} of {} requests were answered from the store", site.hits, extent.requests);
}

/// The edge, the connection to it and the results so far.
struct TrafficSite<'a> {
    system: &'a System,
    edge: &'a Edge,
    client: Client,
    host: &'a str,
    owners: &'a Owners,
    /// The content of each page that was searched last and had no personal content.
    last: BTreeMap<usize, Vec<u8>>,
    reasons: BTreeMap<String, usize>,
    hits: usize,
}

impl TrafficSite<'_> {
    /// Sends an anonymous request, which is part of the ratio.
    fn visit(&mut self, visit: &SequenceRequest) {
        let answer = self.ask("GET", &visit.target, &visit.fields);
        let status = answer.field("Cache-Status").unwrap_or_else(|| panic!("{}", answer.head));
        let reason = status.split("detail=").nth(1).unwrap_or(status).split(';').next().unwrap_or(status);
        *self.reasons.entry(reason.to_owned()).or_default() += 1;
        self.hits += usize::from(is_hit(&answer));
        self.require_nobodys(visit, answer);
    }

    /// Sends a request of a logged-in user. A page must be the user's own; a file may be a hit.
    fn visit_logged_in(&self, user: &mut LabVisitor<'_>, target: &str) {
        let answer = user.get(target);
        let is_file = self.system.files.iter().any(|prefix| target.starts_with(prefix));
        assert!(is_file || !is_hit(&answer), "{target}: {}", answer.head);
        let is_page = answer.field("Content-Type").is_some_and(|value| value.starts_with("text/html"));
        if !is_page || answer.status != 200 {
            return;
        }
        let text = answer.text();
        assert!(text.contains(&(self.system.mark)(&user.name)), "{target} is not of {}: {text}", user.name);
        for (from, to) in self.system.tokens {
            let secrets = text.split(from).skip(1).filter_map(|rest| rest.split_once(to));
            secrets.filter(|(secret, _)| secret.len() >= 10).for_each(|(secret, _)| user.own(secret));
        }
    }

    /// Checks that a response to an anonymous request contains nothing of any user.
    fn require_nobodys(&mut self, visit: &SequenceRequest, answer: Response) {
        let is_known = self.last.get(&visit.page).is_some_and(|last| *last == answer.body);
        let text = String::from_utf8_lossy(if is_known { &[] } else { &answer.body });
        let owners = self.owners.lock().unwrap();
        for secret in owners.keys() {
            assert!(!text.contains(secret), "{} leaks {secret}: {}", visit.target, answer.head);
            assert!(!answer.head.contains(secret), "{} leaks {secret}: {}", visit.target, answer.head);
        }
        for user in self.system.users {
            let mark = (self.system.mark)(user);
            assert!(!text.contains(&mark), "{} is a page of {user}: {}", visit.target, answer.head);
        }
        drop(owners);
        if !is_known {
            self.last.insert(visit.page, answer.body);
        }
    }

    fn purge(&mut self, target: &str) {
        let answer = self.ask("PURGE", target, &[]);
        assert_eq!(answer.status, 200, "{}", answer.head);
    }

    fn ask(&mut self, method: &str, target: &str, fields: &[String]) -> Response {
        let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        self.client.send(format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n{lines}\r\n", self.host));
        let answer = self.client.read();
        assert!(answer.complete, "{target}: {}", answer.head);
        if answer.field("Connection") == Some("close") {
            self.client = Client::connect(self.edge.address);
        }
        answer
    }

    fn report(&self, requests: usize, took: Duration) {
        let percent = |count: usize| 100.0 * count as f64 / requests as f64;
        println!("{requests} requests in {} s", took.as_secs());
        println!("{:>8}  {:>6.2}%  answered from the store", self.hits, percent(self.hits));
        for (reason, count) in &self.reasons {
            println!("{count:>8}  {:>6.2}%  {reason}", percent(*count));
        }
        println!("{:>8}  beside these, of users who are logged in", requests / LOGGED_IN_EVERY);
    }

    /// Checks that requests with and without noise receive the same object: the same bytes,
    /// generated at the same time.
    fn one_object_with_and_without_noise(&mut self, traffic: &mut RequestSequence) {
        let mut shared = 0;
        for page in 0..traffic.pages().len() {
            // The object may be refreshed once between the two requests.
            let is_one = (0..3).any(|_| {
                let plain = self.ask("GET", &traffic.pages()[page].clone(), &[]);
                let visit = traffic.visitor(page);
                let noisy = self.ask("GET", &visit.target, &visit.fields);
                let is_shared = is_hit(&noisy);
                shared += usize::from(is_shared);
                let same = |name: &str| plain.field(name) == noisy.field(name);
                !is_shared || plain.body == noisy.body && same("Date") && same("ETag")
            });
            assert!(is_one, "{} is another one with noise", traffic.pages()[page]);
        }
        println!("{shared} of {} URLs are one object with and without noise", traffic.pages().len());
        assert!(shared * 10 >= traffic.pages().len() * 9, "too few are shared");
    }
}
