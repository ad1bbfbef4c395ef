//! The Python packages of a stack as wheels, because its root has no network.
//!
//! Invariant: a directory of wheels is complete or missing.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Debian's Python, which is also that of the root, so that the wheels fit.
const PYTHON: &str = "/usr/bin/python3";

/// Downloads the packages that the file `requirements` pins into a directory below `directory`, by
/// pip with the caller's configuration, unless they are there. Returns that directory.
///
/// # Errors
/// If pip fails.
pub(super) fn download(requirements: &Path, directory: &Path) -> Result<PathBuf> {
    let (wheels, new) = (directory.join("wheels"), directory.join("wheels.new"));
    let mark = wheels.join("requirements.txt");
    let wanted = fs::read(requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
    if fs::read(&mark).is_ok_and(|found| found == wanted) {
        return Ok(wheels);
    }
    println!("downloading the packages of {}", requirements.display());
    for old in [&wheels, &new] {
        let _ = fs::remove_dir_all(old);
    }
    fs::create_dir_all(&new)?;
    // Debian has pip for virtual environments only.
    let venv = new.join("venv");
    run(Command::new(PYTHON).args(["-m", "venv"]).arg(&venv))?;
    let mut pip = Command::new(venv.join("bin/python"));
    pip.args(["-m", "pip", "download", "--no-input", "--quiet", "--only-binary=:all:", "--dest"]);
    run(pip.arg(&new).arg("--requirement").arg(requirements))?;
    fs::remove_dir_all(&venv)?;
    fs::write(new.join("requirements.txt"), &wanted)?;
    fs::rename(&new, &wheels)?;
    Ok(wheels)
}

/// Runs a program.
fn run(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot run {:?}", command.get_program()))?;
    ensure!(status.success(), "{:?} failed with {status}", command.get_program());
    Ok(())
}
