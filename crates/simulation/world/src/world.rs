//! A world: all parts of a simulated run, made from one seed.
//!
//! Invariant: two runs of the same code with the same seed and settings have the same trace. After
//! a run nothing of it is left on the system thread.

use crate::{
    FaultCounts, FaultKind, OpenPipes, Random, SimulatedClock, SimulatedNetwork, SimulatedThreads,
    ThreadSettings, Trace, Violations, WorldDisk,
};
use ::threads::Simulation;
use platform::SimulatedDisk;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The settings of a world that do not follow from its seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorldSettings {
    /// How the turns of threads vary.
    pub threads: ThreadSettings,
    /// How many lines of the trace are kept; 0 for none, which is faster.
    pub trace_lines_max: usize,
}

impl WorldSettings {
    /// Settings by chance: calm and restless threads, no lines of the trace.
    pub fn by_chance(random: &mut Random) -> Self {
        let threads = ThreadSettings {
            yield_percent: random.choice(&[0, 10, 50]).copied().unwrap_or_default(),
            delay_percent: random.choice(&[0, 0, 5, 30]).copied().unwrap_or_default(),
            delay_ms_max: random.between(0, 20),
        };
        Self { threads, trace_lines_max: 0 }
    }
}

/// The results of a world after its run.
#[derive(Clone)]
pub struct Ended {
    /// The violations, in order. Threads that have not ended and ends of connections that are open
    /// are the last ones.
    pub violations: Vec<String>,
    /// A hash of all events. Two runs with the same hash were the same run.
    pub trace_hash: u64,
    /// The number of events.
    pub trace_count: u64,
    /// The last lines of the trace, if they were kept.
    pub trace_lines: Vec<String>,
    /// The simulated time of the run.
    pub elapsed: Duration,
    /// How often each kind of fault has hit.
    pub faults: BTreeMap<FaultKind, u64>,
    /// The files that are left.
    pub files: SimulatedDisk,
    /// How far its wall clock was ahead of a new world's, in microseconds.
    pub ahead_micros: i64,
}

/// A world. Clones are the same world.
#[derive(Clone)]
pub struct World {
    seed: u64,
    clock: SimulatedClock,
    disk: WorldDisk,
    faults: FaultCounts,
    network: SimulatedNetwork,
    threads: SimulatedThreads,
    trace: Trace,
    violations: Violations,
    /// Whether the process ends at once, so that its threads are left.
    is_abrupt: Arc<AtomicBool>,
}

impl World {
    /// Makes a world, runs `life` in it, and drops it. Returns the result of `life` and the results
    /// of the world.
    ///
    /// # Panics
    /// If `life` panics, if the calling code is in a world already, or if it is in a runtime.
    pub fn run<T, F: Future<Output = T>>(
        seed: u64,
        settings: WorldSettings,
        life: impl FnOnce(Self) -> F,
    ) -> (T, Ended) {
        Self::resume(seed, settings, None, life)
    }

    /// Same as [`World::run`], with the disk and the wall clock of an earlier world, if there is
    /// one. Its process has ended.
    ///
    /// # Panics
    /// As [`World::run`].
    pub fn resume<T, F: Future<Output = T>>(
        seed: u64,
        settings: WorldSettings,
        before: Option<&Ended>,
        life: impl FnOnce(Self) -> F,
    ) -> (T, Ended) {
        let runtime = runtime();
        // Times are simulated as long as this context lasts, also after the end of the runtime.
        let handle = runtime.handle().clone();
        let _context = handle.enter();
        let world = Self::new(seed, settings, before);
        let simulation = Simulation::enter(Rc::new(world.threads.clone()));
        // Also if `life` panics, the stacks of the threads are unwound in the simulation.
        let end = EndThreads { threads: &world.threads, disk: &world.disk };
        let result = runtime.block_on(life(world.clone()));
        let left = world.threads.names();
        drop(end);
        // This drops the tasks, which may close connections.
        drop(runtime);
        drop(simulation);
        let is_abrupt = world.is_abrupt.load(Ordering::Relaxed);
        for name in left.into_iter().filter(|_| !is_abrupt) {
            world.violations.record(format!("the thread `{name}` has not ended"));
        }
        match world.disk.open_files() {
            0 => {}
            _ if is_abrupt => {}
            count => world.violations.record(format!("{count} files are still open")),
        }
        match world.network.open_pipes() {
            0 => {}
            count => world.violations.record(format!("{count} ends of connections are still open")),
        }
        (result, world.ended())
    }

