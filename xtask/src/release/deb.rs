//! The Debian package.
//!
//! Invariants: the package needs exactly the C library that its program names. Every file below
//! /etc is a configuration file of dpkg, so that an upgrade keeps the administrator's changes.

use super::contents::{PackagedFile, completion, documents, lay_out, manual};
use super::{Release, output};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the repository that the package has unchanged: the path in the package, the source.
const COPIED: [(&str, &str); 6] = [
    ("etc/petasos/petasos.toml", "contrib/petasos.toml"),
    ("etc/logrotate.d/petasos", "contrib/petasos.logrotate"),
    ("lib/systemd/system/petasos.service", "contrib/systemd/petasos.service"),
    ("lib/systemd/system/petasos.socket", "contrib/systemd/petasos.socket"),
    ("usr/lib/tmpfiles.d/petasos.conf", "contrib/systemd/petasos.tmpfiles"),
    ("usr/share/doc/petasos/copyright", "contrib/debian/copyright"),
];
/// Completion scripts: the path in the package, the shell.
const COMPLETIONS: [(&str, &str); 3] = [
    ("usr/share/bash-completion/completions/petasos", "bash"),
    ("usr/share/fish/vendor_completions.d/petasos.fish", "fish"),
    ("usr/share/zsh/vendor-completions/_petasos", "zsh"),
];
/// The scripts that dpkg runs.
const SCRIPTS: [&str; 3] = ["postinst", "postrm", "prerm"];
/// The description in dpkg's format.
const DESCRIPTION: &str = "caching reverse proxy and load tester for web sites
 Petasos accelerates WordPress, MediaWiki, Drupal, TYPO3 or any other web
 application: it caches pages, compresses them, serves static files and obtains
 certificates. It also measures sites with a load tester, and proves what each
 layer of a caching stack contributes.
";

/// Makes the package in the directory `out` and returns its path.
pub(super) fn make(release: &Release, program: &Path, out: &Path) -> Result<PathBuf> {
    let stage = tempfile::tempdir()?;
    let top = stage.path().join("petasos");
    let files = files(release, program)?;
    lay_out(&files, &top)?;
    lay_out(&control(release, &files)?, &top)?;
    let path = out.join(format!("petasos_{}_{}.deb", version(release), release.target.debian));
    let mut command = Command::new("dpkg-deb");
    // Times are set back to this one.
    command.env("SOURCE_DATE_EPOCH", release.epoch_secs.to_string());
    output(command.args(["--root-owner-group", "-Zxz", "--build"]).arg(&top).arg(&path))
        .context("this needs Debian's package dpkg")?;
    Ok(path)
}

fn version(release: &Release) -> String {
    format!("{}-{}", release.version, release.revision)
}

/// The files that the package installs.
fn files(release: &Release, program: &Path) -> Result<Vec<PackagedFile>> {
    let mut files = vec![PackagedFile::copy("usr/bin/petasos", program)?.executable()];
    for (path, source) in COPIED {
        files.push(PackagedFile::copy(path, source)?);
    }
    for (path, shell) in COMPLETIONS {
        files.push(PackagedFile::new(path, completion(release, program, shell)?));
    }
    for page in manual(release, program)? {
        files.push(PackagedFile { path: format!("usr/share/man/man1/{}", page.path), ..page }.compressed()?);
    }
    files.extend(documents(release, "usr/share/doc/petasos")?);
    files.push(PackagedFile::copy("usr/share/doc/petasos/changelog", "CHANGELOG.md")?.compressed()?);
    let changes = PackagedFile::new("usr/share/doc/petasos/changelog.Debian", changelog(release)?);
    files.push(changes.compressed()?);
    Ok(files)
}

/// The files that dpkg reads.
fn control(release: &Release, files: &[PackagedFile]) -> Result<Vec<PackagedFile>> {
    let mut control = vec![PackagedFile::new("DEBIAN/control", fields(release, files))];
    let configuration = files.iter().filter(|file| file.path.starts_with("etc/"));
    let configuration: String = configuration.map(|file| format!("/{}\n", file.path)).collect();
    control.push(PackagedFile::new("DEBIAN/conffiles", configuration));
    control.push(PackagedFile::new("DEBIAN/md5sums", md5sums(files)?));
    for name in SCRIPTS {
        let source = format!("contrib/debian/{name}");
        control.push(PackagedFile::copy(format!("DEBIAN/{name}"), source)?.executable());
    }
    Ok(control)
}

fn fields(release: &Release, files: &[PackagedFile]) -> String {
    let kilobytes: usize = files.iter().map(|file| file.content.len().div_ceil(1024)).sum();
    let program = files.first().map_or(&[][..], |file| &file.content);
    format!(
        "Package: petasos\nVersion: {}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {kilobytes}\n\
         Depends: {}, adduser\nRecommends: ca-certificates, logrotate\nSection: httpd\nPriority: optional\n\
         Description: {DESCRIPTION}",
        version(release),
        release.target.debian,
        release.maintainer,
        libraries(program).join(", "),
    )
}

/// The packages of the libraries that a program needs. The version of the C library follows from
/// the newest version of a symbol.
fn libraries(program: &[u8]) -> Vec<String> {
    let newest = numbers_after(program, b"GLIBC_2.").into_iter().max();
    let mut needed: Vec<_> = newest.map(|minor| format!("libc6 (>= 2.{minor})")).into_iter().collect();
    if memchr::memmem::find(program, b"libgcc_s.so.1").is_some() {
        needed.push("libgcc-s1 (>= 3.0)".to_owned());
    }
    needed
}

/// The numbers that follow a text wherever it occurs.
fn numbers_after(bytes: &[u8], text: &[u8]) -> BTreeSet<u32> {
    let rests = memchr::memmem::find_iter(bytes, text).filter_map(|at| bytes.get(at + text.len()..));
    let digits = |rest: &[u8]| -> String {
        rest.iter().map_while(|byte| byte.is_ascii_digit().then_some(char::from(*byte))).collect()
    };
    rests.filter_map(|rest| digits(rest).parse().ok()).collect()
}

/// Debian's changelog, with one entry: the changes themselves are in the changelog of Petasos.
fn changelog(release: &Release) -> Result<String> {
    let time = format!("--date=@{}", release.epoch_secs);
    let date = output(Command::new("date").args(["--utc", "--rfc-email", &time]).env("LC_ALL", "C"))?;
    Ok(format!(
        "petasos ({}) stable; urgency=medium\n\n  * See changelog.gz.\n\n -- {}  {}\n",
        version(release),
        release.maintainer,
        date.trim()
    ))
}

/// Checksums for `dpkg --verify`, which finds changed files with them.
fn md5sums(files: &[PackagedFile]) -> Result<String> {
    let stage = tempfile::tempdir()?;
    let checked: Vec<_> = files.iter().filter(|file| !file.path.starts_with("etc/")).collect();
    for file in &checked {
        let path = stage.path().join(&file.path);
        fs::create_dir_all(path.parent().unwrap_or_else(|| stage.path()))?;
        fs::write(path, &file.content)?;
    }
    output(Command::new("md5sum").args(checked.iter().map(|file| &file.path)).current_dir(stage.path()))
}
