//! Starts a ladder's processes, waits until they are ready, watches them and ends them.
//!
//! Invariant: dropping [`Services`] ends all services and their descendants. Each process group and
//! each descendant receives SIGTERM and, after [`GRACE`] at the latest, SIGKILL. If this process
//! itself is killed, the kernel kills the services; that needs `setpriv` (util-linux).

use crate::client::HttpClient;
use crate::command::tail;
use crate::interrupt::StopFlag;
use crate::ladder::Service;
use crate::template::Variables;
use clock::Clock;
use probe::{ProcFs, TaskState};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time to wait for processes to end after each of the two signals.
const GRACE: Duration = Duration::from_secs(2);
/// Time between two checks whether a process is ready, or has ended.
const POLL: Duration = Duration::from_millis(20);
/// Time limit of one readiness request.
const READY_ANSWER: Duration = Duration::from_secs(5);
/// Possible paths of `setpriv`, which asks the kernel to kill a process when its parent dies.
const SETPRIV: [&str; 2] = ["/usr/bin/setpriv", "/bin/setpriv"];

/// Running services, in the order of their start.
pub(crate) struct Services<'a> {
    clock: &'a dyn Clock,
    running: Vec<RunningService>,
}

struct RunningService {
    name: String,
    child: Child,
    log: PathBuf,
}

impl<'a> Services<'a> {
    /// Starts services one after the other; each must be ready before the next starts. Their output
    /// goes to `NAME.log` in `directory`. If one fails, those already running are ended before the
    /// error returns.
    pub(crate) fn start(
        services: &[Service],
        variables: &Variables,
        directory: &Path,
        clock: &'a dyn Clock,
        stop: &StopFlag,
    ) -> Result<Self, String> {
        let mut started = Self { clock, running: Vec::new() };
        for service in services {
            let log = directory.join(format!("{}.log", service.name));
            let words: Vec<String> = service.command.iter().map(|word| word.expand(variables)).collect();
            let child = spawn(&words, &log).map_err(|error| {
                format!("service `{}` did not start: `{}`: {error}", service.name, words.join(" "))
            })?;
            started.running.push(RunningService { name: service.name.clone(), child, log });
            if let Some(url) = &service.ready {
                started.wait_ready(&url.expand(variables), service.ready_limit, stop)?;
            }
            started.check()?;
        }
        Ok(started)
    }

    /// Process id of a service.
    pub(crate) fn pid(&self, name: &str) -> Option<u32> {
        self.running.iter().find(|running| running.name == name).map(|running| running.child.id())
    }

    /// Checks that all services run. The error names the one that ended and quotes the end of its
    /// log.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        for running in &mut self.running {
            if let Ok(Some(status)) = running.child.try_wait() {
                let log = std::fs::read_to_string(&running.log).unwrap_or_default();
                return Err(format!("service `{}` ended ({status}){}", running.name, tail(&log)));
            }
        }
        Ok(())
    }

    fn wait_ready(&mut self, url: &str, limit: Duration, stop: &StopFlag) -> Result<(), String> {
        let begun = self.clock.monotonic();
        let client = HttpClient { clock: self.clock, stop, limit: READY_ANSWER };
        loop {
            self.check()?;
            let Err(refusal) = client.ask_2xx("GET", url, None) else { return Ok(()) };
            if stop.is_requested() {
                return Err("interrupted".to_owned());
            }
            if self.clock.monotonic().since(begun) >= limit {
                let name = self.running.last().map_or("", |running| &running.name);
                return Err(format!("service `{name}` was not ready within {limit:?}: {refusal}"));
            }
            stop.wait(POLL);
        }
    }
}

impl Drop for Services<'_> {
    fn drop(&mut self) {
        let roots: Vec<u32> = self.running.iter().map(|running| running.child.id()).collect();
        let descendants = ProcFs::system().with_descendants(&roots);
        for signal in [Signal::TERM, Signal::KILL] {
            signal_all(&roots, &descendants, signal);
            let begun = self.clock.monotonic();
            while !self.all_over(&descendants) && self.clock.monotonic().since(begun) < GRACE {
                std::thread::sleep(POLL);
            }
        }
    }
}

