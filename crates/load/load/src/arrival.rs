//! The course of a run: its consecutive parts, the load of each, and how many measured requests are
//! left.
//!
//! Invariant: over all threads, at most as many measured requests start as the plan asks for. In a
//! closed loop none starts after the end. Parts are in order and do not overlap; between stages
//! there may be gaps.

use clock::Monotonic;
use record::{Arrival, Plan, Rate, StageLoad};
use stats::Random;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The course of a run, shared by its threads.
#[derive(Debug)]
pub(crate) struct Course {
    parts: Vec<LoadPart>,
    start: Monotonic,
    measuring_since: Monotonic,
    ramp: Duration,
    spread: Duration,
    seed: u64,
    requests_left: Option<AtomicU64>,
}

/// A span of time with one kind of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LoadPart {
    pub(crate) begin: Monotonic,
    /// `None` if only the number of requests ends it.
    pub(crate) end: Option<Monotonic>,
    /// Index of its stage; 0 if the plan has none. `None` for the warm-up.
    pub(crate) stage: Option<u16>,
    pub(crate) load: PartLoad,
}

/// The load of a part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PartLoad {
    /// A number of users in a closed loop.
    Users(usize),
    /// A schedule of requests in an open loop.
    Open(OpenPart),
}

/// The rates of an open part, in requests per second, at its beginning and its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OpenPart {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) is_poisson: bool,
}

impl LoadPart {
    pub(crate) fn length(&self) -> Option<Duration> {
        self.end.map(|end| end.since(self.begin))
    }

    fn is_open(&self) -> bool {
        matches!(self.load, PartLoad::Open(_))
    }
}

impl Course {
    /// The course of a plan that begins at `start`.
    pub(crate) fn new(start: Monotonic, plan: &Plan) -> Self {
        let measuring_since = start.plus(plan.warmup);
        let mut parts = Vec::new();
        let mut begin = measuring_since;
        if plan.stages.is_empty() {
            let load = plan_load(plan);
            parts.push(LoadPart {
                begin,
                end: plan.stop.time.map(|time| begin.plus(time)),
                stage: Some(0),
                load,
            });
        }
        for (place, stage) in (0..).zip(&plan.stages) {
            let end = begin.plus(stage.time);
            let load = match stage.load {
                StageLoad::Users(users) => PartLoad::Users(users),
                StageLoad::Rate(rate) => {
                    PartLoad::Open(OpenPart { from: rate, to: rate, is_poisson: is_poisson(plan) })
                }
            };
            parts.push(LoadPart { begin, end: Some(end), stage: Some(place), load });
            begin = end.plus(plan.cooldown);
        }
        if let Some(first) = parts.first().copied().filter(|_| !plan.warmup.is_zero()) {
            let load = match first.load {
                // A plan with a changing rate warms up at the rate it begins with.
                PartLoad::Open(open) => PartLoad::Open(OpenPart { to: open.from, ..open }),
                users @ PartLoad::Users(_) => users,
            };
            parts.insert(0, LoadPart { begin: start, end: Some(measuring_since), stage: None, load });
        }
        Self {
            parts: parts.into_iter().flat_map(|part| grown(part, start, plan.ramp)).flatten().collect(),
            start,
            measuring_since,
            ramp: plan.ramp,
            spread: plan.spread,
            seed: plan.seed,
            requests_left: plan.stop.requests.map(AtomicU64::new),
        }
    }

    /// When the measured part begins.
    pub(crate) fn measuring_since(&self) -> Monotonic {
        self.measuring_since
    }

    /// The part with this index.
    pub(crate) fn part(&self, place: usize) -> Option<&LoadPart> {
        self.parts.get(place)
    }

    /// When a closed loop cuts off the requests in flight. `None` for an open loop, which waits for
    /// them.
    pub(crate) fn cut_off(&self) -> Option<Monotonic> {
        self.parts.last().filter(|part| !part.is_open()).and_then(|part| part.end)
    }

    /// The end of the last part.
    pub(crate) fn end(&self) -> Option<Monotonic> {
        self.parts.last().and_then(|part| part.end)
    }

    /// Whether the cut-off has passed at `now`, so that responses no longer count.
    pub(crate) fn is_over(&self, now: Monotonic) -> bool {
        self.cut_off().is_some_and(|end| now >= end)
    }

    /// Takes one of the remaining measured requests; false if there is none.
    pub(crate) fn take(&self) -> bool {
        let Some(left) = &self.requests_left else { return true };
        // Relaxed is enough: taking a request is one atomic operation and guards no other data.
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Whether no measured request is left to start.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.requests_left.as_ref().is_some_and(|left| left.load(Ordering::Relaxed) == 0)
    }

