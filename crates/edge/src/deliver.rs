//! Sending content to a visitor, from wherever it comes.
//!
//! Invariant: content ends as its framing says only if its source ended so. A source that fails in the middle
//! leaves the response visibly incomplete.

use crate::buffer::Buffer;
use crate::client::{Client, SendError};
use crate::disk_threads;
use crate::excerpt::Extract;
use crate::gunzip::Undecodable;
use crate::mender::Mender;
use bytes::{Bytes, BytesMut};
use disk::FileRange;
use h1::BodyFraming;
use message::Fields;
use origin::{Event, Exchange, FetchError, NoUpload};
use platform::{bring_into_memory, is_in_memory};
use semantics::{ByteRange, trailer_fields};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use store::{Body, FillingReader, Object, OnDisk};

/// Octets that are gathered before a write, as long as they are there without waiting.
pub(crate) const BATCH_BYTES: usize = 128 * 1024;

/// How sending ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// By the visitor's connection.
    Visitor(SendError),
    /// By the content's source.
    Source(Option<FetchError>),
    /// By damage on the disk that the origin did not make good.
    Damage,
    /// By the end of the edge, for responses without an end of their own.
    Drain,
    /// By a spool that did not give back what it had taken.
    Spool,
    /// By content that could not be decoded for a client that refuses its coding.
    Undecodable,
}

impl From<Undecodable> for Interrupted {
    fn from(Undecodable: Undecodable) -> Self {
        Self::Undecodable
    }
}

impl From<SendError> for Interrupted {
    fn from(error: SendError) -> Self {
        Self::Visitor(error)
    }
}

/// Sends a stored response: its prebuilt head, the rest of its head, and its content if `has_content`. A small one
/// goes out in one system call, without touching reference counts; only what the system does not take is shared.
pub(crate) async fn send_stored(
    client: &mut Client,
    object: &Arc<Object>,
    rest_of_head: &Bytes,
    has_content: bool,
    mender: &Mender<'_>,
) -> Result<(), Interrupted> {
    if let Some(body) = object.on_disk().filter(|_| has_content) {
        client.push(object.prebuilt_shared());
        client.push(rest_of_head.clone());
        return send_from_disk(client, object, body, (0, object.content_bytes()), mender).await;
    }
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
    client: &mut Client,
    head: &Bytes,
    object: &Arc<Object>,
    content: &[Extract],
    mender: &Mender<'_>,
) -> Result<(), Interrupted> {
    let octets = |extract: &Extract| match extract {
        Extract::Octets(octets) => octets.clone(),
        Extract::OnDisk { .. } => Bytes::new(),
    };
    let Some(body) = object.on_disk() else {
        let pieces: Vec<Bytes> = std::iter::once(head.clone()).chain(content.iter().map(octets)).collect();
        let written = client.write_at_once(pieces.iter().map(|piece| &piece[..]))?;
        queue_rest(client, written, pieces.iter());
        return client.flush().await.map_err(Interrupted::from);
    };
    client.push(head.clone());
    for extract in content {
        match extract {
            Extract::Octets(octets) => client.push(octets.clone()),
            Extract::OnDisk { first, bytes } => {
                send_from_disk(client, object, body, (*first, *bytes), mender).await?;
            }
        }
    }
    client.flush().await.map_err(Interrupted::from)
}

/// Octets of a body on the disk that are read and checked at once.
const DISK_READ_BYTES: usize = 256 * 1024;

/// Octets of a file that are sent unread before it is asked whether damage was found in it meanwhile.
const FILE_STEP_BYTES: u64 = 1 << 20;

