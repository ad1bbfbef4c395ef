//! Sending content to a client, from whatever source it comes.
//!
//! Invariant: content ends as its framing declares only if its source ended completely. If a source
//! fails midway, the client can see that the response is incomplete.

use crate::fetch::body_repair::BodyRepair;
use crate::memory::buffer::Buffer;
use crate::request::client::{BATCH_BYTES, ClientConnection, SendError};
use crate::request::excerpt::Extract;
use crate::request::interrupted::Interrupted;
use crate::request::respond::SerialisedHead;
use bytes::Bytes;
use disk::FileRange;
use h1::BodyFraming;
use message::Fields;
use origin::{FetchError, NoUpload, OriginEvent, OriginExchange};
use platform::{bring_into_memory, is_in_memory};
use semantics::{ByteRange, trailer_fields};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use store::{Body, FillingReader, Object, OnDisk};

/// Sends a stored response: its prebuilt head, the rest of its head, and its content if
/// `has_content`. A small response goes out in one system call without touching reference counts.
/// Only bytes that the system does not accept are shared with the queue.
pub(crate) async fn send_stored(
    client: &mut ClientConnection,
    object: &Arc<Object>,
    head: &SerialisedHead,
    repair: &BodyRepair<'_>,
) -> Result<(), Interrupted> {
    let has_content = head.framing != BodyFraming::Empty;
    if let Some(body) = object.on_disk().filter(|_| has_content) {
        client.push_head_pieces(&[&object.prebuilt_shared(), &head.octets], head.framing);
        // Boxed, so that a response from memory needs no memory for it.
        return Box::pin(send_from_disk(client, object, body, (0, object.content_bytes()), repair)).await;
    }
    if !client.writes_at_once() {
        client.push_head_pieces(&[&object.prebuilt_shared(), &head.octets], head.framing);
        if has_content {
            object.body().chunks().iter().for_each(|octets| client.push(octets.clone()));
        }
        return client.flush().await.map_err(Interrupted::from);
    }
    let rest_of_head = &head.octets;
    let head_bytes = object.prebuilt().len() + rest_of_head.len();
    let content_bytes = if has_content { object.content_bytes() } else { 0 };
    let content = has_content.then(|| object.content()).into_iter().flatten();
    let written = client.write_at_once([object.prebuilt(), rest_of_head].into_iter().chain(content))?;
    if (written as u64) < head_bytes as u64 + content_bytes {
        let body = if has_content { object.body() } else { Body::default() };
        let head = [object.prebuilt_shared(), rest_of_head.clone()];
        queue_rest(client, written, head.iter().chain(body.chunks()));
    }
    client.flush().await.map_err(Interrupted::from)
}

/// Sends a head and parts of a stored response.
pub(crate) async fn send_excerpt(
    client: &mut ClientConnection,
    head: &SerialisedHead,
    object: &Arc<Object>,
    content: &[Extract],
    repair: &BodyRepair<'_>,
) -> Result<(), Interrupted> {
    let octets = |extract: &Extract| match extract {
        Extract::Octets(octets) => octets.clone(),
        Extract::OnDisk { .. } => Bytes::new(),
    };
    let Some(body) = object.on_disk() else {
        if !client.writes_at_once() {
            client.push_head(head);
            content.iter().for_each(|extract| client.push(octets(extract)));
            return client.flush().await.map_err(Interrupted::from);
        }
        let pieces: Vec<Bytes> =
            std::iter::once(head.octets.clone()).chain(content.iter().map(octets)).collect();
        let written = client.write_at_once(pieces.iter().map(|piece| &piece[..]))?;
        queue_rest(client, written, pieces.iter());
        return client.flush().await.map_err(Interrupted::from);
    };
    client.push_head(head);
    for extract in content {
        match extract {
            Extract::Octets(octets) => client.push(octets.clone()),
            Extract::OnDisk { first, bytes } => {
                Box::pin(send_from_disk(client, object, body, (*first, *bytes), repair)).await?;
            }
        }
    }
    client.flush().await.map_err(Interrupted::from)
}