    /// When user `index` of a part with `users` users begins. The users of each part are evenly
    /// spread over the ramp-up, which begins with the first part. In a later part, those whose turn
    /// has passed begin at once.
    ///
    /// Without a ramp-up, each user begins at a random moment of its share of the spread. Even
    /// distances could be multiples of the response time, and users would wait for each other
    /// again.
    pub(crate) fn user_begin(&self, part: LoadPart, index: usize, users: usize) -> Monotonic {
        let (within, place) = if self.ramp.is_zero() {
            let seed = self.seed.wrapping_add(index as u64);
            let chance = Random::from_seed(Random::from_seed(seed).next_u64()).below(1 << 20);
            (self.spread, index as f64 + chance as f64 / f64::from(1 << 20))
        } else {
            (self.ramp, index as f64)
        };
        part.begin.max(self.start.plus(within.mul_f64(place / users.max(1) as f64)))
    }

    /// The end of each stage, in order; `None` if only the number of requests ends it.
    pub(crate) fn stage_ends(&self) -> impl Iterator<Item = Option<Monotonic>> {
        let mut parts = self.parts.iter().filter(|part| part.stage.is_some()).peekable();
        std::iter::from_fn(move || {
            let part = parts.next()?;
            let mut end = part.end;
            while let Some(same) = parts.next_if(|other| other.stage == part.stage) {
                end = same.end;
            }
            Some(end)
        })
    }

    /// For how long stage `place` was measured until `now`.
    pub(crate) fn measured(&self, place: u16, now: Monotonic) -> Duration {
        let parts = self.parts.iter().filter(|part| part.stage == Some(place));
        parts.map(|part| part.end.map_or(now, |end| end.min(now)).since(part.begin)).sum()
    }

    /// For how long the run was measured until `now`: the stages without the gaps between them.
    pub(crate) fn elapsed(&self, now: Monotonic) -> Duration {
        let stages = self.stage_ends().count() as u16;
        (0..stages).map(|place| self.measured(place, now)).sum()
    }

    /// The time that all users together had until `now`; `None` if a part is an open loop.
    pub(crate) fn user_time(&self, now: Monotonic) -> Option<Duration> {
        let mut time = Duration::ZERO;
        for part in self.parts.iter().filter(|part| part.stage.is_some()) {
            let PartLoad::Users(users) = part.load else { return None };
            let end = part.end.map_or(now, |end| end.min(now));
            time += if part.begin < self.start.plus(self.ramp.max(self.spread)) {
                (0..users).map(|index| end.since(self.user_begin(*part, index, users))).sum::<Duration>()
            } else {
                end.since(part.begin).mul_f64(users as f64)
            };
        }
        Some(time)
    }

    /// Whether a measured part is a closed loop.
    pub(crate) fn has_users(&self) -> bool {
        self.parts.iter().any(|part| part.stage.is_some() && !part.is_open())
    }

    /// How long the open parts were measured until `now`.
    pub(crate) fn open_time(&self, now: Monotonic) -> Duration {
        let open = self.parts.iter().filter(|part| part.stage.is_some() && part.is_open());
        open.map(|part| part.end.map_or(now, |end| end.min(now)).since(part.begin)).sum()
    }

    /// The mean rate of the open parts until `now`, in requests per second; `None` if there is no
    /// open part.
    pub(crate) fn rate_asked(&self, now: Monotonic) -> Option<f64> {
        let (mut expected, mut seconds) = (0.0, 0.0);
        for part in self.parts.iter().filter(|part| part.stage.is_some()) {
            let PartLoad::Open(open) = part.load else { continue };
            let length = part.end.map_or(now, |end| end.min(now)).since(part.begin).as_secs_f64();
            let whole = part.length().map_or(length, |whole| whole.as_secs_f64());
            let reached =
                if whole > 0.0 { open.from + (open.to - open.from) * length / whole } else { open.to };
            expected += f64::midpoint(open.from, reached) * length;
            seconds += length;
        }
        (seconds > 0.0).then(|| expected / seconds)
    }
}

/// The load of a plan without stages.
fn plan_load(plan: &Plan) -> PartLoad {
    match plan.arrival {
        Arrival::Closed => PartLoad::Users(plan.users),
        Arrival::Open { rate: Rate::Ramp { from, to }, .. } => {
            PartLoad::Open(OpenPart { from, to, is_poisson: false })
        }
        Arrival::Open { rate, .. } => {
            PartLoad::Open(OpenPart { from: rate.mean(), to: rate.mean(), is_poisson: is_poisson(plan) })
        }
    }
}

fn is_poisson(plan: &Plan) -> bool {
    matches!(plan.arrival, Arrival::Open { rate: Rate::Poisson(_), .. })
}

