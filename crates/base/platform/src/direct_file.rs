//! A file to read once, past the system's page cache if the file system allows it.
//!
//! Invariant: cached pages of other files stay in the page cache, because they are in demand, and
//! the content read here does not enter it. The read also shows the content of the device instead
//! of a copy in memory.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::DiskFile;
use crate::disk::open_no_link;

/// Offsets, lengths and addresses of direct reads are multiples of this, in bytes. No device has
/// larger blocks.
const BLOCK_BYTES: usize = 4096;

/// The maximum size of one direct read in bytes.
const READ_BYTES_MAX: usize = 1 << 20;

/// A file to read once.
pub(crate) struct DirectFile {
    /// The file opened for direct reads; `None` if the file system does not support them.
    direct: Option<File>,
    file: File,
}

impl DirectFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = open_no_link(OpenOptions::new().read(true), path)?;
        let flags = (OFlags::DIRECT | OFlags::NOFOLLOW).bits().cast_signed();
        let direct = OpenOptions::new().read(true).custom_flags(flags).open(path).ok();
        Ok(Self { direct, file })
    }
}

impl DiskFile for DirectFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some(direct) = &self.direct else { return self.file.read_at(buffer, offset) };
        match read_direct(direct, buffer, offset) {
            // The file system allowed opening for direct reads, but does not support them.
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

/// Reads whole blocks into memory aligned to a block, and copies the requested bytes from it.
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
    use super::{DirectFile, READ_BYTES_MAX};
    use crate::{Access, Disk, DiskFile, SystemDisk};

    fn read_all(file: &dyn DiskFile, from: usize, at_once: usize) -> Vec<u8> {
        let mut content = Vec::new();
        let mut buffer = vec![0; at_once];
        loop {
            let bytes = file.read_at(&mut buffer, (from + content.len()) as u64).unwrap();
            if bytes == 0 {
                return content;
            }
            content.extend_from_slice(&buffer[..bytes]);
        }
    }

    #[test]
    fn reads_at_any_offset_and_length_return_the_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment");
        let mut content: Vec<u8> = (0..2_000_000_u32).map(|place| (place % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let file = SystemDisk.open(&path, Access::Aside).unwrap();
        for (from, at_once) in [(0, 65_536), (0, 3 * READ_BYTES_MAX), (4095, 70_000), (1_999_999, 10)] {
            assert!(read_all(&*file, from, at_once) == content[from..], "{at_once} bytes from {from}");
        }
        assert!(read_all(&*file, 2_000_000, 10).is_empty());
        // Content that another handle has written but not synced is visible.
        SystemDisk.open(&path, Access::Write).unwrap().write_at(b"new", 1_000_000).unwrap();
        content[1_000_000..1_000_003].copy_from_slice(b"new");
        assert!(read_all(&*file, 0, 65_536) == content);
        assert!(file.write_at(b"x", 0).is_err() && file.truncate(0).is_err());
        assert!(DirectFile::open(&directory.path().join("absent")).is_err());
    }
}
