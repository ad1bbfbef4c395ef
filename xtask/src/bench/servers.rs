//! The servers that are compared, each before the same application: Petasos as it is released, Varnish and nginx
//! as Debian packages them.
//!
//! Invariant: they run as one ordinary user on free loopback ports and keep everything in one directory; dropping
//! [`Servers`] stops them all, and what a killed run left over is stopped before the next begins.

use super::optimised;
use crate::packages;
use crate::place::{self, render};
use crate::service::{Place, Service};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Where the servers work, from the top of the repository.
const DIRECTORY: &str = "target/bench";
/// The Debian packages of the peers.
const PACKAGES: [&str; 2] = ["nginx-core", "varnish"];
/// The servers in the order in which they are started.
const NAMES: [&str; 3] = ["petasos", "varnish", "nginx"];
/// How long a server may take to answer while it is waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The servers, running.
pub(super) struct Servers {
    place: Place,
    addresses: [SocketAddr; 3],
    /// Keeps a second benchmark out.
    _lock: File,
}

impl Servers {
    /// Installs what is missing and starts every server before `origin`.
    ///
    /// # Errors
    /// Names the server that does not start, with the end of its log.
    pub(super) fn start(origin: SocketAddr) -> Result<Self> {
        packages::ensure(&PACKAGES)?;
        let directory = std::path::absolute(DIRECTORY)?;
        let lock = place::lock(&directory)?;
        let place = Place::settle(&directory)?;
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
            // No path has a space in it: `Place::settle` saw to that.
            let service = Service { name, command: command.split(' ').map(str::to_owned).collect() };
            servers.place.start(&service, || answers(address))?;
        }
        Ok(servers)
    }

    /// Every server's name and address.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        NAMES.into_iter().zip(self.addresses)
    }

    fn stop(&self) -> Result<()> {
        NAMES.iter().try_for_each(|name| self.place.stop(name).map(|_| ()))
    }

    fn write_files(&self, origin: SocketAddr) -> Result<()> {
        let place = &self.place;
        // Answers that nginx stored in an earlier run are no cold pages.
        let cache = place.directory.join("tmp/nginx-cache");
        if cache.exists() {
            fs::remove_dir_all(&cache).with_context(|| format!("cannot remove {}", cache.display()))?;
        }
        // A copy, because the servers' user may not be able to reach the original, and a build may replace it.
        let (program, copy) = (optimised("petasos")?, place.directory.join("petasos"));
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

/// Whether a server answers with what the application says.
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
