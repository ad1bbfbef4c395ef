//! A local authority for development: it issues the certificates of this machine's listeners, and
//! browsers that trust it show no warning.
//!
//! Invariant: the key of the authority never leaves its directory, and only its owner can read it.
//! The authority signs nothing but the one certificate for the listeners.

use crate::files::{self, FileError, PUBLIC, SECRET};
use crate::record::renewal_time;
use crate::self_signed::set_validity;
use clock::Timestamp;
use net::{Certificate, CertificateFiles};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names of this machine. Every certificate is for them too.
const THIS_MACHINE: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

const DAY: Duration = Duration::from_secs(86_400);

/// The validity of the authority.
const AUTHORITY_VALID_FOR: Duration = Duration::from_secs(3652 * 86_400);

/// The validity of the listeners' certificate.
const VALID_FOR: Duration = Duration::from_secs(90 * 86_400);

/// A local authority in its directory.
#[derive(Clone, Debug)]
pub struct LocalAuthority {
    directory: PathBuf,
    names: Vec<String>,
}

impl LocalAuthority {
    /// The authority below a state directory, for the listeners of sites with these names.
    pub fn new(state_directory: &Path, names: &[String]) -> Self {
        let mut own: Vec<String> = Vec::with_capacity(names.len() + THIS_MACHINE.len());
        let local = THIS_MACHINE.iter().map(|name| (*name).to_owned());
        for name in names.iter().map(|name| unbracketed(name)).chain(local) {
            if !own.contains(&name) {
                own.push(name);
            }
        }
        Self { directory: state_directory.join("local-authority"), names: own }
    }

    /// The names that its certificate is for.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The certificate that browsers must trust.
    pub fn trusted_file(&self) -> PathBuf {
        self.directory.join("authority.pem")
    }

    /// The listeners' certificate with its key.
    pub fn files(&self) -> CertificateFiles {
        let file = self.directory.join("site.pem");
        CertificateFiles { chain: file.clone(), key: file }
    }

    /// Makes the authority and the listeners' certificate if they are missing or due for renewal.
    /// Returns whether there is a new certificate. Blocks.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn renew(&self, now: Timestamp) -> Result<bool, FileError> {
        let held = Certificate::read(&self.files()).ok().filter(|held| self.is_good(held, now));
        if held.is_some() && self.authority_at(now)?.is_some() {
            return Ok(false);
        }
        files::create_directory(&self.directory)?;
        let issuer = self.issuer(now)?;
        let mut wanted = CertificateParams::new(self.names.clone())?;
        wanted.distinguished_name = DistinguishedName::new();
        wanted.use_authority_key_identifier_extension = true;
        wanted.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        wanted.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        set_validity(&mut wanted, now, VALID_FOR);
        let key = KeyPair::generate()?;
        let certificate = wanted.signed_by(&key, &issuer)?;
        files::write(&self.files().chain, &(certificate.pem() + &key.serialize_pem()), SECRET)?;
        Ok(true)
    }

    /// Whether a certificate is for the names and not due for renewal.
    fn is_good(&self, held: &Certificate, now: Timestamp) -> bool {
        held.names() == self.names && held.fault_at(now).is_none() && now < renewal_time(held.validity(), 0)
    }

    /// The authority's certificate, if it outlives a certificate that it issues now. A clock that
    /// is behind does not replace it, because browsers trust this one.
    ///
    /// # Errors
    /// If it exists and cannot be used. It is not replaced then, for the same reason.
    fn authority_at(&self, now: Timestamp) -> Result<Option<Certificate>, FileError> {
        let path = self.trusted_file();
        if files::read(&path)?.is_none() {
            return Ok(None);
        }
        let files = CertificateFiles { chain: path.clone(), key: self.key_file() };
        let unusable = |error: net::CertificateError| FileError::Content { path, reason: error.to_string() };
        let held = Certificate::read(&files).map_err(unusable)?;
        Ok(Some(held).filter(|held| held.validity().1 > now.plus(VALID_FOR)))
    }

    fn key_file(&self) -> PathBuf {
        self.directory.join("authority.key")
    }

    /// The authority; made if it is missing or ends soon.
    fn issuer(&self, now: Timestamp) -> Result<Issuer<'static, KeyPair>, FileError> {
        if let Some(held) = self.authority_at(now)?
            && let Some(name) = held.common_name()
            && let Some(key) = files::read(&self.key_file())?
        {
            return Ok(Issuer::new(terms(name)?, KeyPair::from_pem(&key)?));
        }
        // Two authorities of one name would look to a browser like one with a bad signature.
        let name = format!("Petasos local authority {}", now.as_secs());
        let mut wanted = terms(&name)?;
        set_validity(&mut wanted, now, AUTHORITY_VALID_FOR + DAY);
        let key = KeyPair::generate()?;
        let certificate = wanted.self_signed(&key)?;
        files::write(&self.key_file(), &key.serialize_pem(), SECRET)?;
        files::write(&self.trusted_file(), &certificate.pem(), PUBLIC)?;
        Ok(Issuer::new(wanted, key))
    }
}

