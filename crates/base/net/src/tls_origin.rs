//! TLS towards origins: which authorities an origin is verified by, and the certificate that
//! Petasos shows to it.
//!
//! Invariant: an origin is verified unless the operator has switched that off. A file that cannot
//! be used is an error that names it, never a less secure connection.

use crate::certificates::{Certificate, CertificateError, CertificateFiles, read_chain};
use crate::{TlsClient, TlsError};
use std::path::{Path, PathBuf};
use tls_terms::TlsTerms;

/// How connections to an origin are secured, as the operator wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OriginTlsTerms {
    /// The PEM file with the authorities, or with certificates of servers. `None`: the authorities
    /// that the system trusts.
    pub authorities: Option<PathBuf>,
    /// The certificate that Petasos shows to an origin that asks for one.
    pub certificate: Option<CertificateFiles>,
    /// Whether the origin is verified.
    pub is_verified: bool,
}

/// Why connections to an origin cannot be secured as the operator wants.
#[derive(Debug, thiserror::Error)]
pub enum OriginTlsError {
    /// A file cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The file with authorities has no certificate.
    #[error(
        "{} holds no certificate; it must hold those of the authorities, or the origin's own, as PEM",
        .0.display()
    )]
    NoAuthority(PathBuf),
    /// The name or the authorities cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl TlsClient {
    /// Reads the files of these terms; blocks.
    ///
    /// # Errors
    /// [`OriginTlsError`].
    pub fn for_origin(terms: &OriginTlsTerms) -> Result<Self, OriginTlsError> {
        let authorities = terms.authorities.as_deref().filter(|_| terms.is_verified);
        authorities.map_or(Ok(()), check_authorities)?;
        let client = Self::on_terms(terms.is_verified, authorities, &TlsTerms::default())?;
        match &terms.certificate {
            Some(files) => Ok(client.presenting(Certificate::read(files)?.key())),
            None => Ok(client),
        }
    }
}

/// Finds the fault of a file with authorities. The library that reads such files reports an empty
/// one as if the system had no authorities.
fn check_authorities(file: &Path) -> Result<(), OriginTlsError> {
    match read_chain(file) {
        Ok(_) => Ok(()),
        Err(CertificateError::NoCertificate(file)) => Err(OriginTlsError::NoAuthority(file)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::OriginTlsTerms;
    use crate::{CertificateFiles, TlsClient};
    use testkit::PemFiles;

    #[test]
    fn unusable_files_are_errors_that_name_them() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let (one, other) = (PemFiles::make(), PemFiles::make());
        let ((chain, key), (_, other_key)) =
            (one.write(directory.path(), "one"), other.write(directory.path(), "other"));
        std::fs::write(at("empty.pem"), "").unwrap();
        std::fs::write(at("cut.pem"), &one.authority[..one.authority.len() / 2]).unwrap();
        std::fs::write(at("good.pem"), &one.authority).unwrap();
        let pair = |chain: &std::path::Path, key: &std::path::Path| {
            Some(CertificateFiles { chain: chain.to_owned(), key: key.to_owned() })
        };
        for (authorities, certificate, expected) in [
            (Some(at("none.pem")), None, "cannot read"),
            (Some(at("empty.pem")), None, "empty.pem holds no certificate; it must hold those of the auth"),
            (Some(at("cut.pem")), None, "cut.pem is damaged"),
            (None, pair(&chain, &other_key), "does not belong to the certificate"),
            (None, pair(&at("none.pem"), &key), "cannot read"),
            (None, pair(&chain, &at("empty.pem")), "empty.pem holds no private key"),
        ] {
            let is_verified = authorities.is_some();
            let terms = OriginTlsTerms { authorities, certificate, is_verified };
            let error = TlsClient::for_origin(&terms).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(".pem"), "{error}");
        }
        let authorities = Some(at("good.pem"));
        let terms = OriginTlsTerms { authorities, certificate: pair(&chain, &key), is_verified: true };
        assert!(TlsClient::for_origin(&terms).unwrap().verifies());
    }
}
