//! The servers of files: Petasos, and Debian's nginx and H2O, with the configurations
//! `bench/peers/static-*`.
//!
//! Invariant: one server runs at a time, as an ordinary user, on two free loopback ports, with the
//! same files, certificate and number of workers. Dropping [`RunningServer`] stops it.

use super::{BenchFile, FILES};
use crate::bench::rivals::{self, Rival};
use crate::client;
use crate::place::{self, render};
use crate::service::{LabDirectory, LabService};
use anyhow::Result;
use stats::Random;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use testkit::{Authority, KeyKind};

/// Working directory of the servers, relative to the repository.
pub(super) const DIRECTORY: &str = "target/bench-static";
/// The host of all requests.
pub(super) const HOST: &str = "static.test";
/// Timeout of a response while a server starts.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A server in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FileServer {
    Petasos,
    Nginx,
    /// nginx as it comes, without its cache of open files.
    NginxUncached,
    H2o,
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
    server: FileServer,
    plain: SocketAddr,
    secured: SocketAddr,
}

impl FileServer {
    /// All servers, in the order of the tables.
    pub(super) const ALL: [Self; 4] = [Self::Petasos, Self::Nginx, Self::NginxUncached, Self::H2o];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Petasos => "petasos",
            Self::Nginx => "nginx",
            Self::NginxUncached => "nginx-uncached",
            Self::H2o => "h2o",
        }
    }

    /// The server's Debian package, if it comes from one.
    fn package(self) -> Option<&'static str> {
        match self {
            Self::Petasos => None,
            Self::Nginx | Self::NginxUncached => Some("nginx-core"),
            Self::H2o => Some("h2o"),
        }
    }

    /// How many files nginx keeps open.
    fn open_files(self) -> &'static str {
        if self == Self::NginxUncached { "off" } else { "max=4096 inactive=600s" }
    }

    fn rival(self) -> Rival {
        (self.name(), self.package())
    }

    /// The template of its configuration, and the file that it becomes.
    fn configuration(self) -> (&'static str, &'static str) {
        match self {
            Self::Petasos => {
                (include_str!("../../../../bench/peers/static-petasos.toml"), "conf/petasos.toml")
            }
            Self::Nginx | Self::NginxUncached => {
                (include_str!("../../../../bench/peers/static-nginx.conf"), "conf/nginx.conf")
            }
            Self::H2o => (include_str!("../../../../bench/peers/static-h2o.conf"), "conf/h2o.conf"),
        }
    }
}

impl ServerDirectory {
    /// Installs missing packages and prepares the directory with a certificate and the files.
    pub(super) fn settle(program: &Path, files: &[BenchFile]) -> Result<Self> {
        let (place, lock) = rivals::settle(DIRECTORY, program, &FileServer::ALL.map(FileServer::rival))?;
        let issued = Authority::new("bench").issue(&[HOST], KeyKind::Ecdsa, (2000, 2100));
        place.write("conf/edge.pem", &issued.certificate)?;
        place.write("conf/edge.key", &issued.key)?;
        place::make_own(place.account, &place.directory.join("files"))?;
        for file in files {
            place.write(&format!("files/{}", file.name), &text(file.bytes))?;
        }
        Ok(Self { place, _lock: lock })
    }

    /// Name and version of each server.
    pub(super) fn versions(&self) -> Result<String> {
        // nginx counts once.
        let rivals = [FileServer::Petasos, FileServer::Nginx, FileServer::H2o].map(FileServer::rival);
        rivals::versions(&self.place, &rivals)
    }

    /// Starts a server and requests each file, so that all are in the system's memory.
    pub(super) fn start(&self, server: FileServer, workers: u16) -> Result<RunningServer<'_>> {
        let place = &self.place;
        let [plain, secured, admin] = place::free_addresses()?;
        let site = place.directory.to_string_lossy();
        let (template, path) = server.configuration();
        let values = [
            ("site", &*site),
            ("name", HOST),
            ("workers", &workers.to_string()),
            ("admin", &admin.to_string()),
            ("plain", &plain.to_string()),
            ("plain_host", &plain.ip().to_string()),
            ("plain_port", &plain.port().to_string()),
            ("secured", &secured.to_string()),
            ("secured_host", &secured.ip().to_string()),
            ("secured_port", &secured.port().to_string()),
            ("open_files", server.open_files()),
        ];
        place.write(path, &render(template, &values)?)?;
        let command = match server {
            FileServer::Petasos => format!("{site}/petasos serve {site}/{path}"),
            FileServer::Nginx | FileServer::NginxUncached => format!("nginx -p {site}/tmp -c {site}/{path}"),
            FileServer::H2o => format!("h2o -m worker -c {site}/{path}"),
        };
        // Splitting at spaces is correct because `LabDirectory::settle` guarantees paths without
        // spaces.
        let command = command.split_ascii_whitespace().map(str::to_owned).collect();
        let running = RunningServer { place, server, plain, secured };
        place.start(&LabService { name: server.name(), command }, || running.answers())?;
        Ok(running)
    }
}

impl RunningServer<'_> {
    /// The URL of a file, over HTTP/1.1 without TLS or over HTTP/2 with it.
    pub(super) fn url(&self, is_http2: bool, file: &str) -> String {
        match is_http2 {
            false => format!("http://{}/{file}", self.plain),
            true => format!("https://{}/{file}", self.secured),
        }
    }

    /// Whether the server answers requests for all files.
    fn answers(&self) -> bool {
        FILES.iter().all(|file| {
            let request = format!("GET /{} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n", file.name);
            client::is_ok(self.plain, &request, ANSWER_TIMEOUT)
        })
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

/// Letters without a pattern, the same in every run.
fn text(bytes: usize) -> String {
    let mut random = Random::from_seed(1);
    (0..bytes).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
}
