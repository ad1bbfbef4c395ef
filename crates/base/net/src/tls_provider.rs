//! The cryptography that all TLS of the program uses.

use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};

/// The cryptography provider. It is named only here, so that no crate's default selects another
/// one.
pub(crate) fn provider() -> CryptoProvider {
    aws_lc_rs::default_provider()
}
