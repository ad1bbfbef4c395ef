//! The load of a life: visitors, clients that change and purge pages, and an observer of the
//! status.
//!
//! Invariant: a thread ends when the edge has ended. A response that was received is judged even
//! then.

use super::model::{CrashModel, ModelSnapshot, ResponseKind};
use super::pages::{CrashPage, LANGUAGES, NO_LANGUAGE};
use super::{CrashCounts, lock};
use crate::{Client, Edge, Response};
use clock::Clock;
use platform::SystemClock;
use stats::Random;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Requests of one thread between two of its purges.
const READS_PER_PURGE: usize = 12;

/// Pause between two requests for the status.
const STATUS_PAUSE: Duration = Duration::from_millis(5);

/// The load of one life.
pub(super) struct LifeLoad<'a> {
    pub(super) model: &'a CrashModel,
    pub(super) address: SocketAddr,
    pub(super) admin: SocketAddr,
    /// Whether the edge is about to be ended.
    pub(super) is_ending: AtomicBool,
    pub(super) requests: AtomicU64,
    /// Everything answered before this moment of the model is durable, according to the edge.
    pub(super) durable: AtomicU64,
    pub(super) tally: Mutex<CrashCounts>,
    pub(super) problems: Mutex<Vec<String>>,
}

impl<'a> LifeLoad<'a> {
    pub(super) fn new(model: &'a CrashModel, edge: &Edge) -> Self {
        Self {
            model,
            address: edge.address,
            admin: edge.admin,
            is_ending: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            tally: Mutex::default(),
            problems: Mutex::default(),
        }
    }

    /// Whether the threads should stop, because the life ends or a problem was found.
    pub(super) fn is_over(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst) || !lock(&self.problems).is_empty()
    }

    pub(super) fn complain(&self, problem: String) {
        lock(&self.problems).push(problem);
    }

    /// Requests pages until the end, as a visitor.
    pub(super) fn read(&self, mut random: Random) {
        let mut visitor = CrashClient { load: self, client: None };
        while !self.is_over() {
            visitor.read(&mut random);
        }
    }

    /// Changes and purges pages until the end, and requests one of the changed pages after each
    /// purge.
    pub(super) fn purge(&self, mut random: Random) {
        let mut visitor = CrashClient { load: self, client: None };
        while !self.is_over() {
            let purge = Purge::any(&mut random, self.admin);
            let answer = purge.carry_out(self.model, self.address);
            match answer {
                Some(Response { status: 200, .. }) => lock(&self.tally).purges += 1,
                Some(answer) => self.complain(format!("{} was answered: {}", purge.what, answer.head)),
                None => {}
            }
            if let Some(page) = purge.first_page() {
                visitor.visit(page, page.languages()[0], "");
            }
            (0..READS_PER_PURGE).for_each(|_| visitor.read(&mut random));
        }
    }

    /// Reads the durable state from the status, until the end.
    pub(super) fn watch(&self) {
        let clock = SystemClock::new();
        // Moments of the model, their times, and the numbers that the edge had accepted by then.
        let mut moments = Vec::new();
        while !self.is_over() {
            let moment = self.model.now();
            let at = clock.monotonic();
            let Some(status) = Edge::status(self.admin) else { return };
            let disk = &status["disk"];
            let [accepted, durable] = ["accepted", "durable"].map(|name| disk[name].as_u64().unwrap());
            moments.push((moment, at, accepted));
            while let Some((moment, since, _)) = moments.first().filter(|(.., number)| *number <= durable) {
                self.durable.fetch_max(*moment, Ordering::SeqCst);
                let lag_ms = clock.monotonic().since(*since).as_millis() as u64;
                let mut tally = lock(&self.tally);
                tally.lag_ms_max = tally.lag_ms_max.max(lag_ms);
                moments.remove(0);
            }
            if disk["off"] == true {
                self.complain(format!("the disk is off: {disk}"));
            }
            std::thread::sleep(STATUS_PAUSE);
        }
    }
}

/// A client that opens a new connection whenever the last one has ended.
struct CrashClient<'a> {
    load: &'a LifeLoad<'a>,
    client: Option<Client>,
}

impl CrashClient<'_> {
    /// Requests a random page, or a range of it.
    fn read(&mut self, random: &mut Random) {
        // A quarter of the pages receives more than half of the requests.
        let page = if random.below(2) == 0 { CrashPage::any(random) } else { CrashPage(random.below(24)) };
        let language = page.languages()[random.below(page.languages().len())];
        let first = random.below(150);
        let range = match random.below(12) {
            0 => format!("Range: bytes={first}-{}\r\n", first + random.below(200_000)),
            _ => String::new(),
        };
        self.visit(page, language, &range);
    }

    fn visit(&mut self, page: CrashPage, language: usize, range: &str) {
        let load = self.load;
        let (_, verdict) = visit(load, &mut self.client, page, language, range);
        load.requests.fetch_add(1, Ordering::SeqCst);
        lock(&load.tally).count(verdict);
    }
}

