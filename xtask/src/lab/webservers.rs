//! The servers of labs/webservers. Their ladder starts and stops them; here they are installed.
//!
//! Invariant: as `packages`: nothing is started, and nothing but packages is added to the machine.

use crate::packages;
use anyhow::Result;

/// The programs, and the modules for Python that the handlers need.
pub(crate) const PACKAGES: [&str; 6] =
    ["nginx-core", "apache2-bin", "mongrel2-core", "python3-zmq", "python3-gevent", "python3-tornado"];

/// Installs what is missing.
///
/// # Errors
/// As [`packages::ensure`].
pub(crate) fn up() -> Result<()> {
    packages::ensure(&PACKAGES)?;
    eprintln!("labs/webservers is ready: cargo run --release -- ladder labs/webservers/ladder.toml");
    Ok(())
}
