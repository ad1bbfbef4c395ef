//! A stream of HTTP/2 as a connection, for a tunnel with another protocol (RFC 8441).
//!
//! Invariant: bytes pass unchanged in both directions, each within the windows of its receiver.

use crate::http2::wire::Http2Wire;
use bytes::{Buf as _, Bytes};
use message::Frame;
use net::Connection;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that carries another protocol.
#[derive(Debug)]
pub(crate) struct Http2Tunnel {
    /// A connection can be shared between threads, which a stream of `h2` cannot.
    state: Mutex<TunnelState>,
}

#[derive(Debug)]
struct TunnelState {
    wire: Http2Wire,
    /// Bytes that were read and not taken yet.
    input: Bytes,
    has_ended: bool,
}

/// Bytes that are queued at once.
const WRITE_BYTES: usize = 16 * 1024;

impl Http2Tunnel {
    pub(crate) fn new(wire: Http2Wire) -> Self {
        Self { state: Mutex::new(TunnelState { wire, input: Bytes::new(), has_ended: false }) }
    }

    fn state(&mut self) -> &mut TunnelState {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Http2Tunnel {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let state = self.get_mut().state();
        while state.input.is_empty() && !state.has_ended {
            ready!(state.wire.poll_fill(context))?;
            match state.wire.take_frame() {
                Some(Frame::Data(octets)) => state.input = octets,
                Some(Frame::End(_)) | None => state.has_ended = true,
            }
        }
        let count = state.input.len().min(buffer.remaining());
        buffer.put_slice(state.input.get(..count).unwrap_or_default());
        state.input.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Http2Tunnel {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        let wire = &mut self.get_mut().state().wire;
        while wire.has_output() {
            ready!(wire.poll_write(context))?;
        }
        let octets = octets.get(..WRITE_BYTES).unwrap_or(octets);
        wire.push(Bytes::copy_from_slice(octets));
        // Sent now if the windows permit; otherwise the next call waits.
        if let Poll::Ready(Err(error)) = wire.poll_write(context) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(octets.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wire = &mut self.get_mut().state().wire;
        while wire.has_output() {
            ready!(wire.poll_write(context))?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut *this).poll_flush(context))?;
        this.state().wire.push_end(None);
        Pin::new(this).poll_flush(context)
    }
}

impl Connection for Http2Tunnel {
    fn try_write_vectored(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn reset_on_close(&self, _: bool) {}

    fn is_quiet(&self) -> bool {
        true
    }
}
