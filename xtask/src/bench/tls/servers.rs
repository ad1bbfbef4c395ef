//! The servers with TLS: Petasos, and Debian's nginx, HAProxy and H2O with the configurations in
//! `bench/peers/tls-*`.
//!
//! Invariant: one server runs at a time, as an ordinary user, on a free loopback port, with the
//! same certificate and the same number of workers. Dropping [`RunningServer`] stops it.

use super::SIZES;
use crate::bench::rivals::{self, Rival};
use crate::place::{self, render};
use crate::service::{LabDirectory, LabService};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use testkit::{Authority, Client, KeyKind, Trust};

/// Working directory of the servers, relative to the repository.
const DIRECTORY: &str = "target/bench-tls";

/// A server in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SecuredServer {
    Petasos,
    Nginx,
    Haproxy,
    H2o,
}

/// Working directory of the servers.
pub(super) struct ServerDirectory {
    place: LabDirectory,
    trust: Trust,
    /// Keeps a second benchmark out.
    _lock: File,
}

/// A running server.
pub(super) struct RunningServer<'a> {
    place: &'a LabDirectory,
    server: SecuredServer,
    pub(super) address: SocketAddr,
    pub(super) trust: Trust,
}

impl SecuredServer {
    /// All servers, in the order of the tables.
    pub(super) const ALL: [Self; 4] = [Self::Petasos, Self::Nginx, Self::Haproxy, Self::H2o];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Petasos => "petasos",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::H2o => "h2o",
        }
    }

    /// The server's Debian package, if it comes from one.
    fn package(self) -> Option<&'static str> {
        match self {
            Self::Petasos => None,
            Self::Nginx => Some("nginx-core"),
            Self::Haproxy => Some("haproxy"),
            Self::H2o => Some("h2o"),
        }
    }

    fn rival(self) -> Rival {
        (self.name(), self.package())
    }
}

impl ServerDirectory {
    /// Installs missing packages and prepares the directory with a certificate and the pages.
    pub(super) fn settle(program: &Path) -> Result<Self> {
        let (place, lock) =
            rivals::settle(DIRECTORY, program, &SecuredServer::ALL.map(SecuredServer::rival))?;
        let authority = Authority::new("bench");
        let files = authority.issue(&["localhost"], KeyKind::Ecdsa, (2000, 2100));
        place.write("conf/edge.pem", &files.certificate)?;
        place.write("conf/edge.key", &files.key)?;
        place.write("conf/both.pem", &format!("{}{}", files.certificate, files.key))?;
        let pages = place.directory.join("pages");
        fs::create_dir_all(&pages)
            .and_then(|()| place.account.give(&pages))
            .with_context(|| format!("cannot make {}", pages.display()))?;
        for size in SIZES {
            place.write(&format!("pages/{size}.html"), &"x".repeat(size))?;
        }
        Ok(Self { place, trust: Trust::of(&authority.pem()), _lock: lock })
    }

    /// Name and version of each server.
    pub(super) fn versions(&self) -> Result<String> {
        rivals::versions(&self.place, &SecuredServer::ALL.map(SecuredServer::rival))
    }

    /// Starts a server in front of `origin`, with an empty cache, and requests each page.
    pub(super) fn start(
        &self,
        server: SecuredServer,
        origin: SocketAddr,
        workers: u16,
    ) -> Result<RunningServer<'_>> {
        let place = &self.place;
        let cache = place.directory.join("tmp/nginx-cache");
        if cache.exists() {
            fs::remove_dir_all(&cache).with_context(|| format!("cannot remove {}", cache.display()))?;
        }
        let [address, admin] = place::free_addresses()?;
        let site = place.directory.to_string_lossy();
        let values = [
            ("site", &*site),
            ("workers", &workers.to_string()),
            ("address", &address.to_string()),
            ("host", &address.ip().to_string()),
            ("port", &address.port().to_string()),
            ("origin", &origin.to_string()),
        ];
        let command = match server {
            SecuredServer::Petasos => format!(
                "{site}/petasos serve --origin http://{origin} --listen {address} --admin {admin} --workers {workers} \
                 --tls {site}/conf/edge.pem,{site}/conf/edge.key"
            ),
            SecuredServer::Nginx => {
                let text = render(include_str!("../../../../bench/peers/tls-nginx.conf"), &values)?;
                place.write("conf/nginx.conf", &text)?;
                format!("nginx -p {site}/tmp -c {site}/conf/nginx.conf")
            }
            SecuredServer::Haproxy => {
                let text = render(include_str!("../../../../bench/peers/tls-haproxy.cfg"), &values)?;
                place.write("conf/haproxy.cfg", &text)?;
                format!("haproxy -db -f {site}/conf/haproxy.cfg")
            }
            SecuredServer::H2o => {
                let text = render(include_str!("../../../../bench/peers/tls-h2o.conf"), &values)?;
                place.write("conf/h2o.conf", &text)?;
                format!("h2o -m worker -c {site}/conf/h2o.conf")
            }
        };
        // Splitting at spaces is correct because `LabDirectory::settle` guarantees paths without
        // spaces.
        let command = command.split_ascii_whitespace().map(str::to_owned).collect();
        let running = RunningServer { place, server, address, trust: self.trust.clone() };
        place.start(&LabService { name: server.name(), command }, || running.answers())?;
        Ok(running)
    }
}

impl RunningServer<'_> {
    /// Whether the server answers requests for all pages.
    fn answers(&self) -> bool {
        let Ok(mut client) = Client::secured(self.address, "localhost", &self.trust) else { return false };
        SIZES.iter().all(|size| {
            let request = format!("GET /{size}.html HTTP/1.1\r\nHost: localhost\r\n\r\n");
            client.try_answer(request, false).is_some_and(|answer| answer.status == 200)
        })
    }

    /// Resident memory of all processes of the server, in bytes.
    pub(super) fn resident_bytes(&self) -> u64 {
        self.place.resident_bytes(self.server.name())
    }

    /// Processor time of all processes of the server so far, in seconds.
    pub(super) fn cpu_secs(&self) -> f64 {
        self.place.cpu_secs(self.server.name())
    }
}

impl Drop for RunningServer<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.place.stop(self.server.name()) {
            eprintln!("error: {error:#}");
        }
    }
}
