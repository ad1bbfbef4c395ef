//! Sending content to a client, from whatever source it comes.
//!
//! Invariant: content ends as its framing declares only if its source ended completely. If a source
//! fails midway, the client can see that the response is incomplete.

use crate::fetch::body_repair::BodyRepair;
use crate::request::client::{BATCH_BYTES, ClientConnection, SendError};
use crate::request::excerpt::Extract;
use crate::request::interrupted::Interrupted;
use crate::request::respond::SerialisedHead;
use bytes::Bytes;
use disk::FileRange;
use h1::BodyFraming;
use platform::{bring_into_memory, is_in_memory};
use semantics::ByteRange;
use std::sync::Arc;
use store::{Body, Object, OnDisk};

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
