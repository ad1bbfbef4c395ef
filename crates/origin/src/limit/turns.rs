//! Who has a turn at an application and who waits for one: counts without locks or wakers.
//!
//! Invariant: the counts of a client are those of its turns and of its places in the queue; a client without either is
//! forgotten, so the table is no larger than turns and queue together.

use super::{Bounds, FetchPermit};
use crate::urgency::Urgency;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use tokio::sync::oneshot;

#[derive(Debug)]
pub(super) struct Turns {
    bounds: Bounds,
    active: usize,
    /// Fetches at a time that are no probes: half of `fetches_max` while the breaker is open.
    ceiling: usize,
    stalled: usize,
    queue: VecDeque<Waiter>,
    shares: HashMap<IpAddr, Share>,
    /// The number of the next who queues up.
    next: u64,
}

/// What one client has.
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
    /// In whose share it was counted when it queued up.
    client: Option<IpAddr>,
    /// Whether it may also have a turn that an open breaker leaves to probes.
    is_probe: bool,
    pub(super) turn: oneshot::Sender<FetchPermit>,
}

impl Turns {
    pub(super) fn new(bounds: Bounds) -> Self {
        let bounds = Bounds {
            fetches_max: bounds.fetches_max.max(1),
            client_fetches_max: bounds.client_fetches_max.max(1),
            ..bounds
        };
        let ceiling = bounds.fetches_max;
        Self {
            bounds,
            active: 0,
            ceiling,
            stalled: 0,
            queue: VecDeque::new(),
            shares: HashMap::new(),
            next: 0,
        }
    }

    pub(super) const fn active(&self) -> usize {
        self.active
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(super) const fn stalled(&self) -> usize {
        self.stalled
    }

    /// Leaves fetches that are no probes half of the turns, or all of them again.
    pub(super) fn halve(&mut self, is_halved: bool) {
        let all = self.bounds.fetches_max;
        self.ceiling = if is_halved { all.div_ceil(2) } else { all };
    }

    /// Takes a turn for a request of `client`, if one is free that it may have.
    pub(super) fn begin(&mut self, client: Option<IpAddr>, is_probe: bool) -> bool {
        let begins = self.may_begin(client, is_probe);
        if begins {
            self.active += 1;
            self.change(client, |share| share.active += 1);
        }
        begins
    }

    /// Ends what [`Turns::begin`] or [`Turns::call`] began.
    pub(super) fn end(&mut self, client: Option<IpAddr>, was_stalled: bool) {
        if was_stalled {
            self.stalled -= 1;
            self.change(client, |share| share.stalled -= 1);
        } else {
            self.active -= 1;
            self.change(client, |share| share.active -= 1);
        }
    }

    /// Frees the turn of a fetch that goes on; false if too many have done so, or half as many of one client.
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

    /// Counts a fetch among those under way again, also where no turn is free, but not beyond the share of its client:
    /// one client that reads on in many responses at once would take the turns of all others. Says whether it counts.
    pub(super) fn resume(&mut self, client: Option<IpAddr>) -> bool {
        let of_client = client.and_then(|client| self.shares.get(&client)).map_or(0, |share| share.active);
        let resumes = client.is_none() || of_client < self.bounds.client_fetches_max;
        if resumes {
            self.end(client, true);
            self.active += 1;
            self.change(client, |share| share.active += 1);
        }
        resumes
    }

    /// A place in the queue, by its number; `None` where the request may not wait.
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
        if self.queue.len() >= self.bounds.queue_max && !(urgency.is_person() && self.displace()) {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.change(client, |share| share.waiting += 1);
        self.queue.push_back(Waiter { number, urgency, client, is_probe, turn });
        Some(number)
    }

    /// Leaves the queue, if it is still in it.
    pub(super) fn leave(&mut self, number: u64) {
        if let Some(position) = self.queue.iter().position(|waiter| waiter.number == number) {
            self.remove(position);
        }
    }

    /// Takes a free turn for the next: the first that a person waits for, else the first; of those whose client has
    /// not got its share.
    pub(super) fn call(&mut self) -> Option<(Waiter, Option<IpAddr>)> {
        if self.active >= self.bounds.fetches_max {
            return None;
        }
        let may = |waiter: &Waiter| self.may_begin(waiter.urgency.client(), waiter.is_probe);
        let person = self.queue.iter().position(|waiter| waiter.urgency.is_person() && may(waiter));
        let position = person.or_else(|| self.queue.iter().position(may))?;
        let waiter = self.remove(position)?;
        let client = waiter.urgency.client();
        self.active += 1;
        self.change(client, |share| share.active += 1);
        Some((waiter, client))
    }

    /// Takes the place of the robot that came last; false if there is none. A probe keeps its place, because people too
    /// wait for what it finds out.
    fn displace(&mut self) -> bool {
        let last = self.queue.iter().rposition(|waiter| !waiter.urgency.is_person() && !waiter.is_probe);
        last.and_then(|position| self.remove(position)).is_some()
    }

    fn remove(&mut self, position: usize) -> Option<Waiter> {
        let waiter = self.queue.remove(position)?;
        self.change(waiter.client, |share| share.waiting -= 1);
        Some(waiter)
    }

    /// Whether a turn is free that a request of `client` may have.
    fn may_begin(&self, client: Option<IpAddr>, is_probe: bool) -> bool {
        if is_probe {
            return self.active < self.bounds.fetches_max;
        }
        let share = client.and_then(|client| self.shares.get(&client));
        let has_share = share.is_none_or(|share| share.active < self.bounds.client_fetches_max);
        self.active < self.ceiling && has_share
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
