//! The list of places that files were, or were about to be, written to: what a later process may remove.
//!
//! Invariant: a place is listed, durably, before its first file is there. What the list names is checked as if anybody
//! had written it.

use crate::layout::Place;
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Places that are listed and have no file any more, before the list is written anew.
const IDLE_MAX: usize = 4_096;

/// The list.
#[derive(Debug)]
pub(crate) struct Manifest {
    path: PathBuf,
    file: File,
    listed: HashSet<Place>,
    /// Whether the last line may have been written in part, as when the disk is full.
    is_torn: bool,
}

impl Manifest {
    /// The places that the list at `path` has; none if there is no list.
    pub(crate) fn read(path: &Path) -> io::Result<Vec<Place>> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read?,
        };
        let lines = text.split(|octet| *octet == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        Ok(lines.filter(|line| is_safe(line)).map(Place::from).collect())
    }

    /// An empty list at `path`.
    pub(crate) fn create(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).write(true).truncate(true).open(&path)?;
        file.sync_all()?;
        Ok(Self { path, file, listed: HashSet::new(), is_torn: false })
    }

    /// Lists a place. `in_use` are those that have files, for when the list has become too long.
    pub(crate) fn note(&mut self, place: &Place, in_use: impl FnOnce() -> Vec<Place>) -> io::Result<()> {
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

    fn write_anew(&mut self, places: Vec<Place>) -> io::Result<()> {
        let newer = self.path.with_extension("new");
        let mut file = File::create(&newer)?;
        file.write_all(places.iter().map(|place| format!("{place}\n")).collect::<String>().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&newer, &self.path)?;
        (self.file, self.listed, self.is_torn) = (file, places.into_iter().collect(), false);
        Ok(())
    }
}

/// Adds a line; what of an earlier one could not be written stays a line of its own.
fn append(list: &mut impl Write, is_torn: &mut bool, place: &str) -> io::Result<()> {
    let start = if *is_torn { "\n" } else { "" };
    *is_torn = true;
    list.write_all(format!("{start}{place}\n").as_bytes())?;
    *is_torn = false;
    Ok(())
}

/// Whether a line names a file inside of the tree that may have been ours.
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
    fn lines_that_lead_elsewhere_are_not_read() {
        assert!(is_safe("a.test/b/index.html"));
        for line in ["", "/etc/passwd", "a/../b", "../b", "a//b", "index", "a/.b", ".petasos/lock", "a/b\r"] {
            assert!(!is_safe(line), "{line}");
        }
    }

    /// A disk with room for so many octets.
    struct Disk(Vec<u8>, usize);

    impl Write for Disk {
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
    fn a_line_that_a_full_disk_has_cut_spoils_no_other() {
        let (mut disk, mut is_torn) = (Disk(Vec::new(), 12), false);
        append(&mut disk, &mut is_torn, "a/one").unwrap();
        assert!(append(&mut disk, &mut is_torn, "a/second").is_err());
        assert!(append(&mut disk, &mut is_torn, "a/second").is_err());
        disk.1 = 100;
        append(&mut disk, &mut is_torn, "a/third").unwrap();
        append(&mut disk, &mut is_torn, "a/last").unwrap();
        assert_eq!(String::from_utf8(disk.0).unwrap(), "a/one\na/seco\na/third\na/last\n");
    }

    #[test]
    fn the_list_outlives_the_process_and_stays_short() {
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