/// Requests a page and judges the response. The verdict is `None` if there was no response.
pub(super) fn visit(
    load: &LifeLoad<'_>,
    connection: &mut Option<Client>,
    page: CrashPage,
    language: usize,
    fields: &str,
) -> (ModelSnapshot, Option<ResponseKind>) {
    let language_field = match language {
        NO_LANGUAGE => String::new(),
        language => format!("Accept-Language: {}\r\n", LANGUAGES[language]),
    };
    let target = page.target();
    let host = page.host();
    let begun = load.model.begin(page, language);
    let client = connection.take().or_else(|| Client::try_connect(load.address));
    let Some(mut client) = client else { return (begun, None) };
    let asked = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{language_field}{fields}\r\n");
    let Some(answer) = client.try_ask(asked) else { return (begun, None) };
    let verdict = load.model.judge(&begun, &answer, false).unwrap_or_else(|problem| {
        load.complain(problem);
        ResponseKind::Other
    });
    if answer.complete && answer.field("Connection") != Some("close") {
        *connection = Some(client);
    }
    (begun, Some(verdict))
}

/// A purge, or a write that invalidates a page.
pub(crate) struct Purge {
    pages: Vec<CrashPage>,
    /// Whether it may affect any page: a ban on response fields may also purge responses whose
    /// fields are only on disk.
    may_mean_all: bool,
    what: String,
    to: Option<SocketAddr>,
    is_soft: bool,
    request: String,
}

impl Purge {
    pub(crate) fn any(random: &mut Random, admin: SocketAddr) -> Self {
        let page = CrashPage::any(random);
        let host = page.host();
        let target = page.target();
        let section = page.section();
        let own = vec![page];
        let of_section = move |other: &CrashPage| other.section() == section;
        let of_host = move |other: &CrashPage| other.host() == host;
        let soft = random.below(4) == 0;
        let kind = random.below(100);
        let purge = |pages: Vec<CrashPage>, method: &str, target: &str, fields: &str| Self {
            pages,
            may_mean_all: false,
            what: format!("{method} {host}{target} {}", fields.trim_end().replace("\r\n", ", ")),
            to: None,
            is_soft: soft || fields.contains("soft"),
            request: format!(
                "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}{}\r\n",
                if soft { "Fastly-Soft-Purge: 1\r\n" } else { "" }
            ),
        };
        match kind {
            0..30 => purge(own, "PURGE", &target, ""),
            30..45 => purge(own, "PURGE", "/", &format!("Surrogate-Key: page-{}\r\n", page.0)),
            45..52 => purge(own, "PURGE", "/", &format!("xkey-softpurge: page-{}\r\n", page.0)),
            52..60 => {
                let pages = CrashPage::all().filter(|other| of_host(other)).filter(of_section).collect();
                Self::call(admin, pages, soft, "uri-prefix", &format!("\"http://{host}/s{section}/\""))
            }
            60..70 => purge(own, "BAN", "/", &format!("X-Url: ^{target}$\r\n")),
            70..75 => {
                let pages = CrashPage::all().filter(of_section).collect();
                purge(pages, "PURGEKEYS", "/", &format!("Surrogate-Key: section-{section}\r\n"))
            }
            75..78 => {
                let ban = format!("\"obj.http.ETag ~ ^.{}- && req.url ~ ^/s\"", page.0);
                Self { may_mean_all: true, ..Self::call(admin, own, soft, "ban", &ban) }
            }
            78..80 => {
                let pages = CrashPage::all().filter(of_host).collect();
                Self::call(admin, pages, soft, "host", &format!("\"{host}\""))
            }
            80 => Self::call(admin, CrashPage::all().collect(), soft, "all", ""),
            _ => Self::write(page),
        }
    }

    /// A purge through the JSON API.
    fn call(admin: SocketAddr, pages: Vec<CrashPage>, is_soft: bool, kind: &str, selectors: &str) -> Self {
        let purge = !is_soft;
        let json = format!("{{\"type\": \"{kind}\", \"selectors\": [{selectors}], \"purge\": {purge}}}");
        let head = format!("POST /purge HTTP/1.1\r\nHost: {admin}\r\nContent-Type: application/json\r\n");
        let request = format!("{head}Content-Length: {}\r\n\r\n{json}", json.len());
        Self { pages, may_mean_all: false, what: json, to: Some(admin), is_soft, request }
    }

    /// A POST to the page, whose successful response invalidates it.
    fn write(page: CrashPage) -> Self {
        let host = page.host();
        let target = page.target();
        let request = format!("POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\n\r\ntext");
        let what = format!("POST {host}{target}");
        Self { pages: vec![page], may_mean_all: false, what, to: None, is_soft: false, request }
    }

    /// Sends the request. Returns the response, if there was one.
    pub(crate) fn carry_out(&self, model: &CrashModel, address: SocketAddr) -> Option<Response> {
        let change = model.change(&self.pages, self.may_mean_all, &self.what);
        let client = Client::try_connect(self.to.unwrap_or(address));
        let answer = client.and_then(|mut client| client.try_ask(&self.request));
        let is_answered = answer.as_ref().is_some_and(|answer| answer.status == 200);
        model.changed(&change, &self.what, is_answered, self.is_soft);
        answer
    }

    /// A description for messages.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// One of its pages.
    pub(crate) fn first_page(&self) -> Option<CrashPage> {
        self.pages.first().copied()
    }

    /// Whether the origin must answer it.
    pub(crate) fn is_write(&self) -> bool {
        self.what.starts_with("POST")
    }
}
