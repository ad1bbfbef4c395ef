//! One thread of visitors: who comes when, and when that ends.
//!
//! Invariant: threads share nothing but the number of pages that are left and what people watch; each has figures,
//! trees and visitors of its own. In a closed loop every visitor's load is followed by the next; in an open one loads
//! begin when they are due, and one that finds no visitor free is counted, not delayed.

use crate::outcome::{Figures, PageEnd};
use crate::plan::PagePlan;
use crate::series::{Current, Series, Tally};
use crate::visit::visit;
use crate::visitor::Visitor;
use net::TlsClient;
use page::Memo;
use platform::{Clock, Monotonic};
use stats::Random;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// How often a thread looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How often it looks whether most fails.
const FAILING_EVERY: Duration = Duration::from_secs(1);

/// So many requests must have ended for that.
const FAILING_REQUESTS_MIN: u64 = 20;

/// What people who watch a run see, and the way to stop it. One belongs to one run.
#[derive(Debug, Default)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    done: AtomicU64,
    failed: AtomicU64,
    is_measuring: AtomicBool,
}

impl Watch {
    /// A watch that is stopped by this flag.
    pub fn stopped_by(stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..Self::default() }
    }

    /// Pages of the measured part that have ended, and how many of them had no document.
    pub fn pages(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    /// Whether the warm-up is over.
    pub fn is_measuring(&self) -> bool {
        self.is_measuring.load(Ordering::Relaxed)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn add_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    fn restart(&self) {
        self.done.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
        self.is_measuring.store(true, Ordering::Relaxed);
    }
}

/// What the threads of a run share.
pub(crate) struct Shared {
    pub(crate) plan: PagePlan,
    pub(crate) tls: Option<TlsClient>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) watch: Arc<Watch>,
    /// Pages that may still begin.
    pub(crate) pages_left: AtomicU64,
    /// Resources that were asked for and have ended, and those of them that did not arrive; the warm-up's included.
    pub(crate) ended_requests: AtomicU64,
    pub(crate) failed_requests: AtomicU64,
    /// Somebody has found that most fail.
    pub(crate) is_failing: AtomicBool,
    pub(crate) series: Series,
    pub(crate) began: Monotonic,
    pub(crate) measuring_since: Monotonic,
    pub(crate) deadline: Option<Monotonic>,
}

/// What one thread has.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) memo: RefCell<Memo>,
    pub(crate) figures: RefCell<Figures>,
    pub(crate) addresses: RefCell<HashMap<(String, u16), Vec<SocketAddr>>>,
    /// Which thread this is, and how many there are.
    place: (usize, usize),
    /// The second that is going on.
    current: RefCell<Current>,
    /// Whether the warm-up is over.
    is_measuring: Cell<bool>,
    random: RefCell<Random>,
    under_way: Cell<u64>,
}

/// Requests that had ended and failed when somebody looked last.
#[derive(Clone, Copy, Debug, Default)]
struct Trend {
    ended: u64,
    failed: u64,
}

/// What a thread came to.
pub(crate) struct WorkerReport {
    pub(crate) figures: Figures,
    pub(crate) cpu: Duration,
    pub(crate) ended: PageEnd,
    pub(crate) end: Monotonic,
}

impl Worker {
    /// The worker at a place among so many.
    pub(crate) fn new(shared: Arc<Shared>, place: (usize, usize)) -> Self {
        let seed = shared.plan.seed.wrapping_add((place.0 as u64).wrapping_mul(0x9E37_79B9));
        Self {
            place,
            current: RefCell::new(Current::new(shared.measuring_since)),
            is_measuring: Cell::new(shared.plan.warmup.is_zero()),
            memo: RefCell::default(),
            figures: RefCell::new(Figures::new()),
            addresses: RefCell::default(),
            shared,
            random: RefCell::new(Random::from_seed(seed)),
            under_way: Cell::new(0),
        }
    }

