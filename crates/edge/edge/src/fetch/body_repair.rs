//! Completes a response from the origin after its stored body turned out to be damaged while it was
//! sent.
//!
//! Invariants: the origin has `limits.completion_timeout` in total, however slowly it sends; the
//! client has the limits of every response. A damaged object is removed before anything is fetched.
//! The client receives bytes of one representation only, which the origin must prove by a strong
//! validator. Otherwise the response stays visibly incomplete. The completed part is not stored:
//! the next request fetches the whole.

use crate::control::counters::{Cells, Metric};
use crate::fetch::disk_reads;
use crate::fetch::task;
use crate::memory::budget::MemoryShare;
use crate::request::arrival::Arrival;
use crate::request::client::ClientConnection;
use crate::request::client_address::client_of;
use crate::request::forward;
use crate::request::guard::guard;
use crate::request::interrupted::Interrupted;
use crate::request::lookup::PageRequest;
use crate::request::visit::Visit;
use crate::shared::Shared;
use crate::sites::Site;
use bytes::Bytes;
use h1::{BodyFraming, Request};
use message::{Method, ResponseHead};
use origin::{FetchError, FetchRequest, NoUpload, OriginEvent, OriginExchange, Urgency};
use semantics::{ByteRange, Directives, completes, completion_fields, is_robot, looked_up_head};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use store::{Object, OnDisk};
use tokio::sync::OwnedSemaphorePermit;

/// The request whose response may turn out damaged. Created for every response, so it holds only
/// references.
pub(crate) struct BodyRepair<'a> {
    shared: &'a Arc<Shared>,
    worker: usize,
    arrival: Arrival,
    request: &'a Request,
}

impl<'a> BodyRepair<'a> {
    /// For the response to this visit.
    pub(crate) fn of(visit: &Visit<'a>) -> Self {
        let Visit { shared, worker, request, .. } = visit;
        Self { shared, worker: *worker, arrival: visit.client.arrival(), request }
    }

