//! One stream of a client with HTTP/2: its request's content and its response.
//!
//! Invariant: a response ends with END_STREAM only if its content was complete. If it was not, the
//! stream ends with a reset, so that the client takes no part for the whole.

use crate::http2::metered::ContentMeter;
use crate::http2::outlet::{Outlet, ResponseEnd, SendOrder, SharedOutlet, lock};
use crate::http2::priority::Priority;
use crate::http2::response;
use bytes::Bytes;
use h1::BodyFraming;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Response, StatusCode};
use message::{Fields, Frame};
use semantics::trailer_fields;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// One stream.
pub(crate) struct Http2Wire {
    receive: RecvStream,
    /// The frame that was read last.
    frame: Option<Frame>,
    /// Whether the whole content was taken.
    is_content_read: bool,
    respond: SendResponse<Bytes>,
    /// `None` before the head of the response was sent, and after a response without content.
    outlet: Option<SharedOutlet>,
    order: Arc<SendOrder>,
    priority: Priority,
    /// Whether the client asked for a tunnel.
    is_tunnel: bool,
    /// Bytes of content that the head announced and that are not queued yet.
    left_bytes: Option<u64>,
    /// Whether the head could not be sent.
    is_broken: bool,
    meter: Arc<ContentMeter>,
}

/// The state that the streams of a connection share.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamsShared {
    pub(crate) order: Arc<SendOrder>,
    pub(crate) meter: Arc<ContentMeter>,
}

impl Http2Wire {
    /// A stream whose request was received.
    pub(crate) fn new(
        (receive, respond): (RecvStream, SendResponse<Bytes>),
        shared: &StreamsShared,
        priority: Priority,
        is_tunnel: bool,
    ) -> Self {
        // The data of a tunnel are no content of the request.
        let is_content_read = is_tunnel || receive.is_end_stream();
        Self {
            receive,
            frame: None,
            is_content_read,
            respond,
            outlet: None,
            order: Arc::clone(&shared.order),
            priority,
            is_tunnel,
            left_bytes: None,
            is_broken: false,
            meter: Arc::clone(&shared.meter),
        }
    }

    /// Whether the whole content of the request has been read.
    pub(crate) const fn is_content_read(&self) -> bool {
        self.is_content_read
    }

    /// Takes the frame that was read last.
    pub(crate) fn take_frame(&mut self) -> Option<Frame> {
        if self.frame.is_none() && self.is_content_read && !self.is_tunnel {
            return Some(Frame::End(None));
        }
        self.frame.take().inspect(|frame| self.is_content_read |= matches!(frame, Frame::End(_)))
    }