/// Bytes of a body on disk that are read and checked in one step.
const DISK_READ_BYTES: usize = 256 * 1024;

/// The same for a client with TLS, which holds them in memory while it reads them.
const SECURED_READ_BYTES: u64 = 64 * 1024;

/// The same for a client that holds them while the budget has no memory left. The disk reads and
/// checks 64 KiB for each step.
const SHORT_READ_BYTES: u64 = 16 * 1024;

/// Bytes of a file that are sent unread before the trust in the file is checked again.
const FILE_STEP_BYTES: u64 = 1 << 20;

/// Sends the queue and then `bytes` bytes of a body on disk, starting at `first`. The system sends
/// them from the file, so that a slow client holds none of them in memory.
///
/// Until the whole body has been verified once, each step is read and checked before it is sent.
/// Bytes that cannot be read or are damaged come from the origin.
async fn send_from_disk(
    client: &mut ClientConnection,
    object: &Arc<Object>,
    body: &Arc<OnDisk>,
    (first, bytes): (u64, u64),
    repair: &BodyRepair<'_>,
) -> Result<(), Interrupted> {
    if body.unchecked_range().is_none() || !client.takes_files() {
        return send_by_reading(client, object, body, (first, bytes), repair).await;
    }
    let end = first + bytes;
    let begin = first + send_unread(client, body, (first, bytes), repair).await?;
    let mut at = begin;
    while at < end {
        let reader = Arc::clone(body);
        // Fits a usize, because the limit does.
        let bytes_max = (end - at).min(DISK_READ_BYTES as u64) as usize;
        // Flushed first, so that no disk turn is held while a slow client reads the queue.
        client.flush().await?;
        let checked = match repair.turn().await {
            Some(turn) => {
                let check = move || (reader.check(at, bytes_max), turn).0;
                repair.read(check).await
            }
            None => None,
        };
        let missing = |at| ByteRange { first: at, last: end - 1 };
        match (checked, body.unchecked_range()) {
            (Some(Ok(checked)), Some(range)) if checked > 0 => {
                let sent = send_range(client, &range, at, checked, repair).await?;
                at += sent.unwrap_or(0);
                if sent.is_none_or(|sent| sent < checked) {
                    let damaged = sent.is_some().then_some(body);
                    return repair.complete(client, object, damaged, missing(at)).await;
                }
            }
            // The disk was late, which says nothing about the bytes on it.
            (None, _) => return repair.complete(client, object, None, missing(at)).await,
            _ => return repair.complete(client, object, Some(body), missing(at)).await,
        }
    }
    if begin == 0 && end == body.len() {
        body.was_read();
    }
    client.flush().await.map_err(Interrupted::from)
}

/// Same as [`send_from_disk`], for a disk whose files the system cannot send, and for a client
/// whose bytes are encrypted: each step is read into memory and checked.
async fn send_by_reading(
    client: &mut ClientConnection,
    object: &Arc<Object>,
    body: &Arc<OnDisk>,
    (first, bytes): (u64, u64),
    repair: &BodyRepair<'_>,
) -> Result<(), Interrupted> {
    let end = first + bytes;
    let mut at = first;
    let usual = if client.arrival().is_secured { SECURED_READ_BYTES } else { BATCH_BYTES };
    while at < end {
        let (reader, from) = (Arc::clone(body), at);
        // Flushed first, so that no disk turn is held while a slow client reads the queue.
        client.flush().await?;
        let is_ample = client.has_room_for(usual, repair.transfer_memory());
        // Fits a usize, because the limit does.
        let bytes_max = (end - at).min(if is_ample { usual } else { SHORT_READ_BYTES }) as usize;
        let read = match repair.turn().await {
            Some(turn) => repair.read(move || (reader.read_at(from, bytes_max), turn).0).await,
            None => None,
        };
        let missing = ByteRange { first: at, last: end - 1 };
        match read {
            Some(Ok(octets)) if !octets.is_empty() => {
                at += octets.len() as u64;
                client.push(octets);
            }
            // The disk was late, which says nothing about the bytes on it.
            None => return repair.complete(client, object, None, missing).await,
            Some(Ok(_) | Err(_)) => return repair.complete(client, object, Some(body), missing).await,
        }
    }
    client.flush().await.map_err(Interrupted::from)
}

