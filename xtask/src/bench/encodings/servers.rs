//! The servers of the comparison: Petasos, and Debian's nginx and Caddy with the configurations in
//! `bench/peers/encodings-*`.
//!
//! Invariant: one server runs at a time, as an ordinary user, on a free loopback port, with one
//! worker. Dropping [`RunningServer`] stops it.

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
const DIRECTORY: &str = "target/bench-encodings";
/// Timeout of a response while a server starts, and of the metrics.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Clock ticks a second (sysconf(3): _SC_CLK_TCK is 100 on every Linux).
const TICKS_PER_SECOND: f64 = 100.0;

/// A server in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EncodingServer {
    Petasos,
    Nginx,
    Caddy,
}

/// Settings of Petasos; the other servers have none.
#[derive(Clone, Copy, Debug)]
pub(super) struct EdgeForm<'a> {
    /// Its memory.
    pub(super) memory: &'a str,
    /// Whether it compresses.
    pub(super) compresses: bool,
}

impl Default for EdgeForm<'_> {
    fn default() -> Self {
        Self { memory: "256MiB", compresses: true }
    }
}

/// Working directory of the servers.
pub(super) struct ServerDirectory {
    place: LabDirectory,
    /// Keeps a second benchmark out.
    _lock: File,
}

/// A running server.
pub(super) struct RunningServer<'a> {
    place: &'a LabDirectory,
    server: EncodingServer,
    pub(super) address: SocketAddr,
    /// The address of the metrics; Petasos only.
    admin: SocketAddr,
}

impl EncodingServer {
    const ALL: [Self; 3] = [Self::Petasos, Self::Nginx, Self::Caddy];

    const fn name(self) -> &'static str {
        match self {
            Self::Petasos => "petasos",
            Self::Nginx => "nginx",
            Self::Caddy => "caddy",
        }
    }

    /// The server's Debian package, if it comes from one.
    const fn package(self) -> Option<&'static str> {
        match self {
            Self::Petasos => None,
            Self::Nginx => Some("nginx-core"),
            Self::Caddy => Some("caddy"),
        }
    }

    fn rival(self) -> Rival {
        (self.name(), self.package())
    }
}

impl ServerDirectory {
    /// Installs missing packages and prepares the directory.
    pub(super) fn settle(program: &Path) -> Result<Self> {
        let (place, lock) =
            rivals::settle(DIRECTORY, program, &EncodingServer::ALL.map(EncodingServer::rival))?;
        Ok(Self { place, _lock: lock })
    }

    /// Name and version of each server.
    pub(super) fn versions(&self) -> Result<String> {
        rivals::versions(&self.place, &EncodingServer::ALL.map(EncodingServer::rival))
    }

    /// Starts a server in front of `origin`, with an empty cache.
    pub(super) fn start(
        &self,
        server: EncodingServer,
        origin: SocketAddr,
        form: EdgeForm<'_>,
    ) -> Result<RunningServer<'_>> {
        let place = &self.place;
        let cache = place.directory.join("tmp/nginx-cache");
        if cache.exists() {
            fs::remove_dir_all(&cache).with_context(|| format!("cannot remove {}", cache.display()))?;
        }
        let [address, admin] = place::free_addresses()?;
        let site = place.directory.to_string_lossy();
        let (shown, port, origin) = (address.to_string(), address.port().to_string(), origin.to_string());
        let values = [("site", &*site), ("address", &*shown), ("port", &*port), ("origin", &*origin)];
        let command = match server {
            EncodingServer::Petasos => {
                let EdgeForm { memory, compresses } = form;
                // A profile detected during the run would remove the pages.
                let text = format!("profile = \"default\"\ncompression.enabled = {compresses}\n");
                place.write("conf/petasos.toml", &text)?;
                format!(
                    "{site}/petasos serve {site}/conf/petasos.toml --origin http://{origin} --listen {address} \
                     --admin {admin} --workers 1 --memory {memory}"
                )
            }
            EncodingServer::Nginx => {
                let text = render(include_str!("../../../../bench/peers/encodings-nginx.conf"), &values)?;
                place.write("conf/nginx.conf", &text)?;
                format!("nginx -p {site}/tmp -c {site}/conf/nginx.conf")
            }
            EncodingServer::Caddy => {
                let text = render(include_str!("../../../../bench/peers/encodings-Caddyfile"), &values)?;
                place.write("conf/Caddyfile", &text)?;
                format!("caddy run --adapter caddyfile --config {site}/conf/Caddyfile")
            }
        };
        // Splitting at spaces is correct because `LabDirectory::settle` guarantees paths without
        // spaces.
        let command = command.split_ascii_whitespace().map(str::to_owned).collect();
        let running = RunningServer { place, server, address, admin };
        let request = "GET /plain/3 HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n\r\n";
        let service = LabService { name: server.name(), command };
        place.start(&service, || client::is_ok(address, request, ANSWER_TIMEOUT))?;
        Ok(running)
    }
}

impl RunningServer<'_> {
    /// Processor time of all processes of the server so far, in seconds.
    pub(super) fn cpu_secs(&self) -> f64 {
        self.place.cpu_secs(self.server.name())
    }

    /// Processor time of the server's thread with this name so far, in seconds.
    pub(super) fn thread_cpu_secs(&self, name: &str) -> f64 {
        let Some(pid) = self.place.running(self.server.name()) else { return 0.0 };
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
        let mut ticks = 0;
        for stat in stats {
            let Some((before, after)) = stat.rsplit_once(')') else { continue };
            // The system shortens names to 15 bytes.
            if before.rsplit_once('(').is_some_and(|(_, found)| name.starts_with(found)) {
                let words = after.split_ascii_whitespace().skip(11).take(2);
                ticks += words.filter_map(|word| word.parse::<u64>().ok()).sum::<u64>();
            }
        }
        ticks as f64 / TICKS_PER_SECOND
    }

    /// The most resident memory that the server has had, in bytes.
    pub(super) fn peak_bytes(&self) -> u64 {
        let pid = self.place.running(self.server.name()).unwrap_or_default();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
        kib.unwrap_or_default() * 1024
    }

    /// The value of a metric of Petasos.
    ///
    /// # Errors
    /// If the server does not answer, or has no such metric.
    pub(super) fn metric(&self, name: &str) -> Result<u64> {
        let admin = self.admin;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
        let answer = client::ask(admin, &request, ANSWER_TIMEOUT)?;
        let text = String::from_utf8_lossy(&answer.content).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse().ok()).with_context(|| format!("there is no {name}"))
    }
}

impl Drop for RunningServer<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.place.stop(self.server.name()) {
            eprintln!("error: {error:#}");
        }
    }
}
