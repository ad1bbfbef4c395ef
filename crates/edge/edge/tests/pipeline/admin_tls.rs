//! TLS at the admin address: which clients it serves, and what a certificate permits them.

use crate::support::{self, plan};
use config::{AdminTlsPlan, CertificatePaths};
use petasos_edge::{BoundEdge, PlanSource, RunningEdge, System};
use std::path::Path;
use std::sync::Arc;
use testkit::{Authority, Client, KeyKind, Origin, PemFiles, Response, Trust, response};

const VALID: (i32, i32) = (2000, 2100);

/// An edge whose admin address has TLS, in front of an origin with one page.
struct SecuredAdmin {
    edge: RunningEdge,
    directory: tempfile::TempDir,
    authority: Authority,
    _origin: Origin,
}

impl SecuredAdmin {
    /// `clients` is the authority of client certificates, if they are demanded.
    fn start(clients: Option<&Authority>) -> Self {
        let (directory, authority) = (tempfile::tempdir().unwrap(), Authority::new("of the edge"));
        let origin = Origin::start(|_| response("200 OK", &["Cache-Control: max-age=60"], b"page"));
        let (chain, key) =
            authority.issue(&["edge.test"], KeyKind::Ecdsa, VALID).write(directory.path(), "edge");
        let mut plan = plan(&origin.url());
        plan.admin_tls = Some(AdminTlsPlan {
            certificate: CertificatePaths { chain, key },
            client_authorities: clients.map(|authority| {
                let file = directory.path().join("clients.pem");
                std::fs::write(&file, authority.pem()).unwrap();
                file
            }),
        });
        let token = directory.path().join("token");
        std::fs::write(&token, "secret").unwrap();
        plan.token_file = Some(token);
        let source: PlanSource = Arc::new({
            let plan = plan.clone();
            move || Ok(plan.clone())
        });
        let edge = BoundEdge::bind_again(plan, source, System::of_machine()).unwrap().start().unwrap();
        Self { edge, directory, authority, _origin: origin }
    }

    fn trust(&self) -> Trust {
        Trust::of(&self.authority.pem())
    }

    /// Sends a request to the admin address on a new connection.
    fn ask(&self, trust: &Trust, line: &str, fields: &[&str]) -> Response {
        let address = support::socket(&self.edge.bound().admin);
        let mut client = Client::secured(address, "edge.test", trust).unwrap();
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        client.send(format!("{line} HTTP/1.1\r\nHost: edge.test\r\nContent-Length: 0\r\n{fields}\r\n"));
        client.read()
    }

    /// Whether a client is served at all. In TLS 1.3 it learns of a refusal after its handshake.
    fn is_served(&self, trust: &Trust) -> bool {
        let address = support::socket(&self.edge.bound().admin);
        let Ok(mut client) = Client::secured(address, "edge.test", trust) else { return false };
        client.try_ask("GET /healthz HTTP/1.1\r\nHost: edge.test\r\n\r\n").is_some()
    }
}

fn client_of(authority: &Authority, years: (i32, i32)) -> PemFiles {
    authority.issue(&["operator"], KeyKind::Ecdsa, years)
}

#[test]
fn admin_address_with_tls_serves_the_same_pages_with_the_token() {
    let admin = SecuredAdmin::start(None);
    let trust = admin.trust();
    assert_eq!(admin.ask(&trust, "GET /metrics", &[]).status, 200, "this machine may read");
    assert_eq!(admin.ask(&trust, "POST /reload", &[]).status, 403);
    let token = "Authorization: Bearer secret";
    assert_ne!(admin.ask(&trust, "POST /reload", &[token]).status, 403);
    assert_eq!(admin.ask(&trust, "GET /status", &["Origin: https://edge.test"]).status, 200);
    for foreign in ["Origin: http://edge.test", "Origin: https://evil.test", "Origin: null"] {
        assert_eq!(admin.ask(&trust, "GET /status", &[foreign]).status, 403, "{foreign}");
    }
    assert!(!admin.is_served(&Trust::of_tls_1_2(&admin.authority.pem())), "TLS 1.3 is the oldest version");
    let mut plain = Client::connect(support::socket(&admin.edge.bound().admin));
    plain.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(plain.read().text().contains("https://"), "a plain client learns the reason");
}

#[test]
fn client_certificate_is_demanded_and_stands_for_the_token() {
    let (clients, others) = (Authority::new("of clients"), Authority::new("of others"));
    let admin = SecuredAdmin::start(Some(&clients));
    let trust = admin.trust();
    assert!(!admin.is_served(&trust), "a client without a certificate");
    assert!(!admin.is_served(&trust.presenting(&client_of(&others, VALID))), "of another authority");
    assert!(!admin.is_served(&trust.presenting(&client_of(&clients, (2000, 2001)))), "an expired one");
    let operator = trust.presenting(&client_of(&clients, VALID));
    for _ in 0..3 {
        assert_eq!(admin.ask(&operator, "GET /metrics", &[]).status, 200, "each time");
    }
    assert_ne!(admin.ask(&operator, "POST /reload", &[]).status, 403);
    let foreign = ["Origin: https://evil.test"];
    assert_eq!(admin.ask(&operator, "POST /reload", &foreign).status, 403, "a browser has certificates too");
}

#[test]
fn reload_withdraws_an_authority_from_open_connections() {
    let (clients, others) = (Authority::new("of clients"), Authority::new("of others"));
    let admin = SecuredAdmin::start(Some(&clients));
    let operator = admin.trust().presenting(&client_of(&clients, VALID));
    let address = support::socket(&admin.edge.bound().admin);
    let mut open = Client::secured(address, "edge.test", &operator).unwrap();
    let ask = "GET /status HTTP/1.1\r\nHost: edge.test\r\n\r\n";
    assert_eq!(open.try_ask(ask).unwrap().status, 200);
    std::fs::write(admin.directory.path().join("clients.pem"), others.pem()).unwrap();
    assert_eq!(admin.ask(&operator, "POST /reload", &[]).status, 200);
    assert!(open.try_ask(ask).is_none(), "the connection was opened before");
    assert!(!admin.is_served(&operator), "its authority is withdrawn");
    assert!(admin.is_served(&admin.trust().presenting(&client_of(&others, VALID))));
}

#[test]
fn unusable_file_of_the_admin_address_prevents_the_start() {
    let authority = Authority::new("of the edge");
    let directory = tempfile::tempdir().unwrap();
    let (chain, key) = authority.issue(&["edge.test"], KeyKind::Ecdsa, VALID).write(directory.path(), "edge");
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let fault = |chain: &Path, clients: &Path| {
        let mut plan = plan("http://127.0.0.1:9");
        let certificate = CertificatePaths { chain: chain.to_owned(), key: key.clone() };
        plan.admin_tls = Some(AdminTlsPlan { certificate, client_authorities: Some(clients.to_owned()) });
        BoundEdge::bind(plan, System::of_machine()).err().unwrap().to_string()
    };
    assert!(fault(&chain, &empty).contains("empty.pem holds no certificate"), "{}", fault(&chain, &empty));
    assert!(fault(&empty, &chain).contains("empty.pem"), "{}", fault(&empty, &chain));
}
