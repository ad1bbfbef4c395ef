//! Servers that go on running after the command that started them, each in a session of its own, and how they
//! are found again and stopped.
//!
//! Invariant: only a process that this module started is ever signalled. A record holds its number, its start
//! time and the boot it belongs to, so that a number given to another process is not mistaken for it; a
//! descendant must be in the recorded session and work inside the lab's own directory. It restarts nothing.

use crate::account::Account;
use crate::packages::tail;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// How often a starting or stopping server is looked at.
const POLL: Duration = Duration::from_millis(50);
/// Looks before a start has failed: one minute, as a database may have to repair itself first.
const START_POLLS_MAX: u32 = 1200;
/// Looks before a server that was asked to end is killed: twenty seconds.
const STOP_POLLS_MAX: u32 = 400;

/// Closes every descriptor that a server would inherit but the three standard ones, and becomes the server: locks and
/// pipes of whoever called the lab must not live as long as the server. dash knows no descriptor above 9.
const CLOSE_AND_BECOME: [&str; 4] = [
    "bash",
    "-c",
    "for fd in /proc/$$/fd/*; do fd=${fd##*/}; ((fd > 2)) && eval \"exec $fd>&-\"; done; exec \"$@\"",
    "bash",
];

/// One server of a lab.
pub(crate) struct Service {
    /// Its name in records, logs and messages.
    pub(crate) name: &'static str,
    /// The program and its arguments; it must stay in the foreground.
    pub(crate) command: Vec<String>,
}

/// Where a lab's servers work: `run/` for records, `log/` for what they say, all below one directory.
pub(crate) struct Place {
    /// The directory, as the system resolves it.
    pub(crate) directory: PathBuf,
    /// The user who runs the servers.
    pub(crate) account: Account,
}

impl Place {
    /// Starts a server and waits until `ready` says so.
    ///
    /// # Errors
    /// If it cannot be started, ends at once or is not ready in a minute; the text has the end of its log.
    pub(crate) fn start(&self, service: &Service, ready: impl Fn() -> bool) -> Result<()> {
        let Service { name, command } = service;
        let log_path = self.log(name);
        let mut child = self.spawn(command, &log_path).with_context(|| format!("cannot start {name}"))?;
        let record = Record::of(child.id(), command).with_context(|| format!("cannot look at {name}"))?;
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

    /// The number of a server's first process, if it runs.
    pub(crate) fn running(&self, name: &str) -> Option<u32> {
        let record = Record::read(&self.record(name))?;
        record.is_alive().then_some(record.pid)
    }

    /// Resident memory of a server's processes together; a page that several of them share counts once.
    pub(crate) fn resident_bytes(&self, name: &str) -> u64 {
        let Some(record) = Record::read(&self.record(name)) else { return 0 };
        let of = |pid: u32| {
            let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
            Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1024)
        };
        self.members(&record).into_iter().filter_map(of).sum()
    }

    /// Whether a server runs, and was started by the very command it would be started by now.
    pub(crate) fn is_running(&self, service: &Service) -> bool {
        let record = Record::read(&self.record(service.name));
        record.is_some_and(|record| record.is_alive() && record.command == service.command.join(" "))
    }

    /// Stops a server with its descendants. Returns whether there was anything to stop.
    ///
    /// # Errors
    /// If a process survives being killed, or the record cannot be removed.
    pub(crate) fn stop(&self, name: &str) -> Result<bool> {
        let path = self.record(name);
        let Some(record) = Record::read(&path) else { return Ok(false) };
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

    /// Where a server's output goes.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.directory.join("log").join(format!("{name}.log"))
    }

    fn record(&self, name: &str) -> PathBuf {
        self.directory.join("run").join(format!("{name}.started"))
    }

    fn spawn(&self, command: &[String], log_path: &Path) -> Result<Child> {
        // An old log would be taken for what this start has to say. The server gets an appending file, because
        // some write their log by a path of their own as well.
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

    /// The living processes of a record: the first one and whatever is left of its session.
    fn members(&self, record: &Record) -> Vec<u32> {
        if record.boot != boot() {
            return Vec::new();
        }
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| self.is_member(*pid, record)).collect()
    }

