//! The names of the tier's files.

use std::path::{Path, PathBuf};

/// Locked by the process that uses the directory.
pub(crate) const LOCK: &str = "lock";
/// The mark; see [`crate::mark`].
pub(crate) const MARK: &str = "mark";
/// The journal of invalidations.
pub(crate) const INVALIDATIONS: &str = "invalidations";

const DATA: &str = ".data";
const INDEX: &str = ".index";
/// The end of the name of a temporary file, which was to replace another file.
const PARTIAL: &str = ".partial";

/// The kind of a file in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Data(u32),
    Index(u32),
    Invalidations,
    /// A temporary file that a process left behind.
    Partial,
    /// The lock, the mark, and files that are not the tier's.
    Other,
}

/// The name of the file that a temporary file was to replace. A temporary name is the name of that
/// file, the process id and a suffix.
pub(crate) fn replaced(name: &str) -> Option<&str> {
    let (of, process) = name.strip_suffix(PARTIAL)?.rsplit_once('.')?;
    process.parse::<u32>().is_ok().then_some(of)
}

impl FileKind {
    pub(crate) fn of(name: &str) -> Self {
        if let Some(of) = replaced(name) {
            let is_ours = of == MARK || Self::of(of) != Self::Other;
            return if is_ours { Self::Partial } else { Self::Other };
        }
        if name == INVALIDATIONS {
            return Self::Invalidations;
        }
        let number = |end| {
            let digits = name.strip_prefix("segment-")?.strip_suffix(end)?;
            u32::from_str_radix(digits, 16).ok().filter(|number| format!("{number:08x}") == digits)
        };
        number(DATA).map(Self::Data).or_else(|| number(INDEX).map(Self::Index)).unwrap_or(Self::Other)
    }
}

/// The file with a segment's records.
pub(crate) fn data(directory: &Path, segment: u32) -> PathBuf {
    directory.join(format!("segment-{segment:08x}{DATA}"))
}

/// The file with a segment's index.
pub(crate) fn index(directory: &Path, segment: u32) -> PathBuf {
    directory.join(format!("segment-{segment:08x}{INDEX}"))
}

#[cfg(test)]
mod tests {
    use super::{FileKind, data, index};
    use std::path::Path;

    fn of(path: &Path) -> FileKind {
        FileKind::of(path.file_name().unwrap().to_str().unwrap())
    }

    #[test]
    fn file_names_round_trip() {
        assert_eq!(of(&data(Path::new("/c"), 0x12ab)), FileKind::Data(0x12ab));
        assert_eq!(of(&index(Path::new("/c"), 7)), FileKind::Index(7));
        assert_eq!(FileKind::of("invalidations"), FileKind::Invalidations);
        assert_eq!(FileKind::of("segment-00000007.index.123.partial"), FileKind::Partial);
        assert_eq!(FileKind::of("mark.123.partial"), FileKind::Partial);
    }

    #[test]
    fn names_of_other_files_are_not_ours() {
        for name in [
            "lock",
            "mark",
            "lost+found",
            "segment-7.data",
            "segment-+0000007.data",
            "letter.partial",
            "mark.partial",
            "mark-7.partial",
        ] {
            assert_eq!(FileKind::of(name), FileKind::Other, "{name}");
        }
    }
}
