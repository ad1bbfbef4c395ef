//! The real binary as a child process that is killed when its handle is dropped.

use crate::Client;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// What a finished command left behind.
#[derive(Debug)]
pub struct Output {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// The path of the binary under test, which is built beside the test programs.
fn binary() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    if path.ends_with("deps") {
        path.pop();
    }
    let path = path.join("petasos");
    assert!(path.exists(), "{} is missing: build it with `cargo build -p petasos`", path.display());
    path
}

/// Runs `petasos` with these arguments to its end.
pub fn petasos(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    petasos_with(&[], arguments)
}

/// Runs `petasos` with these environment variables and arguments to its end.
pub fn petasos_with(
    variables: &[(&str, &str)],
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null());
    let output = command.output().unwrap();
    Output {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A running `petasos serve`.
pub struct Edge {
    child: Child,
    /// Where visitors connect.
    pub address: SocketAddr,
    /// Where the admin interface is.
    pub admin: SocketAddr,
    /// Where its configuration file is, if it has one; removed with it.
    _directory: Option<TempDir>,
}

impl Edge {
    /// Starts an edge before `origin` (a URL) on free ports, with further arguments, and waits until it
    /// accepts connections.
    pub fn start(origin: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(binary())
            .args(["serve", "--origin", origin, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let addresses: Vec<SocketAddr> = line
            .split(|character: char| character.is_whitespace() || character == ',')
            .filter_map(|word| word.strip_prefix("http://")?.trim_end_matches('/').parse().ok())
            .filter(|address: &SocketAddr| !origin.ends_with(&address.to_string()))
            .collect();
        let [address, admin] = addresses[..] else { panic!("not a ready line: {line:?}") };
        // Keeps the pipe empty, so that an access log on standard output cannot block the edge.
        std::thread::spawn(move || std::io::copy(&mut stdout.take(u64::MAX), &mut std::io::sink()));
        Self { child, address, admin, _directory: None }
    }

    /// As [`Edge::start`], with a configuration file of this content.
    pub fn configured(origin: &str, configuration: &str, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("petasos.toml");
        std::fs::write(&file, configuration).unwrap();
        let arguments = [&[file.to_str().unwrap()], arguments].concat();
        let mut edge = Self::start(origin, &arguments);
        edge._directory = Some(directory);
        edge
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(status.unwrap().success());
    }

    /// Waits for the process to end by itself and gives its exit code.
    pub fn wait(&mut self) -> Option<i32> {
        let mut code = None;
        crate::eventually("the edge ends", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        code.and_then(|status| status.code())
    }

    /// The value of a metric at the admin address, summed over its labels that contain `label`.
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        let mut client = Client::connect(self.admin);
        client.send(format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", self.admin));
        let page = client.read();
        assert_eq!(page.status, 200, "{}", page.head);
        page.text()
            .lines()
            .filter(|line| line.starts_with(name) && line.contains(label))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
