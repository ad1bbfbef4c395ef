//! Certificates that Petasos obtains itself: from an authority by ACME (RFC 8555), or from a local
//! authority for development.
//!
//! Invariant: no failure here takes a certificate away that serves. A certificate is replaced as a
//! whole, and only by one that was found to be usable. This crate writes files; the listeners read
//! them again as they do with files of other programs.

mod account;
mod answers;
mod authority_client;
mod binding;
mod files;
mod issuer;
mod local_authority;
mod managed;
mod order;
mod record;
mod self_signed;
mod terms;

pub use answers::{Answers, HttpChallenges};
pub use authority_client::AuthorityError;
pub use files::FileError;
pub use issuer::{Issuer, Outcome};
pub use local_authority::LocalAuthority;
pub use managed::CertificateReport;
pub use order::ValidationMethod;
pub use terms::AcmeTerms;
