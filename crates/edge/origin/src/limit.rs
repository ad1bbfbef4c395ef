//! The limit on concurrent requests to one origin, and the queue of the others. Shared by all
//! workers.
//!
//! Invariant: at most `fetches_max` requests are active, or fewer if the limit adapts, and at most
//! `queue_max` requests wait. At most `client_fetches_max` of the active ones are for one client;
//! probes are exempt. A waiting request receives its permit or an error within the queue timeout.
//! Requests of persons with a session precede those of other persons, and these precede requests of
//! robots alone; within each group the order is that of arrival.
//!
//! A fetch that waits for a slow client is stalled and does not count as active; at most
//! `stalled_max` fetches are stalled. If all of them go on at once, the active fetches exceed
//! `fetches_max` by that number.

mod turns;

use self::turns::Turns;
use crate::adaptive::{OriginWait, StageNumber};
use crate::urgency::Urgency;
use clock::Monotonic;
use defects::{Defect, is_planted};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// The limit on concurrent fetches from one origin, with its queue.
#[derive(Debug)]
pub struct FetchLimit {
    turns: Arc<Mutex<Turns>>,
    queue_timeout: Duration,
}

/// The bounds of a [`FetchLimit`], in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchBounds {
    /// Largest number of active fetches; 0 counts as 1.
    pub fetches_max: usize,
    /// Whether the limit adapts to response times below `fetches_max`.
    pub is_adaptive: bool,
    /// Largest number of active fetches for one client; 0 counts as 1. Below `fetches_max` it is
    /// the same share of the limit.
    pub client_fetches_max: usize,
    /// Largest number of fetches that are not counted as active because they wait for a slow
    /// client.
    pub stalled_max: usize,
    /// Largest number of requests in the queue.
    pub queue_max: usize,
    /// Largest number of requests in the queue for one client.
    pub client_queue_max: usize,
}

/// A permit for one fetch. It is returned when dropped.
#[derive(Debug)]
pub struct FetchPermit {
    turns: Arc<Mutex<Turns>>,
    client: Option<IpAddr>,
    /// The stage of an adaptive limit for which the fetch was chosen, until the limit knows its
    /// result.
    stage: Option<StageNumber>,
    is_stalled: bool,
}

/// Why a fetch got no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// The queue is full, or the client's share of it.
    #[error("the queue of requests for the application is full")]
    QueueFull,
    /// The request waited in the queue for its whole timeout.
    #[error("the request waited too long in the queue for the application")]
    QueueTimeout,
}

impl FetchLimit {
    /// Creates a limit with these bounds. A request waits at most `queue_timeout` in the queue.
    pub fn new(bounds: FetchBounds, queue_timeout: Duration) -> Self {
        Self { turns: Arc::new(Mutex::new(Turns::new(bounds))), queue_timeout }
    }

    /// Waits for a permit for one fetch.
    ///
    /// If the queue is full, a person's request replaces the last robot's. A probe may also take a
    /// permit that an open breaker reserves for probes.
    ///
    /// # Errors
    /// [`Busy`] if the queue is full, if a person's request took this one's place, or if the wait
    /// was too long.
    pub async fn acquire(&self, urgency: &Urgency, is_probe: bool) -> Result<FetchPermit, Busy> {
        let (mut turn, _place) = match self.ask(urgency, is_probe)? {
            PermitRequest::Now(permit) => return Ok(permit),
            PermitRequest::Queued(turn, place) => (turn, place),
        };
        let waiting = async {
            loop {
                // A permit that has arrived is taken before others are handed out.
                tokio::select! {
                    biased;
                    turn = &mut turn => return turn,
                    // A second client waits for this fetch, so the first client's share no longer
                    // holds it back.
                    () = urgency.shared() => hand_out(&self.turns),
                }
            }
        };
        match tokio::time::timeout(self.queue_timeout, waiting).await {
            Ok(Ok(permit)) => Ok(permit),
            // The sender was dropped: a person's request took the place.
            Ok(Err(_)) => Err(Busy::QueueFull),
            Err(_) => Err(Busy::QueueTimeout),
        }
    }

