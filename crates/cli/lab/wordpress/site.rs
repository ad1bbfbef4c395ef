//! The lab's WordPress for tests: its layers, its pages, and users who edit through the REST API.

use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use testkit::{Client, Edge, Response};

/// Host name of the site at every address.
pub(crate) const HOST: &str = "wordpress.test";

/// Held by the test that may set the layers.
static TURN: Mutex<()> = Mutex::new(());

/// The running lab, for one test at a time.
pub(crate) struct WordPressLab {
    /// Address of the nginx in front of PHP with opcode cache.
    pub(crate) origin: SocketAddr,
    /// Directory of the lab's files.
    pub(crate) files: PathBuf,
    table: toml::Table,
    _turn: MutexGuard<'static, ()>,
}

impl WordPressLab {
    /// Waits until no other test has the lab, empties every cache and sets these layers.
    pub(crate) fn with(layers: &str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/labs/wordpress");
        let lab =
            PathBuf::from(std::env::var_os("PETASOS_LAB").unwrap_or_else(|| default.into())).join("lab.toml");
        let text = std::fs::read_to_string(&lab)
            .unwrap_or_else(|_| panic!("no {}: run `cargo xtask lab wordpress up` first", lab.display()));
        let table: toml::Table = text.parse().unwrap();
        let text = |name: &str| table[name].as_str().unwrap();
        let site = Self {
            origin: text("nginx_opcode").parse().unwrap(),
            files: text("site").into(),
            table: table.clone(),
            _turn: turn,
        };
        site.layers("");
        site.switch("forget");
        site.empty();
        site.layers(layers);
        site
    }

    /// Starts an edge in front of the site with the profile for WordPress. Sets the layers `rest`,
    /// with this edge to be purged.
    pub(crate) fn edge(&self, rest: &str) -> Edge {
        let edge = Edge::start(&format!("http://{}", self.origin), &["--profile", "wordpress"]);
        self.layers(&format!("edge={}&{rest}", edge.address));
        edge
    }

    /// Empties every cache inside WordPress.
    pub(crate) fn empty(&self) {
        self.switch("flush");
    }

    /// Sets the layers, given as a query.
    pub(crate) fn layers(&self, query: &str) {
        self.switch(query);
    }

    fn switch(&self, query: &str) {
        let answer = ask(self.origin, "POST", &format!("/lab-layers.php?{query}"), &[], "");
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    }

    /// Logs in as the administrator.
    pub(crate) fn administrator(&self) -> Editor {
        Editor::log_in(self.origin, "admin", self.password())
    }

    /// The administrator's password.
    pub(crate) fn password(&self) -> &str {
        self.table["admin_password"].as_str().unwrap()
    }

    /// Path with query of the first item of a REST collection, and the item's number.
    pub(crate) fn first(&self, collection: &str) -> (String, u64) {
        let answer = get(self.origin, &format!("/wp-json/wp/v2/{collection}"));
        let items: Value = serde_json::from_slice(&answer.body).unwrap();
        let item = &items[0];
        let link = item["link"].as_str().unwrap_or_else(|| panic!("{collection}: {items}"));
        (path(link), item["id"].as_u64().unwrap())
    }
}

/// A logged-in user.
pub(crate) struct Editor {
    origin: SocketAddr,
    /// Header line with the session's cookies.
    pub(crate) cookie: String,
    nonce: String,
}

impl Editor {
    /// Logs in through WordPress' own form.
    pub(crate) fn log_in(origin: SocketAddr, user: &str, password: &str) -> Self {
        let form = format!("log={user}&pwd={password}&testcookie=1");
        let type_and_test = [
            "Content-Type: application/x-www-form-urlencoded",
            "Cookie: wordpress_test_cookie=WP%20Cookie%20check",
        ];
        let answer = ask(origin, "POST", "/wp-login.php", &type_and_test, &form);
        assert_eq!(answer.status, 302, "{}", answer.text());
        let cookie = format!("Cookie: {}", cookies(&answer).join("; "));
        let nonce = ask(origin, "GET", "/wp-admin/admin-ajax.php?action=rest-nonce", &[&cookie], "")
            .text()
            .to_owned();
        Self { origin, cookie, nonce }
    }

    /// Calls the REST API, which must succeed.
    pub(crate) fn call(&self, method: &str, route: &str, content: &Value) -> Value {
        let nonce = format!("X-WP-Nonce: {}", self.nonce);
        let fields = [self.cookie.as_str(), &nonce, "Content-Type: application/json"];
        let answer =
            ask(self.origin, method, &format!("/wp-json/wp/v2/{route}"), &fields, &content.to_string());
        assert!((200..300).contains(&answer.status), "{method} {route}: {} {}", answer.head, answer.text());
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// Changes an item.
    pub(crate) fn change(&self, route: &str, content: &Value) -> Value {
        self.call("POST", route, content)
    }

    /// Requests a page of wp-admin or the site as this user.
    pub(crate) fn see(&self, target: &str) -> Response {
        ask(self.origin, "GET", target, &[&self.cookie], "")
    }

    /// Sends a form.
    pub(crate) fn submit(&self, target: &str, form: &str) -> Response {
        let fields = [self.cookie.as_str(), "Content-Type: application/x-www-form-urlencoded"];
        ask(self.origin, "POST", target, &fields, form)
    }
}

/// The cookies that a response sets, as a client sends them back.
pub(crate) fn cookies(answer: &Response) -> Vec<String> {
    let lines = answer.head.lines().filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("set-cookie")
            .then(|| value.split(';').next().unwrap_or_default().to_owned())
    });
    lines.collect()
}

/// Sends a request with content and returns the response.
pub(crate) fn ask(
    address: SocketAddr,
    method: &str,
    target: &str,
    fields: &[&str],
    content: &str,
) -> Response {
    let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let mut client = Client::connect(address);
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: {HOST}\r\n{lines}Content-Length: {}\r\n\r\n{content}",
        content.len()
    ));
    client.read()
}

/// Requests a page as an anonymous visitor.
pub(crate) fn get(address: SocketAddr, target: &str) -> Response {
    get_with(address, target, &[])
}

/// Requests a page with these header fields.
pub(crate) fn get_with(address: SocketAddr, target: &str, fields: &[&str]) -> Response {
    let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let mut client = Client::connect(address);
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {HOST}\r\n{lines}\r\n"));
    client.read()
}

/// Whether a response is a hit of the edge.
pub(crate) fn is_hit(answer: &Response) -> bool {
    answer.field("Cache-Status").is_some_and(|status| status.starts_with("Petasos; hit"))
}

/// The path and query of a URL of the site.
pub(crate) fn path(url: &str) -> String {
    url.split_once(HOST).unwrap_or_else(|| panic!("not of this site: {url}")).1.to_owned()
}
