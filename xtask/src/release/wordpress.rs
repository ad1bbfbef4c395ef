//! The zip of the WordPress plugin, which wp-admin accepts for upload.
//!
//! Invariant: the files are in alphabetical order, and all have the first time that the format
//! knows, so that the same sources give the same bytes.

use super::contents::PackagedFile;
use anyhow::{Context, Result};
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// Name of the zip. It has no version, because WordPress shows the name to its users.
const NAME: &str = "petasos-wordpress.zip";
/// The plugin's source. The zip has its files in a directory of the same name.
const SOURCE: &str = "integrations/wordpress/petasos";
/// Files of the repository that the plugin's directory gets in addition.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Makes the zip in the directory `out` and returns its path.
pub(super) fn make(out: &Path) -> Result<PathBuf> {
    let path = out.join(NAME);
    super::write(&path, &archive(&files()?)?)?;
    Ok(path)
}

/// The plugin's files in alphabetical order.
fn files() -> Result<Vec<PackagedFile>> {
    let mut files = Vec::new();
    for name in LICENCES {
        files.push(PackagedFile::copy(format!("petasos/{name}"), name)?);
    }
    let mut directories = vec![PathBuf::from(SOURCE)];
    while let Some(directory) = directories.pop() {
        for entry in
            fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let below = path.strip_prefix(SOURCE).context("it is below the source")?;
                files.push(PackagedFile::copy(format!("petasos/{}", below.display()), &path)?);
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

fn archive(files: &[PackagedFile]) -> Result<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for file in files {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default())
            .unix_permissions(file.mode);
        writer.start_file(&file.path, options)?;
        writer.write_all(&file.content)?;
    }
    Ok(writer.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::{NAME, SOURCE, make};
    use std::collections::BTreeMap;
    use std::fs;
    use std::io::{Cursor, Read};
    use zip::ZipArchive;

    /// Makes the zip and returns its bytes.
    fn made() -> Vec<u8> {
        std::env::set_current_dir(crate::repository()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = make(directory.path()).unwrap();
        assert_eq!(path.file_name().unwrap(), NAME);
        fs::read(path).unwrap()
    }

    #[test]
    fn zip_has_the_plugin_and_the_same_bytes_each_time() {
        let bytes = made();
        assert!(bytes == made(), "the second zip differs");
        let mut archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
        let mut files = BTreeMap::new();
        let mut names = Vec::new();
        for index in 0..archive.len() {
            let mut file = archive.by_index(index).unwrap();
            let name = file.name().unwrap().into_owned();
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(file.unix_mode().unwrap() & 0o777, 0o644, "{name}");
            names.push(name.clone());
            files.insert(name, text);
        }
        assert!(names.is_sorted() && names.iter().all(|name| name.starts_with("petasos/")), "{names:?}");
        for name in [
            "LICENSE-APACHE",
            "LICENSE-MIT",
            "drop-ins/advanced-cache.php",
            "drop-ins/object-cache.php",
            "petasos.php",
            "readme.txt",
            "src/Screen.php",
            "uninstall.php",
        ] {
            assert!(files.contains_key(&format!("petasos/{name}")), "{name} in {names:?}");
        }
        let source = fs::read_to_string(format!("{SOURCE}/src/Screen.php")).unwrap();
        assert_eq!(files["petasos/src/Screen.php"], source);
    }

    #[test]
    fn plugin_and_readme_state_the_version_and_what_they_need() {
        std::env::set_current_dir(crate::repository()).unwrap();
        let plugin = fs::read_to_string(format!("{SOURCE}/petasos.php")).unwrap();
        let readme = fs::read_to_string(format!("{SOURCE}/readme.txt")).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        assert!(plugin.contains(&format!(" * Version: {version}\n")));
        assert!(readme.contains(&format!("\nStable tag: {version}\n")));
        for line in ["Requires at least: 6.1\n", "Requires PHP: 7.4\n", "License: MIT OR Apache-2.0\n"] {
            assert!(plugin.contains(line) && readme.contains(line), "{line}");
        }
    }
}
