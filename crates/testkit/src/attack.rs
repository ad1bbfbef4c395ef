//! Floods against the real binary behind TLS, and their cost to an honest client.
//!
//! The long form measures. Runs of the load tester without and with the attack take turns, with the
//! same load of hits. The edge has one core; the load tester and the attackers share another. Edge
//! and load tester have real-time priority where the system permits it, else the attackers have the
//! lowest priority. The attackers therefore take processor time from neither, and the loss of hits
//! shows the edge's own work for the attack.
//!
//! The short form asserts behaviour only: an honest client gets its pages during the attack.
//!
//! Both forms compare the peak of resident memory with its bound, with a full store.

#![allow(clippy::print_stdout, reason = "the figures of the attack are its result")]

mod figures;

use crate::{Client, Edge, Http2Frames, Origin, PemFiles, Trust, response};
use clock::{Clock as _, Monotonic};
use figures::{Figures, Load};
use platform::SystemClock;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Value of `memory` of the attacked edge, in bytes.
const MEMORY_BYTES: u64 = 64 << 20;
/// Stored pages that fill the store, and the size of each.
const FILLING: usize = 240;
const FILLING_BYTES: usize = 256 << 10;
/// Size of the page that honest clients request.
const PAGE_BYTES: usize = 13_000;
/// Time between two batches of an attacker.
const TICK: Duration = Duration::from_millis(10);
/// An attacker late by more than this skips batches.
const LATE_MAX: Duration = Duration::from_millis(500);
/// The lowest priority.
const NICE: i32 = 19;
/// Rounds of the long form.
const ROUNDS: usize = 5;
/// Requests of the honest client in the short form.
const HONEST_REQUESTS: usize = 40;
/// Longest wait until all attackers are ready.
const READY_MAX: Duration = Duration::from_secs(30);
/// The p99 of hits during an attack may be this many times the one without.
const P99_FACTOR_MAX: f64 = 1.5;

/// Held by the long form of an attack, so that attacks do not disturb each other.
static TURN: Mutex<()> = Mutex::new(());

/// Name of the server in its certificate.
pub const SERVER_NAME: &str = "localhost";
/// Path of the page that honest clients request. It is stored.
pub const PAGE: &str = "/page";

/// Whether the long form of the attacks is requested.
pub fn is_long() -> bool {
    std::env::var_os("PETASOS_ATTACK").is_some_and(|form| form == "long")
}

/// An edge with a listener for TLS, and with a full store.
pub struct AttackedEdge {
    /// The edge.
    pub edge: Edge,
    /// Trusts its certificate.
    pub trust: Trust,
    /// The same, for connections with HTTP/2.
    trust_http2: Trust,
    /// Its origin. Responses to requests with a cookie are private.
    pub origin: Origin,
    machine: Machine,
    _directory: TempDir,
    _turn: Option<MutexGuard<'static, ()>>,
}

/// How the programs share the machine.
#[derive(Clone, Copy, Debug)]
struct Machine {
    /// The edge's core, and the core of the clients. `None` in the short form, and on a machine
    /// with one core.
    cores: Option<[usize; 2]>,
    /// Whether the system permits real-time priority.
    is_real_time: bool,
}

/// Progress of an attack, shared by its attackers.
#[derive(Debug, Default)]
pub struct Attack {
    is_over: AtomicBool,
    sent: AtomicU64,
    closed: AtomicU64,
    ready: AtomicUsize,
    clock: SystemClock,
}

/// The kind of an attack.
#[derive(Clone, Copy, Debug)]
pub struct AttackKind {
    /// Its name in the output.
    pub name: &'static str,
    /// Unit that attackers send, such as "streams".
    pub unit: &'static str,
    /// Version of HTTP of the honest load in the long form: 1.1 or 2.
    pub http: &'static str,
    /// Number of attackers, each with its own thread.
    pub attackers: usize,
    /// Units each second that all attackers together shall send. An attack with fewer is too weak
    /// to be judged. Zero: the rate is not judged.
    pub rate_min: u64,
    /// Units after which the short form may end.
    pub units_short: u64,
}

/// The result of an attack.
#[derive(Clone, Copy, Debug)]
pub struct AttackOutcome {
    /// Units that were sent.
    pub sent: u64,
    /// Connections that the edge ended.
    pub closed: u64,
}

/// The times at which an attacker sends its batches.
pub struct Ticks<'a> {
    attack: &'a Attack,
    next: Monotonic,
}