impl Services<'_> {
    /// Whether no service and no descendant runs any more. It also reaps the services that have
    /// ended.
    fn all_over(&mut self, descendants: &BTreeSet<u32>) -> bool {
        let mut over = true;
        for running in &mut self.running {
            over &= !matches!(running.child.try_wait(), Ok(None));
        }
        let proc = ProcFs::system();
        over && descendants
            .iter()
            .filter_map(|pid| proc.process(*pid))
            .all(|stat| stat.state == TaskState::Dead)
    }
}

/// Signals the process groups and every known descendant, because a descendant may have left its
/// group. Errors are ignored: a process already gone needs no signal.
fn signal_all(groups: &[u32], descendants: &BTreeSet<u32>, signal: Signal) {
    let pid = |number: &u32| i32::try_from(*number).ok().and_then(Pid::from_raw);
    for group in groups.iter().filter_map(pid) {
        let _ = kill_process_group(group, signal);
    }
    for process in descendants.iter().filter_map(pid) {
        let _ = kill_process(process, signal);
    }
}

/// Starts a program in its own process group, without standard input. Its output goes to `log`.
fn spawn(words: &[String], log: &Path) -> io::Result<Child> {
    let output = File::create(log)?;
    let errors = output.try_clone()?;
    let helper = SETPRIV.iter().find(|path| Path::new(path).exists());
    let tied = helper.map(|path| [*path, "--pdeathsig", "KILL", "--"]);
    let mut line = tied.iter().flatten().copied().chain(words.iter().map(String::as_str));
    let program = line.next().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Command::new(program)
        .args(line)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn()
}

#[cfg(test)]
mod tests {
    use super::Services;
    use crate::interrupt::StopFlag;
    use crate::ladder::Service;
    use crate::template::{Template, Variables};
    use platform::SystemClock;
    use probe::ProcFs;
    use std::time::Duration;

    fn service(words: &[&str]) -> Service {
        Service {
            name: "site".to_owned(),
            command: words.iter().map(|word| Template::parse(word)).collect(),
            ready: None,
            ready_limit: Duration::from_secs(20),
        }
    }

    fn start<'a>(
        service: Service,
        directory: &std::path::Path,
        clock: &'a SystemClock,
    ) -> Result<Services<'a>, String> {
        Services::start(&[service], &Variables::default(), directory, clock, &StopFlag::default())
    }

    #[test]
    fn drop_ends_descendants_in_other_process_groups() {
        let (directory, clock) = (tempfile::tempdir().unwrap(), SystemClock::new());
        let script = "setsid sleep 600 & sleep 601 & echo ready; wait";
        let services = start(service(&["sh", "-c", script]), directory.path(), &clock).unwrap();
        let root = services.pid("site").unwrap();
        let family = || ProcFs::system().with_descendants(&[root]);
        for _ in 0..1000 {
            if family().len() == 3 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let members = family();
        assert_eq!(members.len(), 3);
        drop(services);
        for pid in members {
            // A killed process may stay as a zombie until its new parent reaps it. It no longer
            // runs.
            let state = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            assert!(state.is_empty() || state.contains("State:\tZ"), "{state}");
        }
    }

    #[test]
    fn service_that_ends_is_reported_with_its_log() {
        let (directory, clock) = (tempfile::tempdir().unwrap(), SystemClock::new());
        let mut site = service(&["sh", "-c", "echo the disk is full; exit 7"]);
        site.ready = Some(Template::parse("http://127.0.0.1:9/"));
        let reason = start(site, directory.path(), &clock).err().unwrap();
        assert_eq!(reason, "service `site` ended (exit status: 7): the disk is full");
    }

    #[test]
    fn service_that_is_never_ready_is_an_error() {
        let (directory, clock) = (tempfile::tempdir().unwrap(), SystemClock::new());
        let mut site = service(&["sleep", "600"]);
        site.ready = Some(Template::parse("http://127.0.0.1:9/"));
        site.ready_limit = Duration::from_millis(50);
        let reason = start(site, directory.path(), &clock).err().unwrap();
        assert!(
            reason.starts_with("service `site` was not ready within 50ms: GET http://127.0.0.1:9/"),
            "{reason}"
        );
    }
}
