//! The files of a package, and how they get into a directory from which an archive is made.
//!
//! Invariant: a file has the mode that its row states, whatever the umask.

use super::{Release, notices, output, renderer};
use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A file of a package.
pub(super) struct PackagedFile {
    /// Its path in the package, without a slash at the beginning.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) content: Vec<u8>,
}

impl PackagedFile {
    /// A file that everybody may read.
    pub(super) fn new(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: 0o644, content: content.into() }
    }

    /// A copy of a file of the repository.
    pub(super) fn copy(path: impl Into<String>, source: impl AsRef<Path>) -> Result<Self> {
        let source = source.as_ref();
        Ok(Self::new(path, fs::read(source).with_context(|| format!("cannot read {}", source.display()))?))
    }

    /// Lets everybody execute the file.
    pub(super) fn executable(self) -> Self {
        Self { mode: 0o755, ..self }
    }

    /// The file compressed by gzip.
    pub(super) fn compressed(self) -> Result<Self> {
        Ok(Self { path: format!("{}.gz", self.path), content: gzip(&self.content)?, ..self })
    }
}

/// Compresses without a name and a time in the header.
pub(super) fn gzip(content: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    Ok(encoder.finish()?)
}

/// The directory `name` below `stage` as a tar archive with fixed times, owners and order.
/// `epoch_secs` is the time of all its files.
pub(super) fn tar(stage: &Path, name: &str, epoch_secs: u64) -> Result<Vec<u8>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("archive.tar");
    let mut command = Command::new("tar");
    command.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    command.arg(format!("--mtime=@{epoch_secs}"));
    output(command.arg("-C").arg(stage).arg("-cf").arg(&path).arg(name))?;
    Ok(fs::read(path)?)
}

/// The manual pages, each `petasos-NAME.1`.
pub(super) fn manual(release: &Release, program: &Path) -> Result<Vec<PackagedFile>> {
    let directory = tempfile::tempdir()?;
    output(Command::new(renderer(release, program)?).arg("manual").arg(directory.path()))?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(directory.path())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        pages.push(PackagedFile::copy(name, entry.path())?);
    }
    // The order of a directory is arbitrary.
    pages.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(pages)
}

/// The completion script of a shell.
pub(super) fn completion(release: &Release, program: &Path, shell: &str) -> Result<Vec<u8>> {
    Ok(output(Command::new(renderer(release, program)?).args(["completions", shell]))?.into_bytes())
}

/// The documents for operators, and the licences of all components, below a directory of the
/// package.
pub(super) fn documents(release: &Release, below: &str) -> Result<Vec<PackagedFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir("docs")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push(PackagedFile::copy(format!("{below}/{name}"), &path)?);
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let licences = notices::text(&release.components)?;
    files.push(PackagedFile::new(format!("{below}/third-party-licences.txt"), licences).compressed()?);
    Ok(files)
}

/// Writes files below a directory.
pub(super) fn lay_out(files: &[PackagedFile], top: &Path) -> Result<()> {
    for file in files {
        let path = top.join(&file.path);
        let parents = path.ancestors().skip(1).take_while(|parent| *parent != top);
        fs::create_dir_all(path.parent().unwrap_or(top))?;
        for parent in parents {
            fs::set_permissions(parent, fs::Permissions::from_mode(0o755))?;
        }
        super::write(&path, &file.content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode))?;
    }
    Ok(())
}