    /// Lets `users` visitors load pages to the end of the run.
    pub(crate) async fn run(self: Rc<Self>, users: usize, rate: Option<f64>) -> WorkerReport {
        let cpu_before = Cell::new(thread_cpu());
        let mut tasks = JoinSet::new();
        let ended = {
            let all = async {
                match rate {
                    None => Rc::clone(&self).closed(users, &mut tasks).await,
                    Some(rate) => Rc::clone(&self).arrivals(users, rate, &mut tasks).await,
                }
                PageEnd::Pages
            };
            tokio::select! {
                ended = all => ended,
                ended = self.watched(&cpu_before) => ended,
            }
        };
        drop(tasks);
        let end = self.shared.clock.monotonic();
        self.current.borrow_mut().end(self.shared.counting(end), &self.shared.series);
        let mut figures = self.figures.take();
        figures.pages.unfinished += self.under_way.get();
        let cpu = thread_cpu().saturating_sub(cpu_before.get());
        WorkerReport { figures, cpu, ended, end }
    }

    /// Visitors who each load one page after the other, until no page is left.
    async fn closed(self: Rc<Self>, users: usize, tasks: &mut JoinSet<()>) {
        for index in 0..users {
            let worker = Rc::clone(&self);
            tasks.spawn_local(async move {
                worker.wait_for_turn(index).await;
                let visitor = RefCell::default();
                while worker.take_page() {
                    worker.load(&visitor, worker.shared.clock.monotonic()).await;
                    // A page that fails at once must not keep the thread from looking at anything else.
                    tokio::task::yield_now().await;
                }
            });
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Waits until the visitor at a place of this thread begins: evenly spread over the ramp.
    async fn wait_for_turn(&self, index: usize) {
        let ((thread, threads), plan) = (self.place, &self.shared.plan);
        let place = (thread + index * threads) as f64 / plan.users as f64;
        let begin = self.shared.began.plus(plan.ramp.mul_f64(place));
        tokio::time::sleep(begin.since(self.shared.clock.monotonic())).await;
    }

    /// Takes note, in the second that is going on, of what has ended; nothing counts before the measured part.
    pub(crate) fn tally(&self, count: impl FnOnce(&mut Tally)) {
        if !self.is_measuring.get() {
            return;
        }
        let now = self.shared.counting(self.shared.clock.monotonic());
        self.current.borrow_mut().at(now, &self.shared.series).map(count);
    }

    /// Visitors who come when they come.
    async fn arrivals(self: Rc<Self>, users: usize, rate: f64, tasks: &mut JoinSet<()>) {
        let idle: Rc<RefCell<Vec<Visitor>>> = Rc::new(RefCell::new(vec![Visitor::default(); users]));
        for number in 0_u32.. {
            let due = self.shared.began.plus(due_after(number, rate, self.shared.plan.ramp));
            tokio::time::sleep(due.since(self.shared.clock.monotonic())).await;
            while tasks.try_join_next().is_some() {}
            let free = idle.borrow_mut().pop();
            let Some(visitor) = free else {
                self.figures.borrow_mut().pages.not_started += 1;
                continue;
            };
            if !self.take_page() {
                break;
            }
            let (worker, idle) = (Rc::clone(&self), Rc::clone(&idle));
            tasks.spawn_local(async move {
                let visitor = RefCell::new(visitor);
                worker.load(&visitor, due).await;
                idle.borrow_mut().push(visitor.into_inner());
            });
        }
        while tasks.join_next().await.is_some() {}
    }

    /// One page load by somebody who has been here before, or not.
    async fn load(&self, visitor: &RefCell<Visitor>, due: Monotonic) {
        let drawn = self.random.borrow_mut().below(1_000_000) as f64 / 1e6;
        let is_returning = drawn < self.shared.plan.returning && visitor.borrow().has_icon;
        if !is_returning {
            *visitor.borrow_mut() = Visitor::default();
        }
        self.under_way.set(self.under_way.get() + 1);
        visit(self, visitor, is_returning, due).await;
        self.under_way.set(self.under_way.get() - 1);
    }

    /// Whether another page may begin.
    fn take_page(&self) -> bool {
        if self.shared.plan.pages.is_none() || self.shared.clock.monotonic() < self.shared.measuring_since {
            return true;
        }
        self.shared
            .pages_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok()
    }

    /// Waits for the end of the run's time, or for somebody to stop it; ends the warm-up meanwhile.
    async fn watched(&self, cpu_before: &Cell<Duration>) -> PageEnd {
        let (mut trend, mut next_trend) = (Trend::default(), self.shared.began.plus(FAILING_EVERY));
        loop {
            let now = self.shared.clock.monotonic();
            self.current.borrow_mut().advance(self.shared.counting(now), &self.shared.series);
            if now >= next_trend {
                trend = self.shared.end_if_failing(trend);
                next_trend = now.plus(FAILING_EVERY);
            }
            if self.shared.is_failing.load(Ordering::Relaxed) {
                return PageEnd::Failing;
            }
            if !self.is_measuring.get() && now >= self.shared.measuring_since {
                self.is_measuring.set(true);
                *self.figures.borrow_mut() = Figures::new();
                cpu_before.set(thread_cpu());
                self.shared.watch.restart();
            }
            if self.shared.watch.is_stopped() {
                return PageEnd::Stopped;
            }
            if self.shared.deadline.is_some_and(|deadline| now >= deadline) {
                return PageEnd::Time;
            }
            let next = if self.is_measuring.get() {
                self.shared.deadline
            } else {
                Some(self.shared.measuring_since)
            };
            let wait = next.map_or(LOOK_EVERY, |next| next.since(now).min(LOOK_EVERY));
            tokio::time::sleep(wait).await;
        }
    }
}

impl Shared {
    /// The moment by whose second something counts: what ends a little after the time is up belongs to the last one.
    fn counting(&self, now: Monotonic) -> Monotonic {
        let last = |deadline: Monotonic| Monotonic::from_nanos(deadline.as_nanos().saturating_sub(1));
        self.deadline.map_or(now, |deadline| now.min(last(deadline)))
    }

    /// Takes note of a resource that has ended.
    pub(crate) fn count(&self, has_failed: bool) {
        self.ended_requests.fetch_add(1, Ordering::Relaxed);
        self.failed_requests.fetch_add(u64::from(has_failed), Ordering::Relaxed);
    }

    /// Ends the run if most of what ended since `then` failed and the plan says so; gives from when on to look next.
    fn end_if_failing(&self, then: Trend) -> Trend {
        let failed = self.failed_requests.load(Ordering::Relaxed);
        let now = Trend { ended: self.ended_requests.load(Ordering::Relaxed), failed };
        let (ended, failed) = (now.ended - then.ended, now.failed.saturating_sub(then.failed));
        if ended < FAILING_REQUESTS_MIN {
            return then;
        }
        if self.plan.stops_when_failing && failed * 2 > ended {
            self.is_failing.store(true, Ordering::Relaxed);
        }
        now
    }
}

/// When page `number` of a thread falls due, from the beginning on: the rate grows evenly from nothing over the ramp.
fn due_after(number: u32, rate: f64, ramp: Duration) -> Duration {
    let (number, ramp) = (f64::from(number), ramp.as_secs_f64());
    let grown = rate * ramp / 2.0;
    let seconds =
        if number < grown { (2.0 * number * ramp / rate).sqrt() } else { ramp + (number - grown) / rate };
    Duration::from_secs_f64(seconds)
}

fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::due_after;
    use std::time::Duration;

    #[test]
    fn pages_fall_due_at_a_rate_that_grows_evenly_over_the_ramp() {
        let due = |number, ramp| due_after(number, 10.0, Duration::from_secs(ramp)).as_secs_f64();
        assert_eq!([due(0, 0), due(1, 0), due(25, 0)], [0.0, 0.1, 2.5]);
        // Ten a second after four seconds: five in the first two, twenty in all four.
        assert!((due(5, 4) - 2.0).abs() < 1e-9 && (due(20, 4) - 4.0).abs() < 1e-9);
        assert!((due(30, 4) - 5.0).abs() < 1e-9);
    }
}
