//! Helper programs of cargo. They are built from the registry into target/tools once, so that the
//! user's own installation stays unchanged.

use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;

/// The tools, with the versions to build.
const TOOLS: [(&str, &str); 2] = [("cargo-deny", "0.20.2"), ("cargo-fuzz", "0.13.2")];

/// Returns the path of a tool, and builds the tool first if it is missing.
///
/// # Errors
/// If cargo cannot build it.
pub(crate) fn ensure(name: &str) -> Result<PathBuf> {
    let root = std::env::current_dir()?.join("target/tools");
    let path = root.join("bin").join(name);
    if path.exists() {
        return Ok(path);
    }
    let (_, version) = TOOLS.iter().find(|(tool, _)| *tool == name).context("the tool is in the table")?;
    eprintln!("building {name} {version} into {}", root.display());
    let status = Command::new(env!("CARGO"))
        // Their own release profiles take minutes to optimise programs that run for seconds.
        .args(["install", "--quiet", "--locked", "--profile", "dev", "--version", version, "--root"])
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .arg(&root)
        .arg(name)
        .status()?;
    ensure!(status.success() && path.exists(), "cargo could not build {name}: {status}");
    Ok(path)
}

/// Checks the locked dependencies against the advisory database.
///
/// # Errors
/// If the database cannot be fetched, or it has an advisory that deny.toml does not ignore.
pub(crate) fn advisories() -> Result<()> {
    let status = Command::new(ensure("cargo-deny")?).args(["check", "advisories"]).status()?;
    ensure!(status.success(), "cargo-deny ended with {status}; the advisory database comes from the network");
    Ok(())
}