    /// A world, in the context of its runtime.
    fn new(seed: u64, settings: WorldSettings, before: Option<&Ended>) -> Self {
        let (faults, violations) = (FaultCounts::default(), Violations::default());
        let trace = Trace::new(settings.trace_lines_max);
        let fork = |label| Random::fork(seed, label, 0);
        let threads =
            SimulatedThreads::new(settings.threads, fork("threads"), violations.clone(), trace.clone());
        let random = fork("disk");
        let (of_disk, wrong, traced, hits) =
            (threads.clone(), violations.clone(), trace.clone(), faults.clone());
        let disk = match before {
            Some(before) => WorldDisk::with_files(before.files.clone(), random, of_disk, wrong, traced, hits),
            None => WorldDisk::new(random, of_disk, wrong, traced, hits),
        };
        let clock = SimulatedClock::resume(before.map_or(0, |before| before.ahead_micros));
        let network = SimulatedNetwork::new(fork("network"), trace.clone(), faults.clone());
        let is_abrupt = Arc::default();
        Self { seed, clock, disk, faults, network, threads, trace, violations, is_abrupt }
    }

    fn ended(&self) -> Ended {
        Ended {
            violations: self.violations.take(),
            trace_hash: self.trace.hash(),
            trace_count: self.trace.count(),
            trace_lines: self.trace.lines(),
            elapsed: self.trace.elapsed(),
            faults: self.faults.all(),
            files: self.disk.content().clone(),
            ahead_micros: self.clock.ahead_micros(),
        }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The generator of the part of the simulation that has this label and number.
    pub fn random(&self, label: &str, number: u64) -> Random {
        Random::fork(self.seed, label, number)
    }

    /// The clock.
    pub fn clock(&self) -> &SimulatedClock {
        &self.clock
    }

    /// Makes the wall clock jump by `micros` microseconds, and counts this as a fault.
    pub fn jump_clock(&self, micros: i64) {
        self.clock.jump(micros);
        self.faults.hit(FaultKind::ClockJump);
        self.trace.event("clock", micros.cast_unsigned(), || format!("jump of {micros} microseconds"));
    }

    /// The disk, as its first process sees it.
    pub fn disk(&self) -> &WorldDisk {
        &self.disk
    }

    /// How often each kind of fault has hit.
    pub fn faults(&self) -> &FaultCounts {
        &self.faults
    }

    /// The network.
    pub fn network(&self) -> &SimulatedNetwork {
        &self.network
    }

    /// The count of open ends of connections, for settings of connections.
    pub fn open_pipes(&self) -> &OpenPipes {
        self.network.open()
    }

    /// The threads.
    pub fn threads(&self) -> &SimulatedThreads {
        &self.threads
    }

    /// Says that the process ends at once when the run returns. Its threads may be left then.
    pub fn end_abruptly(&self) {
        self.is_abrupt.store(true, Ordering::Relaxed);
    }

    /// The trace.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The violations.
    pub fn violations(&self) -> &Violations {
        &self.violations
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("seed", &self.seed).finish_non_exhaustive()
    }
}

/// Ends all threads when it is dropped.
struct EndThreads<'a> {
    threads: &'a SimulatedThreads,
    disk: &'a WorldDisk,
}

impl Drop for EndThreads<'_> {
    fn drop(&mut self) {
        self.disk.thaw();
        self.threads.cancel_all();
    }
}

/// A runtime with simulated time, on the calling system thread.
#[expect(clippy::expect_used, reason = "without a driver of sockets the system is asked for nothing")]
fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime without sockets can be built")
}

