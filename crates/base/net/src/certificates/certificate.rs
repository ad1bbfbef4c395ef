//! One certificate with its chain and its key.
//!
//! Invariant: the key belongs to the certificate, and the names are lower case.

use clock::Timestamp;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, InconsistentKeys, SignatureAlgorithm, SignatureScheme};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The PEM files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CertificateFiles {
    /// The certificate and then the intermediate certificates. The file may also hold the key.
    pub chain: PathBuf,
    /// The private key. May be the same file as `chain`.
    pub key: PathBuf,
}

/// A certificate that can serve.
pub struct Certificate {
    key: Arc<CertifiedKey>,
    files: CertificateFiles,
    /// Host names and IP addresses, in lower case; a name may begin with `*.`.
    names: Vec<String>,
    /// The common name of the subject; not a name that the certificate is for.
    common_name: Option<String>,
    not_before: Timestamp,
    not_after: Timestamp,
}

/// Why a certificate cannot be used. Every message names the file.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file with the chain has no certificate in PEM.
    #[error(
        "{} holds no certificate; it must hold the certificate and the intermediate certificates as PEM",
        .0.display()
    )]
    NoCertificate(PathBuf),
    /// The file with the key has no private key in PEM.
    #[error("{} holds no private key; it must hold the unencrypted private key as PEM", .0.display())]
    NoKey(PathBuf),
    /// The file has damaged PEM.
    #[error("{} is damaged: {reason}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The reader's reason.
        reason: String,
    },
    /// The certificate cannot be understood.
    #[error("the first certificate in {} cannot be used: {reason}", file.display())]
    Certificate {
        /// The file.
        file: PathBuf,
        /// The reader's reason.
        reason: String,
    },
    /// The key is of a kind that TLS or this program does not use.
    #[error("the private key in {} cannot be used: {reason}", file.display())]
    Key {
        /// The file.
        file: PathBuf,
        /// The reader's reason.
        reason: String,
    },
    /// The key belongs to another certificate.
    #[error("the private key in {} does not belong to the certificate in {}", .0.key.display(), .0.chain.display())]
    OtherKey(CertificateFiles),
    /// The validity period has not begun, or this machine's clock is slow.
    #[error("the certificate in {} is not valid before {from}", file.display())]
    NotYetValid {
        /// The file with the chain.
        file: PathBuf,
        /// The begin of the validity period, as text.
        from: String,
    },
    /// The validity period is over.
    #[error("the certificate in {} has expired on {since}", file.display())]
    Expired {
        /// The file with the chain.
        file: PathBuf,
        /// The end of the validity period, as text.
        since: String,
    },
}

impl Certificate {
    /// Reads a certificate, its chain and its key.
    ///
    /// # Errors
    /// [`CertificateError`]. The validity period is not checked.
    pub fn read(files: &CertificateFiles) -> Result<Self, CertificateError> {
        let chain = read_chain(&files.chain)?;
        let key = read_key(&files.key)?;
        let leaf = chain.first().ok_or_else(|| CertificateError::NoCertificate(files.chain.clone()))?;
        let unusable = |reason: String| CertificateError::Certificate { file: files.chain.clone(), reason };
        let (_, parsed) = X509Certificate::from_der(leaf).map_err(|error| unusable(error.to_string()))?;
        let names = names_of(&parsed).map_err(unusable)?;
        let common_name = parsed.subject().iter_common_name().next();
        let common_name = common_name.and_then(|name| Some(name.as_str().ok()?.to_owned()));
        let moment = |time: x509_parser::time::ASN1Time| {
            Timestamp::from_secs(u64::try_from(time.timestamp()).unwrap_or(0))
        };
        let (not_before, not_after) =
            (moment(parsed.validity().not_before), moment(parsed.validity().not_after));
        let key = CertifiedKey::from_der(chain, key, &crate::tls_provider::provider())
            .map_err(|error| refused(error, files))?;
        Ok(Self { key: Arc::new(key), files: files.clone(), names, common_name, not_before, not_after })
    }

    /// The names that the certificate is for.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The common name of the subject. It is for people, not a name that the certificate is for.
    pub fn common_name(&self) -> Option<&str> {
        self.common_name.as_deref()
    }

    /// The certificate without its chain, as DER.
    pub fn der(&self) -> &[u8] {
        self.key.cert.first().map_or(&[], |leaf| leaf)
    }

