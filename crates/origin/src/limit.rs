//! How many requests one application works on at a time, and how long the others wait for their turn.
//!
//! Invariant: at most `fetches_max` requests are worked on, at most `client_fetches_max` of them for one client, and at
//! most `queue_max` requests wait; a waiting request gets its permit or an error in time. Whom a person waits for comes
//! before what only robots want, else the order is that of arrival. A fetch that waits for a slow client is not worked
//! on; at most `stalled_max` are in that state. When all of them go on at once, as many more than `fetches_max` are
//! worked on. Shared by all workers.

mod turns;

use self::turns::Turns;
use crate::urgency::Urgency;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// The bound on concurrent fetches from one origin, with its queue.
#[derive(Debug)]
pub struct FetchLimit {
    turns: Arc<Mutex<Turns>>,
    queue_timeout: Duration,
}

/// How much an application is asked at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Requests under way; at least one.
    pub fetches_max: usize,
    /// Of these, requests for one client.
    pub client_fetches_max: usize,
    /// Fetches beside them that wait for a slow client.
    pub stalled_max: usize,
    /// Requests that wait for their turn.
    pub queue_max: usize,
    /// Of these, requests for one client.
    pub client_queue_max: usize,
}

/// The right to one fetch; given back when dropped.
#[derive(Debug)]
pub struct FetchPermit {
    turns: Arc<Mutex<Turns>>,
    client: Option<IpAddr>,
    is_stalled: bool,
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

impl FetchLimit {
    /// A limit with these bounds; each request waits no longer than `queue_timeout`.
    pub fn new(bounds: Bounds, queue_timeout: Duration) -> Self {
        Self { turns: Arc::new(Mutex::new(Turns::new(bounds))), queue_timeout }
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
        let waiting = async {
            loop {
                tokio::select! {
                    biased;
                    turn = &mut turn => return turn,
                    // Other clients wait for it too, so its first client's bound holds it back no more.
                    () = urgency.shared() => hand_out(&self.turns),
                }
            }
        };
        match tokio::time::timeout(self.queue_timeout, waiting).await {
            Ok(Ok(permit)) => Ok(permit),
            // A person has taken its place.
            Ok(Err(_)) => Err(Busy::QueueFull),
            Err(_) => Err(Busy::QueueTimeout),
        }
    }

    /// Fetches under way.
    pub fn active(&self) -> usize {
        lock(&self.turns).active()
    }

    /// Requests waiting for their turn.
    pub fn waiting(&self) -> usize {
        lock(&self.turns).waiting()
    }

    /// Fetches whose response waits for a slow reader.
    pub fn stalled(&self) -> usize {
        lock(&self.turns).stalled()
    }

    /// From now on fetches that are no probes get half of the permits, or all of them again.
    pub(crate) fn halve(&self, is_halved: bool) {
        lock(&self.turns).halve(is_halved);
        hand_out(&self.turns);
    }

    fn ask(&self, urgency: &Urgency, is_probe: bool) -> Result<Asked<'_>, Busy> {
        let (client, mut turns) = (urgency.client(), lock(&self.turns));
        if turns.begin(client, is_probe) {
            return Ok(Asked::Now(FetchPermit::new(&self.turns, client)));
        }
        let (turn, receiver) = oneshot::channel();
        let number = turns.queue_up(urgency.clone(), is_probe, turn).ok_or(Busy::QueueFull)?;
        Ok(Asked::Queued(receiver, Place { limit: self, number }))
    }
}

enum Asked<'a> {
    Now(FetchPermit),
    Queued(oneshot::Receiver<FetchPermit>, Place<'a>),
}

/// Gives the free turns to those who wait for them and may have them.
fn hand_out(turns: &Arc<Mutex<Turns>>) {
    loop {
        let Some((waiter, client)) = lock(turns).call() else { return };
        // Who has gone meanwhile gives it back the same way, without the lock.
        let _ = waiter.turn.send(FetchPermit::new(turns, client));
    }
}

impl FetchPermit {
    fn new(turns: &Arc<Mutex<Turns>>, client: Option<IpAddr>) -> Self {
        Self { turns: Arc::clone(turns), client, is_stalled: false }
    }

    /// Lets another fetch begin although this one goes on, because the application waits for a slow client; false if
    /// it did so before, or too many others have.
    pub fn stall(&mut self) -> bool {
        if self.is_stalled || !lock(&self.turns).stall(self.client) {
            return false;
        }
        self.is_stalled = true;
        hand_out(&self.turns);
        true
    }

