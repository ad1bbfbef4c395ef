//! The files of a stack: templates from `labs/` with the values of this start, and secrets.
//!
//! Invariant: a secret is generated once and then kept. This module starts nothing.

use super::stack::StackSite;
use crate::place::make_own;
use crate::service::LabDirectory;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::path::Path;

/// Bytes of the system's random source in each secret.
const SECRET_BYTES: usize = 32;

/// A file of a stack.
pub(crate) struct StackFile {
    /// Path below the stack's directory.
    path: &'static str,
    /// Text of the template.
    text: &'static str,
    /// Values for this file only. `None` means that the file is copied without replacing
    /// placeholders.
    own: Option<&'static [(&'static str, &'static str)]>,
}

impl StackFile {
    /// A file with placeholders.
    pub(crate) const fn rendered(path: &'static str, text: &'static str) -> Self {
        Self { path, text, own: Some(&[]) }
    }

    /// As [`StackFile::rendered`], with values for this file only.
    const fn with(
        path: &'static str,
        text: &'static str,
        own: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self { path, text, own: Some(own) }
    }

    /// A file for copying unchanged, because it uses double braces for something else.
    pub(crate) const fn verbatim(path: &'static str, text: &'static str) -> Self {
        Self { path, text, own: None }
    }
}

/// A [`StackFile`] with placeholders: its path, and the path of its text below `labs/`.
macro_rules! rendered {
    ($path:literal, $source:literal) => {
        $crate::lab::files::StackFile::rendered($path, $crate::lab::files::text!($source))
    };
}
/// A [`StackFile`] for copying unchanged: its path, and the path of its text below `labs/`.
macro_rules! verbatim {
    ($path:expr, $source:expr) => {
        $crate::lab::files::StackFile::verbatim($path, $crate::lab::files::text!($source))
    };
}
/// The text of a file below `labs/`.
macro_rules! text {
    ($source:expr) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../labs/", $source))
    };
}
pub(crate) use {rendered, text, verbatim};

/// The common part of nginx' configuration in all stacks.
pub(crate) const NGINX_HTTP: StackFile = rendered!("conf/nginx-http.conf", "common/nginx-http.conf");
/// The common files of stacks with MariaDB, nginx, and PHP-FPM with and without opcode cache.
pub(crate) const FOR_PHP: &[StackFile] = &[
    rendered!("conf/my.cnf", "common/my.cnf"),
    rendered!("conf/php.ini", "common/php.ini"),
    StackFile::with("conf/php-plain.conf", text!("common/php-fpm.conf"), &[("pool", "plain")]),
    StackFile::with("conf/php-opcode.conf", text!("common/php-fpm.conf"), &[("pool", "opcode")]),
    NGINX_HTTP,
    rendered!("conf/nginx-php.conf", "common/nginx-php.conf"),
];

/// Whether the files on disk equal those that this version of the stack would write.
pub(crate) fn are_current(site: &StackSite<'_>) -> bool {
    render_all(site).is_ok_and(|files| files.iter().all(|(path, text)| holds(&site.at(path), text)))
}

/// Whether the file exists and holds exactly this text. Marks of completed steps are checked this
/// way.
pub(crate) fn holds(path: &Path, text: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|found| found == text)
}

/// Writes a file that servers do not need to read.
///
/// # Errors
/// Names the file.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes every file of the stack, and makes the directories that it needs.
///
/// # Errors
/// Names the file that cannot be written.
pub(crate) fn write_all(site: &StackSite<'_>) -> Result<()> {
    for (path, text) in render_all(site)? {
        let mut parents: Vec<&Path> = Path::new(path).ancestors().skip(1).collect();
        parents.reverse();
        for parent in parents.iter().map(|parent| site.place.directory.join(parent)) {
            if !parent.exists() {
                make_own(site.place.account, &parent)?;
            }
        }
        site.place.write(path, &text)?;
    }
    Ok(())
}

/// All files of the stack, rendered: path and text.
pub(crate) fn render_all(site: &StackSite<'_>) -> Result<Vec<(&'static str, String)>> {
    let render = |StackFile { path, text, own }: &StackFile| {
        let text = own.map_or_else(|| Ok((*text).to_owned()), |own| site.render(text, own));
        Ok((*path, text.with_context(|| format!("cannot render {path}"))?))
    };
    site.stack.templates.iter().copied().flatten().map(render).collect()
}

/// The secret with this name. It is generated at the first call and kept in a file.
///
/// # Errors
/// Names the file that cannot be read or written.
pub(crate) fn secret(place: &LabDirectory, name: &str) -> Result<String> {
    let path = format!("conf/{}", name.replace('_', "-"));
    let file = place.directory.join(&path);
    if !file.exists() {
        place.write(&path, &draw()?)?;
    }
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// A random secret in hexadecimal digits.
///
/// # Errors
/// If the system's random source cannot be read.
pub(crate) fn draw() -> Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}")?;
    }
    Ok(text)
}
