//! Samples groups of processes and the host while a closure runs.
//!
//! Invariant: the mean load is taken over equally weighted samples, 100 ms apart. A late sample
//! counts as one sample, and the number of samples is reported with the figure. The sampling
//! thread's cost counts for this process. It counts for a watched group only if the group contains
//! this process.

use crate::host::{CpuTimes, InterfaceTraffic};
use crate::procfs::ProcFs;
use clock::{Clock, Monotonic};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time between two samples: 10 Hz.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// Number of samples that use the same list of descendants. To build the list, the stat files of
/// all processes must be read.
const SAMPLES_PER_SCAN: u32 = 10;

/// Processes that are watched together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessGroup {
    /// The group's name.
    pub name: String,
    /// Process ids; their descendants belong to the group as well.
    pub roots: Vec<u32>,
}

/// The figures of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupFigures {
    /// The group's name.
    pub name: String,
    /// Number of runnable and blocked tasks, one value per sample.
    pub load_samples: Vec<u32>,
    /// CPU time used while watching, user and kernel, in seconds. Includes children that ended.
    pub cpu_seconds: f64,
    /// Proportional set size of all processes at the end, in bytes. `None` if it could not be read
    /// for one of them.
    pub pss_bytes: Option<u64>,
    /// Number of processes at the end.
    pub processes: u32,
    /// Number of tasks (threads) of these processes at the end.
    pub tasks: u32,
}

impl GroupFigures {
    /// The mean number of runnable and blocked tasks; 0 without samples.
    pub fn load(&self) -> f64 {
        let samples: Vec<f64> = self.load_samples.iter().map(|sample| f64::from(*sample)).collect();
        samples.iter().sum::<f64>() / samples.len().max(1) as f64
    }
}

/// The figures of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFigures {
    /// Share of all cores' time in which the cores worked, 0 to 1.
    pub busy: Option<f64>,
    /// Share of all cores' time that the hypervisor took, 0 to 1.
    pub steal: Option<f64>,
    /// Share of all cores' time that other processes used, 0 to 1. Other processes are in no group
    /// and are not descendants of this process.
    #[serde(default)]
    pub foreign: Option<f64>,
    /// The system's load average over one minute, at the end of the watch.
    pub load_average: Option<f64>,
    /// Used share of the busiest network link in its busier direction, 0 to 1. Links without a
    /// known speed and loopback are left out.
    pub link: Option<f64>,
}

/// The figures of one watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchFigures {
    /// Duration in seconds.
    pub seconds: f64,
    /// The groups in the order in which the caller gave them.
    pub groups: Vec<GroupFigures>,
    /// The host.
    pub host: HostFigures,
}

/// Runs `work` on this thread while another thread samples.
///
/// Returns the result of `work` and the figures. A panic of `work` or of the sampling thread is
/// passed on.
pub fn watch<R>(
    proc: &ProcFs,
    groups: &[ProcessGroup],
    clock: &dyn Clock,
    work: impl FnOnce() -> R,
) -> (R, WatchFigures) {
    let done = AtomicBool::new(false);
    let mut sampler = WatchSampler::begin(proc, groups, clock.monotonic());
    std::thread::scope(|scope| {
        let samples = scope.spawn(|| {
            let mut next = clock.monotonic();
            while !done.load(Ordering::Acquire) {
                sampler.sample();
                next = next.plus(SAMPLE_INTERVAL).max(clock.monotonic());
                std::thread::park_timeout(next.since(clock.monotonic()));
            }
            sampler.end(clock.monotonic())
        });
        let result = {
            let _stop = StopOnDrop { done: &done, sampler: samples.thread() };
            work()
        };
        match samples.join() {
            Ok(watch) => (result, watch),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Stops the sampling thread on drop, also when `work` panics. Without it the scope would wait
/// forever for the thread.
struct StopOnDrop<'a> {
    done: &'a AtomicBool,
    sampler: &'a std::thread::Thread,
}

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        // Ends the pause between samples at once.
        self.sampler.unpark();
    }
}

/// The initial readings and the samples so far.
struct WatchSampler<'a> {
    proc: &'a ProcFs,
    groups: Vec<WatchedProcesses<'a>>,
    /// This process and the roots of all groups.
    known_roots: Vec<u32>,
    /// Those processes and their descendants at the last scan.
    known: BTreeSet<u32>,
    known_before: u64,
    all_before: u64,
    begun: Monotonic,
    cpu_before: Option<CpuTimes>,
    links_before: Vec<InterfaceTraffic>,
    /// Samples to take before the next scan for descendants.
    until_scan: u32,
}

struct WatchedProcesses<'a> {
    group: &'a ProcessGroup,
    members: BTreeSet<u32>,
    load_samples: Vec<u32>,
    ticks_before: u64,
}

