//! *purge*, *refresh* and *reply*: carry out the order that a request is, or has.
//!
//! Invariant: the client learns whether its purge is in force and durable. A page is fetched again
//! only after its purge is, because the page itself would be a 200, which claims that.

use crate::control::counters::Metric;
use crate::control::purge_orders::{self, OrderRefusal};
use crate::request::interrupted::Interrupted;
use crate::request::lookup::FetchOrder;
use crate::request::refusal::Refusal;
use crate::request::respond::{self, ResponseAccount};
use crate::request::step::Step;
use crate::request::visit::{RequestOutcome, Visit};
use h1::BodyFraming;
use purge::{PurgeOrder, PurgeReply};
use semantics::{CacheStatusFacts, Reason};

impl<'a> Visit<'a> {
    /// *purge*: carries out a purge order.
    pub(crate) async fn purge(&self) -> Step<'a> {
        match purge_orders::read_order(self.shared, self.client.peer(), &self.request.head) {
            Ok(order) => {
                self.cells().count(Metric::Purges);
                let outcome = purge_orders::carry_out(self.shared, &order).await;
                Step::Reply(purge_orders::reply(self.shared, &order, outcome), Reason::Purged)
            }
            Err(OrderRefusal::Forbidden(denied)) => {
                self.cells().count(Metric::PurgesForbidden);
                Step::Refuse(Refusal::purge_forbidden(denied))
            }
            Err(OrderRefusal::Malformed(malformed)) => {
                self.cells().count(Metric::PurgesMalformed);
                Step::Reply(malformed.reply(), Reason::PurgeMalformed)
            }
        }
    }

    /// *refresh*: purges the page of a request that wants it fetched again. The request then starts
    /// anew without the order.
    pub(crate) async fn refresh(&mut self, order: PurgeOrder) -> Step<'a> {
        self.strip_order();
        self.must_fetch = Some(FetchOrder::Refresh);
        self.cells().count(Metric::Purges);
        let outcome = purge_orders::carry_out(self.shared, &order).await;
        if outcome.is_complete() {
            return Step::Guard;
        }
        Step::Reply(purge_orders::reply(self.shared, &order, outcome), Reason::Purged)
    }

    /// *reply*: answers an order.
    pub(crate) async fn reply(&mut self, reply: PurgeReply, reason: Reason) -> RequestOutcome {
        self.recipient.persistent &= self.client.is_content_read();
        let PurgeReply { mut head, content } = reply;
        respond::tidy(&mut head, self.shared.clock.now());
        let account = ResponseAccount { reason, facts: CacheStatusFacts::default(), age_secs: None };
        let content_bytes = content.len() as u64;
        let framing = BodyFraming::Length(content_bytes);
        let written = respond::write_head(&head, framing, Some(&account), self.recipient);
        self.client.push_head(&written);
        // The response to HEAD has none.
        if written.framing != BodyFraming::Empty {
            self.client.push(content);
        }
        let sent = self.client.flush().await.map_err(Interrupted::from);
        self.outcome(head.status, reason, content_bytes, sent, &written)
    }
}