#[cfg(test)]
mod tests {
    use super::{World, WorldSettings};
    use crate::{FaultKind, Random, ThreadSettings};
    use clock::Clock;
    use platform::Disk;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A life with threads, the disk, connections and tasks.
    async fn life(world: World) {
        let address = "127.0.0.1:80".parse().unwrap();
        let mut accepted = world.network().listen(&address, 4);
        let origin = tokio::spawn(async move {
            while let Some(mut connection) = accepted.recv().await {
                let mut content = Vec::new();
                connection.read_to_end(&mut content).await.unwrap();
                connection.write_all(&content).await.unwrap();
            }
        });
        for number in 0..5 {
            let disk = world.disk().clone();
            let path = std::path::PathBuf::from(format!("/cache/{number}"));
            world
                .threads()
                .run("writer", move || {
                    disk.replace(&path, &[number; 20]).unwrap();
                    disk.read(&path).unwrap()
                })
                .await;
            let mut client = net::Network::connect(world.network(), &address).await.unwrap();
            client.write_all(&[number; 1000]).await.unwrap();
            client.shutdown().await.unwrap();
            let mut echo = Vec::new();
            client.read_to_end(&mut echo).await.unwrap();
            assert_eq!(echo, [number; 1000]);
        }
        origin.abort();
    }

    #[test]
    fn seed_determines_the_run() {
        let run = |seed| {
            let mut settings = WorldSettings::by_chance(&mut Random::new(seed));
            settings.trace_lines_max = 1000;
            World::run(seed, settings, life).1
        };
        let mut hashes = std::collections::BTreeSet::new();
        for seed in 0..20 {
            let (first, second) = (run(seed), run(seed));
            assert_eq!(first.trace_lines, second.trace_lines);
            assert_eq!((first.trace_hash, first.elapsed), (second.trace_hash, second.elapsed));
            assert!(first.violations.is_empty(), "{:?}", first.violations);
            assert!(first.trace_count > 10);
            hashes.insert(first.trace_hash);
        }
        assert_eq!(hashes.len(), 20);
    }

    #[test]
    fn what_is_left_at_the_end_is_a_violation() {
        let (pipes, ended) = World::run(1, WorldSettings::default(), |world| async move {
            let pipes = world.network().visit(None);
            drop(world.threads().run("forever", || threads::sleep(Duration::from_secs(1_000_000))));
            tokio::time::sleep(Duration::from_secs(1)).await;
            pipes
        });
        assert_eq!(
            ended.violations,
            ["the thread `forever` has not ended", "2 ends of connections are still open"]
        );
        drop(pipes);
    }

    #[test]
    fn panic_of_a_life_leaves_the_system_thread_usable() {
        let settings = WorldSettings { threads: ThreadSettings::default(), trace_lines_max: 0 };
        let panicked = std::panic::catch_unwind(|| {
            World::run(1, settings, |world| async move {
                drop(world.threads().run("forever", || threads::sleep(Duration::from_secs(1_000_000))));
                tokio::time::sleep(Duration::from_secs(1)).await;
                panic!("by test");
            })
        });
        assert!(panicked.is_err());
        let ((), ended) = World::run(1, settings, life);
        assert!(ended.violations.is_empty(), "{:?}", ended.violations);
    }

    #[test]
    fn next_world_has_the_files_and_the_wall_time_of_the_killed_one() {
        let path = std::path::Path::new("/cache/file");
        let (wall, killed) = World::run(1, WorldSettings::default(), |world| async move {
            let disk = world.disk().clone();
            world.threads().run("writer", move || disk.replace(path, b"abc")).await.unwrap();
            drop(world.threads().run("forever", || threads::sleep(Duration::from_secs(1_000_000))));
            world.jump_clock(5_000_000);
            tokio::time::sleep(Duration::from_secs(60)).await;
            world.disk().set_room(Some(world.disk().bytes()));
            world.disk().kill();
            world.end_abruptly();
            world.clock().now()
        });
        assert!(killed.violations.is_empty(), "{:?}", killed.violations);
        let life = |world: World| async move {
            let disk = world.disk().clone();
            let read = world.threads().run("reader", move || {
                // The disk has room again.
                disk.append(path, b"d").and_then(|()| disk.read(path))
            });
            (world.clock().now(), read.await.unwrap())
        };
        let (found, next) = World::resume(2, WorldSettings::default(), Some(&killed), life);
        assert_eq!(found, (wall, b"abcd".to_vec()));
        assert!(next.violations.is_empty(), "{:?}", next.violations);
    }

    #[test]
    fn clock_jumps_are_counted() {
        let (wall, ended) = World::run(1, WorldSettings::default(), |world| async move {
            let before = world.clock().now();
            world.jump_clock(-1_000_000);
            before.since(world.clock().now())
        });
        assert_eq!(wall, Duration::from_secs(1));
        assert_eq!(ended.faults.get(&FaultKind::ClockJump), Some(&1));
    }
}
