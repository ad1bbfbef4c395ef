//! Checks whether a part of a file is in memory, and reads it into memory, so that a system call
//! such as sendfile does not wait for the disk.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;

use rustix::io::{ReadWriteFlags, preadv2};

/// The distance between two probed bytes. The system reads and evicts files in runs of memory
/// pages, so one byte represents its run. Probing each memory page would cost a tenth of the time
/// of sending it.
const PROBE_BYTES: usize = 64 << 10;

/// Whether `bytes` bytes from `offset` of a file are in memory, judged by one byte in each 64 KiB.
/// Does not wait for the disk (RWF_NOWAIT). False if the file system cannot answer.
pub fn is_in_memory(file: &File, offset: u64, bytes: u64) -> bool {
    let places = (offset..offset.saturating_add(bytes)).step_by(PROBE_BYTES);
    let is_there = |at| {
        let mut byte = [0];
        preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT).is_ok()
    };
    // The last byte is probed too, because a run may begin after the last probed place.
    let last = offset.saturating_add(bytes.saturating_sub(1));
    places.chain([last]).all(is_there)
}

/// Reads `bytes` bytes from `offset` of a file, or up to its end, so that they are in memory.
/// Blocks while the disk reads.
///
/// # Errors
/// As the system reports them.
pub fn bring_into_memory(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let mut at = offset;
    let end = offset.saturating_add(bytes);
    let mut buffer = vec![0; PROBE_BYTES];
    while at < end {
        let count = (end - at).min(PROBE_BYTES as u64) as usize;
        let (part, _) = buffer.split_at_mut(count);
        match file.read_at(part, at)? {
            0 => return Ok(()),
            read => at += read as u64,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{bring_into_memory, is_in_memory};
    use std::io::Write;

    #[test]
    fn file_that_was_read_is_in_memory() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 300_000]).unwrap();
        bring_into_memory(&file, 1_000, 400_000).unwrap();
        assert!(is_in_memory(&file, 1_000, 250_000));
        assert!(is_in_memory(&file, 0, 0), "an empty range is always in memory");
    }
}
