//! The servers under attack, started again for each attack: Petasos, and Debian's nginx, Varnish
//! and HAProxy, each with a configuration.
//!
//! Invariant: one server runs at a time, as an ordinary user, on a free loopback port, with an
//! empty cache. Dropping [`PeerProcess`] stops it.

use crate::bench::rivals::{self, Rival};
use crate::place::{self, render};
use crate::service::{LabDirectory, LabService};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use testkit::Client;

/// Arguments of the benchmarks of these servers.
#[derive(clap::Args)]
pub(crate) struct PeerArgs {
    /// Run only tables whose title contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(in crate::bench) only: String,
    /// Test this binary of Petasos instead of building one
    #[arg(long, value_name = "PATH")]
    pub(in crate::bench) program: Option<PathBuf>,
}

/// How the servers of a benchmark are started.
pub(in crate::bench) struct PeerSetup {
    /// Their working directory, relative to the repository.
    pub directory: &'static str,
    /// The words before each command.
    pub prefix: &'static str,
    /// Further Debian packages.
    pub packages: &'static [Rival],
    /// Further lines of the configuration of Petasos.
    pub petasos: &'static str,
    /// The configurations of the others, with placeholders.
    pub nginx: &'static str,
    pub varnish: &'static str,
    pub haproxy: &'static str,
}

/// Memory limit of the caches, in the notations of Petasos and of Varnish.
const MEMORY: [&str; 2] = ["64MiB", "64m"];

/// A server in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum ComparedServer {
    Petasos,
    Nginx,
    Varnish,
    Haproxy,
}

pub(in crate::bench) const PEERS: [ComparedServer; 4] =
    [ComparedServer::Petasos, ComparedServer::Nginx, ComparedServer::Varnish, ComparedServer::Haproxy];

/// Working directory of the servers.
pub(in crate::bench) struct PeerDirectory {
    setup: &'static PeerSetup,
    place: LabDirectory,
    /// Keeps a second benchmark out.
    _lock: File,
}

/// A running server.
pub(in crate::bench) struct PeerProcess<'a> {
    place: &'a LabDirectory,
    peer: ComparedServer,
    pub(in crate::bench) address: SocketAddr,
}

impl ComparedServer {
    pub(in crate::bench) fn name(self) -> &'static str {
        match self {
            Self::Petasos => "petasos",
            Self::Nginx => "nginx",
            Self::Varnish => "varnish",
            Self::Haproxy => "haproxy",
        }
    }

    /// The server's Debian package, if it comes from one.
    fn package(self) -> Option<&'static str> {
        match self {
            Self::Petasos => None,
            Self::Nginx => Some("nginx-core"),
            Self::Varnish => Some("varnish"),
            Self::Haproxy => Some("haproxy"),
        }
    }

    fn rival(self) -> Rival {
        (self.name(), self.package())
    }
}

impl PeerDirectory {
    /// Installs missing packages and prepares the directory.
    pub(in crate::bench) fn settle(program: &Path, setup: &'static PeerSetup) -> Result<Self> {
        let rivals: Vec<_> =
            PEERS.iter().map(|peer| peer.rival()).chain(setup.packages.iter().copied()).collect();
        let (place, lock) = rivals::settle(setup.directory, program, &rivals)?;
        Ok(Self { setup, place, _lock: lock })
    }

    /// Name and version of each server.
    pub(in crate::bench) fn versions(&self) -> Result<String> {
        rivals::versions(&self.place, &PEERS.map(ComparedServer::rival))
    }

    /// Starts a server in front of `origin`, with an empty cache.
    pub(in crate::bench) fn start(
        &self,
        peer: ComparedServer,
        origin: SocketAddr,
    ) -> Result<PeerProcess<'_>> {
        let place = &self.place;
        for name in ["nginx-cache", "petasos-disk", "petasos-spool"] {
            let path = place.directory.join("tmp").join(name);
            if path.exists() {
                fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        let [address, admin] = place::free_addresses()?;
        let site = place.directory.to_string_lossy();
        let values = [
            ("site", &*site),
            ("address", &address.to_string()),
            ("origin", &origin.to_string()),
            ("origin_host", &origin.ip().to_string()),
            ("origin_port", &origin.port().to_string()),
        ];
        let [memory, malloc] = MEMORY;
        let command = match peer {
            ComparedServer::Petasos => {
                place.write("conf/petasos.toml", self.setup.petasos)?;
                format!(
                    "{site}/petasos serve {site}/conf/petasos.toml --origin http://{origin} --listen {address} --admin {admin} --memory {memory} \
                 --disk {site}/tmp/petasos-disk --purge-peers 127.0.0.1"
                )
            }
            ComparedServer::Nginx => {
                place.write("conf/nginx.conf", &render(self.setup.nginx, &values)?)?;
                format!("nginx -p {site}/tmp -c {site}/conf/nginx.conf")
            }
            ComparedServer::Varnish => {
                place.write("conf/attacks.vcl", &render(self.setup.varnish, &values)?)?;
                format!(
                    "varnishd -F -T none -n {site}/varnish -f {site}/conf/attacks.vcl -a {address} -s malloc,{malloc}"
                )
            }
            ComparedServer::Haproxy => {
                place.write("conf/haproxy.cfg", &render(self.setup.haproxy, &values)?)?;
                format!("haproxy -db -f {site}/conf/haproxy.cfg")
            }
        };
        // Splitting at spaces is correct because `LabDirectory::settle` guarantees paths without
        // spaces.
        let service = LabService {
            name: peer.name(),
            command: self
                .setup
                .prefix
                .split(' ')
                .chain(command.split_ascii_whitespace())
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect(),
        };
        let running = PeerProcess { place, peer, address };
        place.start(&service, || {
            let request = "GET /ready HTTP/1.1\r\nHost: bench.test\r\n\r\n";
            let answer =
                Client::try_connect(address).and_then(|mut client| client.try_answer(request, false));
            answer.is_some_and(|answer| answer.status == 200)
        })?;
        Ok(running)
    }
}

impl PeerProcess<'_> {
    /// Processor time of all processes of the server so far, in seconds.
    pub(in crate::bench) fn cpu_secs(&self) -> f64 {
        self.place.cpu_secs(self.peer.name())
    }

    /// Resident memory of all processes of the server, in bytes.
    pub(in crate::bench) fn resident_bytes(&self) -> u64 {
        self.place.resident_bytes(self.peer.name())
    }
}

impl Drop for PeerProcess<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.place.stop(self.peer.name()) {
            eprintln!("error: {error:#}");
        }
    }
}
