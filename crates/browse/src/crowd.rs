//! The visitors of one thread: when page loads begin, and when the run ends.
//!
//! Invariant: threads share only the state in `shared`, such as the number of pages left and the
//! watch. Each thread has its own figures, parsed trees and visitors. In a closed loop each page
//! load is followed by the next after the think time. In an open loop page loads begin when they
//! are due; one that finds no free visitor is counted, not delayed.

use crate::outcome::{Figures, PageEnd};
use crate::shared::{Shared, Trend};
use crate::visit::visit;
use crate::visitor::Visitor;
use crate::worker::Worker;
use clock::Monotonic;
use stats::Random;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;

/// How often a thread checks whether it should stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How often a thread checks the failure rate.
const FAILING_EVERY: Duration = Duration::from_secs(1);

/// The visitors of one thread.
pub(crate) struct Crowd {
    worker: Worker,
    random: RefCell<Random>,
    /// Page loads in progress.
    under_way: Cell<u64>,
}

/// The results of a thread.
pub(crate) struct CrowdReport {
    pub(crate) figures: Figures,
    pub(crate) cpu: Duration,
    pub(crate) ended: PageEnd,
    pub(crate) end: Monotonic,
}

impl Crowd {
    /// The crowd at `place`: the index of its thread and the number of threads.
    pub(crate) fn new(shared: Arc<Shared>, place: (usize, usize)) -> Self {
        let seed = shared.plan.seed.wrapping_add((place.0 as u64).wrapping_mul(0x9E37_79B9));
        Self {
            worker: Worker::new(shared, place),
            random: RefCell::new(Random::from_seed(seed)),
            under_way: Cell::new(0),
        }
    }

    fn shared(&self) -> &Shared {
        &self.worker.shared
    }

    /// Lets `users` visitors load pages until the end of the run.
    pub(crate) async fn run(self: Rc<Self>, users: usize, rate: Option<f64>) -> CrowdReport {
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
        let end = self.shared().clock.monotonic();
        let mut figures = self.worker.end(end);
        figures.pages.unfinished += self.under_way.get();
        let cpu = thread_cpu().saturating_sub(cpu_before.get());
        CrowdReport { figures, cpu, ended, end }
    }

    /// Closed loop: each visitor's place loads one page after the other, until no page is left.
    async fn closed(self: Rc<Self>, users: usize, tasks: &mut JoinSet<()>) {
        for index in 0..users {
            let crowd = Rc::clone(&self);
            tasks.spawn_local(async move {
                crowd.wait_for_turn(index).await;
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
        while tasks.join_next().await.is_some() {}
    }

    /// Waits until the visitor with this index begins, evenly spread over the ramp-up.
    async fn wait_for_turn(&self, index: usize) {
        let begin = self.worker.turns.begin(index);
        tokio::time::sleep(begin.since(self.shared().clock.monotonic())).await;
    }

    /// Waits until a page load begins at `begin`, and returns its start. After a wait that is the
    /// current time, so that a late wake-up does not count toward the page's time. A page load of
    /// the warm-up keeps `begin`, so that it stays in the warm-up.
    async fn wait_for(&self, begin: Monotonic) -> Monotonic {
        let wait = begin.since(self.shared().clock.monotonic());
        if wait.is_zero() {
            return begin;
        }
        tokio::time::sleep(wait).await;
        if begin < self.shared().measuring_since { begin } else { self.shared().clock.monotonic() }
    }

    /// Open loop: page loads begin when they are due.
    async fn arrivals(self: Rc<Self>, users: usize, rate: f64, tasks: &mut JoinSet<()>) {
        let idle: Rc<RefCell<Vec<Visitor>>> = Rc::new(RefCell::new(vec![Visitor::default(); users]));
        for number in 0_u32.. {
            let due = self.shared().began.plus(due_after(number, rate, self.shared().plan.ramp));
            tokio::time::sleep(due.since(self.shared().clock.monotonic())).await;
            while tasks.try_join_next().is_some() {}
            let free = idle.borrow_mut().pop();
            let Some(visitor) = free else {
                self.worker.figures.borrow_mut().pages.not_started += 1;
                self.worker.tally(|tally| tally.counts.not_started += 1);
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
        while tasks.join_next().await.is_some() {}
    }

    /// Loads one page, for a returning or a new visitor.
    async fn load(&self, visitor: &RefCell<Visitor>, due: Monotonic) {
        let drawn = self.random.borrow_mut().below(1_000_000) as f64 / 1e6;
        let is_returning = drawn < self.shared().plan.returning && visitor.borrow().has_icon;
        if !is_returning {
            *visitor.borrow_mut() = Visitor::default();
        }
        self.under_way.set(self.under_way.get() + 1);
        self.worker.tally(|tally| tally.counts.started += 1);
        visit(&self.worker, visitor, is_returning, due).await;
        self.under_way.set(self.under_way.get() - 1);
    }

    /// Waits until the time is up, the run fails, or it is stopped. Also ends the warm-up, and
    /// publishes finished seconds.
    async fn watched(&self, cpu_before: &Cell<Duration>) -> PageEnd {
        let (mut trend, mut next_trend) = (Trend::default(), self.shared().began.plus(FAILING_EVERY));
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
            if !self.worker.is_measuring() && now >= self.shared().measuring_since {
                self.worker.begin_measuring();
                cpu_before.set(thread_cpu());
                self.shared().watch.restart();
            }
            if self.shared().watch.is_stopped() {
                return PageEnd::Stopped;
            }
            if self.shared().deadline.is_some_and(|deadline| now >= deadline) {
                return PageEnd::Time;
            }
            let next = if self.worker.is_measuring() {
                self.shared().deadline
            } else {
                Some(self.shared().measuring_since)
            };
            let wait = next.map_or(LOOK_EVERY, |next| next.since(now).min(LOOK_EVERY));
            tokio::time::sleep(wait).await;
        }
    }
}

/// When page load `number` of a thread falls due, after the beginning of the run. The rate grows
/// linearly from zero over the ramp-up.
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
    fn page_rate_grows_linearly_over_the_ramp_up() {
        let due = |number, ramp| due_after(number, 10.0, Duration::from_secs(ramp)).as_secs_f64();
        assert_eq!([due(0, 0), due(1, 0), due(25, 0)], [0.0, 0.1, 2.5]);
        // Ten a second after four seconds: five in the first two, twenty in all four.
        assert!((due(5, 4) - 2.0).abs() < 1e-9 && (due(20, 4) - 4.0).abs() < 1e-9);
        assert!((due(30, 4) - 5.0).abs() < 1e-9);
    }
}
