//! The counts behind the fetch limit: active and stalled fetches and the queue, without locks or
//! wakers.
//!
//! Invariant: a client's share equals its active and stalled fetches and its places in the queue. A
//! client with none of these has no entry, so the table is never larger than fetches and queue
//! together.

use super::{FetchBounds, FetchPermit};
use crate::adaptive::{AdaptiveLimit, OriginWait, StageNumber};
use crate::urgency::{PERSON, Urgency};
use clock::Monotonic;
use platform::HashMap;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::net::IpAddr;
use tokio::sync::oneshot;

#[derive(Debug)]
pub(super) struct Turns {
    bounds: FetchBounds,
    /// Adapts the number of concurrent fetches; `None` if `fetches_max` is the limit.
    adaptive: Option<Box<AdaptiveLimit>>,
    active: usize,
    /// Whether only half of the permits is for fetches that are no probes, because the breaker is
    /// open.
    is_halved: bool,
    stalled: usize,
    queue: VecDeque<Waiter>,
    shares: HashMap<IpAddr, Share>,
    /// The number of the next place in the queue.
    next: u64,
    /// Requests that were called from the queue.
    calls: u32,
}

/// The fetches and places in the queue of one client.
#[derive(Debug, Default)]
struct Share {
    active: usize,
    stalled: usize,
    waiting: usize,
}

#[derive(Debug)]
pub(super) struct Waiter {
    number: u64,
    urgency: Urgency,
    /// The client in whose share it was counted when it entered the queue.
    client: Option<IpAddr>,
    /// Whether it may also take a permit that an open breaker reserves for probes.
    is_probe: bool,
    pub(super) turn: oneshot::Sender<FetchPermit>,
}

impl Turns {
    pub(super) fn new(bounds: FetchBounds) -> Self {
        let bounds = FetchBounds {
            fetches_max: bounds.fetches_max.max(1),
            client_fetches_max: bounds.client_fetches_max.max(1),
            ..bounds
        };
        let adaptive = bounds.is_adaptive.then(|| Box::new(AdaptiveLimit::new(bounds.fetches_max)));
        Self {
            bounds,
            adaptive,
            active: 0,
            is_halved: false,
            stalled: 0,
            queue: VecDeque::new(),
            shares: HashMap::default(),
            next: 0,
            calls: 0,
        }
    }

    pub(super) const fn active(&self) -> usize {
        self.active
    }

    pub(super) fn is_full(&self) -> bool {
        self.active >= self.ceiling()
    }

    /// The limit of active fetches in force, apart from the short reductions that test it.
    pub(super) fn limit(&self) -> usize {
        self.adaptive.as_ref().map_or(self.bounds.fetches_max, |adaptive| adaptive.limit())
    }

    /// Whether the limit adapts to response times.
    pub(super) const fn is_adaptive(&self) -> bool {
        self.adaptive.is_some()
    }

    /// The stage of an adaptive limit for which the fetch that has just begun was chosen.
    pub(super) fn choose(&mut self) -> Option<StageNumber> {
        let active = self.active;
        self.adaptive.as_mut()?.begin(active)
    }

