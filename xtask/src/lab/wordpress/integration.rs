//! Copies the plugin and the drop-ins of `integrations/wordpress` into the lab's WordPress.
//!
//! Invariant: after `install` the copies equal the files of the repository, with no file more. They
//! are inactive at first: the lab's `wp-config.php` switches them on for the layers in use.

use crate::place::make_own;
use crate::service::LabDirectory;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Source directory, relative to the repository.
const SOURCE: &str = "integrations/wordpress";
/// Target directory, relative to the lab's directory.
const TARGET: &str = "wordpress/wp-content";
/// Copied files and directories: name in the source, and name in the target.
const PARTS: [(&str, &str); 3] = [
    ("petasos", "plugins/petasos"),
    ("petasos/drop-ins/advanced-cache.php", "advanced-cache.php"),
    ("petasos/drop-ins/object-cache.php", "object-cache.php"),
];

/// Whether the copies equal the files of the repository.
pub(super) fn is_current(place: &LabDirectory) -> bool {
    let target = place.directory.join(TARGET);
    PARTS.iter().all(|(from, to)| {
        let same = |old: &Path, new: &Path| Some(contents(old).ok()? == contents(new).ok()?);
        same(&source().join(from), &target.join(to)).unwrap_or(false)
    })
}

/// Copies all parts and replaces older copies.
///
/// # Errors
/// Names the file that cannot be read or written.
pub(super) fn install(place: &LabDirectory) -> Result<()> {
    for (from, to) in PARTS {
        let target = place.directory.join(TARGET).join(to);
        if target.is_dir() {
            fs::remove_dir_all(&target).with_context(|| format!("cannot remove {}", target.display()))?;
        }
        for (path, text) in contents(&source().join(from))? {
            let path = if path.as_os_str().is_empty() { target.clone() } else { target.join(path) };
            let missing: Vec<_> = path.ancestors().skip(1).take_while(|parent| !parent.exists()).collect();
            missing.iter().rev().try_for_each(|parent| make_own(place.account, parent))?;
            let below = path.strip_prefix(&place.directory).context("it was joined to it")?;
            place.write(below.to_str().context("names in the repository are text")?, &text)?;
        }
    }
    Ok(())
}

fn source() -> PathBuf {
    crate::repository().join(SOURCE)
}

/// The files below `top` in order, each with its path relative to `top`. If `top` is a file, its
/// relative path is empty.
fn contents(top: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    let mut rest = vec![top.to_owned()];
    while let Some(path) = rest.pop() {
        let context = || format!("cannot read {}", path.display());
        if path.is_dir() {
            for entry in fs::read_dir(&path).with_context(context)? {
                rest.push(entry?.path());
            }
        } else {
            found.push((
                path.strip_prefix(top).unwrap_or(&path).to_owned(),
                fs::read_to_string(&path).with_context(context)?,
            ));
        }
    }
    found.sort();
    Ok(found)
}
