//! Finds files of other programs in the directory, and links.
//!
//! Invariant: nothing is changed, and no link is followed. A damaged file of the tier still counts
//! as the tier's, because its first bytes are zeros or those of the format, or both in this order.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use platform::{Access, Disk};

use crate::names::{FileKind, INVALIDATIONS, LOCK, MARK, replaced};
use crate::{journal_file, mark};

/// An entry of the directory that does not belong to the tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignEntry {
    path: PathBuf,
    is_file: bool,
}

impl fmt::Display for ForeignEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.is_file {
            "which does not belong to the disk cache"
        } else {
            "which is a symbolic link, socket, pipe or device, and no file of the disk cache"
        };
        write!(f, "{}, {why}", self.path.display())
    }
}

/// The first entry by name that belongs neither to the tier nor to the caller's `companions`. A
/// symbolic link never belongs to them, whatever its name is.
///
/// # Errors
/// As the system reports them.
pub fn foreign(disk: &dyn Disk, directory: &Path, companions: &[&str]) -> io::Result<Option<ForeignEntry>> {
    let mut files = disk.list(directory)?;
    files.sort();
    for (name, bytes) in files {
        let path = directory.join(&name);
        let Some(bytes) = bytes else { return Ok(Some(ForeignEntry { path, is_file: false })) };
        let is_ours = match name.as_str() {
            // The tier never writes to its lock file.
            LOCK => bytes == 0,
            MARK => begins_as(disk, &path, mark::MAGIC)?,
            INVALIDATIONS => begins_as(disk, &path, journal_file::MAGIC)?,
            name => {
                FileKind::of(name) != FileKind::Other || companions.contains(&replaced(name).unwrap_or(name))
            }
        };
        if !is_ours {
            return Ok(Some(ForeignEntry { path, is_file: true }));
        }
    }
    Ok(None)
}

/// Whether the file begins with the magic bytes, or is spoiled or empty. A process that was killed
/// while it spoiled the file leaves zeros and the rest of the magic bytes.
fn begins_as(disk: &dyn Disk, path: &Path, magic: &[u8; 8]) -> io::Result<bool> {
    let mut begin = [0; 8];
    let file = match disk.open(path, Access::Read) {
        Ok(file) => file,
        // The file was removed meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    let count = file.read_at(&mut begin, 0)?;
    let begin = begin.get(..count).unwrap_or_default();
    let zeros = begin.iter().take_while(|&&byte| byte == 0).count();
    let (rest, expected) = (begin.get(zeros..).unwrap_or_default(), magic.get(zeros..).unwrap_or_default());
    Ok(expected.starts_with(rest))
}

#[cfg(test)]
mod tests {
    use super::{ForeignEntry, foreign};
    use platform::SystemDisk;
    use std::fs;

    #[test]
    fn files_of_other_programs_are_found() {
        for (name, content, is_foreign) in [
            ("letter.txt", "precious", true),
            ("mark", "my grades", true),
            ("invalidations", "list of the ill", true),
            ("lock", "a poem", true),
            ("mark-sketch.partial", "precious", true),
            ("segment-cuts.partial", "precious", true),
            (".hidden", "", true),
            ("lock", "", false),
            ("mark", "", false),
            ("mark", "\0\0\0\0\0\0\0\0after a spoiled one", false),
            ("mark", "\0\0\0ASOSD after a kill while it was spoiled", false),
            ("mark", "\0\0\0their data", true),
            ("mark", "PETASOSD and damage", false),
            ("invalidations", "PETASOSI and damage", false),
            ("mark.123.partial", "left by a crash", false),
            ("segment-00000007.index.123.partial", "left by a crash", false),
            ("segment-00000007.data", "", false),
            ("recognised", "{}", false),
            ("recognised.123.partial", "left by a crash", false),
            ("recognised.partial", "precious", true),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(name);
            fs::create_dir(directory.path().join("lost+found")).unwrap();
            fs::write(&path, content).unwrap();
            let found = foreign(&SystemDisk, directory.path(), &["recognised"]).unwrap();
            let expected = is_foreign.then_some(ForeignEntry { path, is_file: true });
            assert_eq!(found, expected, "{name}: {content}");
        }
    }

    #[test]
    fn link_is_foreign_whatever_its_name_is() {
        let elsewhere = tempfile::tempdir().unwrap();
        let target = elsewhere.path().join("target");
        fs::write(&target, "").unwrap();
        for name in
            ["mark", "lock", "invalidations", "segment-00000007.data", "mark.123.partial", "recognised"]
        {
            for target in [&target, &elsewhere.path().join("missing")] {
                let directory = tempfile::tempdir().unwrap();
                let path = directory.path().join(name);
                std::os::unix::fs::symlink(target, &path).unwrap();
                let found = foreign(&SystemDisk, directory.path(), &["recognised"]).unwrap().unwrap();
                let words = "which is a symbolic link, socket, pipe or device, and no file of the disk cache";
                assert_eq!(found.to_string(), format!("{}, {words}", path.display()));
            }
        }
    }
}