/// A part as the ramp-up changes it: until the ramp-up of a run that begins at `start` is over, the
/// constant rate of an open part is a growing share of its full size. If the part is longer, it is
/// split there. Closed loops start their users one by one instead.
fn grown(part: LoadPart, start: Monotonic, ramp: Duration) -> [Option<LoadPart>; 2] {
    let ramp_end = start.plus(ramp);
    let open = match part.load {
        PartLoad::Open(open) if open.from == open.to && part.begin < ramp_end => open,
        _ => return [Some(part), None],
    };
    let share = |at: Monotonic| at.since(start).as_secs_f64() / ramp.as_secs_f64();
    let end = part.end.map_or(ramp_end, |end| end.min(ramp_end));
    let (from, to) = (open.from * share(part.begin), open.to * share(end));
    let growing = LoadPart { end: Some(end), load: PartLoad::Open(OpenPart { from, to, ..open }), ..part };
    let has_rest = part.end.is_none_or(|end| end > ramp_end);
    [Some(growing), has_rest.then_some(LoadPart { begin: ramp_end, ..part })]
}

#[cfg(test)]
mod tests {
    use super::{Course, LoadPart, OpenPart, PartLoad};
    use address::HttpUrl;
    use clock::Monotonic;
    use record::{Arrival, Plan, Rate, Stage, StageLoad, Stop};
    use std::time::Duration;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos(seconds * 1_000_000_000)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn plan() -> Plan {
        Plan { users: 4, ..Plan::new(HttpUrl::parse("http://h/").unwrap()) }
    }

    #[test]
    fn warm_up_comes_before_the_measured_part() {
        let stop = Stop { time: Some(seconds(3)), ..Stop::default() };
        let course = Course::new(at(10), &Plan { warmup: seconds(1), stop, ..plan() });
        let load = PartLoad::Users(4);
        assert_eq!(course.part(0), Some(&LoadPart { begin: at(10), end: Some(at(11)), stage: None, load }));
        assert_eq!(
            course.part(1),
            Some(&LoadPart { begin: at(11), end: Some(at(14)), stage: Some(0), load })
        );
        assert_eq!((course.measuring_since(), course.cut_off()), (at(11), Some(at(14))));
        assert!(!course.is_over(at(13)) && course.is_over(at(14)));
        assert_eq!((course.elapsed(at(13)), course.user_time(at(13))), (seconds(2), Some(seconds(8))));
    }

    #[test]
    fn requests_are_counted_down_to_zero() {
        let course =
            Course::new(at(0), &Plan { stop: Stop { requests: Some(2), ..Stop::default() }, ..plan() });
        assert!(course.take() && !course.is_exhausted() && course.take());
        assert!(course.is_exhausted() && !course.take());
        assert_eq!((course.end(), course.cut_off()), (None, None));
    }

    #[test]
    fn gaps_between_stages_are_in_no_figure() {
        let stage = |users, time| Stage { load: StageLoad::Users(users), time: seconds(time) };
        let stages = vec![stage(2, 10), stage(6, 20)];
        let course = Course::new(at(0), &Plan { stages, cooldown: seconds(5), ..plan() });
        let parts = [0, 1].map(|place| course.part(place).map(|part| (part.begin, part.end.unwrap())));
        assert_eq!(parts, [Some((at(0), at(10))), Some((at(15), at(35)))]);
        assert_eq!(course.stage_ends().collect::<Vec<_>>(), [Some(at(10)), Some(at(35))]);
        assert_eq!(
            ["at 12", "at 20", "at 99"].map(|text| course.elapsed(at(text[3..].parse().unwrap()))),
            [seconds(10), seconds(15), seconds(30)]
        );
        assert_eq!((course.measured(1, at(20)), course.user_time(at(99))), (seconds(5), Some(seconds(140))));
    }

    #[test]
    fn open_loop_ramps_up_from_zero_and_has_no_cut_off() {
        let arrival = Arrival::Open { rate: Rate::Poisson(100.0), in_flight_max: 1 };
        let stop = Stop { time: Some(seconds(10)), ..Stop::default() };
        let course = Course::new(at(0), &Plan { arrival, stop, ramp: seconds(4), ..plan() });
        let open = |from| PartLoad::Open(OpenPart { from, to: 100.0, is_poisson: true });
        let (growing, full) = (course.part(0).unwrap(), course.part(1).unwrap());
        assert_eq!((growing.load, growing.stage, growing.end), (open(0.0), Some(0), Some(at(4))));
        assert_eq!((full.load, full.stage, full.begin), (open(100.0), Some(0), at(4)));
        assert_eq!((course.cut_off(), course.end()), (None, Some(at(10))));
        assert_eq!((course.stage_ends().count(), course.user_time(at(10))), (1, None));
        assert!((course.rate_asked(at(10)).unwrap() - 80.0).abs() < 1e-9);
        assert!((course.rate_asked(at(2)).unwrap() - 25.0).abs() < 1e-9);
        assert_eq!((course.open_time(at(2)), course.open_time(at(99))), (seconds(2), seconds(10)));
    }

