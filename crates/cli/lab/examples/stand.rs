//! An example that runs: the real binary with the example's file, a browser in front of it, and a
//! client that verifies the certificate.
//!
//! Invariant: each page view fails the test if a request of the page fails or the page reports an
//! error.

use crate::chromium::{BrowserWindow, Chromium};
use crate::example_file::replaced;
use crate::network::{NetworkResponse, view, watch_faults};
use crate::stub::{Stub, System};
use std::net::SocketAddr;
use std::path::Path;
use tempfile::TempDir;
use testkit::{Authority, Client, Edge, HeldPort, KeyKind, Response, Trust, eventually, petasos};

/// Names of the sites in every example: the site, the name without `www`, and the trial copy.
const NAMES: [&str; 3] = ["www.example.org", "example.org", "staging.example.org"];
/// The certificate of every example.
const TLS: &str = "tls = [\"www.example.org\", \"example.org\", \"staging.example.org\"]";
/// The page of the commented line `maintenance`.
const MAINTENANCE: &str = "/etc/petasos/maintenance.html";

/// The password file of the trial copy, and the user in it.
const PASSWORDS: &str = "/etc/petasos/trial.passwords";
const USER: &str = "ann:$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.\n";
/// Credentials of that user (base64 of `ann:secret`).
const CREDENTIALS: &str = "Authorization: Basic YW5uOnNlY3JldA==";

/// The choices of a test for an example.
pub(crate) struct Setup<'a> {
    /// Directory below `examples/`.
    pub(crate) name: &'a str,
    /// Host name of the application, in place of `www.example.org`.
    pub(crate) host: &'a str,
    /// Address in place of port 80. `None`: a free one.
    pub(crate) plain: Option<SocketAddr>,
    /// The admin address. `None`: a free one.
    pub(crate) admin: Option<SocketAddr>,
    /// Whether the example has a disk.
    pub(crate) has_disk: bool,
    /// Replacements of this example alone: addresses and paths of the origin.
    pub(crate) replacements: &'a [(&'a str, &'a str)],
}

/// A running example.
pub(crate) struct Stand {
    pub(crate) edge: Edge,
    pub(crate) browser: Chromium,
    pub(crate) host: String,
    /// The address in place of port 443.
    secure: SocketAddr,
    /// The address in place of port 80.
    pub(crate) plain: SocketAddr,
    trust: Trust,
    configuration: String,
    directory: TempDir,
    _ports: [HeldPort; 2],
}

impl Stand {
    /// Starts Petasos with the example, and the browser.
    pub(crate) fn start(setup: &Setup<'_>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let host = setup.host;
        let [bare, staging] = [format!("bare.{host}"), format!("staging.{host}")];
        let authority = Authority::new(&format!("the authority of {}", setup.name));
        let pem = authority.issue(&[host, &bare, &staging], KeyKind::Ecdsa, (2000, 2100));
        let (chain, key) = pem.write(directory.path(), "site");
        let ports = [HeldPort::take(), HeldPort::take()];
        let secure = ports[0].address();
        let plain = setup.plain.unwrap_or_else(|| ports[1].address());
        let path = |name: &str| directory.path().join(name).display().to_string();
        let maintenance = path("maintenance.html");
        std::fs::write(&maintenance, "<title>closed</title>Back soon.").unwrap();
        let passwords = path("passwords");
        std::fs::write(&passwords, USER).unwrap();
        let disk = [("\"/var/cache/petasos\"", &*format!("\"{}\"", path("disk")))];
        let all = [
            (TLS, &*format!("tls = [\"{},{}\"]", chain.display(), key.display())),
            ("listen = \":443\"", &format!("listen = \"{secure}\"")),
            ("listen = \":80\"", &format!("listen = \"{plain}\"")),
            (NAMES[0], host),
            (NAMES[2], &staging),
            ("\"example.org\"", &format!("\"{bare}\"")),
            (MAINTENANCE, &maintenance),
            (PASSWORDS, &passwords),
        ];
        let disk = if setup.has_disk { &disk[..] } else { &[] };
        let configuration = replaced(setup.name, &[&all[..], disk, setup.replacements].concat());
        let file = directory.path().join("petasos.toml");
        std::fs::write(&file, &configuration).unwrap();
        let edge = Edge::of_file(&file, setup.admin);
        let browser = Chromium::start_secure(host, secure);
        let trust = Trust::of(&pem.authority);
        let host = host.to_owned();
        Self { edge, browser, host, secure, plain, trust, configuration, directory, _ports: ports }
    }