/// Sends what is queued and `bytes` octets of a body on the disk from `first` on. The system sends it from the file, so
/// that a slow visitor holds nothing of it in memory. The first time that all of it is sent, it is read step by step
/// before that, which proves it. What cannot be read, or is not as it was written, comes from the origin.
async fn send_from_disk(
    client: &mut Client,
    object: &Arc<Object>,
    body: &Arc<OnDisk>,
    (first, bytes): (u64, u64),
    mender: &Mender<'_>,
) -> Result<(), Interrupted> {
    let end = first + bytes;
    let begin = first + send_unread(client, body, (first, bytes), mender).await?;
    let mut at = begin;
    while at < end {
        let reader = Arc::clone(body);
        // Below a limit that is a usize.
        let bytes_max = (end - at).min(DISK_READ_BYTES as u64) as usize;
        // No turn is held while a slow visitor takes what is queued.
        client.flush().await?;
        let checked = match mender.turn().await {
            Some(turn) => {
                let check = move || (reader.check(at, bytes_max), turn).0;
                disk_threads::run(client.limits().disk_timeout, check).await
            }
            None => None,
        };
        let missing = |at| ByteRange { first: at, last: end - 1 };
        match (checked, body.unchecked_range()) {
            (Some(Ok(checked)), Some(range)) if checked > 0 => {
                let sent = send_range(client, &range, at, checked, mender).await?;
                at += sent.unwrap_or(0);
                if sent.is_none_or(|sent| sent < checked) {
                    let damaged = sent.is_some().then_some(body);
                    return mender.complete(client, object, damaged, missing(at)).await;
                }
            }
            // The disk is late, which says nothing about what is on it.
            (None, _) => return mender.complete(client, object, None, missing(at)).await,
            _ => return mender.complete(client, object, Some(body), missing(at)).await,
        }
    }
    if begin == 0 && end == body.len() {
        body.was_read();
    }
    client.flush().await.map_err(Interrupted::from)
}

/// Sends what is queued and the octets of a body on the disk from its file, if it is trusted, and as long as it is and
/// the file has them; gives the number of octets of the body.
async fn send_unread(
    client: &mut Client,
    body: &OnDisk,
    (first, bytes): (u64, u64),
    mender: &Mender<'_>,
) -> Result<u64, SendError> {
    let mut done = 0;
    while done < bytes
        && let Some(range) = body.file_range()
    {
        client.flush().await?;
        let step = (bytes - done).min(FILE_STEP_BYTES);
        let sent = send_range(client, &range, first + done, step, mender).await?.unwrap_or(0);
        done += sent;
        if sent < step {
            break;
        }
    }
    Ok(done)
}

/// Sends `bytes` octets from `first` on of what stands in a range of a file; nothing may be queued. Gives the number of
/// octets sent; `None` if the disk was late with them.
async fn send_range(
    client: &mut Client,
    range: &FileRange,
    first: u64,
    bytes: u64,
    mender: &Mender<'_>,
) -> Result<Option<u64>, SendError> {
    let at = range.offset + first;
    if !is_in_memory(&range.file, at, bytes) {
        // The worker would wait for the disk in sendfile, and with it all of its connections.
        let file = Arc::clone(&range.file);
        if !mender.read_ahead(move || bring_into_memory(&file, at, bytes)).await {
            return Ok(None);
        }
    }
    client.send_file(&range.file, at, bytes).await.map(Some)
}

/// Queues what is left of `pieces` when the first `written` octets have been taken.
fn queue_rest<'a>(client: &mut Client, written: usize, pieces: impl Iterator<Item = &'a Bytes>) {
    let mut written = written;
    for piece in pieces {
        let skipped = written.min(piece.len());
        written -= skipped;
        if skipped < piece.len() {
            client.push(piece.slice(skipped..));
        }
    }
}

/// Sends what is queued and a body that is still being filled. Adds up the octets of content.
pub(crate) async fn send_filling(
    client: &mut Client,
    mut reader: FillingReader,
    framing: BodyFraming,
    content_bytes: &mut u64,
) -> Result<(), Interrupted> {
    if framing == BodyFraming::Empty {
        return client.flush().await.map_err(Interrupted::from);
    }
    loop {
        // What is there already goes out together with what is queued; waiting is for what is not.
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
                push_content(client, framing, octets);
                if client.queued_bytes() >= BATCH_BYTES {
                    client.flush().await?;
                }
            }
            Some(Err(_)) => {
                // What arrived was whole as far as it goes; the visitor shall have it before the cut.
                client.flush().await?;
                return Err(Interrupted::Source(None));
            }
            None => {
                push_end(client, framing, reader.trailer().as_ref());
                return client.flush().await.map_err(Interrupted::from);
            }
        }
    }
}

