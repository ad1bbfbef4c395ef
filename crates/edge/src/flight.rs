//! Flights: fetches whose answer any number of requests wait for and share; and the memory of pages that turned
//! out not to be shareable.
//!
//! ```text
//!   Waiting ──> Shared    the response may be shared: requests stream its body while it fills
//!          ├──> Private   it may not: whoever claims it first gets it, the others go on by themselves
//!          └──> Failed    there is none: everybody gets the edge's explanation
//! ```
//!
//! Invariant: at any moment at most one flight under way in the table would send the same request, and a request
//! that finds neither it nor its answer in the store becomes the next. A flight is owned by no visitor: it is
//! a task, and its end, however it comes, is always announced.

use message::{Fields, ResponseHead, names};
use origin::{Exchange, FetchError};
use platform::Monotonic;
use semantics::{Freshness, Reason, VariantKey, VaryRule};
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use store::{Filling, FillingReader, Key, Object};
use tokio::sync::watch;

/// One fetch on its way.
#[derive(Debug)]
pub(crate) struct Flight {
    /// What answers of the key were known to vary on when it was sent.
    known: VaryRule,
    /// The variant it asks for under that rule.
    variant: VariantKey,
    progress: watch::Sender<Progress>,
}

/// What a flight has brought so far.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// Informational responses.
    pub(crate) hints: Vec<ResponseHead>,
    pub(crate) state: State,
}

/// How far a flight is.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Waiting,
    Shared(Arc<SharedAnswer>),
    Private(Arc<PrivateAnswer>),
    Failed(FetchError),
}

/// A response that may be shared, while its body arrives.
#[derive(Debug)]
pub(crate) struct SharedAnswer {
    /// Tidy.
    pub(crate) head: ResponseHead,
    pub(crate) framing: h1::BodyFraming,
    pub(crate) freshness: Freshness,
    pub(crate) rule: VaryRule,
    pub(crate) variant: VariantKey,
    pub(crate) filling: Arc<Filling>,
    /// What the store got. Held here, the store knows that the body stays in memory until its last reader is done.
    pub(crate) object: OnceLock<Arc<Object>>,
}

/// A response for one visitor.
#[derive(Debug)]
pub(crate) struct PrivateAnswer {
    pub(crate) reason: Reason,
    parcel: Mutex<Option<Parcel>>,
}

/// A response whose content its receiver reads itself.
#[derive(Debug)]
pub(crate) struct Parcel {
    /// Tidy.
    pub(crate) head: ResponseHead,
    pub(crate) framing: h1::BodyFraming,
    pub(crate) exchange: Box<Exchange>,
}

/// All flights under way, and what is remembered of flights in vain.
#[derive(Debug)]
pub(crate) struct Flights {
    table: Mutex<HashMap<Key, Vec<Arc<Flight>>>>,
    in_vain: Mutex<InVain>,
    memory: Duration,
    memory_entries_max: usize,
}

/// Keys whose last answer could not be shared, until when, oldest first. Keys are kept as hashes: two keys with
/// one hash only means that requests for the second do not wait for one another either.
#[derive(Debug, Default)]
struct InVain {
    hasher: RandomState,
    until: HashMap<u64, Monotonic>,
    order: VecDeque<(Monotonic, u64)>,
}

/// What a request finds when it is about to fetch.
#[derive(Debug)]
pub(crate) enum Joined<T> {
    /// What the caller was looking for is there after all.
    Found(T),
    /// A response that fills; the reader is at its first octet.
    Filling(Arc<SharedAnswer>, FillingReader),
    /// A flight without an answer yet.
    Waiter(watch::Receiver<Progress>),
    /// No flight; this one is now in the table and must be flown.
    Leader(Arc<Flight>),
}

impl Flight {
    /// A flight for the variant that a request with these fields selects under `known`.
    pub(crate) fn new(known: VaryRule, fields: &Fields) -> Arc<Self> {
        let variant = known.key(fields);
        let progress = Progress { hints: Vec::new(), state: State::Waiting };
        Arc::new(Self { known, variant, progress: watch::Sender::new(progress) })
    }

