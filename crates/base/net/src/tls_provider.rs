//! The cryptography that all TLS of the program uses.

use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};

/// The cryptography provider. Each configuration receives it from here, so that no crate's default
/// selects another one.
pub(crate) fn provider() -> CryptoProvider {
    aws_lc_rs::default_provider()
}
