//! The visitors of one thread: when page loads begin, and when the run ends.
//!
//! Invariant: threads share only the state in `shared`, such as the number of pages left and the
//! watch. Each thread has its own figures, parsed trees and visitors. In a closed loop each page
//! load is followed by the next after the think time. In an open loop page loads begin when they
//! are due; one that finds no free visitor is counted, not delayed. The schedule of an open loop
//! does not depend on the number of threads: each thread takes its share of one schedule.

use crate::shared::BrowseContext;
use crate::visit::visit;
use crate::visitor::Visitor;
use crate::worker::BrowseWorker;
use clock::Monotonic;
use load::{FAILING_EVERY, Trend, thread_cpu};
use record::{PageEnd, PageFigures};
use stats::Random;
use std::cell::{Cell, RefCell};
use std::iter::StepBy;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};

/// How often a thread checks whether it should stop, or whether a page is left.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The visitors of one thread.
pub(crate) struct Crowd {
    worker: BrowseWorker,
    /// The index of this thread, and the number of threads.
    place: (usize, usize),
    random: RefCell<Random>,
    /// Page loads of the measured part in progress.
    under_way: Cell<u64>,
}

/// The results of a thread.
pub(crate) struct CrowdReport {
    pub(crate) figures: PageFigures,
    /// The figures of the warm-up.
    pub(crate) warmup: PageFigures,
    pub(crate) cpu: Duration,
    pub(crate) ended: PageEnd,
    pub(crate) end: Monotonic,
}

impl Crowd {
    /// The crowd at `place`: the index of its thread and the number of threads.
    pub(crate) fn new(shared: Arc<BrowseContext>, place: (usize, usize)) -> Self {
        // Seeds that are far apart, so that the threads draw different numbers.
        let seed = shared.plan.seed.wrapping_add((place.0 as u64).wrapping_mul(0x9E37_79B9));
        Self {
            worker: BrowseWorker::new(shared, place.1),
            place,
            random: RefCell::new(Random::from_seed(seed)),
            under_way: Cell::new(0),
        }
    }

    fn shared(&self) -> &BrowseContext {
        &self.worker.shared
    }

    /// The places of this thread's visitors, among those of all threads.
    fn places(&self) -> StepBy<Range<usize>> {
        let (thread, threads) = self.place;
        (thread..self.shared().plan.users).step_by(threads)
    }

    /// Lets the visitors load pages until the end of the run.
    pub(crate) async fn run(self: Rc<Self>) -> CrowdReport {
        let cpu_before = Cell::new(thread_cpu());
        let mut tasks = JoinSet::new();
        let ended = {
            let all = async {
                match self.shared().plan.rate {
                    None => Rc::clone(&self).closed(&mut tasks).await,
                    Some(rate) => Rc::clone(&self).arrivals(rate, &mut tasks).await,
                }
                PageEnd::Pages
            };
            tokio::select! {
                ended = all => ended,
                ended = self.watched(&cpu_before) => ended,
            }
        };
        drop(tasks);
        let end = self.shared().clock.monotonic();
        let (mut figures, warmup) = self.worker.end(end);
        figures.pages.unfinished += self.under_way.get();
        let cpu = thread_cpu().saturating_sub(cpu_before.get());
        CrowdReport { figures, warmup, cpu, ended, end }
    }

    /// Closed loop: each visitor's place loads one page after the other, until no page is left.
    async fn closed(self: Rc<Self>, tasks: &mut JoinSet<()>) {
        for place in self.places() {
            if !self.wait_for_page(self.shared().ramp_up.begin(place), tasks).await {
                break;
            }
            let crowd = Rc::clone(&self);
            tasks.spawn_local(async move {
                let visitor = RefCell::default();
                let mut begin = crowd.shared().clock.monotonic();
                // The page is taken before the think time. Once none is left, the run does not wait
                // for thinking visitors.
                while crowd.shared().take_page(begin) {
                    let due = crowd.wait_for(begin).await;
                    crowd.load(&visitor, due).await;
                    // If a page fails at once, the thread must still run its other tasks.
                    tokio::task::yield_now().await;
                    let think = crowd.shared().plan.think.draw(&mut crowd.random.borrow_mut());
                    begin = crowd.shared().clock.monotonic().plus(think);
                }
            });
        }
        finish(tasks).await;
    }

