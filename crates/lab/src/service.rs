//! The ladder's own processes: started, waited for until ready, watched, ended.
//!
//! Invariant: dropping [`Services`] leaves none of them behind, nor any of their descendants: first a polite
//! signal to each process group and each descendant, then, after [`GRACE`], a deadly one. Should the lab itself
//! be killed, the kernel ends them where `setpriv` (util-linux) is there to arrange it.

use crate::client::Client;
use crate::command::tail;
use crate::interrupt::Stop;
use crate::ladder::Service;
use crate::template::Variables;
use platform::Clock;
use probe::{ProcFs, TaskState};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long processes may take to end after each of the two signals.
const GRACE: Duration = Duration::from_secs(2);
/// How often we look whether a process is ready, or gone.
const POLL: Duration = Duration::from_millis(20);
/// How long one look may take.
const READY_ANSWER: Duration = Duration::from_secs(5);
/// Where a helper that ties a process' life to its parent's is looked for.
const SETPRIV: [&str; 2] = ["/usr/bin/setpriv", "/bin/setpriv"];

/// Running services, in the order in which they were started.
pub(crate) struct Services<'a> {
    clock: &'a dyn Clock,
    running: Vec<Running>,
}

struct Running {
    name: String,
    child: Child,
    log: PathBuf,
}

impl<'a> Services<'a> {
    /// Starts services one after the other, each when the one before is ready. Their output goes to
    /// `NAME.log` in `directory`. An error has ended those that were already running.
    pub(crate) fn start(
        services: &[Service],
        variables: &Variables,
        directory: &Path,
        clock: &'a dyn Clock,
        stop: &Stop,
    ) -> Result<Self, String> {
        let mut started = Self { clock, running: Vec::new() };
        for service in services {
            let log = directory.join(format!("{}.log", service.name));
            let words: Vec<String> = service.command.iter().map(|word| word.expand(variables)).collect();
            let child = spawn(&words, &log).map_err(|error| {
                format!("service `{}` did not start: `{}`: {error}", service.name, words.join(" "))
            })?;
            started.running.push(Running { name: service.name.clone(), child, log });
            if let Some(url) = &service.ready {
                started.wait_ready(&url.expand(variables), service.ready_limit, stop)?;
            }
            started.check()?;
        }
        Ok(started)
    }

    /// The process number of a service.
    pub(crate) fn pid(&self, name: &str) -> Option<u32> {
        self.running.iter().find(|running| running.name == name).map(|running| running.child.id())
    }

    /// Whether all services still run; else which one ended and what it said last.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        for running in &mut self.running {
            if let Ok(Some(status)) = running.child.try_wait() {
                let log = std::fs::read_to_string(&running.log).unwrap_or_default();
                return Err(format!("service `{}` ended ({status}){}", running.name, tail(&log)));
            }
        }
        Ok(())
    }

    fn wait_ready(&mut self, url: &str, limit: Duration, stop: &Stop) -> Result<(), String> {
        let begun = self.clock.monotonic();
        let client = Client { clock: self.clock, stop, limit: READY_ANSWER };
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
    /// Whether no process runs any more; collects the status of those that are ours.
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

/// Signals the process groups and every known descendant, whatever group it is in by now. That some are gone
/// already is the wish.
fn signal_all(groups: &[u32], descendants: &BTreeSet<u32>, signal: Signal) {
    let pid = |number: &u32| i32::try_from(*number).ok().and_then(Pid::from_raw);
    for group in groups.iter().filter_map(pid) {
        let _ = kill_process_group(group, signal);
    }
    for process in descendants.iter().filter_map(pid) {
        let _ = kill_process(process, signal);
    }
}

/// Starts a program in a process group of its own, without a terminal.
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
    use crate::interrupt::Stop;
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
        Services::start(&[service], &Variables::default(), directory, clock, &Stop::default())
    }

    #[test]
    fn descendants_end_too_even_in_a_group_of_their_own() {
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
            // A killed process may stay as a zombie until its new parent looks; it runs no more.
            let state = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            assert!(state.is_empty() || state.contains("State:\tZ"), "{state}");
        }
    }

    #[test]
    fn a_service_that_ends_is_named_with_its_last_words() {
        let (directory, clock) = (tempfile::tempdir().unwrap(), SystemClock::new());
        let mut site = service(&["sh", "-c", "echo the disk is full; exit 7"]);
        site.ready = Some(Template::parse("http://127.0.0.1:9/"));
        let reason = start(site, directory.path(), &clock).err().unwrap();
        assert_eq!(reason, "service `site` ended (exit status: 7): the disk is full");
    }

    #[test]
    fn a_service_that_is_never_ready_is_given_up() {
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
