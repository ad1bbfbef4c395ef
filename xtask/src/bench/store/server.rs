//! One server of a measurement: Petasos' release binary or Debian's Varnish, each with its own
//! memory limit, and the system's figures about its processes.
//!
//! Invariant: servers run as one ordinary user on free loopback ports and keep all files in one
//! directory. Dropping a [`ServerBase`] stops them all. Servers that a killed run left are stopped
//! before the next run begins.

use super::super::optimised;
use super::origin::PageOrigin;
use crate::packages;
use crate::place::{self, render};
use crate::service::{LabDirectory, LabService};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Working directory of the servers, relative to the repository.
const DIRECTORY: &str = "target/bench/store";
/// Debian packages of the peers.
const PACKAGES: [&str; 1] = ["varnish"];
/// All names of servers in all measurements.
const NAMES: [&str; 10] = [
    "petasos-churn",
    "petasos-few",
    "petasos-some",
    "petasos-all",
    "petasos-disk",
    "varnish-churn",
    "varnish-few",
    "varnish-some",
    "varnish-all",
    "varnish-restart",
];
/// Timeout of single requests outside of the load.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Clock ticks a second (sysconf(3): _SC_CLK_TCK is 100 on every Linux).
const TICKS_PER_SECOND: f64 = 100.0;
/// Size of a memory page, in bytes.
const PAGE_BYTES: u64 = 4096;

/// The program of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BenchProgram {
    Petasos,
    Varnish,
}

/// Directory and application of the servers.
pub(super) struct ServerBase {
    place: LabDirectory,
    pub(super) origin: PageOrigin,
    /// Keeps a second benchmark out.
    _lock: File,
}

/// A server.
#[derive(Clone, Copy, Debug)]
pub(super) struct BenchServer {
    pub(super) kind: BenchProgram,
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    /// Address of the metrics; Petasos only.
    pub(super) admin: SocketAddr,
}

/// Interval and number of checks whether a killed server's address is free: ten seconds in total.
const FREE_LOOK_EVERY: Duration = Duration::from_millis(20);
const FREE_LOOKS_MAX: u32 = 500;

impl ServerBase {
    /// Installs missing packages, prepares the directory and starts the application.
    ///
    /// # Errors
    /// If something cannot be installed, or a left-over server does not end.
    pub(super) fn settle() -> Result<Self> {
        packages::ensure(&PACKAGES)?;
        let directory = std::path::absolute(DIRECTORY)?;
        let lock = place::lock(&directory)?;
        let place = LabDirectory::settle(&directory)?;
        let base = Self { place, origin: PageOrigin::start()?, _lock: lock };
        base.stop_all()?;
        // Copied because the servers' user may not have access to the original, and a build may
        // replace it.
        let program = optimised("petasos")?;
        let copy = base.place.directory.join("petasos");
        fs::copy(&program, &copy)
            .and_then(|_| base.place.account.give(&copy))
            .with_context(|| format!("cannot copy {}", program.display()))?;
        let origin = base.origin.address;
        let host = origin.ip().to_string();
        let port = origin.port().to_string();
        let values = [("origin_host", &*host), ("origin_port", &*port)];
        let vcl = render(include_str!("../../../../bench/peers/varnish-store.vcl"), &values)?;
        base.place.write("conf/varnish-store.vcl", &vcl)?;
        Ok(base)
    }

    /// A server with free addresses, which is not started yet.
    pub(super) fn server(&self, kind: BenchProgram, name: &'static str) -> Result<BenchServer> {
        let [address, admin] = place::free_addresses()?;
        Ok(BenchServer { kind, name, address, admin })
    }

