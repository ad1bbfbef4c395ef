//! The listeners of a running edge: how their connections are secured.
//!
//! Invariant: a listener with TLS has a usable certificate from its start to its end.

use crate::memory::issuance::{Issuance, local_authority, terms};
use crate::origins;
use acme::FileError;
use clock::Timestamp;
use config::{AdminTlsPlan, EdgePlan, TlsPlan};
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
    /// `None` if the admin address speaks plain HTTP.
    admin: Option<SecuredListener>,
    /// The certificates that Petasos obtains itself.
    pub(crate) issuance: Arc<Issuance>,
}

#[derive(Clone, Debug)]
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
        let admin = plan.admin_tls.as_ref().map(SecuredListener::open_admin).transpose();
        let admin = admin.unwrap_or_else(|more| {
            errors.extend(more);
            None
        });
        if errors.is_empty() { Ok(Self { secured, admin, issuance }) } else { Err(errors) }
    }

    /// The problems with the files of the admin address: errors that prevent the start, or the
    /// fault of a certificate that is not valid at `now`. Blocks.
    pub(crate) fn check_admin(
        tls: &AdminTlsPlan,
        now: Timestamp,
    ) -> Result<Option<CertificateError>, Vec<ListenerError>> {
        let secured = SecuredListener::open_admin(tls)?;
        let serving = secured.certificates.serving();
        Ok(serving.iter().find_map(|certificate| certificate.fault_at(now)))
    }

    /// What secures the connections of the admin address. `None`: they are plain.
    pub(crate) fn admin_tls(&self) -> Option<&TlsServer> {
        self.admin.as_ref().map(|secured| &secured.server)
    }

    fn all_secured(&self) -> impl Iterator<Item = &SecuredListener> {
        self.secured.iter().flatten().chain(&self.admin)
    }

    /// The same listeners, with the admin address as in `plan`. Reads its files; blocks.
    ///
    /// # Errors
    /// All files that cannot be used.
    pub(crate) fn with_admin_of(&self, plan: &EdgePlan) -> Result<Self, Vec<ListenerError>> {
        let admin = plan.admin_tls.as_ref().map(SecuredListener::open_admin).transpose()?;
        Ok(Self { secured: self.secured.clone(), admin, issuance: Arc::clone(&self.issuance) })
    }

    /// What secures the connections of a listener. `None`: they are plain.
    pub(crate) fn tls(&self, number: usize) -> Option<&TlsServer> {
        self.secured.get(number)?.as_ref().map(|secured| &secured.server)
    }

    /// Whether any listener or the admin address has TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.all_secured().next().is_some()
    }

    /// Reads changed certificates again; see [`Certificates::refresh`]. Blocks.
    pub(crate) fn refresh(&self, now: Timestamp, at_once: bool) -> Vec<Refreshed> {
        self.all_secured().flat_map(|listener| listener.certificates.refresh(now, at_once)).collect()
    }

    /// The certificates that serve.
    fn serving(&self) -> impl Iterator<Item = Arc<Certificate>> {
        self.all_secured().flat_map(|listener| listener.certificates.serving().to_vec())
    }

    /// The faults of certificates that are not valid at `now`.
    pub(crate) fn faults(&self, now: Timestamp) -> Vec<CertificateError> {
        self.serving().filter_map(|certificate| certificate.fault_at(now)).collect()
    }

    /// The names of each certificate that serves, and when it expires.
    pub(crate) fn expiries(&self) -> Vec<(Vec<String>, Timestamp)> {
        self.serving().map(|certificate| (certificate.names().to_vec(), certificate.validity().1)).collect()
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
        let protocols = if http2 { vec![HTTP_2, HTTP_1_1] } else { vec![HTTP_1_1] };
        let version_min = if plan.is_at_least_1_3 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
        let terms = TlsServerTerms { version_min, protocols, client_authorities: None };
        Self::on_terms(certificates, &terms)
    }

    fn open_admin(plan: &AdminTlsPlan) -> Result<Self, Vec<ListenerError>> {
        let certificates = Certificates::read(&[origins::files(&plan.certificate)])
            .map_err(|errors| errors.into_iter().map(ListenerError::from).collect::<Vec<_>>())?;
        let terms = TlsServerTerms {
            version_min: TlsVersion::Tls13,
            protocols: vec![HTTP_1_1],
            client_authorities: plan.client_authorities.clone(),
        };
        Self::on_terms(certificates, &terms)
    }

    fn on_terms(certificates: Certificates, terms: &TlsServerTerms) -> Result<Self, Vec<ListenerError>> {
        let certificates = Arc::new(certificates);
        let server = TlsServer::new(Arc::clone(&certificates), terms).map_err(|error| vec![error.into()])?;
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
