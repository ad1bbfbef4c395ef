//! Visitors of a lab's site. Each keeps its cookies, reads pages and sends their forms, through an
//! edge at the address where the lab's application expects it.
//!
//! Invariant: no visitor receives a value that identifies another visitor; otherwise the test
//! fails.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use testkit::{Client, Edge, Response};

/// Held by the running test: a test with a time limit must not compete with another test's
/// requests.
static TURN: Mutex<()> = Mutex::new(());

/// The variables of a running lab, from the `lab.toml` that `cargo xtask lab NAME up` writes. One
/// test has it at a time. `PETASOS_LAB` names the directory of a lab other than the default one.
pub(crate) struct LabVariables {
    values: toml::Table,
    _turn: MutexGuard<'static, ()>,
}

impl LabVariables {
    /// Finds the lab of this name, which must be up.
    pub(crate) fn find(name: &str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let default = || format!("{}/../../target/labs/{name}", env!("CARGO_MANIFEST_DIR"));
        let directory = std::env::var("PETASOS_LAB").unwrap_or_else(|_| default());
        let text = std::fs::read_to_string(format!("{directory}/lab.toml"));
        let text = text.unwrap_or_else(|_| panic!("run `cargo xtask lab {name} up` first"));
        Self { values: text.parse().unwrap(), _turn: turn }
    }

    /// The value of a variable.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.values
            .get(name)
            .and_then(toml::Value::as_str)
            .unwrap_or_else(|| panic!("lab.toml has no {name}"))
    }

    /// The value of a variable with an address.
    pub(crate) fn address(&self, name: &str) -> SocketAddr {
        self.value(name).parse().unwrap()
    }

    /// Starts an edge in front of an address of the lab, at the target address of the application's
    /// purges.
    pub(crate) fn edge(&self, origin: &str, profile: &str) -> Edge {
        let origin = format!("http://{}", self.value(origin));
        Edge::start_at(self.value("edge"), &origin, &["--profile", profile])
    }
}

/// Values that identify visitors, each with the name of its visitor.
pub(crate) type Owners = Mutex<BTreeMap<String, String>>;

/// A visitor of the site.
pub(crate) struct LabVisitor<'a> {
    /// Name of the visitor in the test.
    pub(crate) name: String,
    address: SocketAddr,
    host: &'a str,
    owners: &'a Owners,
    cookies: BTreeMap<String, String>,
}

impl<'a> LabVisitor<'a> {
    /// A visitor without cookies.
    pub(crate) fn new(name: &str, address: SocketAddr, host: &'a str, owners: &'a Owners) -> Self {
        Self { name: name.to_owned(), address, host, owners, cookies: BTreeMap::new() }
    }

    /// Requests a page.
    pub(crate) fn get(&mut self, target: &str) -> Response {
        self.ask("GET", target, "")
    }

    /// Sends a form. Returns the response without following a redirect.
    pub(crate) fn post(&mut self, target: &str, form: &FormFields) -> Response {
        self.ask("POST", target, &form.encode())
    }

    /// Adds a cookie, as if a script of the page had set it.
    pub(crate) fn keep(&mut self, name: &str, value: &str) {
        self.cookies.insert(name.to_owned(), value.to_owned());
    }

    /// Records that `value` belongs to this visitor, and fails if it belongs to another one.
    pub(crate) fn own(&self, value: &str) {
        let mut owners = self.owners.lock().unwrap();
        let owner = owners.entry(value.to_owned()).or_insert_with(|| self.name.clone());
        assert_eq!(*owner, self.name, "{value} was given to {owner} and to {}", self.name);
    }

