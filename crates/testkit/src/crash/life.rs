//! One life: the edge starts on the existing disk, is examined, works under load, and ends.
//!
//! Invariant: only the edge's own promises count as durable. A promise covers everything answered
//! before a status whose accepted number a later status reports as durable. After an orderly end,
//! it covers everything.

use super::load::{LifeLoad, visit};
use super::model::{CrashModel, ResponseKind};
use super::pages::CrashPage;
use super::{CrashCounts, lock};
use crate::{Edge, Origin, eventually};
use stats::Random;
use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tempfile::TempDir;

/// Numbers of threads: visitors, and clients that purge.
const READERS: usize = 4;
const PURGERS: usize = 2;

/// Upper bound of the requests of a life.
const REQUESTS_MAX: usize = 1_200;

/// The lives of one directory.
pub(super) struct Family<'a> {
    model: &'a CrashModel,
    origin: &'a Origin,
    directory: Option<TempDir>,
    room: LifeSizes,
    /// The last life has promised durability up to this moment of the model.
    durable: u64,
}

/// The sizes of the memory and of the disk.
#[derive(Clone, Copy, Debug)]
struct LifeSizes {
    memory: &'static str,
    disk: &'static str,
    /// Whether everything fits on the disk, so that no durable response may be evicted.
    is_ample: bool,
}

const ROOMS: [LifeSizes; 3] = [
    LifeSizes { memory: "64MiB", disk: "4GiB", is_ample: true },
    // Most responses are only on disk. Responses may leave memory before they are written.
    LifeSizes { memory: "24MiB", disk: "4GiB", is_ample: true },
    // Segments of the disk are evicted all the time.
    LifeSizes { memory: "3MiB", disk: "12MiB", is_ample: false },
];

/// How a life ends.
#[derive(Clone, Copy, Debug)]
enum CrashEnd {
    Kill,
    /// SIGTERM, and SIGKILL shortly afterwards.
    TermAndKill,
    Term,
}

impl<'a> Family<'a> {
    /// `number` selects the sizes.
    pub(super) fn new(model: &'a CrashModel, origin: &'a Origin, number: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let configuration = "workers = 2\n[limits]\nobject_bytes_max = '64KiB'\n";
        fs::write(directory.path().join("petasos.toml"), configuration).unwrap();
        let room = ROOMS[number as usize % ROOMS.len()];
        Self { model, origin, directory: Some(directory), room, durable: 0 }
    }

    /// Keeps the directory for inspection, and returns its path.
    pub(super) fn keep(&mut self) -> String {
        let kept = self.directory.take().map(TempDir::keep);
        kept.map_or_else(String::new, |path| path.display().to_string())
    }

    /// Runs one life. In one of four cases, another process is started and killed before it.
    pub(super) fn live(&mut self, random: &mut Random) -> Result<CrashCounts, String> {
        let directory = self.directory.as_ref().map(|directory| directory.path().to_owned()).unwrap();
        let file = directory.join("petasos.toml");
        let disk = directory.join("disk");
        let LifeSizes { memory, disk: size, .. } = self.room;
        let arguments = [file.to_str().unwrap(), "--disk", disk.to_str().unwrap(), "--disk-size", size];
        let arguments = [&arguments[..], &["--memory", memory]].concat();
        if random.below(4) == 0 {
            let life = Duration::from_millis(random.below(60) as u64);
            Edge::still_birth(&self.origin.url(), &arguments, life);
        }
        let mut edge = Edge::start(&self.origin.url(), &arguments);
        let load = LifeLoad::new(self.model, &edge);
        self.examine(&load, &edge);
        let end = match random.below(6) {
            0 => CrashEnd::Term,
            1 => CrashEnd::TermAndKill,
            _ => CrashEnd::Kill,
        };
        // Makes short lives frequent.
        let requests = random.below(REQUESTS_MAX) >> random.below(5);
        let evicted = self.work(&load, &mut edge, requests as u64, end, random);
        self.model.note(&format!("a life ended by {end:?}"));
        let mut tally = load.tally.into_inner().unwrap();
        tally.lives = 1;
        tally.evicted = evicted;
        let problems = load.problems.into_inner().unwrap();
        if problems.is_empty() { Ok(tally) } else { Err(problems.join("\n")) }
    }

