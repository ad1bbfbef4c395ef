//! Establishes a connection for several requests: TCP, and TLS if the target uses it.
//!
//! Invariant: over TLS the server must have chosen `h2` (RFC 9113 section 3.2) if HTTP/2 is to be
//! spoken; servers without TLS are assumed to speak it (section 3.3).

use super::socket::{CountedSocket, Socket, Wire};
use crate::shared::connect_failure_kind;
use net::{TlsError, agreed_terms};
use record::FailureKind;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use tls_terms::TlsAgreement;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::HandshakeKind;
use tokio_rustls::rustls::pki_types::ServerName;

/// The TLS connector, and the name that the server must prove.
pub(super) type Securing = (TlsConnector, ServerName<'static>);

/// The result of a TLS handshake.
pub(super) struct HandshakeResult {
    /// Whether an earlier session was resumed.
    pub(super) is_resumed: bool,
    pub(super) agreement: Option<TlsAgreement>,
}

/// Why a connection could not be established.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("{0}")]
    Tcp(io::Error),
    #[error(transparent)]
    Tls(TlsError),
    /// The system's error during the TLS handshake.
    #[error("{0}")]
    Handshake(io::Error),
    #[error("the server does not speak HTTP/2: {0}")]
    Protocol(String),
}

impl ConnectError {
    /// The kind of the requests' failure; `None` if a limit of the process was reached.
    pub(crate) fn kind(&self) -> Option<FailureKind> {
        match self {
            Self::Tcp(error) => connect_failure_kind(error),
            Self::Tls(_) | Self::Handshake(_) | Self::Protocol(_) => Some(FailureKind::Tls),
        }
    }
}

/// Establishes a connection on a socket that has begun to connect.
pub(super) async fn establish(
    socket: Socket,
    securing: Option<Securing>,
    is_http2: bool,
) -> Result<(CountedSocket, Option<HandshakeResult>), ConnectError> {
    let octets = Arc::clone(&socket.octets);
    poll_fn(|_| socket.poll_established()).await.map_err(ConnectError::Tcp)?;
    octets.establish();
    let (wire, secured) = match securing {
        None => (Wire::Plain(socket), None),
        Some((connector, name)) => secure(socket, connector, name, is_http2).await?,
    };
    Ok((CountedSocket { wire, octets }, secured))
}

async fn secure(
    socket: Socket,
    connector: TlsConnector,
    name: ServerName<'static>,
    is_http2: bool,
) -> Result<(Wire, Option<HandshakeResult>), ConnectError> {
    let host = name.to_str().into_owned();
    let stream = connector.connect(name, socket).await;
    let stream = stream.map_err(|error| match TlsError::handshake(&error, &host) {
        TlsError::NoProtocol if is_http2 => not_chosen(),
        error => ConnectError::Tls(error),
    })?;
    let (_, session) = stream.get_ref();
    if is_http2 && session.alpn_protocol() != Some(b"h2") {
        return Err(not_chosen());
    }
    let is_resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
    let secured = HandshakeResult { is_resumed, agreement: agreed_terms(session) };
    Ok((Wire::Secured(Box::new(stream)), Some(secured)))
}

fn not_chosen() -> ConnectError {
    ConnectError::Protocol("it did not choose h2 in the TLS handshake".to_owned())
}
