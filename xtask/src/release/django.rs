//! The Python package for Django and Wagtail: a wheel and a source distribution.
//!
//! Invariant: the same sources, tools and time give the same bytes. The wheel is built by Debian's
//! setuptools from a copy of the sources with fixed modes, without network. The source distribution
//! has these sources and the metadata of the wheel.

use super::contents::{PackagedFile, gzip, lay_out, tar};
use super::output;
use anyhow::{Context, Result};
use std::fs;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use zip::ZipArchive;

/// The sources.
const SOURCE: &str = "integrations/django";
/// The distribution's name in file names.
const NAME: &str = "petasos_django";
/// Debian's Python, whose setuptools and wheel build the wheel.
const PYTHON: &str = "/usr/bin/python3";
/// Builds a wheel of the current directory into the directory of the first argument, and prints its
/// name. setuptools writes other lines too.
const BUILD: &str = "import sys, setuptools.build_meta as build; print(build.build_wheel(sys.argv[1]))";

/// Makes both files in the directory `out` and returns their paths. `epoch_secs` is the time of all
/// their files.
pub(super) fn make(epoch_secs: u64, out: &Path) -> Result<Vec<PathBuf>> {
    let stage = tempfile::tempdir()?;
    let name = format!("{NAME}-{}", env!("CARGO_PKG_VERSION"));
    let top = stage.path().join(&name);
    let files = files()?;
    lay_out(&files, &top)?;
    let (wheel_name, wheel) = build(&top, epoch_secs)?;
    let metadata = metadata(&wheel, &name)?;
    let wheel_path = out.join(wheel_name);
    super::write(&wheel_path, &wheel)?;

    // setuptools has left files in the first copy.
    let clean = tempfile::tempdir()?;
    lay_out(&files, &clean.path().join(&name))?;
    lay_out(&[PackagedFile::new("PKG-INFO", metadata)], &clean.path().join(&name))?;
    let source_path = out.join(format!("{name}.tar.gz"));
    super::write(&source_path, &gzip(&tar(clean.path(), &name, epoch_secs)?)?)?;
    Ok(vec![wheel_path, source_path])
}

/// The files of the source distribution but its metadata.
fn files() -> Result<Vec<PackagedFile>> {
    let mut files = Vec::new();
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        files.push(PackagedFile::copy(name, name)?);
    }
    for name in ["pyproject.toml", "README.md"] {
        files.push(PackagedFile::copy(name, Path::new(SOURCE).join(name))?);
    }
    let mut directories = vec![Path::new(SOURCE).join(NAME)];
    while let Some(directory) = directories.pop() {
        for entry in
            fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?
        {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "py") {
                let below = path.strip_prefix(SOURCE).context("it is below the source")?;
                files.push(PackagedFile::copy(below.display().to_string(), &path)?);
            }
        }
    }
    Ok(files)
}

/// Builds the wheel of the sources at `top`. Returns its file name and its bytes.
fn build(top: &Path, epoch_secs: u64) -> Result<(String, Vec<u8>)> {
    let wheels = tempfile::tempdir()?;
    let mut command = Command::new(PYTHON);
    command.args(["-I", "-B", "-c", BUILD]).arg(wheels.path()).current_dir(top);
    let printed = output(command.env("SOURCE_DATE_EPOCH", epoch_secs.to_string()))
        .context("the wheel needs Debian's packages python3-setuptools and python3-wheel")?;
    let name = printed.trim_end().lines().next_back().context("setuptools printed no name")?.to_owned();
    let wheel = fs::read(wheels.path().join(&name)).with_context(|| format!("{name:?} was not built"))?;
    Ok((name, wheel))
}

/// The metadata in a wheel.
fn metadata(wheel: &[u8], name: &str) -> Result<String> {
    let mut archive = ZipArchive::new(Cursor::new(wheel))?;
    let mut text = String::new();
    archive.by_name(&format!("{name}.dist-info/METADATA"))?.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::{NAME, SOURCE, make};
    use crate::release::output;
    use std::fs;
    use std::io::Cursor;
    use std::process::Command;
    use zip::ZipArchive;

    #[test]
    fn wheel_and_sources_are_whole_and_have_the_same_bytes() {
        std::env::set_current_dir(crate::repository()).unwrap();
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let made = make(1_700_000_000, first.path()).unwrap();
        for (one, other) in made.iter().zip(make(1_700_000_000, second.path()).unwrap()) {
            assert!(fs::read(one).unwrap() == fs::read(&other).unwrap(), "{}", one.display());
        }
        let names: Vec<_> = made.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["petasos_django-0.1.0-py3-none-any.whl", "petasos_django-0.1.0.tar.gz"]);
        let mut wheel = ZipArchive::new(Cursor::new(fs::read(&made[0]).unwrap())).unwrap();
        let listed = output(Command::new("tar").args(["--list", "--file"]).arg(&made[1])).unwrap();
        for file in ["__init__.py", "middleware.py", "wagtail.py", "templatetags/petasos.py"]
            .into_iter()
            .chain(["management/__init__.py", "management/commands/petasos_purge.py"])
        {
            wheel.by_name(&format!("{NAME}/{file}")).unwrap();
            assert!(listed.contains(&format!("petasos_django-0.1.0/{NAME}/{file}\n")), "{file} in {listed}");
        }
        wheel.by_name("petasos_django-0.1.0.dist-info/LICENSE-MIT").unwrap();
        assert!(listed.contains("petasos_django-0.1.0/PKG-INFO\n"), "{listed}");
        assert!(!listed.contains("egg-info") && !listed.contains("tests"), "{listed}");
        assert_eq!(wheel.len(), listed.lines().filter(|line| line.ends_with(".py")).count() + 6);
    }

    #[test]
    fn version_is_stated_once_in_each_place() {
        std::env::set_current_dir(crate::repository()).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let project = fs::read_to_string(format!("{SOURCE}/pyproject.toml")).unwrap();
        let module = fs::read_to_string(format!("{SOURCE}/{NAME}/__init__.py")).unwrap();
        assert!(project.contains(&format!("\nversion = \"{version}\"\n")));
        assert!(module.contains(&format!("\n__version__ = \"{version}\"\n")));
    }
}
