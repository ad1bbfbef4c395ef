//! TLS for connections that Petasos opens: the client side, with server certificates verified
//! against the system's trust store.
//!
//! Invariant: bytes are exchanged only after the peer has proven that it owns the requested name.
//! The exceptions are [`TlsClient::insecure`] and an unverified client from
//! [`TlsClient::on_terms`], which the caller must choose. One application protocol is offered (RFC
//! 7301): HTTP/1.1, or HTTP/2 if the caller wants it.

use crate::Stream;
use crate::tls_named::NamedCertificates;
use crate::tls_provider::provider;
use crate::tls_session::ClientTls;
use rustls_native_certs::CertificateResult;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tls_terms::{TlsSuites, TlsTerms, TlsVersion};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error,
    RootCertStore, SignatureScheme, WantsVerifier,
};

/// The protocol offered by ALPN (RFC 7301) for HTTP/1.1.
const ALPN_HTTP_1_1: &[u8] = b"http/1.1";

/// The protocol offered by ALPN for HTTP/2.
const ALPN_HTTP_2: &[u8] = b"h2";

/// The settings for secure connections. Cheap to clone.
#[derive(Clone)]
pub struct TlsClient {
    connector: TlsConnector,
    verifies: bool,
}

/// A connection secured by TLS. A connection that ends without TLS' closing message gives
/// [`io::ErrorKind::UnexpectedEof`].
#[derive(Debug)]
pub struct TlsStream(ClientTls);

/// Why a secure connection could not be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The trust store is empty or unreadable, so no certificate can be verified.
    #[error(
        "the system has no certificates of authorities to verify the server's by{}; \
         install them (Debian: ca-certificates), or name a file in SSL_CERT_FILE", because(.0)
    )]
    NoAuthorities(Vec<String>),
    /// The host is neither a host name nor an IP address, so no certificate can be for it.
    #[error("`{0}` is no host name that a certificate could be for")]
    Name(String),
    /// The client's own certificate cannot be used.
    #[error("{}: {reason}; it must hold the client's certificate and its private key as PEM", file.display())]
    Identity {
        /// The configured file.
        file: PathBuf,
        /// Why it cannot be used.
        reason: String,
    },
    /// No chosen cipher suite belongs to the chosen version.
    #[error("none of the cipher suites {suites} belongs to {}", version.name())]
    NoSuite {
        /// The version.
        version: TlsVersion,
        /// The suites.
        suites: TlsSuites,
    },
    /// The validity period of the certificate is over.
    #[error("the server's certificate has expired")]
    Expired,
    /// The validity period of the certificate has not started, or this machine's clock is slow.
    #[error("the server's certificate is not valid yet; compare this machine's clock")]
    NotValidYet,
    /// The certificate is for another name.
    #[error("the server's certificate is not for `{0}`")]
    OtherName(String),
    /// No authority that the system trusts has signed the certificate, or the server did not send
    /// an intermediate certificate.
    #[error(
        "no authority that this system trusts has signed the server's certificate, \
         or the server does not send the certificates in between"
    )]
    UnknownAuthority,
    /// The certificate is invalid for another reason.
    #[error("the server's certificate is not good: {0}")]
    Certificate(String),
    /// Both sides have no version or cipher in common, or the server refused for another reason.
    #[error("the server refused the secure connection: {0}")]
    Refused(String),
    /// The server supports none of the protocols offered by ALPN.
    #[error("the server refused the secure connection: it does not speak HTTP/1.1 inside TLS")]
    NoProtocol,
    /// The received bytes are not TLS. Most often the server expects plain HTTP at this port.
    #[error("the server does not speak TLS at this port")]
    NotTls,
    /// The connection ended or broke during the handshake.
    #[error("the connection broke during the TLS handshake: {0}")]
    Broken(io::ErrorKind),
    /// Any other error of the TLS library.
    #[error("TLS failed: {0}")]
    Other(String),
}