    /// Number of fetches that may be active, apart from the short reductions that test an adaptive
    /// limit.
    pub fn limit(&self) -> usize {
        lock(&self.turns).limit()
    }

    /// Number of active fetches.
    pub fn active(&self) -> usize {
        lock(&self.turns).active()
    }

    /// Whether all permits for ordinary fetches are in use.
    pub(crate) fn is_full(&self) -> bool {
        lock(&self.turns).is_full()
    }

    /// Number of requests in the queue.
    pub fn waiting(&self) -> usize {
        lock(&self.turns).waiting()
    }

    /// Number of stalled fetches.
    pub fn stalled(&self) -> usize {
        lock(&self.turns).stalled()
    }

    /// Limits fetches that are not probes to half of the permits, or lets them use all again.
    pub(crate) fn halve(&self, is_halved: bool) {
        lock(&self.turns).halve(is_halved);
        hand_out(&self.turns);
    }

    fn ask(&self, urgency: &Urgency, is_probe: bool) -> Result<PermitRequest<'_>, Busy> {
        let (client, mut turns) = (urgency.client(), lock(&self.turns));
        if turns.begin(client, is_probe) {
            return Ok(PermitRequest::Now(FetchPermit::new(&self.turns, client, turns.choose())));
        }
        let (turn, receiver) = oneshot::channel();
        let number = turns.queue_up(urgency.clone(), is_probe, turn).ok_or(Busy::QueueFull)?;
        Ok(PermitRequest::Queued(receiver, QueuePlace { limit: self, number }))
    }
}

enum PermitRequest<'a> {
    Now(FetchPermit),
    Queued(oneshot::Receiver<FetchPermit>, QueuePlace<'a>),
}

/// Gives the free permits to waiting requests, as far as the bounds allow.
fn hand_out(turns: &Arc<Mutex<Turns>>) {
    loop {
        let (waiter, client, stage) = {
            let mut turns = lock(turns);
            let Some((waiter, client)) = turns.call() else { return };
            (waiter, client, turns.choose())
        };
        // The lock is free again here. If the request was cancelled meanwhile, the unsent permit is
        // dropped, which takes the lock and passes it on.
        let _ = waiter.turn.send(FetchPermit::new(turns, client, stage));
    }
}

impl FetchPermit {
    fn new(turns: &Arc<Mutex<Turns>>, client: Option<IpAddr>, stage: Option<StageNumber>) -> Self {
        Self { turns: Arc::clone(turns), client, stage, is_stalled: false }
    }

    /// Reports to an adaptive limit how long the fetch waited for its first byte, which came at
    /// `now`. `page` returns a digest of its page.
    pub(crate) fn answered(&mut self, page: impl FnOnce() -> u64, wait: Duration, now: Monotonic) {
        {
            let mut turns = lock(&self.turns);
            if !turns.is_adaptive() {
                return;
            }
            turns.observe(OriginWait { stage: self.stage.take(), page: page(), wait }, now);
        }
        hand_out(&self.turns);
    }

    /// Stops counting this fetch as active, because the origin waits for a slow client. Another
    /// fetch may begin.
    ///
    /// Returns `false` if the fetch is stalled already, or if the limit of stalled fetches is
    /// reached.
    pub fn stall(&mut self) -> bool {
        if self.is_stalled || !lock(&self.turns).stall(self.client) {
            return false;
        }
        self.is_stalled = true;
        hand_out(&self.turns);
        true
    }

    /// Counts this fetch as active again after [`FetchPermit::stall`].
    ///
    /// It does not wait for a free permit, because the origin has the request already; new fetches
    /// wait until the count is below the limit. If the client has its share of active fetches, this
    /// one stays stalled.
    pub fn resume(&mut self) {
        if self.is_stalled {
            self.is_stalled = !lock(&self.turns).resume(self.client);
        }
    }
}

impl Drop for FetchPermit {
    fn drop(&mut self) {
        if is_planted(Defect::LostPermit) && self.is_stalled {
            return;
        }
        {
            let mut turns = lock(&self.turns);
            self.stage.take().into_iter().for_each(|stage| turns.give_up(stage));
            turns.end(self.client, self.is_stalled);
        }
        hand_out(&self.turns);
    }
}

