//! The nginx configuration that the labs share: it must not delay responses on kept connections.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::disallowed_methods, reason = "the subject is how long a client waits")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::{Action, HeldPort, Origin, eventually};

/// The part of the `http` block that the nginx of every lab includes.
const LAB: &str = include_str!("../../../labs/common/nginx-http.conf");
/// Slightly more than one segment of the loopback interface, like WordPress' start page without
/// compression.
const PAGE_BYTES: usize = 69_654;
/// Linux delays an acknowledgement by at least this time. A response whose end waits for one takes
/// longer.
const DELAYED_ACK: Duration = Duration::from_millis(40);
const ANSWERS: usize = 40;

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Killing a process that has already ended fails, which does no harm.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends one request and reads the chunked response to its end. Returns the time that took.
fn ask(client: &mut TcpStream) -> Duration {
    let begun = Instant::now();
    client.write_all(b"GET / HTTP/1.1\r\nHost: lab\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let mut part = vec![0; 1 << 16];
    while !answer.ends_with(b"\r\n0\r\n\r\n") {
        let count = client.read(&mut part).unwrap();
        assert!(count > 0, "the answer has no end: {}", String::from_utf8_lossy(&answer));
        answer.extend(part.iter().take(count));
    }
    begun.elapsed()
}

#[test]
fn cached_chunked_response_waits_for_no_acknowledgement() {
    let directory = tempfile::tempdir().unwrap();
    let site = directory.path();
    for name in ["log", "tmp"] {
        std::fs::create_dir(site.join(name)).unwrap();
    }
    // A response that ends with its connection has no length, like a FastCGI response, so nginx
    // sends it chunked.
    let origin = Origin::start(|_| {
        let head =
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: max-age=600\r\n\r\n".to_vec();
        vec![Action::Send(head), Action::Send(vec![b'x'; PAGE_BYTES]), Action::Close]
    });
    let port = HeldPort::take();
    let address: SocketAddr = port.address();
    let common = LAB.replace("{{site}}", &site.display().to_string());
    let path = site.display();
    let configuration = format!(
        "daemon off;\nmaster_process off;\npid {path}/pid;\nerror_log stderr crit;\nevents {{ }}\nhttp {{\n{common}\n\
         proxy_cache_path {path}/tmp/cache keys_zone=pages:1m use_temp_path=off;\n\
         server {{ listen {address}; location / {{ proxy_pass {}; proxy_cache pages; }} }}\n}}\n",
        origin.url()
    );
    let file = site.join("nginx.conf");
    std::fs::write(&file, configuration).unwrap();
    let mut nginx = Command::new("/usr/sbin/nginx");
    nginx.args(["-e", "stderr", "-c"]).arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
    let nginx = nginx
        .spawn()
        .unwrap_or_else(|error| panic!("nginx does not run ({error}): install it from Debian's nginx-core"));
    let _nginx = Killed(nginx);
    eventually("nginx accepts connections", || TcpStream::connect(address).is_ok());
    let mut client = TcpStream::connect(address).unwrap();
    ask(&mut client);
    let quick = (0..ANSWERS).filter(|_| ask(&mut client) < DELAYED_ACK).count();
    assert_eq!(origin.seen().len(), 1, "the cache answers");
    // With the stall, only a few responses would be fast. A loaded machine delays some of them for
    // other reasons.
    assert!(quick > ANSWERS / 2, "{quick} of {ANSWERS} answers did not wait for a delayed acknowledgement");
}