    /// Requests all pages, and compares the responses with the model.
    fn examine(&self, load: &LifeLoad<'_>, edge: &Edge) {
        let mut client = None;
        for page in CrashPage::all() {
            for language in page.languages() {
                let must_be_there = self.room.is_ample && self.model.is_kept(page, *language, self.durable);
                let (begun, verdict) = visit(load, &mut client, page, *language, "");
                let mut tally = lock(&load.tally);
                tally.count(verdict);
                match verdict {
                    Some(ResponseKind::Hit) if must_be_there => tally.kept += 1,
                    Some(ResponseKind::Hit) => tally.found += 1,
                    _ if must_be_there => {
                        load.complain(self.model.tell(&begun, "it was durable and is lost"))
                    }
                    _ => {}
                }
                if verdict == Some(ResponseKind::Hit) {
                    self.model.found(&begun);
                }
            }
        }
        if self.room.is_ample {
            self.examine_again(load);
        }
        if load.is_over() {
            let status = Edge::status(load.admin).unwrap_or_default();
            let counts = ["torn", "errors", "refused", "reads", "evicted", "written", "full"];
            let counts =
                counts.map(|name| format!("{name} {}", edge.metric(&format!("petasos_disk_{name}"), "")));
            load.complain(format!("{}, {status:#}\n{}", counts.join(", "), edge.stderr()));
        }
    }

    /// Waits until everything accepted is durable; then requests all stored pages again, which must
    /// be hits.
    fn examine_again(&self, load: &LifeLoad<'_>) {
        let numbers = ["accepted", "durable"];
        eventually("all is durable", || {
            let status = Edge::status(load.admin).unwrap();
            let [accepted, durable] = numbers.map(|name| status["disk"][name].as_u64());
            accepted == durable
        });
        let mut client = None;
        for page in CrashPage::all() {
            for language in page.languages() {
                if self.model.is_kept(page, *language, u64::MAX) {
                    let (begun, verdict) = visit(load, &mut client, page, *language, "");
                    if verdict != Some(ResponseKind::Hit) {
                        load.complain(self.model.tell(&begun, "it was stored and is lost"));
                    }
                }
            }
        }
    }

    /// Loads the edge until it has answered `requests` requests, and ends it. Returns the number of
    /// evicted responses.
    fn work(
        &mut self,
        load: &LifeLoad<'_>,
        edge: &mut Edge,
        requests: u64,
        end: CrashEnd,
        random: &mut Random,
    ) -> u64 {
        let mut evicted = 0;
        std::thread::scope(|threads| {
            for _ in 0..READERS {
                let random = Random::from_seed(random.next_u64());
                threads.spawn(|| load.read(random));
            }
            for _ in 0..PURGERS {
                let random = Random::from_seed(random.next_u64());
                threads.spawn(|| load.purge(random));
            }
            threads.spawn(|| load.watch());
            let pause = Duration::from_millis(1);
            while load.requests.load(Ordering::SeqCst) < requests && !load.is_over() {
                std::thread::sleep(pause);
            }
            if !load.is_over() {
                evicted = edge.metric("petasos_disk_evicted_total", "") as u64;
            }
            load.is_ending.store(true, Ordering::SeqCst);
            match end {
                CrashEnd::Kill => edge.kill(),
                CrashEnd::TermAndKill => {
                    edge.signal("TERM");
                    std::thread::sleep(Duration::from_millis(random.below(20) as u64));
                    edge.kill();
                }
                CrashEnd::Term => {
                    edge.signal("TERM");
                    let code = edge.wait();
                    if code != Some(0) {
                        load.complain(format!("it ended with {code:?}: {}", edge.stderr()));
                    }
                }
            }
        });
        self.durable = match end {
            CrashEnd::Term => self.model.now(),
            CrashEnd::Kill | CrashEnd::TermAndKill => load.durable.load(Ordering::SeqCst),
        };
        evicted
    }
}
