//! The form of a response in which a client receives it: a stored coded form, or gzip that is made
//! while a shared response arrives.
//!
//! Invariants: only a shared response is coded, never one for a single client, so that nothing of a
//! session is compressed together with what another client chose. Ranges are those of the response
//! itself, never of a form. A client that waits for content receives everything that has arrived.

use crate::control::counters::Metric;
use crate::request::client::{BATCH_BYTES, ClientConnection};
use crate::request::delivery::ContentSource;
use crate::request::event_stream::while_open;
use crate::request::interrupted::Interrupted;
use crate::request::respond::ResponseAccount;
use crate::request::visit::{RequestOutcome, Visit};
use crate::sites::Site;
use encoding::{GzipStream, STEP_BYTES};
use h1::BodyFraming;
use message::{ResponseHead, names};
use semantics::{AcceptedCodings, Coding, CompressionRules, streamed_head};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use store::{CodedForm, FillingReader};

impl<'a> Visit<'a> {
    /// The stored form in which a client that accepts these codings receives the content. `None` if
    /// it receives the response itself. Costs one branch for a response without forms.
    pub(crate) fn chosen(&self, content: &ContentSource, accepted: AcceptedCodings) -> Option<CodedForm> {
        let ContentSource::Stored(object) = content else { return None };
        if object.forms().is_empty() || self.request.head.fields.has(names::RANGE) {
            return None;
        }
        let rules = self.site.and_then(|site| site.compression())?;
        for coding in rules.codings.iter().copied().filter(|coding| accepted.has(*coding)) {
            if let Some(form) = object.form(coding) {
                return Some(form.clone());
            }
            // The origin's gzip is the form in this coding.
            if coding == Coding::Gzip && object.is_coded() {
                return None;
            }
        }
        None
    }

    /// The codings of stored forms that the client takes. A page takes gzip forms of its fragments,
    /// whose requests accept no coding, because it cannot take any other gzip.
    pub(crate) fn accepted_forms(&self, accepted: AcceptedCodings) -> AcceptedCodings {
        match self.client.fragment_of() {
            Some(_) if self.is_selected_by_cookie() => AcceptedCodings::of_codings(&[]),
            Some(place) if place.takes_forms() => AcceptedCodings::of_codings(&[Coding::Gzip]),
            _ => accepted,
        }
    }

    /// Whether the response was selected by cookies of the visitor. Such a part of a page is not
    /// compressed, because it may have a secret of few visitors beside text of an attacker.
    pub(crate) fn is_selected_by_cookie(&self) -> bool {
        // The request that was looked up has keyed cookies only, if there are any in the policy.
        let has_keyed = |site: &Arc<Site>| !site.policy().keyed_cookies.is_empty();
        self.site.is_some_and(has_keyed) && self.head().fields.has(names::COOKIE)
    }

    /// Counts a response that is sent in a stored form.
    pub(crate) fn count_form(&self, coding: Coding) {
        self.cells().count(match coding {
            Coding::Brotli => Metric::ResponsesBrotli,
            Coding::Zstd => Metric::ResponsesZstd,
            Coding::Gzip => Metric::ResponsesGzip,
        });
    }

    /// The rules by which the content may have coded forms.
    pub(crate) fn rules_for(&self, content: &ContentSource) -> Option<&'a CompressionRules> {
        let rules = self.site?.compression()?;
        let may_have_forms = match content {
            ContentSource::Stored(object) => object.is_encodable(),
            ContentSource::Filling { answer, .. } => rules.may_cover(&answer.head, length(answer.framing)),
            _ => false,
        };
        may_have_forms.then_some(rules)
    }

    /// The head of the gzip form of a response that is arriving, if it is to be coded while it is
    /// sent.
    pub(crate) fn streamed(
        &self,
        content: &ContentSource,
        accepted: AcceptedCodings,
    ) -> Option<ResponseHead> {
        let (ContentSource::Filling { answer, own, .. }, Some(rules)) = (content, self.coded_by) else {
            return None;
        };
        let head = answer.own_head.as_ref().filter(|_| *own).unwrap_or(&answer.head);
        let is_coded = rules.code_misses(head, length(answer.framing), accepted);
        is_coded.then(|| streamed_head(head, Coding::Gzip))
    }

    /// Sends a response with gzip coding while it arrives.
    pub(crate) async fn send_coded(
        &mut self,
        head: &ResponseHead,
        reader: FillingReader,
        account: &ResponseAccount,
    ) -> RequestOutcome {
        self.cells().count(Metric::MissesCoded);
        let written = self.write_head(head, BodyFraming::Chunked, account);
        self.begin(&written);
        let (cells, mut content_bytes) = (self.cells(), 0);
        let sending = send(self.client, reader, written.framing, &mut content_bytes);
        let sent =
            while_open(self.shared, cells, head, pin!(sending)).await.unwrap_or(Err(Interrupted::Drain));
        self.outcome(head.status, account.reason, content_bytes, sent, &written)
    }
}

const fn length(framing: BodyFraming) -> Option<u64> {
    match framing {
        BodyFraming::Length(bytes) => Some(bytes),
        BodyFraming::Empty => Some(0),
        BodyFraming::Chunked | BodyFraming::UntilClose => None,
    }
}

/// Sends the queue and then the coded content. Adds the bytes of coded content to `content_bytes`.
async fn send(
    client: &mut ClientConnection,
    mut reader: FillingReader,
    framing: BodyFraming,
    content_bytes: &mut u64,
) -> Result<(), Interrupted> {
    if framing == BodyFraming::Empty {
        return client.flush().await.map_err(Interrupted::from);
    }
    let mut gzip = GzipStream::new();
    let mut push = |client: &mut ClientConnection, coded: bytes::Bytes| {
        *content_bytes += coded.len() as u64;
        // An empty chunk would end the content.
        if !coded.is_empty() {
            client.push_content(framing, coded);
        }
    };
    loop {
        let next = match poll_fn(|context| Poll::Ready(reader.poll_next(context))).await {
            Poll::Ready(next) => next,
            Poll::Pending => {
                push(client, gzip.flush());
                client.flush().await?;
                poll_fn(|context| reader.poll_next(context)).await
            }
        };
        match next {
            Some(Ok(octets)) => {
                for step in octets.chunks(STEP_BYTES) {
                    push(client, gzip.push(step));
                    if client.queued_bytes() as u64 >= BATCH_BYTES {
                        client.flush().await?;
                    }
                }
                // A fast origin and a fast client leave other connections no turn otherwise.
                tokio::task::yield_now().await;
            }
            Some(Err(_)) => {
                push(client, gzip.flush());
                client.flush().await?;
                return Err(Interrupted::Source(None));
            }
            None => {
                push(client, gzip.end());
                // A trailer section may describe the content as the origin sent it.
                client.push_end(framing, None);
                return client.flush().await.map_err(Interrupted::from);
            }
        }
    }
}