    /// The window of a new visitor.
    pub(crate) fn visitor(&mut self) -> BrowserWindow {
        let window = self.browser.window();
        watch_faults(&mut self.browser, &window);
        window
    }

    /// Opens a page and returns the responses for the page and its files.
    pub(crate) fn open(&mut self, window: &BrowserWindow, target: &str) -> PageVisit {
        let url = format!("https://{}{target}", self.host);
        self.act(window, target, |browser, window| browser.open(window, &url))
    }

    /// Runs a script that leads to another page.
    pub(crate) fn follow(&mut self, window: &BrowserWindow, script: &str) -> PageVisit {
        self.act(window, script, |browser, window| browser.follow(window, script))
    }

    fn act(
        &mut self,
        window: &BrowserWindow,
        what: &str,
        act: impl FnOnce(&mut Chromium, &BrowserWindow),
    ) -> PageVisit {
        let seen = view(&mut self.browser, window, &format!("https://{}", self.host), act);
        // Chromium asks for an icon that not every site has.
        let faults: Vec<_> = seen.faults.iter().filter(|fault| !fault.contains("/favicon.ico\"")).collect();
        assert!(faults.is_empty(), "{what}: the page reports {faults:#?}");
        let expected = seen.received.iter().filter(|one| !one.url.ends_with("/favicon.ico"));
        for NetworkResponse { url, status, error, .. } in expected {
            assert!(*status < 400 && error.is_none(), "{what}: {url} is answered {status}, {error:?}");
        }
        let markup = self.browser.markup(window);
        PageVisit { received: seen.received, markup }
    }

    /// Checks that the page and its files are hits for the second of two new visitors. The files
    /// are those with one of `files` in their URL; unless `files` is empty, there must be one.
    pub(crate) fn is_shared(&mut self, target: &str, files: &[&str]) {
        let first = self.visitor();
        self.open(&first, target);
        let second = self.visitor();
        let seen = self.open(&second, target);
        assert!(is_hit(seen.page()), "{target}: {}", seen.page().head);
        // Chromium may still load the icon when the first visit is over.
        let is_file = |one: &&NetworkResponse| {
            !one.is_page && !one.is_icon && files.iter().any(|file| one.url.contains(file))
        };
        let found: Vec<_> = seen.received.iter().filter(is_file).collect();
        assert!(files.is_empty() || !found.is_empty(), "{target} has none of {files:?}");
        for file in found {
            assert!(is_hit(file), "{}: {}", file.url, file.head);
        }
    }

    /// Checks that `petasos why` has this reason for a page, as the pages of the examples say.
    pub(crate) fn explains(&self, target: &str, reason: &str) {
        let url = format!("https://{}{target}", self.host);
        let told = petasos(["why", &url, "--admin", &self.edge.admin.to_string()]);
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        assert!(told.stdout.contains(reason), "{target}: {}", told.stdout);
    }

