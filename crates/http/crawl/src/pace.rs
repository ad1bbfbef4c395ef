//! How fast a site may be visited, from its response times and errors so far.
//!
//! Visitors come first, so the method is that of LEDBAT (RFC 6817), a transport that yields to all
//! others: the added delay is measured against the lowest delay of the past, and the rate falls
//! when the added delay exceeds a target, before anything is lost. A failure halves the rate.
//!
//! The rate is a *share*: the mean number of requests in progress. It starts at [`SHARE_START`]:
//! one request at a time, and after it a pause as long as the response took. Below 1 there is
//! always one request at a time, with longer pauses.
//!
//! 1. Response times come in windows of [`WINDOW`]; the *recent* time is the median of the last
//!    window. The *base* is the lowest median of the last [`BASE_WINDOWS`] windows. Pages differ in
//!    their times, and the median of a window is not moved by one slow page.
//! 2. The target of the added delay is half of the base, at least [`TARGET_MIN`].
//! 3. After each window, the share changes by `(target - added) / target`, at most by 1 upwards
//!    ([`GAIN_MAX`]) and to a half downwards. It stays between [`SHARE_MIN`] and the caller's
//!    limit.
//! 4. A failure halves the share and is followed by a pause of a second, which doubles with each
//!    further failure in a row. A `Retry-After` is honoured.
//! 5. The visit stops after [`PaceLimits::failures_in_row_max`] failures in a row, after
//!    [`RECENT_FAILURES_MAX`] among the last [`RECENT`] responses, when `Retry-After` exceeds
//!    [`RETRY_AFTER_MAX`], and, if the caller wants, when the added delay exceeds the target in
//!    [`SLOW_WINDOWS_MAX`] windows in a row.
//!
//! Invariant: never more requests are in progress than the share permits, and two starts are at
//! least [`PaceLimits::interval_min`] apart. Time is a parameter.

use clock::Monotonic;
use std::collections::VecDeque;
use std::time::Duration;

/// Requests in progress, on average, at the start.
pub const SHARE_START: f64 = 0.5;

/// Lowest share: one request, and a pause of 15 times its duration.
pub const SHARE_MIN: f64 = 1.0 / 16.0;

/// Responses of a window.
pub const WINDOW: usize = 8;

/// Windows whose lowest median is the base. After this many windows, a site that became slower for
/// another reason is measured against its new time.
pub const BASE_WINDOWS: usize = 20;

/// Smallest target of the added delay; smaller differences are noise of the network.
pub const TARGET_MIN: Duration = Duration::from_millis(50);

/// Largest rise of the share after a window.
pub const GAIN_MAX: f64 = 1.0;

/// Windows in a row with too much added delay after which a visit may stop.
pub const SLOW_WINDOWS_MAX: u32 = 3;

/// Responses among which failures are counted.
pub const RECENT: usize = 20;

/// Failures among the last [`RECENT`] responses at which the visit stops.
pub const RECENT_FAILURES_MAX: usize = 5;

/// Pause after a failure; it doubles up to [`PAUSE_MAX`].
pub const PAUSE_FIRST: Duration = Duration::from_secs(1);

/// Longest pause after a failure.
pub const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Longest `Retry-After` to wait for.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);

/// Longest rest after a response, so that one slow page does not end the progress.
const REST_MAX: Duration = Duration::from_secs(60);

/// The limits that the caller sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaceLimits {
    /// Shortest time between two starts: from a rate, or robots.txt's `Crawl-delay`.
    pub interval_min: Duration,
    /// Most requests in progress.
    pub at_once_max: u32,
    /// Failures in a row at which the visit stops.
    pub failures_in_row_max: u32,
    /// Whether the visit stops when the site becomes slower, instead of going on at the lowest
    /// share.
    pub stops_when_slow: bool,
}

impl PaceLimits {
    /// For a look at a site: one request at a time, 100 ms apart, and an end when the site is in
    /// trouble.
    pub const TRY: Self = Self {
        interval_min: Duration::from_millis(100),
        at_once_max: 1,
        failures_in_row_max: 2,
        stops_when_slow: true,
    };

