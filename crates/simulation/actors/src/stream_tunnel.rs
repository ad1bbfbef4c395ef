//! A tunnel through a stream of HTTP/2 (RFC 8441), as browsers open it for WebSocket.
//!
//! Invariant: bytes pass unchanged in both directions. The end of each direction is passed on.

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::ext::Protocol;
use h2::{RecvStream, SendStream};
use http::{Method, Request, Version};
use std::future::poll_fn;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::time::sleep;

/// Bytes on the way between the stream and its user.
const BUFFER_BYTES: usize = 16 << 10;

/// How often the client looks whether the server's settings have arrived.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Opens a tunnel on a connection of its own. The caller limits the time.
///
/// # Errors
/// A text that says why there is none.
pub(crate) async fn open<S>(stream: S, host: &str) -> Result<DuplexStream, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let told = |error: h2::Error| error.to_string();
    let (send, connection) = Builder::new().enable_push(false).handshake(stream).await.map_err(told)?;
    tokio::spawn(async move {
        // The stream reports what becomes of it.
        let _ = connection.await;
    });
    let mut send: SendRequest<Bytes> = send.ready().await.map_err(told)?;
    while !send.is_extended_connect_protocol_enabled() {
        sleep(LOOK_EVERY).await;
        send = send.ready().await.map_err(told)?;
    }
    let request = Request::builder()
        .method(Method::CONNECT)
        .uri(format!("http://{host}/tunnel"))
        .version(Version::HTTP_2)
        .extension(Protocol::from_static("websocket"))
        .body(())
        .map_err(|error| error.to_string())?;
    let (response, up) = send.send_request(request, false).map_err(told)?;
    let response = response.await.map_err(told)?;
    if !response.status().is_success() {
        return Err(format!("the switch is refused: {}", response.status()));
    }
    let down = response.into_body();
    let (near, far) = duplex(BUFFER_BYTES);
    let (reader, writer) = split(far);
    tokio::spawn(send_all(reader, up));
    // The connection ends with its last handle.
    tokio::spawn(receive_all(down, writer, send));
    Ok(near)
}

/// Sends what the user writes, within the windows of the server.
async fn send_all(mut reader: impl AsyncRead + Unpin, mut up: SendStream<Bytes>) {
    let mut buffer = vec![0; BUFFER_BYTES];
    // An error ends the stream, which the user finds out by reading.
    while let Ok(count @ 1..) = reader.read(&mut buffer).await {
        let mut rest = Bytes::copy_from_slice(buffer.get(..count).unwrap_or_default());
        while !rest.is_empty() {
            up.reserve_capacity(rest.len());
            let Some(Ok(capacity)) = poll_fn(|context| up.poll_capacity(context)).await else { return };
            let piece = rest.split_to(capacity.min(rest.len()));
            if up.send_data(piece, false).is_err() {
                return;
            }
        }
    }
    let _ = up.send_data(Bytes::new(), true);
}

/// Passes on what the server sends.
async fn receive_all(
    mut down: RecvStream,
    mut writer: impl AsyncWrite + Unpin,
    connection: SendRequest<Bytes>,
) {
    while let Some(Ok(octets)) = down.data().await {
        if writer.write_all(&octets).await.is_err() {
            return;
        }
        let _ = down.flow_control().release_capacity(octets.len());
    }
    let _ = writer.shutdown().await;
    drop(connection);
}