    /// Checks that a new anonymous visitor sees these words in the page, within two seconds.
    pub(crate) fn strangers_see(&mut self, target: &str, words: &str) {
        let mut markup = String::new();
        let seen = (0..20).any(|_| {
            let window = self.visitor();
            markup = self.open(&window, target).markup;
            let seen = markup.contains(words);
            if !seen {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            seen
        });
        assert!(seen, "{target} does not show {words} to a new visitor: {markup}");
    }

    /// Sends a request over TLS and verifies the certificate of `host`.
    pub(crate) fn ask(&self, host: &str, method: &str, target: &str, lines: &[&str]) -> Response {
        self.ask_at(host, host, method, target, lines)
    }

    fn ask_at(&self, name: &str, host: &str, method: &str, target: &str, lines: &[&str]) -> Response {
        let mut client = Client::secured(self.secure, name, &self.trust).unwrap();
        client.send(request(host, method, target, lines));
        client.read()
    }

    /// Requests a target of the site.
    pub(crate) fn get(&self, target: &str) -> Response {
        self.ask(&self.host, "GET", target, &[])
    }

    /// Sends the content of a form to the site. The response may come much later.
    pub(crate) fn post(&self, target: &str, content: &str) -> Client {
        let length = format!("Content-Length: {}", content.len());
        let lines = ["Content-Type: application/x-www-form-urlencoded", &length];
        self.send("POST", target, &lines, content)
    }

    /// Sends a request to the site.
    pub(crate) fn send(&self, method: &str, target: &str, lines: &[&str], content: &str) -> Client {
        let mut client = Client::secured(self.secure, &self.host, &self.trust).unwrap();
        client.send(request(&self.host, method, target, lines) + content);
        client
    }

    /// Checks the parts that all examples have: the redirects, the answer to unknown hosts, HSTS,
    /// and the trial copy that asks for a password and is closed by two lines and a reload.
    pub(crate) fn has_the_common_parts(&self) {
        let host = &self.host;
        let plain = |host: &str| {
            let mut client = Client::connect(self.plain);
            client.send(request(host, "GET", "/some/page?a=1", &[]));
            client.read()
        };
        let answer = plain(host);
        assert_eq!(answer.status, 308, "{}", answer.head);
        // The test's port in place of 443 is part of the URL.
        let location = answer.field("Location").unwrap();
        assert!(location.starts_with(&format!("https://{host}")), "{location}");
        assert!(location.ends_with("/some/page?a=1"), "{location}");
        assert_eq!(plain("unknown.test").status, 421, "an unknown host at the plain port");
        let answer = self.ask_at(host, "unknown.test", "GET", "/", &[]);
        assert_eq!(answer.status, 421, "an unknown host at the port with TLS: {}", answer.head);

        let answer = self.ask(&format!("bare.{host}"), "GET", "/some/page?a=1", &[]);
        let location = format!("https://{host}/some/page?a=1");
        assert_eq!((answer.status, answer.field("Location")), (308, Some(&*location)), "{}", answer.head);

        let answer = self.get("/");
        assert_eq!(answer.field("Strict-Transport-Security"), Some("max-age=86400"), "{}", answer.head);
        assert_eq!(answer.field("X-Robots-Tag"), None, "{}", answer.head);
        assert_eq!(answer.field("X-Content-Type-Options"), Some("nosniff"), "{}", answer.head);
        assert_eq!(answer.field("X-Powered-By"), None, "{}", answer.head);
        let staging = format!("staging.{host}");
        let answer = self.ask(&staging, "GET", "/", &[]);
        assert_eq!(answer.status, 401, "the trial copy without a password: {}", answer.head);
        let trial = || self.ask(&staging, "GET", "/", &[CREDENTIALS]);
        let answer = trial();
        assert_eq!(answer.field("X-Robots-Tag"), Some("noindex"), "{}", answer.head);
        assert!(![401, 503].contains(&answer.status), "{}", answer.head);

        self.reload(&self.configuration.replace("# maintenance", "maintenance"));
        eventually("the trial copy is closed", || {
            let answer = trial();
            answer.status == 503
                && answer.text().contains("Back soon.")
                && answer.field("Retry-After").is_some()
        });
        assert_ne!(self.get("/").status, 503, "the site is closed too");
        self.reload(&self.configuration);
        eventually("the trial copy is open again", || trial().status != 503);
    }

    fn reload(&self, configuration: &str) {
        std::fs::write(self.directory.path().join("petasos.toml"), configuration).unwrap();
        self.edge.signal("HUP");
    }

    /// Checks that a file opened by itself may run no script, may be kept by browsers for
    /// `max_age_secs` seconds, and has the fields of its route alone.
    pub(crate) fn is_upload(&self, target: &str, max_age_secs: u32) {
        let answer = self.get(target);
        assert_eq!(answer.status, 200, "{target}: {}", answer.head);
        let age = format!("public, max-age={max_age_secs}");
        for (name, value) in [
            ("Cache-Control", Some(&*age)),
            ("Content-Security-Policy", Some("script-src 'none'")),
            ("X-Content-Type-Options", Some("nosniff")),
            ("X-Frame-Options", None),
        ] {
            assert_eq!(answer.field(name), value, "{target}: {name}: {}", answer.head);
        }
        let again = self.get(target);
        assert!(again.field("Cache-Status").unwrap().starts_with("Petasos; hit"), "{}", again.head);
    }

    /// Visits a stub of a system: its pages, a log-in, an edit with the system's purge, and many
    /// log-ins at once.
    pub(crate) fn serves(&mut self, stub: &Stub) {
        let System { article, login, files, .. } = stub.system;
        self.has_the_common_parts();
        for target in ["/", article] {
            self.is_shared(target, &files);
        }
        self.explains("/", "hit-fresh");
        let editor = self.visitor();
        self.open(&editor, login);
        self.browser.type_into(&editor, "#name", "Ada");
        self.follow(&editor, "document.querySelector('button').click()").is_own("<p id=\"user\">Ada</p>");
        for title in ["Second title", "Third title"] {
            assert_eq!(stub.edit(title, self.plain), 200, "the purge");
            for target in ["/", article] {
                // The purge is in force when it is answered.
                let window = self.visitor();
                let seen = self.open(&window, target);
                assert!(seen.markup.contains(title), "{target}: {}", seen.markup);
                self.open(&editor, target).is_own(title);
                self.is_shared(target, &files);
            }
        }
        self.no_purge_was_refused();
        self.limits_log_ins(stub);
    }

    /// Checks that a client has two log-ins at a time and four that wait, and that further ones are
    /// refused while pages still come.
    fn limits_log_ins(&self, stub: &Stub) {
        let login = stub.system.login;
        stub.origin.forget();
        let busy = |count: usize| {
            let clients: Vec<_> = (0..count).map(|_| self.post(login, "name=slow")).collect();
            clients
        };
        let mut first = busy(2);
        eventually("two log-ins are at the origin", || stub.origin.count(login) == 2);
        let mut waiting = busy(4);
        eventually("four log-ins wait", || {
            self.edge.metric("petasos_origin_fetches_waiting", "login") >= 4.0
        });
        for mut client in busy(3) {
            assert_eq!(client.read().status, 503, "a seventh log-in at a time");
        }
        assert_eq!(self.get("/").status, 200);
        assert_eq!(stub.origin.count(login), 2, "more than two log-ins of a client at a time");
        stub.slow.open();
        for client in first.iter_mut().chain(&mut waiting) {
            assert_eq!(client.read().status, 403, "the application answers");
        }
    }

    /// Number of purges that Petasos has obeyed.
    pub(crate) fn purges(&self) -> f64 {
        self.edge.metric("petasos_purges_total", "")
    }

    /// Checks that Petasos refused no purge.
    pub(crate) fn no_purge_was_refused(&self) {
        for name in ["petasos_purges_forbidden_total", "petasos_purges_malformed_total"] {
            assert!(self.edge.metric(name, "") < 1.0, "{name}: a purge was refused");
        }
    }
}

/// A page with its files, as a visitor received them.
pub(crate) struct PageVisit {
    pub(crate) received: Vec<NetworkResponse>,
    pub(crate) markup: String,
}

impl PageVisit {
    /// The response with the page itself.
    pub(crate) fn page(&self) -> &NetworkResponse {
        self.received.iter().rev().find(|one| one.is_page).unwrap()
    }

