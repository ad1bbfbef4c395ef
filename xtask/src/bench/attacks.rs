//! Runs those attacks of `cargo xtask attack` that also work against other servers. Petasos, nginx,
//! Varnish and HAProxy take turns in front of an application with a fixed number of workers. Honest
//! visitors send requests during the attack.
//!
//! Invariant: every server has the same attack, the same visitors and a fresh application. A
//! visitor counts as refused without a complete 200 response within [`testkit::PATIENCE`]. The
//! figures are not judged; the limits for Petasos are in `cargo xtask attack`.

pub(super) mod origin;
pub(super) mod peers;

use super::{build, markdown, optimised};
use anyhow::{Context, Result};
use clock::Clock;
use origin::AttackOrigin;
use peers::{ComparedServer, PEERS, PeerArgs, PeerDirectory, PeerProcess, PeerSetup};
use platform::SystemClock;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use testkit::{Client, allow_descriptors};

/// Number of workers of the application, and so of its concurrent requests.
const WORKERS: usize = 64;
/// Number of slow clients: as many as the application has workers.
const SLOW: usize = WORKERS;
/// Number of clients that abort their downloads.
const ABORTED: usize = 60;
/// Number of concurrent honest visitors.
const HONEST: usize = 40;
/// Requests of each visitor while the application fails.
const EACH: usize = 10;
/// Stored pages that have expired when the application fails.
const STALE: usize = 100;
/// Time until these pages have expired, also by a clock that counts whole seconds.
pub(super) const EXPIRY: Duration = Duration::from_millis(2_100);
/// Time between the first and the second visits while the application fails.
const OUTAGE: Duration = Duration::from_secs(3);
/// Number of stored pages during bans, and number of bans.
const STORED: usize = 3_000;
const BANS: usize = 512;
/// Number of requests with made-up parameters, and number of clients that send them or bans.
const BUSTING: usize = 2_000;
const SENDERS: usize = 4;
/// Time for an attack to take effect before the visits.
const SETTLE: Duration = Duration::from_secs(1);
/// Interval between two samples of memory.
const SLICE: Duration = Duration::from_millis(50);
/// Receive buffer of a slow client, in bytes.
const RECEIVE_BYTES: usize = 4 << 10;
const SESSION: &str = "Cookie: session=1\r\n";

/// Petasos has its defaults.
pub(super) const SETUP: PeerSetup = PeerSetup {
    directory: "target/bench-attacks",
    prefix: "",
    packages: &[],
    petasos: "",
    nginx: include_str!("../../../bench/peers/attacks-nginx.conf"),
    varnish: include_str!("../../../bench/peers/attacks-varnish.vcl"),
    haproxy: include_str!("../../../bench/peers/attacks-haproxy.cfg"),
};

/// One attack.
struct ServerAttack {
    name: &'static str,
    /// Title of the last column.
    counted: &'static str,
    run: fn(&AttackedServer<'_>) -> Option<AttackFigures>,
}

const ATTACKS: [ServerAttack; 7] = [
    ServerAttack { name: "64 slow downloads", counted: "workers held", run: slow_downloads },
    ServerAttack { name: "64 slow uploads", counted: "workers held", run: slow_uploads },
    ServerAttack { name: "hung application", counted: "requests to it", run: hung },
    ServerAttack { name: "refusing application", counted: "requests to it", run: refusing },
    ServerAttack { name: "512 bans", counted: "slowest ban, ms", run: bans },
    ServerAttack { name: "2,000 made-up parameters", counted: "requests to it", run: busting },
    ServerAttack { name: "60 aborted downloads", counted: "workers held after 1 s", run: aborted_downloads },
];

/// A server under attack.
struct AttackedServer<'a> {
    peer: ComparedServer,
    address: SocketAddr,
    origin: &'a AttackOrigin,
    clock: SystemClock,
}

/// Result of an attack.
struct AttackFigures {
    visits: Visits,
    counted: String,
}

/// Result of the honest visits.
#[derive(Default)]
struct Visits {
    /// Time of each complete 200 response.
    times: Vec<Duration>,
    refused: usize,
}

/// Runs the attacks and prints one table for each.
///
/// # Errors
/// If a server does not start.
pub(super) fn run(args: &PeerArgs) -> Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => {
            // Only the server is built with optimisation; the load is too light to need it.
            build("petasos")?;
            optimised("petasos")?
        }
    };
    allow_descriptors(4_096);
    let directory = PeerDirectory::settle(&program, &SETUP)?;
    println!("{}. The application has {WORKERS} workers.", directory.versions()?);
    for attack in ATTACKS.iter().filter(|attack| attack.name.contains(&args.only)) {
        let mut rows = Vec::new();
        for peer in PEERS {
            let row = turn(attack, peer, &directory)
                .with_context(|| format!("{} and {}", peer.name(), attack.name))?;
            eprintln!("{}: {}", attack.name, row.join(", "));
            rows.push(row);
        }
        let head = ["server", "refused", "p50 ms", "p99 ms", "resident MB", attack.counted];
        println!("\n### {}\n\n{}", attack.name, markdown(&head, &rows));
    }
    Ok(())
}