impl<'a> WatchSampler<'a> {
    fn begin(proc: &'a ProcFs, groups: &'a [ProcessGroup], now: Monotonic) -> Self {
        let watched = |group: &'a ProcessGroup| {
            let members = proc.with_descendants(&group.roots);
            let ticks_before = ticks(proc, &members);
            WatchedProcesses { group, members, load_samples: Vec::new(), ticks_before }
        };
        let own = std::iter::once(std::process::id());
        let known_roots: Vec<u32> =
            own.chain(groups.iter().flat_map(|of| of.roots.iter().copied())).collect();
        let known = proc.with_descendants(&known_roots);
        Self {
            proc,
            groups: groups.iter().map(watched).collect(),
            known_before: ticks(proc, &known),
            all_before: all_ticks(proc),
            known_roots,
            known,
            begun: now,
            cpu_before: proc.cpu_times(),
            links_before: proc.links(),
            until_scan: SAMPLES_PER_SCAN,
        }
    }

    fn sample(&mut self) {
        if self.until_scan == 0 {
            self.scan();
            self.until_scan = SAMPLES_PER_SCAN;
        }
        self.until_scan -= 1;
        for watched in &mut self.groups {
            let load = watched.members.iter().map(|pid| self.proc.tasks(*pid).0).sum();
            watched.load_samples.push(load);
        }
    }

    fn scan(&mut self) {
        for watched in &mut self.groups {
            watched.members = self.proc.with_descendants(&watched.group.roots);
        }
        self.known = self.proc.with_descendants(&self.known_roots);
    }

    fn end(mut self, now: Monotonic) -> WatchFigures {
        let times = self.proc.cpu_times().zip(self.cpu_before);
        self.scan();
        let known_ticks = ticks(self.proc, &self.known).saturating_sub(self.known_before);
        let all_ticks = all_ticks(self.proc).saturating_sub(self.all_before);
        let seconds = now.since(self.begun).as_secs_f64();
        let shares = times.and_then(|(after, before)| after.shares_since(before));
        let host = HostFigures {
            busy: shares.map(|(busy, _)| busy),
            steal: shares.map(|(_, steal)| steal),
            foreign: times.and_then(|(after, before)| after.foreign_since(before, known_ticks, all_ticks)),
            load_average: self.proc.load_average(),
            link: self.fullest_link(seconds),
        };
        let groups = self.groups.into_iter().map(|watched| watched.end(self.proc)).collect();
        WatchFigures { seconds, groups, host }
    }

    fn fullest_link(&self, seconds: f64) -> Option<f64> {
        let links = self.proc.links();
        let shares = links.iter().filter_map(|link| {
            let before = self.links_before.iter().find(|before| before.name == link.name)?;
            Some(link.share_since(before, self.proc.link_speed(&link.name)?, seconds))
        });
        shares.max_by(f64::total_cmp)
    }
}

impl WatchedProcesses<'_> {
    fn end(self, proc: &ProcFs) -> GroupFigures {
        let used = ticks(proc, &self.members).saturating_sub(self.ticks_before);
        GroupFigures {
            name: self.group.name.clone(),
            load_samples: self.load_samples,
            cpu_seconds: used as f64 / rustix::param::clock_ticks_per_second().max(1) as f64,
            pss_bytes: self.members.iter().map(|pid| proc.pss_bytes(*pid)).sum(),
            processes: u32::try_from(self.members.len()).unwrap_or(u32::MAX),
            tasks: self.members.iter().map(|pid| proc.tasks(*pid).1).sum(),
        }
    }
}

/// CPU time of processes and of their descendants that ended, in clock ticks. When a member ends
/// and its parent waits for it, its time moves to the parent, so the sum still includes it.
fn ticks(proc: &ProcFs, members: &BTreeSet<u32>) -> u64 {
    let stats = members.iter().filter_map(|pid| proc.process(*pid));
    stats.map(|stat| stat.own_ticks + stat.children_ticks).sum()
}

/// CPU time of all processes in clock ticks, without kernel threads. They are excluded because
/// ksoftirqd may work for the measured load.
fn all_ticks(proc: &ProcFs) -> u64 {
    let is_program = |pid: &u32| proc.process(*pid).is_some_and(|stat| !stat.is_kernel);
    ticks(proc, &proc.processes().into_iter().filter(is_program).collect())
}

#[cfg(test)]
mod tests {
    use super::{ProcessGroup, WatchSampler, watch};
    use crate::procfs::ProcFs;
    use crate::procfs::tests::write_process;
    use clock::Monotonic;
    use platform::SystemClock;

    fn group(roots: &[u32]) -> Vec<ProcessGroup> {
        vec![ProcessGroup { name: "site".to_owned(), roots: roots.to_vec() }]
    }

