//! Servers that keep running after the command that started them, each in a separate session. Later
//! commands find and stop them.
//!
//! Invariant: only processes that this module started are ever signalled. A record holds the
//! process id, its start time and the boot id, so that a reused process id is not mistaken for the
//! server. A descendant must be in the recorded session and have its working directory below the
//! lab's. Servers are not restarted.

use crate::account::ServerAccount;
use crate::packages::tail;
use anyhow::{Context, Result, bail};
use probe::ProcFs;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Interval between two checks of a server that starts or stops.
const POLL: Duration = Duration::from_millis(50);
/// Number of checks before a start has failed: one minute, because a database may have to repair
/// itself first.
const START_POLLS_MAX: u32 = 1200;
/// Number of checks between SIGTERM and SIGKILL: twenty seconds.
const STOP_POLLS_MAX: u32 = 400;

/// Closes all inherited file descriptors except the three standard ones, then executes the server.
/// Otherwise the server would keep the caller's locks and pipes open. This needs bash, because dash
/// supports no descriptor above 9.
const CLOSE_AND_BECOME: [&str; 4] = [
    "bash",
    "-c",
    "for fd in /proc/$$/fd/*; do fd=${fd##*/}; ((fd > 2)) && eval \"exec $fd>&-\"; done; exec \"$@\"",
    "bash",
];

/// One server of a lab.
pub(crate) struct LabService {
    /// Name in records, logs and messages.
    pub(crate) name: &'static str,
    /// Program and arguments. The program must stay in the foreground.
    pub(crate) command: Vec<String>,
}

/// Directory and account of a lab's servers. `run/` holds the records, `log/` the servers' output.
pub(crate) struct LabDirectory {
    /// Canonical path of the directory.
    pub(crate) directory: PathBuf,
    /// The user that runs the servers.
    pub(crate) account: ServerAccount,
}

impl LabDirectory {
    /// Starts a server and waits until `ready` returns true.
    ///
    /// # Errors
    /// If the server cannot be started, ends at once or is not ready within a minute. The message
    /// shows the end of its log.
    pub(crate) fn start(&self, service: &LabService, ready: impl Fn() -> bool) -> Result<()> {
        let LabService { name, command } = service;
        let log_path = self.log(name);
        let mut child = self.spawn(command, &log_path).with_context(|| format!("cannot start {name}"))?;
        let record =
            ProcessRecord::of(child.id(), command).with_context(|| format!("cannot look at {name}"))?;
        fs::write(self.record(name), record.render()).with_context(|| format!("cannot record {name}"))?;
        for _ in 0..START_POLLS_MAX {
            if let Some(status) = child.try_wait()? {
                bail!("{name} ended with {status}; {}", tail(&log_path));
            }
            if ready() {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        bail!("{name} is not ready after a minute; {}", tail(&log_path));
    }

    /// Process id of a server's first process, if it runs.
    pub(crate) fn running(&self, name: &str) -> Option<u32> {
        let record = ProcessRecord::read(&self.record(name))?;
        record.is_alive().then_some(record.pid)
    }

    /// Resident memory of all processes of a server, in bytes. Shared pages count once (`Pss`).
    pub(crate) fn resident_bytes(&self, name: &str) -> u64 {
        let Some(record) = ProcessRecord::read(&self.record(name)) else { return 0 };
        let of = |pid: u32| {
            let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
            Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1024)
        };
        self.members(&record).into_iter().filter_map(of).sum()
    }

    /// Processor time of all processes of a server so far, in seconds.
    pub(crate) fn cpu_secs(&self, name: &str) -> f64 {
        let Some(record) = ProcessRecord::read(&self.record(name)) else { return 0.0 };
        let host = ProcFs::system();
        let members = self.members(&record).into_iter();
        let ticks: u64 = members.filter_map(|pid| Some(host.process(pid)?.own_ticks)).sum();
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    /// Whether the server runs and was started with exactly this command.
    pub(crate) fn is_running(&self, service: &LabService) -> bool {
        let record = ProcessRecord::read(&self.record(service.name));
        record.is_some_and(|record| record.is_alive() && record.command == service.command.join(" "))
    }

    /// Stops a server with its descendants: SIGTERM to the first process, then SIGKILL to those
    /// that remain. Returns whether any process was running.
    ///
    /// # Errors
    /// If a process survives SIGKILL, or the record cannot be removed.
    pub(crate) fn stop(&self, name: &str) -> Result<bool> {
        let path = self.record(name);
        let Some(record) = ProcessRecord::read(&path) else { return Ok(false) };
        let found = self.members(&record);
        if record.is_alive() {
            signal(record.pid, Signal::TERM);
        }
        for poll in 0..2 * STOP_POLLS_MAX {
            let left = self.members(&record);
            if left.is_empty() {
                fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
                return Ok(!found.is_empty());
            }
            if poll >= STOP_POLLS_MAX || !record.is_alive() {
                left.into_iter().for_each(|pid| signal(pid, Signal::KILL));
            }
            std::thread::sleep(POLL);
        }
        bail!("{name} (process {}) does not end; {}", record.pid, tail(&self.log(name)))
    }

    /// Path of a server's log.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.directory.join("log").join(format!("{name}.log"))
    }

    fn record(&self, name: &str) -> PathBuf {
        self.directory.join("run").join(format!("{name}.started"))
    }

    fn spawn(&self, command: &[String], log_path: &Path) -> Result<Child> {
        // The log starts empty, because older lines would be taken for messages of this start. It
        // is opened for appending, because some servers also open it by its path and write to it.
        File::create(log_path).with_context(|| format!("cannot write {}", log_path.display()))?;
        self.account.give(log_path)?;
        let log = File::options().append(true).open(log_path)?;
        let child = self
            .account
            .command("setsid")
            .args(CLOSE_AND_BECOME)
            .args(command)
            .current_dir(&self.directory)
            .stdout(log.try_clone()?)
            .stderr(Stdio::from(log))
            .spawn()?;
        Ok(child)
    }

    /// Running processes of a record: the first process, and all others of its session.
    fn members(&self, record: &ProcessRecord) -> Vec<u32> {
        if record.boot != boot() {
            return Vec::new();
        }
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| self.is_member(*pid, record)).collect()
    }