/// Sends the queue and then the bytes of a body from its file without reading them, while the file
/// is trusted and holds them. Returns the number of bytes of the body that were sent.
async fn send_unread(
    client: &mut ClientConnection,
    body: &OnDisk,
    (first, bytes): (u64, u64),
    repair: &BodyRepair<'_>,
) -> Result<u64, SendError> {
    let mut done = 0;
    while done < bytes
        && let Some(range) = body.file_range()
    {
        client.flush().await?;
        let step = (bytes - done).min(FILE_STEP_BYTES);
        let sent = send_range(client, &range, first + done, step, repair).await?.unwrap_or(0);
        done += sent;
        if sent < step {
            break;
        }
    }
    Ok(done)
}

/// Sends `bytes` bytes of a file range, starting at its byte `first`; nothing may be queued.
/// Returns the number of bytes sent, or `None` if the disk did not deliver them in time.
async fn send_range(
    client: &mut ClientConnection,
    range: &FileRange,
    first: u64,
    bytes: u64,
    repair: &BodyRepair<'_>,
) -> Result<Option<u64>, SendError> {
    let at = range.offset + first;
    if !is_in_memory(&range.file, at, bytes) {
        // Otherwise sendfile would wait for the disk, and block the worker with all its
        // connections.
        let file = Arc::clone(&range.file);
        if !repair.read_ahead(move || bring_into_memory(&file, at, bytes)).await {
            return Ok(None);
        }
    }
    client.send_file(&range.file, at, bytes, || true).await.map(Some)
}

/// Queues the rest of `pieces` after the first `written` bytes have been sent.
pub(crate) fn queue_rest<'a>(
    client: &mut ClientConnection,
    written: usize,
    pieces: impl Iterator<Item = &'a Bytes>,
) {
    let mut written = written;
    for piece in pieces {
        let skipped = written.min(piece.len());
        written -= skipped;
        if skipped < piece.len() {
            client.push(piece.slice(skipped..));
        }
    }
}

/// Sends the queue and then a body still being filled. Adds the bytes of content to
/// `content_bytes`.
pub(crate) async fn send_filling(
    client: &mut ClientConnection,
    mut reader: FillingReader,
    framing: BodyFraming,
    content_bytes: &mut u64,
) -> Result<(), Interrupted> {
    if framing == BodyFraming::Empty {
        return client.flush().await.map_err(Interrupted::from);
    }
    loop {
        // Content that has already arrived goes out together with the queue, which is flushed only
        // before waiting for more.
        let next = match poll_fn(|context| Poll::Ready(reader.poll_next(context))).await {
            Poll::Ready(next) => next,
            Poll::Pending => {
                client.flush().await?;
                poll_fn(|context| reader.poll_next(context)).await
            }
        };
        match next {
            Some(Ok(octets)) => {
                *content_bytes += octets.len() as u64;
                client.push_content(framing, octets);
                // The pieces belong to the body that is being filled, which counts them.
                if client.queued_bytes() as u64 >= BATCH_BYTES {
                    client.flush().await?;
                }
            }
            Some(Err(_)) => {
                // The content so far is correct; the client receives it before the connection is
                // cut.
                client.flush().await?;
                return Err(Interrupted::Source(None));
            }
            None => {
                client.push_end(framing, reader.trailer().as_ref());
                return client.flush().await.map_err(Interrupted::from);
            }
        }
    }
}

/// The beginning of streamed content.
#[derive(Debug)]
pub(crate) struct Beginning {
    pieces: Vec<Bytes>,
    bytes: usize,
    bytes_max: usize,
}