impl AttackedEdge {
    /// Starts an edge with these further lines of configuration.
    pub fn start(configuration: &str) -> Self {
        let origin = Origin::start(|seen| {
            let body = if seen.target() == PAGE { PAGE_BYTES } else { FILLING_BYTES };
            let control = if seen.field("Cookie").is_some() { "private" } else { "max-age=600" };
            response("200 OK", &[&format!("Cache-Control: {control}")], &vec![b'x'; body])
        });
        let directory = tempfile::tempdir().unwrap();
        let pem = PemFiles::make();
        let (chain, key) = pem.write(directory.path(), "server");
        let file = directory.path().join("petasos.toml");
        std::fs::write(&file, configuration).unwrap();
        let tls = format!("{},{}", chain.display(), key.display());
        let memory = format!("{MEMORY_BYTES}B");
        let arguments = [file.to_str().unwrap(), "--tls", &tls, "--memory", &memory];
        let turn = is_long().then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
        let machine = Machine::of_this_test();
        let edge = Edge::scripted(&format!("exec {}\"$@\"", machine.prefix(0)), &origin.url(), &arguments);
        let trust = Trust::of(&pem.authority);
        let trust_http2 = trust.offering(b"h2");
        let attacked = Self { edge, trust, trust_http2, origin, machine, _directory: directory, _turn: turn };
        attacked.fill();
        attacked
    }

    /// Fills the store, with the page of the honest clients last.
    fn fill(&self) {
        let mut client = self.client();
        for number in 0..FILLING {
            assert_eq!(client.get(&format!("/filling/{number}"), &[]).status, 200);
        }
        assert_eq!(client.get(PAGE, &[]).status, 200);
    }

    /// An honest client with HTTP/1.
    fn client(&self) -> Client {
        Client::secured(self.edge.address, SERVER_NAME, &self.trust).unwrap()
    }

    /// A connection for an attacker with HTTP/2, with these settings.
    ///
    /// # Errors
    /// If the edge refuses it.
    pub fn frames(&self, settings: &[u8]) -> io::Result<Http2Frames> {
        Http2Frames::secured(self.edge.address, SERVER_NAME, &self.trust_http2, settings)
    }

    /// Runs an attack. `attack` is the work of one attacker, which has a number and returns when
    /// the attack is over. The attacker must say when it is ready, once.
    ///
    /// # Panics
    /// If an honest client is not served, or if the edge exceeds its memory or the limit of time.
    pub fn suffer(&self, kind: &AttackKind, attacker: impl Fn(&Attack, usize) + Sync) -> AttackOutcome {
        if is_long() { self.measure(kind, &attacker) } else { self.visit(kind, &attacker) }
    }

    /// Compares the peak of resident memory with its bound.
    fn check_memory(&self, kind: &AttackKind) {
        // More of an unoptimised program's file is in memory.
        let resident = match cfg!(debug_assertions) {
            true => crate::soak::resident_bytes_max(self.edge.pid()),
            false => self.edge.resident_bytes_peak(),
        };
        let allowed = Edge::resident_bytes_max(MEMORY_BYTES);
        println!("attack: {}: {resident} bytes resident of at most {allowed}", kind.name);
        assert!(resident <= allowed, "{}: {resident} bytes resident", kind.name);
    }

    /// The short form.
    fn visit(&self, kind: &AttackKind, attacker: &(impl Fn(&Attack, usize) + Sync)) -> AttackOutcome {
        let attack = self.during(kind, attacker, |attack| {
            let mut client = self.client();
            let mut visits = 0;
            while visits < HONEST_REQUESTS || attack.sent.load(Ordering::Relaxed) < kind.units_short {
                let answer = client.get(PAGE, &[]);
                let is_hit = answer.field("Cache-Status").is_some_and(|status| status.contains("; hit"));
                assert!(answer.complete && is_hit, "{}: {}", kind.name, answer.head);
                visits += 1;
                thread::sleep(Duration::from_millis(1));
            }
        });
        self.check_memory(kind);
        let outcome = attack.outcome();
        println!(
            "attack: {}: {} {}, {} connections closed",
            kind.name, outcome.sent, kind.unit, outcome.closed
        );
        outcome
    }

    /// The long form.
    fn measure(&self, kind: &AttackKind, attacker: &(impl Fn(&Attack, usize) + Sync)) -> AttackOutcome {
        let load = Load { edge: &self.edge, prefix: self.machine.prefix(1), http: kind.http };
        let mut figures = Figures::default();
        let mut total = AttackOutcome { sent: 0, closed: 0 };
        for _ in 0..ROUNDS {
            figures.base.push(load.run());
            let attack = self.during(kind, attacker, |attack| {
                let before = attack.sent.load(Ordering::Relaxed);
                let run = load.run();
                figures.add_attacked(run, attack.sent.load(Ordering::Relaxed) - before);
            });
            let outcome = attack.outcome();
            total.sent += outcome.sent;
            total.closed += outcome.closed;
        }
        println!("attack: {}: {}", kind.name, self.machine.description());
        self.check_memory(kind);
        figures.judge(kind, total, P99_FACTOR_MAX);
        total
    }

