//! Sends content that is still arriving, and reads it ahead of a client that is slower than its
//! source, so that neither an origin nor the other readers of a shared fetch wait for this client.
//!
//! Invariant: content ends as its framing declares only if its source ended completely. If a source
//! fails midway, the client can see that the response is incomplete.

use crate::memory::buffer::Buffer;
use crate::request::client::{ClientConnection, SendError};
use crate::request::deliver::Beginning;
use crate::request::interrupted::Interrupted;
use bytes::Bytes;
use h1::BodyFraming;
use message::Fields;
use origin::{FetchError, NoUpload, OriginEvent, OriginExchange};
use semantics::trailer_fields;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use store::FillingReader;

/// What a source of content gives next.
enum ContentEvent {
    /// A piece of the content.
    Data(Bytes),
    /// The end of the content, with its trailer.
    End(Option<Fields>),
    /// Nothing that concerns the content.
    Other,
}

/// A source of content that arrives over time.
trait ContentStream {
    /// The next event, if it has arrived and either the queue of `client` or `buffer` takes it.
    ///
    /// # Errors
    /// The source failed. A shared fetch counts its error itself and gives none here.
    fn poll_event(
        &mut self,
        buffer: &mut Buffer,
        client: &mut ClientConnection,
        context: &mut Context<'_>,
    ) -> Poll<Result<ContentEvent, Option<FetchError>>>;
}

/// An exchange with an origin.
struct ExchangeStream {
    exchange: OriginExchange,
    /// Whether reading is paused because the buffer is full.
    is_held_back: bool,
}

impl From<OriginExchange> for ExchangeStream {
    fn from(exchange: OriginExchange) -> Self {
        Self { exchange, is_held_back: true }
    }
}

impl ContentStream for ExchangeStream {
    fn poll_event(
        &mut self,
        buffer: &mut Buffer,
        client: &mut ClientConnection,
        context: &mut Context<'_>,
    ) -> Poll<Result<ContentEvent, Option<FetchError>>> {
        let exchange = &mut self.exchange;
        let event = if buffer.has_room() {
            if std::mem::take(&mut self.is_held_back) {
                exchange.resume();
            }
            if !buffer.has_room_for(exchange.next_read_bytes() as u64) {
                exchange.shorten_next_read();
            }
            ready!(exchange.poll_next(context, client))
        } else {
            if !buffer.is_moving() {
                // If too many exchanges have given up their turns, this one keeps its own, so the
                // result does not matter.
                let _ = exchange.stall();
            }
            // The upload continues. Otherwise an origin that responds before it has read everything
            // and a client that writes before it reads would wait for each other.
            self.is_held_back = true;
            Err(ready!(exchange.poll_upload(context, client)).into())
        };
        Poll::Ready(match event {
            Ok(OriginEvent::Data(octets)) => Ok(ContentEvent::Data(octets)),
            Ok(OriginEvent::End(trailer)) => Ok(ContentEvent::End(trailer.as_ref().map(trailer_fields))),
            Ok(OriginEvent::Informational(_) | OriginEvent::Head { .. }) => Ok(ContentEvent::Other),
            Err(error) => Err(Some(error)),
        })
    }
}

impl ContentStream for FillingReader {
    fn poll_event(
        &mut self,
        buffer: &mut Buffer,
        client: &mut ClientConnection,
        context: &mut Context<'_>,
    ) -> Poll<Result<ContentEvent, Option<FetchError>>> {
        let next = if buffer.is_empty() && client.has_room(buffer.share()) {
            self.poll_next(context)
        } else if buffer.has_room() {
            self.poll_ahead(context)
        } else {
            return Poll::Pending;
        };
        Poll::Ready(match ready!(next) {
            Some(Ok(octets)) => Ok(ContentEvent::Data(octets)),
            Some(Err(_)) => Err(None),
            None => Ok(ContentEvent::End(self.trailer())),
        })
    }
}

