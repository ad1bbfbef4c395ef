//! Certificates that sign themselves: one to start a listener with, and those that an authority is
//! shown when it validates by TLS.
//!
//! Invariant: browsers trust none of them.

use crate::files::FileError;
use clock::Timestamp;
use rcgen::{CertificateParams, CustomExtension, DnType, KeyPair, date_time_ymd};
use std::time::Duration;

/// The common name of a placeholder. A later start recognises it.
pub(crate) const PLACEHOLDER: &str = "Petasos placeholder, not a certificate of an authority";

/// The validity of a placeholder. Each start makes a new one if there is still no other.
const VALID_FOR: Duration = Duration::from_secs(365 * 86_400);

/// How far the clocks of clients may be slow.
const SLOW_CLOCKS: Duration = Duration::from_secs(86_400);

/// A certificate and its key as DER, the key in PKCS #8.
pub(crate) struct CertificateAndKey {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// A placeholder for these names as PEM, with its key.
pub(crate) fn placeholder(names: &[String], now: Timestamp) -> Result<String, FileError> {
    let mut wanted = CertificateParams::new(names.to_vec())?;
    wanted.distinguished_name = rcgen::DistinguishedName::new();
    wanted.distinguished_name.push(DnType::CommonName, PLACEHOLDER);
    set_validity(&mut wanted, now, VALID_FOR);
    let key = KeyPair::generate()?;
    Ok(wanted.self_signed(&key)?.pem() + &key.serialize_pem())
}

/// The certificate that shows the digest of a key authorization (RFC 8737 section 3).
pub(crate) fn for_validation(name: &str, digest: &[u8]) -> Result<CertificateAndKey, FileError> {
    let mut wanted = CertificateParams::new(vec![name.to_owned()])?;
    wanted.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate()?;
    let certificate = wanted.self_signed(&key)?.der().to_vec();
    Ok(CertificateAndKey { certificate, key: key.serialize_der() })
}

/// Makes a certificate valid from a little before `now`, for clients with slow clocks, until
/// `valid_for` after it.
pub(crate) fn set_validity(wanted: &mut CertificateParams, now: Timestamp, valid_for: Duration) {
    let now = date_time_ymd(1970, 1, 1) + Duration::from_secs(now.as_secs());
    (wanted.not_before, wanted.not_after) = (now - SLOW_CLOCKS, now + valid_for);
}

#[cfg(test)]
mod tests {
    use super::{PLACEHOLDER, placeholder};
    use clock::Timestamp;
    use net::{Certificate, CertificateFiles};

    #[test]
    fn a_placeholder_is_valid_for_its_names_from_now_on() {
        let directory = tempfile::tempdir().unwrap();
        let (file, now) = (directory.path().join("a.pem"), Timestamp::from_secs(1_790_000_000));
        std::fs::write(&file, placeholder(&["a.test".to_owned(), "b.test".to_owned()], now).unwrap())
            .unwrap();
        let read = Certificate::read(&CertificateFiles { chain: file.clone(), key: file }).unwrap();
        assert_eq!(read.names(), ["a.test", "b.test"]);
        assert!(read.fault_at(now).is_none());
        assert_eq!(read.common_name(), Some(PLACEHOLDER));
    }
}
