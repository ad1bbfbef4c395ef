//! A response ready to be sent: where its content comes from, and what is told of it.
//!
//! Invariant: nothing is decided here. The steps of a request find it, and the last one sends it (`conclude`).

use crate::flight::{Parcel, SharedAnswer};
use crate::leak_check::LeakCheck;
use crate::respond::Account;
use crate::witness::Witness;
use message::ResponseHead;
use origin::Exchange;
use std::sync::Arc;
use store::{FillingReader, Object};

/// A response ready to be sent.
pub(crate) struct Delivery {
    pub(crate) content: Content,
    pub(crate) account: Account,
}

/// Where the content of a response comes from.
pub(crate) enum Content {
    Stored(Arc<Object>),
    /// A response that fills; `own` for the request that asked for it.
    Filling {
        answer: Arc<SharedAnswer>,
        reader: FillingReader,
        own: bool,
    },
    /// A flight's answer that one visitor has claimed.
    Claimed(Parcel),
    /// The answer to this visitor's own request.
    Own(Parcel),
    /// The same, whose content tells whether the request was a write.
    Witnessed(Parcel, Witness),
    /// The same, in place of what is stored.
    Checked(Parcel, Arc<LeakCheck>),
    Switch(ResponseHead, Box<Exchange>),
}

impl Delivery {
    /// Of something that is stored.
    pub(crate) const fn stored(object: Arc<Object>, account: Account) -> Self {
        Self { content: Content::Stored(object), account }
    }
}
