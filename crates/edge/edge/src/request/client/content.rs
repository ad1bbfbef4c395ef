//! The content of a client's request: read in advance, or as the origin takes it.
//!
//! Invariant: content is delivered in order and once. It is read only as fast as it is passed on,
//! except for the part that a buffer takes in advance.

use super::{CONTENT_READ_BYTES, ClientConnection, Wire};
use crate::memory::buffer::Buffer;
use config::EdgeLimits;
use h1::BodyFraming;
use message::{Fields, Frame};
use origin::{Upload, UploadError};
use semantics::FormReader;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

/// The content of the current request.
#[derive(Debug)]
pub(super) struct RequestContent {
    read_bytes: u64,
    /// The largest content, in bytes.
    bytes_max: u64,
    /// The client waits for 100 (Continue) before it sends the content.
    continue_owed: bool,
    /// The form fields found in the content so far, if they are needed.
    form: FormReader,
    /// Content that was read before the request went to the origin.
    pub(super) ahead: Option<Ahead>,
}

/// Content that was read before the request went to the origin.
#[derive(Debug)]
pub(super) struct Ahead {
    buffer: Buffer,
    bytes: u64,
    /// The end of the content with its trailer, if it was read completely.
    end: Option<Option<Box<Fields>>>,
}

impl Upload for ClientConnection {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Result<Frame, UploadError>> {
        if let Some(ahead) = &mut self.content.ahead {
            if let Some(octets) = ready!(ahead.buffer.poll_pop(context)).map_err(|_| UploadError::Lost)? {
                return Poll::Ready(Ok(Frame::Data(octets)));
            }
            if let Some(Ahead { end: Some(trailer), .. }) = self.content.ahead.take() {
                return Poll::Ready(Ok(Frame::End(trailer)));
            }
        }
        self.poll_content(context)
    }
}

impl ClientConnection {
    /// Parses the request's content as this form from now on.
    pub(crate) fn read_form(&mut self, form: FormReader) {
        self.content.form = form;
    }

    /// The form fields found in the request's content so far.
    pub(crate) fn form(&self) -> &FormReader {
        &self.content.form
    }

    /// Reads content in advance while the buffer has room, until more than `bytes_max` bytes have
    /// arrived. The rest is read when the origin takes it.
    ///
    /// If the content ended, returns its framing for the origin: its length, or chunked if a
    /// trailer follows.
    ///
    /// # Errors
    /// [`UploadError`] when the content does not arrive.
    pub(crate) async fn read_ahead(
        &mut self,
        (buffer, bytes_max): (Buffer, u64),
    ) -> Result<Option<BodyFraming>, UploadError> {
        let mut ahead = Ahead { buffer, bytes: 0, end: None };
        let read = poll_fn(|context| self.poll_read_ahead(context, &mut ahead, bytes_max)).await;
        let whole = ahead.end.as_ref().map(|trailer| match trailer {
            Some(_) => BodyFraming::Chunked,
            None => BodyFraming::Length(ahead.bytes),
        });
        self.content.ahead = Some(ahead);
        read.map(|()| whole)
    }

    fn poll_read_ahead(
        &mut self,
        context: &mut Context<'_>,
        ahead: &mut Ahead,
        bytes_max: u64,
    ) -> Poll<Result<(), UploadError>> {
        loop {
            while ahead.buffer.poll_move(context, false).is_ready() {}
            if !ahead.buffer.has_room() {
                return if ahead.buffer.is_moving() { Poll::Pending } else { Poll::Ready(Ok(())) };
            }
            match ready!(self.poll_content(context))? {
                Frame::Data(octets) => {
                    ahead.bytes += octets.len() as u64;
                    ahead.buffer.push(octets);
                    if ahead.bytes > bytes_max {
                        return Poll::Ready(Ok(()));
                    }
                }
                Frame::End(trailer) => {
                    ahead.end = Some(trailer);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    /// Sets the largest content of the current request, in bytes.
    pub(crate) fn set_content_bytes_max(&mut self, bytes_max: u64) {
        self.content.bytes_max = bytes_max;
    }

    /// Takes the next piece of content that was read, if it is complete.
    fn decode(&mut self) -> Result<Option<Frame>, UploadError> {
        let frame = match &mut self.wire {
            Wire::Http1(wire) => wire.decode()?,
            Wire::Http2(wire) => wire.take_frame(),
        };
        if let Some(Frame::Data(octets)) = &frame {
            self.content.read_bytes += octets.len() as u64;
            if self.content.read_bytes > self.content.bytes_max {
                return Err(UploadError::TooLarge);
            }
        }
        Ok(frame)
    }

    /// The next piece of the content as it arrives from the client.
    fn poll_content(&mut self, context: &mut Context<'_>) -> Poll<Result<Frame, UploadError>> {
        loop {
            if let Some(frame) = self.decode()? {
                self.read_patience.reset();
                if let Frame::Data(octets) = &frame {
                    self.content.form.feed(octets);
                }
                return Poll::Ready(Ok(frame));
            }
            if std::mem::take(&mut self.content.continue_owed) {
                match &mut self.wire {
                    Wire::Http1(wire) => wire.push_continue(),
                    Wire::Http2(wire) => wire.send_continue(),
                }
            }
            if ready!(self.poll_flush(context)).is_err() {
                return Poll::Ready(Err(UploadError::Gone));
            }
            match self.poll_fill(context, CONTENT_READ_BYTES) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(UploadError::Gone)),
                Poll::Ready(Ok(read)) => {
                    self.read_patience.reset();
                    self.read_pace.moved(read);
                }
                Poll::Pending => {
                    let EdgeLimits { request_body_timeout, request_rate_min, rate_window, .. } = *self.limits;
                    if self.read_pace.poll_too_slow(context, request_rate_min, rate_window).is_ready() {
                        return Poll::Ready(Err(UploadError::TooSlow));
                    }
                    let over = self.read_patience.poll_over(context, request_body_timeout);
                    return over.map(|()| Err(UploadError::TimedOut));
                }
            }
        }
    }
}

impl RequestContent {
    pub(super) fn new(continue_owed: bool, bytes_max: u64) -> Self {
        Self { read_bytes: 0, bytes_max, continue_owed, form: FormReader::default(), ahead: None }
    }
}