    /// The files that it was read from.
    pub fn files(&self) -> &CertificateFiles {
        &self.files
    }

    /// The begin and the end of the validity period.
    pub const fn validity(&self) -> (Timestamp, Timestamp) {
        (self.not_before, self.not_after)
    }

    /// Why the certificate is not valid at `now`, if it is not.
    pub fn fault_at(&self, now: Timestamp) -> Option<CertificateError> {
        let file = self.files.chain.clone();
        if now > self.not_after {
            return Some(CertificateError::Expired { file, since: date(self.not_after) });
        }
        (now < self.not_before).then(|| CertificateError::NotYetValid { file, from: date(self.not_before) })
    }

    /// This certificate, unless it is not valid and the one in use is better: still valid, or less
    /// long expired.
    pub(super) fn instead_of(self, old: &Self, now: Timestamp) -> Result<Self, CertificateError> {
        match self.fault_at(now) {
            Some(error) if old.fault_at(now).is_none() || old.not_after > self.not_after => Err(error),
            _ => Ok(self),
        }
    }

    /// Whether the certificate lists this name, which is lower case.
    pub(super) fn names_exactly(&self, name: &str) -> bool {
        self.names.iter().any(|own| own == name)
    }

    /// Whether the certificate is for this name, which is lower case. A wildcard matches one label
    /// (RFC 6125 section 6.4.3).
    pub fn is_for(&self, name: &str) -> bool {
        let parent = name.split_once('.').map(|(_, parent)| parent);
        self.names
            .iter()
            .any(|own| own == name || own.strip_prefix("*.").is_some_and(|own| Some(own) == parent))
    }

    pub(super) fn can_sign(&self, schemes: &[SignatureScheme]) -> bool {
        self.key.key.choose_scheme(schemes).is_some()
    }

    /// Order among certificates for the same name: keys whose signatures cost less come first.
    pub(super) fn rank(&self) -> u8 {
        match self.key.key.algorithm() {
            SignatureAlgorithm::ECDSA => 0,
            SignatureAlgorithm::ED25519 => 1,
            _ => 2,
        }
    }

    pub(crate) fn key(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.key)
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the key.
        f.debug_struct("Certificate")
            .field("files", &self.files)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

/// Reads the certificates in a PEM file, at least one.
pub(crate) fn read_chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).and_then(|certificates| certificates.collect());
    let chain = chain.map_err(|error| unreadable(error, file))?;
    if chain.is_empty() {
        return Err(CertificateError::NoCertificate(file.to_owned()));
    }
    Ok(chain)
}

fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| match error {
        pem::Error::NoItemsFound => CertificateError::NoKey(file.to_owned()),
        error => unreadable(error, file),
    })
}

fn unreadable(error: pem::Error, file: &Path) -> CertificateError {
    let file = file.to_owned();
    match error {
        pem::Error::Io(error) => CertificateError::Unreadable { file, error },
        error => CertificateError::Damaged { file, reason: error.to_string() },
    }
}

/// Translates the reason why a key and a certificate do not serve together.
fn refused(error: Error, files: &CertificateFiles) -> CertificateError {
    match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => CertificateError::OtherKey(files.clone()),
        Error::InvalidCertificate(error) => {
            CertificateError::Certificate { file: files.chain.clone(), reason: error.to_string() }
        }
        error => CertificateError::Key { file: files.key.clone(), reason: error.to_string() },
    }
}

/// The names in the certificate's subject alternative names. The common name does not count (RFC
/// 9525 section 2).
fn names_of(certificate: &X509Certificate<'_>) -> Result<Vec<String>, String> {
    let found = certificate.subject_alternative_name().map_err(|error| error.to_string())?;
    let names = found.iter().flat_map(|extension| &extension.value.general_names);
    Ok(names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            GeneralName::IPAddress(octets) => address(octets),
            _ => None,
        })
        .collect())
}

fn address(octets: &[u8]) -> Option<String> {
    use std::net::{Ipv4Addr, Ipv6Addr};
    let v4 = <[u8; 4]>::try_from(octets).map(|octets| Ipv4Addr::from(octets).to_string());
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(|octets| Ipv6Addr::from(octets).to_string())).ok()
}

/// A date for messages, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(at: Timestamp) -> String {
    httpdate::fmt_http_date(at.to_system_time())
}
