//! A test stand: the suite's origin, Petasos in front of it, and the suite's client.
//!
//! Invariant: no child outlives the stand or this program, however that ends, because each child is
//! killed with the thread that started it. Everything listens on loopback, on ports that the system
//! chose.

use super::Variant;
use super::protocol::{Keys, Protocol, keys};
use super::report::SuiteReport;
use super::suite::Suite;
use crate::packages::tail;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Interval between two checks of a child.
const POLL: Duration = Duration::from_millis(50);
/// Number of checks before a start has failed: half a minute.
const START_POLLS_MAX: u32 = 600;
/// Number of checks before the client is given up: five minutes. It normally takes one minute.
const CLIENT_POLLS_MAX: u32 = 6000;
/// Number of checks between SIGTERM and SIGKILL: two seconds. All clients are gone by then.
const STOP_POLLS_MAX: u32 = 40;

/// The running origin and Petasos.
pub(crate) struct SuiteServers<'a> {
    suite: &'a Suite,
    variant: Variant,
    keys: Keys,
    logs: PathBuf,
    petasos: SuiteServer,
    _origin: SuiteServer,
}

impl<'a> SuiteServers<'a> {
    /// Starts the origin, and Petasos with a profile and a protocol in front of it.
    ///
    /// # Errors
    /// If one of them does not start; shows the end of its log.
    pub(crate) fn up(suite: &'a Suite, petasos: &Path, variant: Variant) -> Result<Self> {
        let logs = std::path::absolute(suite.logs(variant))?;
        std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
        let own = std::path::absolute("conformance")?;
        let mut origin = bound(OsStr::new("node"));
        origin.arg("--no-warnings").arg(own.join("serve.mjs"));
        origin.arg(suite.directory.join(suite.edition.server())).arg(logs.join("origin.pid"));
        // The suite's server also serves files of its working directory.
        origin.current_dir(&suite.directory);
        let origin = SuiteServer::start("origin", origin, &logs, "Listening on http://")?;
        let mut edge = bound(petasos.as_os_str());
        edge.arg("serve").arg(own.join(format!("{}.toml", variant.profile.name())));
        edge.args(["--origin", &format!("http://{}", origin.address)]);
        edge.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        let keys = keys(&logs);
        if variant.protocol != Protocol::Http1 {
            edge.args(["--tls", &keys.pair]);
        }
        let petasos = SuiteServer::start("petasos", edge, &logs, variant.protocol.serving())?;
        Ok(Self { suite, variant, keys, logs, petasos, _origin: origin })
    }

    /// Runs the suite's client to its end, with the chosen tests, or with all tests if none are
    /// chosen. With a single test, client and origin log all messages.
    ///
    /// # Errors
    /// If the client fails or Petasos ends; shows the end of the log.
    pub(crate) fn run_client(mut self, chosen: &[String]) -> Result<SuiteReport> {
        let report = self.logs.join("report.json");
        let log = self.logs.join("client.log");
        let mut client = bound(OsStr::new("node"));
        client.arg("--no-warnings").arg(std::path::absolute("conformance/client.mjs")?);
        // The base URL must not end with a slash, because paths begin with one.
        client.arg(&self.suite.directory).arg(&self.suite.modules);
        client.arg(format!("{}://{}", self.variant.protocol.scheme(), self.petasos.address)).args(chosen);
        client.env("NODE_EXTRA_CA_CERTS", &self.keys.authority);
        client.env("PETASOS_PROTOCOL", self.variant.protocol.name());
        client.stdout(create(&report)?).stderr(create(&log)?);
        let mut client = Process(client.spawn().context("cannot run node")?);
        let Some(status) = client.ended(CLIENT_POLLS_MAX)? else {
            bail!("the suite's client does not end; {}", tail(&log));
        };
        ensure!(status.success(), "the suite's client ended with {status}; {}", tail(&log));
        if let Some(status) = self.petasos.process.0.try_wait()? {
            bail!("Petasos ended with {status} while it was tested; {}", tail(&self.petasos.log));
        }
        let text = std::fs::read_to_string(&report)?;
        SuiteReport::parse(&text).with_context(|| format!("cannot read {}", report.display()))
    }
}

/// A command with empty standard input whose process is killed when the thread that started it
/// ends.
pub(super) fn bound(program: &OsStr) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program).stdin(Stdio::null());
    command
}

fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("cannot write {}", path.display()))
}

/// A program that accepts connections.
pub(super) struct SuiteServer {
    process: Process,
    pub(super) address: SocketAddr,
    log: PathBuf,
}

impl SuiteServer {
    /// Starts the program and waits until its log contains `before_address` and the address where
    /// it listens.
    pub(super) fn start(name: &str, mut command: Command, logs: &Path, before_address: &str) -> Result<Self> {
        let log = logs.join(format!("{name}.log"));
        let output = create(&log)?;
        command.stdout(output.try_clone()?).stderr(output);
        let mut process = Process(command.spawn().with_context(|| format!("cannot start {name}"))?);
        for _ in 0..START_POLLS_MAX {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            if let Some(address) = address_after(&text, before_address) {
                return Ok(Self { process, address, log });
            }
            if let Some(status) = process.0.try_wait()? {
                bail!("{name} ended with {status}; {}", tail(&log));
            }
            std::thread::sleep(POLL);
        }
        bail!("{name} does not say where it listens; {}", tail(&log));
    }
}

/// The address after `mark`, if the line is complete.
fn address_after(text: &str, mark: &str) -> Option<SocketAddr> {
    let (_, rest) = text.split_once(mark)?;
    let (line, _) = rest.split_once('\n')?;
    line.split(['/', ' ', ',']).next()?.parse().ok()
}

/// A child process, which is stopped on drop.
struct Process(Child);

impl Process {
    /// Waits for the end of the process for at most `polls_max` checks. Returns `None` if it still
    /// runs.
    fn ended(&mut self, polls_max: u32) -> Result<Option<ExitStatus>> {
        for _ in 0..polls_max {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            std::thread::sleep(POLL);
        }
        Ok(None)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        // An error means that the process has already ended.
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        if !matches!(self.ended(STOP_POLLS_MAX), Ok(Some(_))) {
            // An error means the same here.
            let _ = self.0.kill().and_then(|()| self.0.wait());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Process, address_after, bound};
    use std::ffi::OsStr;
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    #[test]
    fn addresses_are_read_from_complete_lines() {
        let line = "petasos: serving http://127.0.0.1:81 -> http://127.0.0.1:82 (profile rfc), admin x\n";
        let address = |text| address_after(text, "serving http://").map(|address| address.to_string());
        assert_eq!(address(line), Some("127.0.0.1:81".to_owned()));
        assert_eq!(address("serving http://127.0.0.1:8"), None);
        assert_eq!(address_after("x\nListening on http://127.0.0.1:80/\n", "on http://").unwrap().port(), 80);
        assert_eq!(address("nothing\n"), None);
    }

    #[test]
    fn program_that_ignores_sigterm_is_killed_on_drop() {
        let mut command = bound(OsStr::new("sh"));
        command.args(["-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"]).stdout(Stdio::piped());
        let mut process = Process(command.spawn().unwrap());
        let pid = process.0.id();
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        drop(process);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
