//! Runs hyper on bytes in memory, without sockets and without a runtime. Its connection future is
//! polled until it ends, with input always ready.

use crate::message::{Message, Start};
use ::message::Method;
use hyper::body::{Body, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, Version};
use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Polls after which a connection counts as stuck. The longest input here needs about twenty.
const POLLS_MAX: usize = 1000;

/// The complete requests that hyper's server reads from a client that sends `octets` and closes.
pub(crate) fn requests(octets: &[u8]) -> Vec<Message> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let service = service_fn(|request: Request<Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            let (parts, body) = request.into_parts();
            if let Some((content, trailer)) = read(body).await {
                let start = Start::Request {
                    method: parts.method.as_str().to_owned(),
                    target: parts.uri.to_string(),
                    http11: parts.version == Version::HTTP_11,
                };
                seen.borrow_mut().push(Message { start, fields: lines(&parts.headers), content, trailer });
            }
            Ok::<_, Infallible>(Response::new(String::new()))
        }
    });
    let wire = Wire { input: octets.to_vec(), at: 0, written: true };
    let connection =
        hyper::server::conn::http1::Builder::new().half_close(true).serve_connection(wire, service);
    let _ended = poll_to_end(pin!(connection));
    seen.take()
}

/// The complete response that hyper's client reads from a server that answers one request with
/// `octets` and closes.
pub(crate) fn response(octets: &[u8], method: &Method) -> Option<Message> {
    let wire = Wire { input: octets.to_vec(), at: 0, written: false };
    let exchange = async {
        let (mut sender, connection) = hyper::client::conn::http1::handshake::<_, String>(wire).await.ok()?;
        let request = Request::builder()
            .method(method.as_bytes())
            .uri("/")
            .header("host", "h")
            .body(String::new())
            .ok()?;
        let mut connection = pin!(connection);
        let answer = async {
            let (parts, body) = sender.send_request(request).await.ok()?.into_parts();
            let (content, trailer) = read(body).await?;
            let start =
                Start::Response { status: parts.status.as_u16(), http11: parts.version == Version::HTTP_11 };
            Some(Message { start, fields: lines(&parts.headers), content, trailer })
        };
        let mut answer = pin!(answer);
        poll_fn(|cx| {
            let _driven = connection.as_mut().poll(cx);
            answer.as_mut().poll(cx)
        })
        .await
    };
    poll_to_end(pin!(exchange)).flatten()
}

/// The content and trailer of a body; `None` if it is incomplete or wrong.
async fn read(body: Incoming) -> Option<(Vec<u8>, Vec<(String, Vec<u8>)>)> {
    let mut body = pin!(body);
    let (mut content, mut trailer) = (Vec::new(), Vec::new());
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        match frame.ok()?.into_data() {
            Ok(data) => content.extend_from_slice(&data),
            Err(frame) => trailer = frame.trailers_ref().map(lines).unwrap_or_default(),
        }
    }
    Some((content, trailer))
}

fn lines(fields: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let mut lines: Vec<_> =
        fields.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect();
    lines.sort_by(|(one, _), (other, _)| one.cmp(other));
    lines
}

fn poll_to_end<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    let mut cx = Context::from_waker(Waker::noop());
    (0..POLLS_MAX).find_map(|_| match future.as_mut().poll(&mut cx) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    })
}

/// A peer that sends its input, closes, and discards everything it receives.
struct Wire {
    input: Vec<u8>,
    at: usize,
    /// Whether a request was written: a server responds only after that.
    written: bool,
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.written {
            return Poll::Pending;
        }
        let rest = self.input.get(self.at..).unwrap_or_default();
        let bytes = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..bytes).unwrap_or_default());
        self.at += bytes;
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        self.written = true;
        Poll::Ready(Ok(octets.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
