//! The servers under attack, each started anew for each attack: Petasos with its defaults, and nginx, Varnish and
//! HAProxy as Debian packages them, with the configurations in `bench/peers/attacks-*`.
//!
//! Invariant: one server runs at a time, as one ordinary user, on a free loopback port, with nothing stored; dropping
//! [`Running`] stops it.

use crate::packages;
use crate::place::{self, output, render};
use crate::service::{Place, Service};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use testkit::Client;

/// Where the servers work, from the top of the repository.
const DIRECTORY: &str = "target/bench-attacks";
/// The memory that each cache is given, where it has such a setting.
const MEMORY: [&str; 2] = ["64MiB", "64m"];

/// A server that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    Petasos,
    Nginx,
    Varnish,
    Haproxy,
}

pub(super) const PEERS: [Peer; 4] = [Peer::Petasos, Peer::Nginx, Peer::Varnish, Peer::Haproxy];

/// The directory in which the servers work.
pub(super) struct Yard {
    place: Place,
    /// Keeps a second benchmark out.
    _lock: File,
}

/// A server that runs.
pub(super) struct Running<'a> {
    place: &'a Place,
    peer: Peer,
    pub(super) address: SocketAddr,
}

impl Peer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Petasos => "petasos",
            Self::Nginx => "nginx",
            Self::Varnish => "varnish",
            Self::Haproxy => "haproxy",
        }
    }

    /// The Debian package, if it is one.
    fn package(self) -> Option<&'static str> {
        match self {
            Self::Petasos => None,
            Self::Nginx => Some("nginx-core"),
            Self::Varnish => Some("varnish"),
            Self::Haproxy => Some("haproxy"),
        }
    }
}

impl Yard {
    /// Installs what is missing and makes the directory.
    pub(super) fn settle(program: &Path) -> Result<Self> {
        packages::ensure(&PEERS.map(Peer::package).into_iter().flatten().collect::<Vec<_>>())?;
        let directory = std::path::absolute(DIRECTORY)?;
        let lock = place::lock(&directory)?;
        let place = Place::settle(&directory)?;
        // What a killed run has left.
        PEERS.iter().try_for_each(|peer| place.stop(peer.name()).map(|_| ()))?;
        let copy = place.directory.join("petasos");
        // A copy, because the servers' user may not be able to reach the original.
        fs::copy(program, &copy)
            .and_then(|_| place.account.give(&copy))
            .with_context(|| format!("cannot copy {}", program.display()))?;
        Ok(Self { place, _lock: lock })
    }

    /// Name and version of each server.
    pub(super) fn versions(&self) -> Result<String> {
        let version = |peer: Peer| match peer.package() {
            None => output(Command::new(self.place.directory.join("petasos")).arg("--version")),
            Some(package) => {
                let format = "--showformat=${Package} ${Version}";
                output(Command::new("dpkg-query").args(["--show", format, package]))
            }
        };
        Ok(PEERS.into_iter().map(version).collect::<Result<Vec<_>>>()?.join(", "))
    }

    /// Starts a server before `origin`, with nothing stored.
    pub(super) fn start(&self, peer: Peer, origin: SocketAddr) -> Result<Running<'_>> {
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
            Peer::Petasos => format!(
                "{site}/petasos serve --origin http://{origin} --listen {address} --admin {admin} --memory {memory} \
                 --disk {site}/tmp/petasos-disk --purge-peers 127.0.0.1"
            ),
            Peer::Nginx => {
                place.write(
                    "conf/nginx.conf",
                    &render(include_str!("../../../../bench/peers/attacks-nginx.conf"), &values)?,
                )?;
                format!("nginx -p {site}/tmp -c {site}/conf/nginx.conf")
            }
            Peer::Varnish => {
                place.write(
                    "conf/attacks.vcl",
                    &render(include_str!("../../../../bench/peers/attacks-varnish.vcl"), &values)?,
                )?;
                format!(
                    "varnishd -F -T none -n {site}/varnish -f {site}/conf/attacks.vcl -a {address} -s malloc,{malloc}"
                )
            }
            Peer::Haproxy => {
                place.write(
                    "conf/haproxy.cfg",
                    &render(include_str!("../../../../bench/peers/attacks-haproxy.cfg"), &values)?,
                )?;
                format!("haproxy -db -f {site}/conf/haproxy.cfg")
            }
        };
        // No path has a space in it: `Place::settle` saw to that.
        let service = Service {
            name: peer.name(),
            command: command.split_ascii_whitespace().map(str::to_owned).collect(),
        };
        let running = Running { place, peer, address };
        place.start(&service, || {
            let request = "GET /ready HTTP/1.1\r\nHost: bench.test\r\n\r\n";
            let answer =
                Client::try_connect(address).and_then(|mut client| client.try_answer(request, false));
            answer.is_some_and(|answer| answer.status == 200)
        })?;
        Ok(running)
    }
}

impl Running<'_> {
    /// Resident memory of all processes of the server.
    pub(super) fn resident_bytes(&self) -> u64 {
        self.place.resident_bytes(self.peer.name())
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.place.stop(self.peer.name()) {
            eprintln!("error: {error:#}");
        }
    }
}
