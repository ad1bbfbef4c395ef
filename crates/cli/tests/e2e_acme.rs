//! Certificates that the binary obtains itself, without a real authority: an unreachable one, one
//! that limits the rate, and the local authority.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use testkit::{Certificate, Client, Edge, HeldPort, Origin, TlsFront, Trust, eventually, petasos, response};

/// An edge's directory, and the origin behind it.
struct Place {
    directory: tempfile::TempDir,
    origin: Origin,
}

impl Place {
    fn new() -> Self {
        let origin = Origin::start(|_| response("200 OK", &["Cache-Control: max-age=60"], b"page"));
        Self { directory: tempfile::tempdir().unwrap(), origin }
    }

    /// Writes a configuration with one listener that has this `tls`.
    fn configure(&self, tls: &str, more: &str) -> PathBuf {
        let file = self.directory.path().join("petasos.toml");
        let state = self.state();
        let text = format!(
            "origin = '{}'\nstate_directory = '{}'\n{more}\n[[listener]]\nlisten = '127.0.0.1:0'\ntls = ['{tls}']\n",
            self.origin.url(),
            state.display()
        );
        std::fs::write(&file, text).unwrap();
        file
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn start(&self, file: &Path) -> Edge {
        Edge::with_listeners(&self.origin.url(), file)
    }

    /// The only file with this ending below the directory for ACME.
    fn file(&self, ending: &str) -> PathBuf {
        let authority = std::fs::read_dir(self.state().join("acme")).unwrap().next().unwrap().unwrap();
        let mut files = std::fs::read_dir(authority.path()).unwrap().map(|entry| entry.unwrap().path());
        files.find(|path| path.to_string_lossy().ends_with(ending)).unwrap()
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The content of a page that the edge serves by TLS under this name.
fn served(address: SocketAddr, name: &str, authority: &Path) -> String {
    let trust = Trust::of(&std::fs::read_to_string(authority).unwrap());
    Client::secured(address, name, &trust).unwrap().get("/", &[]).text().to_owned()
}

fn now_secs() -> f64 {
    #[expect(clippy::disallowed_methods, reason = "the time of the process under test")]
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

#[test]
fn a_site_is_served_while_the_authority_is_gone() {
    let (place, gone) = (Place::new(), HeldPort::take());
    let file = place.configure("www.a.test", &format!("acme_directory = 'https://{}/dir'", gone.address()));
    let mut edge = place.start(&file);
    eventually("the attempt fails", || edge.metric("petasos_acme_failures_total", "") == 1.0);
    assert_eq!(served(edge.address, "www.a.test", &place.file(".pem")), "page");
    let status = Edge::status(edge.admin).unwrap();
    let certificate = &status["certificates"][0];
    assert_eq!((&certificate["failures"], &certificate["expires"]), (&1.into(), &serde_json::Value::Null));
    let reason = certificate["last_error"].as_str().unwrap().to_owned();
    assert!(reason.contains("no connection to the authority at 127.0.0.1"), "{reason}");
    assert!(edge.stderr().contains("no certificate for www.a.test: no connection"), "{}", edge.stderr());
    let next = edge.metric("petasos_acme_next_attempt_timestamp_seconds", "");
    assert!(next > now_secs() + 90.0, "{next}");
    assert_eq!((mode(&place.file(".pem")), mode(&place.file(".json"))), (0o600, 0o600));
    assert_eq!(mode(&place.state().join("acme")), 0o700);
    edge.signal("TERM");
    assert_eq!(edge.wait(), Some(0));

    let again = place.start(&file);
    eventually("the record is read", || again.metric("petasos_acme_failing", "") == 1.0);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(again.metric("petasos_acme_failures_total", ""), 0.0, "no attempt before its time");
    assert_eq!(again.metric("petasos_acme_next_attempt_timestamp_seconds", ""), next);
}

/// An authority that follows the protocol up to the first order and then limits the rate.
fn busy_authority() -> (Origin, TlsFront) {
    let origin = Origin::start(|seen| {
        let url = |path: &str| format!("https://{}{path}", seen.field("Host").unwrap());
        let json = "Content-Type: application/json";
        match seen.target() {
            "/dir" => {
                let text = format!(
                    r#"{{"newNonce":"{}","newAccount":"{}","newOrder":"{}"}}"#,
                    url("/nonce"),
                    url("/account"),
                    url("/order")
                );
                response("200 OK", &[json], text.as_bytes())
            }
            "/nonce" => response("200 OK", &["Replay-Nonce: bm9uY2U"], b""),
            "/account" => {
                let location = format!("Location: {}", url("/account/1"));
                response(
                    "201 Created",
                    &["Replay-Nonce: bm9uY2U", &location, json],
                    b"{\"status\":\"valid\"}",
                )
            }
            _ => response(
                "429 Too Many Requests",
                &["Replay-Nonce: bm9uY2U", "Retry-After: 86400", "Content-Type: application/problem+json"],
                br#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many orders"}"#,
            ),
        }
    });
    let front = TlsFront::start(origin.address(), Certificate::Good);
    (origin, front)
}

#[test]
fn the_pause_of_a_rate_limit_is_kept() {
    let (place, (_origin, front)) = (Place::new(), busy_authority());
    let ca = place.directory.path().join("ca.pem");
    std::fs::write(&ca, &front.authority_pem).unwrap();
    let more = format!("acme_directory = 'https://{}/dir'\nacme_ca_file = '{}'", front.address, ca.display());
    let edge = place.start(&place.configure("www.a.test", &more));
    eventually("the attempt fails", || edge.metric("petasos_acme_failures_total", "") == 1.0);
    let status = Edge::status(edge.admin).unwrap();
    let reason = status["certificates"][0]["last_error"].as_str().unwrap().to_owned();
    assert_eq!(reason, "the authority refused: too many orders (rateLimited)");
    let next = edge.metric("petasos_acme_next_attempt_timestamp_seconds", "");
    assert!((now_secs() + 86_000.0..now_secs() + 87_000.0).contains(&next), "{next}");
}

#[test]
fn an_authority_that_is_not_trusted_is_not_used() {
    let (place, (origin, front)) = (Place::new(), busy_authority());
    let more = format!("acme_directory = 'https://{}/dir'", front.address);
    let edge = place.start(&place.configure("www.a.test", &more));
    eventually("the attempt fails", || edge.metric("petasos_acme_failures_total", "") == 1.0);
    let status = Edge::status(edge.admin).unwrap();
    let reason = status["certificates"][0]["last_error"].as_str().unwrap().to_owned();
    assert!(reason.contains("cannot be trusted") || reason.contains("no authorities"), "{reason}");
    assert!(origin.seen().is_empty());
}

#[test]
fn the_local_authority_certifies_this_machine() {
    let place = Place::new();
    let file = place.configure("internal", "names = ['www.a.test', 'localhost']");
    let checked = petasos(["check", file.to_str().unwrap()]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(!place.state().exists(), "check makes nothing");
    let mut edge = place.start(&file);
    let authority = place.state().join("local-authority");
    for name in ["www.a.test", "localhost"] {
        let trust = Trust::of(&std::fs::read_to_string(authority.join("authority.pem")).unwrap());
        let mut client = Client::secured(edge.address, name, &trust).unwrap();
        client.send(format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n"));
        assert_eq!(client.read().text(), "page");
    }
    assert_eq!(mode(&authority.join("authority.key")), 0o600);
    assert_eq!(mode(&authority), 0o700);
    assert!(edge.stderr().contains("local-authority/authority.pem"), "{}", edge.stderr());
    let before = std::fs::read(authority.join("site.pem")).unwrap();
    edge.signal("TERM");
    assert_eq!(edge.wait(), Some(0));
    let _again = place.start(&file);
    assert_eq!(std::fs::read(authority.join("site.pem")).unwrap(), before, "a restart keeps it");
}

#[test]
fn a_reload_replaces_the_source_of_certificates() {
    let (place, gone) = (Place::new(), HeldPort::take());
    let acme = format!("acme_directory = 'https://{}/dir'", gone.address());
    let edge = place.start(&place.configure("internal", &acme));
    let authority = place.state().join("local-authority/authority.pem");
    assert_eq!(served(edge.address, "localhost", &authority), "page");
    assert_eq!(Edge::status(edge.admin).unwrap()["certificates"], serde_json::json!([]));
    place.configure("www.a.test", &acme);
    edge.signal("HUP");
    eventually("the new name is tried", || edge.metric("petasos_acme_failing", "") == 1.0);
    assert_eq!(served(edge.address, "www.a.test", &place.file(".pem")), "page");
    place.configure("internal", &acme);
    edge.signal("HUP");
    eventually("nothing is tried any more", || edge.metric("petasos_acme_failing", "") == 0.0);
    assert_eq!(served(edge.address, "localhost", &authority), "page");
}