    /// Starts a server and waits until `ready` returns true. `memory` is its memory limit, written
    /// like `512M`. `more` holds further arguments.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(
        &self,
        server: BenchServer,
        memory: &str,
        more: &str,
        ready: impl Fn(&BenchServer) -> bool,
    ) -> Result<()> {
        let BenchServer { kind, name, address, admin } = server;
        let site = self.place.directory.display();
        let origin = self.origin.address;
        let command = match kind {
            BenchProgram::Petasos => format!(
                "{site}/petasos serve --origin http://{origin} --listen {address} --admin {admin} \
                 --purge-peers 127.0.0.1 --memory {memory}iB{more}"
            ),
            BenchProgram::Varnish => format!(
                "varnishd -F -T none -n {site}/{name} -f {site}/conf/varnish-store.vcl -a {address} -s malloc,{memory}{more}"
            ),
        };
        // Splitting at spaces is correct because `LabDirectory::settle` guarantees paths without
        // spaces.
        let service = LabService { name, command: command.split(' ').map(str::to_owned).collect() };
        self.place.start(&service, || ready(&server))
    }

    /// An empty directory for the disk tier.
    pub(super) fn disk_directory(&self) -> Result<String> {
        let path = self.place.directory.join("tmp/disk");
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        place::make_own(self.place.account, &path)?;
        Ok(path.display().to_string())
    }

    /// Stops a server and waits until it has ended.
    pub(super) fn stop(&self, server: &BenchServer) -> Result<()> {
        self.place.stop(server.name).map(|_| ())
    }

    /// Kills a server with SIGKILL, to simulate a crash.
    pub(super) fn kill(&self, server: &BenchServer) -> Result<()> {
        for pid in self.processes(server) {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // May fail because the process has just ended.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        self.stop(server)?;
        // The first thread of a large process ends long before the system has freed its memory and
        // sockets.
        for _ in 0..FREE_LOOKS_MAX {
            if TcpListener::bind(server.address).is_ok() {
                return Ok(());
            }
            std::thread::sleep(FREE_LOOK_EVERY);
        }
        bail!("{} was killed and its address is still in use", server.name)
    }

    fn stop_all(&self) -> Result<()> {
        NAMES.iter().try_for_each(|name| self.place.stop(name).map(|_| ()))
    }

    /// Process ids of a server: its first process and that process's children.
    fn processes(&self, server: &BenchServer) -> Vec<u32> {
        let Some(first) = self.place.running(server.name) else { return Vec::new() };
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap_or_default();
        let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
        std::iter::once(first).chain(children).collect()
    }

    /// Resident memory of a server's processes, in bytes (proc_pid_statm(5): the second number, in
    /// pages).
    pub(super) fn resident_bytes(&self, server: &BenchServer) -> u64 {
        let pages = |pid: u32| {
            let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
            statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0)
        };
        self.processes(server).into_iter().map(pages).sum::<u64>() * PAGE_BYTES
    }

    /// Processor time of a server's processes so far, in seconds (proc_pid_stat(5): fields 14 and
    /// 15).
    pub(super) fn processor_seconds(&self, server: &BenchServer) -> f64 {
        let ticks = |pid: u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // The program's name, in parentheses, is before field 3.
            let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
            fields.skip(14 - 3).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>()
        };
        self.processes(server).into_iter().map(ticks).sum::<u64>() as f64 / TICKS_PER_SECOND
    }
}

impl Drop for ServerBase {
    fn drop(&mut self) {
        if let Err(error) = self.stop_all() {
            eprintln!("error: {error:#}");
        }
    }
}

impl BenchServer {
    /// Whether the server answers a GET of `/` with 200.
    pub(super) fn answers(&self) -> bool {
        asked(self.address, "GET / HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n\r\n")
            .is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
    }

    /// The value of a Petasos metric without labels.
    pub(super) fn metric(&self, name: &str) -> Result<u64> {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.admin);
        let text = asked(self.admin, &request).context("the admin address does not answer")?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.with_context(|| format!("there is no metric {name}"))
    }
}

/// Sends a request and returns the whole response, until the server closes the connection.
pub(super) fn asked(address: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
