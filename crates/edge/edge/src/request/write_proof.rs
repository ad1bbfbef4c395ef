//! Responses whose content shows whether their request was a write.
//!
//! Invariant: the last piece of the response, and nothing else, is held back until the
//! invalidations that it proves are in force.

use crate::control::purge_orders;
use crate::fetch::coalesced_fetch::StreamedResponse;
use crate::request::deliver::Beginning;
use crate::request::event_stream::while_open;
use crate::request::interrupted::Interrupted;
use crate::request::respond::ResponseAccount;
use crate::request::sending::{self, Tail};
use crate::request::suspected_write::SuspectedWrite;
use crate::request::visit::{RequestOutcome, Visit};
use crate::request::writes;
use message::{ResponseHead, names};
use semantics::{WriteEffect, WriteExchange, written};
use std::pin::pin;

/// Bytes of a response's content that are inspected to see whether its request was a write.
const CONTENT_BYTES_MAX: usize = 64 * 1024;

impl Visit<'_> {
    /// The pages that the request has changed, as far as its response and `content` show.
    pub(crate) fn written(
        &self,
        suspected: &SuspectedWrite,
        answer: &ResponseHead,
        content: Option<&[u8]>,
    ) -> WriteEffect {
        // Coded content cannot be inspected.
        let content =
            content.map(|content| if answer.fields.has(names::CONTENT_ENCODING) { &[] } else { content });
        let exchanged = WriteExchange {
            request: &self.request.head,
            host: &suspected.host,
            target: &suspected.target,
            form: self.client.form(),
            form_is_whole: self.client.is_content_read(),
            answer,
            content,
        };
        written(exchanged, suspected.site.policy())
    }

    /// Carries out the invalidations that the content of a response proves.
    pub(crate) async fn settle_suspected(
        &self,
        suspected: &SuspectedWrite,
        answer: &ResponseHead,
        content: &[u8],
    ) {
        let content = content.get(..CONTENT_BYTES_MAX).unwrap_or(content);
        if let WriteEffect::Changed(changed) = self.written(suspected, answer, Some(content)) {
            let SuspectedWrite { site, key, .. } = suspected;
            let stale =
                writes::settle(self.shared, self.cells(), site, key, changed, answer, self.begun.monotonic);
            purge_orders::make_unusable(self.shared, key, Vec::new(), stale).await;
        }
    }

    /// Sends an origin's response, and carries out the invalidations that its content proves before
    /// the last piece is sent.
    pub(crate) async fn send_suspected_write(
        &mut self,
        response: StreamedResponse,
        suspected: SuspectedWrite,
        account: &ResponseAccount,
    ) -> RequestOutcome {
        let StreamedResponse { head, framing, exchange } = response;
        let written = self.write_head(&head, framing, account);
        self.begin(&written);
        let (mut content_bytes, mut content) = (0, Beginning::new(CONTENT_BYTES_MAX));
        let (cells, buffer) = (self.cells(), self.shared.buffers.for_response());
        let sending = sending::send_but_tail(
            self.client,
            *exchange,
            written.framing,
            &mut content_bytes,
            &mut content,
            buffer,
        );
        let (sent, tail) = while_open(self.shared, cells, &head, pin!(sending))
            .await
            .unwrap_or_else(|| (Err(Interrupted::Drain), Tail::default()));
        self.settle_suspected(&suspected, &head, &content.octets()).await;
        // The content so far is correct; the client receives it even if the rest failed.
        let rest = sending::send_tail(self.client, written.framing, tail, sent.is_ok()).await;
        self.outcome(head.status, account.reason, content_bytes, sent.and(rest), &written)
    }
}