impl Beginning {
    /// Keeps the pieces that begin within the first `bytes_max` bytes of the content.
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self { pieces: Vec::new(), bytes: 0, bytes_max }
    }

    /// Keeps a piece if it begins early enough.
    pub(crate) fn keep(&mut self, octets: &Bytes) {
        if self.bytes < self.bytes_max {
            self.pieces.push(octets.clone());
        }
        self.bytes += octets.len();
    }

    /// Whether no further piece is kept.
    pub(crate) const fn is_full(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    /// The pieces that were kept, joined.
    pub(crate) fn octets(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    /// The whole content, if it is not longer than `bytes_max`.
    pub(crate) fn whole(&self) -> Option<Vec<u8>> {
        (self.bytes <= self.bytes_max).then(|| self.octets())
    }
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
    let mut sending = Sending::new(exchange, buffer, wanted, None);
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
    let mut sending = Sending::new(exchange, buffer, Some(wanted), Some(Tail::default()));
    let sent = poll_fn(|context| sending.poll(client, framing, content_bytes, context)).await;
    let outcome = sending.outcome();
    let is_lost = sending.buffer.is_lost();
    let Sending { mut exchange, wanted, tail, .. } = sending;
    // If the request was not completely passed on, the exchange is dropped, so that the origin does
    // not take the part for the whole.
    if let (Some(exchange), Some(wanted), true) = (&mut exchange, wanted, client.is_content_passed_on()) {
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

/// The state of [`send_exchange`].
struct Sending<'w> {
    /// `None` once it ended, which frees its turn at the origin.
    exchange: Option<OriginExchange>,
    /// Content that the client has not taken yet.
    buffer: Buffer,
    /// Whether reading is paused because the buffer is full.
    held_back: bool,
    failed: Option<FetchError>,
    /// The end of the content with its trailer, until it is queued.
    end: Option<Option<Fields>>,
    /// Receives a copy of the beginning of the content.
    wanted: Option<&'w mut Beginning>,
    /// Receives the last piece of the content, if it is held back.
    tail: Option<Tail>,
}

impl<'w> Sending<'w> {
    const fn new(
        exchange: OriginExchange,
        buffer: Buffer,
        wanted: Option<&'w mut Beginning>,
        tail: Option<Tail>,
    ) -> Self {
        Self { exchange: Some(exchange), buffer, held_back: true, failed: None, end: None, wanted, tail }
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
            if received && client.has_room(self.buffer.share()) && self.exchange.is_some() {
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
        self.buffer.is_lost() || (self.exchange.is_none() && self.buffer.is_empty() && self.end.is_none())
    }

    /// How the content ended; to be called when everything was written.
    fn outcome(&mut self) -> Result<(), Interrupted> {
        match self.failed.take() {
            Some(error) => Err(Interrupted::Source(Some(error))),
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
        let Some(exchange) = &mut self.exchange else { return false };
        let event = if self.buffer.has_room() {
            if std::mem::take(&mut self.held_back) {
                exchange.resume();
            }
            if !self.buffer.has_room_for(exchange.next_read_bytes() as u64) {
                exchange.shorten_next_read();
            }
            exchange.poll_next(context, client)
        } else {
            if !self.buffer.is_moving() {
                // If too many exchanges have given up their turns, this one keeps its own, so the
                // result does not matter.
                let _ = exchange.stall();
            }
            // The upload continues. Otherwise an origin that responds before it has read everything
            // and a client that writes before it reads would wait for each other.
            self.held_back = true;
            exchange.poll_upload(context, client).map(|error| Err(error.into()))
        };
        let Poll::Ready(event) = event else { return false };
        match event {
            Ok(OriginEvent::Data(octets)) => {
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
            Ok(OriginEvent::End(trailer)) => {
                let trailer = trailer.as_ref().map(trailer_fields);
                match &mut self.tail {
                    Some(tail) => tail.trailer = trailer,
                    None => self.end = Some(trailer),
                }
                self.exchange = None;
            }
            Ok(OriginEvent::Informational(_) | OriginEvent::Head { .. }) => {}
            Err(error) => {
                // The content so far is correct; the client receives it before the connection is
                // cut.
                self.failed = Some(error);
                self.exchange = None;
            }
        }
        true
    }
}
