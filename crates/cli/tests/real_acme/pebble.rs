//! The test authority `pebble`, and the name server that it asks.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use testkit::{Client, HeldPort, PemFiles, Trust, eventually};

/// A running authority. It validates names at two ports of this machine.
pub(crate) struct Pebble {
    child: Child,
    directory: tempfile::TempDir,
    address: SocketAddr,
    management: SocketAddr,
    pem: PemFiles,
    /// The port of plain requests.
    pub(crate) http: HeldPort,
    /// The port of TLS.
    pub(crate) tls: HeldPort,
}

/// How an authority behaves.
#[derive(Clone, Default)]
pub(crate) struct Behaviour {
    /// Members of the configuration, as JSON.
    pub(crate) more: String,
    /// The validity of certificates in seconds; `None`: 90 days.
    pub(crate) validity_secs: Option<u32>,
    /// Percentage of requests that are refused because of their nonce.
    pub(crate) nonces_refused: u32,
}

impl Pebble {
    /// Starts an authority.
    pub(crate) fn start(behaviour: &Behaviour) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let pem = PemFiles::make();
        let (chain, key) = pem.write(directory.path(), "pebble");
        let (http, tls) = (HeldPort::take(), HeldPort::take());
        let (own, management) = (HeldPort::take(), HeldPort::take());
        let config = directory.path().join("pebble.json");
        let mut text = format!(
            r#"{{"pebble": {{"listenAddress": "{}", "managementListenAddress": "{}",
            "certificate": "{}", "privateKey": "{}", "httpPort": {}, "tlsPort": {},
            "retryAfter": {{"authz": 1, "order": 1}}, "keyAlgorithm": "ecdsa",
            "profiles": {{"default": {{"description": "a profile", "validityPeriod": {}}}}}"#,
            own.address(),
            management.address(),
            chain.display(),
            key.display(),
            http.number(),
            tls.number(),
            behaviour.validity_secs.unwrap_or(90 * 86_400),
        );
        text += &format!("{}}}}}", behaviour.more);
        std::fs::write(&config, text).unwrap();
        let child = Command::new(program())
            .args(["-config", config.to_str().unwrap(), "-dnsserver", &name_server().to_string()])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", behaviour.nonces_refused.to_string())
            .stdin(Stdio::null())
            .stdout(File::create(directory.path().join("log")).unwrap())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let (address, management) = (own.address(), management.address());
        eventually("pebble listens", || Client::try_connect(address).is_some());
        eventually("pebble can be managed", || Client::try_connect(management).is_some());
        Self { child, directory, address, management, pem, http, tls }
    }

    /// The settings of an edge that uses this authority.
    pub(crate) fn settings(&self) -> String {
        let ca = self.directory.path().join("ca.pem");
        std::fs::write(&ca, &self.pem.authority).unwrap();
        format!("acme_directory = 'https://{}/dir'\nacme_ca_file = '{}'\n", self.address, ca.display())
    }

    /// The certificate that clients of this authority trust, as PEM.
    pub(crate) fn root(&self) -> String {
        self.manage("GET /roots/0", "")
    }

    /// Sends a request to the authority's management, and returns the content of the response.
    pub(crate) fn manage(&self, request: &str, content: &str) -> String {
        let trust = Trust::of(&self.pem.authority);
        let mut client = Client::secured(self.management, "localhost", &trust).unwrap();
        client.send(format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\nContent-Length: {}\r\n\r\n{content}",
            content.len()
        ));
        let answer = client.read();
        assert_eq!(answer.status, 200, "{request}: {}", answer.text());
        answer.text().to_owned()
    }

    /// Number of lines in the authority's log that contain a text.
    pub(crate) fn logged(&self, text: &str) -> usize {
        let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap();
        log.lines().filter(|line| line.contains(text)).count()
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        // Errors are ignored, because the process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program, which `cargo xtask test` builds.
fn program() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin/pebble");
    assert!(path.exists(), "{} is missing: run `cargo xtask test --group packages`", path.display());
    path
}

/// Starts a name server for which every name is this machine. It runs until the tests end.
fn name_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || answer_names(stream.unwrap()));
        }
    });
    address
}

/// Answers the queries of one connection. Each query follows its length (RFC 1035 section 4.2.2).
fn answer_names(mut stream: TcpStream) {
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut query = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut query).unwrap();
        let answer = name_answer(&query).unwrap();
        let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
        stream.write_all(&[&length[..], &answer].concat()).unwrap();
    }
}

/// The answer to a query (RFC 1035): 127.0.0.1 for A, nothing for other types.
fn name_answer(query: &[u8]) -> Option<Vec<u8>> {
    let name = query.get(12..)?.iter().position(|octet| *octet == 0)?;
    let question = query.get(12..12 + name + 5)?;
    let is_a = question.get(name + 1..name + 3)? == [0, 1];
    let mut answer = query.get(..2)?.to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    answer.extend(question);
    if is_a {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}
