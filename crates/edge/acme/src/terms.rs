//! The terms on which certificates are obtained.

use std::path::PathBuf;

/// The authority that issues certificates, and the terms of the orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeTerms {
    /// The URL of the authority's directory.
    pub directory_url: String,
    /// The operator's mail address.
    pub contact: Option<String>,
    /// The file with the authorities that verify the server of the certificate authority. `None`:
    /// those of the system.
    pub ca_file: Option<PathBuf>,
    /// The file with the external account binding. `None`: the authority needs none.
    pub binding_file: Option<PathBuf>,
    /// The directory for state that survives restarts.
    pub state_directory: PathBuf,
}
