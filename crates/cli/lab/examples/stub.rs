//! A small content system that sends the header fields, cookies and purges of a real one. It stands
//! in for systems that no package registry has.
//!
//! The front page `/` and the article show one title; a log-in sets the system's session cookie.
//! `edit` changes the title and then purges, as the system's extension does.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use testkit::{Action, Client, Gate, Origin, Seen, response};

/// The properties of a system.
#[derive(Clone, Copy)]
pub(crate) struct System {
    /// The page beside the front page.
    pub(crate) article: &'static str,
    /// Target of the log-in form.
    pub(crate) login: &'static str,
    /// Name of the session cookie.
    pub(crate) session: &'static str,
    /// Fields of a page for anonymous visitors.
    pub(crate) public: &'static [&'static str],
    /// Fields of a page for a user.
    pub(crate) private: &'static [&'static str],
    /// A style and an uploaded picture.
    pub(crate) files: [&'static str; 2],
    /// Request line, Host and fields of the purge after an edit.
    pub(crate) purge: &'static str,
}

/// The running system.
pub(crate) struct Stub {
    pub(crate) origin: Origin,
    pub(crate) system: System,
    title: Arc<Mutex<String>>,
    /// Opens for log-ins with the name `slow`.
    pub(crate) slow: Gate,
}

impl Stub {
    pub(crate) fn start(system: System) -> Self {
        let title = Arc::new(Mutex::new("First title".to_owned()));
        let slow = Gate::default();
        let origin = {
            let (title, slow) = (Arc::clone(&title), slow.clone());
            Origin::start(move |seen| answer(&system, seen, &title.lock().unwrap(), &slow))
        };
        Self { origin, system, title, slow }
    }

    /// Changes the title and purges it at Petasos, and returns the status of the purge.
    pub(crate) fn edit(&self, title: &str, petasos: SocketAddr) -> u16 {
        title.clone_into(&mut self.title.lock().unwrap());
        let mut client = Client::connect(petasos);
        client.send(format!("{}Connection: close\r\n\r\n", self.system.purge));
        client.read().status
    }
}

fn answer(system: &System, seen: &Seen, title: &str, slow: &Gate) -> Vec<Action> {
    let path = seen.target().split('?').next().unwrap();
    let user = seen.field("Cookie").is_some_and(|cookies| cookies.contains(system.session));
    let is_post = seen.head.starts_with("POST ");
    if path == system.login && is_post {
        if seen.body.windows(4).any(|part| part == b"slow") {
            let refused = response("403 Forbidden", &["Cache-Control: no-store"], b"Wrong password.");
            return [vec![Action::Await(slow.clone())], refused].concat();
        }
        let cookie = format!(
            "Set-Cookie: {}=0123456789abcdef0123456789abcdef; Path=/; Secure; HttpOnly",
            system.session
        );
        return response("302 Found", &["Location: /", "Cache-Control: no-store", &cookie], b"");
    }
    if path == system.login {
        let form = "<form method=\"post\"><input id=\"name\" name=\"name\"><button>Log in</button></form>";
        return page(system, &["Cache-Control: private, no-store"], "Log in", form);
    }
    if path == "/" || path == system.article {
        let (fields, content) =
            if user { (system.private, "<p id=\"user\">Ada</p>") } else { (system.public, "<p>Hello.</p>") };
        return page(system, fields, title, content);
    }
    // Web servers state no lifetime for files unless it is configured.
    let modified = "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT";
    if path == system.files[0] {
        return response("200 OK", &["Content-Type: text/css", modified], b"body { margin: 2rem; }");
    }
    if path == system.files[1] {
        let picture = b"<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>";
        return response("200 OK", &["Content-Type: image/svg+xml", modified], picture);
    }
    response("404 Not Found", &["Content-Type: text/plain"], b"Not found.")
}

fn page(system: &System, fields: &[&str], title: &str, content: &str) -> Vec<Action> {
    let [style, picture] = system.files;
    let text = format!(
        "<!doctype html><html lang=\"en\"><title>{title}</title><link rel=\"icon\" href=\"{picture}\">\
         <link rel=\"stylesheet\" href=\"{style}\"><h1>{title}</h1>{content}<img src=\"{picture}\" alt=\"\"></html>"
    );
    let common = ["Content-Type: text/html; charset=utf-8", "X-Powered-By: PHP/8.2.7"];
    response("200 OK", &[&common[..], fields].concat(), text.as_bytes())
}
