//! A simulated origin with workers and a queue, and the limits that were compared on it.
//!
//! Users request pages through a limit: a closed loop, each user waits for the response and then
//! thinks. Everything follows from a seed.

use super::{AdaptiveLimit, OriginWait, StageNumber};
use clock::Monotonic;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// A limit under comparison.
trait Limiter {
    fn permitted(&self) -> usize;

    /// A request is sent; `_active` requests are active, including it.
    fn begin(&mut self, _active: usize) -> Option<StageNumber> {
        None
    }

    fn observe(&mut self, response: Observed, now: Monotonic);
}

/// A response of the simulated origin.
#[derive(Clone, Copy, Debug)]
struct Observed {
    stage: Option<StageNumber>,
    page: u64,
    /// The active requests when its request was sent, this one included.
    active: usize,
    wait: Duration,
}

impl Limiter for AdaptiveLimit {
    fn permitted(&self) -> usize {
        Self::permitted(self)
    }

    fn begin(&mut self, active: usize) -> Option<StageNumber> {
        Self::begin(self, active)
    }

    fn observe(&mut self, response: Observed, now: Monotonic) {
        let Observed { stage, page, wait, .. } = response;
        Self::observe(self, OriginWait { stage, page, wait }, now);
    }
}

/// The largest limit in all simulations, in force without adaptation.
const MAX: usize = 64;

/// No adaptation.
struct Fixed;

impl Limiter for Fixed {
    fn permitted(&self) -> usize {
        MAX
    }

    fn observe(&mut self, _: Observed, _: Monotonic) {}
}

/// Additive increase, multiplicative decrease above a fixed wait of a second.
struct Aimd(f64);

impl Limiter for Aimd {
    fn permitted(&self) -> usize {
        self.0 as usize
    }

    fn observe(&mut self, response: Observed, _: Monotonic) {
        if response.wait > Duration::from_secs(1) {
            self.0 = (self.0 * 0.9).max(4.0);
        } else if 2 * response.active >= self.permitted() {
            self.0 = (self.0 + 1.0 / self.0).min(MAX as f64);
        }
    }
}

/// Vegas: the shortest wait ever says how many requests are queued at the origin.
struct Vegas {
    limit: f64,
    shortest: f64,
}

impl Limiter for Vegas {
    fn permitted(&self) -> usize {
        self.limit as usize
    }

    fn observe(&mut self, response: Observed, _: Monotonic) {
        let wait = response.wait.as_secs_f64();
        self.shortest = self.shortest.min(wait);
        let queued = self.limit * (1.0 - self.shortest / wait);
        if queued > 6.0 {
            self.limit = (self.limit - 1.0).max(4.0);
        } else if queued < 3.0 && 2 * response.active >= self.permitted() {
            self.limit = (self.limit + 1.0).min(MAX as f64);
        }
    }
}

/// The quotient of a slow and a quick average of the waits, with a queue of the limit's root.
struct Gradient {
    limit: f64,
    usual: f64,
}

impl Limiter for Gradient {
    fn permitted(&self) -> usize {
        self.limit as usize
    }

    fn observe(&mut self, response: Observed, _: Monotonic) {
        let wait = response.wait.as_secs_f64();
        self.usual += if self.usual == 0.0 { wait } else { (wait - self.usual) / 600.0 };
        if 2 * response.active >= self.permitted() {
            let gradient = (1.5 * self.usual / wait).clamp(0.5, 1.0);
            let wanted = self.limit * gradient + self.limit.sqrt();
            self.limit = (0.8 * self.limit + 0.2 * wanted).clamp(4.0, MAX as f64);
        }
    }
}

/// As BBR: 1.5 times the highest rate of ten seconds times the shortest wait of ten seconds.
struct RateAndWait {
    limit: usize,
    since: Monotonic,
    answered: u32,
    shortest: [f64; 2],
    rates: VecDeque<f64>,
}

impl RateAndWait {
    fn new() -> Self {
        let (since, rates) = (Monotonic::default(), VecDeque::new());
        Self { limit: MAX, since, answered: 0, shortest: [f64::MAX; 2], rates }
    }
}

impl Limiter for RateAndWait {
    fn permitted(&self) -> usize {
        self.limit
    }

