//! Streams the body of a shareable response to the waiting requests and into the store.
//!
//! Invariants: the store has a body that stays in memory before any reader has all of it. It has
//! another one once the disk's writer has written its end, and its fetch stays in the table until
//! then. The store receives no body that did not end as its framing declared. A part never replaces
//! the whole.

use super::spilling::BodySpill;
use super::{FetchTask, OriginResponse, ResponseSource, count_failure};
use crate::control::counters::Metric;
use crate::fetch::body_reservation::BodyReservation;
use crate::fetch::coalesced_fetch::{FetchState, SharedResponse};
use crate::fetch::publish;
use crate::fetch::stored::{joined_part, shareable, stored_object, without_content};
use crate::request::deliver::Beginning;
use crate::upkeep::detection;
use bytes::Bytes;
use defects::{Defect, is_planted};
use h1::BodyFraming;
use message::{Fields, ResponseHead, names};
use origin::{FetchError, OriginEvent};
use page::HEAD_BYTES_MAX;
use semantics::{ContentRange, Reason, Storable, VariantKey, VaryRule, browser_lifetime, trailer_fields};
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use store::{Abandoned, Body, ContentPart, Filling, FillingWriter, Object, Publication, Spill};

impl FetchTask {
    /// *store and stream*: the waiting requests read the body while it fills; the store receives it
    /// when it is complete.
    pub(super) async fn store_and_stream<S: ResponseSource>(
        &self,
        answer: OriginResponse<S>,
        storable: Storable,
        rule: VaryRule,
    ) {
        let OriginResponse { head, framing, exchange, .. } = answer;
        let too_large =
            matches!(framing, BodyFraming::Length(bytes) if bytes > self.shared.limits.object_bytes_max);
        let keep_bytes_max = if too_large { 0 } else { self.shared.limits.object_bytes_max };
        let (writer, filling) = Filling::start(keep_bytes_max);
        let mut spilling = BodySpill::new(&self.shared, !head.fields.has(names::CONTENT_RANGE));
        if let (true, BodyFraming::Length(bytes)) = (too_large, framing) {
            spilling.begin(Some(bytes), &[]).await;
        }
        let part = ContentRange::of(&head).map(|extent| {
            let asked = Bytes::copy_from_slice(self.fetch.range().unwrap_or_default());
            ContentPart { extent, asked }
        });
        let (head, own_head) = shareable(head, &storable.withheld, self.site.policy());
        let variant = rule.stored_key(&self.head.fields, &head.fields);
        let shared_answer = Arc::new(SharedResponse {
            tags: self.tags(&head.fields),
            begun: self.fetch.begun(),
            phases: self.fetch.phases(),
            stored: !too_large || spilling.is_under_way(),
            browser_lifetime: browser_lifetime(self.key.target(), &head, self.site.policy()),
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
        self.fetch.announce(FetchState::Shared(Arc::clone(&shared_answer)));
        if let Err(error) = self.fill(*exchange, writer, &shared_answer, spilling).await {
            count_failure(self.cells(), &error);
            self.note_failure(self.failing());
        }
    }

    /// Moves the body from the origin to its readers and, when it is complete, into the store.
    async fn fill(
        &self,
        mut exchange: impl ResponseSource,
        mut writer: FillingWriter,
        answer: &SharedResponse,
        mut spilling: BodySpill<'_>,
    ) -> Result<(), FetchError> {
        // The last piece is held back until the next event, because the store must have the body
        // before a reader has all of it.
        let mut held = Bytes::new();
        let mut reservation = BodyReservation::new(&self.shared);
        let is_inspected = self.site.is_inspected(self.shared.clock.monotonic());
        let mut watched = is_inspected.then(|| Beginning::new(HEAD_BYTES_MAX));
        loop {
            let event = tokio::select! {
                biased;
                event = exchange.next_event() => event,
                () = std::future::ready(()), if !held.is_empty() => {
                    if writer.passes_limit(held.len()) {
                        spilling.begin(None, &writer.so_far()).await;
                    }
                    spilling.push(&held).await;
                    writer.push(std::mem::take(&mut held));
                    continue;
                }
            };
            match event {
                Ok(OriginEvent::Data(octets)) => {
                    self.watch(&mut watched, &answer.head, Some(&octets));
                    if !writer.is_kept() {
                        // A slow reader may still hold the bytes that were kept.
                        reservation.shrink_to_window(answer.filling.held_bytes());
                    } else if !reservation.take(octets.len() as u64) {
                        self.cells().count(Metric::FillingsUnkept);
                        spilling.begin(None, &writer.so_far()).await;
                        writer.stop_keeping();
                    } else if writer.passes_limit(held.len()) {
                        spilling.begin(None, &writer.so_far()).await;
                    }
                    spilling.push(&held).await;
                    writer.push(std::mem::replace(&mut held, octets));
                    let made = self.make_room(&mut writer, &mut exchange, reservation.window_bytes()).await;
                    if made.is_err() && !spilling.is_under_way() {
                        // The window is full and has no readers, so the rest is not needed.
                        return Ok(());
                    }
                }
                Ok(OriginEvent::End(trailer)) => {
                    self.watch(&mut watched, &answer.head, None);
                    let trailer = trailer.as_ref().map(trailer_fields);
                    if writer.passes_limit(held.len()) {
                        spilling.begin(None, &writer.so_far()).await;
                    }
                    spilling.push(&held).await;
                    if let Some((spill, bytes)) = spilling.end() {
                        self.publish_spilled(answer, spill, bytes);
                    }
                    writer.finish_with(held, trailer, |body| self.publish(answer, body));
                    return Ok(());
                }
                Ok(OriginEvent::Informational(_) | OriginEvent::Head { .. }) => {}
                Err(_) if is_planted(Defect::TruncatedIsWhole) => {
                    writer.finish_with(held, None, |body| self.publish(answer, body));
                    return Ok(());
                }
                Err(error) => {
                    // Later requests must not receive the incomplete body, so they fetch again.
                    self.leave_table();
                    writer.push(held);
                    writer.abort(Reason::OriginTruncated);
                    return Err(error);
                }
            }
        }
    }

    /// Collects the beginning of a content for the detection, which runs once enough has arrived or
    /// at the end (`None`).
    fn watch(&self, watched: &mut Option<Beginning>, head: &ResponseHead, octets: Option<&Bytes>) {
        if let (Some(beginning), Some(octets)) = (&mut *watched, octets) {
            beginning.keep(octets);
            if !beginning.is_full() {
                return;
            }
        }
        if let Some(beginning) = watched.take() {
            detection::inspect_document(&self.shared, &self.site, self.sent(), head, &beginning.octets());
        }
    }

    /// Waits until the slowest reader has read enough. If the window is full and no reader has
    /// begun, perhaps none will, for example because the clients selected other variants. That is
    /// certain once no request waits for the announcement.
    async fn make_room(
        &self,
        writer: &mut FillingWriter,
        source: &mut impl ResponseSource,
        window_bytes: u64,
    ) -> Result<(), Abandoned> {
        let ready = poll_fn(|context| {
            let ready = writer.poll_ready(context, window_bytes);
            if ready.is_pending() {
                source.waits_for_reader();
            }
            ready
        });
        tokio::select! {
            biased;
            ready = ready => return ready,
            () = self.fetch.unawaited() => {}
        }
        // A request that comes now starts its own fetch; earlier ones already have their readers.
        // The body may still be stored on the disk, so the fetch stays in the table.
        self.shared.fetches.close(&self.fetch);
        writer.close();
        poll_fn(|context| writer.poll_ready(context, window_bytes)).await
    }

    fn publish(&self, answer: &SharedResponse, body: Body) {
        let (site, target) = (&self.site, self.key.target());
        let Some(part) = &answer.part else {
            self.site.uncompressed.look(self.site.label(), &self.head, &answer.head, body.len());
            let made = || Arc::new(stored_object(&answer.head, target, body, answer.freshness, site));
            let object = Arc::clone(answer.object.get_or_init(made));
            return self.publish_object(answer.rule.clone(), answer.variant.clone(), object, &answer.tags);
        };
        let Some(extent) = part.extent.received(body.len()) else { return };
        let stored = self.stored();
        if stored.as_ref().is_some_and(|(object, _)| object.part().is_none()) {
            // A part does not replace the whole.
            return;
        }
        // An invalidated part may belong to other content with the same validator, so it is not
        // joined.
        let object = stored
            .filter(|(_, softened)| !softened)
            .and_then(|(stored, _)| joined_part(&stored, answer, target, (&body, extent), site))
            .unwrap_or_else(|| {
                let part = ContentPart { extent, asked: part.asked.clone() };
                stored_object(&answer.head, target, body, answer.freshness, site).as_part(part)
            });
        self.publish_object(answer.rule.clone(), answer.variant.clone(), Arc::new(object), &answer.tags);
    }

    /// Publishes a body that was written to disk.
    fn publish_spilled(&self, answer: &SharedResponse, spill: Spill, bytes: u64) {
        let head = (&answer.head, self.key.target());
        let object = Arc::new(without_content(head, bytes, answer.freshness, self.site.policy()));
        self.fetch.publish(|| {
            let (rule, variant) = (answer.rule.clone(), answer.variant.clone());
            let (key, begun, tags) = (&self.key, self.fetch.begun(), &answer.tags[..]);
            let (shared, own, head) = (Arc::clone(&self.shared), key.detached(), object.head());
            // Until the writer of the disk has stored the body, an invalidation finds its host only
            // in the table.
            let entry = Arc::clone(&self.entry);
            let admits = move |store: &mut dyn FnMut()| {
                publish::learn_equivalents(&shared, &own, &head, begun, store);
                drop(entry);
            };
            let publication = Publication { key, rule, variant, object, tags, begun };
            self.shared.store.publish_spilled(&publication, spill, admits);
            self.shared.static_tree.withdraw(&self.site, key);
        });
    }

    /// The tags of a response that was judged, by which a purge can select it.
    pub(super) fn tags(&self, fields: &Fields) -> Vec<Bytes> {
        // No error is left: the judgement has refused responses whose tags cannot be determined.
        self.site.tags_of(&self.key, fields).unwrap_or_default()
    }

    pub(super) fn publish_object(
        &self,
        rule: VaryRule,
        variant: VariantKey,
        object: Arc<Object>,
        tags: &[Bytes],
    ) {
        self.fetch.publish(|| {
            let (key, begun) = (&self.key, self.fetch.begun());
            let head = object.head();
            publish::learn_equivalents(&self.shared, key, &head, begun, || {
                publish::publish(
                    &self.shared,
                    &self.site,
                    Publication { key, rule, variant, object, tags, begun },
                );
            });
        });
    }
}
