//! Node.js packages for tests and labs: those of a committed lock file, in their own directory.
//!
//! Invariant: nothing is installed outside of that directory, except Debian's Node.js packages if
//! there is no Node.js. An installation is marked when it is complete.

use crate::packages::{self, tail};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Debian packages with Node.js.
const NODE_PACKAGES: [&str; 2] = ["nodejs", "npm"];

/// Installs Debian's Node.js if there is none.
///
/// # Errors
/// As [`packages::ensure`].
pub(crate) fn ensure_node() -> Result<()> {
    if runs("node") && runs("npm") { Ok(()) } else { packages::ensure(&NODE_PACKAGES) }
}

/// Whether a program of this name exists and starts.
fn runs(program: &str) -> bool {
    let started = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    started.is_ok_and(|status| status.success())
}

/// Installs the packages of `package-lock.json` in `source` below `place`, unless they are there.
/// Returns their directory.
///
/// # Errors
/// If npm fails; shows the end of its log.
pub(crate) fn install(source: &Path, place: &Path) -> Result<PathBuf> {
    let lock = source.join("package-lock.json");
    let installed = place.join("installed.json");
    let wanted = fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    let modules = place.join("node_modules");
    if fs::read(&installed).is_ok_and(|found| found == wanted) && modules.exists() {
        return Ok(modules);
    }
    ensure_node()?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(source.join(name), place.join(name))?;
    }
    let log_path = place.join("npm.log");
    let log = File::create(&log_path).with_context(|| format!("cannot write {}", log_path.display()))?;
    eprintln!("installing the packages of {} into {}", lock.display(), modules.display());
    let status = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(place)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .context("cannot run npm")?;
    ensure!(status.success(), "npm ci ended with {status}; {}", tail(&log_path));
    fs::write(&installed, wanted)?;
    Ok(modules)
}
