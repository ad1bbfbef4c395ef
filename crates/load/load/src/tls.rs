//! TLS for HTTP/1 connections, on bytes. The connection owns the socket.
//!
//! Invariant: plaintext is passed on only after the server's name was verified, unless the plan
//! switches that off. A session keeps at most one record of 16 kB in each direction, so a
//! connection with TLS takes at most 64 kB. Sessions are resumed on the next connection, as in
//! browsers; each thread has its own cache.

use address::HttpUrl;
use net::{TlsClient, TlsError, agreed_terms};
use record::{Plan, Protocol, TlsOptions};
use std::sync::{Arc, OnceLock};
use tls_terms::TlsAgreement;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::{Resumption, UnbufferedClientConnection};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use tokio_rustls::rustls::{ClientConfig, Error, HandshakeKind};

/// The most plaintext bytes in one record (RFC 8446 section 5.1).
pub(crate) const RECORD_BYTES_MAX: usize = 16 * 1024;

/// The size of a thread's cache of TLS sessions.
const SESSIONS_MAX: usize = 256;

/// TLS state that all connections of a thread share. Created once for a run, and again for each
/// thread.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    is_resuming: bool,
    /// The server names by URL; `None` for URLs without TLS.
    names: Vec<Option<ServerName<'static>>>,
    /// The parameters that the run's first TLS connection negotiated, shared by all threads.
    agreement: Arc<OnceLock<TlsAgreement>>,
}

impl Tls {
    /// The configuration for the plan's URLs; `None` if none of them uses TLS. Reads certificates.
    ///
    /// # Errors
    /// If no certificate authorities can be loaded, or a host name cannot be in a certificate.
    pub(crate) fn of(plan: &Plan) -> Result<Option<Self>, TlsError> {
        let mut targets: Vec<&HttpUrl> = plan.targets.iter().map(|weighted| &weighted.target).collect();
        if targets.is_empty() {
            targets.push(&plan.target);
        }
        if !targets.iter().any(|target| target.is_https()) {
            return Ok(None);
        }
        let name = |target: &&HttpUrl| -> Result<_, TlsError> {
            let host = plan.tls.name.clone().unwrap_or_else(|| target.host());
            let name = target.is_https().then(|| ServerName::try_from(host.clone()));
            name.transpose().map_err(|_| TlsError::Name(host))
        };
        let names = targets.iter().map(name).collect::<Result<_, _>>()?;
        let TlsOptions { is_verified, ca_file, server_name, is_resumed, terms, .. } = &plan.tls;
        let client = TlsClient::on_terms(*is_verified, ca_file.as_deref(), terms)?;
        let mut config = ClientConfig::clone(client.config());
        config.enable_sni = *server_name;
        if plan.http == Protocol::H2 {
            config.alpn_protocols = vec![b"h2".to_vec()];
        }
        let agreement = Arc::default();
        Ok(Some(Self { config: Arc::new(config), is_resuming: *is_resumed, names, agreement }))
    }

    /// The same configuration with its own session cache.
    pub(crate) fn for_thread(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = if self.is_resuming {
            Resumption::in_memory_sessions(SESSIONS_MAX)
        } else {
            Resumption::disabled()
        };
        Self { config: Arc::new(config), ..self.clone() }
    }

    /// The parameters that the first TLS connection negotiated.
    pub(crate) fn agreement(&self) -> Option<&TlsAgreement> {
        self.agreement.get()
    }

    /// Records the negotiated parameters of a connection, if it is the first.
    pub(crate) fn note_agreement(&self, agreed: impl FnOnce() -> Option<TlsAgreement>) {
        if self.agreement.get().is_none()
            && let Some(agreement) = agreed()
        {
            // Another thread may have been faster; its value is kept.
            let _ = self.agreement.set(agreement);
        }
    }

    /// The name that the server of this URL must prove.
    pub(crate) fn host(&self, url: u32) -> String {
        let name = self.names.get(url as usize).and_then(Option::as_ref);
        name.map_or_else(String::new, |name| name.to_str().into_owned())
    }

    /// A TLS connector for async streams, and the name that the server of this URL must prove.
    pub(crate) fn connector(&self, url: u32) -> Option<(TlsConnector, ServerName<'static>)> {
        let name = self.names.get(url as usize)?.clone()?;
        Some((TlsConnector::from(Arc::clone(&self.config)), name))
    }

    /// A session for a connection to this URL; `None` if the URL does not use TLS.
    pub(crate) fn session(&self, url: u32) -> Option<Box<TlsSession>> {
        let name = self.names.get(url as usize)?.clone()?;
        Some(Box::new(TlsSession {
            connection: UnbufferedClientConnection::new(Arc::clone(&self.config), name),
            partial: Vec::new(),
            outgoing: Vec::new(),
            sent_bytes: 0,
            is_secured: false,
            is_closed: false,
        }))
    }
}

