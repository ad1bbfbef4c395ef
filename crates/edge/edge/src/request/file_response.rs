//! Sends files of a directory: whole, or the parts that the request wants.
//!
//! Invariant: if the content of a file changes or becomes shorter before its last part is handed
//! to the system, the response stays visibly incomplete. Without TLS the system sends what the file
//! has when the bytes leave, so an overwritten part may still come with its new bytes. Nothing
//! waits for a disk on the worker.

use crate::memory::served_directory::ServedDirectory;
use crate::request::client::{BATCH_BYTES, ClientConnection, SendError};
use crate::request::date::http_date;
use crate::request::deliver::queue_rest;
use crate::request::excerpt::{Extract, joined};
use crate::request::forward::VIA;
use crate::request::interrupted::Interrupted;
use crate::request::respond::{self, ResponseAccount, SerialisedHead};
use crate::request::visit::{RequestOutcome, Visit};
use crate::shared::Shared;
use bytes::{Bytes, BytesMut};
use clock::Timestamp;
use h1::BodyFraming;
use message::{ResponseHead, Status, names};
use platform::bring_into_memory;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use semantics::{RangeAnswer, answer_range};
use static_files::{CHUNK_BYTES, Content, Representation};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that a client with TLS or HTTP/2 holds in memory while it reads them.
const READ_BYTES: u64 = 64 * 1024;

/// The same while the budget has no memory left.
const SHORT_READ_BYTES: u64 = 16 * 1024;

/// The source of a response: a file, and what reading it may need.
struct FileSource<'a> {
    shared: &'a Shared,
    directory: &'a ServedDirectory,
    found: &'a Arc<Representation>,
    /// Whether the look-up has just compared the file with its entity tag. Every wait ends this.
    is_checked: AtomicBool,
}

impl Visit<'_> {
    /// Sends a file, after the conditions of the request let it proceed.
    pub(crate) async fn send_found(
        &mut self,
        found: &Arc<Representation>,
        directory: &Arc<ServedDirectory>,
        account: &ResponseAccount,
    ) -> RequestOutcome {
        let now = self.shared.clock.now();
        if self.request.head.fields.has(names::RANGE) {
            let head = dated(found.head(), now);
            match answer_range(&self.request.head.method, &self.request.head.fields, &head, found.bytes()) {
                RangeAnswer::Whole => {}
                RangeAnswer::Parts(ranges) => {
                    let extract = |first, last| vec![extract_of(found, first, last)];
                    let (mut head, content) =
                        joined(&head, &ranges, Some(found.bytes()), &self.shared.boundary, extract);
                    head.fields.push(names::VIA, VIA);
                    return Box::pin(self.send_parts(found, directory, &head, content, account)).await;
                }
                RangeAnswer::Unsatisfiable => {
                    let head = respond::unsatisfiable(&head, found.bytes());
                    return Box::pin(self.send_parts(found, directory, &head, Vec::new(), account)).await;
                }
            }
        }
        let prebuilt = found.serialised(|head| {
            let mut head = head.clone();
            head.fields.push(names::VIA, VIA);
            respond::prebuilt(&head, found.bytes())
        });
        let has_rules = self.recipient.fields.is_some_and(|rules| respond::changes_prebuilt(prebuilt, rules));
        if has_rules || self.recipient.is_private {
            let mut head = dated(found.head(), now);
            head.fields.push(names::VIA, VIA);
            // For HEAD.
            head.fields.push(names::CONTENT_LENGTH, found.bytes().to_string());
            let whole = match found.bytes() {
                0 => Vec::new(),
                bytes => vec![extract_of(found, 0, bytes - 1)],
            };
            return Box::pin(self.send_parts(found, directory, &head, whole, account)).await;
        }
        let written = respond::write_file(found.bytes(), account, self.recipient, now);
        if written.framing == BodyFraming::Empty {
            self.client.push_head_pieces(&[prebuilt, &written.octets], written.framing);
            let sent = self.client.flush().await.map_err(Interrupted::from);
            return self.outcome(Status::OK, account.reason, 0, sent, &written);
        }
        let sent = match found.content() {
            Content::Memory(content) => send_at_once(self.client, prebuilt, &written, content).await,
            Content::File(file) => {
                if let Err(error) = begin_file(self.client, prebuilt, &written) {
                    return self.outcome(Status::OK, account.reason, 0, Err(error.into()), &written);
                }
                let source = FileSource::new(self.shared, directory, found);
                Box::pin(source.send(self.client, file, (0, found.bytes()))).await
            }
        };
        self.outcome(Status::OK, account.reason, found.bytes(), sent, &written)
    }

    async fn send_parts(
        &mut self,
        found: &Arc<Representation>,
        directory: &Arc<ServedDirectory>,
        head: &ResponseHead,
        content: Vec<Extract>,
        account: &ResponseAccount,
    ) -> RequestOutcome {
        let bytes = content.iter().map(Extract::bytes).sum();
        let written = self.write_head(head, BodyFraming::Length(bytes), account);
        self.client.push_head(&written);
        let has_content = written.framing != BodyFraming::Empty;
        let source = FileSource::new(self.shared, directory, found);
        let sent = source.send_extracts(self.client, if has_content { content } else { Vec::new() }).await;
        let sent_bytes = if has_content { bytes } else { 0 };
        self.outcome(head.status, account.reason, sent_bytes, sent, &written)
    }
}

