//! One request on its way through the pipeline, and what every step needs of it.
//!
//! Invariant: the request is the one that was received, with two exceptions. No later step sees the
//! fields of an order that was carried out, or the password of a site.

use crate::control::counters::Cells;
use crate::request::client::ClientConnection;
use crate::request::lookup::FetchOrder;
use crate::request::record::Notes;
use crate::request::respond::{self, Recipient};
use crate::request::session_write::SessionWrite;
use crate::shared::Shared;
use crate::sites::Site;
use bytes::BytesMut;
use h1::Request;
use message::{RequestHead, ResponseHead, Status, Version};
use net::Stream;
use semantics::{CompressionRules, Moment, Reason};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

/// The next state of the connection after a response.
#[derive(Debug)]
pub(crate) enum AfterResponse {
    /// It is kept for the next request.
    Keep,
    /// It is closed: the response is complete and announced that it is the last one.
    Close,
    /// It is closed after lingering: the response is complete, but the client may still be sending.
    Linger,
    /// It is dropped: the response is incomplete, or the client is gone.
    Gone,
    /// It becomes a tunnel for another protocol, with the bytes that the origin sent early.
    Tunnel(Stream, BytesMut),
}

/// The result of a request, for its record.
pub(crate) struct RequestOutcome {
    pub(crate) status: Status,
    pub(crate) reason: Reason,
    pub(crate) content_bytes: u64,
    pub(crate) after: AfterResponse,
}

/// What the steps make of the request, for later steps.
#[derive(Default)]
pub(crate) struct Changed {
    /// The request without the fields of an order, once the order was carried out.
    stripped: OnceLock<Request>,
    /// The request without the password, once that was checked.
    pub(crate) authorised: OnceLock<Request>,
    /// The value of `Vary` that follows from the choice of the route.
    pub(crate) vary: OnceLock<Box<str>>,
}

/// Runs the request of a connection within the edge through all steps. A visit has it from its
/// caller, because the steps lead back to it for fragments.
pub(crate) type RunRequest = fn(Arc<Shared>, usize, ClientConnection, Box<Request>) -> RunningRequest;

/// A request of a connection within the edge on its way through the steps.
pub(crate) type RunningRequest = Pin<Box<dyn Future<Output = AfterResponse> + Send>>;

/// One request on its way through the steps.
pub(crate) struct Visit<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) worker: usize,
    pub(crate) client: &'a mut ClientConnection,
    pub(crate) request: &'a Request,
    pub(crate) changed: &'a Changed,
    pub(crate) begun: Moment,
    pub(crate) recipient: Recipient<'a>,
    /// Whether the request had the password of its site or route.
    pub(crate) is_authorised: bool,
    /// Whether the request was counted against the limits of its client.
    pub(crate) is_counted: bool,
    /// Why the page is fetched even if it is stored.
    pub(crate) must_fetch: Option<FetchOrder>,
    /// The request as the look-up sees it, if that differs from the request that was sent.
    pub(crate) looked_up: Option<Box<RequestHead>>,
    /// The site, once it is known.
    pub(crate) site: Option<&'a Arc<Site>>,
    /// What the record of the request needs of the steps.
    pub(crate) notes: Notes,
    /// The session of the request, if the request may change its pages.
    pub(crate) writing: Option<Box<SessionWrite>>,
    /// Runs the requests for fragments of the page.
    pub(crate) run_request: RunRequest,
    /// Set while a response is delivered of which Petasos may make coded forms.
    pub(crate) coded_by: Option<&'a CompressionRules>,
    /// The lifetime in browsers of a response that states none. A plain hit has it in its prebuilt
    /// head.
    pub(crate) browser_lifetime: Option<&'static str>,
}

impl<'a> Visit<'a> {
    /// A request that was just received. `changed` must be empty.
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        worker: usize,
        client: &'a mut ClientConnection,
        request: &'a Request,
        changed: &'a Changed,
        run_request: RunRequest,
    ) -> Self {
        let persistent = request.persistent && !shared.is_draining();
        let recipient = Recipient::new(&request.head.method, request.head.version, persistent);
        let begun = Moment::read(&*shared.clock);
        let notes = Notes::for_request(shared, client, request, begun.monotonic);
        // The page was counted, and its fragments are limited with it.
        let is_counted = client.fragment_of().is_some();
        Self {
            shared,
            worker,
            client,
            request,
            changed,
            begun,
            recipient,
            is_authorised: false,
            is_counted,
            must_fetch: None,
            looked_up: None,
            site: None,
            notes,
            writing: None,
            run_request,
            coded_by: None,
            browser_lifetime: None,
        }
    }

    /// Removes the fields of an order from the request. They are not for the origin, and a token
    /// must not leave the edge.
    pub(crate) fn strip_order(&mut self) {
        let has_token = self.shared.purge_access.has_token();
        self.request = self.changed.stripped.get_or_init(|| {
            let mut request = self.request.clone();
            purge::strip_order(&mut request.head.fields, has_token);
            request
        });
    }

    /// The request as it is looked up and as its shared fetch sends it. Its only cookies are those
    /// in the cache key.
    pub(crate) fn head(&self) -> &RequestHead {
        self.looked_up.as_deref().unwrap_or(&self.request.head)
    }

    pub(crate) fn cells(&self) -> &'a Cells {
        self.shared.cells(self.worker)
    }

    pub(crate) fn now(&self) -> Moment {
        Moment::read(&*self.shared.clock)
    }

    /// Passes an informational response on to clients that speak HTTP/1.1. A write error is ignored
    /// because the final response will meet it too.
    pub(crate) async fn inform(&mut self, head: ResponseHead) {
        if self.request.head.version == Version::Http11 {
            self.client.push_interim(respond::write_informational(head));
            let _ = self.client.flush().await;
        }
    }
}
