//! Python for a stack: a virtual environment with pinned packages, made by Debian's Python.
//!
//! Invariant: an environment is marked when it is complete, and the next run removes an incomplete
//! one. This module has no code for a particular application.

use super::files;
use super::stack::{StackSite, remove};
use anyhow::{Context, Result};
use std::fs;
use std::process::{Command, Stdio};

/// Makes the virtual environment `venv` with the packages in `requirements` (the text of
/// `labs/LAB/requirements.txt`), unless it is current. It runs as the caller, because the caller
/// may have configured how pip fetches packages. The servers only read the environment.
///
/// # Errors
/// If Python or pip fails; shows the end of its log.
pub(crate) fn environment(site: &StackSite<'_>, requirements: &str) -> Result<()> {
    let venv = site.at("venv");
    let mark = site.at("venv/requirements.txt");
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
    // `--only-binary` is only the default: a requirements file may exempt packages without a wheel.
    install.args(["-m", "pip", "install", "--no-input", "--only-binary=:all:", "--requirement"]).arg(&new);
    site.run("pip", install.stdin(Stdio::null()))?;
    fs::rename(&new, &mark).with_context(|| format!("cannot write {}", mark.display()))
}
