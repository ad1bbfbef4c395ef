//! Sends one request on a new connection, and reads the whole response.
//!
//! Invariant: a response is complete, or the result is an error. Each wait for the server is
//! limited; the size of a response is not, because tasks request pages of servers that they have
//! started.

use anyhow::{Context as _, Result};
use bytes::BytesMut;
use h1::client::{Exchange, ResponseEvent, Terms};
use message::{Method, ResponseHead, Status};
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Size of the read buffer, in bytes.
const READ_BYTES: usize = 64 * 1024;

/// A complete response.
#[derive(Debug)]
pub(crate) struct CompleteResponse {
    pub(crate) head: ResponseHead,
    /// Without transfer coding.
    pub(crate) content: Vec<u8>,
}

/// Sends `request`, a whole request whose method is neither HEAD nor CONNECT.
///
/// # Errors
/// If the server does not answer completely, or a wait for it exceeds `timeout`.
pub(crate) fn ask(address: SocketAddr, request: &str, timeout: Duration) -> Result<CompleteResponse> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(request.as_bytes())?;
    read(&mut stream).with_context(|| format!("{address} does not answer"))
}

/// Whether the server answers `request` with status 200, as for [`ask`].
pub(crate) fn is_ok(address: SocketAddr, request: &str, timeout: Duration) -> bool {
    ask(address, request, timeout).is_ok_and(|answer| answer.head.status == Status::OK)
}

fn read(stream: &mut impl Read) -> Result<CompleteResponse> {
    let mut exchange = Exchange::new(&Method::Get, Terms::TOLERANT);
    let (mut input, mut piece) = (BytesMut::new(), vec![0; READ_BYTES]);
    let (mut head, mut content) = (None, Vec::new());
    loop {
        match exchange.next(&mut input)? {
            Some(ResponseEvent::Informational(_)) => {}
            Some(ResponseEvent::Head(response)) => head = Some(response.head),
            Some(ResponseEvent::Data(octets)) => content.extend_from_slice(&octets),
            Some(ResponseEvent::End(_)) => break,
            None => match stream.read(&mut piece)? {
                0 => {
                    exchange.close()?;
                    break;
                }
                bytes => input.extend_from_slice(piece.get(..bytes).unwrap_or_default()),
            },
        }
    }
    Ok(CompleteResponse { head: head.context("no response")?, content })
}

#[cfg(test)]
mod tests {
    use super::{CompleteResponse, read};

    fn answer(mut octets: &[u8]) -> Option<CompleteResponse> {
        read(&mut octets).ok()
    }

    #[test]
    fn only_a_complete_response_is_an_answer() {
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        assert_eq!(answer(chunked).unwrap().content, b"abc");
        assert!(answer(&chunked[..chunked.len() - 1]).is_none());
        let until_close = answer(b"HTTP/1.0 404 No\r\n\r\nab").unwrap();
        assert_eq!((until_close.head.status.code(), &until_close.content[..]), (404, &b"ab"[..]));
        assert!(answer(b"").is_none());
    }
}