    fn is_member(&self, pid: u32, record: &ProcessRecord) -> bool {
        if pid == record.pid {
            return record.is_alive();
        }
        let Some(stat) = Stat::of(pid) else { return false };
        let at_home = || match fs::read_link(format!("/proc/{pid}/cwd")) {
            Ok(cwd) => cwd.starts_with(&self.directory),
            // An exiting process may have no working directory any more, but may still hold other
            // resources.
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        stat.session == record.pid && stat.start_ticks >= record.start_ticks && !stat.is_dead() && at_home()
    }
}

/// Identity of a started process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProcessRecord {
    pid: u32,
    /// Clock ticks between boot and the start of the process.
    start_ticks: u64,
    /// The kernel's id of this boot.
    boot: String,
    /// Program and arguments, on one line.
    command: String,
}

impl ProcessRecord {
    fn of(pid: u32, command: &[String]) -> Option<Self> {
        Some(Self { pid, start_ticks: Stat::of(pid)?.start_ticks, boot: boot(), command: command.join(" ") })
    }

    fn read(path: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let (process, command) = text.split_once('\n')?;
        let mut words = process.split(' ');
        let pid = words.next()?.parse().ok()?;
        let start_ticks = words.next()?.parse().ok()?;
        let boot = words.next()?.to_owned();
        Some(Self { pid, start_ticks, boot, command: command.trim_end().to_owned() })
    }

    fn render(&self) -> String {
        format!("{} {} {}\n{}\n", self.pid, self.start_ticks, self.boot, self.command)
    }

    /// Whether the recorded process itself still runs.
    fn is_alive(&self) -> bool {
        self.boot == boot()
            && Stat::of(self.pid).is_some_and(|stat| stat.start_ticks == self.start_ticks && !stat.is_dead())
    }
}

/// Fields of /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    session: u32,
    start_ticks: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The program name is in parentheses and may contain parentheses and spaces. Fields are
    /// therefore counted from the last closing parenthesis (proc_pid_stat(5): state is field 3,
    /// session 6, starttime 22).
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number.checked_sub(3)?).copied();
        Some(Self {
            state: field(3)?.chars().next()?,
            session: field(6)?.parse().ok()?,
            start_ticks: field(22)?.parse().ok()?,
        })
    }

    /// A zombie has ended and only waits for its parent to read its status.
    fn is_dead(self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let id = id.trim();
    if id.is_empty() { "unknown".to_owned() } else { id.to_owned() }
}