    fn ask(&mut self, method: &str, target: &str, body: &str) -> Response {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies =
            if cookies.is_empty() { String::new() } else { format!("Cookie: {}\r\n", cookies.join("; ")) };
        let content = match method {
            "POST" => format!(
                "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n",
                body.len()
            ),
            _ => String::new(),
        };
        let mut client = Client::connect(self.address);
        client.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n{cookies}{content}Connection: close\r\n\r\n{body}",
            self.host
        ));
        let answer = client.read();
        assert!(answer.complete, "{method} {target}: {}", answer.head);
        self.take_cookies(&answer);
        answer
    }

    /// Keeps the cookies that a response sets. Values of 16 bytes or more are recorded as this
    /// visitor's own.
    fn take_cookies(&mut self, answer: &Response) {
        let lines = answer.head.lines().filter_map(|line| line.split_once(':'));
        for (_, value) in lines.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
            let age = between(value, "Max-Age=", ";").and_then(|age| age.parse::<u32>().ok());
            let (name, value) = value.split(';').next().unwrap().trim().split_once('=').unwrap();
            // A cookie that lives for seconds may be gone by the next page, so the privacy of a
            // page must not depend on it.
            if value == "deleted" || age.is_some_and(|age| age < 60) {
                self.cookies.remove(name);
                continue;
            }
            if value.len() >= 16 {
                self.own(value);
            }
            self.keep(name, value);
        }
    }
}

/// Names and values of the fields of a form.
#[derive(Clone)]
pub(crate) struct FormFields(Vec<(String, String)>);

impl FormFields {
    /// A form without fields.
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Reads the fields of the page's form that contains `sign`.
    pub(crate) fn of(page: &str, sign: &str) -> Self {
        let forms = page.split("<form").skip(1).map(|rest| rest.split("</form>").next().unwrap());
        let form = forms.into_iter().find(|form| form.contains(sign));
        let form = form.unwrap_or_else(|| panic!("no form with {sign} in {page}"));
        let mut fields = Vec::new();
        for rest in form.split('<').skip(1) {
            let (tag, content) = rest.split_once('>').unwrap_or((rest, ""));
            let Some(name) = attribute(tag, "name") else { continue };
            let kind = attribute(tag, "type").unwrap_or_default();
            let is_sent = match kind.as_str() {
                "checkbox" | "radio" => tag.contains(" checked"),
                "submit" | "button" | "file" => false,
                _ => true,
            };
            if tag.starts_with("input") && is_sent {
                fields.push((name, attribute(tag, "value").unwrap_or_default()));
            } else if tag.starts_with("textarea") {
                fields.push((name, unescape(content).trim_start_matches('\n').to_owned()));
            }
        }
        Self(fields)
    }

    /// Sets the value of a field.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The value of a field.
    pub(crate) fn value(&self, name: &str) -> &str {
        let field = self.0.iter().find(|(known, _)| known == name);
        field.map(|(_, value)| value.as_str()).unwrap_or_else(|| panic!("the form has no {name}"))
    }

    /// The fields in URL encoding, as a browser sends them.
    pub(crate) fn encode(&self) -> String {
        let mut text = url::form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(&self.0).finish()
    }
}

/// The value of an attribute of a tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}="))?;
    let quote = rest.chars().next()?;
    Some(unescape(rest.get(1..)?.split(quote).next()?))
}

/// Replaces the HTML character references that the labs use.
fn unescape(text: &str) -> String {
    let named =
        [("&quot;", "\""), ("&#x27;", "'"), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    named.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The text between `from` and the next `to`.
pub(crate) fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    text.split_once(from)?.1.split_once(to).map(|(found, _)| found)
}

/// Whether a response is a hit.
pub(crate) fn is_hit(answer: &Response) -> bool {
    answer.field("Cache-Status").is_some_and(|status| status.starts_with("Petasos; hit"))
}

/// Checks that a visitor with cookies without meaning comes to receive hits. The edge may first
/// examine whether the cookies change pages and send the visitor's requests to the origin.
pub(crate) fn comes_to_share(visitor: &mut LabVisitor<'_>, targets: &[&str]) {
    for target in targets {
        let hit = (0..200).any(|_| is_hit(&visitor.get(target)));
        assert!(hit, "{target} is not shared with somebody who has cookies that mean nothing");
    }
}

/// Checks the condition up to forty times within about two seconds, the delay that Petasos promises
/// for a site.
pub(crate) fn within_two_seconds(what: &str, mut condition: impl FnMut() -> bool) {
    let seen = (0..40).any(|_| {
        let seen = condition();
        if !seen {
            std::thread::sleep(Duration::from_millis(50));
        }
        seen
    });
    assert!(seen, "not within two seconds: {what}");
}
