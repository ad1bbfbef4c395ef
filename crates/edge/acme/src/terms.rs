//! The terms on which certificates are obtained.

use std::path::PathBuf;

/// Whom certificates come from, and on which terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeTerms {
    /// The URL of the authority's directory.
    pub directory_url: String,
    /// The operator's mail address.
    pub contact: Option<String>,
    /// The file with the authorities by which the authority's server is verified. `None`: those of
    /// the system.
    pub ca_file: Option<PathBuf>,
    /// The file with the external account binding. `None`: the authority needs none.
    pub binding_file: Option<PathBuf>,
    /// The directory for state that survives restarts.
    pub state_directory: PathBuf,
}
