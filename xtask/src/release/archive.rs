//! The static tarball: one program that needs no library of the system, with its documents, units
//! and a configuration.

use super::Release;
use super::contents::{PackagedFile, completion, documents, gzip, lay_out, manual, tar};
use anyhow::Result;
use std::path::{Path, PathBuf};

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
    let uncompressed = tar(stage.path(), &name, release.epoch_secs)?;
    super::write(&path, &gzip(&uncompressed)?)?;
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
