//! Reads /proc and /sys: the processes, their parents and their resource usage; the load of the
//! machine; its network interfaces.
//!
//! Invariant: a process that ends while it is being read is left out without an error.

use crate::host::{CpuTimes, InterfaceTraffic, parse_load_average};
use crate::stat::{ProcessStat, parse_pss_bytes};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The most processes, or tasks of one process, that are read. Others are left out. The kernel
/// allows more (`pid_max` is up to 4,194,304), but few machines run that many.
const PROCESSES_MAX: usize = 100_000;

/// The directories that are read: `/proc` and `/sys`, or copies of them in tests.
#[derive(Clone, Debug)]
pub struct ProcFs {
    proc: PathBuf,
    sys: PathBuf,
}

impl ProcFs {
    /// The directories of the running machine.
    pub fn system() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }

    /// The copies in `root/proc` and `root/sys`.
    pub fn at(root: &Path) -> Self {
        Self { proc: root.join("proc"), sys: root.join("sys") }
    }

    /// The given processes and all their descendants that are alive now.
    pub fn with_descendants(&self, roots: &[u32]) -> BTreeSet<u32> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for pid in self.processes() {
            if let Some(stat) = self.process(pid) {
                children.entry(stat.parent).or_default().push(pid);
            }
        }
        let mut found = BTreeSet::new();
        let mut waiting: Vec<u32> =
            roots.iter().copied().filter(|pid| self.process(*pid).is_some()).collect();
        while let Some(pid) = waiting.pop() {
            if found.insert(pid) {
                waiting.extend(children.get(&pid).into_iter().flatten());
            }
        }
        found
    }

    /// All processes that are alive now.
    pub fn processes(&self) -> Vec<u32> {
        numbers_in(&self.proc)
    }

    /// The processes whose program has one of these names of at most 15 bytes.
    pub fn named(&self, names: &[&str]) -> Vec<u32> {
        let mut processes = self.processes();
        let is_named = |pid: &u32| {
            let name = self.proc_text(&format!("{pid}/comm"));
            name.is_some_and(|name| names.contains(&name.trim_end_matches('\n')))
        };
        processes.retain(is_named);
        processes
    }

    /// The stat file of a process.
    pub fn process(&self, pid: u32) -> Option<ProcessStat> {
        ProcessStat::parse(&self.proc_text(&format!("{pid}/stat"))?)
    }

    /// Two numbers of tasks (threads) of a process: of those that are runnable or blocked, and of
    /// all.
    pub fn tasks(&self, pid: u32) -> (u32, u32) {
        let directory = self.proc.join(format!("{pid}/task"));
        let states = numbers_in(&directory)
            .into_iter()
            .filter_map(|task| ProcessStat::parse(&self.proc_text(&format!("{pid}/task/{task}/stat"))?));
        states.fold((0, 0), |(load, all), stat| (load + u32::from(stat.state.is_load()), all + 1))
    }

    /// The proportional set size of a process in bytes. `None` if the process has ended, the kernel
    /// does not report the size, or this user may not read it.
    pub fn pss_bytes(&self, pid: u32) -> Option<u64> {
        parse_pss_bytes(&self.proc_text(&format!("{pid}/smaps_rollup"))?)
    }

    /// Processor time of all cores.
    pub fn cpu_times(&self) -> Option<CpuTimes> {
        CpuTimes::parse(&self.proc_text("stat")?)
    }

    /// The system's load average over one minute.
    pub fn load_average(&self) -> Option<f64> {
        parse_load_average(&self.proc_text("loadavg")?)
    }

    /// All network interfaces but loopback, with their traffic.
    pub fn links(&self) -> Vec<InterfaceTraffic> {
        self.proc_text("net/dev").map(|text| InterfaceTraffic::parse_all(&text)).unwrap_or_default()
    }

    /// The speed of an interface in bits a second. `None` if it reports none, as many virtual
    /// interfaces do.
    pub fn link_speed(&self, name: &str) -> Option<f64> {
        let text = self.sys_text(&format!("class/net/{name}/speed"))?;
        text.trim().parse::<f64>().ok().filter(|megabits| *megabits > 0.0).map(|megabits| megabits * 1e6)
    }

    /// The text of a file below /proc.
    pub(crate) fn proc_text(&self, path: &str) -> Option<String> {
        text_of(&self.proc.join(path))
    }

    /// The text of a file below /sys.
    pub(crate) fn sys_text(&self, path: &str) -> Option<String> {
        text_of(&self.sys.join(path))
    }
}

/// A file's content as text. Bytes that are not UTF-8 are replaced, because a process may put any
/// bytes into its name.
fn text_of(path: &Path) -> Option<String> {
    std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The entries of a directory whose names are numbers.
fn numbers_in(directory: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).take(PROCESSES_MAX).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::ProcFs;
    use std::path::Path;

    /// Writes a process with one task per letter of `states`.
    pub(crate) fn write_process(root: &Path, pid: u32, parent: u32, states: &str, own: u64, children: u64) {
        let stat = |id: u32, state: char| {
            format!(
                "{id} (name) with ) in) {state} {parent} 1 1 0 -1 0 0 0 0 0 {own} 0 {children} 0 20 0 1 0 5 0"
            )
        };
        let process = root.join(format!("proc/{pid}"));
        for (task, state) in (pid..).zip(states.chars()) {
            let directory = process.join(format!("task/{task}"));
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("stat"), stat(task, state)).unwrap();
        }
        std::fs::write(process.join("stat"), stat(pid, states.chars().next().unwrap())).unwrap();
        std::fs::write(process.join("smaps_rollup"), "Pss:   10 kB\n").unwrap();
    }

    #[test]
    fn descendants_of_descendants_belong() {
        let root = tempfile::tempdir().unwrap();
        for (pid, parent) in [(1, 0), (10, 1), (20, 1), (11, 10), (12, 11), (21, 20)] {
            write_process(root.path(), pid, parent, "S", 0, 0);
        }
        let proc = ProcFs::at(root.path());
        assert_eq!(proc.with_descendants(&[10]).into_iter().collect::<Vec<_>>(), [10, 11, 12]);
        assert_eq!(proc.with_descendants(&[12, 20, 999]).into_iter().collect::<Vec<_>>(), [12, 20, 21]);
    }

    #[test]
    fn tasks_are_counted_by_state() {
        let root = tempfile::tempdir().unwrap();
        write_process(root.path(), 5, 1, "SRDRZ", 0, 0);
        let proc = ProcFs::at(root.path());
        assert_eq!(proc.tasks(5), (3, 5));
        assert_eq!(proc.tasks(6), (0, 0));
        assert_eq!(proc.pss_bytes(5), Some(10 * 1024));
    }

    #[test]
    fn this_process_can_be_read() {
        let proc = ProcFs::system();
        let me = std::process::id();
        assert!(proc.process(me).is_some());
        assert!(proc.with_descendants(&[me]).contains(&me));
        assert!(proc.tasks(me).1 >= 1);
        assert!(proc.cpu_times().unwrap().idle > 0);
    }
}
