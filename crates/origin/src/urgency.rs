//! Who waits for a fetch: whether a person does, and which client, while it is only one.
//!
//! Invariant: it only rises. A fetch that a person has joined stays a person's, and one that a second client has joined
//! is no single client's any more.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Who waits for a fetch. May rise while the fetch waits for its turn, when others join it.
#[derive(Clone, Debug, Default)]
pub struct Urgency(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    is_person: AtomicBool,
    /// The one client that waits, in whose share the fetch counts.
    client: Mutex<Client>,
    /// Told when a second client has joined.
    joined: Notify,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Client {
    /// Nobody has asked yet.
    #[default]
    None,
    One(IpAddr),
    /// Several, or one whose address is not known.
    Any,
}

impl Urgency {
    /// Of a fetch that a person waits for, or only a robot, or nobody; whose request it is has yet to be said.
    pub fn of(is_person: bool) -> Self {
        let urgency = Self::default();
        if is_person {
            urgency.rise();
        }
        urgency
    }

    /// From now on a person waits for it.
    pub fn rise(&self) {
        self.0.is_person.store(true, Ordering::Relaxed);
    }

    /// From now on this client waits for it too; `None` is one whose address is not known.
    pub fn is_wanted_by(&self, client: Option<IpAddr>) {
        let mut state = self.state();
        let after = match (*state, client) {
            (Client::None, Some(client)) => Client::One(client),
            (Client::One(one), Some(client)) if one == client => *state,
            _ => Client::Any,
        };
        let was_one = matches!(*state, Client::One(_)) && after == Client::Any;
        *state = after;
        drop(state);
        if was_one {
            self.0.joined.notify_one();
        }
    }

    pub(crate) fn is_person(&self) -> bool {
        self.0.is_person.load(Ordering::Relaxed)
    }

    /// In whose share the fetch counts, if in one's.
    pub(crate) fn client(&self) -> Option<IpAddr> {
        match *self.state() {
            Client::One(client) => Some(client),
            Client::None | Client::Any => None,
        }
    }

    /// Ready when a second client has joined.
    pub(crate) async fn shared(&self) {
        self.0.joined.notified().await;
    }

    /// The state is whole after each change, a panic elsewhere does not spoil it.
    fn state(&self) -> MutexGuard<'_, Client> {
        self.0.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