/// Runs an attack against one server. Returns a row of the table.
fn turn(attack: &ServerAttack, peer: ComparedServer, directory: &PeerDirectory) -> Result<Vec<String>> {
    let origin = AttackOrigin::start(WORKERS)?;
    let running = directory.start(peer, origin.address())?;
    let stage = AttackedServer { peer, address: running.address, origin: &origin, clock: SystemClock::new() };
    let (outcome, resident) = watched(&running, || (attack.run)(&stage));
    let name = peer.name().to_owned();
    let Some(AttackFigures { visits, counted }) = outcome else {
        return Ok([&*name, "-", "-", "-", "-", "-"].map(str::to_owned).to_vec());
    };
    let Visits { mut times, refused } = visits;
    times.sort_unstable();
    let at = |percent: usize| {
        let index = (times.len() * percent).div_ceil(100).saturating_sub(1);
        times.get(index).map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time.as_secs_f64() * 1e3))
    };
    let refused = format!("{refused} of {}", refused + times.len());
    Ok(vec![name, refused, at(50), at(99), format!("{:.0}", resident as f64 / 1e6), counted])
}

/// Runs an attack. Returns its result and the highest resident memory meanwhile, in bytes.
fn watched<T>(running: &PeerProcess<'_>, attack: impl FnOnce() -> T) -> (T, u64) {
    let is_over = AtomicBool::new(false);
    let most = AtomicU64::new(0);
    let outcome = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                most.fetch_max(running.resident_bytes(), Ordering::Relaxed);
                std::thread::sleep(SLICE);
            }
        });
        let outcome = attack();
        is_over.store(true, Ordering::Relaxed);
        outcome
    });
    // Relaxed loads and stores are enough, because the end of the scope joined the sampling thread.
    (outcome, most.into_inner())
}

fn slow_downloads(stage: &AttackedServer<'_>) -> Option<AttackFigures> {
    let attackers = stage.begin_downloads("download", SLOW, SESSION);
    std::thread::sleep(SETTLE);
    let held = stage.origin.busy();
    let visits = stage.visit(1, own, SESSION);
    drop(attackers);
    Some(AttackFigures { visits, counted: held.to_string() })
}

fn slow_uploads(stage: &AttackedServer<'_>) -> Option<AttackFigures> {
    let attackers: Vec<_> = (0..SLOW)
        .filter_map(|number| {
            let mut client = stage.slow_client(number)?;
            client.try_send(
                "POST /form HTTP/1.1\r\nHost: bench.test\r\nContent-Length: 100000\r\n\r\n0123456789",
            )?;
            Some(client)
        })
        .collect();
    std::thread::sleep(SETTLE);
    let held = stage.origin.busy();
    let visits = stage.visit(1, own, SESSION);
    drop(attackers);
    Some(AttackFigures { visits, counted: held.to_string() })
}

fn hung(stage: &AttackedServer<'_>) -> Option<AttackFigures> {
    Some(stage.fail(AttackOrigin::hang))
}

fn refusing(stage: &AttackedServer<'_>) -> Option<AttackFigures> {
    // The application cannot count refused connections.
    Some(AttackFigures { counted: "-".to_owned(), ..stage.fail(AttackOrigin::refuse) })
}

fn bans(stage: &AttackedServer<'_>) -> Option<AttackFigures> {
    if !matches!(stage.peer, ComparedServer::Petasos | ComparedServer::Varnish) {
        return None;
    }
    let page = |number: usize| format!("/page/{number}");
    stage.fill(STORED, page);
    // Relaxed is enough: the flag guards no other data, and the end of the scope joins the threads
    // that count.
    let (is_over, visits, slowest) =
        (AtomicBool::new(false), Mutex::new(Visits::default()), AtomicU64::new(0));
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                let mut own = Visits::default();
                for number in (0..STORED).cycle() {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    own.add(stage.ask(&page(number * 7 % STORED), ""));
                }
                merge(&visits, own);
            });
        }
        let senders: [_; SENDERS] = std::array::from_fn(|first| {
            let slowest = &slowest;
            threads.spawn(move || {
                for number in (first..BANS).step_by(SENDERS) {
                    let begun = stage.clock.monotonic();
                    let ban = format!(
                        "BAN / HTTP/1.1\r\nHost: bench.test\r\nX-Url: ^/gone/{number}/[a-z]+[0-9]?$\r\n\r\n"
                    );
                    let answer =
                        Client::try_connect(stage.address).and_then(|mut client| client.try_ask(ban));
                    let took = stage.clock.monotonic().since(begun).as_micros() as u64;
                    let is_done = answer.is_some_and(|answer| answer.status == 200);
                    slowest.fetch_max(if is_done { took } else { u64::MAX }, Ordering::Relaxed);
                }
            })
        });
        for sender in senders {
            // A panic has already been printed.
            let _ = sender.join();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let slowest = slowest.into_inner();
    let counted =
        if slowest == u64::MAX { "refused".to_owned() } else { format!("{:.1}", slowest as f64 / 1e3) };
    Some(AttackFigures { visits: visits.into_inner().unwrap_or_default(), counted })
}

