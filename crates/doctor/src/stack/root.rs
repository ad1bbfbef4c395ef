//! Configuration files below a root: of this machine, or of a container's image in a folder.
//!
//! Invariant: paths are those inside the root, as the owner of the files writes them. Only reads
//! happen.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Longest file to read, in bytes. Debian's longest configuration file has 80 kB.
const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Most entries of a directory that are looked at.
const ENTRIES_MAX: usize = 10_000;
/// Links that are followed to one file.
const LINKS_MAX: usize = 8;

/// The root directory, or a folder with a copy of one.
#[derive(Clone, Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Whether this is the root of the machine itself, so that its processes and ports belong to
    /// it.
    pub(crate) fn is_machine(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// The text of a file. `None` if it does not exist, may not be read, or is too long.
    pub(crate) fn read(&self, path: &Path) -> Option<String> {
        let place = self.place(path);
        let metadata = fs::metadata(&place).ok()?;
        if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
            return None;
        }
        // Configuration files of old machines may have other encodings in their comments.
        fs::read(place).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.place(path).exists()
    }

    /// Whether a file is missing for certain: the directories above it may be looked into.
    pub(crate) fn is_missing(&self, path: &Path) -> bool {
        matches!(self.place(path).try_exists(), Ok(false))
    }

    /// The entries of a directory by name. Empty if it cannot be read.
    pub(crate) fn list(&self, directory: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.place(directory)).into_iter().flatten().take(ENTRIES_MAX);
        let mut paths: Vec<_> =
            entries.filter_map(Result::ok).map(|entry| directory.join(entry.file_name())).collect();
        paths.sort();
        paths
    }

    /// The files of a directory whose names end so, by name.
    pub(crate) fn list_files(&self, directory: &Path, extension: &str) -> Vec<PathBuf> {
        let mut paths = self.list(directory);
        paths.retain(|path| path.extension().is_some_and(|found| found == extension));
        paths
    }

    /// Where a path inside the root is on the machine. Debian links from one directory of PHP to
    /// another by absolute paths, which hold inside the root.
    pub(crate) fn place(&self, path: &Path) -> PathBuf {
        let mut inside = path.to_owned();
        for _ in 0..LINKS_MAX {
            match fs::read_link(self.outside(&inside)) {
                Ok(target) => inside = inside.parent().unwrap_or_else(|| Path::new("/")).join(target),
                Err(_) => break,
            }
        }
        self.outside(&inside)
    }

    /// The path below the folder. `..` cannot lead out of it.
    fn outside(&self, inside: &Path) -> PathBuf {
        let mut parts = Vec::new();
        for part in inside.components() {
            match part {
                Component::Normal(name) => parts.push(name),
                Component::ParentDir => drop(parts.pop()),
                _ => {}
            }
        }
        let mut place = self.0.clone();
        place.extend(parts);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::Root;
    use std::path::Path;

    #[test]
    fn absolute_links_stay_inside_of_the_root() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("etc/php/conf.d")).unwrap();
        std::fs::write(folder.path().join("etc/opcache.ini"), "inside").unwrap();
        let link = folder.path().join("etc/php/conf.d/10-opcache.ini");
        std::os::unix::fs::symlink("/etc/opcache.ini", &link).unwrap();
        let root = Root::new(folder.path());
        let path = Path::new("/etc/php/conf.d/10-opcache.ini");
        assert_eq!(root.read(path).as_deref(), Some("inside"));
        assert_eq!(root.list_files(Path::new("/etc/php/conf.d"), "ini"), [path]);
        assert_eq!(root.read(Path::new("/../../../etc/opcache.ini")).as_deref(), Some("inside"));
        std::os::unix::fs::symlink("/loop", folder.path().join("loop")).unwrap();
        assert_eq!(root.read(Path::new("/loop")), None);
        assert!(!root.is_machine() && Root::new(Path::new("/")).is_machine());
    }
}
