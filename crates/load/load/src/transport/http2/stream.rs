//! One request over HTTP/2 and its response.
//!
//! Invariant: every content byte of the response is read and counted, and returned to the server's
//! flow-control window at once.

use super::super::socket::Octets;
use super::super::{PendingRequest, Tools};
use crate::reader::ResponseSummary;
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response};
use record::{CacheVerdict, FailureKind};
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

/// The result of a request.
pub(super) enum StreamOutcome {
    /// A complete response.
    Answered(ResponseSummary),
    /// The request failed, but the connection can carry others.
    Failed(FailureKind),
    /// The request and its connection failed.
    Broken(FailureKind),
    /// The server refused the stream without processing it, but may accept another one.
    Refused,
    /// The server has not processed the request, and the connection accepts no other.
    Unseen,
}

/// A request in progress, and the received part of its response.
pub(super) struct RequestStream {
    pub(super) pending: PendingRequest,
    /// How often the server has refused the stream.
    pub(super) refusals: u32,
    pub(super) waker: Waker,
    step: StreamStep,
}

/// The progress of a request.
enum StreamStep {
    /// Not sent.
    Begin,
    /// Content is being sent.
    Sending(ResponseFuture, SendStream<Bytes>, Bytes),
    /// The request is sent.
    Sent(ResponseFuture),
    /// Content of the response is arriving; trailers may follow.
    Content(ResponseSummary, RecvStream),
    Trailers(ResponseSummary, RecvStream),
}

impl RequestStream {
    pub(super) fn new(pending: PendingRequest, waker: Waker) -> Self {
        Self { pending, refusals: 0, waker, step: StreamStep::Begin }
    }

    /// Starts again on the same connection.
    pub(super) fn begin_again(&mut self) {
        self.step = StreamStep::Begin;
        self.refusals += 1;
    }

    /// Makes as much progress as possible.
    pub(super) fn poll(
        &mut self,
        sender: &SendRequest<Bytes>,
        octets: &Octets,
        tools: &mut Tools<'_>,
    ) -> Poll<StreamOutcome> {
        let waker = self.waker.clone();
        let context = &mut Context::from_waker(&waker);
        loop {
            let turn = match &mut self.step {
                StreamStep::Begin => self.begin(sender, context, tools),
                StreamStep::Sending(_, stream, rest) => match ready!(send(stream, rest, context)) {
                    Ok(()) => self.is_sent(tools),
                    Err(error) => Err(after(&error, FailureKind::Send)),
                },
                StreamStep::Sent(response) => match ready!(Pin::new(response).poll(context)) {
                    Ok(response) => Ok(self.head(response, octets, tools)),
                    Err(error) => Err(after(&error, FailureKind::Receive)),
                },
                StreamStep::Content(..) => {
                    ready!(self.content(context, octets, tools)).map_err(|error| seen(&error))
                }
                StreamStep::Trailers(answer, body) => match ready!(body.poll_trailers(context)) {
                    Ok(_) => return Poll::Ready(StreamOutcome::Answered(*answer)),
                    Err(error) => Err(seen(&error)),
                },
            };
            match turn {
                Ok(step) => self.step = step,
                Err(after) => return Poll::Ready(after),
            }
        }
    }

    fn begin(
        &self,
        sender: &SendRequest<Bytes>,
        context: &mut Context<'_>,
        tools: &Tools<'_>,
    ) -> Result<StreamStep, StreamOutcome> {
        let mut sender = sender.clone();
        // A new sender is ready at once: requests beyond the server's stream limit wait inside the
        // library.
        let Poll::Ready(Ok(())) = sender.poll_ready(context) else { return Err(StreamOutcome::Unseen) };
        let request = tools.http2.requests.get(self.pending.exchange.url as usize);
        let request = request.ok_or(StreamOutcome::Failed(FailureKind::Send))?;
        let content = tools.http2.content.clone();
        let sent = sender.send_request(request.clone(), content.is_empty());
        let (response, stream) = sent.map_err(|_| StreamOutcome::Unseen)?;
        Ok(StreamStep::Sending(response, stream, content))
    }