fn busting(stage: &AttackedServer<'_>) -> Option<AttackFigures> {
    stage.fill(HONEST, |number| format!("/page/{number}"));
    let before = stage.origin.requests();
    let visits = std::thread::scope(|threads| {
        for first in 0..SENDERS {
            threads.spawn(move || {
                for number in (first..BUSTING).step_by(SENDERS) {
                    // The attacker's responses do not matter.
                    let _ = stage.ask(&format!("/page/1?x={number}"), "");
                }
            });
        }
        stage.visit(EACH, |visitor, _| format!("/page/{visitor}"), "")
    });
    let fetched = stage.origin.requests() - before;
    Some(AttackFigures { visits, counted: fetched.to_string() })
}

fn aborted_downloads(stage: &AttackedServer<'_>) -> Option<AttackFigures> {
    drop(stage.begin_downloads("film", ABORTED, ""));
    std::thread::sleep(SETTLE);
    let held = stage.origin.busy();
    let visits = stage.visit(1, own, SESSION);
    Some(AttackFigures { visits, counted: held.to_string() })
}

/// Path of a page for a visitor with a session. It is never stored.
fn own(visitor: usize, number: usize) -> String {
    format!("/own/{visitor}/{number}")
}

impl AttackedServer<'_> {
    /// A client that shares its source address with seven others.
    fn slow_client(&self, number: usize) -> Option<Client> {
        Client::try_connect_from([127, 0, 1, 1 + (number / 8) as u8], self.address, RECEIVE_BYTES)
    }

    /// Starts downloads and reads only the heads of the responses. Clients without a response are
    /// dropped.
    fn begin_downloads(&self, kind: &str, count: usize, fields: &str) -> Vec<Client> {
        let begin = |number: usize| {
            let mut client = self.slow_client(number)?;
            client.try_send(format!("GET /{kind}/{number} HTTP/1.1\r\nHost: bench.test\r\n{fields}\r\n"))?;
            Some(client)
        };
        let mut clients: Vec<Client> = (0..count).filter_map(begin).collect();
        clients.retain_mut(|client| client.try_read_head().is_some());
        clients
    }

    /// Sends a request on a new connection. Returns the time of a complete 200 response.
    fn ask(&self, target: &str, fields: &str) -> Option<Duration> {
        let begun = self.clock.monotonic();
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n{fields}\r\n");
        let answer = Client::try_connect(self.address)?.try_ask(request)?;
        (answer.status == 200 && answer.complete).then(|| self.clock.monotonic().since(begun))
    }

    /// Honest visitors send `each` requests, all at the same time. A refused visitor sends no more.
    fn visit(&self, each: usize, target: impl Fn(usize, usize) -> String + Sync, fields: &str) -> Visits {
        let visits = Mutex::new(Visits::default());
        std::thread::scope(|threads| {
            for visitor in 0..HONEST {
                let visits = &visits;
                let target = &target;
                threads.spawn(move || {
                    let mut own = Visits::default();
                    for number in 0..each {
                        own.add(self.ask(&target(visitor, number), fields));
                        if own.refused > 0 {
                            break;
                        }
                    }
                    merge(visits, own);
                });
            }
        });
        visits.into_inner().unwrap_or_default()
    }

    /// Requests pages one after the other, so that the server stores them.
    fn fill(&self, pages: usize, target: impl Fn(usize) -> String) {
        let missing = (0..pages).filter(|page| self.ask(&target(*page), "").is_none()).count();
        if missing > 0 {
            eprintln!("{}: {missing} of {pages} pages could not be stored", self.peer.name());
        }
    }

    /// Honest visits to expired pages, right after the application fails and again some time later.
    fn fail(&self, failure: fn(&AttackOrigin)) -> AttackFigures {
        let page = |visitor: usize, number: usize| format!("/stale/{}", (visitor * 7 + number * 31) % STALE);
        self.fill(STALE, |number| format!("/stale/{number}"));
        std::thread::sleep(EXPIRY);
        let before = self.origin.requests();
        failure(self.origin);
        let mut visits = self.visit(EACH, page, "");
        std::thread::sleep(OUTAGE);
        let later = self.visit(EACH, page, "");
        visits.times.extend(later.times);
        visits.refused += later.refused;
        AttackFigures { visits, counted: (self.origin.requests() - before).to_string() }
    }
}

impl Visits {
    fn add(&mut self, visit: Option<Duration>) {
        match visit {
            Some(time) => self.times.push(time),
            None => self.refused += 1,
        }
    }
}

fn merge(visits: &Mutex<Visits>, own: Visits) {
    // A poisoned lock means that another visitor panicked, which has already been printed.
    if let Ok(mut visits) = visits.lock() {
        visits.times.extend(own.times);
        visits.refused += own.refused;
    }
}