    /// Runs `honest` while the attack goes on.
    fn during(
        &self,
        kind: &AttackKind,
        attacker: &(impl Fn(&Attack, usize) + Sync),
        honest: impl FnOnce(&Attack),
    ) -> Attack {
        let attack = Attack::default();
        thread::scope(|scope| {
            for number in 0..kind.attackers {
                let attack = &attack;
                scope.spawn(move || {
                    self.machine.settle();
                    attacker(attack, number);
                });
            }
            // A panic of the honest client must end the attackers too.
            let _end = EndOfAttack(&attack);
            attack.await_ready(kind.attackers);
            honest(&attack);
        });
        // Connections of the attack are no part of the next measurement.
        crate::eventually("the connections of the attack have ended", || {
            self.edge.metric("petasos_connections_open", "") <= 0.0
        });
        attack
    }
}

impl Machine {
    fn of_this_test() -> Self {
        if !is_long() {
            return Self { cores: None, is_real_time: false };
        }
        let mut trial = Command::new("chrt");
        let trial = trial.args(["-f", "1", "true"]).stderr(Stdio::null()).status();
        Self { cores: two_cores(), is_real_time: trial.is_ok_and(|status| status.success()) }
    }

    /// The words before a command that give it the core with this index, and priority over the
    /// programs of others.
    fn prefix(self, index: usize) -> String {
        let priority = if self.is_real_time { "chrt -f 1 " } else { "" };
        let core = self.cores.map(|cores| format!("taskset -c {} ", cores[index]));
        priority.to_owned() + &core.unwrap_or_default()
    }

    /// Gives the calling attacker its core and its priority.
    fn settle(self) {
        if let Some([_, of_clients]) = self.cores {
            let mut core = CpuSet::new();
            core.set(of_clients);
            sched_setaffinity(None, &core).unwrap();
        }
        if !self.is_real_time {
            rustix::process::setpriority_process(None, NICE).unwrap();
        }
    }

    fn description(self) -> &'static str {
        match (self.cores, self.is_real_time) {
            (None, _) => "all programs share the cores, so the attackers take time from the edge",
            (_, true) => {
                "edge on one core, load tester and attackers on another; attackers take no time from either"
            }
            (_, false) => "edge on one core, load tester and attackers on another; attackers have nice 19",
        }
    }
}

/// Ends an attack when it is dropped.
struct EndOfAttack<'a>(&'a Attack);

impl Drop for EndOfAttack<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Attack {
    /// Whether the attackers shall end.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Counts units that an attacker has sent.
    pub fn sent(&self, units: u64) {
        self.sent.fetch_add(units, Ordering::Relaxed);
    }

    /// Counts a connection that the edge has ended.
    pub fn closed(&self) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }

    /// Says that an attacker has reached its full strength.
    pub fn ready(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
    }

    /// The times of an attacker's batches, shifted so that the attackers alternate.
    pub fn ticks(&self, number: usize, attackers: usize) -> Ticks<'_> {
        let shift = TICK * u32::try_from(number).unwrap() / u32::try_from(attackers).unwrap();
        Ticks { attack: self, next: self.clock.monotonic().plus(shift) }
    }

    fn await_ready(&self, attackers: usize) {
        let begun = self.clock.monotonic();
        while self.ready.load(Ordering::Relaxed) < attackers {
            assert!(self.clock.monotonic().since(begun) < READY_MAX, "the attackers are not ready");
            thread::sleep(TICK);
        }
    }

    fn outcome(&self) -> AttackOutcome {
        AttackOutcome { sent: self.sent.load(Ordering::Relaxed), closed: self.closed.load(Ordering::Relaxed) }
    }
}

impl Ticks<'_> {
    /// Waits until the next batch is due; false if the attack is over.
    pub fn wait(&mut self) -> bool {
        let now = self.attack.clock.monotonic();
        if now.since(self.next) > LATE_MAX {
            self.next = now;
        }
        thread::sleep(self.next.since(now));
        self.next = self.next.plus(TICK);
        !self.attack.is_over()
    }
}

/// The first two cores that this process may use.
fn two_cores() -> Option<[usize; 2]> {
    let all = sched_getaffinity(None).unwrap();
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core));
    Some([cores.next()?, cores.next()?])
}