    fn is_member(&self, pid: u32, record: &Record) -> bool {
        if pid == record.pid {
            return record.is_alive();
        }
        let Some(stat) = Stat::of(pid) else { return false };
        let at_home = || match fs::read_link(format!("/proc/{pid}/cwd")) {
            Ok(cwd) => cwd.starts_with(&self.directory),
            // A process that is just ending has given its directory back already, but not yet all it holds.
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        stat.session == record.pid && stat.start_ticks >= record.start_ticks && !stat.is_dead() && at_home()
    }
}

/// What is kept about a started process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    pid: u32,
    /// Clock ticks between the machine's start and the process's.
    start_ticks: u64,
    /// The kernel's name for this start of the machine.
    boot: String,
    /// The program and its arguments, on a line of their own.
    command: String,
}

impl Record {
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

/// What /proc/PID/stat says, as far as it matters here.
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

    /// The program's name stands in brackets and may hold brackets and spaces itself: fields are counted from
    /// the last closing one (proc_pid_stat(5): state is field 3, session 6, starttime 22).
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

    /// A zombie has ended and waits only to be asked how.
    fn is_dead(self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let id = id.trim();
    if id.is_empty() { "unknown".to_owned() } else { id.to_owned() }
}

/// Signals a process that was found to be ours. One that has just ended is as good as signalled, and one that
/// may not be signalled shows by not ending.
fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::{Account, Place, Record, Service, Stat};
    use std::fs;
    use std::path::PathBuf;

    /// A place in a directory of the test's own.
    fn place(name: &str) -> Place {
        let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/xtask-tests").join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(directory.join("run")).unwrap();
        fs::create_dir_all(directory.join("log")).unwrap();
        Place { directory: directory.canonicalize().unwrap(), account: Account::Caller }
    }

    fn service(script: &str) -> Service {
        Service { name: "tested", command: ["sh", "-c", script].map(str::to_owned).to_vec() }
    }

    #[test]
    fn stat_is_read_past_any_program_name() {
        let text = "42 (a) b (c) S 1 40 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3";
        assert_eq!(Stat::parse(text), Some(Stat { state: 'S', session: 41, start_ticks: 987_654 }));
        assert_eq!(Stat::parse("42 (a) S 1 40"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn a_record_survives_being_written() {
        let record = Record { pid: 7, start_ticks: 8, boot: "b".to_owned(), command: "c d".to_owned() };
        assert_eq!(Record::parse(&record.render()), Some(record));
        assert_eq!(Record::parse("7 8\nc\n"), None);
        assert_eq!(Record::parse("x 8 b\nc\n"), None);
    }

    #[test]
    fn the_number_of_another_process_is_not_ours() {
        let own = Record::of(std::process::id(), &[]).unwrap();
        assert!(own.is_alive());
        assert!(!Record { start_ticks: own.start_ticks + 1, ..own.clone() }.is_alive());
        assert!(!Record { boot: "another".to_owned(), ..own }.is_alive());
    }

    #[test]
    fn a_foreign_process_under_a_recorded_number_is_left_alone() {
        let place = place("foreign");
        let own = Record::of(std::process::id(), &[]).unwrap();
        let stale = Record { start_ticks: own.start_ticks + 1, ..own };
        fs::write(place.record("tested"), stale.render()).unwrap();
        assert_eq!(place.running("tested"), None);
        assert!(!place.stop("tested").unwrap(), "this very process would have been stopped");
        assert!(!place.record("tested").exists());
    }

    #[test]
    fn a_server_is_found_again_and_stopped_with_its_descendants() {
        let place = place("descendants");
        let file = place.directory.join("ready");
        // The descendant does not listen to SIGTERM and outlives its parent.
        let script = "trap '' TERM; (while :; do sleep 1; done) & trap 'exit 0' TERM; : >ready; \
            while :; do sleep 0.05; done";
        place.start(&service(script), || file.exists()).unwrap();
        assert!(place.is_running(&service(script)));
        assert!(!place.is_running(&service("another command")));
        let record = Record::read(&place.record("tested")).unwrap();
        assert_eq!(place.running("tested"), Some(record.pid));
        assert!(place.members(&record).len() >= 2, "the shell and its descendant");
        assert!(place.stop("tested").unwrap());
        assert!(place.members(&record).is_empty());
        assert!(!record.is_alive());
        assert!(!place.stop("tested").unwrap(), "stopping twice is fine");
    }

    #[test]
    fn servers_inherit_the_three_standard_descriptors_alone() {
        let place = place("descriptors");
        let held = fs::File::open("/dev/zero").unwrap();
        rustix::io::fcntl_setfd(&held, rustix::io::FdFlags::empty()).unwrap();
        let (file, script) = (place.directory.join("ready"), ": >ready; while :; do sleep 0.05; done");
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
