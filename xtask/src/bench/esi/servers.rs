//! The servers of the comparison: Petasos, and Debian's Varnish and nginx with the configurations
//! in `bench/peers/esi-*`.
//!
//! Invariant: all of them run at the same time, as an ordinary user, on free loopback ports and on
//! the first core alone. Dropping [`EsiServers`] stops them.

use crate::bench::rivals::{self, Rival};
use crate::client;
use crate::place::{self, render};
use crate::service::{LabDirectory, LabService};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Working directory of the servers, relative to the repository.
pub(super) const DIRECTORY: &str = "target/bench-esi";
/// Timeout of a response while a server starts.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The servers, and the Debian packages of the peers.
const RIVALS: [Rival; 3] = [("petasos", None), ("varnish", Some("varnish")), ("nginx", Some("nginx-core"))];
/// Settings of Petasos. A profile detected during the run would remove the pages.
const SETTINGS: &str = "profile = \"default\"\nesi = true\n";

/// The running servers.
pub(super) struct EsiServers {
    place: LabDirectory,
    addresses: [SocketAddr; 3],
    /// Keeps a second benchmark out.
    _lock: File,
}

impl EsiServers {
    /// Installs missing packages and starts all servers in front of `origin`, with empty caches.
    pub(super) fn start(program: &Path, origin: SocketAddr) -> Result<Self> {
        let (place, lock) = rivals::settle(DIRECTORY, program, &RIVALS)?;
        let cache = place.directory.join("tmp/nginx-cache");
        if cache.exists() {
            fs::remove_dir_all(&cache).with_context(|| format!("cannot remove {}", cache.display()))?;
        }
        let [petasos, varnish, nginx, admin] = place::free_addresses()?;
        let site = place.directory.to_string_lossy().into_owned();
        let values = [
            ("site", &*site),
            ("address", &nginx.to_string()),
            ("origin", &origin.to_string()),
            ("origin_host", &origin.ip().to_string()),
            ("origin_port", &origin.port().to_string()),
        ];
        place.write("conf/petasos.toml", SETTINGS)?;
        let vcl = render(include_str!("../../../../bench/peers/esi-varnish.vcl"), &values)?;
        place.write("conf/esi.vcl", &vcl)?;
        let conf = render(include_str!("../../../../bench/peers/esi-nginx.conf"), &values)?;
        place.write("conf/nginx.conf", &conf)?;
        let commands = [
            format!(
                "{site}/petasos serve {site}/conf/petasos.toml --origin http://{origin} --listen {petasos} \
                 --admin {admin} --workers 1 --memory 256MiB"
            ),
            format!(
                "varnishd -F -T none -n {site}/varnish -f {site}/conf/esi.vcl -a {varnish} -s malloc,256m"
            ),
            format!("nginx -p {site}/tmp -c {site}/conf/nginx.conf"),
        ];
        let servers = Self { place, addresses: [petasos, varnish, nginx], _lock: lock };
        for ((name, address), command) in servers.addresses().zip(commands) {
            // Splitting at spaces is correct because `LabDirectory::settle` guarantees paths
            // without spaces.
            let command = format!("taskset -c 0 {command}");
            let command = command.split_ascii_whitespace().map(str::to_owned).collect();
            let request = "GET /plain/whole HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n\r\n";
            servers
                .place
                .start(&LabService { name, command }, || client::is_ok(address, request, ANSWER_TIMEOUT))?;
        }
        Ok(servers)
    }

    /// Name and address of each server.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> + use<> {
        RIVALS.map(|(name, _)| name).into_iter().zip(self.addresses)
    }

    /// Name and version of each server.
    pub(super) fn versions(&self) -> Result<String> {
        rivals::versions(&self.place, &RIVALS)
    }

    /// Processor time of all processes of a server so far, in seconds.
    pub(super) fn cpu_secs(&self, name: &str) -> f64 {
        self.place.cpu_secs(name)
    }
}

impl Drop for EsiServers {
    fn drop(&mut self) {
        for (name, _) in self.addresses() {
            if let Err(error) = self.place.stop(name) {
                eprintln!("error: {error:#}");
            }
        }
    }
}
