//! The last steps of a request: *deliver* or *refuse*, and send.
//!
//! Invariants: a connection is kept only if the response was complete and announced that, and if
//! the request was read to its end. The outcome has the bytes that were really sent.

use crate::control::counters::Metric;
use crate::fetch::body_repair::BodyRepair;
use crate::fetch::coalesced_fetch::StreamedResponse;
use crate::fetch::task;
use crate::memory::detection::InspectedRequest;
use crate::request::assembly::is_for_all;
use crate::request::client::SendError;
use crate::request::decoded::CodedSource;
use crate::request::deliver::{self, Beginning};
use crate::request::delivery::{ContentSource, Delivery, Watcher};
use crate::request::event_stream::while_open;
use crate::request::excerpt::Excerpt;
use crate::request::file_response::dated;
use crate::request::interrupted::Interrupted;
use crate::request::refusal::Refusal;
use crate::request::respond::{self, ResponseAccount, SerialisedHead};
use crate::request::sending;
use crate::request::visit::{AfterResponse, RequestOutcome, Visit};
use crate::upkeep::detection;
use h1::BodyFraming;
use message::{ResponseHead, Status, names};
use origin::OriginExchange;
use page::HEAD_BYTES_MAX;
use semantics::{
    AcceptedCodings, ConditionOutcome, Reason, as_known_to, browser_lifetime, concerns_conditions,
    downstream_head, evaluate_conditions, has_conditions,
};
use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use store::{CodedForm, FillingReader, Object};

