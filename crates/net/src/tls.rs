//! TLS for connections that Petasos opens: the client's half, with certificates verified against the trust
//! store of the system.
//!
//! Invariant: octets are exchanged only after the peer has proven that it is the name it was asked by, unless
//! the caller took [`TlsClient::insecure`], which says so. The protocol spoken inside is HTTP/1.1, the only one
//! offered (RFC 7301). Servers' certificates, renewal and listeners are not this file's business.

use crate::Stream;
use rustls_native_certs::CertificateResult;
use std::fmt;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error,
    RootCertStore, SignatureScheme, WantsVerifier,
};

/// What the client half offers inside TLS (RFC 7301): HTTP/1.1 and nothing else.
const ALPN_HTTP_1_1: &[u8] = b"http/1.1";

/// How connections are secured. Cheap to clone.
#[derive(Clone)]
pub struct TlsClient {
    connector: TlsConnector,
    verifies: bool,
}

/// A connection with TLS on it. What ends without the closing message of TLS ends in
/// [`io::ErrorKind::UnexpectedEof`].
#[derive(Debug)]
pub struct TlsStream(tokio_rustls::client::TlsStream<Stream>);

/// Why there is no secure connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The trust store is empty or unreadable, so no certificate could ever be verified.
    #[error(
        "the system has no certificates of authorities to verify the server's by{}; \
         install them (Debian: ca-certificates), or name a file in SSL_CERT_FILE", because(.0)
    )]
    NoAuthorities(Vec<String>),
    /// The host is neither a name nor an IP address that a certificate could be for.
    #[error("`{0}` is no host name that a certificate could be for")]
    Name(String),
    /// The certificate's time is over.
    #[error("the server's certificate has expired")]
    Expired,
    /// The certificate's time has not begun, or the clock of this machine is behind.
    #[error("the server's certificate is not valid yet; compare this machine's clock")]
    NotValidYet,
    /// The certificate is somebody else's.
    #[error("the server's certificate is not for `{0}`")]
    OtherName(String),
    /// Nobody whom the system trusts has signed the certificate, or the server left out one between.
    #[error(
        "no authority that this system trusts has signed the server's certificate, \
         or the server does not send the certificates in between"
    )]
    UnknownAuthority,
    /// The certificate is not good for another reason.
    #[error("the server's certificate is not good: {0}")]
    Certificate(String),
    /// Both sides have no version, cipher or protocol in common, or the server refused for its own reason.
    #[error("the server refused the secure connection: {0}")]
    Refused(String),
    /// What came is no TLS; most often a server that speaks plain HTTP at this port.
    #[error("the server does not speak TLS at this port")]
    NotTls,
    /// The connection ended or broke during the handshake.
    #[error("the connection broke during the TLS handshake: {0}")]
    Broken(io::ErrorKind),
    /// Anything else the library says.
    #[error("TLS failed: {0}")]
    Other(String),
}

impl TlsClient {
    /// Verifies servers by the certificates of authorities that the system trusts. `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR` name others, as they do for most programs. Reads files: do it once.
    ///
    /// # Errors
    /// [`TlsError::NoAuthorities`].
    pub fn with_system_authorities() -> Result<Self, TlsError> {
        Self::verifying(rustls_native_certs::load_native_certs())
    }

    /// Verifies servers by the certificates of authorities in this PEM file, and by no others.
    ///
    /// # Errors
    /// [`TlsError::NoAuthorities`].
    pub fn with_authorities_in(file: &Path) -> Result<Self, TlsError> {
        Self::verifying(rustls_native_certs::load_certs_from_paths(Some(file), None))
    }

