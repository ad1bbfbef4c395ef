//! The edge whose configuration, certificate and program change, with its origin and its files.

use super::observer::{Observer, PAGES, Protocol, Purger};
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use testkit::{Authority, Client, HeldPort, KeyKind, Origin, Trust, eventually, response};

/// The numbers of workers of the processes in turns.
const WORKERS: [u32; 3] = [2, 1, 3];

pub(super) struct Stage {
    program: PathBuf,
    directory: TempDir,
    authority: Authority,
    _origin: Origin,
    origin_url: String,
    /// The version of each page at the origin.
    versions: Arc<[AtomicU64; PAGES]>,
    /// The version of each page that clients must receive at least.
    floors: Arc<[AtomicU64; PAGES]>,
    plain: SocketAddr,
    secured: SocketAddr,
    admin: SocketAddr,
    serving: Child,
}

impl Stage {
    /// Starts the origin and the edge.
    pub(super) fn build(program: &Path) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let authority = Authority::new("an authority for changes");
        let versions: Arc<[AtomicU64; PAGES]> = Arc::new(std::array::from_fn(|_| AtomicU64::new(1)));
        let own = Arc::clone(&versions);
        let origin = Origin::start(move |seen| {
            let page = seen.target().trim_start_matches('/').parse::<usize>().unwrap_or_default();
            let version = own.get(page).map_or(0, |version| version.load(Ordering::SeqCst));
            response("200 OK", &["Cache-Control: s-maxage=600"], version.to_string().as_bytes())
        });
        let [plain, secured, admin] = std::array::from_fn(|_| HeldPort::take().address());
        let mut stage = Self {
            program: program.to_owned(),
            authority,
            origin_url: origin.url(),
            _origin: origin,
            floors: Arc::new(std::array::from_fn(|_| AtomicU64::new(0))),
            versions,
            plain,
            secured,
            admin,
            serving: Command::new("true").spawn()?,
            directory,
        };
        stage.serving.wait()?;
        stage.certify()?;
        stage.configure(0)?;
        stage.serving = stage.start(0, &[])?;
        Ok(stage)
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// The file of the authority that clients trust.
    pub(super) fn authority(&self) -> PathBuf {
        self.directory.path().join("authority.pem")
    }

    /// The URL of the first page.
    pub(super) fn url(&self, protocol: Protocol) -> String {
        match protocol {
            Protocol::Http1 => format!("http://{}/0", self.plain),
            Protocol::Tls | Protocol::Http2 => format!("https://localhost:{}/0", self.secured.port()),
        }
    }

    pub(super) fn observer(&self, protocol: Protocol) -> Observer {
        Observer {
            protocol,
            address: if protocol == Protocol::Http1 { self.plain } else { self.secured },
            trust: Trust::of(&self.authority.pem()),
            floors: Arc::clone(&self.floors),
        }
    }

    pub(super) fn purger(&self) -> Purger {
        Purger { address: self.plain, versions: Arc::clone(&self.versions), floors: Arc::clone(&self.floors) }
    }

    /// Writes the configuration. `round` changes a part of it.
    fn configure(&self, round: u32) -> Result<()> {
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        let text = format!(
            "origin = \"{}\"\nadmin = \"{}\"\npurge_peers = [\"127.0.0.1\"]\nhsts = \"{}s\"\n\
             disk = \"{}\"\nstate_directory = \"{}\"\n\n\
             [[listener]]\nlisten = \"{}\"\n\n\
             [[listener]]\nlisten = \"{}\"\ntls = [\"{},{}\"]\n",
            self.origin_url,
            self.admin,
            100 + round,
            path("disk"),
            path("state"),
            self.plain,
            self.secured,
            path("site.pem"),
            path("site.key")
        );
        std::fs::write(self.file(), text).context("cannot write the configuration")
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("petasos.toml")
    }

    /// Issues a new certificate.
    fn certify(&self) -> Result<()> {
        let files = self.authority.issue(&["localhost", "127.0.0.1"], KeyKind::Ecdsa, (2000, 2100));
        files.write(self.directory.path(), "site");
        std::fs::write(self.authority(), self.authority.pem()).context("cannot write the authority")
    }

    fn start(&self, round: u32, more: &[&str]) -> Result<Child> {
        let workers = WORKERS.get(round as usize % WORKERS.len()).copied().unwrap_or(1).to_string();
        let mut child = Command::new(&self.program)
            .arg("serve")
            .arg(self.file())
            .args(["--workers", &workers])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the edge")?;
        let mut line = String::new();
        let output = child.stdout.take().context("the edge has no output")?;
        BufReader::new(output).read_line(&mut line)?;
        ensure!(line.contains("serving"), "the edge did not start");
        Ok(child)
    }

    /// Changes the configuration.
    pub(super) fn reload(&self, round: u32) -> Result<()> {
        self.configure(round)?;
        let order = format!("POST /reload HTTP/1.1\r\nHost: {}\r\n\r\n", self.admin);
        let answer = Client::try_connect(self.admin).and_then(|mut client| client.try_ask(order));
        let status = answer.map(|answer| answer.status);
        ensure!(status == Some(200), "the reload was answered by {status:?}");
        Ok(())
    }

    /// Replaces the certificate and waits until the edge serves the new one.
    pub(super) fn replace_certificate(&self) -> Result<()> {
        let trust = Trust::of(&self.authority.pem()).without_sessions();
        let served = || {
            let client = Client::secured(self.secured, "localhost", &trust);
            client.map(|client| client.handshake().certificate).ok()
        };
        let before = served();
        self.certify()?;
        eventually("the new certificate is served", || served().is_some_and(|now| Some(now) != before));
        Ok(())
    }

    /// Lets a new process take over, and waits for the end of the old one.
    pub(super) fn upgrade(&mut self, round: u32) -> Result<()> {
        let new = self.start(round, &["--upgrade"])?;
        let mut old = std::mem::replace(&mut self.serving, new);
        for _ in 0..600 {
            if let Some(status) = old.try_wait()? {
                ensure!(status.success(), "the old process ended with {status}");
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("the old process does not end")
    }

    /// Ends the edge.
    pub(super) fn end(&mut self) -> Result<()> {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.serving),
            rustix::process::Signal::TERM,
        )?;
        let status = self.serving.wait()?;
        ensure!(status.success(), "the edge ended with {status}");
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // It has ended if all went well.
        let _ = self.serving.kill();
        let _ = self.serving.wait();
    }
}
