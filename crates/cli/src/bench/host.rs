//! CPU use of the generator's host during a run. For each second there are two shares of all cores:
//! the busy share, and the share that the generator used.
//!
//! Invariant: it reads the counters once a second and changes nothing. If the system does not
//! report them, the seconds stay without values.

use probe::ProcFs;
use report::run::Run;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Watches the host in a thread. The watch ends when this is finished or dropped.
pub(crate) struct HostWatcher {
    over: Sender<()>,
    thread: JoinHandle<Vec<Shares>>,
}

/// Shares of the time of all cores in one second, from 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
struct Shares {
    host: Option<f64>,
    generator: Option<f64>,
}

impl HostWatcher {
    /// Starts the watch. Its first second begins after `delay`, so that warm-up is left out. `None`
    /// if no thread can be started.
    pub(crate) fn start(delay: Duration) -> Option<Self> {
        let (over, is_over) = mpsc::channel();
        let watch = move || {
            let mut seconds = Vec::new();
            if is_over.recv_timeout(delay) != Err(RecvTimeoutError::Timeout) {
                return seconds;
            }
            let proc = ProcFs::system();
            let mut before = SystemCounters::of(&proc);
            while is_over.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                let now = SystemCounters::of(&proc);
                seconds.push(now.shares_since(&before));
                before = now;
            }
            seconds
        };
        let thread = std::thread::Builder::new().name("host-watch".to_owned()).spawn(watch).ok()?;
        Some(Self { over, thread })
    }

    /// Ends the watch and adds the shares to the seconds of the run.
    pub(crate) fn finish(self, run: &mut Run) {
        // Disconnects the channel, which ends the loop of the watching thread.
        drop(self.over);
        let seen = self.thread.join().unwrap_or_default();
        for (second, shares) in run.seconds.iter_mut().zip(seen) {
            second.host_busy = shares.host;
            second.generator_busy = shares.generator;
        }
        run.machine = Some(probe::Environment::detect());
    }
}

/// Counters of the system at one moment.
struct SystemCounters {
    host: Option<probe::CpuTimes>,
    own: Option<probe::ProcessStat>,
}

impl SystemCounters {
    fn of(proc: &ProcFs) -> Self {
        Self { host: proc.cpu_times(), own: proc.process(std::process::id()) }
    }

    fn shares_since(&self, before: &Self) -> Shares {
        let host = self.host.zip(before.host);
        let own = self.own.as_ref().zip(before.own.as_ref());
        let all_ticks = |(now, before): (probe::CpuTimes, probe::CpuTimes)| {
            let ticks = |times: probe::CpuTimes| times.busy + times.idle + times.steal;
            ticks(now).saturating_sub(ticks(before))
        };
        let own_ticks = own.map(|(now, before)| now.own_ticks.saturating_sub(before.own_ticks));
        let generator = host.map(all_ticks).zip(own_ticks).filter(|(all, _)| *all > 0);
        Shares {
            host: host.and_then(|(now, before)| now.shares_since(before)).map(|(busy, _)| busy),
            generator: generator.map(|(all, own)| (own as f64 / all as f64).min(1.0)),
        }
    }
}