/// A place in the queue. Dropping it leaves the queue, also when the waiting request is cancelled.
struct QueuePlace<'a> {
    limit: &'a FetchLimit,
    number: u64,
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        lock(&self.limit.turns).leave(self.number);
    }
}

/// The counts are consistent whenever the lock is released, so a panic elsewhere does no harm.
fn lock(turns: &Mutex<Turns>) -> MutexGuard<'_, Turns> {
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::turns::Turns;
    use super::{Busy, FetchBounds, FetchLimit, FetchPermit};
    use crate::Urgency;
    use crate::adaptive::OriginWait;
    use clock::Monotonic;
    use std::collections::VecDeque;
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
        let bounds = FetchBounds {
            fetches_max,
            is_adaptive: false,
            client_fetches_max,
            stalled_max: 1,
            queue_max,
            client_queue_max,
        };
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

    /// A task that waits in the queue when this function returns.
    async fn waiter(limit: &Arc<FetchLimit>, urgency: &Urgency) -> JoinHandle<Result<FetchPermit, Busy>> {
        let (limit, urgency) = (Arc::clone(limit), urgency.clone());
        let waiting = tokio::spawn(async move { limit.acquire(&urgency, false).await });
        tokio::task::yield_now().await;
        waiting
    }

    #[tokio::test(start_paused = true)]
    async fn returned_permit_goes_to_the_next_in_the_queue() {
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
        // A person joins the fetch of the second robot.
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
    async fn request_waits_no_longer_than_the_timeout() {
        let limit = limit(1, 1);
        let _held = limit.acquire(&person(), false).await.unwrap();
        let before = tokio::time::Instant::now();
        assert_eq!(limit.acquire(&person(), false).await.map(drop), Err(Busy::QueueTimeout));
        assert!(before.elapsed() >= QUEUE_TIMEOUT);
        assert_eq!(limit.waiting(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_request_leaves_queue_and_returns_permit() {
        let limit = Arc::new(limit(1, 1));
        let held = limit.acquire(&person(), false).await.unwrap();
        let waiting = waiter(&limit, &person()).await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert_eq!(limit.waiting(), 0);
        // This request has received its permit and has not run since.
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

    #[test]
    fn adaptive_limit_falls_to_the_workers_and_scales_shares() {
        let bounds = FetchBounds {
            fetches_max: 32,
            is_adaptive: true,
            client_fetches_max: 16,
            stalled_max: 1,
            queue_max: 0,
            client_queue_max: 0,
        };
        let (mut turns, mut now) = (Turns::new(bounds), Monotonic::default());
        let mut queue = VecDeque::new();
        for _ in 0..20_000 {
            while turns.begin(None, false) {
                queue.push_back((turns.choose(), now));
            }
            // An origin with four workers, each busy for 10 ms per request.
            now = now.plus(Duration::from_micros(2500));
            let (stage, sent) = queue.pop_front().unwrap();
            turns.end(None, false);
            let wait = now.since(sent).max(Duration::from_millis(10));
            turns.observe(OriginWait { stage, page: 1, wait }, now);
        }
        assert!((4..=8).contains(&turns.limit()), "{}", turns.limit());
        (0..turns.active()).for_each(|_| turns.end(None, false));
        let of_one = (0..32).take_while(|_| turns.begin(ONE, false)).count();
        assert_eq!(of_one, turns.limit().div_ceil(2));
        turns.halve(true);
        assert!(!turns.begin(None, false) && turns.begin(None, true), "the other half is for probes");
    }

    #[tokio::test(start_paused = true)]
    async fn fetch_joined_by_a_second_client_counts_for_no_client() {
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
    async fn resumed_fetch_counts_again_without_waiting() {
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
    async fn resumed_fetches_of_one_client_stay_within_its_share() {
        let bounds = FetchBounds {
            fetches_max: 4,
            is_adaptive: false,
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
    async fn one_client_may_stall_half_of_the_limit() {
        let bounds = FetchBounds {
            fetches_max: 4,
            is_adaptive: false,
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
        // Above the half, a returned permit is given to no waiting request.
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
