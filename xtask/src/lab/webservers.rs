//! Installs the servers of labs/webservers. Their ladder starts and stops them.
//!
//! Invariant: only packages are added to the machine, and no service is started (see [`packages`]).

use crate::packages;
use anyhow::Result;

/// The servers, and the Python modules that the handlers need.
pub(crate) const PACKAGES: [&str; 6] =
    ["nginx-core", "apache2-bin", "mongrel2-core", "python3-zmq", "python3-gevent", "python3-tornado"];

/// Installs the missing packages.
///
/// # Errors
/// As [`packages::ensure`].
pub(crate) fn up() -> Result<()> {
    packages::ensure(&PACKAGES)?;
    eprintln!("labs/webservers is ready: cargo run --release -- ladder labs/webservers/ladder.toml");
    Ok(())
}