    pub(crate) fn known(&self) -> &VaryRule {
        &self.known
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Announces how far the flight is. What was final stays.
    pub(crate) fn announce(&self, state: State) {
        self.progress.send_if_modified(|progress| {
            let changes = matches!(progress.state, State::Waiting);
            if changes {
                progress.state = state;
            }
            changes
        });
    }

    /// Ready when nobody waits for the flight: whoever did has made something of its answer, or has gone.
    pub(crate) async fn unawaited(&self) {
        self.progress.closed().await;
    }

    /// Passes on an informational response to everybody who waits; a cookie in it would be one visitor's own.
    pub(crate) fn inform(&self, mut head: ResponseHead) {
        head.fields.remove(names::SET_COOKIE);
        self.progress.send_modify(|progress| progress.hints.push(head));
    }

    /// What a request with these fields can do with this flight; `usable` judges an answer's freshness.
    fn join<T>(&self, fields: &Fields, usable: impl FnOnce(&Freshness) -> bool) -> Option<Joined<T>> {
        match &self.progress.borrow().state {
            State::Waiting if self.known.matches(fields, &self.variant) => {
                Some(Joined::Waiter(self.subscribe()))
            }
            State::Shared(answer)
                if answer.rule.matches(fields, &answer.variant) && usable(&answer.freshness) =>
            {
                let reader = answer.filling.reader()?;
                Some(Joined::Filling(Arc::clone(answer), reader))
            }
            State::Waiting | State::Shared(_) | State::Private(_) | State::Failed(_) => None,
        }
    }
}

impl PrivateAnswer {
    pub(crate) fn new(reason: Reason, parcel: Parcel) -> Self {
        Self { reason, parcel: Mutex::new(Some(parcel)) }
    }