    #[test]
    fn cpu_time_of_ended_children_is_counted() {
        let root = tempfile::tempdir().unwrap();
        let write = |pid, parent, states, own, children| {
            write_process(root.path(), pid, parent, states, own, children);
        };
        write(5, 1, "R", 100, 0);
        write(6, 5, "RD", 50, 0);
        let proc = ProcFs::at(root.path());
        let groups = group(&[5]);
        let mut sampler = WatchSampler::begin(&proc, &groups, Monotonic::from_nanos(0));
        sampler.sample();
        // The child used 30 more ticks and ended. The parent's `children_ticks` now include its 80
        // ticks.
        std::fs::remove_dir_all(root.path().join("proc/6")).unwrap();
        write(5, 1, "S", 120, 80);
        sampler.sample();
        let seen = sampler.end(Monotonic::from_nanos(2_000_000_000));
        assert_eq!(seen.seconds, 2.0);
        assert_eq!(seen.groups[0].load_samples, [3, 0]);
        assert_eq!(seen.groups[0].load(), 1.5);
        let tick = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        assert!((seen.groups[0].cpu_seconds - 50.0 * tick).abs() < 1e-9);
        assert_eq!((seen.groups[0].processes, seen.groups[0].pss_bytes), (1, Some(10 * 1024)));
    }

    #[test]
    fn cpu_time_of_other_processes_is_foreign() {
        let root = tempfile::tempdir().unwrap();
        let stat = |user: u64, idle: u64| {
            let text = format!("cpu  {user} 0 0 {idle} 0 0 0 0 0 0\n");
            std::fs::write(root.path().join("proc/stat"), text).unwrap();
        };
        write_process(root.path(), 5, 1, "R", 100, 0);
        write_process(root.path(), 9, 1, "R", 100, 0);
        stat(1_000, 1_000);
        let proc = ProcFs::at(root.path());
        let groups = group(&[5]);
        let sampler = WatchSampler::begin(&proc, &groups, Monotonic::from_nanos(0));
        // Of 200 ticks the group used 40 and the other process 60.
        write_process(root.path(), 5, 1, "R", 140, 0);
        write_process(root.path(), 9, 1, "R", 160, 0);
        stat(1_100, 1_100);
        let seen = sampler.end(Monotonic::from_nanos(1_000_000_000));
        assert_eq!((seen.host.busy, seen.host.foreign), (Some(0.5), Some(0.3)));
    }

    #[test]
    fn group_softirqs_do_not_hide_foreign_processes() {
        let root = tempfile::tempdir().unwrap();
        let stat = |user: u64, softirq: u64| {
            let text = format!("cpu  {user} 0 0 1000 0 0 {softirq} 0 0 0\n");
            std::fs::write(root.path().join("proc/stat"), text).unwrap();
        };
        write_process(root.path(), 5, 1, "R", 100, 0);
        write_process(root.path(), 9, 1, "R", 100, 0);
        stat(1_000, 100);
        let proc = ProcFs::at(root.path());
        let groups = group(&[5]);
        let sampler = WatchSampler::begin(&proc, &groups, Monotonic::from_nanos(0));
        // Half of the group's 80 ticks are software interrupts. The other process used 20 ticks.
        write_process(root.path(), 5, 1, "R", 180, 0);
        write_process(root.path(), 9, 1, "R", 120, 0);
        stat(1_060, 140);
        let seen = sampler.end(Monotonic::from_nanos(1_000_000_000));
        assert_eq!(seen.host.foreign, Some(0.2));
    }

    #[test]
    fn group_without_processes_has_no_load() {
        let root = tempfile::tempdir().unwrap();
        let proc = ProcFs::at(root.path());
        let groups = group(&[77]);
        let mut sampler = WatchSampler::begin(&proc, &groups, Monotonic::from_nanos(0));
        sampler.sample();
        let seen = sampler.end(Monotonic::from_nanos(1));
        assert_eq!((seen.groups[0].load(), seen.groups[0].processes), (0.0, 0));
        assert_eq!(seen.host.busy, None);
    }

    #[test]
    fn unreadable_memory_of_one_process_gives_no_pss() {
        let root = tempfile::tempdir().unwrap();
        write_process(root.path(), 5, 1, "S", 0, 0);
        write_process(root.path(), 6, 5, "S", 0, 0);
        std::fs::remove_file(root.path().join("proc/6/smaps_rollup")).unwrap();
        let proc = ProcFs::at(root.path());
        let groups = group(&[5]);
        let seen =
            WatchSampler::begin(&proc, &groups, Monotonic::from_nanos(0)).end(Monotonic::from_nanos(1));
        assert_eq!(seen.groups[0].pss_bytes, None);
    }

    #[test]
    fn busy_own_process_is_sampled() {
        let groups = group(&[std::process::id()]);
        let (result, seen) = watch(&ProcFs::system(), &groups, &SystemClock::new(), || {
            (0..30_000_000_u64).fold(0_u64, |sum, number| std::hint::black_box(sum ^ number))
        });
        assert!(result < u64::MAX);
        assert!(!seen.groups[0].load_samples.is_empty());
        assert!(seen.groups[0].tasks >= 2 && seen.groups[0].pss_bytes.unwrap() > 0);
    }
}