    /// Waits until a page load is to begin at `begin`, and returns whether a page is left for it
    /// then. Returns early if another thread takes the last page, so that the run does not wait for
    /// a moment at which nothing begins.
    async fn wait_for_page(&self, begin: Monotonic, tasks: &mut JoinSet<()>) -> bool {
        loop {
            while let Some(ended) = tasks.try_join_next() {
                pass_on_panic(ended);
            }
            if !self.shared().has_page(begin) {
                return false;
            }
            let wait = begin.since(self.shared().clock.monotonic());
            if wait.is_zero() {
                break;
            }
            tokio::time::sleep(wait.min(LOOK_EVERY)).await;
        }
        // If page loads begin late, the thread must still run its other tasks.
        tokio::task::yield_now().await;
        self.shared().has_page(begin)
    }

    /// Waits until a page load begins at `begin`, and returns its start. After a wait the start is
    /// the current time, so that a late wake-up does not count toward the page's time. A page load
    /// of the warm-up keeps `begin`, so that it stays in the warm-up.
    async fn wait_for(&self, begin: Monotonic) -> Monotonic {
        let wait = begin.since(self.shared().clock.monotonic());
        if wait.is_zero() {
            return begin;
        }
        tokio::time::sleep(wait).await;
        if begin < self.shared().measuring_since { begin } else { self.shared().clock.monotonic() }
    }

    /// Open loop: page loads begin when they are due.
    async fn arrivals(self: Rc<Self>, rate: f64, tasks: &mut JoinSet<()>) {
        let visitors = vec![Visitor::default(); self.places().len()];
        let idle = Rc::new(RefCell::new(visitors));
        for after in due_times(self.place, rate, self.shared().plan.ramp) {
            let due = self.shared().began.plus(after);
            // Without a page left, no visitor is missing.
            if !self.wait_for_page(due, tasks).await {
                break;
            }
            let free = idle.borrow_mut().pop();
            let Some(visitor) = free else {
                let is_measured = self.shared().is_measured(due);
                self.worker.figures(is_measured).pages.not_started += 1;
                self.worker.tally(is_measured, |tally| tally.counts.not_started += 1);
                continue;
            };
            if !self.shared().take_page(due) {
                break;
            }
            let (crowd, idle) = (Rc::clone(&self), Rc::clone(&idle));
            tasks.spawn_local(async move {
                let visitor = RefCell::new(visitor);
                crowd.load(&visitor, due).await;
                idle.borrow_mut().push(visitor.into_inner());
            });
        }
        finish(tasks).await;
    }

    /// Loads one page, for a returning or a new visitor.
    async fn load(&self, visitor: &RefCell<Visitor>, due: Monotonic) {
        let drawn = self.random.borrow_mut().below(1_000_000) as f64 / 1e6;
        let is_returning = drawn < self.shared().plan.returning && visitor.borrow().has_visited;
        if !is_returning {
            *visitor.borrow_mut() = Visitor::default();
        }
        let is_measured = self.shared().is_measured(due);
        let counted = u64::from(is_measured);
        self.under_way.set(self.under_way.get() + counted);
        self.worker.tally(is_measured, |tally| tally.counts.started += 1);
        visit(&self.worker, visitor, is_returning, due).await;
        self.under_way.set(self.under_way.get() - counted);
    }

