//! Certificates by ACME from `pebble`, the test authority of Let's Encrypt's authors.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod pebble;

use pebble::{Behaviour, Pebble};
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::{Client, Edge, Origin, Trust, eventually, response};

const NAME: &str = "www.example.test";

/// An authority, an origin, and the directory of an edge between them.
struct Place {
    pebble: Pebble,
    origin: Origin,
    directory: tempfile::TempDir,
}

/// The listeners that an authority can reach.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    HttpAndTls,
    TlsOnly,
    /// Petasos listens elsewhere, so that every validation fails.
    None,
}

impl Place {
    fn new(behaviour: &Behaviour) -> Self {
        let origin = Origin::start(|_| response("200 OK", &["Cache-Control: max-age=60"], b"page"));
        Self { pebble: Pebble::start(behaviour), origin, directory: tempfile::tempdir().unwrap() }
    }

    fn usual() -> Self {
        Self::new(&Behaviour::default())
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// Starts an edge whose listener has certificates for these names.
    fn start(&self, names: &str, reach: Reach, more: &str) -> Edge {
        let (tls, http) = match reach {
            Reach::None => (0, 0),
            _ => (self.pebble.tls.number(), self.pebble.http.number()),
        };
        let mut text = format!(
            "state_directory = '{}'\n{}{more}\n[[listener]]\nlisten = '127.0.0.1:{tls}'\ntls = ['{names}']\n",
            self.state().display(),
            self.pebble.settings(),
        );
        if reach != Reach::TlsOnly {
            text += &format!("[[listener]]\nlisten = '127.0.0.1:{http}'\nredirect_to_https = true\n");
        }
        let file = self.directory.path().join("petasos.toml");
        std::fs::write(&file, text).unwrap();
        Edge::with_listeners(&self.origin.url(), &file)
    }

    /// Waits until the edge has a certificate that clients of the authority trust, and returns it.
    fn certificate(&self, edge: &Edge, name: &str) -> Vec<u8> {
        let root = self.pebble.root();
        let trust = Trust::of(&root);
        eventually("clients trust the site", || Client::secured(edge.address, name, &trust).is_ok());
        handshake(edge, name, &root)
    }

    /// The file with this ending in the directory for the authority.
    fn file(&self, ending: &str) -> PathBuf {
        let authority = std::fs::read_dir(self.state().join("acme")).unwrap().next().unwrap().unwrap();
        authority.path().join(format!("{NAME}.{ending}"))
    }
}

/// The certificate that serves a client who trusts this authority and has no earlier session.
fn handshake(edge: &Edge, name: &str, authority: &str) -> Vec<u8> {
    let mut client = Client::secured(edge.address, name, &Trust::of(authority)).unwrap();
    assert_eq!(client.get("/", &[]).text(), "page");
    client.handshake().certificate
}

fn stop(mut edge: Edge) {
    edge.signal("TERM");
    assert_eq!(edge.wait(), Some(0));
}

/// The reason of the failure that the status shows, once there is one.
fn failure(edge: &Edge) -> String {
    eventually("the attempt fails", || edge.metric("petasos_acme_failures_total", "") >= 1.0);
    let status = Edge::status(edge.admin).unwrap();
    status.pointer("/certificates/0/last_error").unwrap().as_str().unwrap().to_owned()
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[test]
fn names_get_one_certificate_by_http_and_keep_it() {
    let place = Place::new(&Behaviour { nonces_refused: 5, ..Behaviour::default() });
    let names = format!("{NAME}', 'example.test");
    let edge = place.start(&names, Reach::HttpAndTls, "acme_contact = 'admin@example.test'");
    let first = place.certificate(&edge, NAME);
    assert_eq!(place.certificate(&edge, "example.test"), first);
    assert_eq!(edge.metric("petasos_acme_certificates_total", ""), 1.0);
    assert!(edge.metric("petasos_requests_total", "acme-challenge") >= 2.0, "one for each name");
    let status = Edge::status(edge.admin).unwrap();
    let known = &status["certificates"][0];
    assert!(known["expires"].is_string() && known["last_error"].is_null(), "{known}");
    stop(edge);

    let again = place.start(&names, Reach::HttpAndTls, "");
    assert_eq!(place.certificate(&again, NAME), first);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(again.metric("petasos_acme_certificates_total", ""), 0.0, "it is used again");
    stop(again);

    let more = place.start(&format!("{names}', 'new.example.test"), Reach::HttpAndTls, "");
    assert_eq!(handshake(&more, NAME, &place.pebble.root()), first, "the old one serves until then");
    let second = place.certificate(&more, "new.example.test");
    assert_ne!(second, first);
}

#[test]
fn a_name_gets_its_certificate_by_tls_alone() {
    let place = Place::usual();
    let edge = place.start(NAME, Reach::TlsOnly, "");
    place.certificate(&edge, NAME);
    assert_eq!(edge.metric("petasos_requests_total", "acme-challenge"), 0.0);
}

#[test]
fn a_certificate_is_renewed_before_it_expires() {
    let place = Place::new(&Behaviour { validity_secs: Some(12), ..Behaviour::default() });
    let edge = place.start(NAME, Reach::HttpAndTls, "");
    let (first, root) = (place.certificate(&edge, NAME), place.pebble.root());
    eventually("another certificate serves, and the site all the time", || {
        handshake(&edge, NAME, &root) != first
    });
    assert_eq!(edge.metric("petasos_acme_failures_total", ""), 0.0);
}

#[test]
fn a_renewal_follows_the_suggestion_of_the_authority() {
    let place = Place::usual();
    let edge = place.start(NAME, Reach::HttpAndTls, "");
    let first = place.certificate(&edge, NAME);
    eventually("the authority is asked", || place.pebble.logged("renewalInfo") > 0);
    stop(edge);
    let pem = std::fs::read_to_string(place.file("pem")).unwrap();
    let window = r#"{"suggestedWindow":{"start":"2020-01-01T00:00:00Z","end":"2020-01-02T00:00:00Z"}}"#;
    let order = serde_json::json!({ "Certificate": pem, "ARIResponse": window }).to_string();
    place.pebble.manage("POST /set-renewal-info/", &order);
    let mut changed: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(place.file("json")).unwrap()).unwrap();
    changed["renewal"]["ask_at_secs"] = 0.into();
    write(&place.file("json"), &changed.to_string());
    let again = place.start(NAME, Reach::HttpAndTls, "");
    let root = place.pebble.root();
    eventually("the certificate is replaced", || handshake(&again, NAME, &root) != first);
}

#[test]
fn a_refusal_is_told_and_a_restart_does_not_repeat_it() {
    let blocked = format!(r#", "domainBlocklist": ["{NAME}"]"#);
    let place = Place::new(&Behaviour { more: blocked, ..Behaviour::default() });
    let edge = place.start(NAME, Reach::HttpAndTls, "");
    let reason = failure(&edge);
    assert!(reason.contains("the authority refused") && reason.contains("rejectedIdentifier"), "{reason}");
    assert!(edge.stderr().contains(&reason), "{}", edge.stderr());
    let placeholder = std::fs::read_to_string(place.file("pem")).unwrap();
    handshake(&edge, NAME, &placeholder);
    stop(edge);
    let orders = place.pebble.logged("new-order") + place.pebble.logged("order-plz");
    let again = place.start(NAME, Reach::HttpAndTls, "");
    eventually("the record is read", || again.metric("petasos_acme_failing", "") == 1.0);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(again.metric("petasos_acme_failures_total", ""), 0.0);
    assert_eq!(place.pebble.logged("new-order") + place.pebble.logged("order-plz"), orders);
}

#[test]
fn a_validation_that_fails_names_both_methods() {
    let place = Place::usual();
    let reason = failure(&place.start(NAME, Reach::None, ""));
    for word in
        ["HTTP-01: the authority could not validate `www.example.test`", "TLS-ALPN-01: ", "connection"]
    {
        assert!(reason.contains(word), "{word}: {reason}");
    }
}

#[test]
fn an_authority_with_customers_gets_the_account_binding() {
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let more = format!(
        r#", "externalAccountBindingRequired": true, "externalAccountMACKeys": {{"kid-1": "{key}"}}"#
    );
    let place = Place::new(&Behaviour { more, ..Behaviour::default() });
    let reason = failure(&place.start(NAME, Reach::HttpAndTls, ""));
    assert!(reason.contains("externalAccountRequired"), "{reason}");
    let file = place.directory.path().join("eab");
    write(&file, &format!("kid-1\n{key}\n"));
    std::fs::remove_file(place.file("json")).unwrap();
    let edge = place.start(NAME, Reach::HttpAndTls, &format!("acme_eab_file = '{}'", file.display()));
    place.certificate(&edge, NAME);
}

#[test]
fn an_account_that_the_authority_has_forgotten_is_replaced() {
    let place = Place::usual();
    let edge = place.start(NAME, Reach::HttpAndTls, "");
    place.certificate(&edge, NAME);
    stop(edge);
    // The second authority has no account of the edge, which believes to be at the first one.
    let second = Place::usual();
    let directory = |place: &Place| place.file("pem").parent().unwrap().to_owned();
    let account = std::fs::read_to_string(directory(&place).join("account.json")).unwrap();
    let begun = second.start(NAME, Reach::None, "");
    failure(&begun);
    stop(begun);
    let mut kept: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(directory(&second).join("account.json")).unwrap())
            .unwrap();
    let old: serde_json::Value = serde_json::from_str(&account).unwrap();
    kept["key_pkcs8"] = old["key_pkcs8"].clone();
    kept["id"] = format!("{}0", kept["id"].as_str().unwrap()).into();
    write(&directory(&second).join("account.json"), &kept.to_string());
    std::fs::remove_file(second.file("json")).unwrap();
    let edge = second.start(NAME, Reach::HttpAndTls, "");
    second.certificate(&edge, NAME);
}
