//! nginx with four ports: HTTP/1.1 and HTTP/2, each with and without TLS. For tests of clients.
//!
//! Invariant: the four servers differ only in protocol and TLS.

use super::{GIVEN, ROOT, ServerKind, ServerProcess};
use crate::{HeldPort, PemFiles};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A running nginx. It is killed when this is dropped.
pub struct Nginx {
    _running: ServerProcess,
    directory: TempDir,
    _ports: [HeldPort; 4],
    /// Port for HTTP/2 over TLS. The certificate is for `localhost` and `127.0.0.1`.
    pub secure_port: u16,
    /// Port for HTTP/2 without TLS.
    pub plain_port: u16,
    /// Port for HTTP/1.1 without TLS.
    pub http1_port: u16,
    /// Port for HTTP/1.1 over TLS.
    pub secure_http1_port: u16,
}

impl Nginx {
    /// Starts nginx with `given` in each of its server blocks, and waits until it accepts
    /// connections.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(given: &str) -> Self {
        let directory = super::directory(given);
        let path = directory.path();
        let shown = path.display();
        let pem = PemFiles::make();
        for (name, text) in
            [("ca.pem", &pem.authority), ("cert.pem", &pem.certificate), ("key.pem", &pem.key)]
        {
            std::fs::write(path.join(name), text).unwrap();
        }
        let ports = [(); 4].map(|()| HeldPort::take());
        let [secure_port, plain_port, http1_port, secure_http1_port] = ports.each_ref().map(HeldPort::number);
        let servers = [
            format!("{secure_port} ssl http2"),
            format!("{plain_port} http2"),
            format!("{http1_port}"),
            format!("{secure_http1_port} ssl"),
        ]
        .map(|listen| server(path, &format!("127.0.0.1:{listen}")))
        .concat();
        let http =
            format!("ssl_certificate {shown}/cert.pem;\nssl_certificate_key {shown}/key.pem;\n{servers}");
        let running =
            ServerProcess::start(ServerKind::Nginx, path, &configuration(path, &http), ports[1].address());
        Self {
            _running: running,
            directory,
            _ports: ports,
            secure_port,
            plain_port,
            http1_port,
            secure_http1_port,
        }
    }

    /// The path of the authority's certificate, for a client's verification of the server.
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// The document root. Empty at first.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join(ROOT)
    }
}

/// A configuration with `http` as its block `http`. This nginx writes only into `directory`.
pub(super) fn configuration(directory: &Path, http: &str) -> String {
    let path = directory.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {path}/{kind};\n"))
        .concat();
    format!(
        "daemon off;\nmaster_process off;\npid {path}/pid;\nevents {{ }}\nhttp {{\n\
         {temporary}access_log off;\nerror_log stderr crit;\n{http}}}\n"
    )
}

/// A server block that listens at `listen` and includes the given configuration.
pub(super) fn server(directory: &Path, listen: &str) -> String {
    let path = directory.display();
    format!("server {{\nlisten {listen};\nroot {path}/{ROOT};\ninclude {path}/{GIVEN};\n}}\n")
}
