//! A client's offer in a TLS handshake, and the result of the negotiation, as values. The names are
//! those of OpenSSL's tools.
//!
//! Invariant: this crate holds values only. `net` makes the handshake, so that a crate that only
//! plans or reports connections needs no TLS library.

mod agreement;
mod suites;

pub use agreement::TlsAgreement;
pub use suites::{TlsSuites, TlsSuitesError, TlsVersion, name_and_bits};

use std::path::PathBuf;

/// Restrictions on the offered versions and suites, and the client's own certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsTerms {
    /// The only version to use; `None` means all supported versions.
    pub version: Option<TlsVersion>,
    /// The cipher suites to offer; `None` means all supported suites.
    pub suites: Option<TlsSuites>,
    /// A PEM file with the client's certificate, the intermediate certificates, and its private
    /// key.
    pub identity_file: Option<PathBuf>,
}
