//! The listeners of a running edge: how their connections are secured.
//!
//! Invariant: a listener with TLS has a usable certificate from its start to its end.

use crate::memory::issuance::{Issuance, local_authority, terms};
use crate::origins;
use acme::FileError;
use clock::Timestamp;
use config::{EdgePlan, TlsPlan};
use net::{
    Certificate, CertificateError, CertificateFiles, Certificates, Refreshed, TlsServer, TlsServerError,
    TlsServerTerms,
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
    /// The certificates that Petasos obtains itself.
    pub(crate) issuance: Arc<Issuance>,
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
    /// A certificate that Petasos obtains itself cannot be kept.
    #[error(transparent)]
    File(#[from] FileError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsServerError),
}

impl Listeners {
    /// Reads the certificates of all listeners of a plan; blocks. Those that Petasos obtains itself
    /// exist from here on, if only as a placeholder; `issuance` has what is known of them.
    ///
    /// # Errors
    /// All certificates that cannot be used.
    pub(crate) fn open(
        plan: &EdgePlan,
        now: Timestamp,
        issuance: Arc<Issuance>,
    ) -> Result<Self, Vec<ListenerError>> {
        let (mut secured, mut errors) = (Vec::new(), Vec::new());
        for listener in &plan.listeners {
            let opened = listener.tls.as_ref().map(|tls| {
                let obtained = obtained_files(plan, tls, now).map_err(|error| vec![error.into()])?;
                SecuredListener::open(tls, listener.http2, obtained, &issuance)
            });
            match opened.transpose() {
                Ok(opened) => secured.push(opened),
                Err(more) => errors.extend(more),
            }
        }
        if errors.is_empty() { Ok(Self { secured, issuance }) } else { Err(errors) }
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
    fn open(
        plan: &TlsPlan,
        http2: bool,
        obtained: Vec<CertificateFiles>,
        issuance: &Issuance,
    ) -> Result<Self, Vec<ListenerError>> {
        let files: Vec<_> = plan.certificates.iter().map(origins::files).chain(obtained).collect();
        let mut certificates = Certificates::read(&files)
            .map_err(|errors| errors.into_iter().map(ListenerError::from).collect::<Vec<_>>())?;
        if !plan.acme_names.is_empty() {
            certificates = certificates.with_challenges(Arc::clone(&issuance.answers.tls));
        }
        let certificates = Arc::new(certificates);
        let protocols = if http2 { vec![HTTP_2, HTTP_1_1] } else { vec![HTTP_1_1] };
        let version_min = if plan.is_at_least_1_3 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
        let terms = TlsServerTerms { version_min, protocols };
        let server = TlsServer::new(Arc::clone(&certificates), &terms).map_err(|error| vec![error.into()])?;
        Ok(Self { server, certificates })
    }
}

/// The files of the certificates that Petasos obtains itself for a listener.
fn obtained_files(
    plan: &EdgePlan,
    tls: &TlsPlan,
    now: Timestamp,
) -> Result<Vec<CertificateFiles>, FileError> {
    let mut files = Vec::new();
    if let Some(terms) = terms(plan).filter(|_| !tls.acme_names.is_empty()) {
        files.push(terms.prepare(&tls.acme_names, now)?);
    }
    if let Some(authority) = local_authority(plan).filter(|_| tls.is_internal) {
        authority.renew(now)?;
        let (trusted, names) = (authority.trusted_file(), authority.names().join(", "));
        tracing::info!(
            "the local authority certifies {names}; browsers that trust {} accept it",
            trusted.display()
        );
        files.push(authority.files());
    }
    Ok(files)
}
