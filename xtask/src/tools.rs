//! Cargo's helper programs, built once into target/tools from the registry, so that nothing of the user's
//! own is changed.

use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;

/// The tools there are, with the version that is built.
const TOOLS: [(&str, &str); 2] = [("cargo-deny", "0.20.2"), ("cargo-fuzz", "0.13.2")];

/// The path of a tool, which is built if it is not there yet.
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
        // Their own release profiles optimise for minutes what then runs for seconds.
        .args(["install", "--quiet", "--locked", "--profile", "dev", "--version", version, "--root"])
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .arg(&root)
        .arg(name)
        .status()?;
    ensure!(status.success() && path.exists(), "cargo could not build {name}: {status}");
    Ok(path)
}

/// Looks the locked dependencies up in the advisory database.
///
/// # Errors
/// If the database cannot be fetched, or has something to say that deny.toml does not answer.
pub(crate) fn advisories() -> Result<()> {
    let status = Command::new(ensure("cargo-deny")?).args(["check", "advisories"]).status()?;
    ensure!(status.success(), "cargo-deny ended with {status}; the advisory database comes from the network");
    Ok(())
}
