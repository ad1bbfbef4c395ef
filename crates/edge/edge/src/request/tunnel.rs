//! A tunnel for an upgraded connection: copies bytes in both directions until both end, or nothing
//! moves for too long.
//!
//! Invariants: bytes that either side sent before the switch are delivered first. The end of one
//! direction is passed on, and the other direction continues until it ends too.

use bytes::{Buf, BytesMut};
use net::{Patience, Stream};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite};

/// Bytes read at once in one direction.
const BUFFER_BYTES: usize = 16 * 1024;

/// One direction of the tunnel.
struct TunnelDirection {
    buffer: BytesMut,
    /// The sender has closed its side.
    ended: bool,
    /// The receiver knows of that.
    told: bool,
    moved_bytes: u64,
}

/// Connects two streams, each with the bytes that were already read from it. Ends when both
/// directions have ended, one has failed, or nothing moved for `idle_timeout`.
pub(crate) async fn tunnel(
    (mut visitor, from_visitor): (Stream, BytesMut),
    (mut application, from_application): (Stream, BytesMut),
    idle_timeout: Duration,
) {
    let (mut up, mut down) = (TunnelDirection::new(from_visitor), TunnelDirection::new(from_application));
    let mut patience = Patience::new();
    poll_fn(|context| {
        let moved_before = up.moved_bytes + down.moved_bytes;
        let up_done = up.poll_move(&mut visitor, &mut application, context);
        let down_done = down.poll_move(&mut application, &mut visitor, context);
        match (up_done, down_done) {
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => return Poll::Ready(()),
            (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => return Poll::Ready(()),
            _ => {}
        }
        if up.moved_bytes + down.moved_bytes != moved_before {
            patience.reset();
        }
        patience.poll_over(context, idle_timeout)
    })
    .await;
}

impl TunnelDirection {
    fn new(buffer: BytesMut) -> Self {
        Self { buffer, ended: false, told: false, moved_bytes: 0 }
    }

    /// Moves the available bytes; ready when the sender has ended and the receiver has everything.
    fn poll_move(
        &mut self,
        sender: &mut Stream,
        receiver: &mut Stream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            while !self.buffer.is_empty() {
                match ready!(Pin::new(&mut *receiver).poll_write(context, &self.buffer))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    written => {
                        self.buffer.advance(written);
                        self.moved_bytes += written as u64;
                    }
                }
            }
            // TLS takes bytes before it can send them.
            ready!(Pin::new(&mut *receiver).poll_flush(context))?;
            if self.ended {
                if !self.told {
                    ready!(Pin::new(&mut *receiver).poll_shutdown(context))?;
                    self.told = true;
                }
                return Poll::Ready(Ok(()));
            }
            self.buffer.reserve(BUFFER_BYTES);
            // The future has no state of its own, so a new one for each poll loses nothing. Many
            // clients end TLS without its closing message.
            self.ended = match ready!(pin!(sender.read_buf(&mut self.buffer)).poll(context)) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => true,
                read => read? == 0,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::tunnel;
    use bytes::BytesMut;
    use net::{Connection, Stream};
    use std::io::{self, IoSlice};
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter, ReadBuf};
    use tokio::net::UnixStream;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn tunnel_passes_bytes_and_ends_both_ways_early_bytes_first() {
        let (mut visitor, at_edge) = UnixStream::pair().unwrap();
        let (mut application, to_application) = UnixStream::pair().unwrap();
        let running = tokio::spawn(tunnel(
            (Stream::Unix(at_edge), BytesMut::from(&b"early up "[..])),
            (Stream::Unix(to_application), BytesMut::from(&b"early down "[..])),
            HOUR,
        ));
        visitor.write_all(b"up").await.unwrap();
        visitor.shutdown().await.unwrap();
        let mut received = String::new();
        application.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "early up up");
        application.write_all(b"down").await.unwrap();
        drop(application);
        received.clear();
        visitor.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "early down down");
        running.await.unwrap();
    }

    /// A connection that sends nothing before it is flushed, as TLS may do.
    #[derive(Debug)]
    struct Buffering(BufWriter<UnixStream>);

    impl AsyncRead for Buffering {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(context, buffer)
        }
    }

    impl AsyncWrite for Buffering {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            octets: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.0).poll_write(context, octets)
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(context)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(context)
        }
    }

    impl Connection for Buffering {
        fn try_write_vectored(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn reset_on_close(&self, _: bool) {}

        fn is_quiet(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn bytes_reach_a_connection_that_waits_for_a_flush() {
        let (mut visitor, at_edge) = UnixStream::pair().unwrap();
        let (mut application, to_application) = UnixStream::pair().unwrap();
        let buffering = Stream::Other(Box::new(Buffering(BufWriter::new(at_edge))));
        let down = BytesMut::from(&b"early "[..]);
        tokio::spawn(tunnel((buffering, BytesMut::new()), (Stream::Unix(to_application), down), HOUR));
        application.write_all(b"late").await.unwrap();
        let mut received = [0; 10];
        let read = tokio::time::timeout(testkit::PATIENCE, visitor.read_exact(&mut received));
        read.await.expect("the bytes wait for a flush").unwrap();
        assert_eq!(&received, b"early late");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_tunnel_ends_after_the_timeout() {
        let (mut visitor, at_edge) = UnixStream::pair().unwrap();
        let (_application, to_application) = UnixStream::pair().unwrap();
        tunnel(
            (Stream::Unix(at_edge), BytesMut::new()),
            (Stream::Unix(to_application), BytesMut::new()),
            HOUR,
        )
        .await;
        assert_eq!(visitor.read(&mut [0]).await.unwrap(), 0);
    }
}