/// The head of a file's response with its date, by which a client can tell a strong validator.
pub(crate) fn dated(head: &ResponseHead, now: Timestamp) -> ResponseHead {
    let mut head = head.clone();
    head.fields.push(names::DATE, http_date(now));
    head
}

/// These bytes of a file, both ends included.
fn extract_of(found: &Representation, first: u64, last: u64) -> Extract {
    match found.content() {
        // Both fit a usize, because content in memory is short.
        Content::Memory(content) => Extract::Octets(content.slice(first as usize..=last as usize)),
        Content::File(_) => Extract::OnDisk { first, bytes: last - first + 1 },
    }
}

/// Sends a head and content from memory, in one system call if the connection takes it.
async fn send_at_once(
    client: &mut ClientConnection,
    prebuilt: &Bytes,
    head: &SerialisedHead,
    content: &Bytes,
) -> Result<(), Interrupted> {
    if !client.writes_at_once() {
        client.push_head_pieces(&[prebuilt, &head.octets], head.framing);
        client.push(content.clone());
        return client.flush().await.map_err(Interrupted::from);
    }
    let pieces = [prebuilt, &head.octets, content];
    let written = client.write_at_once(pieces.into_iter().map(|piece| &piece[..]))?;
    if written < pieces.iter().map(|piece| piece.len()).sum() {
        queue_rest(client, written, pieces.into_iter());
    }
    client.flush().await.map_err(Interrupted::from)
}

/// Sends or queues the head of a file.
fn begin_file(
    client: &mut ClientConnection,
    prebuilt: &Bytes,
    head: &SerialisedHead,
) -> Result<(), SendError> {
    if !(client.takes_files() && client.writes_at_once()) {
        client.push_head_pieces(&[prebuilt, &head.octets], head.framing);
        return Ok(());
    }
    let pieces = [prebuilt, &head.octets];
    let written = client.write_before_file(pieces.into_iter().map(|piece| &piece[..]))?;
    queue_rest(client, written, pieces.into_iter());
    Ok(())
}

impl<'a> FileSource<'a> {
    /// The source of a response to a request whose look-up has just found the file.
    const fn new(shared: &'a Shared, directory: &'a ServedDirectory, found: &'a Arc<Representation>) -> Self {
        Self { shared, directory, found, is_checked: AtomicBool::new(true) }
    }