/// The beginning of a content that passes by.
#[derive(Debug)]
pub(crate) struct Beginning {
    pieces: Vec<Bytes>,
    bytes: usize,
    bytes_max: usize,
}

impl Beginning {
    /// Of the pieces in which a content comes, those that begin within its first `bytes_max` octets.
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self { pieces: Vec::new(), bytes: 0, bytes_max }
    }

    /// Keeps a piece that begins early enough.
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

    /// What was kept.
    pub(crate) fn octets(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    /// What was kept, if it is all there was.
    pub(crate) fn whole(&self) -> Option<Vec<u8>> {
        (self.bytes <= self.bytes_max).then(|| self.octets())
    }
}

/// Sends what is queued and the content of an exchange, while the rest of the request goes up. Adds up the octets
/// of content, and keeps their beginning where it is `wanted`.
///
/// The application is read ahead of the visitor as far as `buffer` has room, so that it is free soon however slow the
/// visitor is. Where there is no room left, the exchange gives up its turn while the application waits.
pub(crate) async fn send_exchange(
    client: &mut Client,
    exchange: Exchange,
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

/// The last piece of a content and what follows it, held back.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    last: Option<Bytes>,
    trailer: Option<Fields>,
}

/// As [`send_exchange`], but holds back the last piece of the content. If the visitor goes, the beginning of the
/// content is still read, because it tells what the visitor's request has done.
pub(crate) async fn send_but_tail(
    client: &mut Client,
    exchange: Exchange,
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
    // Without the rest of the request the application must not take what it has for the whole.
    if let (Some(exchange), Some(wanted), true) = (&mut exchange, wanted, client.is_content_passed_on()) {
        while !wanted.is_full() {
            match exchange.next(&mut NoUpload).await {
                Ok(Event::Data(octets)) => wanted.keep(&octets),
                Ok(Event::Informational(_) | Event::Head { .. }) => {}
                Ok(Event::End(_)) | Err(_) => break,
            }
        }
    }
    // Behind a gap the last piece would stand in the wrong place.
    let tail = tail.filter(|_| !is_lost).unwrap_or_default();
    (sent.map_err(Interrupted::from).and(outcome), tail)
}

/// Sends what [`send_but_tail`] has held back, and the end of the content if it is `whole`.
pub(crate) async fn send_tail(
    client: &mut Client,
    framing: BodyFraming,
    tail: Tail,
    whole: bool,
) -> Result<(), Interrupted> {
    if let Some(last) = tail.last {
        push_content(client, framing, last);
    }
    if whole {
        push_end(client, framing, tail.trailer.as_ref());
    }
    client.flush().await.map_err(Interrupted::from)
}

/// How far [`send_exchange`] is.
struct Sending<'w> {
    /// `None` once it gave its end, which frees the application.
    exchange: Option<Exchange>,
    /// What the visitor has not taken yet.
    buffer: Buffer,
    /// Whether the application is waiting because enough was read ahead.
    held_back: bool,
    failed: Option<FetchError>,
    /// The end of the content, with its trailer, until it is queued.
    end: Option<Option<Fields>>,
    /// Where the beginning of the content goes.
    wanted: Option<&'w mut Beginning>,
    /// Where the end of the content goes, if it is held back.
    tail: Option<Tail>,
}

impl<'w> Sending<'w> {
    const fn new(
        exchange: Exchange,
        buffer: Buffer,
        wanted: Option<&'w mut Beginning>,
        tail: Option<Tail>,
    ) -> Self {
        Self { exchange: Some(exchange), buffer, held_back: true, failed: None, end: None, wanted, tail }
    }