    /// Believes every server to be who it says it is. Whoever is in the way can read and change everything: only
    /// for trying things out, and the user must have asked for it.
    ///
    /// # Errors
    /// As the library reports them; none in practice.
    pub fn insecure() -> Result<Self, TlsError> {
        let algorithms = provider().signature_verification_algorithms;
        let config = builder()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified { algorithms }))
            .with_no_client_auth();
        Ok(Self::new(config, false))
    }

    /// Whether servers are verified.
    pub fn verifies(&self) -> bool {
        self.verifies
    }

    /// Secures a fresh connection to the server called `host`: a name or an IP address, without brackets.
    ///
    /// # Errors
    /// See [`TlsError`]; the connection is closed then.
    pub async fn secure(&self, stream: Stream, host: &str) -> Result<TlsStream, TlsError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name(host.to_owned()))?;
        let secured = self.connector.connect(name, stream).await;
        secured.map(TlsStream).map_err(|error| TlsError::handshake(&error, host))
    }

    fn verifying(loaded: CertificateResult) -> Result<Self, TlsError> {
        let mut authorities = RootCertStore::empty();
        // A store may hold certificates that are too old to be understood; the others count.
        let (added, _) = authorities.add_parsable_certificates(loaded.certs);
        if added == 0 {
            let errors = loaded.errors.iter().map(ToString::to_string).collect();
            return Err(TlsError::NoAuthorities(errors));
        }
        let config = builder()?.with_root_certificates(authorities).with_no_client_auth();
        Ok(Self::new(config, true))
    }

    fn new(mut config: ClientConfig, verifies: bool) -> Self {
        config.alpn_protocols = vec![ALPN_HTTP_1_1.to_vec()];
        Self { connector: TlsConnector::from(Arc::new(config)), verifies }
    }
}

impl TlsError {
    /// Names what made a handshake fail.
    fn handshake(error: &io::Error, host: &str) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        match inner {
            Some(Error::InvalidCertificate(error)) => Self::certificate(error, host),
            Some(Error::InvalidMessage(_)) => Self::NotTls,
            Some(Error::AlertReceived(alert)) => Self::Refused(alert_text(*alert)),
            Some(Error::PeerIncompatible(reason)) => Self::Refused(format!("{reason:?}")),
            Some(other) => Self::Other(other.to_string()),
            None => Self::Broken(error.kind()),
        }
    }

    fn certificate(error: &CertificateError, host: &str) -> Self {
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotValidYet,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::OtherName(host.to_owned())
            }
            CertificateError::UnknownIssuer => Self::UnknownAuthority,
            other => Self::Certificate(other.to_string()),
        }
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("verifies", &self.verifies).finish_non_exhaustive()
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(context, buffer)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(context, octets)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(context)
    }
}

/// Takes every certificate, but still checks that the peer has its key: a connection that is not what it
/// claims at that level is broken, not merely unknown.
#[derive(Debug)]
struct Unverified {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The cryptography, named here and nowhere else, so that no crate's default can choose another.
fn provider() -> CryptoProvider {
    aws_lc_rs::default_provider()
}

/// The versions of TLS that are spoken: 1.3 and 1.2.
fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, TlsError> {
    ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Other(error.to_string()))
}

/// What a server's last word means, in words.
fn alert_text(alert: AlertDescription) -> String {
    let meaning = match alert {
        AlertDescription::UnrecognisedName => "it has no site of this name",
        AlertDescription::ProtocolVersion => "it speaks neither TLS 1.2 nor 1.3",
        AlertDescription::NoApplicationProtocol => "it does not speak HTTP/1.1 inside TLS",
        AlertDescription::HandshakeFailure => "it has no cipher in common with us",
        AlertDescription::CertificateRequired => "it asks for a certificate of the client",
        _ => return format!("its alert is {alert:?}"),
    };
    meaning.to_owned()
}

/// What the system said about its trust store, for the message.
fn because(errors: &[String]) -> String {
    errors.first().map_or_else(String::new, |first| format!(" ({first})"))
}

#[cfg(test)]
mod tests {
    use super::{TlsClient, TlsError};
    use crate::{Address, Stream};
    use std::io::ErrorKind;
    use testkit::{Certificate, Origin, TlsFront, response};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// What comes back through TLS from a server with this certificate that is asked for as `host`.
    async fn ask(
        front: &TlsFront,
        client: Result<TlsClient, TlsError>,
        host: &str,
    ) -> Result<String, TlsError> {
        let stream = Stream::connect(&Address::from(front.address)).await.unwrap();
        let mut stream = client?.secure(stream, host).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        stream.flush().await.unwrap();
        let mut octets = vec![0; 42];
        stream.read_exact(&mut octets).await.unwrap();
        Ok(String::from_utf8(octets).unwrap())
    }

