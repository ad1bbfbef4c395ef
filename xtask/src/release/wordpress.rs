//! The zip of the WordPress plugin, which wp-admin accepts for upload.
//!
//! Invariant: the files are in alphabetical order, and all have the earliest time of the format, so
//! that the same sources give the same bytes. Only PHP files, the readme and the licences are in
//! it, so that a file which an editor or an operator has left in the directory is not published.

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

/// Whether a file of the plugin's directory is part of the plugin.
fn is_part(below: &Path) -> bool {
    let is_hidden = below.iter().any(|name| name.as_encoded_bytes().starts_with(b"."));
    !is_hidden && (below == Path::new("readme.txt") || below.extension().is_some_and(|kind| kind == "php"))
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
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let below = path.strip_prefix(SOURCE).context("it is below the source")?;
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() && is_part(below) {
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
    use super::{NAME, SOURCE, is_part, make};
    use std::collections::BTreeMap;
    use std::fs;
    use std::io::{Cursor, Read};
    use std::path::Path;
    use zip::ZipArchive;

    /// The files of the zip, below the plugin's directory.
    const FILES: [&str; 57] = [
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "drop-ins/advanced-cache.php",
        "drop-ins/object-cache.php",
        "objects/ApcuBackend.php",
        "objects/Backend.php",
        "objects/Codec.php",
        "objects/Gone.php",
        "objects/MemcachedBackend.php",
        "objects/ObjectCache.php",
        "objects/RedisBackend.php",
        "objects/Router.php",
        "objects/TableBackend.php",
        "objects/functions.php",
        "pages/Address.php",
        "pages/BackendStore.php",
        "pages/FileStore.php",
        "pages/Page.php",
        "pages/PageCache.php",
        "pages/PurgeLog.php",
        "pages/Store.php",
        "pages/TableStore.php",
        "petasos.php",
        "readme.txt",
        "src/Actions.php",
        "src/AdminBar.php",
        "src/Changes.php",
        "src/Cleanup.php",
        "src/ConfigFile.php",
        "src/DropIns.php",
        "src/Edge.php",
        "src/Exclusions.php",
        "src/Files.php",
        "src/Forms.php",
        "src/Headers.php",
        "src/Http.php",
        "src/Ladder.php",
        "src/LadderTable.php",
        "src/Languages.php",
        "src/Loopback.php",
        "src/Measurement.php",
        "src/OldUrls.php",
        "src/PageTags.php",
        "src/Plugin.php",
        "src/Probe.php",
        "src/Purges.php",
        "src/Screen.php",
        "src/Settings.php",
        "src/Shop.php",
        "src/SiteHealth.php",
        "src/Stored.php",
        "src/TagList.php",
        "src/Text.php",
        "src/Visitor.php",
        "src/Webhook.php",
        "src/autoload.php",
        "uninstall.php",
    ];

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
        assert_eq!(names, FILES.map(|name| format!("petasos/{name}")));
        let source = fs::read_to_string(format!("{SOURCE}/src/Screen.php")).unwrap();
        assert_eq!(files["petasos/src/Screen.php"], source);
    }

    #[test]
    fn what_others_left_in_the_directory_is_no_part() {
        for name in ["petasos.php", "src/Screen.php", "readme.txt"] {
            assert!(is_part(Path::new(name)), "{name}");
        }
        for name in [
            ".env",
            ".git/a.php",
            "src/.Screen.php",
            "src/Screen.php~",
            "notes.txt",
            "src/readme.txt",
            "a.zip",
        ] {
            assert!(!is_part(Path::new(name)), "{name}");
        }
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
