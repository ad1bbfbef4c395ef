//! A response ready to be sent: the source of its content, and its Cache-Status account.
//!
//! This module decides nothing. Earlier steps of a request create the delivery, and the last step
//! sends it (`conclude`).

use crate::fetch::coalesced_fetch::{SharedResponse, StreamedResponse};
use crate::memory::served_directory::ServedDirectory;
use crate::request::respond::ResponseAccount;
use crate::request::suspected_write::SuspectedWrite;
use message::ResponseHead;
use origin::OriginExchange;
use static_files::Representation;
use std::sync::Arc;
use store::{FillingReader, Object};

/// A response ready to be sent.
pub(crate) struct Delivery {
    pub(crate) content: ContentSource,
    pub(crate) account: ResponseAccount,
}

/// The source of a response's content.
pub(crate) enum ContentSource {
    Stored(Arc<Object>),
    /// A response whose body is arriving; `own` is true for the leader of its fetch.
    Filling {
        answer: Arc<SharedResponse>,
        reader: FillingReader,
        own: bool,
    },
    /// The response of a shared fetch that one client has claimed for itself.
    Claimed(StreamedResponse),
    /// The response to this client's own request.
    Own(StreamedResponse),
    /// The response to this client's own request; its content shows whether the request was a
    /// write.
    SuspectedWrite(StreamedResponse, SuspectedWrite),
    /// A response of the origin whose content a watcher receives too.
    Watched(StreamedResponse, Watcher),
    Switch(ResponseHead, Box<OriginExchange>),
    /// A file of a directory.
    File(Arc<Representation>, Arc<ServedDirectory>),
}

/// Takes the head of a response, as the origin sent it, and its whole content.
pub(crate) type ResponseObserver = Box<dyn FnOnce(&ResponseHead, Vec<u8>) + Send>;

/// Receives a copy of the content of a response, after the client has received all of it.
pub(crate) struct Watcher {
    /// A longer content is not copied.
    pub(crate) bytes_max: usize,
    pub(crate) observer: ResponseObserver,
}

impl Delivery {
    /// The delivery of a stored object.
    pub(crate) const fn stored(object: Arc<Object>, account: ResponseAccount) -> Self {
        Self { content: ContentSource::Stored(object), account }
    }
}
