//! Servers that a benchmark compares with Petasos: their packages, their directory, and the program
//! under test in it.
//!
//! Invariant: servers that a killed run left are stopped before the next run begins.

use crate::packages;
use crate::place::{self, output};
use crate::service::LabDirectory;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// The name of a server and its Debian package. Petasos has none.
pub(super) type Rival = (&'static str, Option<&'static str>);

/// Installs missing packages of `rivals`, and prepares their directory with a copy of `program`.
/// The file keeps a second benchmark out.
///
/// # Errors
/// If a package cannot be installed, another benchmark uses the directory, or it cannot be written.
pub(super) fn settle(directory: &str, program: &Path, rivals: &[Rival]) -> Result<(LabDirectory, File)> {
    let wanted: Vec<_> = rivals.iter().filter_map(|(_, package)| *package).collect();
    packages::ensure(&wanted)?;
    let directory = std::path::absolute(directory)?;
    let lock = place::lock(&directory)?;
    let place = LabDirectory::settle(&directory)?;
    rivals.iter().try_for_each(|(name, _)| place.stop(name).map(|_| ()))?;
    let copy = place.directory.join("petasos");
    // Copied because the servers' user may not have access to the original.
    fs::copy(program, &copy)
        .and_then(|_| place.account.give(&copy))
        .with_context(|| format!("cannot copy {}", program.display()))?;
    Ok((place, lock))
}

/// Name and version of each server.
///
/// # Errors
/// If a server or `dpkg-query` does not run.
pub(super) fn versions(place: &LabDirectory, rivals: &[Rival]) -> Result<String> {
    let version = |(_, package): &Rival| match package {
        None => output(Command::new(place.directory.join("petasos")).arg("--version")),
        Some(package) => {
            let format = "--showformat=${Package} ${Version}";
            output(Command::new("dpkg-query").args(["--show", format, package]))
        }
    };
    Ok(rivals.iter().map(version).collect::<Result<Vec<_>>>()?.join(", "))
}