    /// For filling a cache: up to four requests at once, for as long as it takes.
    pub const WARM: Self =
        Self { interval_min: Duration::ZERO, at_once_max: 4, failures_in_row_max: 5, stops_when_slow: false };
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacedOutcome {
    /// Time to the first byte.
    pub took: Duration,
    /// Whether the site is in trouble: no response, or a status of 429, 500, 502, 503 or 504.
    pub is_failure: bool,
    /// Whether a cache answered, so that the application was not asked. Its time says nothing about
    /// the application, and no rest follows.
    pub is_hit: bool,
    /// The value of `Retry-After`.
    pub retry_after: Option<Duration>,
}

/// The caller's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaceDecision {
    /// Start a request now.
    Start,
    /// Start no request before this moment, and ask again.
    At(Monotonic),
    /// Wait for the end of a request.
    Await,
    /// Send nothing more.
    Stop(StopCause),
}

/// Why a visit stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// This many requests in a row failed.
    FailuresInRow(u32),
    /// This many of the last [`RECENT`] requests failed.
    RecentFailures(u32),
    /// The site asks to come back after so long.
    RetryAfter(Duration),
    /// The site became slower.
    Slower {
        /// The usual time.
        base: Duration,
        /// The median of the last responses.
        recent: Duration,
    },
}

/// The state of the pace.
#[derive(Clone, Debug)]
pub struct Pace {
    limits: PaceLimits,
    share: f64,
    in_progress: u32,
    last_start: Option<Monotonic>,
    /// No request that was sent has started later than this.
    last_sent: Option<Monotonic>,
    not_before: Monotonic,
    /// Times of the current, incomplete window.
    window: Vec<Duration>,
    /// Medians of the last [`BASE_WINDOWS`] windows, the latest last.
    medians: VecDeque<Duration>,
    slow_windows: u32,
    failures_in_row: u32,
    /// Whether each of the last [`RECENT`] requests failed.
    recent: VecDeque<bool>,
    stop: Option<StopCause>,
}

impl Pace {
    /// A pace before the first request.
    pub fn new(limits: PaceLimits) -> Self {
        Self {
            limits,
            share: SHARE_START.min(f64::from(limits.at_once_max)),
            in_progress: 0,
            last_start: None,
            last_sent: None,
            not_before: Monotonic::default(),
            window: Vec::new(),
            medians: VecDeque::new(),
            slow_windows: 0,
            failures_in_row: 0,
            recent: VecDeque::new(),
            stop: None,
        }
    }

    /// The action at `now`.
    pub fn decide(&self, now: Monotonic) -> PaceDecision {
        if let Some(cause) = self.stop {
            return PaceDecision::Stop(cause);
        }
        let at_once = (self.share as u32).clamp(1, self.limits.at_once_max.max(1));
        if self.in_progress >= at_once {
            return PaceDecision::Await;
        }
        let apart = self.last_start.map(|start| start.plus(self.limits.interval_min)).unwrap_or_default();
        let earliest = self.not_before.max(apart);
        if now >= earliest { PaceDecision::Start } else { PaceDecision::At(earliest) }
    }

    /// Notes that a request started.
    pub fn started(&mut self, now: Monotonic) {
        self.in_progress += 1;
        self.last_start = Some(now);
    }

    /// Notes that a request that started was not sent after all. Its place in the rate is free
    /// again, unless another one is in progress, which may have started later.
    pub fn withdrawn(&mut self) {
        self.in_progress = self.in_progress.saturating_sub(1);
        if self.in_progress == 0 {
            self.last_start = self.last_sent;
        }
    }

    /// Notes that a request ended.
    pub fn ended(&mut self, now: Monotonic, outcome: PacedOutcome) {
        self.in_progress = self.in_progress.saturating_sub(1);
        self.last_sent = self.last_start;
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(outcome.is_failure);
        if let Some(wait) = outcome.retry_after.filter(|_| outcome.is_failure) {
            self.pause(now, wait);
            if wait > RETRY_AFTER_MAX {
                self.stop_by(StopCause::RetryAfter(wait));
            }
        }
        if outcome.is_failure {
            self.fail(now);
            return;
        }
        self.failures_in_row = 0;
        if outcome.is_hit {
            return;
        }
        self.measure(outcome.took);
        if self.share < 1.0 {
            let rest = outcome.took.mul_f64(1.0 / self.share - 1.0);
            self.pause(now, rest.min(REST_MAX));
        }
    }