    fn origin() -> Origin {
        Origin::start(|_| response("200 OK", &[], b"safe"))
    }

    /// A client that believes the server's authority.
    fn believing(front: &TlsFront) -> Result<TlsClient, TlsError> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("authority.pem");
        std::fs::write(&file, &front.authority_pem).unwrap();
        TlsClient::with_authorities_in(&file)
    }

    #[tokio::test]
    async fn a_server_that_proves_its_name_is_talked_to() {
        let origin = origin();
        let front = TlsFront::start(origin.address(), Certificate::Good);
        for host in ["localhost", "127.0.0.1"] {
            let answer = ask(&front, believing(&front), host).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("safe"), "{answer}");
        }
    }

    #[tokio::test]
    async fn every_fault_of_a_certificate_is_found_and_named() {
        let origin = origin();
        for (certificate, host, expected) in [
            (Certificate::Expired, "localhost", TlsError::Expired),
            (Certificate::NotYet, "localhost", TlsError::NotValidYet),
            (Certificate::OtherName, "localhost", TlsError::OtherName("localhost".to_owned())),
            (Certificate::Good, "a b", TlsError::Name("a b".to_owned())),
        ] {
            let front = TlsFront::start(origin.address(), certificate);
            assert_eq!(ask(&front, believing(&front), host).await, Err(expected));
        }
        let front = TlsFront::start(origin.address(), Certificate::Good);
        let stranger = TlsFront::start(origin.address(), Certificate::Good);
        let unknown = ask(&front, believing(&stranger), "localhost").await;
        assert_eq!(unknown, Err(TlsError::UnknownAuthority));
        assert!(origin.seen().is_empty(), "a request went to a server that was not verified");
    }

    #[tokio::test]
    async fn only_who_asks_for_it_talks_to_an_unverified_server() {
        let origin = origin();
        let front = TlsFront::start(origin.address(), Certificate::OtherName);
        let client = TlsClient::insecure().unwrap();
        assert!(!client.verifies() && believing(&front).unwrap().verifies());
        assert!(ask(&front, Ok(client), "localhost").await.is_ok());
    }

    #[tokio::test]
    async fn a_server_without_tls_is_told_from_a_bad_certificate() {
        let origin = Origin::start(|_| Vec::new());
        let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = plain.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = plain.accept().unwrap();
            std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
            let mut rest = Vec::new();
            let _ = std::io::Read::read_to_end(&mut stream, &mut rest);
        });
        let mut front = TlsFront::start(origin.address(), Certificate::Good);
        front.address = address;
        assert_eq!(ask(&front, TlsClient::insecure(), "localhost").await, Err(TlsError::NotTls));
    }

    #[tokio::test]
    async fn a_connection_that_breaks_off_is_named_as_such() {
        let closing = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = origin();
        let mut front = TlsFront::start(origin.address(), Certificate::Good);
        front.address = closing.local_addr().unwrap();
        std::thread::spawn(move || drop(closing.accept().unwrap()));
        let Err(TlsError::Broken(kind)) = ask(&front, TlsClient::insecure(), "localhost").await else {
            panic!("the handshake cannot have been completed")
        };
        assert!(matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{kind}");
    }

    #[test]
    fn a_trust_store_without_certificates_is_an_error_that_says_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("none.pem");
        let error = TlsClient::with_authorities_in(&file).unwrap_err().to_string();
        assert!(error.contains("none.pem") && error.contains("ca-certificates"), "{error}");
        std::fs::write(&file, "nothing").unwrap();
        assert!(matches!(TlsClient::with_authorities_in(&file), Err(TlsError::NoAuthorities(_))));
    }
}