    /// Waits until the time is up, the run fails, or it is stopped. Also publishes finished
    /// seconds, and takes the CPU time at the end of the warm-up.
    async fn watched(&self, cpu_before: &Cell<Duration>) -> PageEnd {
        let (mut trend, mut next_trend) = (Trend::default(), self.shared().began.plus(FAILING_EVERY));
        let mut is_measuring = self.shared().plan.warmup.is_zero();
        loop {
            let now = self.shared().clock.monotonic();
            self.worker.advance(now);
            if now >= next_trend {
                trend = self.shared().end_if_failing(trend);
                next_trend = now.plus(FAILING_EVERY);
            }
            if self.shared().is_failing.load(Ordering::Relaxed) {
                return PageEnd::Failing;
            }
            if !is_measuring && self.shared().is_measured(now) {
                is_measuring = true;
                cpu_before.set(thread_cpu());
            }
            if self.shared().watch.is_stopped() {
                return PageEnd::Stopped;
            }
            if self.shared().deadline.is_some_and(|deadline| now >= deadline) {
                return PageEnd::Time;
            }
            let measuring_since = Some(self.shared().measuring_since);
            let next = if is_measuring { self.shared().deadline } else { measuring_since };
            let wait = next.map_or(LOOK_EVERY, |next| next.since(now).min(LOOK_EVERY));
            tokio::time::sleep(wait).await;
        }
    }
}

/// Waits until all page loads have ended.
async fn finish(tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        pass_on_panic(ended);
    }
}

/// Passes on the panic of a page load. Its visitor is missing from then on, so the rest of the run
/// would have less load than planned.
fn pass_on_panic(ended: Result<(), JoinError>) {
    if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
        std::panic::resume_unwind(panic);
    }
}

/// When the page loads of one thread fall due, after the beginning of the run: thread 0 of two
/// takes the numbers 0, 2, 4 and so on. If each thread had a separate schedule, they would all
/// begin a page at the same moment.
fn due_times((thread, threads): (usize, usize), rate: f64, ramp: Duration) -> impl Iterator<Item = Duration> {
    (thread as u64..).step_by(threads).map(move |number| due_after(number, rate, ramp))
}

/// When page load `number` of the run falls due, after the beginning of the run. The rate grows
/// linearly from zero over the ramp-up. A time beyond the range of durations means never.
fn due_after(number: u64, rate: f64, ramp: Duration) -> Duration {
    let (number, ramp) = (number as f64, ramp.as_secs_f64());
    let grown = rate * ramp / 2.0;
    let seconds =
        if number < grown { (2.0 * number * ramp / rate).sqrt() } else { ramp + (number - grown) / rate };
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::{due_after, due_times, finish};
    use std::time::Duration;
    use tokio::task::{JoinSet, LocalSet};

    #[test]
    #[should_panic(expected = "in a page load")]
    fn panic_of_a_page_load_is_passed_on() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let mut tasks = JoinSet::new();
            tasks.spawn_local(async { panic!("in a page load") });
            finish(&mut tasks).await;
        });
    }

    #[test]
    fn threads_take_turns_in_one_schedule() {
        let of = |thread| {
            let times = due_times((thread, 2), 10.0, Duration::ZERO);
            times.take(3).map(|time| time.as_millis()).collect::<Vec<_>>()
        };
        assert_eq!([of(0), of(1)], [[0, 200, 400], [100, 300, 500]]);
    }

    #[test]
    fn page_rate_grows_linearly_over_the_ramp_up() {
        let due = |number, ramp| due_after(number, 10.0, Duration::from_secs(ramp)).as_secs_f64();
        assert_eq!([due(0, 0), due(1, 0), due(25, 0)], [0.0, 0.1, 2.5]);
        // Ten a second after four seconds: five in the first two, twenty in all four.
        assert!((due(5, 4) - 2.0).abs() < 1e-9 && (due(20, 4) - 4.0).abs() < 1e-9);
        assert!((due(30, 4) - 5.0).abs() < 1e-9);
        assert_eq!(due_after(1, 1e-20, Duration::ZERO), Duration::MAX);
    }
}
