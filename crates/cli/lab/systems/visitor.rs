//! Visitors of a lab's site: each keeps its cookies, reads pages and sends the forms in them, through an edge that
//! stands where the lab's application expects it.
//!
//! Invariant: a value that was given to one visitor to be known by is never seen by another; the test ends if it is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use testkit::{Client, Edge, Response};

/// Whose turn it is: a test that looks at the time must not wait for another one's pages.
static TURN: Mutex<()> = Mutex::new(());

/// What `cargo xtask lab NAME up` wrote down, for one test at a time. `PETASOS_LAB` names the directory of another lab
/// than the default one.
pub(crate) struct Lab {
    values: toml::Table,
    _turn: MutexGuard<'static, ()>,
}

impl Lab {
    /// The lab of this name, which must be up.
    pub(crate) fn find(name: &str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let default = || format!("{}/../../target/labs/{name}", env!("CARGO_MANIFEST_DIR"));
        let directory = std::env::var("PETASOS_LAB").unwrap_or_else(|_| default());
        let text = std::fs::read_to_string(format!("{directory}/lab.toml"));
        let text = text.unwrap_or_else(|_| panic!("run `cargo xtask lab {name} up` first"));
        Self { values: text.parse().unwrap(), _turn: turn }
    }

    /// One of its variables.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.values
            .get(name)
            .and_then(toml::Value::as_str)
            .unwrap_or_else(|| panic!("lab.toml has no {name}"))
    }

    /// One of its addresses.
    pub(crate) fn address(&self, name: &str) -> SocketAddr {
        self.value(name).parse().unwrap()
    }

    /// An edge before one of its addresses, at the address that the application sends its purges to.
    pub(crate) fn edge(&self, origin: &str, profile: &str) -> Edge {
        let origin = format!("http://{}", self.value(origin));
        Edge::start_at(self.value("edge"), &origin, &["--profile", profile])
    }
}

/// Values by which visitors are known, with the visitor they were given to.
pub(crate) type Owners = Mutex<BTreeMap<String, String>>;

/// Somebody who visits the site.
pub(crate) struct Visitor<'a> {
    /// What the test calls them.
    pub(crate) name: String,
    address: SocketAddr,
    host: &'a str,
    owners: &'a Owners,
    cookies: BTreeMap<String, String>,
}

impl<'a> Visitor<'a> {
    /// Somebody who has no cookies yet.
    pub(crate) fn new(name: &str, address: SocketAddr, host: &'a str, owners: &'a Owners) -> Self {
        Self { name: name.to_owned(), address, host, owners, cookies: BTreeMap::new() }
    }

    /// Reads a page.
    pub(crate) fn get(&mut self, target: &str) -> Response {
        self.ask("GET", target, "")
    }

    /// Sends a form, and gives the answer without following where it leads.
    pub(crate) fn post(&mut self, target: &str, form: &Form) -> Response {
        self.ask("POST", target, &form.encode())
    }

    /// Keeps a cookie as if a script of the page had set it.
    pub(crate) fn keep(&mut self, name: &str, value: &str) {
        self.cookies.insert(name.to_owned(), value.to_owned());
    }

    /// Says that `value` is this visitor's alone.
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

    /// Keeps what the answer sets; every value that tells visitors apart is its visitor's alone.
    fn take_cookies(&mut self, answer: &Response) {
        let lines = answer.head.lines().filter_map(|line| line.split_once(':'));
        for (_, value) in lines.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
            let age = between(value, "Max-Age=", ";").and_then(|age| age.parse::<u32>().ok());
            let (name, value) = value.split(';').next().unwrap().trim().split_once('=').unwrap();
            // What is kept for seconds only is gone by the next page: nothing may depend on it to be safe.
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

/// The fields of a form, as they stand in a page.
#[derive(Clone)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// A form without fields.
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// The fields of the form of a page that has `sign` in it.
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

    /// The same with this value of this field.
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

    /// What a browser would send.
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

/// Text without the references that HTML writes for these signs.
fn unescape(text: &str) -> String {
    let named =
        [("&quot;", "\""), ("&#x27;", "'"), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    named.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// What stands behind `from`, up to `to`.
pub(crate) fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    text.split_once(from)?.1.split_once(to).map(|(found, _)| found)
}

/// Whether an answer came from the store.
pub(crate) fn is_hit(answer: &Response) -> bool {
    answer.field("Cache-Status").is_some_and(|status| status.starts_with("Petasos; hit"))
}

/// That somebody with cookies that mean nothing is answered from the store as well. The edge may look first whether the
/// cookies change pages, and then get those of the application.
pub(crate) fn comes_to_share(visitor: &mut Visitor<'_>, targets: &[&str]) {
    for target in targets {
        let hit = (0..200).any(|_| is_hit(&visitor.get(target)));
        assert!(hit, "{target} is not shared with somebody who has cookies that mean nothing");
    }
}

/// Looks forty times in two seconds, which is what the site promises.
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
