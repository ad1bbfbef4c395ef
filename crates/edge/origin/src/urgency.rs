//! The clients that wait for a fetch: whether a person is among them, and which client it is if
//! only one.
//!
//! Invariant: urgency only rises. A fetch that a person has joined remains a person's. A fetch that
//! a second client has joined is no longer in any client's share.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The clients that wait for a fetch, shared by its copies. It may rise while the fetch waits in
/// the queue, when other requests join it.
#[derive(Clone, Debug, Default)]
pub struct Urgency(Arc<UrgencyState>);

/// The rank of a person without a session.
pub(crate) const PERSON: u8 = Rank::Person as u8;

/// The kinds of clients that wait for a fetch, beginning with the least urgent.
#[derive(Clone, Copy, Debug)]
enum Rank {
    Person = 1,
    Session = 2,
}

#[derive(Debug, Default)]
struct UrgencyState {
    /// A [`Rank`], or 0 if only robots wait.
    rank: AtomicU8,
    /// The only waiting client, in whose share the fetch counts.
    client: Mutex<ShareOwner>,
    /// Notified when a second client has joined.
    joined: Notify,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ShareOwner {
    /// No client was named yet.
    #[default]
    None,
    One(IpAddr),
    /// Several clients, or one without a known address.
    Any,
}

impl Urgency {
    /// Creates the urgency of a fetch that a person waits for, or no person. No client is named
    /// yet.
    pub fn of(is_person: bool) -> Self {
        let urgency = Self::default();
        if is_person {
            urgency.rise();
        }
        urgency
    }

    /// Records that a person waits for the fetch.
    pub fn rise(&self) {
        self.rise_to(Rank::Person);
    }

    /// Records that a person with a session waits for the fetch: a customer who pays, or an editor.
    pub fn rise_for_session(&self) {
        self.rise_to(Rank::Session);
    }

    fn rise_to(&self, rank: Rank) {
        // Relaxed is enough: the rank orders no other data. A queue that reads it late ranks the
        // fetch once more as before.
        self.0.rank.fetch_max(rank as u8, Ordering::Relaxed);
    }

    /// Records that this client waits for the fetch; `None` is a client without a known address.
    pub fn is_wanted_by(&self, client: Option<IpAddr>) {
        let mut state = self.state();
        let after = match (*state, client) {
            (ShareOwner::None, Some(client)) => ShareOwner::One(client),
            (ShareOwner::One(one), Some(client)) if one == client => *state,
            _ => ShareOwner::Any,
        };
        let was_one = matches!(*state, ShareOwner::One(_)) && after == ShareOwner::Any;
        *state = after;
        drop(state);
        if was_one {
            // The permit is stored if no task waits for it yet, so the event is not lost.
            self.0.joined.notify_one();
        }
    }

    /// The rank of the fetch in the queue; the higher one is served first.
    pub(crate) fn rank(&self) -> u8 {
        self.0.rank.load(Ordering::Relaxed)
    }

    /// The client in whose share the fetch counts, if it has only one.
    pub(crate) fn client(&self) -> Option<IpAddr> {
        match *self.state() {
            ShareOwner::One(client) => Some(client),
            ShareOwner::None | ShareOwner::Any => None,
        }
    }

    /// Waits until a second client has joined.
    pub(crate) async fn shared(&self) {
        self.0.joined.notified().await;
    }

    /// The state is consistent after each change, so a panic elsewhere does no harm.
    fn state(&self) -> MutexGuard<'_, ShareOwner> {
        self.0.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