/// This side of one TLS connection.
pub(crate) struct TlsSession {
    /// An error if the library could not create it.
    connection: Result<UnbufferedClientConnection, Error>,
    /// The beginning of a record whose end has not arrived.
    partial: Vec<u8>,
    /// Records to send.
    outgoing: Vec<u8>,
    /// How many bytes of `outgoing` are sent.
    sent_bytes: usize,
    is_secured: bool,
    is_closed: bool,
}

impl TlsSession {
    /// Whether the handshake is done and requests can be sent.
    pub(crate) fn is_secured(&self) -> bool {
        self.is_secured
    }

    /// Whether an earlier session was resumed.
    pub(crate) fn is_resumed(&self) -> bool {
        let kind = self.connection.as_ref().ok().and_then(|connection| connection.handshake_kind());
        kind == Some(HandshakeKind::Resumed)
    }

    /// The negotiated parameters, once the handshake is done.
    pub(crate) fn agreement(&self) -> Option<TlsAgreement> {
        self.connection.as_ref().ok().and_then(|connection| agreed_terms(connection))
    }

    /// Whether the server has sent a closing alert.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The bytes to send next; may be empty.
    pub(crate) fn to_send(&self) -> &[u8] {
        self.outgoing.get(self.sent_bytes..).unwrap_or_default()
    }

    /// Records that this number of bytes of [`TlsSession::to_send`] are sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        if self.to_send().is_empty() {
            self.outgoing.clear();
            self.sent_bytes = 0;
        }
    }

    /// Copies an incomplete record to the front of a buffer, which must be longer than a record.
    /// Returns its length; newly received bytes belong after it.
    pub(crate) fn restore(&self, buffer: &mut [u8]) -> usize {
        match buffer.get_mut(..self.partial.len()) {
            Some(front) => {
                front.copy_from_slice(&self.partial);
                self.partial.len()
            }
            None => 0,
        }
    }

    /// Processes received bytes and passes the plaintext to `plain`. With empty input it begins the
    /// handshake.
    ///
    /// # Errors
    /// The library's error if the server's name is not verified or it violates the protocol; the
    /// session is then over.
    pub(crate) fn receive(&mut self, octets: &mut [u8], mut plain: impl FnMut(&[u8])) -> Result<(), Error> {
        let Self { connection, outgoing, .. } = self;
        let connection = connection.as_mut().map_err(|error| error.clone())?;
        let mut consumed = 0;
        loop {
            let rest = octets.get_mut(consumed..).unwrap_or_default();
            let UnbufferedStatus { mut discard, state } = connection.process_tls_records(rest);
            let is_waiting = match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        plain(record.payload);
                    }
                    false
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    append(outgoing, |room| match data.encode(room) {
                        Err(EncodeError::InsufficientSize(needed)) => Err(needed),
                        written => Ok(written.unwrap_or(0)),
                    });
                    false
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    false
                }
                ConnectionState::WriteTraffic(_) => {
                    self.is_secured = true;
                    true
                }
                ConnectionState::PeerClosed => {
                    self.is_closed = true;
                    false
                }
                _ => true,
            };
            consumed += discard;
            if is_waiting {
                break;
            }
        }
        self.partial.clear();
        self.partial.extend_from_slice(octets.get(consumed..).unwrap_or_default());
        Ok(())
    }

    /// Encrypts plaintext, at most [`RECORD_BYTES_MAX`] bytes, into records to send.
    ///
    /// # Errors
    /// If the session is over or the handshake is not done.
    pub(crate) fn send(&mut self, octets: &[u8]) -> Result<(), Error> {
        let Self { connection, outgoing, partial, .. } = self;
        let connection = connection.as_mut().map_err(|error| error.clone())?;
        let UnbufferedStatus { discard, state } = connection.process_tls_records(partial);
        let ConnectionState::WriteTraffic(mut traffic) = state? else {
            return Err(Error::HandshakeNotComplete);
        };
        let mut refused = None;
        append(outgoing, |room| match traffic.encrypt(octets, room) {
            Err(EncryptError::InsufficientSize(needed)) => Err(needed),
            Err(EncryptError::EncryptExhausted) => {
                refused = Some(Error::EncryptError);
                Ok(0)
            }
            Ok(written) => Ok(written),
        });
        partial.drain(..discard.min(partial.len()));
        refused.map_or(Ok(()), Err)
    }
}

/// Appends the output of `write`, with as much room as `write` asks for.
fn append(outgoing: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> Result<usize, InsufficientSizeError>) {
    let begin = outgoing.len();
    let mut written = write(&mut []);
    if let Err(needed) = written {
        outgoing.resize(begin + needed.required_size, 0);
        written = write(outgoing.get_mut(begin..).unwrap_or_default());
    }
    outgoing.truncate(begin + written.unwrap_or(0));
}

impl std::fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsSession").field("is_secured", &self.is_secured).finish_non_exhaustive()
    }
}