    /// The mean number of requests in progress that the pace permits now.
    pub fn share(&self) -> f64 {
        self.share
    }

    fn fail(&mut self, now: Monotonic) {
        self.failures_in_row += 1;
        self.share = (self.share / 2.0).max(SHARE_MIN);
        let doublings = (self.failures_in_row - 1).min(6);
        self.pause(now, (PAUSE_FIRST * 2_u32.pow(doublings)).min(PAUSE_MAX));
        let recent = self.recent.iter().filter(|failed| **failed).count();
        if self.failures_in_row >= self.limits.failures_in_row_max {
            self.stop_by(StopCause::FailuresInRow(self.failures_in_row));
        } else if recent >= RECENT_FAILURES_MAX {
            self.stop_by(StopCause::RecentFailures(recent as u32));
        }
    }

    fn pause(&mut self, now: Monotonic, length: Duration) {
        self.not_before = self.not_before.max(now.plus(length));
    }

    /// The first cause counts.
    fn stop_by(&mut self, cause: StopCause) {
        self.stop.get_or_insert(cause);
    }

    fn measure(&mut self, took: Duration) {
        self.window.push(took);
        if self.window.len() < WINDOW {
            return;
        }
        let recent = median(&mut self.window);
        self.window.clear();
        if self.medians.len() >= BASE_WINDOWS {
            self.medians.pop_front();
        }
        self.medians.push_back(recent);
        let base = self.medians.iter().min().copied().unwrap_or(recent);
        let target = (base / 2).max(TARGET_MIN);
        let added = recent.saturating_sub(base);
        let change = 1.0 - added.as_secs_f64() / target.as_secs_f64();
        let most = f64::from(self.limits.at_once_max.max(1));
        self.share = (self.share + change.min(GAIN_MAX)).max(self.share / 2.0).clamp(SHARE_MIN, most);
        self.slow_windows = if added > target { self.slow_windows + 1 } else { 0 };
        if self.limits.stops_when_slow && self.slow_windows >= SLOW_WINDOWS_MAX {
            self.stop_by(StopCause::Slower { base, recent });
        }
    }
}

