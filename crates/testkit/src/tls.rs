//! A server that takes TLS off and hands the octets to an origin, with a certificate that may have any fault a
//! client must find.
//!
//! Its authority is made anew for each server; a client that should believe it is given
//! [`TlsFront::authority_pem`].

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// What the server shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// For `localhost` and `127.0.0.1`.
    Good,
    /// The same, of the last century.
    Expired,
    /// The same, of the next century.
    NotYet,
    /// For `other.test` only.
    OtherName,
    /// For `localhost` and `127.0.0.1`, signed by itself and said to be an authority, as `openssl req -x509` makes it.
    SelfSigned,
}

/// A running server; it stops when dropped.
pub struct TlsFront {
    /// Where it listens.
    pub address: SocketAddr,
    /// The certificate of the authority that signed the server's, as PEM.
    pub authority_pem: String,
    /// A certificate for a client with its key, signed by the same authority, as PEM.
    pub identity_pem: String,
    stop: Option<oneshot::Sender<()>>,
}

impl TlsFront {
    /// Starts a server on a free loopback port that shows this certificate and connects to `origin`.
    pub fn start(origin: SocketAddr, certificate: Certificate) -> Self {
        Self::start_with(origin, certificate, false)
    }

    /// The same with a good certificate, for clients only that show [`TlsFront::identity_pem`].
    pub fn start_for_known_clients(origin: SocketAddr) -> Self {
        Self::start_with(origin, Certificate::Good, true)
    }

    fn start_with(origin: SocketAddr, certificate: Certificate, knows_clients: bool) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let issued = issue(certificate, &format!("an authority for {address}"));
        let (authority_pem, identity_pem) = (issued.authority.pem(), issued.identity.clone());
        let config = server_config(issued, knows_clients);
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        std::thread::spawn(move || {
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                let acceptor = TlsAcceptor::from(Arc::new(config));
                tokio::select! {
                    () = serve(&listener, &acceptor, origin) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, authority_pem, identity_pem, stop: Some(stop) }
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended with its test.
            let _ = stop.send(());
        }
    }
}

async fn serve(listener: &TcpListener, acceptor: &TlsAcceptor, origin: SocketAddr) {
    while let Ok((client, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            // A client that does not believe the certificate ends the handshake, and that is its test's matter.
            let Ok(mut client) = acceptor.accept(client).await else { return };
            let Ok(mut origin) = TcpStream::connect(origin).await else { return };
            let _ = tokio::io::copy_bidirectional(&mut client, &mut origin).await;
        });
    }
}

/// A certificate for `localhost` and `127.0.0.1` with its key, and the authority that signed it, all as PEM: for
/// programs that take files.
pub struct PemFiles {
    /// The authority's certificate.
    pub authority: String,
    /// The server's certificate.
    pub certificate: String,
    /// The server's key.
    pub key: String,
}

impl PemFiles {
    /// Makes a good certificate, signed by an authority made anew.
    pub fn make() -> Self {
        let Issued { authority, certificate, key, .. } = issue(Certificate::Good, "an authority for files");
        Self { authority: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A server's certificate.
struct Issued {
    authority: rcgen::Certificate,
    certificate: rcgen::Certificate,
    key: KeyPair,
    /// A client's certificate and key as PEM.
    identity: String,
}

/// The server's side.
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

/// Makes a certificate and an authority called `authority_name`: two of one name would be taken for one that signs
/// badly.
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
