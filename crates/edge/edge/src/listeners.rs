//! The listeners of a running edge: how their connections are secured.
//!
//! Invariant: a listener with TLS has a usable certificate from its start to its end.

use crate::origins;
use clock::Timestamp;
use config::{EdgePlan, TlsPlan};
use net::{
    Certificate, CertificateError, Certificates, Refreshed, TlsServer, TlsServerError, TlsServerTerms,
};
use std::sync::Arc;
use tls_terms::TlsVersion;

/// The application protocol of HTTP/1.1 (RFC 7301).
const HTTP_1_1: &[u8] = b"http/1.1";

/// The application protocol of HTTP/2 (RFC 9113 section 3.2).
pub(crate) const HTTP_2: &[u8] = b"h2";

/// The listeners, in the order of the plan.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    /// `None` for a plain listener.
    secured: Vec<Option<SecuredListener>>,
}

#[derive(Debug)]
struct SecuredListener {
    server: TlsServer,
    certificates: Arc<Certificates>,
}

/// Why a listener cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    /// A certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsServerError),
}

impl Listeners {
    /// Reads the certificates of all listeners of a plan; blocks.
    ///
    /// # Errors
    /// All certificates that cannot be used.
    pub(crate) fn open(plan: &EdgePlan) -> Result<Self, Vec<ListenerError>> {
        let (mut secured, mut errors) = (Vec::new(), Vec::new());
        for listener in &plan.listeners {
            let open = |tls| SecuredListener::open(tls, listener.http2);
            match listener.tls.as_ref().map(open).transpose() {
                Ok(opened) => secured.push(opened),
                Err(more) => errors.extend(more),
            }
        }
        if errors.is_empty() { Ok(Self { secured }) } else { Err(errors) }
    }

    /// What secures the connections of a listener. `None`: they are plain.
    pub(crate) fn tls(&self, number: usize) -> Option<&TlsServer> {
        self.secured.get(number)?.as_ref().map(|secured| &secured.server)
    }

    /// Whether any listener has TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.secured.iter().any(Option::is_some)
    }

    /// Reads changed certificates again; see [`Certificates::refresh`]. Blocks.
    pub(crate) fn refresh(&self, now: Timestamp, at_once: bool) -> Vec<Refreshed> {
        let secured = self.secured.iter().flatten();
        secured.flat_map(|listener| listener.certificates.refresh(now, at_once)).collect()
    }

    /// The certificates that serve.
    fn serving(&self) -> impl Iterator<Item = Arc<Certificate>> {
        let listeners = self.secured.iter().flatten();
        listeners.flat_map(|listener| listener.certificates.serving().to_vec())
    }

    /// The faults of certificates that are not valid at `now`.
    pub(crate) fn faults(&self, now: Timestamp) -> Vec<CertificateError> {
        self.serving().filter_map(|certificate| certificate.fault_at(now)).collect()
    }

    /// When the first certificate expires; `None` without certificates.
    pub(crate) fn first_expiry(&self) -> Option<Timestamp> {
        self.serving().map(|certificate| certificate.validity().1).min()
    }
}

impl SecuredListener {
    fn open(plan: &TlsPlan, http2: bool) -> Result<Self, Vec<ListenerError>> {
        let files: Vec<_> = plan.certificates.iter().map(origins::files).collect();
        let certificates = Certificates::read(&files)
            .map_err(|errors| errors.into_iter().map(ListenerError::from).collect::<Vec<_>>())?;
        let certificates = Arc::new(certificates);
        let protocols = if http2 { vec![HTTP_2, HTTP_1_1] } else { vec![HTTP_1_1] };
        let version_min = if plan.is_at_least_1_3 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
        let terms = TlsServerTerms { version_min, protocols };
        let server = TlsServer::new(Arc::clone(&certificates), &terms).map_err(|error| vec![error.into()])?;
        Ok(Self { server, certificates })
    }
}
