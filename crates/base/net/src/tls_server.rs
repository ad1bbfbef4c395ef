//! TLS for connections that Petasos accepts: the server side.
//!
//! Invariant: a connection leaves the handshake secured or closed. The only exception is a client
//! that sent plain text: the caller gets its connection back to say so.

use crate::Stream;
use crate::certificates::{ACME_TLS, CertificateError, Certificates, read_chain};
use crate::tls_provider::provider;
use crate::tls_session::{BUFFER_BYTES, limit};
use rustix::net::RecvFlags;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tls_terms::TlsVersion;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{Error, RootCertStore, ServerConfig};

/// The first byte of every TLS handshake: the type of its records (RFC 8446 section 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// Bytes of a first record that are awaited before a session begins. Usual ones are below 2,000
/// bytes, and a larger one may not fit into the socket's buffer.
const HELLO_BYTES_MAX: u64 = 4 * 1024;

/// The settings of a TLS listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsServerTerms {
    /// The oldest version that clients may use.
    pub version_min: TlsVersion,
    /// The application protocols, in the order of preference (RFC 7301).
    pub protocols: Vec<&'static [u8]>,
    /// The PEM file with the authorities of client certificates. Each client must then have a
    /// certificate from one of them. `None`: clients need none.
    pub client_authorities: Option<PathBuf>,
}

/// Secures the connections of a listener. Cheap to clone.
#[derive(Clone)]
pub struct TlsServer {
    acceptor: TlsAcceptor,
    certificates: Arc<Certificates>,
}

/// Why a TLS listener cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsServerError {
    /// An error of the TLS library.
    #[error("TLS cannot be set up: {0}")]
    Library(#[from] Error),
    /// The file with the authorities of clients cannot be read.
    #[error(transparent)]
    Authorities(#[from] CertificateError),
    /// A certificate in that file cannot be an authority.
    #[error("{} holds a certificate that cannot be an authority of clients: {reason}", file.display())]
    Authority {
        /// The file.
        file: PathBuf,
        /// The fault of the certificate.
        reason: String,
    },
}

/// Why a client's connection could not be secured.
#[derive(Debug)]
pub enum HandshakeError {
    /// A TCP client sent something else than TLS, most often a plain HTTP request. The connection
    /// can still be written to.
    NotTls(Box<Stream>),
    /// The client closed the connection, or it broke.
    Broken,
    /// Both sides have no version, cipher or certificate in common, or the client broke the
    /// protocol. The text says which.
    Refused(String),
    /// The client was an authority that validates a name. It has seen the certificate for that, and
    /// the connection is closed (RFC 8737 section 3).
    Validated,
}

impl TlsServer {
    /// Serves these certificates on these terms. Reads the file with authorities, so it blocks.
    ///
    /// Tickets for resuming sessions are encrypted with a key of this process, which changes every
    /// six hours. Clients with certificates receive none.
    ///
    /// # Errors
    /// [`TlsServerError`].
    pub fn new(certificates: Arc<Certificates>, terms: &TlsServerTerms) -> Result<Self, TlsServerError> {
        let versions = match terms.version_min {
            TlsVersion::Tls12 => &[&TLS13, &TLS12][..],
            TlsVersion::Tls13 => &[&TLS13][..],
        };
        let answers_challenges = certificates.answers_challenges();
        let builder =
            ServerConfig::builder_with_provider(Arc::new(provider())).with_protocol_versions(versions)?;
        let resolver = Arc::clone(&certificates);
        let builder = match &terms.client_authorities {
            None => builder.with_no_client_auth(),
            Some(file) => builder.with_client_cert_verifier(client_verifier(file)?),
        };
        let mut config = builder.with_cert_resolver(resolver);
        config.alpn_protocols = terms.protocols.iter().map(|name| name.to_vec()).collect();
        if answers_challenges {
            config.alpn_protocols.push(ACME_TLS.to_vec());
        }
        if terms.client_authorities.is_none() {
            config.ticketer = aws_lc_rs::Ticketer::new()?;
        } else {
            // A resumed session would be accepted after the client's certificate has expired.
            config.send_tls13_tickets = 0;
        }
        // Tickets do without memory for each client.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificates })
    }

    /// Whether a certificate that a client receives for the host `named` is also for `other`. An
    /// empty name means a client that named no host.
    pub fn is_for_both(&self, named: &str, other: &str) -> bool {
        self.certificates.are_shared(named, other)
    }

    /// Secures a connection that was just accepted. The caller limits the time.
    ///
    /// # Errors
    /// [`HandshakeError`].
    pub async fn secure(&self, stream: Stream) -> Result<Stream, HandshakeError> {
        if let Stream::Tcp(plain) = &stream {
            match await_hello(plain).await {
                Ok(true) => {}
                // The library would answer with an alert, which a plain client cannot read.
                Ok(false) => return Err(HandshakeError::NotTls(Box::new(stream))),
                Err(_) => return Err(HandshakeError::Broken),
            }
        }
        let secured = self.acceptor.accept_with(stream, |session| limit(session, BUFFER_BYTES));
        let mut secured = secured.await.map_err(|error| HandshakeError::of(&error))?;
        if secured.get_ref().1.alpn_protocol() == Some(ACME_TLS) {
            // The authority has its answer, so an error changes nothing.
            let _ = secured.shutdown().await;
            return Err(HandshakeError::Validated);
        }
        Ok(Stream::Tls(Box::new(secured)))
    }
}

impl std::fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsServer").finish_non_exhaustive()
    }
}

/// Accepts clients with a certificate from one of the authorities in a file; blocks.
fn client_verifier(file: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsServerError> {
    let unusable = |reason: String| TlsServerError::Authority { file: file.to_owned(), reason };
    let mut authorities = RootCertStore::empty();
    for certificate in read_chain(file)? {
        authorities.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    let provider = Arc::new(provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
    verifier.build().map_err(|error| unusable(error.to_string()))
}

/// Waits for the first record of a client, which stays in the socket. A client that sends only a
/// part of it costs no session. False if the client does not speak TLS.
///
/// # Errors
/// If the client closed the connection, or as the system reports them.
async fn await_hello(stream: &TcpStream) -> io::Result<bool> {
    loop {
        let is_closed = stream.ready(Interest::READABLE).await?.is_read_closed();
        match stream.try_io(Interest::READABLE, || has_hello(stream)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !is_closed => {}
            arrived => return arrived,
        }
    }
}

/// Whether the bytes in the socket begin with a whole record of a handshake; false if with anything
/// else.
///
/// # Errors
/// `WouldBlock` if more bytes are needed to know; otherwise as [`await_hello`].
fn has_hello(stream: &TcpStream) -> io::Result<bool> {
    let mut header = [0; 5];
    let (_, peeked) = rustix::net::recv(stream, &mut header, RecvFlags::PEEK)?;
    match (header, peeked) {
        (_, 0) => Err(io::ErrorKind::UnexpectedEof.into()),
        ([kind, ..], _) if kind != HANDSHAKE_RECORD => Ok(false),
        ([_, _, _, high, low], 5) => {
            let record_bytes = u64::from(u16::from_be_bytes([high, low])) + 5;
            if rustix::io::ioctl_fionread(stream)? >= record_bytes.min(HELLO_BYTES_MAX) {
                Ok(true)
            } else {
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
        _ => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl HandshakeError {
    fn of(error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(error) => Self::Refused(error.to_string()),
            None => Self::Broken,
        }
    }
}