    fn is_sent(&mut self, tools: &Tools<'_>) -> Result<StreamStep, StreamOutcome> {
        self.pending.exchange.sent = tools.clock.monotonic();
        match std::mem::replace(&mut self.step, StreamStep::Begin) {
            StreamStep::Sending(response, ..) => Ok(StreamStep::Sent(response)),
            _ => Err(StreamOutcome::Failed(FailureKind::Send)),
        }
    }

    fn head(&mut self, response: Response<RecvStream>, octets: &Octets, tools: &mut Tools<'_>) -> StreamStep {
        let (exchange, now) = (&mut self.pending.exchange, tools.clock.monotonic());
        exchange.first_octet = tools.came(octets.stamp(), exchange, now);
        exchange.receive(exchange.first_octet, now);
        take_head(&mut tools.http2.first_head, &response);
        let (parts, body) = response.into_parts();
        let answer = ResponseSummary {
            status: parts.status.as_u16(),
            content_bytes: 0,
            persistent: tools.http2.keep_alive,
            verdict: verdict(&parts.headers),
            length_known: parts.headers.contains_key(CONTENT_LENGTH),
        };
        StreamStep::Content(answer, body)
    }

    /// Reads the content that has arrived.
    fn content(
        &mut self,
        context: &mut Context<'_>,
        octets: &Octets,
        tools: &mut Tools<'_>,
    ) -> Poll<Result<StreamStep, h2::Error>> {
        let StreamStep::Content(answer, body) = &mut self.step else { return Poll::Pending };
        while let Some(piece) = ready!(body.poll_data(context)) {
            let piece = piece?;
            let bytes = piece.len();
            let now = tools.clock.monotonic();
            let came = tools.came(octets.stamp(), &self.pending.exchange, now);
            self.pending.exchange.receive(came, now);
            self.pending.inspection.take(&piece);
            body.flow_control().release_capacity(bytes)?;
            answer.content_bytes += bytes as u64;
            if self.pending.exchange.measured {
                tools.recorder.content_bytes += bytes as u64;
            }
        }
        match std::mem::replace(&mut self.step, StreamStep::Begin) {
            StreamStep::Content(answer, body) => Poll::Ready(Ok(StreamStep::Trailers(answer, body))),
            other => Poll::Ready(Ok(other)),
        }
    }
}

/// Sends content as fast as the server's flow-control windows allow.
fn send(
    stream: &mut SendStream<Bytes>,
    rest: &mut Bytes,
    context: &mut Context<'_>,
) -> Poll<Result<(), h2::Error>> {
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        let room = match ready!(stream.poll_capacity(context)) {
            Some(room) => room?,
            None => return Poll::Ready(Err(Reason::STREAM_CLOSED.into())),
        };
        let piece = rest.split_to(room.min(rest.len()));
        stream.send_data(piece, rest.is_empty())?;
    }
    Poll::Ready(Ok(()))
}

/// The result for a request that was sent and whose stream or connection failed.
fn after(error: &h2::Error, kind: FailureKind) -> StreamOutcome {
    let says = |reason| error.reason() == Some(reason);
    if error.is_remote() && error.is_go_away() && says(Reason::NO_ERROR) {
        StreamOutcome::Unseen
    } else if error.is_remote() && says(Reason::REFUSED_STREAM) {
        StreamOutcome::Refused
    } else if error.is_reset() {
        StreamOutcome::Failed(kind)
    } else {
        StreamOutcome::Broken(kind)
    }
}

/// The result after a response head has arrived: the server has processed the request, so it is not
/// sent again.
fn seen(error: &h2::Error) -> StreamOutcome {
    match after(error, FailureKind::Receive) {
        StreamOutcome::Unseen | StreamOutcome::Refused => StreamOutcome::Broken(FailureKind::Receive),
        other => other,
    }
}

/// Keeps the first response head, in HTTP/1 form.
fn take_head<B>(head: &mut Vec<u8>, response: &Response<B>) {
    if head.is_empty() {
        head.extend_from_slice(format!("HTTP/2 {}\r\n", response.status()).as_bytes());
        for (name, value) in response.headers() {
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
    }
}

fn verdict(fields: &HeaderMap) -> Option<CacheVerdict> {
    CacheVerdict::of(|name| fields.get(name).map(|value| value.as_bytes()))
}