impl TlsClient {
    /// Verifies servers by the authorities that the system trusts. As in most programs,
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR` replace them. This reads files, so call it only once.
    ///
    /// # Errors
    /// [`TlsError::NoAuthorities`].
    pub fn with_system_authorities() -> Result<Self, TlsError> {
        Self::verifying(rustls_native_certs::load_native_certs(), &TlsTerms::default())
    }

    /// Verifies servers only by the certificates in this PEM file, which may be those of
    /// authorities or of servers.
    ///
    /// # Errors
    /// [`TlsError::NoAuthorities`].
    pub fn with_authorities_in(file: &Path) -> Result<Self, TlsError> {
        Self::verifying_by(file, &TlsTerms::default())
    }

    /// Accepts every certificate. An attacker on the network path can read and change everything,
    /// so this is only for trials that the user explicitly asked for.
    ///
    /// # Errors
    /// As the TLS library reports them; none in practice.
    pub fn insecure() -> Result<Self, TlsError> {
        Self::insecure_on(&TlsTerms::default())
    }

    /// Creates a client with these terms.
    ///
    /// If `is_verified` is false, servers are not verified. Otherwise they are verified by the
    /// certificates in the file `authorities`, or by the system's authorities without one. This
    /// reads files, so call it only once.
    ///
    /// # Errors
    /// [`TlsError::NoAuthorities`], [`TlsError::NoSuite`] and [`TlsError::Identity`].
    pub fn on_terms(
        is_verified: bool,
        authorities: Option<&Path>,
        terms: &TlsTerms,
    ) -> Result<Self, TlsError> {
        match authorities {
            _ if !is_verified => Self::insecure_on(terms),
            Some(file) => Self::verifying_by(file, terms),
            None => Self::verifying(rustls_native_certs::load_native_certs(), terms),
        }
    }

    /// Whether servers are verified.
    pub fn verifies(&self) -> bool {
        self.verifies
    }

    /// The same client for HTTP/2, which it offers instead of HTTP/1.1. A server may still choose
    /// no protocol: see [`TlsStream::is_http2`].
    #[must_use]
    pub fn for_http2(&self) -> Self {
        let mut config = ClientConfig::clone(self.config());
        config.alpn_protocols = vec![ALPN_HTTP_2.to_vec()];
        Self { connector: TlsConnector::from(Arc::new(config)), verifies: self.verifies }
    }

    /// The configuration of the TLS library, for callers that do not use this crate's streams.
    pub fn config(&self) -> &Arc<ClientConfig> {
        self.connector.config()
    }

    /// Secures a new connection to the server `host`, which is a name or an IP address without
    /// brackets.
    ///
    /// # Errors
    /// See [`TlsError`]. The connection is then closed.
    pub async fn secure(&self, stream: Stream, host: &str) -> Result<TlsStream, TlsError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name(host.to_owned()))?;
        let secured = self.connector.connect(name, stream).await;
        secured.map(TlsStream).map_err(|error| TlsError::handshake(&error, host))
    }

    /// The same client with a separate certificate, for servers that ask for one.
    #[must_use]
    pub(crate) fn presenting(&self, own: Arc<CertifiedKey>) -> Self {
        let mut config = ClientConfig::clone(self.config());
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(own));
        Self { connector: TlsConnector::from(Arc::new(config)), verifies: self.verifies }
    }

    /// Whether a certificate can be for a server of this name, which is a host name or an IP
    /// address without brackets.
    pub fn is_name(host: &str) -> bool {
        ServerName::try_from(host).is_ok()
    }

    fn insecure_on(terms: &TlsTerms) -> Result<Self, TlsError> {
        let algorithms = provider().signature_verification_algorithms;
        let config = builder(terms)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified { algorithms }))
            .with_no_client_auth();
        Self::new(config, false, terms)
    }

    fn verifying(loaded: CertificateResult, terms: &TlsTerms) -> Result<Self, TlsError> {
        let authorities = authorities(loaded)?;
        let config = builder(terms)?.with_root_certificates(authorities).with_no_client_auth();
        Self::new(config, true, terms)
    }

    /// Verifies servers by the certificates in `file`.
    fn verifying_by(file: &Path, terms: &TlsTerms) -> Result<Self, TlsError> {
        let loaded = rustls_native_certs::load_certs_from_paths(Some(file), None);
        let named = loaded.certs.clone();
        let authorities = Arc::new(authorities(loaded)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(authorities, Arc::new(provider())).build();
        let authorities = verifier.map_err(|error| TlsError::Other(error.to_string()))?;
        let config = builder(terms)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(NamedCertificates { authorities, named }))
            .with_no_client_auth();
        Self::new(config, true, terms)
    }

    fn new(mut config: ClientConfig, verifies: bool, terms: &TlsTerms) -> Result<Self, TlsError> {
        config.alpn_protocols = vec![ALPN_HTTP_1_1.to_vec()];
        if let Some(file) = &terms.identity_file {
            let identity = identity(file)
                .map_err(|error| TlsError::Identity { file: file.clone(), reason: error.to_string() })?;
            config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(identity));
        }
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), verifies })
    }
}

impl TlsStream {
    /// Whether the server has chosen HTTP/2 (RFC 9113 section 3.2).
    pub fn is_http2(&self) -> bool {
        self.0.get_ref().1.alpn_protocol() == Some(ALPN_HTTP_2)
    }

    /// The connection as one of several kinds.
    pub fn into_stream(self) -> Stream {
        Stream::TlsToServer(Box::new(self.0))
    }
}

impl TlsError {
    /// Translates an error of the TLS library in the handshake with the server called `host`.
    pub fn of(error: &Error, host: &str) -> Self {
        match error {
            Error::InvalidCertificate(error) => Self::certificate(error, host),
            Error::InvalidMessage(_) => Self::NotTls,
            Error::AlertReceived(AlertDescription::NoApplicationProtocol) => Self::NoProtocol,
            Error::AlertReceived(alert) => Self::Refused(alert_text(*alert)),
            Error::PeerIncompatible(reason) => Self::Refused(format!("{reason:?}")),
            other => Self::Other(other.to_string()),
        }
    }

    /// Translates the error of a failed handshake with the server called `host`.
    pub fn handshake(error: &io::Error, host: &str) -> Self {
        Self::inside(error, host).unwrap_or_else(|| Self::Broken(error.kind()))
    }

    /// The TLS library's reason for an error on a connection to the server called `host`. `None`:
    /// TLS is not the reason.
    pub fn inside(error: &io::Error, host: &str) -> Option<Self> {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        inner.map(|inner| Self::of(inner, host))
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

/// Accepts every certificate, but still checks the handshake's signature. A peer without the
/// private key of its certificate is broken, not merely unknown.
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

/// The trust store made of the loaded certificates.
fn authorities(loaded: CertificateResult) -> Result<RootCertStore, TlsError> {
    let mut authorities = RootCertStore::empty();
    // A trust store may contain certificates that are too old to be parsed. They are ignored.
    let (added, _) = authorities.add_parsable_certificates(loaded.certs);
    if added == 0 {
        let errors = loaded.errors.iter().map(ToString::to_string).collect();
        return Err(TlsError::NoAuthorities(errors));
    }
    Ok(authorities)
}

/// A configuration with TLS 1.3 and 1.2, as far as the terms allow them and a chosen suite belongs
/// to them.
fn builder(terms: &TlsTerms) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, TlsError> {
    let mut provider = provider();
    let is_spoken = |version: TlsVersion| {
        terms.version.is_none_or(|only| only == version)
            && terms.suites.as_ref().is_none_or(|suites| suites.serves(version))
    };
    let versions: Vec<_> = [(TlsVersion::Tls13, &TLS13), (TlsVersion::Tls12, &TLS12)]
        .into_iter()
        .filter(|(version, _)| is_spoken(*version))
        .map(|(_, version)| version)
        .collect();
    if let Some(suites) = &terms.suites {
        if let (Some(version), true) = (terms.version, versions.is_empty()) {
            return Err(TlsError::NoSuite { version, suites: suites.clone() });
        }
        let all = std::mem::take(&mut provider.cipher_suites);
        let named = |code| all.iter().find(|suite| u16::from(suite.suite()) == code).copied();
        provider.cipher_suites = suites.codes().filter_map(named).collect();
    }
    ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&versions)
        .map_err(|error| TlsError::Other(error.to_string()))
}

/// Reads the client's certificate, the intermediate certificates and the private key from a PEM
/// file.
fn identity(file: &Path) -> Result<CertifiedKey, Box<dyn std::error::Error>> {
    let chain = CertificateDer::pem_file_iter(file)?.collect::<Result<Vec<_>, _>>()?;
    if chain.is_empty() {
        return Err("there is no certificate in it".into());
    }
    let key = PrivateKeyDer::from_pem_file(file)?;
    Ok(CertifiedKey::from_der(chain, key, &provider())?)
}

/// The meaning of a TLS alert, for an error message.
fn alert_text(alert: AlertDescription) -> String {
    let meaning = match alert {
        AlertDescription::UnrecognisedName => "it has no site of this name",
        AlertDescription::ProtocolVersion => "it speaks neither TLS 1.2 nor 1.3",
        AlertDescription::HandshakeFailure => "it has no cipher in common with us",
        AlertDescription::CertificateRequired => "it asks for a certificate of the client",
        _ => return format!("its alert is {alert:?}"),
    };
    meaning.to_owned()
}

/// The first error from loading the trust store, for an error message.
fn because(errors: &[String]) -> String {
    errors.first().map_or_else(String::new, |first| format!(" ({first})"))
}

#[cfg(test)]
mod tests {
    use super::{TlsClient, TlsError, TlsTerms};
    use crate::{Stream, agreed_terms};
    use address::Address;
    use std::io::ErrorKind;
    use testkit::{Certificate, Origin, TlsFront, response};
    use tls_terms::{TlsAgreement, TlsSuites, TlsVersion};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Requests a page through TLS from `front` as `host`, and returns the response.
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

    /// A client that trusts the server's authority.
    fn believing(front: &TlsFront) -> Result<TlsClient, TlsError> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("authority.pem");
        std::fs::write(&file, &front.authority_pem).unwrap();
        TlsClient::with_authorities_in(&file)
    }

    #[tokio::test]
    async fn server_with_a_valid_certificate_is_accepted() {
        let origin = origin();
        let front = TlsFront::start(origin.address(), Certificate::Good);
        for host in ["localhost", "127.0.0.1"] {
            let answer = ask(&front, believing(&front), host).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("safe"), "{answer}");
        }
    }

    #[tokio::test]
    async fn every_fault_of_a_certificate_has_its_own_error() {
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
    async fn insecure_client_accepts_an_unverified_server() {
        let origin = origin();
        let front = TlsFront::start(origin.address(), Certificate::OtherName);
        let client = TlsClient::insecure().unwrap();
        assert!(!client.verifies() && believing(&front).unwrap().verifies());
        assert!(ask(&front, Ok(client), "localhost").await.is_ok());
    }

    #[tokio::test]
    async fn server_without_tls_is_recognised() {
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
    async fn connection_broken_in_the_handshake_has_its_own_error() {
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

    /// The terms that `terms` and this server agree on.
    async fn agreed(front: &TlsFront, terms: &TlsTerms) -> Result<TlsAgreement, TlsError> {
        let stream = Stream::connect(&Address::from(front.address)).await.unwrap();
        let stream = TlsClient::on_terms(false, None, terms)?.secure(stream, "localhost").await?;
        Ok(agreed_terms(stream.0.get_ref().1).unwrap())
    }

    #[tokio::test]
    async fn only_versions_and_suites_of_the_terms_are_used() {
        let origin = origin();
        let front = TlsFront::start(origin.address(), Certificate::Good);
        for (version, suites, expected) in [
            (None, None, ("TLSv1.3", "TLS_AES_256_GCM_SHA384", 256)),
            (Some(TlsVersion::Tls12), None, ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384", 256)),
            (None, Some("ECDHE+AES128"), ("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256", 128)),
            (Some(TlsVersion::Tls13), Some("AES128"), ("TLSv1.3", "TLS_AES_128_GCM_SHA256", 128)),
        ] {
            let suites = suites.map(|text| text.parse().unwrap());
            let terms = TlsTerms { version, suites, identity_file: None };
            let found = agreed(&front, &terms).await.unwrap();
            assert_eq!((found.version, found.suite, found.cipher_bits), expected);
            assert_eq!((found.key_bits, found.temporary_key.as_deref()), (256, Some("X25519 253 bits")));
        }
        let suites: TlsSuites = "ECDHE".parse().unwrap();
        let version = TlsVersion::Tls13;
        let terms = TlsTerms { version: Some(version), suites: Some(suites.clone()), identity_file: None };
        assert_eq!(agreed(&front, &terms).await, Err(TlsError::NoSuite { version, suites }));
    }

    #[tokio::test]
    async fn client_sends_the_certificate_of_its_file() {
        let origin = origin();
        let front = TlsFront::start_for_known_clients(origin.address());
        let directory = tempfile::tempdir().unwrap();
        let with = |name: &str, pem: &str| {
            let file = directory.path().join(name);
            std::fs::write(&file, pem).unwrap();
            TlsTerms { identity_file: Some(file), ..TlsTerms::default() }
        };
        let known = with("known.pem", &front.identity_pem);
        let answer = ask(&front, TlsClient::on_terms(false, None, &known), "localhost").await;
        assert!(answer.unwrap().ends_with("safe"));
        let stranger = TlsFront::start(origin.address(), Certificate::Good);
        for (terms, expected) in [
            (with("empty.pem", ""), "there is no certificate in it"),
            (with("alone.pem", &front.authority_pem), "no items found"),
            (
                with("mixed.pem", &(front.authority_pem.clone() + &stranger.identity_pem)),
                "keys may not be consistent",
            ),
        ] {
            let error = TlsClient::on_terms(false, None, &terms).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(".pem: "), "{error}");
        }
    }

    #[test]
    fn empty_trust_store_error_names_the_fix() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("none.pem");
        let error = TlsClient::with_authorities_in(&file).unwrap_err().to_string();
        assert!(error.contains("none.pem") && error.contains("ca-certificates"), "{error}");
        std::fs::write(&file, "nothing").unwrap();
        assert!(matches!(TlsClient::with_authorities_in(&file), Err(TlsError::NoAuthorities(_))));
    }
}
