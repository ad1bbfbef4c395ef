//! A limit on concurrent requests that adapts to the response times of its origin: how many
//! requests the origin works on at a time, and half as many again.
//!
//! ```text
//!   loaded stage: requests fill the limit ──> light stage: half of the limit for a few requests
//!         ^                                                   │
//!         └── new limit = 1.5 × limit × wait when light / wait when loaded ──┘
//! ```
//!
//! If the origin works on all requests at once, half as many are not answered sooner. The quotient
//! is then 1, and the limit rises. If the limit is far above the number of workers, half as many
//! requests wait half as long, and the limit falls. It stays where it is 1.5 times the number of
//! workers, because half of it then fits the workers.
//!
//! Invariants: the state machine uses no socket, clock or lock. The limit stays within its bounds.
//! Without requests that fill the limit it does not change, because an idle origin gives no
//! evidence. Each page is compared with its own usual wait, so a changed mix of pages is no
//! evidence either.

#[cfg(test)]
mod simulation;

use clock::Monotonic;
use std::time::Duration;

/// The smallest limit. A lower one would save an origin little and could starve it.
const LIMIT_MIN: usize = 4;

/// The limit is this many times the number of requests that the origin works on at a time.
const HEADROOM: f32 = 1.5;

/// One stage changes the limit by at most these factors, because a short stage may be misled.
const FACTOR_MIN: f32 = 0.6;
const FACTOR_MAX: f32 = 1.4;

/// A deviation from the present limit up to this share is taken for noise to one half.
const NOISE: f32 = 0.3;

/// A limit is changed if the waits differ by more than this many standard errors from those that
/// keep it. Until then, further stages add to the evidence.
const ERRORS_MIN: f32 = 2.0;

/// After this many pairs of stages without a result, the evidence is discarded as old.
const PAIRS_MAX: u32 = 8;

/// Requests that are compared of a loaded stage, and of a light one. All responses to them are
/// awaited: if a stage ended with a number of responses, it would miss the slow ones.
const LOADED_REQUESTS: u32 = 64;
const LIGHT_REQUESTS: u32 = 32;

/// Without this many responses the stages say nothing, for example because others were errors.
const LOADED_RESPONSES_MIN: u32 = 32;
const LIGHT_RESPONSES_MIN: u32 = 16;

/// A light stage without enough requests ends after this time without a result.
const LIGHT_MAX: Duration = Duration::from_secs(120);

/// A loaded stage lasts at least this many times the light one before it, so that the light stages
/// cost little throughput. While the limit still has to change much, it lasts as long.
const STEADY_TIMES: u32 = 10;

/// The longest such time, so that a loaded stage ends at last.
const LOADED_MAX: Duration = Duration::from_secs(600);

/// Pages are distinguished by this many groups.
const PAGE_GROUPS: usize = 64;

/// About this many responses determine the usual wait of a page.
const LEARNED: f32 = 16.0;

/// A stage does not await later responses. They may be long polls.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A response, as the limit sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OriginWait {
    /// The stage for which its request was chosen.
    pub stage: Option<StageNumber>,
    /// A digest of the page. Equal pages cost about the same.
    pub page: u64,
    /// From the request to the first byte.
    pub wait: Duration,
}

/// The number of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StageNumber(u32);

/// A limit that adapts.
#[derive(Clone, Debug)]
pub(crate) struct AdaptiveLimit {
    limit_min: usize,
    limit_max: usize,
    limit: usize,
    stage: Stage,
    /// The waits in the stages with the present limit.
    loaded: StageWaits,
    light: StageWaits,
    /// Pairs of stages with the present limit.
    pairs: u32,
    /// The shortest time of the loaded stage.
    loaded_min: Duration,
    pages: PageWaits,
}

/// The present stage.
#[derive(Clone, Copy, Debug)]
struct Stage {
    number: u32,
    is_light: bool,
    since: Monotonic,
    /// Requests that were chosen for it, and those of them that have ended.
    chosen: u32,
    ended: u32,
    /// When all its requests were known to be chosen.
    complete: Option<Monotonic>,
}

/// The waits of a stage, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct StageWaits {
    count: u32,
    /// Sum of the pages' usual waits.
    usual: f32,
    /// Sum of the differences from them, and of their squares.
    difference: f32,
    squares: f32,
}

/// The usual wait of each group of pages, in seconds. It may be wrong without harm: both stages
/// are compared with the same one, so it only takes away the noise of the mix.
#[derive(Clone, Debug)]
struct PageWaits {
    /// Constant while two stages are compared. `None` for a group without a response.
    usual: [Option<f32>; PAGE_GROUPS],
    next: [Option<f32>; PAGE_GROUPS],
}

impl AdaptiveLimit {
    /// A limit of at most `limit_max` requests, with which it begins.
    pub(crate) fn new(limit_max: usize) -> Self {
        let limit_max = limit_max.max(1);
        Self {
            limit_min: LIMIT_MIN.min(limit_max),
            limit_max,
            limit: limit_max,
            stage: Stage::new(0, false, Monotonic::default()),
            loaded: StageWaits::default(),
            light: StageWaits::default(),
            pairs: 0,
            loaded_min: Duration::ZERO,
            pages: PageWaits { usual: [None; PAGE_GROUPS], next: [None; PAGE_GROUPS] },
        }
    }

    /// The limit, without the reduction of a light stage.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// The number of requests that may be active now.
    pub(crate) const fn permitted(&self) -> usize {
        if self.stage.is_light && !self.stage.is_complete() { self.half() } else { self.limit }
    }

    const fn half(&self) -> usize {
        self.limit.div_ceil(2)
    }

