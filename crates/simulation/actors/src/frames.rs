//! A client that breaks the rules of HTTP/2.
//!
//! Invariant: the edge refuses the request, ends its stream, or ends the connection, each within a
//! time limit.

use crate::exchange::{Ending, Reply};
use bytes::Bytes;
use h2::client::Builder;
use h2::ext::Protocol;
use http::{Method, Request, Version};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};

/// What a client sends first, and its empty SETTINGS.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// More PING frames than any use of a connection explains.
const PINGS: usize = 60_000;

/// A frame PING without its content.
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0";

/// More requests than a client may reset before they begin.
const RESETS: u32 = 300;

/// A breach of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breach {
    /// Bytes that are no frame.
    Garbage,
    /// A request on a stream that only a server may open.
    EvenStream,
    /// A flood of PING frames.
    Pings,
    /// Many requests, each reset at once.
    Resets,
    /// Two hosts.
    TwoHosts,
    /// A host beside another authority.
    OtherHost,
    /// A URL of another scheme.
    ForeignScheme,
    /// CONNECT, as to a forward proxy.
    Connect,
    /// A tunnel for a protocol that the edge does not know.
    OtherProtocol,
    /// A head beyond the limit.
    LongHead,
    /// A field that only HTTP/1 has.
    FieldOfHttp1,
    /// A length without content.
    LengthAlone,
}

impl Breach {
    /// All breaches.
    pub const ALL: [Self; 12] = [
        Self::Garbage,
        Self::EvenStream,
        Self::Pings,
        Self::Resets,
        Self::TwoHosts,
        Self::OtherHost,
        Self::ForeignScheme,
        Self::Connect,
        Self::OtherProtocol,
        Self::LongHead,
        Self::FieldOfHttp1,
        Self::LengthAlone,
    ];

    /// Commits it on a connection. The caller limits the time. The ending is `Closed` if there is
    /// no response.
    pub(crate) async fn commit<S>(self, stream: S, host: &str, path: &str) -> Reply
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if let Some(octets) = self.octets(host) {
            send_raw(stream, &octets).await;
            return Reply { ending: Ending::Closed, ..Reply::default() };
        }
        let status = match self.request(host, path) {
            Some(request) => status_of(stream, request).await,
            None => None,
        };
        let ending = if status.is_some() { Ending::Complete } else { Ending::Closed };
        Reply { ending, status, ..Reply::default() }
    }

    /// The bytes of a breach that no library would send.
    fn octets(self, host: &str) -> Option<Vec<u8>> {
        match self {
            Self::Garbage => Some([PREFACE, &[0xff; 64]].concat()),
            Self::EvenStream => Some([PREFACE, &withdrawn(host, 2)].concat()),
            Self::Pings => Some([PREFACE, &[PING, &[0; 8]].concat().repeat(PINGS)].concat()),
            Self::Resets => {
                let requests = (0..RESETS).flat_map(|number| withdrawn(host, 2 * number + 1));
                Some(PREFACE.iter().copied().chain(requests).collect())
            }
            _ => None,
        }
    }

    /// The request of a breach that the library sends.
    fn request(self, host: &str, path: &str) -> Option<Request<()>> {
        let url = format!("http://{host}{path}");
        let get = || Request::builder().version(Version::HTTP_2).uri(&url);
        let request = match self {
            Self::TwoHosts => get().header("host", host).header("host", "elsewhere.test"),
            Self::OtherHost => get().header("host", "elsewhere.test"),
            Self::ForeignScheme => get().uri(format!("ftp://{host}{path}")),
            Self::Connect => get().method(Method::CONNECT).uri(format!("{host}:443")),
            Self::OtherProtocol => {
                get().method(Method::CONNECT).extension(Protocol::from_static("connect-udp"))
            }
            Self::LongHead => get().header("x-long", "x".repeat(200_000)),
            Self::FieldOfHttp1 => get().header("upgrade", "h2c"),
            Self::LengthAlone => get().method(Method::POST).header("content-length", "3"),
            _ => return None,
        };
        request.body(()).ok()
    }
}

/// A request with HEADERS, and the RST_STREAM that withdraws it. The fields are those of the static
/// table (RFC 7541 appendix A) and the authority.
fn withdrawn(host: &str, stream: u32) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x84, 0x01, host.len() as u8];
    block.extend_from_slice(host.as_bytes());
    let mut octets = vec![0, 0, block.len() as u8, 1, 5];
    octets.extend_from_slice(&stream.to_be_bytes());
    octets.append(&mut block);
    octets.extend_from_slice(&[0, 0, 4, 3, 0]);
    octets.extend_from_slice(&stream.to_be_bytes());
    octets.extend_from_slice(&[0, 0, 0, 8]);
    octets
}

/// Sends bytes and reads until the edge ends the connection.
async fn send_raw(stream: impl AsyncRead + AsyncWrite, octets: &[u8]) {
    let (mut reader, mut writer) = split(stream);
    let mut buffer = [0; 4096];
    let read = async { while let Ok(1..) = reader.read(&mut buffer).await {} };
    let write = async {
        // The edge may end the connection before it has everything.
        if writer.write_all(octets).await.is_ok() {
            let _ = writer.flush().await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        // The order is fixed because polls move bytes: a run must not depend on chance.
        biased;
        () = read => {}
        () = write => {}
    }
}

/// The status of the response to a request. `None`: the stream or the connection is ended.
async fn status_of<S>(stream: S, request: Request<()>) -> Option<u16>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (send, connection) = Builder::new().handshake::<_, Bytes>(stream).await.ok()?;
    let driver = tokio::spawn(async move {
        // The stream reports what becomes of it.
        let _ = connection.await;
    });
    let mut send = send.ready().await.ok()?;
    while request.extensions().get::<Protocol>().is_some() && !send.is_extended_connect_protocol_enabled() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        send = send.ready().await.ok()?;
    }
    let response = send.send_request(request, true).ok()?.0.await;
    driver.abort();
    response.ok().map(|response| response.status().as_u16())
}