    fn observe(&mut self, response: Observed, now: Monotonic) {
        self.shortest[0] = self.shortest[0].min(response.wait.as_secs_f64());
        self.answered += 1;
        let passed = now.since(self.since).as_secs_f64();
        if passed >= 1.0 {
            self.rates.push_back(f64::from(self.answered) / passed);
            self.rates.drain(..self.rates.len().saturating_sub(10));
            let rate = self.rates.iter().copied().fold(0.0, f64::max);
            let shortest = self.shortest[0].min(self.shortest[1]);
            self.limit = ((1.5 * rate * shortest).ceil() as usize).clamp(4, MAX);
            (self.since, self.answered) = (now, 0);
            if self.rates.len() == 10 {
                self.shortest = [f64::MAX, self.shortest[0]];
            }
        }
    }
}

/// A group of equal pages: its share of the requests, the number of pages, and the time of each.
#[derive(Clone, Copy, Debug)]
struct Kind {
    share: u32,
    pages: u64,
    time: Duration,
}

/// An origin with its users.
#[derive(Clone, Debug)]
struct World {
    workers: usize,
    users: usize,
    think: Duration,
    kinds: Vec<Kind>,
    /// From when to when all pages take this many times as long.
    slow: Option<(u64, u64, u32)>,
    /// From when on there is another number of workers.
    change: Option<(u64, usize)>,
    seed: u64,
}

/// The outcome of a simulation.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    /// Responses a second.
    rate: f64,
    /// Median wait at the origin, in seconds.
    p50: f64,
    limit_min: usize,
    limit_max: usize,
    limit_mean: f64,
}

impl World {
    fn of(workers: usize, kinds: &[(u32, u64, u64)]) -> Self {
        let kind = |(share, pages, millis)| Kind { share, pages, time: Duration::from_millis(millis) };
        let kinds = kinds.iter().copied().map(kind).collect();
        let think = Duration::ZERO;
        Self { workers, users: 100, think, kinds, slow: None, change: None, seed: 1 }
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrival,
    Answer { sent: u64, page: u64, active: usize, stage: Option<StageNumber> },
}

/// An event at a time. Events at the same time are in the order of their planning.
#[derive(Clone, Copy, Debug)]
struct Planned(u64, u64, Event);

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// The state of a simulation. Times are in nanoseconds.
struct Run<'a> {
    world: &'a World,
    now: u64,
    random: u64,
    number: u64,
    events: BinaryHeap<Reverse<Planned>>,
    /// Requests that wait for the limit.
    waiting: usize,
    active: usize,
    /// Requests at the origin that wait for a worker.
    queue: VecDeque<Event>,
    busy: usize,
}

const SECOND: u64 = 1_000_000_000;

impl<'a> Run<'a> {
    fn new(world: &'a World) -> Self {
        let mut run = Self {
            world,
            now: 0,
            random: world.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            number: 0,
            events: BinaryHeap::new(),
            waiting: 0,
            active: 0,
            queue: VecDeque::new(),
            busy: 0,
        };
        (0..world.users).for_each(|_| run.think());
        run
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below.max(1)
    }

    fn plan(&mut self, after: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse(Planned(self.now + after, self.number, event)));
    }

    fn think(&mut self) {
        let think = self.world.think.as_nanos() as u64;
        let after = self.draw(2 * think + 1);
        self.plan(after, Event::Arrival);
    }

    /// A page by the shares of the kinds. Its lowest digits name the kind.
    fn page(&mut self) -> u64 {
        let all = self.world.kinds.iter().map(|kind| u64::from(kind.share)).sum();
        let mut left = self.draw(all);
        for (number, kind) in self.world.kinds.iter().enumerate() {
            if left < u64::from(kind.share) {
                let page = self.draw(kind.pages);
                return page * 16 + number as u64;
            }
            left -= u64::from(kind.share);
        }
        0
    }

    fn work(&mut self) {
        let (seconds, world) = (self.now / SECOND, self.world);
        let workers =
            world.change.filter(|(from, _)| seconds >= *from).map_or(world.workers, |(_, workers)| workers);
        while self.busy < workers {
            let Some(event) = self.queue.pop_front() else { return };
            self.busy += 1;
            let Event::Answer { page, .. } = event else { continue };
            let kind = self.world.kinds[(page % 16) as usize];
            let is_slow = world.slow.filter(|(from, to, _)| (*from..*to).contains(&seconds));
            let time = kind.time.as_nanos() as u64 * u64::from(is_slow.map_or(1, |(_, _, times)| times));
            // Between a half and three halves of its time.
            let time = time / 2 + self.draw(time);
            self.plan(time, event);
        }
    }

    /// Runs until `end`, in seconds, and reports from `from` on.
    fn run(&mut self, limiter: &mut dyn Limiter, from: u64, end: u64) -> Outcome {
        let (mut waits, mut sum, mut outcome) = (Vec::new(), 0, Outcome::default());
        outcome.limit_min = usize::MAX;
        while let Some(Reverse(Planned(at, _, event))) =
            self.events.pop().filter(|next| next.0.0 < end * SECOND)
        {
            self.now = at;
            match event {
                Event::Arrival => self.waiting += 1,
                Event::Answer { sent, page, active, stage } => {
                    let wait = Duration::from_nanos(at - sent);
                    (self.busy, self.active) = (self.busy - 1, self.active - 1);
                    // Digests of pages are mixed.
                    let page = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
                    limiter.observe(Observed { stage, page, active, wait }, Monotonic::from_nanos(at));
                    self.think();
                    if at >= from * SECOND {
                        waits.push(wait);
                        sum += limiter.permitted();
                        outcome.limit_min = outcome.limit_min.min(limiter.permitted());
                        outcome.limit_max = outcome.limit_max.max(limiter.permitted());
                    }
                }
            }
            while self.waiting > 0 && self.active < limiter.permitted() {
                (self.waiting, self.active) = (self.waiting - 1, self.active + 1);
                let (page, active) = (self.page(), self.active);
                let event = Event::Answer { sent: self.now, page, active, stage: limiter.begin(active) };
                self.queue.push_back(event);
            }
            self.work();
        }
        waits.sort_unstable();
        outcome.rate = waits.len() as f64 / (end - from) as f64;
        outcome.p50 = waits.get(waits.len() / 2).map_or(0.0, Duration::as_secs_f64);
        outcome.limit_mean = sum as f64 / waits.len().max(1) as f64;
        outcome
    }
}