    /// Reads and writes as long as either is possible; ready when everything was written.
    fn poll(
        &mut self,
        client: &mut Client,
        framing: BodyFraming,
        content_bytes: &mut u64,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), SendError>> {
        loop {
            // First, so that a full buffer is one that cannot be moved to the spool either.
            let is_wanted = client.queued_bytes() < BATCH_BYTES;
            let moved = self.buffer.poll_move(context, is_wanted).is_ready();
            let received = self.poll_receive(client, content_bytes, context);
            let queued = self.queue(client, framing);
            if received && client.queued_bytes() < BATCH_BYTES && self.exchange.is_some() {
                continue;
            }
            let is_due = client.queued_bytes() > 0;
            match client.poll_flush(context)? {
                Poll::Ready(()) if self.is_over() => return Poll::Ready(Ok(())),
                // There is room again for what the buffer has.
                Poll::Ready(()) if is_due => {}
                // There may be more of either.
                _ if received || moved || queued => {}
                Poll::Ready(()) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Queues what the buffer has in memory, as far as one write takes it; says whether there was anything.
    fn queue(&mut self, client: &mut Client, framing: BodyFraming) -> bool {
        let mut queued = false;
        while client.queued_bytes() < BATCH_BYTES
            && let Some(octets) = self.buffer.pop()
        {
            push_content(client, framing, octets);
            queued = true;
        }
        if self.buffer.is_empty()
            && let Some(trailer) = self.end.take()
        {
            push_end(client, framing, trailer.as_ref());
            queued = true;
        }
        queued
    }

    /// Whether nothing more comes.
    fn is_over(&self) -> bool {
        self.buffer.is_lost() || (self.exchange.is_none() && self.buffer.is_empty() && self.end.is_none())
    }

    /// How the content ended, when everything was written.
    fn outcome(&mut self) -> Result<(), Interrupted> {
        match self.failed.take() {
            Some(error) => Err(Interrupted::Source(Some(error))),
            None if self.buffer.is_lost() => Err(Interrupted::Spool),
            None => Ok(()),
        }
    }

    /// Takes the next event, if there is room for it and it is there; says whether it did.
    fn poll_receive(
        &mut self,
        client: &mut Client,
        content_bytes: &mut u64,
        context: &mut Context<'_>,
    ) -> bool {
        let Some(exchange) = &mut self.exchange else { return false };
        let event = if self.buffer.has_room() {
            if std::mem::take(&mut self.held_back) {
                exchange.resume();
            }
            exchange.poll_next(context, client)
        } else {
            if !self.buffer.is_moving() {
                // It keeps its turn where too many have given theirs up.
                let _ = exchange.stall();
            }
            // An application that answers while it reads must not wait for a visitor that reads only after it
            // has written: the request goes on.
            self.held_back = true;
            exchange.poll_upload(context, client).map(|error| Err(error.into()))
        };
        let Poll::Ready(event) = event else { return false };
        match event {
            Ok(Event::Data(octets)) => {
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
            Ok(Event::End(trailer)) => {
                let trailer = trailer.as_ref().map(trailer_fields);
                match &mut self.tail {
                    Some(tail) => tail.trailer = trailer,
                    None => self.end = Some(trailer),
                }
                self.exchange = None;
            }
            Ok(Event::Informational(_) | Event::Head { .. }) => {}
            Err(error) => {
                // What came is whole as far as it goes; the visitor shall have it before the cut.
                self.failed = Some(error);
                self.exchange = None;
            }
        }
        true
    }
}

pub(crate) fn push_content(client: &mut Client, framing: BodyFraming, octets: Bytes) {
    match framing {
        BodyFraming::Chunked => {
            let mut size = BytesMut::with_capacity(20);
            h1::write_chunk_size(&mut size, octets.len());
            client.push(size.freeze());
            client.push(octets);
            client.push(Bytes::from_static(h1::CHUNK_END));
        }
        BodyFraming::Length(_) | BodyFraming::UntilClose => client.push(octets),
        BodyFraming::Empty => {}
    }
}

pub(crate) fn push_end(client: &mut Client, framing: BodyFraming, trailer: Option<&Fields>) {
    if framing != BodyFraming::Chunked {
        return;
    }
    let mut end = BytesMut::with_capacity(64);
    if h1::write_last_chunk(&mut end, trailer).is_err() {
        // Trailer fields are parsed as strictly as they are written; should one slip through, all are left
        // out, as any recipient may do (RFC 9110 section 6.5.1).
        let _ = h1::write_last_chunk(&mut end, None);
    }
    client.push(end.freeze());
}