    /// Checks that the page is this visitor's own: it contains the words and does not come from the
    /// store.
    pub(crate) fn is_own(&self, words: &str) {
        assert!(self.markup.contains(words), "no {words} in {}", self.markup);
        assert!(!is_hit(self.page()), "a hit for a user: {}", self.page().head);
    }
}

/// Whether a response comes from the store.
pub(crate) fn is_hit(received: &NetworkResponse) -> bool {
    received.field("Cache-Status").is_some_and(|status| status.starts_with("Petasos; hit"))
}

/// A request with these header lines.
pub(crate) fn request(host: &str, method: &str, target: &str, lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n")
}

/// The variables of a lab, which must be up.
pub(crate) struct Lab(toml::Table);

impl Lab {
    /// Reads the variables of the lab of this name.
    pub(crate) fn find(name: &str) -> Self {
        let file = format!("{}/../../target/labs/{name}/lab.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(Path::new(&file));
        Self(text.unwrap_or_else(|_| panic!("run `cargo xtask lab {name} up` first")).parse().unwrap())
    }

    /// The value of a variable.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.0.get(name).and_then(toml::Value::as_str).unwrap_or_else(|| panic!("lab.toml has no {name}"))
    }

    /// The value of a variable with an address.
    pub(crate) fn address(&self, name: &str) -> SocketAddr {
        self.value(name).parse().unwrap()
    }

    /// The URL of an address.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{}", self.value(name))
    }
}
