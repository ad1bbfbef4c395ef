//! Certificates for an authority that validates a name by TLS (RFC 8737), beside those that serve.
//!
//! Invariant: only a client that offers the protocol of the validation alone receives one, and only
//! while the name is being validated.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::ClientHello;
use tokio_rustls::rustls::sign::CertifiedKey;

/// The application protocol of the validation (RFC 8737 section 6.2).
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// The certificates that authorities are shown, by name. There are as many as names are validated.
#[derive(Default)]
pub struct ChallengeCertificates {
    by_name: RwLock<HashMap<String, Arc<CertifiedKey>>>,
}

/// Why a certificate for an authority cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the certificate for the validation of `{name}` cannot be used: {reason}")]
pub struct ChallengeError {
    /// The name.
    pub name: String,
    /// The TLS library's reason.
    pub reason: String,
}

impl ChallengeCertificates {
    /// Shows this certificate to authorities that validate `name`. Certificate and key are DER, the
    /// key in PKCS #8.
    ///
    /// # Errors
    /// [`ChallengeError`].
    pub fn publish(&self, name: &str, certificate: Vec<u8>, key: Vec<u8>) -> Result<(), ChallengeError> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        let chain = vec![CertificateDer::from(certificate)];
        // The library's own check of the certificate refuses the extension of the validation.
        let key = crate::tls_provider::provider().key_provider.load_private_key(key);
        let key = key.map_err(|error| ChallengeError { name: name.to_owned(), reason: error.to_string() })?;
        let certified = CertifiedKey::new(chain, key);
        // A poisoned lock holds a complete table: each change is one call.
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        by_name.insert(name.to_ascii_lowercase(), Arc::new(certified));
        Ok(())
    }

    /// Shows no certificate any more.
    pub fn clear(&self) {
        self.by_name.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The certificate for the validation of this name.
    pub(super) fn find(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        by_name.get(&name.to_ascii_lowercase()).map(Arc::clone)
    }
}

impl fmt::Debug for ChallengeCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the keys.
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(by_name.keys()).finish()
    }
}

/// Whether the client is an authority that validates a name: it offers this protocol alone (RFC
/// 8737 section 3).
pub(super) fn is_validation(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|mut offered| offered.next() == Some(ACME_TLS) && offered.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::{ACME_TLS, ChallengeCertificates};
    use crate::{
        CertificateFiles, Certificates, HandshakeError, Stream, TlsClient, TlsServer, TlsServerTerms,
    };
    use std::sync::Arc;
    use testkit::{Authority, KeyKind, PemFiles};
    use tls_terms::TlsVersion;
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::ClientConfig;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

    const HTTP: &[u8] = b"http/1.1";

    /// The certificate that a client who offers these protocols is shown, and the server's
    /// outcome.
    async fn shown(
        server: &TlsServer,
        name: &'static str,
        offered: &[&[u8]],
    ) -> (Option<Vec<u8>>, Result<Stream, HandshakeError>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = ClientConfig::clone(TlsClient::insecure().unwrap().config());
        config.alpn_protocols = offered.iter().map(|protocol| protocol.to_vec()).collect();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let name = ServerName::try_from(name).unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let (accepted, _) = listener.accept().await.unwrap();
        let (client, outcome) = tokio::join!(connecting, server.secure(Stream::Tcp(accepted)));
        let certificate =
            client.ok().map(|client| client.get_ref().1.peer_certificates().unwrap()[0].to_vec());
        (certificate, outcome)
    }

    fn der(pem: &PemFiles) -> (Vec<u8>, Vec<u8>) {
        let certificate = CertificateDer::from_pem_slice(pem.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(pem.key.as_bytes()).unwrap();
        (certificate.to_vec(), key.secret_der().to_vec())
    }

    #[tokio::test]
    async fn only_a_validation_is_shown_the_other_certificate() {
        let (directory, authority) = (tempfile::tempdir().unwrap(), Authority::new("challenges"));
        let issue = || authority.issue(&["a.test"], KeyKind::Ecdsa, (2000, 2100));
        let (usual, other) = (issue(), issue());
        let (chain, key) = usual.write(directory.path(), "a");
        let challenges = Arc::new(ChallengeCertificates::default());
        let certificates = Certificates::read(&[CertificateFiles { chain, key }]).unwrap();
        let certificates = Arc::new(certificates.with_challenges(Arc::clone(&challenges)));
        let terms = TlsServerTerms {
            version_min: TlsVersion::Tls12,
            protocols: vec![HTTP],
            client_authorities: None,
        };
        let server = TlsServer::new(certificates, &terms).unwrap();

        let (certificate, outcome) = shown(&server, "a.test", &[ACME_TLS]).await;
        assert!(certificate.is_none() && matches!(outcome, Err(HandshakeError::Refused(_))));
        let (der, key) = der(&other);
        challenges.publish("A.test", der.clone(), key).unwrap();
        let (certificate, outcome) = shown(&server, "a.test", &[ACME_TLS]).await;
        assert_eq!(certificate, Some(der.clone()));
        assert!(matches!(outcome, Err(HandshakeError::Validated)), "{outcome:?}");
        for offered in [&[HTTP][..], &[ACME_TLS, HTTP], &[]] {
            let (certificate, outcome) = shown(&server, "a.test", offered).await;
            assert!(certificate.is_some_and(|certificate| certificate != der) && outcome.is_ok());
        }
        let (certificate, _) = shown(&server, "b.test", &[ACME_TLS]).await;
        assert_eq!(certificate, None, "another name");
        challenges.clear();
        let (certificate, _) = shown(&server, "a.test", &[ACME_TLS]).await;
        assert_eq!(certificate, None);
        assert!(challenges.publish("a.test", Vec::new(), Vec::new()).is_err());
    }
}