impl Visit<'_> {
    /// *deliver*: evaluates conditions and sends head and content.
    pub(crate) async fn deliver(&mut self, delivery: Delivery) -> RequestOutcome {
        let Delivery { content, account } = delivery;
        // The rest of the request's content may never arrive.
        self.recipient.persistent &= self.client.is_content_read();
        let accepted = AcceptedCodings::of(&self.request.head.fields);
        self.coded_by = self.rules_for(&content);
        self.browser_lifetime = match &content {
            ContentSource::Filling { answer, .. } => answer.browser_lifetime,
            ContentSource::File(found, _) => self.lifetime_of_file(found.head()),
            _ => None,
        };
        let (content, form) = match self.chosen(&content, self.accepted_forms(accepted)) {
            Some(CodedForm { coding, object }) => (ContentSource::Stored(object), Some(coding)),
            None => (content, None),
        };
        let streamed = self.streamed(&content, accepted);
        // Both change the form of the content, and a condition names the form.
        let decoded = streamed.or_else(|| {
            // The client accepts a form that was chosen for it, so its head need not be parsed.
            if form.is_some() { None } else { self.decoded(&content, accepted) }
        });
        if let Some(head) = self.substitute(&content, decoded.as_ref()) {
            let written = self.write_head(&head, BodyFraming::Empty, &account);
            self.client.push_head(&written);
            let sent = self.client.flush().await.map_err(Interrupted::from);
            return self.outcome(head.status, account.reason, 0, sent, &written);
        }
        // A fragment is a part of a response.
        form.filter(|_| self.client.fragment_of().is_none())
            .into_iter()
            .for_each(|coding| self.count_form(coding));
        // Boxes keep the futures of rare responses out of the memory of all others.
        match content {
            ContentSource::Stored(object) => {
                self.send_stored(&object, (form.is_some(), decoded), &account).await
            }
            ContentSource::Filling { answer, reader, own } => {
                self.notes.fetch = answer.phases;
                if let Some(head) = decoded.as_ref().filter(|head| head.fields.has(names::CONTENT_ENCODING)) {
                    return Box::pin(self.send_coded(head, reader, &account)).await;
                }
                let head = answer.own_head.as_ref().filter(|_| own).unwrap_or(&answer.head);
                self.send_filling(head, answer.framing, decoded, reader, &account).await
            }
            ContentSource::Claimed(response) => self.send_response(response, decoded, false, &account).await,
            ContentSource::Own(response) => self.send_response(response, None, true, &account).await,
            ContentSource::SuspectedWrite(response, suspected) => {
                Box::pin(self.send_suspected_write(response, suspected, &account)).await
            }
            ContentSource::Watched(response, watcher) => {
                self.send_watched(response, decoded, watcher, &account).await
            }
            ContentSource::Switch(head, exchange) => self.switch(head, exchange, &account).await,
            ContentSource::File(found, directory) => self.send_found(&found, &directory, &account).await,
        }
    }

    /// *refuse*: sends a response made by the edge.
    pub(crate) async fn refuse(&mut self, refusal: Refusal) -> RequestOutcome {
        if let Some(detail) = &refusal.detail {
            self.shared.complaints.tell(detail, self.now().monotonic);
        }
        if refusal.is_silent {
            let (status, reason) = (refusal.status, refusal.reason);
            return RequestOutcome { status, reason, content_bytes: 0, after: AfterResponse::Gone };
        }
        self.recipient.persistent &= self.client.is_content_read();
        let (written, page) = respond::write_refusal(&refusal, self.shared.clock.now(), self.recipient);
        self.client.push_head(&written);
        let page_bytes = if written.framing == BodyFraming::Empty { 0 } else { page.len() as u64 };
        if page_bytes > 0 {
            self.client.push(page);
        }
        let sent = self.client.flush().await.map_err(Interrupted::from);
        self.outcome(refusal.status, refusal.reason, page_bytes, sent, &written)
    }

    /// The head that replaces the response because of the request's conditions. The origin has
    /// already evaluated those of a request that was passed to it.
    fn substitute(&self, content: &ContentSource, decoded: Option<&ResponseHead>) -> Option<ResponseHead> {
        // Most requests have no condition, and then the stored head need not be parsed.
        if !has_conditions(&self.request.head.fields) {
            return None;
        }
        let stored_head;
        let head = match content {
            _ if decoded.is_some() => decoded?,
            ContentSource::Stored(object) => {
                let is_wanted = |name: &[u8]| {
                    concerns_conditions(name)
                        || name.eq_ignore_ascii_case(names::CONTENT_TYPE.as_bytes())
                        || name.eq_ignore_ascii_case(names::CONTENT_ENCODING.as_bytes())
                };
                stored_head = object.head_of(is_wanted);
                &stored_head
            }
            ContentSource::Filling { answer, .. } => &answer.head,
            ContentSource::Claimed(response) => &response.head,
            ContentSource::File(found, _) => {
                stored_head = dated(found.head(), self.shared.clock.now());
                &stored_head
            }
            ContentSource::Own(_)
            | ContentSource::SuspectedWrite(..)
            | ContentSource::Watched(..)
            | ContentSource::Switch(..) => {
                return None;
            }
        };
        // The client may know the content by the tag of another form.
        let known = as_known_to(&self.request.head.fields, head);
        let head = known.as_ref().unwrap_or(head);
        match evaluate_conditions(&self.request.head.fields, head) {
            ConditionOutcome::Proceed => None,
            ConditionOutcome::NotModified => {
                let lifetime = match content {
                    ContentSource::Stored(object) => respond::lifetime_of(object),
                    _ => self.browser_lifetime,
                };
                Some(respond::not_modified(&self.sent_with(head, lifetime)))
            }
            ConditionOutcome::PreconditionFailed => Some(respond::precondition_failed(head)),
        }
    }

    async fn send_stored(
        &mut self,
        object: &Arc<Object>,
        (is_form, decoded): (bool, Option<ResponseHead>),
        account: &ResponseAccount,
    ) -> RequestOutcome {
        let repair = BodyRepair::of(self);
        if let Some(head) = decoded {
            self.browser_lifetime = respond::lifetime_of(object);
            let sending = self.send_decoded(&head, CodedSource::stored(object, &repair), account);
            return Box::pin(sending).await.0;
        }
        if let Some(excerpt) = Excerpt::of(&self.request.head, object, &self.shared.boundary) {
            self.browser_lifetime = respond::lifetime_of(object);
            return Box::pin(self.send_excerpt(&excerpt, object, account)).await;
        }
        // A page takes the response itself, without its head.
        let (recipient, site) = (self.recipient, self.site);
        let is_for_all = || site.is_some_and(|site| is_for_all(recipient, site));
        if self.client.hand_over(object, is_form, is_for_all) {
            let (status, reason, content_bytes) = (object.status(), account.reason, object.content_bytes());
            return RequestOutcome { status, reason, content_bytes, after: AfterResponse::Close };
        }
        if respond::changes_stored_head(object, self.recipient) {
            self.browser_lifetime = respond::lifetime_of(object);
            return Box::pin(self.send_excerpt(&Excerpt::whole(object), object, account)).await;
        }
        let written = respond::write_hit(object, account, self.recipient);
        let sent = deliver::send_stored(self.client, object, &written, &repair).await;
        let has_content = written.framing != BodyFraming::Empty;
        let content_bytes = if has_content { object.content_bytes() } else { 0 };
        self.outcome(object.status(), account.reason, content_bytes, sent, &written)
    }

    /// Sends the parts of a stored response that the request wants.
    async fn send_excerpt(
        &mut self,
        excerpt: &Excerpt,
        object: &Arc<Object>,
        account: &ResponseAccount,
    ) -> RequestOutcome {
        let framing = BodyFraming::Length(excerpt.content_bytes());
        if self.recipient.head_only {
            return self.send_head(&excerpt.head, framing, account).await;
        }
        let written = self.write_head(&excerpt.head, framing, account);
        let (content, repair) = (&excerpt.content, BodyRepair::of(self));
        let sent = deliver::send_excerpt(self.client, &written, object, content, &repair).await;
        self.outcome(excerpt.head.status, account.reason, excerpt.content_bytes(), sent, &written)
    }

    async fn send_filling(
        &mut self,
        head: &ResponseHead,
        framing: BodyFraming,
        decoded: Option<ResponseHead>,
        reader: FillingReader,
        account: &ResponseAccount,
    ) -> RequestOutcome {
        if let Some(head) = decoded {
            return Box::pin(self.send_decoded(&head, CodedSource::Filling(reader), account)).await.0;
        }
        let written = self.write_head(head, framing, account);
        self.begin(&written);
        let (cells, mut content_bytes) = (self.cells(), 0);
        let (framing, buffer) = (written.framing, self.shared.buffers.for_response());
        let sending = sending::send_filling(self.client, reader, framing, &mut content_bytes, buffer);
        let sent =
            while_open(self.shared, cells, head, pin!(sending)).await.unwrap_or(Err(Interrupted::Drain));
        self.outcome(head.status, account.reason, content_bytes, sent, &written)
    }

    /// Sends an origin's response. `own` is true if it answers this client's own request rather
    /// than a shared one.
    async fn send_response(
        &mut self,
        response: StreamedResponse,
        decoded: Option<ResponseHead>,
        own: bool,
        account: &ResponseAccount,
    ) -> RequestOutcome {
        let StreamedResponse { head, framing, exchange } = response;
        // The origin was asked with its own tag, and the client knows that of a form.
        let known = if head.status == Status::NOT_MODIFIED {
            as_known_to(&self.request.head.fields, &head)
        } else {
            None
        };
        let head = known.unwrap_or(head);
        if self.recipient.head_only && !matches!(framing, BodyFraming::Empty | BodyFraming::Length(0)) {
            // The client sent HEAD, but the fetch was a GET: its content is not needed.
            drop(exchange);
            return self.send_head(decoded.as_ref().unwrap_or(&head), framing, account).await;
        }
        let now = self.shared.clock.monotonic();
        let site = self.site.filter(|site| site.is_inspected(now));
        let mut beginning = Beginning::new(HEAD_BYTES_MAX);
        let wanted = site.map(|_| &mut beginning);
        let (outcome, _) = self.send_content(&head, framing, decoded, exchange, wanted, account).await;
        if let Some(site) = site {
            let request = &self.request.head;
            let public_host = site.plan.public_host.as_deref().map(str::as_bytes);
            let host = public_host.or_else(|| request.fields.only(names::HOST).map(|host| &host[..]));
            let sent = InspectedRequest::new(request, &request.target, host.unwrap_or_default());
            let sent = InspectedRequest { is_personal: own && sent.is_personal, ..sent };
            detection::inspect_document(self.shared, site, sent, &head, &beginning.octets());
        }
        outcome
    }

    /// Sends a head without its content.
    async fn send_head(
        &mut self,
        head: &ResponseHead,
        source: BodyFraming,
        account: &ResponseAccount,
    ) -> RequestOutcome {
        let written = self.write_head(head, source, account);
        self.client.push_head(&written);
        let sent = self.client.flush().await.map_err(Interrupted::from);
        self.outcome(head.status, account.reason, 0, sent, &written)
    }

    /// Sends an origin's response, unchanged or with its `decoded` head. Also returns whether it
    /// was complete.
    async fn send_content(
        &mut self,
        head: &ResponseHead,
        framing: BodyFraming,
        decoded: Option<ResponseHead>,
        exchange: Box<OriginExchange>,
        wanted: Option<&mut Beginning>,
        account: &ResponseAccount,
    ) -> (RequestOutcome, bool) {
        if let Some(head) = decoded {
            return Box::pin(self.send_decoded(&head, CodedSource::Exchange(exchange, wanted), account))
                .await;
        }
        let written = self.write_head(head, framing, account);
        self.begin(&written);
        let mut content_bytes = 0;
        let cells = self.cells();
        let buffer = self.shared.buffers.for_response();
        let sending = sending::send_exchange(
            self.client,
            *exchange,
            written.framing,
            &mut content_bytes,
            wanted,
            buffer,
        );
        let sent =
            while_open(self.shared, cells, head, pin!(sending)).await.unwrap_or(Err(Interrupted::Drain));
        let whole = sent.is_ok();
        (self.outcome(head.status, account.reason, content_bytes, sent, &written), whole)
    }

    /// Sends an origin's response, and then gives a copy of its content to the watcher.
    async fn send_watched(
        &mut self,
        response: StreamedResponse,
        decoded: Option<ResponseHead>,
        watcher: Watcher,
        account: &ResponseAccount,
    ) -> RequestOutcome {
        let StreamedResponse { head, framing, exchange } = response;
        let mut content = Beginning::new(watcher.bytes_max);
        let wanted = Some(&mut content);
        let (outcome, whole) = self.send_content(&head, framing, decoded, exchange, wanted, account).await;
        if let Some(content) = content.whole().filter(|_| whole) {
            (watcher.observer)(&head, content);
        }
        outcome
    }

    /// The head of a response that is not a plain hit.
    pub(crate) fn write_head(
        &self,
        head: &ResponseHead,
        source: BodyFraming,
        account: &ResponseAccount,
    ) -> SerialisedHead {
        respond::write_head(&self.sent(head), source, Some(account), self.recipient)
    }

    /// The head as the site's profile wants it sent to clients.
    fn sent<'h>(&self, head: &'h ResponseHead) -> Cow<'h, ResponseHead> {
        self.sent_with(head, self.browser_lifetime)
    }

    fn sent_with<'h>(&self, head: &'h ResponseHead, lifetime: Option<&'static str>) -> Cow<'h, ResponseHead> {
        let rules = self.coded_by;
        let other = self.site.and_then(|site| downstream_head(head, lifetime, site.policy(), rules));
        other.map_or(Cow::Borrowed(head), Cow::Owned)
    }

    /// The lifetime of a file of a directory. Its target is the client's own, because it has no
    /// key.
    fn lifetime_of_file(&self, head: &ResponseHead) -> Option<&'static str> {
        browser_lifetime(&self.request.head.target, head, self.site?.policy())
    }

    /// Queues a head whose content follows from another source.
    pub(crate) fn begin(&mut self, written: &SerialisedHead) {
        if written.framing == BodyFraming::UntilClose {
            self.client.end_means_whole(true);
        }
        self.client.push_head(written);
    }

    async fn switch(
        &mut self,
        head: ResponseHead,
        exchange: Box<OriginExchange>,
        account: &ResponseAccount,
    ) -> RequestOutcome {
        let status = head.status;
        self.cells().count(Metric::Tunnels);
        self.client.push_interim(respond::write_switch(head));
        let after = match (self.client.flush().await, exchange.into_tunnel()) {
            (Ok(()), Some((stream, early))) => AfterResponse::Tunnel(stream, early),
            _ => AfterResponse::Gone,
        };
        RequestOutcome { status, reason: account.reason, content_bytes: 0, after }
    }

    pub(crate) fn outcome(
        &mut self,
        status: Status,
        reason: Reason,
        content_bytes: u64,
        sent: Result<(), Interrupted>,
        written: &SerialisedHead,
    ) -> RequestOutcome {
        if sent.is_ok() && written.framing == BodyFraming::UntilClose {
            self.client.end_means_whole(false);
        }
        let after = match sent {
            Ok(()) if written.persistent && self.client.is_content_read() => AfterResponse::Keep,
            Ok(()) if !self.request.persistent && self.client.is_quiet() => AfterResponse::Close,
            Ok(()) => AfterResponse::Linger,
            Err(Interrupted::Visitor(error)) => {
                self.cells().count(match error {
                    SendError::Gone => Metric::VisitorsGone,
                    SendError::TimedOut => Metric::VisitorTimeouts,
                    SendError::TooSlow => Metric::VisitorsTooSlow,
                });
                AfterResponse::Gone
            }
            Err(Interrupted::Source(error)) => {
                self.cells().count(Metric::ResponsesCut);
                if let Some(error) = error {
                    task::count_failure(self.cells(), &error);
                }
                AfterResponse::Gone
            }
            Err(Interrupted::Damage) => {
                self.cells().count(Metric::DamagedResponsesCut);
                AfterResponse::Gone
            }
            Err(Interrupted::Drain) => AfterResponse::Gone,
            Err(Interrupted::Spool) => {
                self.cells().count(Metric::ResponsesCut);
                AfterResponse::Gone
            }
            Err(Interrupted::Undecodable) => {
                self.cells().count(Metric::DecodingsFailed);
                AfterResponse::Gone
            }
        };
        // After an interruption less was sent than was counted.
        let beyond_head = self.client.sent_bytes().saturating_sub(written.octets.len() as u64);
        RequestOutcome { status, reason, content_bytes: content_bytes.min(beyond_head), after }
    }
}
