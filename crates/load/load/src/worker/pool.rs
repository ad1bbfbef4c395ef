//! The connections of one thread, and the requests that wait for one.
//!
//! Invariant: a connection is listed at most once as marked, and at most once as unread.

use crate::exchange::ExchangeTimes;
use crate::slots::{ConnectionBounds, SlotId, SlotRole, Slots};
use crate::transport::{ConnectionState, Transport};
use clock::Monotonic;
use record::SourceNet;
use std::collections::VecDeque;
use std::net::IpAddr;

pub(super) struct Pool<T> {
    pub(super) slots: Slots<T>,
    /// The most requests on a connection at a time.
    pub(super) capacity: usize,
    /// Requests that wait for a connection, in the order in which they came. A request that its
    /// connection did not process is put in front.
    pub(super) waiting: VecDeque<ExchangeTimes>,
    /// Whether a waiting request may get a connection that it could not get before.
    pub(super) is_freed: bool,
    /// Connections whose last turn did not read all bytes.
    pub(super) unread: Vec<SlotId>,
    /// Slots of connections that got a request and need a turn.
    marked: Vec<usize>,
    /// Recycled buffer for `marked`.
    spare: Vec<usize>,
    /// Number of connections that wait for the server's close.
    pub(super) parting: usize,
    /// Number of local addresses that this thread has taken so far.
    dialled: u64,
}

impl<T: Transport> Pool<T> {
    pub(super) fn new(slots: Slots<T>, capacity: usize) -> Self {
        Self {
            slots,
            capacity,
            waiting: VecDeque::new(),
            is_freed: false,
            unread: Vec::new(),
            marked: Vec::new(),
            spare: Vec::new(),
            parting: 0,
            dialled: 0,
        }
    }

    /// Whether something can be done without an event of a socket.
    pub(super) fn has_work(&self) -> bool {
        self.is_freed || !self.marked.is_empty() || !self.unread.is_empty()
    }

    /// Whether the connection in this slot leads to `host` and can carry another request.
    #[inline]
    pub(super) fn has_room(&mut self, slot: usize, host: u32) -> bool {
        self.slots.get_mut(slot).is_some_and(|place| {
            place.route.host == host
                && place.load() < self.capacity
                && place.connection.state() == ConnectionState::Open
                && matches!(place.role, SlotRole::Busy | SlotRole::Idle)
        })
    }

    /// Keeps a place on a connection for a user who thinks, if the connection stays open.
    pub(super) fn hold(&mut self, slot: usize) -> Option<SlotId> {
        let id = self.slots.id(slot)?;
        let place = self.slots.get_mut(slot)?;
        if place.connection.state() != ConnectionState::Open {
            return None;
        }
        place.held += 1;
        Some(id)
    }

    /// Gives a user's place on a connection back. Returns whether the connection is still there.
    pub(super) fn unhold(&mut self, id: SlotId) -> bool {
        let place = self.slots.remembered(id);
        place.map(|place| place.held -= 1).is_some()
    }

    /// Marks a connection for a turn.
    pub(super) fn mark(&mut self, slot: usize) {
        let Some(place) = self.slots.get_mut(slot) else { return };
        if !std::mem::replace(&mut place.is_marked, true) {
            self.marked.push(slot);
        }
    }

    /// Takes the list of marked connections. The caller empties it and gives it back with
    /// [`Pool::recycle`].
    pub(super) fn take_marked(&mut self) -> Vec<usize> {
        let spare = std::mem::take(&mut self.spare);
        std::mem::replace(&mut self.marked, spare)
    }

    pub(super) fn recycle(&mut self, spare: Vec<usize>) {
        self.spare = spare;
    }

    /// Lists a connection whose turn is over before all bytes were read.
    pub(super) fn note_unread(&mut self, slot: usize) {
        let Some(id) = self.slots.id(slot) else { return };
        let Some(place) = self.slots.get_mut(slot) else { return };
        if !std::mem::replace(&mut place.is_unread, true) {
            self.unread.push(id);
        }
    }

    /// Takes a connection out of use, but keeps it open until this moment. `role` says why.
    pub(super) fn retire_until(&mut self, slot: usize, role: SlotRole, until: Monotonic) {
        if let Some(place) = self.slots.get_mut(slot) {
            place.until = until;
        }
        self.slots.set_role(slot, role);
    }

    /// The local address of this thread's next connection, if the plan restricts local addresses to
    /// `source`. `place` is the index of the thread and the number of threads, which take the
    /// addresses in turn.
    pub(super) fn local(&mut self, source: Option<SourceNet>, place: (usize, usize)) -> Option<IpAddr> {
        let (thread, threads) = place;
        let index = self.dialled * threads as u64 + thread as u64;
        let address = source?.address(index);
        self.dialled += 1;
        Some(address)
    }
}

/// A thread's share of the bounds on connections. `place` is the index of the thread and the number
/// of threads. A run has no more threads than its bounds allow connections, so each thread has at
/// least one connection and the shares add up to the bounds.
pub(super) fn bounds(host: Option<usize>, address: Option<usize>, place: (usize, usize)) -> ConnectionBounds {
    let bound = |whole: Option<usize>| whole.map_or(usize::MAX, |whole| super::share(whole, place).max(1));
    ConnectionBounds { host: bound(host), address: bound(address) }
}