/// Signals one of our processes. An error is ignored: either the process has just ended, or the
/// caller notices that it does not end.
fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::{LabDirectory, LabService, ProcessRecord, ServerAccount, Stat};
    use std::fs;
    use std::path::PathBuf;

    /// A place in a directory for this test.
    fn place(name: &str) -> LabDirectory {
        let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/xtask-tests").join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(directory.join("run")).unwrap();
        fs::create_dir_all(directory.join("log")).unwrap();
        LabDirectory { directory: directory.canonicalize().unwrap(), account: ServerAccount::Caller }
    }

    fn service(script: &str) -> LabService {
        LabService { name: "tested", command: ["sh", "-c", script].map(str::to_owned).to_vec() }
    }

    #[test]
    fn stat_is_parsed_after_any_program_name() {
        let text = "42 (a) b (c) S 1 40 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3";
        assert_eq!(Stat::parse(text), Some(Stat { state: 'S', session: 41, start_ticks: 987_654 }));
        assert_eq!(Stat::parse("42 (a) S 1 40"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn written_record_is_read_back_unchanged() {
        let record =
            ProcessRecord { pid: 7, start_ticks: 8, boot: "b".to_owned(), command: "c d".to_owned() };
        assert_eq!(ProcessRecord::parse(&record.render()), Some(record));
        assert_eq!(ProcessRecord::parse("7 8\nc\n"), None);
        assert_eq!(ProcessRecord::parse("x 8 b\nc\n"), None);
    }

    #[test]
    fn reused_process_id_is_not_taken_for_ours() {
        let own = ProcessRecord::of(std::process::id(), &[]).unwrap();
        assert!(own.is_alive());
        assert!(!ProcessRecord { start_ticks: own.start_ticks + 1, ..own.clone() }.is_alive());
        assert!(!ProcessRecord { boot: "another".to_owned(), ..own }.is_alive());
    }

    #[test]
    fn process_with_a_reused_id_is_not_stopped() {
        let place = place("foreign");
        let own = ProcessRecord::of(std::process::id(), &[]).unwrap();
        let stale = ProcessRecord { start_ticks: own.start_ticks + 1, ..own };
        fs::write(place.record("tested"), stale.render()).unwrap();
        assert_eq!(place.running("tested"), None);
        assert!(!place.stop("tested").unwrap(), "this very process would have been stopped");
        assert!(!place.record("tested").exists());
    }

    #[test]
    fn recorded_server_is_stopped_with_its_descendants() {
        let place = place("descendants");
        let file = place.directory.join("ready");
        // The descendant ignores SIGTERM and outlives its parent.
        let script = "trap '' TERM; (while :; do sleep 1; done) & trap 'exit 0' TERM; : >ready; \
            while :; do sleep 0.05; done";
        place.start(&service(script), || file.exists()).unwrap();
        assert!(place.is_running(&service(script)));
        assert!(!place.is_running(&service("another command")));
        let record = ProcessRecord::read(&place.record("tested")).unwrap();
        assert_eq!(place.running("tested"), Some(record.pid));
        assert!(place.members(&record).len() >= 2, "the shell and its descendant");
        assert!(place.stop("tested").unwrap());
        assert!(place.members(&record).is_empty());
        assert!(!record.is_alive());
        assert!(!place.stop("tested").unwrap(), "stopping twice is fine");
    }

    #[test]
    fn servers_inherit_only_the_three_standard_descriptors() {
        let place = place("descriptors");
        let held = fs::File::open("/dev/zero").unwrap();
        rustix::io::fcntl_setfd(&held, rustix::io::FdFlags::empty()).unwrap();
        let file = place.directory.join("ready");
        let script = ": >ready; while :; do sleep 0.05; done";
        place.start(&service(script), || file.exists()).unwrap();
        let pid = place.running("tested").unwrap();
        let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let links = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let is_held = links.into_iter().any(|link| link.as_os_str() == "/dev/zero");
        place.stop("tested").unwrap();
        assert!(!is_held, "the server has a descriptor of the program that started it");
    }

    #[test]
    fn a_server_that_ends_at_once_is_an_error_with_its_log() {
        let place = place("ends");
        let error = place.start(&service("echo the reason >&2; exit 3"), || false).unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.contains("exit status: 3") && text.contains("the reason") && text.contains("tested.log"),
            "{text}"
        );
        assert!(!place.stop("tested").unwrap_or(true));
    }
}