    /// Takes a turn again after [`FetchPermit::stall`]. It does not wait for a free one, because the application has
    /// the request already; further fetches wait until there are few enough. It takes none beyond its client's share.
    pub fn resume(&mut self) {
        if self.is_stalled {
            self.is_stalled = !lock(&self.turns).resume(self.client);
        }
    }
}

impl Drop for FetchPermit {
    fn drop(&mut self) {
        lock(&self.turns).end(self.client, self.is_stalled);
        hand_out(&self.turns);
    }
}

/// A place in the queue, left on drop also when the waiting request goes away.
struct Place<'a> {
    limit: &'a FetchLimit,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(&self.limit.turns).leave(self.number);
    }
}

/// Each change of turns is whole before the lock is given back, a panic elsewhere leaves them as they should be.
fn lock(turns: &Mutex<Turns>) -> MutexGuard<'_, Turns> {
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Busy, FetchLimit, FetchPermit};
    use crate::Urgency;
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::task::JoinHandle;

    const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

    const ONE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));
    const OTHER: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)));

    fn limit(fetches_max: usize, queue_max: usize) -> FetchLimit {
        bounded(fetches_max, fetches_max, queue_max, queue_max)
    }

    fn bounded(
        fetches_max: usize,
        client_fetches_max: usize,
        queue_max: usize,
        client_queue_max: usize,
    ) -> FetchLimit {
        let bounds = Bounds { fetches_max, client_fetches_max, stalled_max: 1, queue_max, client_queue_max };
        FetchLimit::new(bounds, QUEUE_TIMEOUT)
    }

    fn wanted_by(client: Option<IpAddr>) -> Urgency {
        let urgency = person();
        urgency.is_wanted_by(client);
        urgency
    }

    fn person() -> Urgency {
        Urgency::of(true)
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
        let limit = Arc::new(limit(1, 1));
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
        let limit = Arc::new(limit(1, 4));
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
        let limit = Arc::new(limit(1, 3));
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
        let limit = limit(1, 1);
        let _held = limit.acquire(&person(), false).await.unwrap();
        let before = tokio::time::Instant::now();
        assert_eq!(limit.acquire(&person(), false).await.map(drop), Err(Busy::QueueTimeout));
        assert!(before.elapsed() >= QUEUE_TIMEOUT);
        assert_eq!(limit.waiting(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_away_leaves_the_queue_and_gives_a_turn_back() {
        let limit = Arc::new(limit(1, 1));
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
    async fn one_client_gets_its_share_while_others_go_ahead() {
        let limit = Arc::new(bounded(3, 2, 8, 3));
        let (one, other) = (wanted_by(ONE), wanted_by(OTHER));
        let first = limit.acquire(&one, false).await.unwrap();
        let _second = limit.acquire(&one, false).await.unwrap();
        let third = waiter(&limit, &one).await;
        assert_eq!((limit.active(), limit.waiting()), (2, 1), "its share is used up");
        let others = limit.acquire(&other, false).await.unwrap();
        assert_eq!((limit.active(), limit.waiting()), (3, 1));
        drop(others);
        tokio::task::yield_now().await;
        assert!(!third.is_finished(), "a free permit is not for the client that has its share");
        drop(first);
        assert_eq!(third.await.unwrap().map(drop), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn one_client_does_not_fill_the_queue() {
        let limit = Arc::new(bounded(1, 1, 4, 2));
        let (one, other) = (wanted_by(ONE), wanted_by(OTHER));
        let held = limit.acquire(&one, false).await.unwrap();
        let waiting = [waiter(&limit, &one).await, waiter(&limit, &one).await];
        assert_eq!(limit.acquire(&one, false).await.map(drop), Err(Busy::QueueFull));
        let others = waiter(&limit, &other).await;
        assert_eq!(limit.waiting(), 3);
        drop(held);
        for waiting in waiting.into_iter().chain([others]) {
            assert_eq!(waiting.await.unwrap().map(drop), Ok(()));
        }
        assert_eq!((limit.active(), limit.waiting()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_fetch_that_another_client_joins_is_nobodys_share() {
        let limit = Arc::new(bounded(2, 1, 4, 4));
        let (first, joined) = (wanted_by(ONE), wanted_by(ONE));
        let _held = limit.acquire(&first, false).await.unwrap();
        let waiting = waiter(&limit, &joined).await;
        joined.is_wanted_by(ONE);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "the same client joined");
        joined.is_wanted_by(OTHER);
        assert_eq!(waiting.await.unwrap().map(drop), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_fetch_lets_another_begin_within_a_bound() {
        let limit = Arc::new(bounded(1, 1, 4, 4));
        let mut slow = limit.acquire(&person(), false).await.unwrap();
        let waiting = waiter(&limit, &person()).await;
        assert!(slow.stall() && !slow.stall());
        let mut next = waiting.await.unwrap().unwrap();
        assert_eq!((limit.active(), limit.stalled()), (1, 1));
        assert!(!next.stall(), "as many are stalled as may be");
        drop(slow);
        assert_eq!((limit.active(), limit.stalled()), (1, 0));
        assert!(next.stall());
        drop(next);
        assert_eq!((limit.active(), limit.stalled()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_fetch_that_goes_on_counts_again_and_waits_for_nobody() {
        let limit = Arc::new(bounded(1, 1, 4, 4));
        let mut slow = limit.acquire(&person(), false).await.unwrap();
        assert!(slow.stall());
        let next = limit.acquire(&person(), false).await.unwrap();
        slow.resume();
        slow.resume();
        assert_eq!((limit.active(), limit.stalled()), (2, 0));
        let waiting = waiter(&limit, &person()).await;
        drop(next);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "one is still under way");
        drop(slow);
        assert_eq!(waiting.await.unwrap().map(drop), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reads_on_takes_no_more_than_its_share() {
        let bounds = Bounds {
            fetches_max: 4,
            client_fetches_max: 2,
            stalled_max: 8,
            queue_max: 0,
            client_queue_max: 0,
        };
        let (limit, one) = (FetchLimit::new(bounds, QUEUE_TIMEOUT), wanted_by(ONE));
        let mut slow = Vec::new();
        for _ in 0..4 {
            let mut permit = limit.acquire(&one, false).await.unwrap();
            assert!(permit.stall());
            slow.push(permit);
        }
        slow.iter_mut().for_each(FetchPermit::resume);
        assert_eq!((limit.active(), limit.stalled()), (2, 2));
        slow.remove(0);
        slow.iter_mut().for_each(FetchPermit::resume);
        assert_eq!((limit.active(), limit.stalled()), (2, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn one_client_stalls_half_as_many_as_may() {
        let bounds = Bounds {
            fetches_max: 4,
            client_fetches_max: 4,
            stalled_max: 4,
            queue_max: 0,
            client_queue_max: 0,
        };
        let limit = Arc::new(FetchLimit::new(bounds, QUEUE_TIMEOUT));
        let (one, other) = (wanted_by(ONE), wanted_by(OTHER));
        let mut permits = Vec::new();
        for (urgency, expected) in [(&one, true), (&one, true), (&one, false), (&other, true)] {
            let mut permit = limit.acquire(urgency, false).await.unwrap();
            assert_eq!(permit.stall(), expected);
            permits.push(permit);
        }
        assert_eq!((limit.active(), limit.stalled()), (1, 3));
        drop(permits);
        assert_eq!((limit.active(), limit.stalled()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_breaker_leaves_half_of_the_permits_to_probes() {
        let limit = Arc::new(limit(4, 9));
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

    #[tokio::test(start_paused = true)]
    async fn probe_that_queued_gets_a_permit_reserved_for_probes() {
        let limit = Arc::new(limit(4, 9));
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(limit.acquire(&person(), false).await.unwrap());
        }
        limit.halve(true);
        let person_waits = waiter(&limit, &person()).await;
        let prober = Arc::clone(&limit);
        let probe = tokio::spawn(async move { prober.acquire(&Urgency::default(), true).await });
        tokio::task::yield_now().await;
        assert_eq!((limit.active(), limit.waiting()), (4, 2));
        held.pop();
        tokio::task::yield_now().await;
        assert!(probe.is_finished() && !person_waits.is_finished(), "three others are under way");
        held.clear();
        assert!(person_waits.await.unwrap().is_ok());
        drop(probe.await.unwrap());
        assert_eq!((limit.active(), limit.waiting()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn person_does_not_take_the_place_of_a_probe() {
        let limit = Arc::new(limit(1, 1));
        let held = limit.acquire(&person(), false).await.unwrap();
        let prober = Arc::clone(&limit);
        let probe = tokio::spawn(async move { prober.acquire(&Urgency::default(), true).await });
        tokio::task::yield_now().await;
        assert_eq!(limit.acquire(&person(), false).await.map(drop), Err(Busy::QueueFull));
        drop(held);
        assert!(probe.await.unwrap().is_ok());
    }
}