/// Sends the queue and then a body still being filled. Adds the bytes of content to
/// `content_bytes`.
///
/// A body that is no longer kept is read ahead of the client while `buffer` has room, so that a
/// slow client holds up neither the origin nor the other clients of the fetch.
pub(crate) async fn send_filling(
    client: &mut ClientConnection,
    reader: FillingReader,
    framing: BodyFraming,
    content_bytes: &mut u64,
    buffer: Buffer,
) -> Result<(), Interrupted> {
    client.begin_flush();
    if framing == BodyFraming::Empty {
        return client.flush().await.map_err(Interrupted::from);
    }
    let mut sending = Sending::new(reader, buffer, None, None);
    poll_fn(|context| sending.poll(client, framing, content_bytes, context)).await?;
    sending.outcome()
}

/// Sends the queue and then the content of an exchange, while the rest of the request is uploaded.
/// Adds the bytes of content to `content_bytes`, and copies their beginning into `wanted`.
///
/// The origin's response is read ahead of the client while `buffer` has room, so that even with a
/// slow client the origin is soon free. When the buffer is full, the exchange gives up its turn at
/// the origin while it waits.
pub(crate) async fn send_exchange(
    client: &mut ClientConnection,
    exchange: OriginExchange,
    framing: BodyFraming,
    content_bytes: &mut u64,
    wanted: Option<&mut Beginning>,
    buffer: Buffer,
) -> Result<(), Interrupted> {
    client.begin_flush();
    let mut sending = Sending::new(ExchangeStream::from(exchange), buffer, wanted, None);
    poll_fn(|context| sending.poll(client, framing, content_bytes, context)).await?;
    sending.outcome()
}

/// The last piece of a content and its trailer, held back.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    last: Option<Bytes>,
    trailer: Option<Fields>,
}

/// Like [`send_exchange`], but holds back the last piece of the content. If the client disconnects,
/// the beginning of the content is still read, because it shows which pages the client's request
/// has changed.
pub(crate) async fn send_but_tail(
    client: &mut ClientConnection,
    exchange: OriginExchange,
    framing: BodyFraming,
    content_bytes: &mut u64,
    wanted: &mut Beginning,
    buffer: Buffer,
) -> (Result<(), Interrupted>, Tail) {
    client.begin_flush();
    let mut sending =
        Sending::new(ExchangeStream::from(exchange), buffer, Some(wanted), Some(Tail::default()));
    let sent = poll_fn(|context| sending.poll(client, framing, content_bytes, context)).await;
    let outcome = sending.outcome();
    let is_lost = sending.buffer.is_lost();
    let Sending { mut source, wanted, tail, .. } = sending;
    // If the request was not completely passed on, the exchange is dropped, so that the origin does
    // not take the part for the whole.
    if let (Some(ExchangeStream { exchange, .. }), Some(wanted), true) =
        (&mut source, wanted, client.is_content_passed_on())
    {
        while !wanted.is_full() {
            match exchange.next(&mut NoUpload).await {
                Ok(OriginEvent::Data(octets)) => wanted.keep(&octets),
                Ok(OriginEvent::Informational(_) | OriginEvent::Head { .. }) => {}
                Ok(OriginEvent::End(_)) | Err(_) => break,
            }
        }
    }
    // After lost bytes the last piece would be at the wrong position.
    let tail = tail.filter(|_| !is_lost).unwrap_or_default();
    (sent.map_err(Interrupted::from).and(outcome), tail)
}

/// Sends the piece that [`send_but_tail`] held back, and the end of the content if it is `whole`.
pub(crate) async fn send_tail(
    client: &mut ClientConnection,
    framing: BodyFraming,
    tail: Tail,
    whole: bool,
) -> Result<(), Interrupted> {
    if let Some(last) = tail.last {
        client.push_content(framing, last);
    }
    if whole {
        client.push_end(framing, tail.trailer.as_ref());
    }
    client.flush().await.map_err(Interrupted::from)
}

