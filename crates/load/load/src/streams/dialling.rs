//! Establishes a connection for several requests: TCP, TLS if the target uses it, and the HTTP/2
//! preface if that is spoken.
//!
//! Invariant: over TLS the server must have chosen `h2` (RFC 9113 section 3.2); servers without TLS
//! are assumed to speak it (section 3.3). The windows are as wide as a browser's, so that they do
//! not limit the measurement.

use super::socket::{Counted, Socket, Wire};
use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use net::{TlsError, agreed_terms};
use record::Protocol;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use tls_terms::TlsAgreement;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{Error, HandshakeKind};

/// The flow-control window of an HTTP/2 stream that this side grants, in bytes: the same as
/// Chromium's.
pub const STREAM_WINDOW_BYTES: u32 = 6 * 1024 * 1024;

/// The flow-control window of an HTTP/2 connection that this side grants, in bytes: the same as
/// Chromium's.
pub const CONNECTION_WINDOW_BYTES: u32 = 15 * 1024 * 1024;

/// The TLS connector, and the name that the server must prove.
pub(super) type Securing = (TlsConnector, ServerName<'static>);

/// An established connection.
pub(super) struct Made {
    pub(super) protocol: Spoken,
    pub(super) secured: Option<Secured>,
}

/// The result of a TLS handshake.
pub(super) struct Secured {
    /// Whether an earlier session was resumed.
    pub(super) is_resumed: bool,
    pub(super) agreement: Option<TlsAgreement>,
}

/// The protocol of a connection.
pub(super) enum Spoken {
    /// HTTP/2: a handle that sends requests, and the connection, which moves bytes while it is
    /// polled.
    H2(SendRequest<Bytes>, Box<Connection<Counted, Bytes>>),
    /// HTTP/1.
    Http1(Box<Counted>),
}

/// Why a connection could not be established.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("{0}")]
    Tcp(io::Error),
    #[error(transparent)]
    Tls(TlsError),
    #[error("the server does not speak HTTP/2: {0}")]
    Protocol(String),
}

/// Establishes a connection on a socket that has begun to connect.
pub(super) async fn make(
    socket: Socket,
    securing: Option<Securing>,
    http: Protocol,
) -> Result<Made, ConnectError> {
    let octets = Arc::clone(&socket.octets);
    poll_fn(|_| socket.poll_established()).await.map_err(ConnectError::Tcp)?;
    octets.establish();
    let (wire, secured) = match securing {
        None => (Wire::Plain(socket), None),
        Some((connector, name)) => secure(socket, connector, name, http).await?,
    };
    let counted = Counted { wire, octets };
    if http != Protocol::H2 {
        return Ok(Made { protocol: Spoken::Http1(Box::new(counted)), secured });
    }
    let mut builder = Builder::new();
    builder.enable_push(false);
    builder.initial_window_size(STREAM_WINDOW_BYTES).initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    let made = builder.handshake(counted).await;
    let (sender, connection) = made.map_err(|error| ConnectError::Protocol(error.to_string()))?;
    Ok(Made { protocol: Spoken::H2(sender, Box::new(connection)), secured })
}

async fn secure(
    socket: Socket,
    connector: TlsConnector,
    name: ServerName<'static>,
    http: Protocol,
) -> Result<(Wire, Option<Secured>), ConnectError> {
    let host = name.to_str().into_owned();
    let stream = connector.connect(name, socket).await;
    let stream = stream.map_err(|error| match refused(&error, &host) {
        TlsError::NoProtocol if http == Protocol::H2 => not_chosen(),
        error => ConnectError::Tls(error),
    })?;
    let (_, session) = stream.get_ref();
    if http == Protocol::H2 && session.alpn_protocol() != Some(b"h2") {
        return Err(not_chosen());
    }
    let is_resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
    let secured = Secured { is_resumed, agreement: agreed_terms(session) };
    Ok((Wire::Secured(Box::new(stream)), Some(secured)))
}

fn not_chosen() -> ConnectError {
    ConnectError::Protocol("it did not choose h2 in the TLS handshake".to_owned())
}

fn refused(error: &io::Error, host: &str) -> TlsError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    inner.map_or_else(|| TlsError::Broken(error.kind()), |inner| TlsError::of(inner, host))
}
