//! The manifest: a list of the files that this process has written or was about to write. A later
//! process may remove them.
//!
//! Invariant: a place is listed durably before its first file exists. A later process checks the
//! list as untrusted input.

use crate::layout::FilePath;
use platform::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Upper bound of listed places without files (roughly) before the list is rewritten.
const IDLE_MAX: usize = 4_096;

/// The open list.
#[derive(Debug)]
pub(crate) struct Manifest {
    path: PathBuf,
    file: File,
    listed: HashSet<FilePath>,
    /// Whether the last line may be incomplete, for example because the disk was full.
    is_torn: bool,
}

impl Manifest {
    /// Reads the safe places from the list at `path`. Empty if there is no list.
    pub(crate) fn read(path: &Path) -> io::Result<Vec<FilePath>> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read?,
        };
        let lines = text.split(|octet| *octet == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        Ok(lines.filter(|line| is_safe(line)).map(FilePath::from).collect())
    }

    /// Creates an empty list at `path`, or truncates an existing one.
    pub(crate) fn create(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).write(true).truncate(true).open(&path)?;
        file.sync_all()?;
        Ok(Self { path, file, listed: HashSet::default(), is_torn: false })
    }

    /// Adds a place durably, unless it is listed. `in_use` returns the places that have files; it
    /// is called only if the list may have to be rewritten.
    pub(crate) fn note(
        &mut self,
        place: &FilePath,
        in_use: impl FnOnce() -> Vec<FilePath>,
    ) -> io::Result<()> {
        if self.listed.contains(place) {
            return Ok(());
        }
        if self.listed.len() >= IDLE_MAX {
            let in_use = in_use();
            if self.listed.len() >= 2 * in_use.len() + IDLE_MAX {
                self.write_anew(in_use)?;
            }
        }
        append(&mut self.file, &mut self.is_torn, place)?;
        self.file.sync_data()?;
        self.listed.insert(place.clone());
        Ok(())
    }

    fn write_anew(&mut self, places: Vec<FilePath>) -> io::Result<()> {
        let newer = self.path.with_extension("new");
        let mut file = File::create(&newer)?;
        file.write_all(places.iter().map(|place| format!("{place}\n")).collect::<String>().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&newer, &self.path)?;
        self.file = file;
        self.listed = places.into_iter().collect();
        self.is_torn = false;
        Ok(())
    }
}

/// Appends a line. If an earlier line is incomplete, a line break first ends it.
fn append(list: &mut impl Write, is_torn: &mut bool, place: &str) -> io::Result<()> {
    let start = if *is_torn { "\n" } else { "" };
    *is_torn = true;
    list.write_all(format!("{start}{place}\n").as_bytes())?;
    *is_torn = false;
    Ok(())
}

/// Whether a line is a relative path that stays inside the tree, so that a tree may have written
/// it.
fn is_safe(line: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && !name.starts_with('.') && !name.chars().any(char::is_control);
    line.contains('/') && line.split('/').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::{IDLE_MAX, Manifest, append, is_safe};
    use std::io::{self, Write};

    #[test]
    fn lines_that_leave_the_tree_are_ignored() {
        assert!(is_safe("a.test/b/index.html"));
        for line in ["", "/etc/passwd", "a/../b", "../b", "a//b", "index", "a/.b", ".petasos/lock", "a/b\r"] {
            assert!(!is_safe(line), "{line}");
        }
    }

    /// A disk with room for the given number of bytes.
    struct BoundedDisk(Vec<u8>, usize);

    impl Write for BoundedDisk {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            let room = octets.len().min(self.1 - self.0.len());
            self.0.extend(&octets[..room]);
            if room == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(room) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn line_cut_by_a_full_disk_spoils_no_other() {
        let mut disk = BoundedDisk(Vec::new(), 12);
        let mut is_torn = false;
        append(&mut disk, &mut is_torn, "a/one").unwrap();
        assert!(append(&mut disk, &mut is_torn, "a/second").is_err());
        assert!(append(&mut disk, &mut is_torn, "a/second").is_err());
        disk.1 = 100;
        append(&mut disk, &mut is_torn, "a/third").unwrap();
        append(&mut disk, &mut is_torn, "a/last").unwrap();
        assert_eq!(String::from_utf8(disk.0).unwrap(), "a/one\na/seco\na/third\na/last\n");
    }

    #[test]
    fn list_survives_the_process_and_stays_short() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("manifest");
        assert!(Manifest::read(&path).unwrap().is_empty());
        let mut manifest = Manifest::create(path.clone()).unwrap();
        let kept = "a/kept".into();
        for n in 0..IDLE_MAX + 10 {
            manifest.note(&format!("a/{n}").into(), || vec!["a/kept".into()]).unwrap();
        }
        manifest.note(&kept, Vec::new).unwrap();
        let read = Manifest::read(&path).unwrap();
        assert!(
            read.len() < 20 && read.contains(&kept) && read.contains(&format!("a/{}", IDLE_MAX + 9).into())
        );
        assert!(Manifest::read(&path.with_extension("new")).unwrap().is_empty());
    }
}