    /// A permit to read a body on disk; `None` if none is free in time.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        disk_reads::turn(self.shared).await
    }

    /// Runs `work`, a read from the disk; `None` if it does not end within `limits.disk_timeout`.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        self.shared.disk_threads.run(self.shared.limits.disk_timeout, work).await
    }

    /// Reads a part of a file into the page cache; `false` if the disk failed or was late.
    pub(crate) async fn read_ahead(&self, read: impl FnOnce() -> io::Result<()> + Send + 'static) -> bool {
        disk_reads::read_ahead(self.shared, read).await
    }

    /// The memory of bytes that wait for clients.
    pub(crate) fn transfer_memory(&self) -> &Arc<MemoryShare> {
        self.shared.buffers.memory()
    }

    fn cells(&self) -> &Cells {
        self.shared.cells(self.worker)
    }

    /// Sends the queue and then the `missing` bytes of an object's content. `damaged` is the
    /// damaged body on disk, which is removed; `None` if the disk was only late.
    pub(crate) async fn complete(
        &self,
        client: &mut ClientConnection,
        object: &Arc<Object>,
        damaged: Option<&Arc<OnDisk>>,
        missing: ByteRange,
    ) -> Result<(), Interrupted> {
        // Built first, because removing the object also removes its rule of variation.
        let request = self.fetch_request(object, missing);
        if let Some(body) = damaged {
            self.forget(body);
        }
        // The bytes read so far are sound, so the client receives them before the wait or the cut.
        client.flush().await?;
        let (site, request) = request.ok_or(Interrupted::Damage)?;
        let mut waiting = RemainingTime { repair: self, left: self.shared.limits.completion_timeout };
        let exchange = waiting.within(site.origin.fetch(request)).await?;
        self.cells().count(Metric::OriginFetches);
        self.send(client, object, missing, exchange, waiting).await?;
        self.cells().count(Metric::DamagedResponsesCompleted);
        Ok(())
    }

    /// Removes a stored object whose body on disk is damaged.
    pub(crate) fn forget(&self, damaged: &Arc<OnDisk>) {
        self.shared.store.forget_damaged(damaged);
    }

    /// The request for the missing bytes; `None` if no response could prove that it fits.
    fn fetch_request(&self, object: &Object, missing: ByteRange) -> Option<(&'a Arc<Site>, FetchRequest)> {
        let asks = completion_fields(&object.head(), missing)?;
        let subject = guard(self.shared, self.arrival, self.request).ok()?;
        let reduced = looked_up_head(&self.request.head, subject.site.policy(), true);
        let visitor = reduced.as_ref().unwrap_or(&self.request.head);
        let PageRequest { subject, key, .. } =
            PageRequest::new(self.shared, subject, visitor, Directives::default());
        let known = self.shared.store.known_rule(&key);
        let mark = &self.shared.loop_mark;
        let head = forward::shared_head(&subject, mark, &key, Method::Get, &visitor.fields, &known);
        let request = forward::without_content(&forward::with_fields(&head, asks)).ok()?;
        let urgency = Urgency::of(!is_robot(&self.request.head.fields));
        urgency.is_wanted_by(client_of(self.shared, &subject, &self.request.head.fields));
        Some((subject.site, FetchRequest { urgency, ..request }))
    }

    /// Passes on exactly the missing bytes.
    async fn send(
        &self,
        client: &mut ClientConnection,
        object: &Object,
        missing: ByteRange,
        mut exchange: OriginExchange,
        mut waiting: RemainingTime<'_>,
    ) -> Result<(), Interrupted> {
        let mut left = missing.last - missing.first + 1;
        let is_meant = |head: &ResponseHead| completes(&object.head(), object.content_bytes(), missing, head);
        loop {
            match waiting.within(exchange.next(&mut NoUpload)).await? {
                OriginEvent::Informational(_) => {}
                // A length that differs from the range belongs to other bytes.
                OriginEvent::Head { head, framing }
                    if is_meant(&head)
                        && [BodyFraming::Length(left), BodyFraming::Chunked].contains(&framing) =>
                {
                    break;
                }
                _ => return Err(Interrupted::Damage),
            }
        }
        // The last piece is held back until the response has ended, because a response that is too
        // long must not look complete.
        let mut held = Bytes::new();
        loop {
            match waiting.within(exchange.next(&mut NoUpload)).await? {
                OriginEvent::Data(octets) => {
                    left = left.checked_sub(octets.len() as u64).ok_or(Interrupted::Damage)?;
                    client.push(std::mem::replace(&mut held, octets));
                    if !client.has_room(self.shared.buffers.memory()) {
                        client.flush().await?;
                    }
                }
                OriginEvent::End(_) if left == 0 => {
                    client.push(held);
                    return client.flush().await.map_err(Interrupted::from);
                }
                _ => return Err(Interrupted::Damage),
            }
        }
    }

    fn failed(&self, error: &FetchError) -> Interrupted {
        task::count_failure(self.cells(), error);
        Interrupted::Damage
    }
}

/// The remaining time of the origin. The time in which the client reads does not count.
struct RemainingTime<'a> {
    repair: &'a BodyRepair<'a>,
    left: Duration,
}

impl RemainingTime<'_> {
    /// Waits for the origin within its remaining time.
    async fn within<T>(
        &mut self,
        work: impl Future<Output = Result<T, FetchError>>,
    ) -> Result<T, Interrupted> {
        let BodyRepair { shared, .. } = self.repair;
        let begun = shared.clock.monotonic();
        let done = tokio::time::timeout(self.left, work).await;
        self.left = self.left.saturating_sub(shared.clock.monotonic().since(begun));
        let done = done.unwrap_or(Err(FetchError::BetweenBytesTimeout));
        done.map_err(|error| self.repair.failed(&error))
    }
}
