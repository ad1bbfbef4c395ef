//! The connections of one thread: their roles, which ones are free, and how many lead to each host
//! and address.
//!
//! A connection is [`SlotRole::Idle`] while it can take another request, even if it carries some.
//!
//! Invariant: a reused slot has a new generation, so a stale [`SlotId`] never refers to the next
//! connection in the slot. In the steady state nothing grows.

use crate::transport::Transport;
use clock::Monotonic;

/// A reference to a connection that stays valid, or is recognised as stale, after the slot is
/// reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotId {
    pub(crate) slot: usize,
    generation: u32,
}

/// The current use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotRole {
    /// It carries as many requests as it may, counting users who think and keep their place.
    Busy,
    /// It can take another request of any user.
    Idle,
    /// It stays open for a while but is not used again.
    Lingering,
    /// It waits for the server's close.
    Parting,
}

/// Where connections lead: indices of a host and of an address in the run's lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) host: u32,
    pub(crate) address: u32,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct PoolSlot<C> {
    pub(crate) connection: C,
    pub(crate) route: Route,
    pub(crate) role: SlotRole,
    generation: u32,
    /// Whether it is in the `idle` list of its host.
    is_listed: bool,
    /// Whether it is listed for a turn, because it got a request.
    pub(crate) is_marked: bool,
    /// Whether it is listed for a turn, because it has unread bytes.
    pub(crate) is_unread: bool,
    /// Users who think and keep their place on it.
    pub(crate) held: usize,
    /// Until when it stays open, if it is not used any more.
    pub(crate) until: Monotonic,
    /// Measured responses so far.
    pub(crate) served: u64,
}

impl<T: Transport> PoolSlot<T> {
    /// Number of requests on it, plus users who think and keep their place.
    #[inline]
    pub(crate) fn load(&self) -> usize {
        self.connection.load() + self.held
    }
}

/// The most connections at a time to one host and to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionBounds {
    pub(crate) host: usize,
    pub(crate) address: usize,
}

/// The most sockets of closed connections that are kept for reuse.
const RETIRED_MAX: usize = 1024;

/// All connections of a thread.
#[derive(Debug)]
pub(crate) struct Slots<C> {
    slots: Vec<Option<PoolSlot<C>>>,
    free: Vec<usize>,
    /// Closed connections whose sockets will be reused, with their slots and the indices of their
    /// addresses.
    retired: Vec<(usize, u32, C)>,
    generation: u32,
    /// Idle connections by host, most recent last. Some entries may be stale.
    idle: Vec<Vec<SlotId>>,
    bounds: ConnectionBounds,
    by_host: Vec<usize>,
    by_address: Vec<usize>,
}

