//! HTTP/1 on a client's connection: bytes in, bytes out.
//!
//! Invariant: bytes are sent in the order in which they were queued. The content of a request is
//! read no further than its framing says. Time limits belong to the caller.

use bytes::{Buf, Bytes, BytesMut};
use h1::{BodyDecoder, BodyFraming, Decoded, Request, RequestError, Strictness};
use message::{Fields, Frame};
use net::Stream;
use origin::UploadError;
use semantics::trailer_fields;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};

/// Pieces of one vectored write that is not queued.
const SLICES_MAX: usize = 16;

/// Pieces of one vectored write of the queue. An assembled page has many.
const QUEUED_SLICES_MAX: usize = 64;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A connection that carries HTTP/1.
#[derive(Debug)]
pub(crate) struct Http1Wire {
    stream: Stream,
    input: BytesMut,
    output: VecDeque<Bytes>,
    output_bytes: usize,
    decoder: BodyDecoder,
}

impl Http1Wire {
    /// `input` holds the bytes that were already read.
    pub(crate) fn new(stream: Stream, input: BytesMut) -> Self {
        let decoder = BodyDecoder::new(BodyFraming::Empty);
        Self { stream, input, output: VecDeque::new(), output_bytes: 0, decoder }
    }

    pub(crate) const fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Whether the system can send files on this connection.
    pub(crate) const fn takes_files(&self) -> bool {
        self.stream.takes_files()
    }

    /// The bytes that were read and not parsed yet.
    pub(crate) const fn input(&self) -> &BytesMut {
        &self.input
    }

    /// Gives the memory of an empty input back, because the connection waits for its client.
    pub(crate) fn release_input(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
    }

    pub(crate) fn clear_input(&mut self) {
        self.input.clear();
    }

    /// The connection and the bytes that were read and not parsed yet.
    pub(crate) fn into_parts(self) -> (Stream, BytesMut) {
        (self.stream, self.input)
    }

    /// Parses a request head, if the input holds a whole one.
    pub(crate) fn parse(&mut self, limits: &h1::Limits) -> Result<Option<Request>, RequestError> {
        if self.input.is_empty() {
            return Ok(None);
        }
        let request = h1::parse_request(&mut self.input, limits, Strictness::Strict)?;
        if let Some(request) = &request {
            self.decoder = BodyDecoder::new(request.framing);
        }
        Ok(request)
    }

    /// Reads more input; zero bytes are the end of the connection.
    pub(crate) fn poll_fill(&mut self, context: &mut Context<'_>, octets: usize) -> Poll<io::Result<usize>> {
        net::make_room(&mut self.input, octets);
        // The future has no state of its own, so a new one for each poll loses nothing.
        pin!(self.stream.read_buf(&mut self.input)).poll(context)
    }

    /// Decodes the next piece of content from the input, if it is complete.
    pub(crate) fn decode(&mut self) -> Result<Option<Frame>, UploadError> {
        Ok(match self.decoder.decode(&mut self.input).map_err(UploadError::Malformed)? {
            Decoded::NeedMore => None,
            Decoded::Data(octets) => Some(Frame::Data(octets)),
            Decoded::End(trailer) => {
                Some(Frame::End(trailer.map(|trailer| Box::new(trailer_fields(&trailer)))))
            }
        })
    }

    /// Whether the whole content of the current request has been read.
    pub(crate) fn is_content_read(&self) -> bool {
        self.decoder.is_done()
    }

    /// Queues bytes for sending.
    pub(crate) fn push(&mut self, octets: Bytes) {
        if !octets.is_empty() {
            self.output_bytes += octets.len();
            self.output.push_back(octets);
        }
    }

    /// Queues 100 (Continue).
    pub(crate) fn push_continue(&mut self) {
        self.push(Bytes::from_static(CONTINUE));
    }

    /// Queues a piece of content in this framing.
    pub(crate) fn push_content(&mut self, framing: BodyFraming, octets: Bytes) {
        self.push_gathered(framing, octets.len(), std::iter::once(octets));
    }

    /// Queues pieces of content, which have `bytes` bytes, in this framing. They are one chunk.
    pub(crate) fn push_gathered(
        &mut self,
        framing: BodyFraming,
        bytes: usize,
        pieces: impl Iterator<Item = Bytes>,
    ) {
        match framing {
            BodyFraming::Chunked => {
                let mut size = BytesMut::with_capacity(20);
                h1::write_chunk_size(&mut size, bytes);
                self.push(size.freeze());
                pieces.for_each(|piece| self.push(piece));
                self.push(Bytes::from_static(h1::CHUNK_END));
            }
            BodyFraming::Length(_) | BodyFraming::UntilClose => pieces.for_each(|piece| self.push(piece)),
            BodyFraming::Empty => {}
        }
    }

    /// Queues the end of the content in this framing.
    pub(crate) fn push_end(&mut self, framing: BodyFraming, trailer: Option<&Fields>) {
        if framing != BodyFraming::Chunked {
            return;
        }
        let mut end = BytesMut::with_capacity(64);
        if h1::write_last_chunk(&mut end, trailer).is_err() {
            // Trailer fields are parsed as strictly as they are written. If one is refused all the
            // same, all of them are left out, as any recipient may do (RFC 9110 section 6.5.1).
            let _ = h1::write_last_chunk(&mut end, None);
        }
        self.push(end.freeze());
    }

    /// Number of queued bytes.
    pub(crate) const fn queued_bytes(&self) -> usize {
        self.output_bytes
    }

    /// Writes as much of `pieces` as the system accepts without blocking. Nothing may be queued.
    /// Returns the number of bytes written; the caller must queue the rest. `file_follows`: the
    /// next call sends a file.
    pub(crate) fn write_at_once<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a [u8]>,
        file_follows: bool,
    ) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        for (slice, octets) in slices.iter_mut().zip(pieces) {
            *slice = IoSlice::new(octets);
            count += 1;
        }
        let slices = slices.get(..count).unwrap_or_default();
        let written = match file_follows {
            true => self.stream.try_write_before_file(slices),
            false => self.stream.try_write_vectored(slices),
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            written => written,
        }
    }

    /// Writes a part of the queue. Returns the number of bytes written.
    pub(crate) fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); QUEUED_SLICES_MAX];
        let mut count = 0;
        for (slice, octets) in slices.iter_mut().zip(&self.output) {
            *slice = IoSlice::new(octets);
            count += 1;
        }
        let slices = slices.get(..count).unwrap_or_default();
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.consume(written);
        Poll::Ready(Ok(written))
    }

    /// Sends what TLS took and could not send. For a plain connection this does nothing.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Sends at most `count` bytes of a file; see [`Stream::poll_send_file`].
    pub(crate) fn poll_send_file(
        &self,
        context: &mut Context<'_>,
        file: &File,
        offset: &mut u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_send_file(context, file, offset, count)
    }

    /// Drops the queue, because the connection accepts no more.
    pub(crate) fn give_up(&mut self) {
        self.output.clear();
        self.output_bytes = 0;
    }

    fn consume(&mut self, written: usize) {
        self.output_bytes -= written;
        let mut left = written;
        while let Some(first) = self.output.front_mut() {
            if first.len() > left {
                first.advance(left);
                return;
            }
            left -= first.len();
            self.output.pop_front();
        }
    }
}