/// The upper median; zero of no times.
fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Pace, PaceDecision, PaceLimits, PacedOutcome, RETRY_AFTER_MAX, SHARE_MIN, StopCause};
    use clock::Monotonic;
    use proptest::prelude::{any, prop, prop_assert, proptest};
    use std::time::Duration;

    const PAGE: Duration = Duration::from_millis(100);

    fn good(took: Duration) -> PacedOutcome {
        PacedOutcome { took, is_failure: false, is_hit: false, retry_after: None }
    }

    fn failed() -> PacedOutcome {
        PacedOutcome { is_failure: true, ..good(Duration::from_millis(1)) }
    }

    /// A site that answers `at_once` requests in the same time, and more of them slower.
    struct Site {
        pace: Pace,
        now: Monotonic,
        /// Requests in progress with the times of their ends.
        open: Vec<(Monotonic, Duration)>,
        most: usize,
    }

    impl Site {
        fn new(limits: PaceLimits) -> Self {
            Self { pace: Pace::new(limits), now: Monotonic::default(), open: Vec::new(), most: 0 }
        }

        /// Sends `count` requests. `took` gives the outcome of each for the number of requests in
        /// progress. Returns the seconds of all, or the cause of the stop.
        fn visit(&mut self, count: usize, took: impl Fn(usize) -> PacedOutcome) -> Result<f64, StopCause> {
            let begin = self.now;
            let mut left = count;
            while left > 0 {
                match self.pace.decide(self.now) {
                    PaceDecision::Start => {
                        self.pace.started(self.now);
                        let outcome = took(self.open.len() + 1);
                        self.open.push((self.now.plus(outcome.took), outcome.took));
                        self.most = self.most.max(self.open.len());
                        left -= 1;
                        if outcome.is_failure || outcome.is_hit {
                            self.end(outcome);
                        }
                    }
                    PaceDecision::At(moment) => {
                        // The end of a request may come first.
                        let first = self.open.iter().map(|(end, _)| *end).min();
                        match first.filter(|end| *end < moment) {
                            Some(_) => self.end(good(PAGE)),
                            None => self.now = moment,
                        }
                    }
                    PaceDecision::Await => self.end(good(PAGE)),
                    PaceDecision::Stop(cause) => return Err(cause),
                }
            }
            Ok(self.now.since(begin).as_secs_f64())
        }

        fn end(&mut self, outcome: PacedOutcome) {
            let first = self.open.iter().enumerate().min_by_key(|(_, (end, _))| *end).unwrap().0;
            let (end, took) = self.open.swap_remove(first);
            self.now = self.now.max(end);
            let outcome = PacedOutcome { took, ..outcome };
            self.pace.ended(self.now, outcome);
        }
    }

    #[test]
    fn starts_with_one_request_and_a_rest_as_long() {
        let mut site = Site::new(PaceLimits { interval_min: Duration::ZERO, ..PaceLimits::TRY });
        let seconds = site.visit(8, |_| good(PAGE)).unwrap();
        assert!((seconds - 1.5).abs() < 0.11, "{seconds}");
        assert_eq!(site.most, 1);
    }

    #[test]
    fn calm_site_is_visited_faster_up_to_the_limit() {
        let mut site = Site::new(PaceLimits::WARM);
        let slow = site.visit(32, |_| good(PAGE)).unwrap();
        site.visit(100, |_| good(PAGE)).unwrap();
        let fast = site.visit(32, |_| good(PAGE)).unwrap();
        assert_eq!(site.most, 4);
        assert!(fast < slow / 2.0 && fast > 0.5, "{slow} {fast}");
    }

    #[test]
    fn site_with_one_worker_gets_few_requests_at_once() {
        let mut site = Site::new(PaceLimits::WARM);
        site.visit(400, |open| good(PAGE * open as u32)).unwrap();
        assert!(site.pace.share() < 3.0, "{}", site.pace.share());
    }

    #[test]
    fn warm_yields_to_visitors_and_returns() {
        let mut site = Site::new(PaceLimits::WARM);
        site.visit(100, |_| good(PAGE)).unwrap();
        assert!(site.pace.share() > 3.0);
        site.visit(60, |_| good(PAGE * 4)).unwrap();
        assert!(site.pace.share() < 0.2, "{}", site.pace.share());
        site.visit(60, |_| good(PAGE)).unwrap();
        assert!(site.pace.share() > 3.0, "{}", site.pace.share());
    }

    #[test]
    fn look_at_a_site_stops_when_it_becomes_slower() {
        let mut site = Site::new(PaceLimits::TRY);
        site.visit(16, |_| good(PAGE)).unwrap();
        let cause = site.visit(100, |_| good(PAGE * 3)).unwrap_err();
        assert_eq!(cause, StopCause::Slower { base: PAGE, recent: PAGE * 3 });
    }

    #[test]
    fn one_slow_page_changes_nothing() {
        let mut site = Site::new(PaceLimits::TRY);
        site.visit(16, |_| good(PAGE)).unwrap();
        let share = site.pace.share();
        site.visit(1, |_| good(PAGE * 50)).unwrap();
        site.visit(15, |_| good(PAGE)).unwrap();
        assert!(site.pace.share() >= share);
    }

    #[test]
    fn failures_pause_longer_each_time_and_then_stop() {
        let mut site = Site::new(PaceLimits::WARM);
        let seconds = site.visit(4, |_| failed()).unwrap();
        assert!((7.0..7.1).contains(&seconds), "{seconds}");
        assert_eq!(site.visit(9, |_| failed()), Err(StopCause::FailuresInRow(5)));
        assert_eq!(site.pace.share(), SHARE_MIN);
        let mut looked = Site::new(PaceLimits::TRY);
        assert_eq!(looked.visit(9, |_| failed()), Err(StopCause::FailuresInRow(2)));
        assert!(looked.now < Monotonic::from_nanos(1_500_000_000));
    }

    #[test]
    fn failures_among_successes_stop_too() {
        let mut site = Site::new(PaceLimits::WARM);
        let mut stopped = None;
        for _ in 0..10 {
            let first = site.visit(2, |_| good(PAGE)).err();
            let second = site.visit(1, |_| failed()).err();
            stopped = stopped.or(first).or(second);
        }
        assert_eq!(stopped, Some(StopCause::RecentFailures(5)));
    }

    #[test]
    fn retry_after_is_honoured_or_ends_the_visit() {
        let wait = |seconds| PacedOutcome { retry_after: Some(Duration::from_secs(seconds)), ..failed() };
        let mut site = Site::new(PaceLimits::WARM);
        site.visit(1, |_| wait(30)).unwrap();
        assert!(matches!(site.pace.decide(site.now), PaceDecision::At(moment)
            if moment.since(site.now) == Duration::from_secs(30)));
        let long = RETRY_AFTER_MAX.as_secs() + 1;
        site.visit(1, |_| wait(long)).unwrap();
        assert_eq!(site.visit(1, |_| wait(1)), Err(StopCause::RetryAfter(Duration::from_secs(long))));
    }

    #[test]
    fn hits_need_no_rest_and_are_not_measured() {
        let mut site = Site::new(PaceLimits::WARM);
        let hit = PacedOutcome { is_hit: true, ..good(Duration::from_micros(100)) };
        let seconds = site.visit(100, |_| hit).unwrap();
        assert!(seconds < 0.02, "{seconds}");
        site.visit(16, |_| good(PAGE)).unwrap();
        assert!(site.pace.share() > 1.0);
    }

    #[test]
    fn interval_separates_starts() {
        let limits = PaceLimits { interval_min: Duration::from_secs(1), ..PaceLimits::WARM };
        let mut site = Site::new(limits);
        let seconds = site.visit(50, |_| good(Duration::from_millis(1))).unwrap();
        assert!((49.0..49.1).contains(&seconds), "{seconds}");
    }

    proptest! {
        #[test]
        fn never_too_many_and_never_too_early(
            outcomes in prop::collection::vec((0_u64..500, 0_u8..10, any::<bool>()), 1..200),
            at_once_max in 1_u32..6,
            interval_ms in 0_u64..50,
        ) {
            let interval_min = Duration::from_millis(interval_ms);
            let limits = PaceLimits { at_once_max, interval_min, ..PaceLimits::WARM };
            let mut pace = Pace::new(limits);
            let (mut now, mut open, mut last) = (Monotonic::default(), 0, None::<Monotonic>);
            for (millis, kind, prefers_end) in outcomes {
                match pace.decide(now) {
                    PaceDecision::Start if !(prefers_end && open > 0) => {
                        prop_assert!(last.is_none_or(|last| now.since(last) >= interval_min));
                        pace.started(now);
                        open += 1;
                        last = Some(now);
                    }
                    PaceDecision::At(moment) if open == 0 => { prop_assert!(moment > now); now = moment; }
                    PaceDecision::Stop(_) => break,
                    _ => {
                        prop_assert!(open > 0, "nothing could ever start again");
                        now = now.plus(Duration::from_millis(millis));
                        open -= 1;
                        let outcome = PacedOutcome {
                            took: Duration::from_millis(millis),
                            is_failure: kind == 0,
                            is_hit: kind == 1,
                            retry_after: None,
                        };
                        pace.ended(now, outcome);
                    }
                }
                prop_assert!(open <= at_once_max);
                prop_assert!((SHARE_MIN..=f64::from(at_once_max)).contains(&pace.share()));
            }
        }
    }

    #[test]
    fn withdrawn_request_gives_back_its_own_start_only() {
        let at = |millis| Monotonic::default().plus(Duration::from_millis(millis));
        let second = Duration::from_secs(1);
        let mut pace = Pace::new(PaceLimits { interval_min: second, at_once_max: 4, ..PaceLimits::WARM });
        pace.started(at(0));
        pace.withdrawn();
        assert_eq!(pace.decide(at(1)), PaceDecision::Start, "nothing was sent");
        pace.share = 4.0;
        pace.started(at(10));
        pace.started(at(1_010));
        pace.ended(at(1_020), good(PAGE));
        pace.withdrawn();
        assert_eq!(pace.decide(at(1_030)), PaceDecision::At(at(2_010)), "the second one was sent");
        pace.started(at(2_010));
        pace.withdrawn();
        assert_eq!(pace.decide(at(2_010)), PaceDecision::Start);
    }
}
