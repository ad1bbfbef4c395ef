//! The bytes of a test client's connection, plain or inside TLS.

use crate::PemFiles;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

/// The settings of a TLS client. Connections with the same settings resume their sessions.
#[derive(Clone)]
pub struct Trust {
    config: Arc<ClientConfig>,
}

/// A connection, plain or inside TLS.
pub(crate) enum Wire {
    Plain(TcpStream),
    Secured(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// The terms of a secured connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The server's certificate in DER.
    pub certificate: Vec<u8>,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
    /// The name of the protocol version, such as `TLSv1_3`.
    pub version: String,
}

impl Trust {
    /// Trusts the authorities in this PEM text.
    pub fn of(authorities_pem: &str) -> Self {
        Self::on(
            authorities_pem,
            &[&tokio_rustls::rustls::version::TLS13, &tokio_rustls::rustls::version::TLS12],
        )
    }

    /// As [`Trust::of`], for TLS 1.2 only.
    pub fn of_tls_1_2(authorities_pem: &str) -> Self {
        Self::on(authorities_pem, &[&tokio_rustls::rustls::version::TLS12])
    }

    /// The same trust without the sessions that could be resumed.
    pub fn without_sessions(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::default();
        Self { config: Arc::new(config) }
    }

    /// The same trust for connections that offer this application protocol only.
    pub fn offering(&self, protocol: &[u8]) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![protocol.to_vec()];
        Self { config: Arc::new(config) }
    }

    /// The same trust for connections that show this certificate to a server that asks for one.
    pub fn presenting(&self, own: &PemFiles) -> Self {
        let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
        let signing = aws_lc_rs::sign::any_supported_type(&key).unwrap();
        let own = CertifiedKey::new(vec![certificate], signing);
        let mut config = ClientConfig::clone(&self.config);
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(own));
        Self { config: Arc::new(config) }
    }

    fn on(authorities_pem: &str, versions: &[&'static SupportedProtocolVersion]) -> Self {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authorities_pem.as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { config: Arc::new(config) }
    }

    /// The bytes with which a client begins a handshake with the server `name`.
    pub fn client_hello(&self, name: &str) -> Vec<u8> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut session = ClientConnection::new(Arc::clone(&self.config), name).unwrap();
        let mut octets = Vec::new();
        session.write_tls(&mut octets).unwrap();
        octets
    }

    /// Secures a connection to the server `name`.
    ///
    /// # Errors
    /// If the handshake fails.
    pub(crate) fn secure(&self, stream: TcpStream, name: &str) -> io::Result<Wire> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let session = ClientConnection::new(Arc::clone(&self.config), name).unwrap();
        let mut secured = StreamOwned::new(session, stream);
        while secured.conn.is_handshaking() {
            secured.conn.complete_io(&mut secured.sock)?;
        }
        Ok(Wire::Secured(Box::new(secured)))
    }
}

impl Trust {
    /// Secures a connection on which HTTP/2 is spoken.
    ///
    /// # Errors
    /// If the handshake fails, or the server does not speak HTTP/2.
    pub(crate) async fn secure_http2(
        &self,
        stream: tokio::net::TcpStream,
        name: &str,
    ) -> io::Result<TlsStream<tokio::net::TcpStream>> {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let secured = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        match secured.get_ref().1.alpn_protocol() {
            Some(b"h2") => Ok(secured),
            other => Err(io::Error::other(format!("the server chose {other:?}"))),
        }
    }
}

impl Wire {
    /// The connection below.
    pub(crate) const fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Secured(secured) => &secured.sock,
        }
    }

    /// The terms.
    ///
    /// # Panics
    /// If the connection is plain.
    pub(crate) fn handshake(&self) -> Handshake {
        let Self::Secured(secured) = self else { panic!("the connection is plain") };
        let session = &secured.conn;
        Handshake {
            certificate: session.peer_certificates().unwrap()[0].to_vec(),
            is_resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
            version: format!("{:?}", session.protocol_version().unwrap()),
        }
    }
}

impl Read for Wire {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(octets),
            Self::Secured(stream) => stream.read(octets),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(octets),
            Self::Secured(stream) => stream.write(octets),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Secured(stream) => stream.flush(),
        }
    }
}
