//! The real binary as a child process. It is killed when its handle is dropped.

use crate::Client;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// A free loopback port, chosen by the system.
const ANYWHERE: &str = "127.0.0.1:0";

/// The result of a finished command.
#[derive(Debug)]
pub struct CommandOutput {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// The path of the binary under test. It is built into the same directory as the test programs.
///
/// # Panics
/// If the binary is missing.
pub fn binary() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    if path.ends_with("deps") {
        path.pop();
    }
    let path = path.join("petasos");
    assert!(path.exists(), "{} is missing: build it with `cargo build -p petasos`", path.display());
    path
}

/// Runs `petasos` with these arguments until it ends.
pub fn petasos(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> CommandOutput {
    petasos_with(&[], arguments)
}

/// Runs `petasos` with these environment variables and arguments until it ends.
pub fn petasos_with(
    variables: &[(&str, &str)],
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> CommandOutput {
    let mut command = Command::new(binary());
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null());
    let output = command.output().unwrap();
    CommandOutput {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A running `petasos serve`.
pub struct Edge {
    child: Child,
    /// The address where visitors connect.
    pub address: SocketAddr,
    /// The admin address.
    pub admin: SocketAddr,
    /// The text that it wrote to standard error.
    said: Arc<Mutex<String>>,
    /// The directory of its configuration file, if it has one. Removed with the edge.
    directory: Option<TempDir>,
}

impl Edge {
    /// Starts an edge in front of `origin` (a URL) on free ports, with further arguments. Waits
    /// until it accepts connections.
    pub fn start(origin: &str, arguments: &[&str]) -> Self {
        Self::start_at(ANYWHERE, origin, arguments)
    }

    /// As [`Edge::start`], listening at `listen`.
    pub fn start_at(listen: &str, origin: &str, arguments: &[&str]) -> Self {
        Self::launch(Command::new(binary()), listen, origin, &[&PURGES_FROM_HERE, arguments].concat())
    }

    /// As [`Edge::configured`], but without the permission to purge from 127.0.0.1 that the other
    /// constructors add.
    pub fn as_shipped(origin: &str, configuration: &str) -> Self {
        with_file(configuration, |file| Self::launch(Command::new(binary()), ANYWHERE, origin, &[file]))
    }

    /// Starts this build, or the one at `binary`, with only these arguments, as users do.
    pub fn of_build(binary: Option<&Path>, origin: &str, arguments: &[&str]) -> Self {
        let command = binary.map_or_else(|| Command::new(self::binary()), Command::new);
        Self::launch(command, ANYWHERE, origin, arguments)
    }

    /// As [`Edge::start`], through a shell that runs `script`. The script must end with `exec
    /// "$@"`.
    pub fn scripted(script: &str, origin: &str, arguments: &[&str]) -> Self {
        Self::scripted_at(script, ANYWHERE, origin, arguments)
    }

    /// As [`Edge::scripted`], listening at `listen`.
    pub fn scripted_at(script: &str, listen: &str, origin: &str, arguments: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-ec", script, "sh"]).arg(binary());
        Self::launch(shell, listen, origin, &[&PURGES_FROM_HERE, arguments].concat())
    }

    /// Starts an edge whose listeners are in this configuration file. `address` is then that of the
    /// first one.
    pub fn with_listeners(origin: &str, file: &Path) -> Self {
        let mut command = Command::new(binary());
        command.arg("serve").arg(file).args(["--origin", origin, "--admin", ANYWHERE]).stdin(Stdio::null());
        Self::spawn(&mut command, origin)
    }

    /// Starts an edge with this configuration file alone, which names listeners and origins. Its
    /// admin interface is at `admin`, or at a free port. `address` is that of the first listener.
    pub fn of_file(file: &Path, admin: Option<SocketAddr>) -> Self {
        Self::of_program_and_file(&binary(), file, admin)
    }

    /// As [`Edge::of_file`], with the binary at `program`.
    pub fn of_program_and_file(program: &Path, file: &Path, admin: Option<SocketAddr>) -> Self {
        let mut command = Command::new(program);
        let admin = admin.map_or_else(|| ANYWHERE.to_owned(), |admin| admin.to_string());
        command.arg("serve").arg(file).args(["--admin", &admin]);
        command.env("STATE_DIRECTORY", witnesses("state")).env("XDG_RUNTIME_DIR", witnesses("run"));
        Self::spawn(command.stdin(Stdio::null()), "no origin")
    }

    /// Starts an edge that takes over from this one, with `arguments` instead of this edge's. Waits
    /// until it serves.
    pub fn upgraded(&self, origin: &str, arguments: &[&str]) -> Self {
        let (listen, admin) = (self.address.to_string(), self.admin.to_string());
        let mut command = Command::new(binary());
        let arguments = [&["--upgrade"], &PURGES_FROM_HERE[..], arguments].concat();
        Self::spawn(serve_at(&mut command, (&listen, &admin), origin, &arguments), origin)
    }

    /// Starts an edge with these arguments and kills it after `life`, whether it is ready or not.
    pub fn still_birth(origin: &str, arguments: &[&str], life: Duration) {
        let mut command = Command::new(binary());
        let mut child =
            serve(&mut command, ANYWHERE, origin, arguments).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(life);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn launch(mut command: Command, place: &str, origin: &str, arguments: &[&str]) -> Self {
        Self::spawn(serve(&mut command, place, origin, arguments), origin)
    }

    fn spawn(command: &mut Command, origin: &str) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::default();
        listen(BufReader::new(child.stderr.take().unwrap()), Arc::clone(&said));
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let addresses: Vec<SocketAddr> = line
            .split(|character: char| character.is_whitespace() || character == ',')
            .filter_map(|word| word.strip_prefix("http://").or_else(|| word.strip_prefix("https://")))
            .filter_map(|address| address.trim_end_matches('/').parse().ok())
            .filter(|address: &SocketAddr| !origin.ends_with(&address.to_string()))
            .collect();
        let [address, .., admin] = addresses[..] else { panic!("not a ready line: {line:?}") };
        // Keeps the pipe empty, so that an access log on standard output cannot block the edge.
        std::thread::spawn(move || std::io::copy(&mut stdout.take(u64::MAX), &mut std::io::sink()));
        Self { child, address, admin, said, directory: None }
    }

    /// As [`Edge::start`], with a configuration file of this content.
    pub fn configured(origin: &str, configuration: &str, arguments: &[&str]) -> Self {
        with_file(configuration, |file| Self::start(origin, &[&[file], arguments].concat()))
    }

    /// Replaces the content of its configuration file.
    pub fn reconfigure(&self, configuration: &str) {
        let file = self.directory.as_ref().unwrap().path().join("petasos.toml");
        std::fs::write(file, configuration).unwrap();
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory of the process now, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.memory_bytes("VmRSS:")
    }

    /// Peak resident memory of the process since its start, in bytes.
    pub fn resident_bytes_peak(&self) -> u64 {
        self.memory_bytes("VmHWM:")
    }

    fn memory_bytes(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }

    /// The most resident memory that docs/performance.md permits with this value of `memory`: a
    /// twentieth more for the allocator, and 24 MiB for the program and its connections.
    pub const fn resident_bytes_max(memory_bytes: u64) -> u64 {
        memory_bytes + memory_bytes / 20 + (24 << 20)
    }

    /// Sends a signal by name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(status.unwrap().success());
    }

    /// Kills the process and waits until it has ended.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Limits the size of the files that it writes. The process must ignore SIGXFSZ to survive a
    /// violation.
    pub fn limit_file_bytes(&self, bytes: u64) {
        let pid = Pid::from_raw(self.pid().try_into().unwrap());
        prlimit(pid, Resource::Fsize, Rlimit { current: Some(bytes), maximum: Some(bytes) }).unwrap();
    }

    /// The text that it has written to standard error so far.
    pub fn stderr(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// The JSON document of `/status` at the admin address. `None` if the edge has ended.
    pub fn status(admin: SocketAddr) -> Option<Value> {
        let ask = format!("GET /status HTTP/1.1\r\nHost: {admin}\r\n\r\n");
        let answer = Client::try_connect(admin)?.try_ask(ask).filter(|answer| answer.complete)?;
        serde_json::from_slice(&answer.body).ok()
    }

    /// Waits until the process ends by itself. Returns its exit code, or `None` if a signal ended
    /// it.
    pub fn wait(&mut self) -> Option<i32> {
        let mut code = None;
        crate::eventually("the edge ends", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        code.and_then(|status| status.code())
    }

    /// The value of a metric at the admin address, summed over all lines that start with `name` and
    /// contain `label`.
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

/// Lets tests purge at the visitors' address, like applications listed in `purge_peers`.
const PURGES_FROM_HERE: [&str; 2] = ["--purge-peers", "127.0.0.1"];

/// Starts an edge with `start`, which receives the path of a configuration file with this content.
fn with_file(configuration: &str, start: impl FnOnce(&str) -> Edge) -> Edge {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("petasos.toml");
    std::fs::write(&file, configuration).unwrap();
    let mut edge = start(file.to_str().unwrap());
    edge.directory = Some(directory);
    edge
}

/// The command `serve`, with its admin interface on a free port.
fn serve<'a>(command: &'a mut Command, listen: &str, origin: &str, arguments: &[&str]) -> &'a mut Command {
    serve_at(command, (listen, ANYWHERE), origin, arguments)
}

/// The command `serve` at these addresses for visitors and for the admin interface.
fn serve_at<'a>(
    command: &'a mut Command,
    (listen, admin): (&str, &str),
    origin: &str,
    arguments: &[&str],
) -> &'a mut Command {
    command
        .args(["serve", "--origin", origin, "--listen", listen, "--admin", admin])
        .args(arguments)
        .env("STATE_DIRECTORY", witnesses("state"))
        .env("XDG_RUNTIME_DIR", witnesses("run"))
        .stdin(Stdio::null())
}

/// A state or runtime directory for edges under test, so that they do not use those of the machine.
fn witnesses(kind: &str) -> PathBuf {
    std::env::temp_dir().join(format!("petasos-test-{kind}-{}", rustix::process::geteuid().as_raw()))
}

/// Collects the lines of standard error, and copies them to the test's own output.
#[allow(clippy::print_stderr, reason = "the test's own output has the edge's messages too")]
fn listen(stderr: impl BufRead + Send + 'static, said: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            eprintln!("{line}");
            *said.lock().unwrap() += &(line + "\n");
        }
    });
}

impl Drop for Edge {
    fn drop(&mut self) {
        // Errors are ignored, because the process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