    /// Reads the next frame; its size, or 1 for the end.
    pub(crate) fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match ready!(self.receive.poll_data(context)) {
            Some(Ok(octets)) => {
                let bytes = octets.len();
                self.meter.add(bytes);
                // The pipeline has taken the bytes, so the window opens for more.
                self.receive.flow_control().release_capacity(bytes).map_err(io::Error::other)?;
                self.frame = Some(Frame::Data(octets));
                Poll::Ready(Ok(bytes.max(1)))
            }
            Some(Err(error)) => Poll::Ready(Err(io::Error::other(error))),
            None => {
                let trailer = ready!(self.receive.poll_trailers(context)).map_err(io::Error::other)?;
                let trailer = trailer.map(|trailer| Box::new(trailer_fields(&fields_of(&trailer))));
                self.frame = Some(Frame::End(trailer));
                Poll::Ready(Ok(1))
            }
        }
    }

    /// Sends 100 (Continue).
    pub(crate) fn send_continue(&mut self) {
        let mut interim = Response::new(());
        *interim.status_mut() = StatusCode::CONTINUE;
        // A departed client does not need it.
        let _ = self.respond.send_informational(interim);
    }

    /// Sends an informational response, or accepts the tunnel for 101 (Switching Protocols).
    pub(crate) fn push_interim(&mut self, head: &Bytes) {
        let Some(mut response) = response::translate(&[head]) else { return };
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            // The final response meets the error too.
            let _ = self.respond.send_informational(response);
        } else if self.is_tunnel {
            // RFC 8441 section 5.
            *response.status_mut() = StatusCode::OK;
            self.send_head(response, false);
        }
    }

    /// Sends the head of a response with content in this framing.
    pub(crate) fn push_head(&mut self, pieces: &[&Bytes], framing: BodyFraming) {
        let Some(mut response) = response::translate(pieces) else {
            return self.abandon();
        };
        if self.is_tunnel && response.status().is_success() {
            // The client would take it for the begin of the tunnel (RFC 8441 section 5).
            *response.status_mut() = StatusCode::BAD_GATEWAY;
        }
        let is_whole = matches!(framing, BodyFraming::Empty | BodyFraming::Length(0));
        self.left_bytes = match framing {
            BodyFraming::Length(bytes) => Some(bytes),
            BodyFraming::Empty | BodyFraming::Chunked | BodyFraming::UntilClose => None,
        };
        self.send_head(response, is_whole);
    }

    fn send_head(&mut self, response: Response<()>, is_whole: bool) {
        match self.respond.send_response(response, is_whole) {
            Ok(send) if !is_whole => self.outlet = Some(Outlet::new(send, self.priority)),
            Ok(_) => {}
            Err(_) => self.is_broken = true,
        }
    }

    /// Queues content.
    pub(crate) fn push(&mut self, octets: Bytes) {
        let Some(outlet) = &self.outlet else { return };
        let mut outlet = lock(outlet);
        if let Some(left) = &mut self.left_bytes {
            *left = left.saturating_sub(octets.len() as u64);
            if *left == 0 {
                outlet.finish(ResponseEnd::Plain);
                self.left_bytes = None;
            }
        }
        outlet.push(octets);
    }

    /// Queues the end of content whose length was not announced.
    pub(crate) fn push_end(&self, trailer: Option<&Fields>) {
        let Some(outlet) = &self.outlet else { return };
        lock(outlet).finish(match trailer {
            Some(trailer) => ResponseEnd::Trailer(response::trailer(trailer)),
            None => ResponseEnd::Plain,
        });
    }

    /// Number of queued bytes.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.outlet.as_ref().map_or(0, |outlet| lock(outlet).queued_bytes())
    }

    /// Whether bytes or the end are still to be sent, or the stream has ended early, or sent bytes
    /// are still to be reported: another response may have sent the last ones in its turn.
    pub(crate) fn has_output(&self) -> bool {
        let waits = |outlet: &SharedOutlet| {
            let outlet = lock(outlet);
            outlet.has_output() || outlet.has_moved() || outlet.is_broken()
        };
        self.is_broken || self.outlet.as_ref().is_some_and(waits)
    }

    /// Sends a part of the queue. Returns the number of bytes, which is zero if only the end was
    /// sent.
    pub(crate) fn poll_write(&self, context: &Context<'_>) -> Poll<io::Result<usize>> {
        let Some(shared) = self.outlet.as_ref().filter(|_| !self.is_broken) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        self.order.offer(shared);
        let mut outlet = lock(shared);
        let moved = outlet.take_moved();
        if outlet.is_broken() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if moved > 0 || !outlet.has_output() {
            return Poll::Ready(Ok(moved));
        }
        outlet.wait(context);
        Poll::Pending
    }

    /// Bytes of all other responses of the connection that were sent so far.
    pub(crate) fn bytes_of_others(&self) -> u64 {
        self.outlet.as_ref().map_or(0, |outlet| self.order.bytes_of_others(outlet))
    }

    /// Ends the stream early: the response is incomplete.
    pub(crate) fn abandon(&mut self) {
        self.is_broken = true;
        match &self.outlet {
            Some(outlet) => self.order.reset_later(outlet),
            None => self.respond.send_reset(Reason::INTERNAL_ERROR),
        }
    }
}

impl Drop for Http2Wire {
    /// What was not sent is not complete: a tunnel or a task may end early.
    fn drop(&mut self) {
        if let Some(outlet) = self.outlet.as_ref().filter(|outlet| lock(outlet).has_output()) {
            self.order.reset_later(outlet);
        }
    }
}

impl std::fmt::Debug for Http2Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http2Wire").field("stream", &self.receive.stream_id()).finish_non_exhaustive()
    }
}

fn fields_of(trailer: &HeaderMap) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in trailer {
        let name = Bytes::copy_from_slice(name.as_str().as_bytes());
        fields.push(name, Bytes::copy_from_slice(value.as_bytes()));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::{Http2Wire, StreamsShared};
    use crate::http2::priority::Priority;
    use bytes::Bytes;
    use h1::BodyFraming;
    use std::task::{Context, Poll, Waker};

    #[tokio::test]
    async fn bytes_that_another_turn_sends_are_reported() {
        let (near, far) = tokio::io::duplex(1 << 16);
        let serve = async {
            let mut connection = h2::server::handshake(far).await.unwrap();
            (connection.accept().await.unwrap().unwrap(), connection)
        };
        let ask = async {
            let (send, connection) = h2::client::handshake(near).await.unwrap();
            let driver = tokio::spawn(connection);
            let mut send = send.ready().await.unwrap();
            let request = http::Request::get("http://a.test/").body(()).unwrap();
            (send.send_request(request, true).unwrap(), send, driver)
        };
        let (((request, respond), _connection), _asked) = tokio::join!(serve, ask);
        let shared = StreamsShared::default();
        let stream = (request.into_body(), respond);
        let mut wire = Http2Wire::new(stream, &shared, Priority::default(), false);
        let head = Bytes::from_static(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
        wire.push_head(&[&head], BodyFraming::Length(10));
        wire.push(Bytes::from_static(&[7; 10]));
        let context = Context::from_waker(Waker::noop());
        assert!(wire.poll_write(&context).is_pending(), "no round has begun");
        shared.order.begin_round(false);
        assert!(wire.has_output(), "the bytes are sent and not reported");
        assert!(matches!(wire.poll_write(&context), Poll::Ready(Ok(10))));
        assert!(!wire.has_output());
    }
}