/// The terms of an authority, which may not appoint further ones.
fn terms(name: &str) -> Result<CertificateParams, FileError> {
    let mut wanted = CertificateParams::new(Vec::new())?;
    wanted.distinguished_name = DistinguishedName::new();
    wanted.distinguished_name.push(DnType::CommonName, name);
    wanted.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    wanted.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(wanted)
}

/// A name without the brackets of an IPv6 address, and an address as certificates have it.
fn unbracketed(name: &str) -> String {
    let name = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    name.parse::<IpAddr>().map_or_else(|_| name.to_owned(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::{DAY, LocalAuthority};
    use clock::Timestamp;
    use net::Certificate;
    use std::os::unix::fs::PermissionsExt as _;

    const NOW: Timestamp = Timestamp::from_secs(1_790_000_000);

    #[test]
    fn a_local_authority_renews_its_certificate_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let authority = LocalAuthority::new(directory.path(), &["www.a.test".to_owned()]);
        assert!(authority.renew(NOW).unwrap() && !authority.renew(NOW).unwrap());
        let first = Certificate::read(&authority.files()).unwrap();
        assert_eq!(first.names(), ["www.a.test", "localhost", "127.0.0.1", "::1"]);
        assert!(first.fault_at(NOW).is_none());
        let trusted = std::fs::read(authority.trusted_file()).unwrap();
        for (after, renewed) in [(DAY * 59, false), (DAY * 61, true), (DAY * 62, false)] {
            assert_eq!(authority.renew(NOW.plus(after)).unwrap(), renewed, "{after:?}");
        }
        assert_eq!(std::fs::read(authority.trusted_file()).unwrap(), trusted);
        let other = LocalAuthority::new(directory.path(), &["[0::0:1]".to_owned()]);
        assert!(other.renew(NOW.plus(DAY * 62)).unwrap(), "for other names");
        assert_eq!(Certificate::read(&other.files()).unwrap().names(), ["::1", "localhost", "127.0.0.1"]);
        // A slow clock or an unreadable file replaces no authority.
        other.renew(Timestamp::from_secs(0)).unwrap();
        assert_eq!(std::fs::read(authority.trusted_file()).unwrap(), trusted);
        std::fs::write(authority.trusted_file(), "damaged").unwrap();
        assert!(other.renew(NOW).is_err());
        assert_eq!(std::fs::read(authority.trusted_file()).unwrap(), b"damaged");
        std::fs::write(authority.trusted_file(), &trusted).unwrap();
        assert!(other.renew(NOW.plus(DAY * 3600)).unwrap());
        assert_ne!(std::fs::read(authority.trusted_file()).unwrap(), trusted, "the old one ends");
    }

    #[test]
    fn only_the_owner_can_read_the_keys_of_the_authority() {
        let directory = tempfile::tempdir().unwrap();
        let authority = LocalAuthority::new(directory.path(), &[]);
        authority.renew(NOW).unwrap();
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&authority.key_file()), 0o600);
        assert_eq!(mode(&authority.files().key), 0o600);
        assert_eq!(mode(&authority.directory), 0o700);
    }
}