impl<C> Slots<C> {
    /// An empty table for this number of hosts and addresses.
    pub(crate) fn new(hosts: usize, addresses: usize, bounds: ConnectionBounds) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            retired: Vec::new(),
            generation: 0,
            idle: vec![Vec::new(); hosts],
            bounds,
            by_host: vec![0; hosts],
            by_address: vec![0; addresses],
        }
    }

    /// Adds a connection that carries a request. Returns its slot.
    pub(crate) fn insert(&mut self, connection: C, route: Route) -> usize {
        let new = self.new_slot(connection, route);
        let slot = self.free.pop().unwrap_or(self.slots.len());
        match self.slots.get_mut(slot) {
            Some(place) => *place = Some(new),
            None => self.slots.push(Some(new)),
        }
        slot
    }

    fn new_slot(&mut self, connection: C, route: Route) -> PoolSlot<C> {
        self.count(route, 1);
        self.generation = self.generation.wrapping_add(1);
        PoolSlot {
            connection,
            route,
            role: SlotRole::Busy,
            generation: self.generation,
            is_listed: false,
            is_marked: false,
            is_unread: false,
            held: 0,
            until: Monotonic::default(),
            served: 0,
        }
    }

    /// Keeps the socket of a closed connection for reuse. The slot stays reserved, and events for
    /// it are ignored.
    pub(crate) fn retire(&mut self, slot: usize) {
        let Some(over) = self.slots.get_mut(slot).and_then(Option::take) else { return };
        if over.role.is_usable() {
            self.count(over.route, -1);
        }
        if self.retired.len() < RETIRED_MAX {
            self.retired.push((slot, over.route.address, over.connection));
        } else {
            self.free.push(slot);
        }
    }

    /// The most recently retired connection to this address. The caller has to [`Slots::put`] it
    /// back.
    pub(crate) fn revive(&mut self, address: u32) -> Option<(usize, C)> {
        let place = self.retired.iter().rposition(|&(_, to, _)| to == address)?;
        let (slot, _, connection) = self.retired.swap_remove(place);
        Some((slot, connection))
    }

    /// Fills the slot of a revived connection, or frees the slot if `connection` is `None`.
    pub(crate) fn put(&mut self, slot: usize, connection: Option<C>, route: Route) {
        let new = connection.map(|connection| self.new_slot(connection, route));
        match self.slots.get_mut(slot) {
            Some(place) if new.is_some() => *place = new,
            _ => self.free.push(slot),
        }
    }

    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut PoolSlot<C>> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// A reference to the connection in this slot.
    pub(crate) fn id(&self, slot: usize) -> Option<SlotId> {
        let generation = self.slots.get(slot)?.as_ref()?.generation;
        Some(SlotId { slot, generation })
    }

    /// The slot of a reference, if its connection is still there and has this role.
    fn find(&self, id: SlotId, role: SlotRole) -> Option<usize> {
        let slot = self.slots.get(id.slot)?.as_ref()?;
        (slot.generation == id.generation && slot.role == role).then_some(id.slot)
    }

    /// The connection of a reference, if it is still there.
    pub(crate) fn remembered(&mut self, id: SlotId) -> Option<&mut PoolSlot<C>> {
        self.slots.get_mut(id.slot)?.as_mut().filter(|slot| slot.generation == id.generation)
    }

    /// The slot that the next connection will get.
    pub(crate) fn next_slot(&self) -> usize {
        self.free.last().copied().unwrap_or(self.slots.len())
    }

    /// Changes the role of a connection. Only usable connections count toward the bounds.
    pub(crate) fn set_role(&mut self, slot: usize, role: SlotRole) {
        let Some(place) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        if place.role == role && (role != SlotRole::Idle || place.is_listed) {
            return;
        }
        let (before, route) = (std::mem::replace(&mut place.role, role), place.route);
        let id = SlotId { slot, generation: place.generation };
        let is_new = role == SlotRole::Idle && !std::mem::replace(&mut place.is_listed, true);
        if let Some(idle) = self.idle.get_mut(route.host as usize).filter(|_| is_new) {
            idle.push(id);
        }
        match (before.is_usable(), role.is_usable()) {
            (true, false) => self.count(route, -1),
            (false, true) => self.count(route, 1),
            _ => {}
        }
    }

    /// Takes the most recently used idle connection to `host`.
    pub(crate) fn take_idle(&mut self, host: u32) -> Option<usize> {
        loop {
            let id = self.idle.get_mut(host as usize)?.pop()?;
            if let Some(slot) = self.unlisted(id) {
                return Some(slot);
            }
        }
    }

    /// Whether [`Slots::take_idle`] would find one.
    pub(crate) fn has_idle(&mut self, host: u32) -> bool {
        loop {
            let Some(&id) = self.idle.get(host as usize).and_then(|idle| idle.last()) else { return false };
            if self.find(id, SlotRole::Idle).is_some() {
                return true;
            }
            self.idle.get_mut(host as usize).and_then(Vec::pop);
            self.unlisted(id);
        }
    }

    /// Records that a connection has left the `idle` list. Returns its slot if it is idle.
    fn unlisted(&mut self, id: SlotId) -> Option<usize> {
        let slot = self.slots.get_mut(id.slot)?.as_mut()?;
        if slot.generation != id.generation {
            return None;
        }
        slot.is_listed = false;
        (slot.role == SlotRole::Idle).then_some(id.slot)
    }

    /// An idle connection to this address, of any host, that `is_unused` accepts.
    pub(crate) fn idle_at_address(
        &self,
        address: u32,
        is_unused: impl Fn(&PoolSlot<C>) -> bool,
    ) -> Option<usize> {
        let is_it = |slot: &PoolSlot<C>| {
            slot.role == SlotRole::Idle && slot.route.address == address && is_unused(slot)
        };
        self.slots.iter().position(|slot| slot.as_ref().is_some_and(is_it))
    }

    /// Whether another connection may be made to this host.
    pub(crate) fn host_has_room(&self, route: Route) -> bool {
        self.by_host.get(route.host as usize).is_some_and(|&count| count < self.bounds.host)
    }

    /// Whether another connection may be made to this address.
    pub(crate) fn address_has_room(&self, route: Route) -> bool {
        self.by_address.get(route.address as usize).is_some_and(|&count| count < self.bounds.address)
    }

    pub(crate) fn remove(&mut self, slot: usize) -> Option<PoolSlot<C>> {
        let removed = self.slots.get_mut(slot)?.take()?;
        self.free.push(slot);
        if removed.role.is_usable() {
            self.count(removed.route, -1);
        }
        Some(removed)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// All connections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PoolSlot<C>> {
        self.slots.iter().flatten()
    }

    fn count(&mut self, route: Route, change: isize) {
        for count in
            [self.by_host.get_mut(route.host as usize), self.by_address.get_mut(route.address as usize)]
                .into_iter()
                .flatten()
        {
            *count = count.saturating_add_signed(change);
        }
    }
}

impl SlotRole {
    /// Whether requests are or may be sent on the connection.
    fn is_usable(self) -> bool {
        matches!(self, Self::Busy | Self::Idle)
    }
}