    /// Reports to an adaptive limit that a chosen fetch had no usable response.
    pub(super) fn give_up(&mut self, stage: StageNumber) {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.give_up(stage);
        }
    }

    /// Adapts the limit to a response that arrived at `now`.
    pub(super) fn observe(&mut self, response: OriginWait, now: Monotonic) {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.observe(response, now);
        }
    }

    /// Largest number of active fetches now.
    fn permitted(&self) -> usize {
        self.adaptive.as_ref().map_or(self.bounds.fetches_max, |adaptive| adaptive.permitted())
    }

    /// Largest number of active fetches for a fetch other than a probe.
    fn ceiling(&self) -> usize {
        if self.is_halved { self.permitted().div_ceil(2) } else { self.permitted() }
    }

    /// Largest number of active fetches for one client: the same share of any limit.
    fn client_ceiling(&self) -> usize {
        let FetchBounds { fetches_max, client_fetches_max, .. } = self.bounds;
        client_fetches_max.saturating_mul(self.permitted()).div_ceil(fetches_max)
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(super) const fn stalled(&self) -> usize {
        self.stalled
    }

    /// Limits fetches that are not probes to half of the permits, or lets them use all again.
    pub(super) const fn halve(&mut self, is_halved: bool) {
        self.is_halved = is_halved;
    }

    /// Begins a fetch for `client` if the bounds allow it. Returns whether it began.
    pub(super) fn begin(&mut self, client: Option<IpAddr>, is_probe: bool) -> bool {
        let begins = self.may_begin(client, is_probe);
        if begins {
            self.active += 1;
            self.change(client, |share| share.active += 1);
        }
        begins
    }

    /// Ends a fetch that [`Turns::begin`] or [`Turns::call`] began.
    pub(super) fn end(&mut self, client: Option<IpAddr>, was_stalled: bool) {
        if was_stalled {
            self.stalled -= 1;
            self.change(client, |share| share.stalled -= 1);
        } else {
            self.active -= 1;
            self.change(client, |share| share.active -= 1);
        }
    }

    /// Counts an active fetch as stalled. Returns `false` if the limit is reached, or half of it by
    /// this client.
    pub(super) fn stall(&mut self, client: Option<IpAddr>) -> bool {
        let of_client = client.and_then(|client| self.shares.get(&client)).map_or(0, |share| share.stalled);
        let stalls = self.stalled < self.bounds.stalled_max
            && (client.is_none() || of_client < self.bounds.stalled_max.div_ceil(2));
        if stalls {
            self.end(client, false);
            self.stalled += 1;
            self.change(client, |share| share.stalled += 1);
        }
        stalls
    }

    /// Counts a stalled fetch as active again, even above `fetches_max`, but not above its client's
    /// share. Otherwise one client that reads on in many responses at once would take the permits
    /// of all others. Returns whether the fetch is active.
    pub(super) fn resume(&mut self, client: Option<IpAddr>) -> bool {
        let of_client = client.and_then(|client| self.shares.get(&client)).map_or(0, |share| share.active);
        let resumes = client.is_none() || of_client < self.client_ceiling();
        if resumes {
            self.end(client, true);
            self.active += 1;
            self.change(client, |share| share.active += 1);
        }
        resumes
    }

    /// Adds a request to the queue and returns the number of its place. `None` if the queue, or the
    /// client's share of it, is full.
    pub(super) fn queue_up(
        &mut self,
        urgency: Urgency,
        is_probe: bool,
        turn: oneshot::Sender<FetchPermit>,
    ) -> Option<u64> {
        let client = urgency.client();
        let waiting = client.and_then(|client| self.shares.get(&client)).map_or(0, |share| share.waiting);
        if client.is_some() && waiting >= self.bounds.client_queue_max {
            return None;
        }
        if self.queue.len() >= self.bounds.queue_max && !self.displace(urgency.rank()) {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.change(client, |share| share.waiting += 1);
        self.queue.push_back(Waiter { number, urgency, client, is_probe, turn });
        Some(number)
    }

    /// Removes a place from the queue, if it is still there.
    pub(super) fn leave(&mut self, number: u64) {
        if let Some(position) = self.queue.iter().position(|waiter| waiter.number == number) {
            self.remove(position);
        }
    }

    /// Removes the next request from the queue and begins its fetch, if one may begin.
    ///
    /// It is the first one of the most urgent rank; requests of clients that have their share are
    /// passed over. Each fourth time, a session counts for no more than any other person: everybody
    /// can claim to have one.
    pub(super) fn call(&mut self) -> Option<(Waiter, Option<IpAddr>)> {
        if self.active >= self.permitted() {
            return None;
        }
        let may = |waiter: &Waiter| self.may_begin(waiter.urgency.client(), waiter.is_probe);
        let permitted = self.queue.iter().enumerate().filter(|(_, waiter)| may(waiter));
        let rank_max = if self.calls % 4 == 3 { PERSON } else { u8::MAX };
        let rank = |waiter: &Waiter| waiter.urgency.rank().min(rank_max);
        let first = permitted.max_by_key(|(position, waiter)| (rank(waiter), Reverse(*position)));
        let position = first?.0;
        self.calls = self.calls.wrapping_add(1);
        let waiter = self.remove(position)?;
        let client = waiter.urgency.client();
        self.active += 1;
        self.change(client, |share| share.active += 1);
        Some((waiter, client))
    }

    /// Removes the robot's request that came last, for a person's request; `false` if there is
    /// none. A probe keeps its place, because people wait for its result too.
    fn displace(&mut self, rank: u8) -> bool {
        let is_less = |waiter: &Waiter| waiter.urgency.rank() < rank.min(PERSON) && !waiter.is_probe;
        let last = self.queue.iter().rposition(is_less);
        last.and_then(|position| self.remove(position)).is_some()
    }

    fn remove(&mut self, position: usize) -> Option<Waiter> {
        let waiter = self.queue.remove(position)?;
        self.change(waiter.client, |share| share.waiting -= 1);
        Some(waiter)
    }

    /// Whether a fetch of `client` may begin within the bounds.
    fn may_begin(&self, client: Option<IpAddr>, is_probe: bool) -> bool {
        if is_probe {
            return self.active < self.permitted();
        }
        let share = client.and_then(|client| self.shares.get(&client));
        let has_share = share.is_none_or(|share| share.active < self.client_ceiling());
        self.active < self.ceiling() && has_share
    }

    fn change(&mut self, client: Option<IpAddr>, change: impl FnOnce(&mut Share)) {
        let Some(client) = client else { return };
        let share = self.shares.entry(client).or_default();
        change(share);
        if share.active == 0 && share.stalled == 0 && share.waiting == 0 {
            self.shares.remove(&client);
        }
    }
}
