//! A server that terminates TLS and forwards the bytes to an origin. Its certificate can have any
//! fault that a client must detect.
//!
//! Each server has a new certificate authority. A client that should trust it needs
//! [`TlsFront::authority_pem`].

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{HandshakeKind, RootCertStore, ServerConfig};

/// The certificate that the server presents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// Valid, for `localhost` and `127.0.0.1`.
    Good,
    /// As `Good`, but it expired in 1999.
    Expired,
    /// As `Good`, but it is valid only from 2101.
    NotYet,
    /// Valid, for `other.test` only.
    OtherName,
    /// For `localhost` and `127.0.0.1`, self-signed and marked as an authority, like the output of
    /// `openssl req -x509`.
    SelfSigned,
}

/// A running server. It stops when this is dropped.
pub struct TlsFront {
    /// The address where it listens.
    pub address: SocketAddr,
    /// The authority's certificate, in PEM.
    pub authority_pem: String,
    /// A client's certificate and key, signed by the same authority, in PEM.
    pub identity_pem: String,
    handshakes: Arc<[AtomicUsize; 2]>,
    stop: Option<oneshot::Sender<()>>,
}

impl TlsFront {
    /// Starts a server on a free loopback port. It presents this certificate and connects to
    /// `origin`.
    pub fn start(origin: SocketAddr, certificate: Certificate) -> Self {
        Self::start_with(origin, certificate, false)
    }

    /// Starts a server with a good certificate that accepts only clients with
    /// [`TlsFront::identity_pem`].
    pub fn start_for_known_clients(origin: SocketAddr) -> Self {
        Self::start_with(origin, Certificate::Good, true)
    }

    fn start_with(origin: SocketAddr, certificate: Certificate, knows_clients: bool) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let issued = issue(certificate, &format!("an authority for {address}"));
        let authority_pem = issued.authority.pem();
        let identity_pem = issued.identity.clone();
        let config = server_config(issued, knows_clients);
        let handshakes: Arc<[AtomicUsize; 2]> = Arc::default();
        let counted = Arc::clone(&handshakes);
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        std::thread::spawn(move || {
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                let acceptor = TlsAcceptor::from(Arc::new(config));
                tokio::select! {
                    () = serve(&listener, &acceptor, origin, &counted) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, authority_pem, identity_pem, handshakes, stop: Some(stop) }
    }

    /// Number of completed handshakes so far.
    pub fn handshakes(&self) -> usize {
        self.handshakes.iter().map(|count| count.load(Ordering::SeqCst)).sum()
    }

    /// Number of handshakes so far that resumed a session.
    pub fn resumptions(&self) -> usize {
        self.handshakes[1].load(Ordering::SeqCst)
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // Sending fails if the thread has ended, which is harmless.
            let _ = stop.send(());
        }
    }
}

async fn serve(
    listener: &TcpListener,
    acceptor: &TlsAcceptor,
    origin: SocketAddr,
    handshakes: &Arc<[AtomicUsize; 2]>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let (acceptor, handshakes) = (acceptor.clone(), Arc::clone(handshakes));
        tokio::spawn(async move {
            // The handshake fails if the client rejects the certificate. The client's test checks
            // that.
            let Ok(mut client) = acceptor.accept(client).await else { return };
            let is_resumed = client.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
            handshakes[usize::from(is_resumed)].fetch_add(1, Ordering::SeqCst);
            let Ok(mut origin) = TcpStream::connect(origin).await else { return };
            // Either side may end the connection at any time.
            let _ = tokio::io::copy_bidirectional(&mut client, &mut origin).await;
        });
    }
}

/// A server's certificate with its authority and keys.
struct Issued {
    authority: rcgen::Certificate,
    certificate: rcgen::Certificate,
    key: KeyPair,
    /// A client's certificate and key, in PEM.
    identity: String,
}

/// The TLS configuration of the server. With `knows_clients`, clients need a certificate of the
/// authority.
fn server_config(issued: Issued, knows_clients: bool) -> ServerConfig {
    let Issued { authority, certificate, key, .. } = issued;
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if knows_clients {
        let mut authorities = RootCertStore::empty();
        authorities.add(authority.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    builder.with_single_cert(vec![certificate.der().clone()], key).unwrap()
}

/// Creates a certificate, and an authority called `authority_name`. Each authority needs its own
/// name: a client would report a second one of the same name as a bad signature.
fn issue(certificate: Certificate, authority_name: &str) -> Issued {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.distinguished_name.push(DnType::CommonName, authority_name);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);

    let names: &[&str] = match certificate {
        Certificate::OtherName => &["other.test"],
        _ => &["localhost", "127.0.0.1"],
    };
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut server = CertificateParams::new(names).unwrap();
    (server.not_before, server.not_after) = match certificate {
        Certificate::Expired => (date_time_ymd(1990, 1, 1), date_time_ymd(1999, 1, 1)),
        Certificate::NotYet => (date_time_ymd(2101, 1, 1), date_time_ymd(2102, 1, 1)),
        _ => (date_time_ymd(2000, 1, 1), date_time_ymd(2100, 1, 1)),
    };
    let server_key = KeyPair::generate().unwrap();
    if certificate == Certificate::SelfSigned {
        server.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = server.self_signed(&server_key).unwrap();
        let identity = own.pem() + &server_key.serialize_pem();
        return Issued { authority: own.clone(), certificate: own, key: server_key, identity };
    }
    let server = server.signed_by(&server_key, &issuer).unwrap();
    let client_key = KeyPair::generate().unwrap();
    let client = CertificateParams::new(Vec::new()).unwrap().signed_by(&client_key, &issuer).unwrap();
    let identity = client.pem() + &client_key.serialize_pem();
    Issued { authority: authority_certificate, certificate: server, key: server_key, identity }
}