/// The outcome of an adaptive limit.
fn adapted(world: &World, from: u64, end: u64) -> (Outcome, AdaptiveLimit) {
    let mut limit = AdaptiveLimit::new(MAX);
    let outcome = Run::new(world).run(&mut limit, from, end);
    (outcome, limit)
}

fn fixed(world: &World, from: u64, end: u64) -> Outcome {
    Run::new(world).run(&mut Fixed, from, end)
}

fn limiters() -> Vec<(&'static str, Box<dyn Limiter>)> {
    vec![
        ("fixed at 64", Box::new(Fixed)),
        ("AIMD above 1 s", Box::new(Aimd(MAX as f64))),
        ("Vegas", Box::new(Vegas { limit: MAX as f64, shortest: f64::MAX })),
        ("gradient", Box::new(Gradient { limit: MAX as f64, usual: 0.0 })),
        ("rate and wait", Box::new(RateAndWait::new())),
        ("adaptive", Box::new(AdaptiveLimit::new(MAX))),
    ]
}

fn worlds() -> Vec<(&'static str, World)> {
    let slow_and_quick = [(90, 40, 5), (10, 10, 2_000)];
    vec![
        ("4 workers, 100 ms", World::of(4, &[(1, 40, 100)])),
        ("16 workers, 20 ms", World::of(16, &[(1, 40, 20)])),
        ("4 workers, 5 ms and 2 s", World::of(4, &slow_and_quick)),
        ("8 workers, 1,000 pages", World::of(8, &[(50, 900, 20), (40, 90, 100), (10, 10, 1_000)])),
        ("48 workers, 500 ms", World::of(48, &[(1, 40, 500)])),
        (
            "4 workers, ten times slower from 300 to 400 s",
            World { slow: Some((300, 400, 10)), ..World::of(4, &[(1, 40, 50)]) },
        ),
        (
            "24 workers instead of 4 from 300 s",
            World { change: Some((300, 24)), ..World::of(4, &[(1, 40, 100)]) },
        ),
    ]
}

