//! How many requests one application works on at a time, and how long the others wait for their turn.
//!
//! Invariant: never more than `fetches_max` permits exist and never more than `queue_max` requests wait; a
//! waiting request gets its permit or an error in time. Whom a person waits for comes before what only robots want,
//! else the order is that of arrival. Shared by all workers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// The bound on concurrent fetches from one origin, with its queue.
#[derive(Debug)]
pub struct FetchLimit {
    turns: Arc<Mutex<Turns>>,
    queue_max: usize,
    queue_timeout: Duration,
}

#[derive(Debug)]
struct Turns {
    active: usize,
    fetches_max: usize,
    /// Fetches at a time that are no probes: half of them while the breaker is open.
    ceiling: usize,
    queue: VecDeque<Waiter>,
    /// The number of the next who queues up.
    next: u64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    urgency: Urgency,
    turn: oneshot::Sender<FetchPermit>,
}

/// Whether a person waits for a fetch. May rise while the fetch waits for its turn, when a person joins a robot.
#[derive(Clone, Debug, Default)]
pub struct Urgency(Arc<AtomicBool>);

/// The right to one fetch; given back when dropped.
#[derive(Debug)]
pub struct FetchPermit {
    turns: Arc<Mutex<Turns>>,
}

/// Why a fetch did not get its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// As many requests wait as may.
    #[error("as many requests wait for the application as may")]
    QueueFull,
    /// The request waited as long as it may.
    #[error("the application did not get to the request in time")]
    QueueTimeout,
}

impl Urgency {
    /// Of a fetch that a person waits for, or only a robot, or nobody.
    pub fn new(is_person: bool) -> Self {
        Self(Arc::new(AtomicBool::new(is_person)))
    }

    /// From now on a person waits for it.
    pub fn rise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_person(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl FetchLimit {
    /// A limit of `fetches_max` concurrent fetches, at least one, with at most `queue_max` requests waiting,
    /// each no longer than `queue_timeout`.
    pub fn new(fetches_max: usize, queue_max: usize, queue_timeout: Duration) -> Self {
        let fetches_max = fetches_max.max(1);
        let turns = Turns { active: 0, fetches_max, ceiling: fetches_max, queue: VecDeque::new(), next: 0 };
        Self { turns: Arc::new(Mutex::new(turns)), queue_max, queue_timeout }
    }

    /// The right to one fetch, at once or after waiting for it. Where the queue is full, a person takes the place of
    /// the robot that came last. A probe also gets one that others leave free while the breaker is open.
    ///
    /// # Errors
    /// [`Busy`] when the queue is full or the wait too long.
    pub async fn acquire(&self, urgency: &Urgency, is_probe: bool) -> Result<FetchPermit, Busy> {
        let (mut turn, _place) = match self.ask(urgency, is_probe)? {
            Asked::Now(permit) => return Ok(permit),
            Asked::Queued(turn, place) => (turn, place),
        };
        match tokio::time::timeout(self.queue_timeout, &mut turn).await {
            Ok(Ok(permit)) => Ok(permit),
            // A person has taken its place.
            Ok(Err(_)) => Err(Busy::QueueFull),
            Err(_) => Err(Busy::QueueTimeout),
        }
    }

    /// Fetches under way.
    pub fn active(&self) -> usize {
        lock(&self.turns).active
    }

    /// Requests waiting for their turn.
    pub fn waiting(&self) -> usize {
        lock(&self.turns).queue.len()
    }

    /// From now on fetches that are no probes get half of the permits, or all of them again.
    pub(crate) fn halve(&self, is_halved: bool) {
        let mut called = Vec::new();
        {
            let mut turns = lock(&self.turns);
            turns.ceiling = if is_halved { turns.fetches_max.div_ceil(2) } else { turns.fetches_max };
            while turns.active < turns.ceiling
                && let Some(waiter) = turns.call()
            {
                turns.active += 1;
                called.push(waiter);
            }
        }
        for waiter in called {
            // Who has gone meanwhile gives it back, without the lock.
            let _ = waiter.turn.send(FetchPermit { turns: Arc::clone(&self.turns) });
        }
    }

    fn ask(&self, urgency: &Urgency, is_probe: bool) -> Result<Asked<'_>, Busy> {
        let mut turns = lock(&self.turns);
        let most = if is_probe { turns.fetches_max } else { turns.ceiling };
        if turns.active < most {
            turns.active += 1;
            return Ok(Asked::Now(FetchPermit { turns: Arc::clone(&self.turns) }));
        }
        if turns.queue.len() >= self.queue_max && !(urgency.is_person() && turns.displace()) {
            return Err(Busy::QueueFull);
        }
        let (turn, receiver) = oneshot::channel();
        let number = turns.next;
        turns.next += 1;
        turns.queue.push_back(Waiter { number, urgency: urgency.clone(), turn });
        Ok(Asked::Queued(receiver, Place { limit: self, number }))
    }
}

enum Asked<'a> {
    Now(FetchPermit),
    Queued(oneshot::Receiver<FetchPermit>, Place<'a>),
}

impl Turns {
    /// Takes the place of the robot that came last; false if there is none.
    fn displace(&mut self) -> bool {
        let last = self.queue.iter().rposition(|waiter| !waiter.urgency.is_person());
        last.and_then(|position| self.queue.remove(position)).is_some()
    }