    #[test]
    fn open_loop_ramp_spans_the_warm_up_and_stages() {
        let stage = |rate, time| Stage { load: StageLoad::Rate(rate), time: seconds(time) };
        let arrival = Arrival::Open { rate: Rate::Constant(1.0), in_flight_max: 1 };
        let stages = vec![stage(400.0, 1), stage(40.0, 9)];
        let course = Course::new(
            at(0),
            &Plan { arrival, stages, warmup: seconds(1), ramp: seconds(4), cooldown: seconds(1), ..plan() },
        );
        let parts = (0..).map_while(|place| course.part(place)).map(|part| {
            let PartLoad::Open(open) = part.load else { panic!("{part:?}") };
            (part.stage, part.begin, part.end, (open.from, open.to))
        });
        assert_eq!(
            parts.collect::<Vec<_>>(),
            [
                (None, at(0), Some(at(1)), (0.0, 100.0)),
                (Some(0), at(1), Some(at(2)), (100.0, 200.0)),
                (Some(1), at(3), Some(at(4)), (30.0, 40.0)),
                (Some(1), at(4), Some(at(12)), (40.0, 40.0)),
            ]
        );
        assert_eq!(course.stage_ends().collect::<Vec<_>>(), [Some(at(2)), Some(at(12))]);
    }

    #[test]
    fn ramp_longer_than_the_run_grows_until_the_end() {
        let arrival = Arrival::Open { rate: Rate::Constant(100.0), in_flight_max: 1 };
        let stop = Stop { time: Some(seconds(5)), ..Stop::default() };
        let course = Course::new(at(0), &Plan { arrival, stop, ramp: seconds(10), ..plan() });
        let load = PartLoad::Open(OpenPart { from: 0.0, to: 50.0, is_poisson: false });
        assert_eq!(course.part(0), Some(&LoadPart { begin: at(0), end: Some(at(5)), stage: Some(0), load }));
        assert_eq!((course.part(1), course.rate_asked(at(5))), (None, Some(25.0)));
    }

    #[test]
    fn users_of_each_part_begin_evenly_spread_over_the_ramp() {
        let stage = |users, time| Stage { load: StageLoad::Users(users), time: seconds(time) };
        let stages = vec![stage(8, 4), stage(4, 9)];
        let course = Course::new(at(1), &Plan { stages, ramp: seconds(8), ..plan() });
        let begins = |place, users| {
            let part = *course.part(place).unwrap();
            (0..users).map(|index| course.user_begin(part, index, users)).collect::<Vec<_>>()
        };
        assert_eq!(begins(0, 8), [1, 2, 3, 4, 5, 6, 7, 8].map(at));
        assert_eq!(begins(1, 4), [5, 5, 5, 7].map(at));
    }

    #[test]
    fn users_begin_at_random_moments_of_the_spread_in_their_order() {
        let spread = Duration::from_millis(20);
        let stop = Stop { time: Some(seconds(5)), ..Stop::default() };
        let begins = |seed| {
            let course = Course::new(at(1), &Plan { users: 10, spread, stop, seed, ..plan() });
            let part = *course.part(0).unwrap();
            (0..10).map(|index| course.user_begin(part, index, 10)).collect::<Vec<_>>()
        };
        assert!(begins(1).is_sorted() && begins(1) == begins(1) && begins(1) != begins(2));
        let gaps: Vec<_> = begins(1).windows(2).map(|two| two[1].since(two[0])).collect();
        assert!(gaps.windows(2).any(|two| two[0].abs_diff(two[1]) > spread / 40), "{gaps:?}");
        for (index, begin) in (0..).zip(begins(3)) {
            let share = at(1).plus(spread / 10 * index);
            assert!(begin >= share && begin < share.plus(spread / 10), "{index}: {begin:?}");
        }
    }

    #[test]
    fn users_count_from_their_turn_in_the_ramp() {
        let stop = |time| Stop { time: Some(seconds(time)), ..Stop::default() };
        let ramp = |warmup, ramp, time| {
            let plan =
                Plan { users: 10, warmup: seconds(warmup), ramp: seconds(ramp), stop: stop(time), ..plan() };
            Course::new(at(0), &plan).user_time(at(99)).unwrap()
        };
        // The users begin at 0 s, 1 s, 2 s and so on.
        assert_eq!(ramp(0, 10, 5), seconds(5 + 4 + 3 + 2 + 1));
        assert_eq!(ramp(3, 10, 5), seconds(5 * 4 + 4 + 3 + 2 + 1));
        assert_eq!((ramp(10, 10, 5), ramp(0, 0, 5)), (seconds(50), seconds(50)));
    }
}
