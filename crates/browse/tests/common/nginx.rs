//! nginx as Debian packages it, before an origin: HTTP/2 over TLS and without, and HTTP/1.1 over TLS. It must be
//! installed; without it these tests fail and say so.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use testkit::{HeldPort, PemFiles, eventually};

/// A running nginx; it stops when dropped.
pub(crate) struct Nginx {
    child: Child,
    directory: tempfile::TempDir,
    _ports: [HeldPort; 3],
    /// HTTP/2 over TLS, as `localhost`.
    pub(crate) secure_port: u16,
    /// HTTP/2 without TLS.
    pub(crate) plain_port: u16,
    /// HTTP/1.1 over TLS.
    pub(crate) old_port: u16,
}

impl Nginx {
    /// nginx that passes everything on to `origin`, with the protocol in a field.
    pub(crate) fn before(origin: SocketAddr) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let pem = PemFiles::make();
        for (name, text) in
            [("ca.pem", &pem.authority), ("cert.pem", &pem.certificate), ("key.pem", &pem.key)]
        {
            std::fs::write(path.join(name), text).unwrap();
        }
        let ports = [(); 3].map(|()| HeldPort::take());
        let [secure_port, plain_port, old_port] = ports.each_ref().map(HeldPort::number);
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {}/{kind};", path.display()))
            .join(" ");
        let pass = format!("location / {{ proxy_pass http://{origin}; }}");
        let configuration = format!(
            "daemon off; master_process off; pid {0}/pid; error_log {0}/log;
             events {{ worker_connections 512; }}
             http {{
               access_log off; {temporary} proxy_http_version 1.1; proxy_set_header Connection ''; proxy_set_header Host $http_host;
               proxy_set_header X-Protocol $server_protocol;
               ssl_certificate {0}/cert.pem; ssl_certificate_key {0}/key.pem;
               server {{ listen 127.0.0.1:{secure_port} ssl http2; {pass} }}
               server {{ listen 127.0.0.1:{plain_port} http2; {pass} }}
               server {{ listen 127.0.0.1:{old_port} ssl; {pass} }}
             }}",
            path.display()
        );
        std::fs::write(path.join("conf"), configuration).unwrap();
        let child = Command::new("nginx")
            .args(["-p", path.to_str().unwrap(), "-c", "conf"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("cannot run nginx ({error}): install it from Debian's nginx-core")
            });
        let mut nginx = Self { child, directory, _ports: ports, secure_port, plain_port, old_port };
        eventually("nginx listens", || {
            assert!(nginx.child.try_wait().unwrap().is_none(), "nginx has ended: {}", nginx.log());
            TcpStream::connect(("127.0.0.1", plain_port)).is_ok()
        });
        nginx
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// The authority to verify it by.
    pub(crate) fn authority(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
