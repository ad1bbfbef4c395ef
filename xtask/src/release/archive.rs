//! The static tarball: one program that needs no library of the system, with its documents, units
//! and a configuration.

use super::contents::{PackagedFile, completion, documents, lay_out, manual};
use super::{Release, output};
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the repository that the tarball has unchanged: the path in the tarball, the source.
const COPIED: [(&str, &str); 9] = [
    ("etc/petasos.toml", "contrib/petasos.toml"),
    ("systemd/petasos.service", "contrib/systemd/petasos.service"),
    ("systemd/petasos.socket", "contrib/systemd/petasos.socket"),
    ("systemd/petasos.sysusers", "contrib/systemd/petasos.sysusers"),
    ("systemd/petasos.tmpfiles", "contrib/systemd/petasos.tmpfiles"),
    ("etc/petasos.logrotate", "contrib/petasos.logrotate"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
];

/// Makes the tarball in the directory `out` and returns its path.
pub(super) fn make(release: &Release, program: &Path, out: &Path) -> Result<PathBuf> {
    let name = format!("petasos-{}-{}-static", release.version, release.target.triple);
    let stage = tempfile::tempdir()?;
    let top = stage.path().join(&name);
    lay_out(&files(release, program)?, &top)?;
    let path = std::path::absolute(out.join(format!("{name}.tar.gz")))?;
    let uncompressed = output_bytes(release, stage.path(), &name)?;
    super::write(&path, &super::contents::gzip(&uncompressed)?)?;
    Ok(out.join(format!("{name}.tar.gz")))
}

fn files(release: &Release, program: &Path) -> Result<Vec<PackagedFile>> {
    let mut files = vec![PackagedFile::copy("bin/petasos", program)?.executable()];
    for (path, source) in COPIED {
        files.push(PackagedFile::copy(path, source)?);
    }
    for (path, shell) in [("petasos.bash", "bash"), ("_petasos", "zsh"), ("petasos.fish", "fish")] {
        files.push(PackagedFile::new(format!("completions/{path}"), completion(release, program, shell)?));
    }
    for page in manual(release, program)? {
        files.push(PackagedFile { path: format!("man/man1/{}", page.path), ..page });
    }
    files.extend(documents(release, "doc")?);
    Ok(files)
}

/// The directory `name` below `stage` as a tar archive with fixed times, owners and order.
fn output_bytes(release: &Release, stage: &Path, name: &str) -> Result<Vec<u8>> {
    let path = stage.join("archive.tar");
    let mut command = Command::new("tar");
    command.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    command.arg(format!("--mtime=@{}", release.epoch_secs));
    output(command.arg("-C").arg(stage).arg("-cf").arg(&path).arg(name))?;
    Ok(fs::read(path)?)
}