    /// The response, for the first who asks.
    pub(crate) fn claim(&self) -> Option<Parcel> {
        self.parcel.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Flights {
    /// No flights yet; pages that cannot be shared are remembered for `memory`, at most `memory_entries_max`.
    pub(crate) fn new(memory: Duration, memory_entries_max: usize) -> Self {
        Self { table: Mutex::default(), in_vain: Mutex::default(), memory, memory_entries_max }
    }

    /// Joins the flight that serves a request with this key and these fields, or puts a new one into the table.
    /// `find` is asked first, under the table's lock: a flight publishes its answer before it leaves the table,
    /// so between the two nothing is missed. `known` is what the store knows the key's answers to vary on.
    pub(crate) fn join<T>(
        &self,
        key: &Key,
        fields: &Fields,
        known: VaryRule,
        find: impl FnOnce() -> Option<T>,
        usable: impl Fn(&Freshness) -> bool,
    ) -> Joined<T> {
        let mut table = self.table();
        if let Some(found) = find() {
            return Joined::Found(found);
        }
        let flights = table.entry(key.clone()).or_default();
        if let Some(joined) = flights.iter().find_map(|flight| flight.join(fields, &usable)) {
            return joined;
        }
        // An answer on its way may have shown that answers vary on more than the store knows.
        let known = flights.iter().fold(known, |known, flight| match &flight.progress.borrow().state {
            State::Shared(answer) => known.union(&answer.rule),
            State::Waiting | State::Private(_) | State::Failed(_) => known,
        });
        let flight = Flight::new(known, fields);
        flights.push(Arc::clone(&flight));
        Joined::Leader(flight)
    }

    /// Takes a flight from the table.
    pub(crate) fn remove(&self, key: &Key, flight: &Arc<Flight>) {
        let mut table = self.table();
        if let Some(flights) = table.get_mut(key) {
            flights.retain(|other| !Arc::ptr_eq(other, flight));
            if flights.is_empty() {
                table.remove(key);
            }
        }
    }

    /// Flights under way.
    pub(crate) fn len(&self) -> usize {
        self.table().values().map(Vec::len).sum()
    }

    /// Remembers that the answer for `key` could not be shared, so that its requests do not wait for one another.
    pub(crate) fn remember_in_vain(&self, key: &Key, now: Monotonic) {
        let mut in_vain = self.in_vain();
        in_vain.forget_old(now, self.memory_entries_max.saturating_sub(1));
        if self.memory_entries_max > 0 {
            let until = now.plus(self.memory);
            let hash = in_vain.hasher.hash_one(key);
            in_vain.until.insert(hash, until);
            in_vain.order.push_back((until, hash));
        }
    }

    /// Forgets what [`Flights::remember_in_vain`] remembered of `key`.
    pub(crate) fn forget_in_vain(&self, key: &Key) {
        let mut in_vain = self.in_vain();
        let hash = in_vain.hasher.hash_one(key);
        in_vain.until.remove(&hash);
    }

    /// Whether the answer for `key` could not be shared a short while ago.
    pub(crate) fn was_in_vain(&self, key: &Key, now: Monotonic) -> bool {
        let in_vain = self.in_vain();
        in_vain.until.get(&in_vain.hasher.hash_one(key)).is_some_and(|until| now < *until)
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Key, Vec<Arc<Flight>>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_vain(&self) -> MutexGuard<'_, InVain> {
        self.in_vain.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InVain {
    /// Drops what is over, and the oldest beyond `entries_max`. Entries in the order whose key was remembered
    /// anew, or forgotten, since then say nothing.
    fn forget_old(&mut self, now: Monotonic, entries_max: usize) {
        while let Some((until, hash)) = self.order.front() {
            let over = *until <= now;
            if !over && self.order.len() <= entries_max {
                return;
            }
            if self.until.get(hash) == Some(until) {
                self.until.remove(hash);
            }
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Flights, Joined, State};
    use bytes::Bytes;
    use message::Fields;
    use origin::FetchError;
    use platform::Monotonic;
    use semantics::VaryRule;
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::task::Poll;
    use std::time::Duration;
    use store::{Key, SiteId};

    fn key(target: &'static str) -> Key {
        Key::new(SiteId(0), false, b"a.test", Bytes::from_static(target.as_bytes()))
    }

    fn join(flights: &Flights, key: &Key) -> Joined<()> {
        flights.join(key, &Fields::new(), VaryRule::default(), || None, |_| true)
    }

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn the_second_request_waits_and_the_next_after_the_end_leads() {
        let flights = Flights::new(Duration::from_secs(120), 10);
        let Joined::Leader(flight) = join(&flights, &key("/a")) else { panic!("nobody leads") };
        assert!(matches!(join(&flights, &key("/a")), Joined::Waiter(_)));
        assert!(matches!(join(&flights, &key("/b")), Joined::Leader(_)));
        flight.announce(State::Failed(FetchError::Refused));
        flights.remove(&key("/a"), &flight);
        assert!(matches!(join(&flights, &key("/a")), Joined::Leader(_)));
        assert_eq!(flights.len(), 2);
    }

    #[test]
    fn the_first_final_state_stays() {
        let flights = Flights::new(Duration::from_secs(120), 10);
        let Joined::Leader(flight) = join(&flights, &key("/a")) else { panic!("nobody leads") };
        flight.announce(State::Failed(FetchError::Refused));
        flight.announce(State::Failed(FetchError::Closed));
        assert!(matches!(flight.subscribe().borrow().state, State::Failed(FetchError::Refused)));
    }

    #[test]
    fn what_is_found_under_the_lock_wins() {
        let flights = Flights::new(Duration::from_secs(120), 10);
        let joined = flights.join(&key("/a"), &Fields::new(), VaryRule::default(), || Some(1), |_| true);
        assert!(matches!(joined, Joined::Found(1)));
        assert_eq!(flights.len(), 0);
    }

    #[test]
    fn vain_flights_are_remembered_for_their_time_and_up_to_a_number() {
        let flights = Flights::new(Duration::from_secs(120), 2);
        flights.remember_in_vain(&key("/a"), at(0));
        assert!(flights.was_in_vain(&key("/a"), at(119)));
        assert!(!flights.was_in_vain(&key("/a"), at(120)));
        flights.remember_in_vain(&key("/b"), at(1));
        flights.remember_in_vain(&key("/c"), at(2));
        assert!(!flights.was_in_vain(&key("/a"), at(3)), "the oldest makes room");
        assert!(flights.was_in_vain(&key("/b"), at(3)) && flights.was_in_vain(&key("/c"), at(3)));
        flights.forget_in_vain(&key("/c"));
        assert!(!flights.was_in_vain(&key("/c"), at(3)));
        let in_vain = flights.in_vain();
        assert!(in_vain.order.len() <= 2 && in_vain.until.len() <= 2);
    }

    #[tokio::test]
    async fn a_flight_knows_when_nobody_waits() {
        let flights = Flights::new(Duration::from_secs(120), 10);
        let Joined::Leader(flight) = join(&flights, &key("/a")) else { panic!("nobody leads") };
        let waits = flight.subscribe();
        let mut unawaited = std::pin::pin!(flight.unawaited());
        let polled = poll_fn(|context| Poll::Ready(unawaited.as_mut().poll(context))).await;
        assert!(polled.is_pending());
        drop(waits);
        unawaited.await;
    }

    #[test]
    fn a_flight_is_not_kept_by_the_table_after_its_removal() {
        let flights = Flights::new(Duration::from_secs(120), 10);
        let Joined::Leader(flight) = join(&flights, &key("/a")) else { panic!("nobody leads") };
        flights.remove(&key("/a"), &flight);
        assert_eq!(Arc::strong_count(&flight), 1);
    }
}