    async fn send_extracts(
        &self,
        client: &mut ClientConnection,
        content: Vec<Extract>,
    ) -> Result<(), Interrupted> {
        for extract in content {
            match (extract, self.found.content()) {
                (Extract::OnDisk { first, bytes }, Content::File(file)) => {
                    self.send(client, file, (first, bytes)).await?;
                }
                (Extract::OnDisk { .. }, Content::Memory(_)) => return Err(Interrupted::Source(None)),
                (Extract::Octets(octets), _) => client.push(octets),
            }
        }
        client.flush().await.map_err(Interrupted::from)
    }

    /// Whether the file still has the content of its entity tag.
    fn has_same_content(&self) -> bool {
        self.is_checked.swap(false, Ordering::Relaxed) || self.found.has_same_content()
    }

    /// Sends the queue and then `bytes` bytes of the file, starting at `first`.
    async fn send(
        &self,
        client: &mut ClientConnection,
        file: &File,
        (first, bytes): (u64, u64),
    ) -> Result<(), Interrupted> {
        let end = first + bytes;
        let mut at = first;
        if !client.takes_files() {
            while at < end {
                at += self.send_read(client, file, at, end).await?;
            }
            return client.flush().await.map_err(Interrupted::from);
        }
        if !client.writes_at_once() {
            client.flush().await?;
            self.is_checked.store(false, Ordering::Relaxed);
        }
        while at < end {
            let step = (end - at).min(CHUNK_BYTES - at % CHUNK_BYTES);
            if !self.found.is_resident(at, step, self.shared.clock.monotonic()) {
                // Otherwise sendfile would wait for the disk, and block the worker with all its
                // connections.
                self.on_thread(move |file| bring_into_memory(file, at, step)).await?;
                self.is_checked.store(false, Ordering::Relaxed);
            }
            let sent = client.send_file(file, at, step, || self.has_same_content()).await?;
            if sent < step {
                return Err(Interrupted::Source(None));
            }
            at += sent;
        }
        Ok(())
    }

    /// Reads the next bytes before `end` and queues them. The queue is empty before, so that no
    /// more than these are in memory. Returns their number.
    async fn send_read(
        &self,
        client: &mut ClientConnection,
        file: &File,
        at: u64,
        end: u64,
    ) -> Result<u64, Interrupted> {
        client.flush().await?;
        let usual = if client.arrival().is_secured { READ_BYTES } else { BATCH_BYTES };
        let is_ample = client.has_room_for(usual, self.shared.buffers.memory());
        let count = (end - at).min(if is_ample { usual } else { SHORT_READ_BYTES });
        let mut octets = BytesMut::zeroed(count as usize);
        let read = match read_cached(file, &mut octets, at) {
            Some(read) => read,
            None => {
                let reading = move |file: &File| {
                    let read = file.read_at(&mut octets, at)?;
                    Ok((octets, read))
                };
                let (filled, read) = self.on_thread(reading).await?;
                octets = filled;
                read
            }
        };
        if read == 0 || !self.found.has_same_content() {
            return Err(Interrupted::Source(None));
        }
        octets.truncate(read);
        client.push(octets.freeze());
        Ok(read as u64)
    }

    /// Runs `work` on a thread that may wait for the disk.
    async fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Interrupted> {
        let within = self.shared.limits.disk_timeout;
        let turn = tokio::time::timeout(within, Arc::clone(&self.directory.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(Interrupted::Source(None)) };
        let found = Arc::clone(self.found);
        // The permit is released when the work has ended, even if its request has given up.
        let work = move || {
            let done = match found.content() {
                Content::File(file) => work(file),
                Content::Memory(_) => Err(io::ErrorKind::InvalidInput.into()),
            };
            (done, turn).0
        };
        let done = self.shared.file_threads.run(within, work).await;
        done.and_then(Result::ok).ok_or(Interrupted::Source(None))
    }
}

/// Reads what is in the system's memory; `None` if the disk must be read.
fn read_cached(file: &File, into: &mut [u8], at: u64) -> Option<usize> {
    loop {
        match preadv2(file, &mut [IoSliceMut::new(into)], at, ReadWriteFlags::NOWAIT) {
            Ok(read) => return Some(read),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}