/// Prints the table of the decision: `cargo test -p petasos-origin table -- --nocapture`.
#[test]
fn table_of_limits() {
    for (name, world) in worlds() {
        println!("\n{name}\n");
        let full = fixed(&world, 500, 900);
        for (limiter, mut limit) in limiters() {
            let outcome = Run::new(&world).run(&mut *limit, 500, 900);
            if limiter == "adaptive" {
                assert!(outcome.rate >= 0.93 * full.rate && outcome.p50 < full.p50, "{outcome:?} {full:?}");
            }
            let Outcome { rate, p50, limit_mean, limit_min, limit_max } = outcome;
            println!(
                "| {limiter} | {rate:.1} | {:.0} | {limit_mean:.1} ({limit_min} to {limit_max}) |",
                p50 * 1e3
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A full origin is sent between one and two times the requests that it works on.
    #[test]
    fn limit_comes_near_the_workers(workers in 4_usize..30, millis in 10_u64..300, seed in 1_u64..1000) {
        let world = World { seed, ..World::of(workers, &[(1, 40, millis)]) };
        let (outcome, limit) = adapted(&world, 400, 600);
        let full = fixed(&world, 400, 600);
        prop_assert!(limit.limit() >= workers && limit.limit() <= workers * 5 / 2, "{}", limit.limit());
        prop_assert!(outcome.rate >= 0.95 * full.rate, "{outcome:?} {full:?}");
        prop_assert!(outcome.p50 <= full.p50, "{outcome:?} {full:?}");
    }

    /// Pages with very different costs take no throughput.
    #[test]
    fn mixed_pages_cost_no_throughput(slow_percent in 1_u32..60, pages in 1_u64..400, seed in 1_u64..1000) {
        let world = World { seed, ..World::of(4, &[(100 - slow_percent, pages, 5), (slow_percent, pages, 2_000)]) };
        let (outcome, limit) = adapted(&world, 500, 900);
        // Four workers that are always busy. A run draws a few slow pages more or less.
        let capacity = 400.0 / (f64::from(slow_percent) * 2.0 + f64::from(100 - slow_percent) * 0.005);
        prop_assert!(outcome.rate >= 0.88 * capacity, "{outcome:?} {capacity} {}", limit.limit());
    }

    /// Whatever happens, the limit stays within its bounds.
    #[test]
    fn limit_stays_within_its_bounds(
        limit_max in 0_usize..100,
        events in prop::collection::vec((0_u64..100, 0_usize..100, 0_u64..100_000, 0_u64..5_000), 0..2000)
    ) {
        let (mut limit, mut now, mut stages) = (AdaptiveLimit::new(limit_max), 0, VecDeque::new());
        for (page, active, wait, later) in events {
            now += later;
            stages.push_back(limit.begin(active));
            if later % 3 == 0 {
                stages.pop_front().flatten().into_iter().for_each(|stage| limit.give_up(stage));
            } else {
                let stage = stages.pop_front().flatten();
                let response = OriginWait { stage, page, wait: Duration::from_millis(wait) };
                limit.observe(response, Monotonic::from_nanos(now * 1_000_000));
            }
            prop_assert!((1..=limit_max.max(1)).contains(&limit.permitted()));
            prop_assert!(limit.permitted() <= limit.limit());
        }
    }

    /// Requests that do not fill the limit do not change it.
    #[test]
    fn light_load_is_no_evidence(users in 1_usize..40, workers in 1_usize..60, millis in 1_u64..2_000) {
        let world = World { users, ..World::of(workers, &[(1, 40, millis)]) };
        let (_, limit) = adapted(&world, 0, 120);
        prop_assert_eq!(limit.limit(), MAX);
    }
}

/// The limit falls before slow pages too, recovers after a slow phase, and follows more workers.
#[test]
fn limit_follows_the_origin() {
    let limits = |world: &World, times: [u64; 3]| {
        let (mut limit, mut run) = (AdaptiveLimit::new(MAX), Run::new(world));
        times.map(|end| {
            run.run(&mut limit, end - 1, end);
            limit.limit()
        })
    };
    let [_, _, slow] = limits(&World::of(4, &[(1, 40, 2_000)]), [10, 20, 3_000]);
    assert!((4..=10).contains(&slow), "{slow}");
    let slowed = World { slow: Some((300, 400, 10)), ..World::of(4, &[(1, 40, 50)]) };
    let phases = limits(&slowed, [299, 399, 900]);
    assert!(phases.iter().all(|limit| (4..=10).contains(limit)), "{phases:?}");
    let grown = World { change: Some((300, 24)), ..World::of(4, &[(1, 40, 100)]) };
    let [before, _, after] = limits(&grown, [299, 300, 900]);
    assert!((4..=10).contains(&before) && (24..=60).contains(&after), "{before} {after}");
}

/// Errors that a permit reports as given up do not change the limit.
#[test]
fn stages_with_too_few_responses_change_nothing() {
    let (mut limit, mut now) = (AdaptiveLimit::new(MAX), 0);
    for number in 0..5_000 {
        let stage = limit.begin(limit.permitted());
        now += 1_000_000;
        match stage.filter(|_| number % 64 > 0) {
            Some(stage) => limit.give_up(stage),
            None => {
                let wait = Duration::from_millis(if limit.permitted() < MAX { 10 } else { 100 });
                limit.observe(OriginWait { stage, page: 1, wait }, Monotonic::from_nanos(now));
            }
        }
    }
    assert_eq!(limit.limit(), MAX);
}
