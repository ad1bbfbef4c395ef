//! The body of an answer that may be shared, on its way to those who wait and into the store.
//!
//! Invariant: the store has the body before any reader has all of it, and gets none that did not end as its framing
//! said; a part does not take the place of the whole.

use super::{Answer, Departure, Source, count_failure};
use crate::counters::Metric;
use crate::flight::{SharedAnswer, State};
use crate::room::Room;
use crate::stored::{joined_part, stored_object, without_withheld};
use bytes::Bytes;
use h1::BodyFraming;
use message::Fields;
use origin::{Event, FetchError};
use purge::tags_of;
use semantics::{ContentRange, Reason, Storable, VariantKey, VaryRule, trailer_fields};
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use store::{Abandoned, Body, Filling, FillingWriter, Object, Part, Publication};

/// Octets that the slowest visitor may lag behind in a body that is not stored.
const WINDOW_BYTES: u64 = 256 * 1024;

impl Departure {
    /// *store and stream*: whoever waits reads the body while it fills; the store gets it when it is whole.
    pub(super) async fn store_and_stream<S: Source>(
        &self,
        answer: Answer<S>,
        storable: Storable,
        rule: VaryRule,
    ) {
        let Answer { head, framing, exchange, .. } = answer;
        let too_large =
            matches!(framing, BodyFraming::Length(bytes) if bytes > self.shared.limits.object_bytes_max);
        let keep_bytes_max = if too_large { 0 } else { self.shared.limits.object_bytes_max };
        let (writer, filling) = Filling::start(keep_bytes_max);
        let part = ContentRange::of(&head).map(|extent| {
            let asked = Bytes::copy_from_slice(self.flight.range().unwrap_or_default());
            Part { extent, asked }
        });
        let (head, own_head) = without_withheld(head, &storable.withheld);
        let variant = rule.stored_key(&self.head.fields, &head.fields);
        let shared_answer = Arc::new(SharedAnswer {
            tags: self.tags(&head.fields),
            begun: self.flight.begun(),
            stored: !too_large,
            head,
            own_head,
            framing,
            variant,
            freshness: storable.freshness,
            rule,
            part,
            filling,
            object: OnceLock::new(),
        });
        self.flight.announce(State::Shared(Arc::clone(&shared_answer)));
        if let Err(error) = self.fill(*exchange, writer, &shared_answer).await {
            count_failure(self.cells(), &error);
        }
    }

    /// Moves the body from the application to its readers and, when it is whole, into the store.
    async fn fill(
        &self,
        mut exchange: impl Source,
        mut writer: FillingWriter,
        answer: &SharedAnswer,
    ) -> Result<(), FetchError> {
        // The last octets are held back until it is known whether they are the last, as the store must have
        // the body before a reader has all of it.
        let mut held = Bytes::new();
        let mut room = Room::new(&self.shared);
        loop {
            let event = tokio::select! {
                biased;
                event = exchange.next_event() => event,
                () = std::future::ready(()), if !held.is_empty() => {
                    writer.push(std::mem::take(&mut held));
                    continue;
                }
            };
            match event {
                Ok(Event::Data(octets)) => {
                    if !writer.is_kept() {
                        // A slow reader may still hold what was kept.
                        room.shrink_to(answer.filling.held_bytes());
                    } else if !room.take(octets.len()) {
                        self.cells().count(Metric::FillingsUnkept);
                        writer.stop_keeping();
                    }
                    writer.push(std::mem::replace(&mut held, octets));
                    if self.make_room(&mut writer).await.is_err() {
                        // A window without readers: nobody wants the rest.
                        return Ok(());
                    }
                }
                Ok(Event::End(trailer)) => {
                    let trailer = trailer.as_ref().map(trailer_fields);
                    writer.finish_with(held, trailer, |body| self.publish(answer, body));
                    return Ok(());
                }
                Ok(Event::Informational(_) | Event::Head { .. }) => {}
                Err(error) => {
                    // Who asks from here on does not get a part: it is fetched again.
                    self.leave_table();
                    writer.push(held);
                    writer.abort(Reason::OriginTruncated);
                    return Err(error);
                }
            }
        }
    }

    /// Waits until the slowest reader has taken enough. A window that is full before anybody reads it may be one
    /// that nobody wants, as when the visitors selected other variants: that is known once all have decided.
    async fn make_room(&self, writer: &mut FillingWriter) -> Result<(), Abandoned> {
        tokio::select! {
            biased;
            ready = poll_fn(|context| writer.poll_ready(context, WINDOW_BYTES)) => return ready,
            () = self.flight.unawaited() => {}
        }
        // Who comes now starts a flight of its own, or has taken a reader before.
        self.leave_table();
        writer.close();
        poll_fn(|context| writer.poll_ready(context, WINDOW_BYTES)).await
    }

    fn publish(&self, answer: &SharedAnswer, body: Body) {
        let Some(part) = &answer.part else {
            let made = || Arc::new(stored_object(&answer.head, body, answer.freshness));
            let object = Arc::clone(answer.object.get_or_init(made));
            return self.publish_object(answer.rule.clone(), answer.variant.clone(), object, &answer.tags);
        };
        let Some(extent) = part.extent.received(body.len()) else { return };
        let stored = self.stored();
        if stored.as_deref().is_some_and(|object| object.part().is_none()) {
            // A part does not take the place of the whole.
            return;
        }
        let object =
            stored.and_then(|stored| joined_part(&stored, answer, (&body, extent))).unwrap_or_else(|| {
                let part = Part { extent, asked: part.asked.clone() };
                stored_object(&answer.head, body, answer.freshness).as_part(part)
            });
        self.publish_object(answer.rule.clone(), answer.variant.clone(), Arc::new(object), &answer.tags);
    }

    /// The tags of a response that was judged, by which a purge can mean it.
    pub(super) fn tags(&self, fields: &Fields) -> Vec<Bytes> {
        // Those of a response whose tags cannot be known were refused by the judgement.
        tags_of(fields, self.key.is_https(), self.key.host()).unwrap_or_default()
    }

    pub(super) fn publish_object(
        &self,
        rule: VaryRule,
        variant: VariantKey,
        object: Arc<Object>,
        tags: &[Bytes],
    ) {
        self.flight.publish(|| {
            let (key, begun) = (&self.key, self.flight.begun());
            let fields = object.head().fields;
            self.shared.equivalents.learn(key, &fields, begun, || {
                let publication = Publication { key, rule, variant, object, tags, begun };
                // An object too large for the store was streamed all the same.
                let _ = self.shared.store.publish(publication);
            });
        });
    }
}
