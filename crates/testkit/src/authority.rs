//! A certificate authority for tests, and the PEM files that it issues.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_RSA_SHA256, date_time_ymd,
};
use std::path::{Path, PathBuf};

/// An authority that tests trust.
pub struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// The kind of key of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// The elliptic curve P-256.
    Ecdsa,
    /// RSA with 2048 bits.
    Rsa,
}

/// A server's certificate and key, and the authority that signed it, in PEM. For programs that read
/// files.
#[derive(Clone, Debug)]
pub struct PemFiles {
    /// The authority's certificate.
    pub authority: String,
    /// The server's certificate.
    pub certificate: String,
    /// The server's key.
    pub key: String,
}

impl Authority {
    /// A new authority. Each needs its own name: a client would report a second one of the same
    /// name as a bad signature.
    pub fn new(name: &str) -> Self {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.distinguished_name.push(DnType::CommonName, name);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = authority.self_signed(&key).unwrap();
        Self { certificate, issuer: Issuer::new(authority, key) }
    }

    /// The authority's certificate in PEM.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Issues a certificate for these names and addresses. `years` are the first and the first
    /// invalid year.
    pub fn issue(&self, names: &[&str], kind: KeyKind, years: (i32, i32)) -> PemFiles {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut server = CertificateParams::new(names).unwrap();
        (server.not_before, server.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
        let algorithm = match kind {
            KeyKind::Ecdsa => &PKCS_ECDSA_P256_SHA256,
            KeyKind::Rsa => &PKCS_RSA_SHA256,
        };
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = server.signed_by(&key, &self.issuer).unwrap();
        PemFiles { authority: self.pem(), certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl PemFiles {
    /// Creates a valid certificate for `localhost` and `127.0.0.1`, signed by a new authority.
    pub fn make() -> Self {
        let authority = Authority::new("an authority for files");
        authority.issue(&["localhost", "127.0.0.1"], KeyKind::Ecdsa, (2000, 2100))
    }

    /// Writes certificate and key to `NAME.pem` and `NAME.key` in a directory, and returns the
    /// paths.
    pub fn write(&self, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (chain, key) = (directory.join(format!("{name}.pem")), directory.join(format!("{name}.key")));
        std::fs::write(&chain, &self.certificate).unwrap();
        std::fs::write(&key, &self.key).unwrap();
        (chain, key)
    }
}
