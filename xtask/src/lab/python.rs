//! Python for a stack: an environment of its own with pinned packages, made by Debian's Python.
//!
//! Invariant: an environment is marked when it is complete; a killed attempt is thrown away by the next. It knows no
//! application.

use super::files;
use super::stack::{Site, remove};
use anyhow::{Context, Result};
use std::fs;
use std::process::{Command, Stdio};

/// Makes the environment `venv` with these requirements, the text of `labs/LAB/requirements.txt`, unless it is there.
/// The caller does it, since it is the caller who has set up how packages are fetched; the servers only read it.
///
/// # Errors
/// If Python or pip fails, with the end of its log.
pub(crate) fn environment(site: &Site<'_>, requirements: &str) -> Result<()> {
    let (venv, mark) = (site.at("venv"), site.at("venv/requirements.txt"));
    if files::holds(&mark, requirements) {
        return Ok(());
    }
    remove(&venv)?;
    let mut make = Command::new("/usr/bin/python3");
    site.run("venv", make.args(["-m", "venv"]).arg(&venv).stdin(Stdio::null()))?;
    let new = site.at("conf/requirements.txt");
    files::write(&new, requirements)?;
    eprintln!("installing Python packages from labs/{}/requirements.txt", site.stack.name);
    let mut install = Command::new(site.at("venv/bin/python"));
    // Requirements may name packages that have no wheel and are built.
    install.args(["-m", "pip", "install", "--no-input", "--only-binary=:all:", "--requirement"]).arg(&new);
    site.run("pip", install.stdin(Stdio::null()))?;
    fs::rename(&new, &mark).with_context(|| format!("cannot write {}", mark.display()))
}
