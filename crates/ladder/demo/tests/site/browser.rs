//! A running site with its own database, and a client with cookies.

use petasos_demo::{Options, Site, Switches};
use platform::SystemClock;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;
use testkit::{Client, Response};

/// The steps of the ladder: one more layer in each, as queries of `/_switch`.
pub(crate) const LAYERS: [&str; 5] = [
    "page_cache=off&opcode=off&aggressive=off&objects=off",
    "page_cache=on&opcode=off&aggressive=off&objects=off",
    "page_cache=on&opcode=on&aggressive=off&objects=off",
    "page_cache=on&opcode=on&aggressive=on&objects=off",
    "page_cache=on&opcode=on&aggressive=on&objects=on",
];

/// A running site. It stops when it is dropped.
pub(crate) struct Running {
    site: Option<Site>,
    _data: TempDir,
}

impl Running {
    /// Starts a site with a copy of a database that is built once per process.
    pub(crate) fn start() -> Self {
        Self::with_workers(2)
    }

    pub(crate) fn with_workers(workers: usize) -> Self {
        static TEMPLATE: OnceLock<TempDir> = OnceLock::new();
        let template = TEMPLATE.get_or_init(|| {
            let directory = tempfile::tempdir().unwrap();
            start(directory.path(), 1).stop();
            directory
        });
        let data = tempfile::tempdir().unwrap();
        fs::copy(template.path().join("site.db"), data.path().join("site.db")).unwrap();
        let site = Some(start(data.path(), workers));
        Self { site, _data: data }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.site.as_ref().unwrap().address()
    }

    /// A new visitor without cookies.
    pub(crate) fn visitor(&self) -> Visitor {
        Visitor { address: self.address(), cookies: BTreeMap::new() }
    }

    /// Sets the switches and empties all caches.
    pub(crate) fn switch(&self, query: &str) {
        let operator = self.visitor();
        assert_eq!(operator.send("POST", &format!("/_switch?{query}"), &[], "").status, 200);
        assert_eq!(operator.send("POST", "/_flush", &[], "").status, 200);
    }

    /// A number in the response of `/_status`.
    pub(crate) fn counter(&self, name: &str) -> i64 {
        let status = self.visitor().get("/_status");
        let after = status.text().split_once(&format!("\"{name}\":")).expect(name).1;
        after.split([',', '}']).next().unwrap().parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(site) = self.site.take() {
            site.stop();
        }
    }
}

pub(crate) fn start(data: &Path, workers: usize) -> Site {
    Site::start(&options(data, workers), Arc::new(SystemClock::new())).unwrap()
}

pub(crate) fn options(data: &Path, workers: usize) -> Options {
    let listen = "127.0.0.1:0".parse().unwrap();
    Options { listen, data: data.to_owned(), workers, switches: Switches::default(), parse_time: false }
}

/// A client that keeps cookies and does not follow redirects by itself.
pub(crate) struct Visitor {
    pub(crate) address: SocketAddr,
    pub(crate) cookies: BTreeMap<String, String>,
}

impl Visitor {
    pub(crate) fn get(&self, target: &str) -> Response {
        self.send("GET", target, &[], "")
    }

    /// Sends a request with the visitor's cookies. Ignores cookies in the response.
    pub(crate) fn send(&self, method: &str, target: &str, fields: &[&str], content: &str) -> Response {
        let mut client = Client::connect(self.address);
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies =
            if cookies.is_empty() { String::new() } else { format!("Cookie: {}\r\n", cookies.join("; ")) };
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        let length = content.len();
        client.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: shop.test\r\n{cookies}{fields}Content-Length: {length}\r\n\r\n{content}"
        ));
        client.read()
    }

    /// Requests a page and stores its cookies.
    pub(crate) fn visit(&mut self, target: &str) -> Response {
        let response = self.get(target);
        self.take_cookies(&response);
        response
    }

    /// Fills in and sends the form `name` on the page at `target`, then follows the redirect.
    pub(crate) fn submit(&mut self, target: &str, name: &str, values: &[(&str, &str)]) -> Response {
        let page = self.visit(target);
        let (action, mut fields) =
            form(page.text(), name).unwrap_or_else(|| panic!("no form {name} on {target}"));
        for (field, value) in values {
            fields.insert((*field).to_owned(), (*value).to_owned());
        }
        let answer = self.post(&action, &fields);
        match answer.field("Location") {
            Some(location) => self.visit(location),
            None => answer,
        }
    }

    /// Sends form fields and stores cookies.
    pub(crate) fn post(&mut self, target: &str, fields: &BTreeMap<String, String>) -> Response {
        let pairs: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let kind = "Content-Type: application/x-www-form-urlencoded";
        let response = self.send("POST", target, &[kind], &pairs.join("&"));
        self.take_cookies(&response);
        response
    }

    pub(crate) fn log_in(&mut self, name: &str, password: &str) -> Response {
        self.submit("/user", "login", &[("name", name), ("password", password)])
    }

    fn take_cookies(&mut self, response: &Response) {
        for line in response.head.lines().filter_map(|line| line.strip_prefix("Set-Cookie: ")) {
            let (name, rest) = line.split_once('=').unwrap();
            let value = rest.split(';').next().unwrap();
            if rest.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }
}

/// The action and the hidden fields of a form.
pub(crate) fn form(html: &str, name: &str) -> Option<(String, BTreeMap<String, String>)> {
    let mark = format!("name=\"form\" value=\"{name}\"");
    let form =
        html.split("<form ").skip(1).find(|form| form.split("</form>").next().unwrap().contains(&mark))?;
    let form = form.split("</form>").next().unwrap();
    let action = attribute(form, "action")?;
    let hidden = form.split("<input type=\"hidden\" ").skip(1);
    let fields =
        hidden.map(|input| (attribute(input, "name").unwrap(), attribute(input, "value").unwrap())).collect();
    Some((action, fields))
}

fn attribute(html: &str, name: &str) -> Option<String> {
    html.split_once(&format!("{name}=\""))?.1.split('"').next().map(str::to_owned)
}

fn encoded(text: &str) -> String {
    text.bytes().map(|octet| format!("%{octet:02X}")).collect()
}

/// The page without its timing note, which differs in each response.
pub(crate) fn normalised(page: &Response) -> String {
    let text = page.text();
    match text.split_once("<!-- Mission Bicycles: parsed ") {
        Some((before, note)) => {
            let (_, after) = note.split_once(" -->\n").expect("the note ends");
            format!("{before}{after}")
        }
        None => text.to_owned(),
    }
}

/// The targets of a page's links within this site.
pub(crate) fn links(html: &str) -> Vec<String> {
    html.split(" href=\"/")
        .skip(1)
        .map(|rest| format!("/{}", rest.split(['"', '#']).next().unwrap().replace("&amp;", "&")))
        .collect()
}
