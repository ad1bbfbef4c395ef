//! One life: the edge starts on what is there, is examined, works under load, and ends.
//!
//! Invariant: what is promised to outlive it is only what it said itself: what was answered before a status whose
//! accepted number a later status called durable; everything, if it was asked to end and did so.

use super::load::{Load, visit};
use super::model::{Model, Verdict};
use super::pages::Page;
use super::{Tally, lock};
use crate::{Edge, Origin, eventually};
use stats::Random;
use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tempfile::TempDir;

/// Threads of visitors, and of those who purge.
const READERS: usize = 4;
const PURGERS: usize = 2;

/// The most requests of a life; it may end at any before.
const REQUESTS_MAX: usize = 1_200;

/// Lives on one directory.
pub(super) struct Family<'a> {
    model: &'a Model,
    origin: &'a Origin,
    directory: Option<TempDir>,
    room: Room,
    /// What the life before has promised to be there, as a moment of the model.
    durable: u64,
}

/// What a family has room for.
#[derive(Clone, Copy, Debug)]
struct Room {
    memory: &'static str,
    disk: &'static str,
    /// Whether there is room for all, so that nothing that is durable may go.
    is_ample: bool,
}

const ROOMS: [Room; 3] = [
    Room { memory: "64MiB", disk: "4GiB", is_ample: true },
    // Most is on the disk only, and what is not written yet may leave memory.
    Room { memory: "24MiB", disk: "4GiB", is_ample: true },
    // Segments go all the time.
    Room { memory: "3MiB", disk: "12MiB", is_ample: false },
];

/// How a life ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Kill,
    /// It is asked to end, and killed while it does.
    TermAndKill,
    Term,
}

impl<'a> Family<'a> {
    /// `number` says which one it is of many.
    pub(super) fn new(model: &'a Model, origin: &'a Origin, number: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let configuration = "workers = 2\n[limits]\nobject_bytes_max = '64KiB'\n";
        fs::write(directory.path().join("petasos.toml"), configuration).unwrap();
        let room = ROOMS[number as usize % ROOMS.len()];
        Self { model, origin, directory: Some(directory), room, durable: 0 }
    }

    /// Keeps the directory for who wants to look at it, and says where it is.
    pub(super) fn keep(&mut self) -> String {
        let kept = self.directory.take().map(TempDir::keep);
        kept.map_or_else(String::new, |path| path.display().to_string())
    }

    /// One life.
    pub(super) fn live(&mut self, random: &mut Random) -> Result<Tally, String> {
        let directory = self.directory.as_ref().map(|directory| directory.path().to_owned()).unwrap();
        let (file, disk) = (directory.join("petasos.toml"), directory.join("disk"));
        let Room { memory, disk: size, .. } = self.room;
        let arguments = [file.to_str().unwrap(), "--disk", disk.to_str().unwrap(), "--disk-size", size];
        let arguments = [&arguments[..], &["--memory", memory]].concat();
        if random.below(4) == 0 {
            let life = Duration::from_millis(random.below(60) as u64);
            Edge::still_birth(&self.origin.url(), &arguments, life);
        }
        let mut edge = Edge::start(&self.origin.url(), &arguments);
        let load = Load::new(self.model, &edge);
        self.examine(&load, &edge);
        let end = match random.below(6) {
            0 => End::Term,
            1 => End::TermAndKill,
            _ => End::Kill,
        };
        // Short lives are as likely as long ones.
        let requests = random.below(REQUESTS_MAX) >> random.below(5);
        let evicted = self.work(&load, &mut edge, requests as u64, end, random);
        self.model.note(&format!("a life ended by {end:?}"));
        let mut tally = load.tally.into_inner().unwrap();
        (tally.lives, tally.evicted) = (1, evicted);
        let problems = load.problems.into_inner().unwrap();
        if problems.is_empty() { Ok(tally) } else { Err(problems.join("\n")) }
    }

    /// Compares what the edge has with what it must have.
    fn examine(&self, load: &Load<'_>, edge: &Edge) {
        let mut client = None;
        for page in Page::all() {
            for language in page.languages() {
                let must_be_there = self.room.is_ample && self.model.is_kept(page, *language, self.durable);
                let (begun, verdict) = visit(load, &mut client, page, *language, "");
                let mut tally = lock(&load.tally);
                tally.count(verdict);
                match verdict {
                    Some(Verdict::Hit) if must_be_there => tally.kept += 1,
                    Some(Verdict::Hit) => tally.found += 1,
                    _ if must_be_there => {
                        load.complain(self.model.tell(&begun, "it was durable and is lost"))
                    }
                    _ => {}
                }
                if verdict == Some(Verdict::Hit) {
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

    /// What was stored a moment ago must be there, when the disk has all of it.
    fn examine_again(&self, load: &Load<'_>) {
        let numbers = ["accepted", "durable"];
        eventually("all is durable", || {
            let status = Edge::status(load.admin).unwrap();
            let [accepted, durable] = numbers.map(|name| status["disk"][name].as_u64());
            accepted == durable
        });
        let mut client = None;
        for page in Page::all() {
            for language in page.languages() {
                if self.model.is_kept(page, *language, u64::MAX) {
                    let (begun, verdict) = visit(load, &mut client, page, *language, "");
                    if verdict != Some(Verdict::Hit) {
                        load.complain(self.model.tell(&begun, "it was stored and is lost"));
                    }
                }
            }
        }
    }

    /// Loads the edge until it has answered so many requests, and ends it. Gives how much it has evicted.
    fn work(
        &mut self,
        load: &Load<'_>,
        edge: &mut Edge,
        requests: u64,
        end: End,
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
                End::Kill => edge.kill(),
                End::TermAndKill => {
                    edge.signal("TERM");
                    std::thread::sleep(Duration::from_millis(random.below(20) as u64));
                    edge.kill();
                }
                End::Term => {
                    edge.signal("TERM");
                    let code = edge.wait();
                    if code != Some(0) {
                        load.complain(format!("it ended with {code:?}: {}", edge.stderr()));
                    }
                }
            }
        });
        self.durable = match end {
            End::Term => self.model.now(),
            End::Kill | End::TermAndKill => load.durable.load(Ordering::SeqCst),
        };
        evicted
    }
}
