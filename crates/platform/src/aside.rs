//! A file that is read once, beside everything else: past the system's page cache, where the file system allows that.
//!
//! Invariant: what is in the cache stays there, because others want it, and what is read here does not come in.
//! Besides, this is what the device has, and not what memory remembers of it.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::DiskFile;

/// Offsets, lengths and memory of direct reads are multiples of this, in bytes; no device has larger blocks.
const BLOCK_BYTES: usize = 4096;

/// The most that one direct read takes, in bytes.
const READ_BYTES_MAX: usize = 1 << 20;

/// A file that is read once.
pub(crate) struct AsideFile {
    /// For direct reads; `None` where the file system has none.
    direct: Option<File>,
    file: File,
}

impl AsideFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let flags = OFlags::DIRECT.bits().cast_signed();
        let direct = OpenOptions::new().read(true).custom_flags(flags).open(path).ok();
        Ok(Self { direct, file })
    }
}

impl DiskFile for AsideFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some(direct) = &self.direct else { return self.file.read_at(buffer, offset) };
        match read_direct(direct, buffer, offset) {
            // The file system opened it, and does not read it this way after all.
            Err(error) if error.kind() == ErrorKind::InvalidInput => self.file.read_at(buffer, offset),
            read => read,
        }
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(ErrorKind::PermissionDenied.into())
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(ErrorKind::PermissionDenied.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn system_file(&self) -> Option<Arc<File>> {
        None
    }
}

/// Reads whole blocks into memory that begins with a block, and copies what is wanted of them.
fn read_direct(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let before = (offset % BLOCK_BYTES as u64) as usize;
    let bytes = (before + buffer.len()).next_multiple_of(BLOCK_BYTES).min(READ_BYTES_MAX);
    let mut memory = vec![0; bytes + BLOCK_BYTES];
    let start = memory.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
    let blocks = memory.get_mut(start..start + bytes).unwrap_or_default();
    let read = file.read_at(blocks, offset - before as u64)?;
    let wanted = blocks.get(before..read).unwrap_or_default();
    let count = wanted.len().min(buffer.len());
    if let (Some(to), Some(from)) = (buffer.get_mut(..count), wanted.get(..count)) {
        to.copy_from_slice(from);
    }
    Ok(count)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]
mod tests {
    use super::{AsideFile, READ_BYTES_MAX};
    use crate::{Access, Disk, DiskFile, SystemDisk};

    fn read_all(file: &dyn DiskFile, from: usize, at_once: usize) -> Vec<u8> {
        let (mut content, mut buffer) = (Vec::new(), vec![0; at_once]);
        loop {
            let bytes = file.read_at(&mut buffer, (from + content.len()) as u64).unwrap();
            if bytes == 0 {
                return content;
            }
            content.extend_from_slice(&buffer[..bytes]);
        }
    }

    #[test]
    fn any_offset_and_length_reads_what_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment");
        let mut content: Vec<u8> = (0..2_000_000_u32).map(|place| (place % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let file = SystemDisk.open(&path, Access::Aside).unwrap();
        for (from, at_once) in [(0, 65_536), (0, 3 * READ_BYTES_MAX), (4095, 70_000), (1_999_999, 10)] {
            assert!(read_all(&*file, from, at_once) == content[from..], "{at_once} bytes from {from}");
        }
        assert!(read_all(&*file, 2_000_000, 10).is_empty());
        // What another has written and not synced is seen.
        SystemDisk.open(&path, Access::Write).unwrap().write_at(b"new", 1_000_000).unwrap();
        content[1_000_000..1_000_003].copy_from_slice(b"new");
        assert!(read_all(&*file, 0, 65_536) == content);
        assert!(file.write_at(b"x", 0).is_err() && file.truncate(0).is_err());
        assert!(AsideFile::open(&directory.path().join("absent")).is_err());
    }
}