    /// Notes that a request is sent, with which `active` requests are active. Returns the stage if
    /// the request was chosen for it. Its end is then reported by [`AdaptiveLimit::observe`] or
    /// [`AdaptiveLimit::give_up`].
    pub(crate) const fn begin(&mut self, active: usize) -> Option<StageNumber> {
        let is_fit = if self.stage.is_light {
            active <= self.half()
        } else {
            active > self.limit - self.limit.div_ceil(8)
        };
        if !is_fit || self.stage.is_complete() {
            return None;
        }
        self.stage.chosen += 1;
        Some(StageNumber(self.stage.number))
    }

    /// Notes that a request that was chosen for a stage ended without a usable response.
    pub(crate) fn give_up(&mut self, stage: StageNumber) {
        self.stage.ended += u32::from(stage.0 == self.stage.number);
    }

    /// Takes the wait of a response that arrived at `now`. Do not report responses that say nothing
    /// of the origin's load, such as server errors.
    pub(crate) fn observe(&mut self, response: OriginWait, now: Monotonic) {
        let wait = response.wait.min(WAIT_MAX).as_secs_f32();
        let usual = self.pages.learn(response.page, wait);
        if response.stage == Some(StageNumber(self.stage.number)) {
            self.stage.ended += 1;
            let waits = if self.stage.is_light { &mut self.light } else { &mut self.loaded };
            usual.into_iter().for_each(|usual| waits.add(usual, wait));
        }
        if !self.stage.is_complete() {
            if self.stage.is_light && now.since(self.stage.since) > LIGHT_MAX {
                self.loaded_min = LOADED_MAX;
                self.enter(false, now);
            }
            return;
        }
        let complete = *self.stage.complete.get_or_insert(now);
        let is_over = self.stage.ended >= self.stage.chosen || now.since(complete) > WAIT_MAX;
        if is_over && self.stage.is_light {
            self.adapt(complete.since(self.stage.since));
            self.enter(false, now);
        } else if is_over && now.since(self.stage.since) >= self.loaded_min {
            self.enter(true, now);
        }
    }

    const fn enter(&mut self, is_light: bool, now: Monotonic) {
        self.stage = Stage::new(self.stage.number.wrapping_add(1), is_light, now);
    }

    /// Chooses the next limit from the evidence. The limit was halved for as long as the light
    /// stage `took`.
    fn adapt(&mut self, took: Duration) {
        self.pairs += 1;
        let factor = self.factor();
        let is_noise = factor.is_none_or(|factor| (factor - 1.0).abs() <= NOISE);
        self.loaded_min = took.saturating_mul(if is_noise { STEADY_TIMES } else { 1 }).min(LOADED_MAX);
        let before = self.limit;
        if let Some(factor) = factor {
            let limit = self.limit as f32 * if is_noise { f32::midpoint(factor, 1.0) } else { factor };
            // A small limit must be able to rise by one.
            let limit = if factor > 1.0 && !is_noise { limit.ceil() } else { limit.round() };
            self.limit = (limit as usize).clamp(self.limit_min, self.limit_max);
        }
        if self.limit != before || self.pairs >= PAIRS_MAX {
            (self.loaded, self.light, self.pairs) = (StageWaits::default(), StageWaits::default(), 0);
            self.pages.usual = self.pages.next;
        }
    }

    /// The factor for a change of the limit; `None` without enough evidence.
    fn factor(&self) -> Option<f32> {
        // The mean of a stage is that of the same pages plus its own difference from their waits.
        let (loaded, light) = (self.loaded, self.light);
        if loaded.count < LOADED_RESPONSES_MIN || light.count < LIGHT_RESPONSES_MIN {
            return None;
        }
        let usual = (loaded.usual + light.usual) / (loaded.count + light.count) as f32;
        let mean = |stage: StageWaits| usual + stage.difference / stage.count as f32;
        let (light_mean, loaded_mean) = (mean(light).max(0.0), mean(loaded));
        let error = (HEADROOM * HEADROOM * light.squared_error() + loaded.squared_error()).sqrt();
        let is_certain = (HEADROOM * light_mean - loaded_mean).abs() > ERRORS_MIN * error;
        let factor = HEADROOM * (light_mean / loaded_mean).min(1.0);
        (is_certain && factor.is_finite()).then(|| factor.clamp(FACTOR_MIN, FACTOR_MAX))
    }
}

impl Stage {
    const fn new(number: u32, is_light: bool, since: Monotonic) -> Self {
        Self { number, is_light, since, chosen: 0, ended: 0, complete: None }
    }

    /// Whether all its requests were chosen.
    const fn is_complete(&self) -> bool {
        self.chosen >= if self.is_light { LIGHT_REQUESTS } else { LOADED_REQUESTS }
    }
}

impl StageWaits {
    fn add(&mut self, usual: f32, wait: f32) {
        self.count += 1;
        self.usual += usual;
        self.difference += wait - usual;
        self.squares += (wait - usual).powi(2);
    }

    /// The square of the standard error of the mean difference.
    fn squared_error(&self) -> f32 {
        let count = self.count as f32;
        (self.squares / count - (self.difference / count).powi(2)).max(0.0) / count
    }
}

impl PageWaits {
    /// Updates the usual wait of a page by the wait of a response. Returns the usual wait before;
    /// `None` if there was none.
    fn learn(&mut self, page: u64, wait: f32) -> Option<f32> {
        let group = (page % PAGE_GROUPS as u64) as usize;
        let next = self.next.get_mut(group)?;
        *next = Some(next.map_or(wait, |next| next + (wait - next) / LEARNED));
        let usual = self.usual.get_mut(group)?;
        let known = *usual;
        usual.get_or_insert(wait);
        known
    }
}