    /// Who is next: the first that a person waits for, else the first.
    fn call(&mut self) -> Option<Waiter> {
        let first = self.queue.iter().position(|waiter| waiter.urgency.is_person());
        self.queue.remove(first.unwrap_or(0))
    }
}

impl Drop for FetchPermit {
    fn drop(&mut self) {
        let next = {
            let mut turns = lock(&self.turns);
            let next = if turns.active > turns.ceiling { None } else { turns.call() };
            turns.active -= usize::from(next.is_none());
            next
        };
        if let Some(waiter) = next {
            // Who has gone meanwhile gives it back the same way, without the lock.
            let _ = waiter.turn.send(Self { turns: Arc::clone(&self.turns) });
        }
    }
}

/// A place in the queue, left on drop also when the waiting request goes away.
struct Place<'a> {
    limit: &'a FetchLimit,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(&self.limit.turns).queue.retain(|waiter| waiter.number != self.number);
    }
}

/// Each change of turns is whole before the lock is given back, a panic elsewhere leaves them as they should be.
fn lock(turns: &Mutex<Turns>) -> MutexGuard<'_, Turns> {
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Busy, FetchLimit, FetchPermit, Urgency};
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::task::JoinHandle;

    const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

    fn person() -> Urgency {
        Urgency::new(true)
    }

    /// Somebody who has queued up when this is ready.
    async fn waiter(limit: &Arc<FetchLimit>, urgency: &Urgency) -> JoinHandle<Result<FetchPermit, Busy>> {
        let (limit, urgency) = (Arc::clone(limit), urgency.clone());
        let waiting = tokio::spawn(async move { limit.acquire(&urgency, false).await });
        tokio::task::yield_now().await;
        waiting
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_given_back_goes_to_the_next_in_the_queue() {
        let limit = Arc::new(FetchLimit::new(1, 1, QUEUE_TIMEOUT));
        let first = limit.acquire(&person(), false).await.unwrap();
        let waiting = waiter(&limit, &person()).await;
        assert_eq!((limit.active(), limit.waiting()), (1, 1));
        assert_eq!(limit.acquire(&person(), false).await.map(drop), Err(Busy::QueueFull));
        drop(first);
        assert_eq!(waiting.await.unwrap().map(drop), Ok(()));
        assert_eq!((limit.active(), limit.waiting()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn people_come_before_robots() {
        let limit = Arc::new(FetchLimit::new(1, 4, QUEUE_TIMEOUT));
        let mut held = limit.acquire(&person(), false).await.unwrap();
        let (robot, joined) = (Urgency::default(), Urgency::default());
        let crowd = [
            waiter(&limit, &robot).await,
            waiter(&limit, &joined).await,
            waiter(&limit, &person()).await,
            waiter(&limit, &person()).await,
        ];
        // A person wants what this robot fetches.
        joined.rise();
        let mut crowd = crowd.map(Some);
        for next in [1, 2, 3, 0] {
            drop(held);
            held = crowd[next].take().unwrap().await.unwrap().unwrap();
            tokio::task::yield_now().await;
            assert!(crowd.iter().flatten().all(|waiting| !waiting.is_finished()), "{next}");
        }
        assert_eq!((limit.active(), limit.waiting()), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_person_takes_the_place_of_the_last_robot() {
        let limit = Arc::new(FetchLimit::new(1, 3, QUEUE_TIMEOUT));
        let held = limit.acquire(&person(), false).await.unwrap();
        let robot = Urgency::default();
        let first = waiter(&limit, &robot).await;
        let last = waiter(&limit, &robot).await;
        let people = [waiter(&limit, &person()).await, waiter(&limit, &person()).await];
        assert_eq!(last.await.unwrap().map(drop), Err(Busy::QueueFull));
        assert_eq!(limit.acquire(&robot, false).await.map(drop), Err(Busy::QueueFull));
        drop(held);
        for waiting in people {
            assert_eq!(waiting.await.unwrap().map(drop), Ok(()));
        }
        assert_eq!(first.await.unwrap().map(drop), Ok(()));
        assert_eq!((limit.active(), limit.waiting()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_has_an_end() {
        let limit = FetchLimit::new(1, 1, QUEUE_TIMEOUT);
        let _held = limit.acquire(&person(), false).await.unwrap();
        let before = tokio::time::Instant::now();
        assert_eq!(limit.acquire(&person(), false).await.map(drop), Err(Busy::QueueTimeout));
        assert!(before.elapsed() >= QUEUE_TIMEOUT);
        assert_eq!(limit.waiting(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_away_leaves_the_queue_and_gives_a_turn_back() {
        let limit = Arc::new(FetchLimit::new(1, 1, QUEUE_TIMEOUT));
        let held = limit.acquire(&person(), false).await.unwrap();
        let waiting = waiter(&limit, &person()).await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert_eq!(limit.waiting(), 0);
        // One that has its turn already and does not know it yet.
        let waiting = waiter(&limit, &person()).await;
        drop(held);
        assert_eq!(limit.active(), 1);
        waiting.abort();
        let _ = waiting.await;
        assert_eq!(limit.active(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_breaker_leaves_half_of_the_permits_to_probes() {
        let limit = Arc::new(FetchLimit::new(4, 9, QUEUE_TIMEOUT));
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(limit.acquire(&person(), false).await.unwrap());
        }
        limit.halve(true);
        let waiting = [waiter(&limit, &person()).await, waiter(&limit, &person()).await];
        let probe = limit.acquire(&person(), true).await.unwrap();
        assert_eq!((limit.active(), limit.waiting()), (4, 2));
        // Above the half, a permit that is given back goes to nobody.
        held.truncate(1);
        assert_eq!((limit.active(), limit.waiting()), (2, 2));
        drop(probe);
        assert_eq!((limit.active(), limit.waiting()), (2, 1), "at the half it goes to the next");
        limit.halve(false);
        assert_eq!((limit.active(), limit.waiting()), (3, 0));
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
    }
}