/// The state of sending content that arrives over time.
struct Sending<'w, S> {
    /// `None` once it ended. This frees the turn of an exchange at its origin.
    source: Option<S>,
    /// Content that the client has not taken yet.
    buffer: Buffer,
    /// How the source failed.
    failed: Option<Option<FetchError>>,
    /// The end of the content with its trailer, until it is queued.
    end: Option<Option<Fields>>,
    /// Receives a copy of the beginning of the content.
    wanted: Option<&'w mut Beginning>,
    /// Receives the last piece of the content, if it is held back.
    tail: Option<Tail>,
}

impl<'w, S: ContentStream> Sending<'w, S> {
    const fn new(source: S, buffer: Buffer, wanted: Option<&'w mut Beginning>, tail: Option<Tail>) -> Self {
        Self { source: Some(source), buffer, failed: None, end: None, wanted, tail }
    }

    /// Reads and writes while either makes progress; ready when everything was written.
    fn poll(
        &mut self,
        client: &mut ClientConnection,
        framing: BodyFraming,
        content_bytes: &mut u64,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), SendError>> {
        loop {
            // First, so that a buffer counts as full only if it cannot be moved to the spool
            // either.
            let is_wanted = client.has_room(self.buffer.share());
            let moved = self.buffer.poll_move(context, is_wanted).is_ready();
            let received = self.poll_receive(client, content_bytes, context);
            let queued = self.queue(client, framing);
            if received && client.has_room(self.buffer.share()) && self.source.is_some() {
                continue;
            }
            let is_due = client.queued_bytes() > 0;
            match client.poll_flush(context)? {
                Poll::Ready(()) if self.is_over() => return Poll::Ready(Ok(())),
                // The queue has room again for content of the buffer.
                Poll::Ready(()) if is_due => {}
                // Another round may make progress.
                _ if received || moved || queued => {}
                Poll::Ready(()) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Queues content that the buffer has in memory, up to the size of one write. Returns whether
    /// anything was queued.
    fn queue(&mut self, client: &mut ClientConnection, framing: BodyFraming) -> bool {
        let mut queued = false;
        while client.has_room(self.buffer.share())
            && let Some(octets) = self.buffer.pop()
        {
            client.push_content(framing, octets);
            queued = true;
        }
        if self.buffer.is_empty()
            && let Some(trailer) = self.end.take()
        {
            client.push_end(framing, trailer.as_ref());
            queued = true;
        }
        queued
    }

    /// Whether nothing more follows.
    fn is_over(&self) -> bool {
        self.buffer.is_lost() || (self.source.is_none() && self.buffer.is_empty() && self.end.is_none())
    }

    /// How the content ended; to be called when everything was written.
    fn outcome(&mut self) -> Result<(), Interrupted> {
        match self.failed.take() {
            Some(error) => Err(Interrupted::Source(error)),
            None if self.buffer.is_lost() => Err(Interrupted::Spool),
            None => Ok(()),
        }
    }

    /// Takes the next event if there is room for it and it has arrived. Returns whether it did.
    fn poll_receive(
        &mut self,
        client: &mut ClientConnection,
        content_bytes: &mut u64,
        context: &mut Context<'_>,
    ) -> bool {
        let Some(source) = &mut self.source else { return false };
        let Poll::Ready(event) = source.poll_event(&mut self.buffer, client, context) else { return false };
        match event {
            Ok(ContentEvent::Data(octets)) => {
                *content_bytes += octets.len() as u64;
                if let Some(wanted) = &mut self.wanted {
                    wanted.keep(&octets);
                }
                let due = match &mut self.tail {
                    Some(tail) => tail.last.replace(octets),
                    None => Some(octets),
                };
                due.into_iter().for_each(|octets| self.buffer.push(octets));
            }
            Ok(ContentEvent::End(trailer)) => {
                match &mut self.tail {
                    Some(tail) => tail.trailer = trailer,
                    None => self.end = Some(trailer),
                }
                self.source = None;
            }
            Ok(ContentEvent::Other) => {}
            Err(error) => {
                // The content so far is correct; the client receives it before the connection is
                // cut.
                self.failed = Some(error);
                self.source = None;
            }
        }
        true
    }
}
