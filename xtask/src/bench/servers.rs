//! The compared servers, each in front of the same application: Petasos' release binary, and
//! Debian's Varnish and nginx.
//!
//! Invariant: they run as one ordinary user on free loopback ports and keep all files in one
//! directory. Dropping [`Servers`] stops them all. Servers that a killed run left are stopped
//! before the next run begins.

use super::optimised;
use crate::packages;
use crate::place::{self, render};
use crate::service::{LabDirectory, LabService};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Working directory of the servers, relative to the repository.
const DIRECTORY: &str = "target/bench";
/// Debian packages of the peers.
const PACKAGES: [&str; 2] = ["nginx-core", "varnish"];
/// The servers, in the order of their start.
const NAMES: [&str; 3] = ["petasos", "varnish", "nginx"];
/// Timeout of a response while a server starts.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The running servers.
pub(super) struct Servers {
    place: LabDirectory,
    addresses: [SocketAddr; 3],
    /// Keeps a second benchmark out.
    _lock: File,
}

impl Servers {
    /// Installs missing packages and starts all servers in front of `origin`.
    ///
    /// # Errors
    /// Names the server that does not start, and shows the end of its log.
    pub(super) fn start(origin: SocketAddr) -> Result<Self> {
        packages::ensure(&PACKAGES)?;
        let directory = std::path::absolute(DIRECTORY)?;
        let lock = place::lock(&directory)?;
        let place = LabDirectory::settle(&directory)?;
        let [petasos, varnish, nginx, admin] = place::free_addresses()?;
        let servers = Self { place, addresses: [petasos, varnish, nginx], _lock: lock };
        servers.stop()?;
        servers.write_files(origin)?;
        let site = servers.place.directory.display();
        let commands = [
            format!("{site}/petasos serve --origin http://{origin} --listen {petasos} --admin {admin}"),
            format!(
                "varnishd -F -T none -n {site}/varnish -f {site}/conf/varnish.vcl -a {varnish} -s malloc,256m"
            ),
            format!("nginx -p {site}/tmp -c {site}/conf/nginx.conf"),
        ];
        for ((name, address), command) in NAMES.into_iter().zip(servers.addresses).zip(commands) {
            // Splitting at spaces is correct because `LabDirectory::settle` guarantees paths
            // without spaces.
            let service = LabService { name, command: command.split(' ').map(str::to_owned).collect() };
            servers.place.start(&service, || answers(address))?;
        }
        Ok(servers)
    }

    /// Name and address of each server.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        NAMES.into_iter().zip(self.addresses)
    }

    fn stop(&self) -> Result<()> {
        NAMES.iter().try_for_each(|name| self.place.stop(name).map(|_| ()))
    }

    fn write_files(&self, origin: SocketAddr) -> Result<()> {
        let place = &self.place;
        // Responses from an earlier run must not turn cold pages into hits.
        let cache = place.directory.join("tmp/nginx-cache");
        if cache.exists() {
            fs::remove_dir_all(&cache).with_context(|| format!("cannot remove {}", cache.display()))?;
        }
        // Copied because the servers' user may not have access to the original, and a build may
        // replace it.
        let program = optimised("petasos")?;
        let copy = place.directory.join("petasos");
        fs::copy(&program, &copy)
            .and_then(|_| place.account.give(&copy))
            .with_context(|| format!("cannot copy {}", program.display()))?;
        let values = [
            ("site", &*place.directory.to_string_lossy()),
            ("nginx", &self.addresses[2].to_string()),
            ("origin", &origin.to_string()),
            ("origin_host", &origin.ip().to_string()),
            ("origin_port", &origin.port().to_string()),
        ];
        let nginx = render(include_str!("../../../bench/peers/nginx.conf"), &values)?;
        place.write("conf/nginx.conf", &nginx)?;
        let varnish = render(include_str!("../../../bench/peers/varnish.vcl"), &values)?;
        place.write("conf/varnish.vcl", &varnish)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("error: {error:#}");
        }
    }
}

/// Whether a GET of `/` at this address returns 200.
fn answers(address: SocketAddr) -> bool {
    let status = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer.starts_with(b"HTTP/1.1 200 "))
    };
    status().unwrap_or(false)
}
