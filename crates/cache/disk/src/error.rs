//! Errors: why a tier cannot be opened, why it is off, and why an object cannot be read.

use std::io;
use std::path::PathBuf;

use crate::foreign::ForeignEntry;

/// The reason why a tier cannot be opened. The edge serves without it; the text tells the operator
/// what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the directory.
    #[error("another process uses {directory}; give each process its own directory")]
    Locked {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory contains a file of another program, or a link.
    #[error("{directory} contains {found}; give `disk` a directory of its own, or empty it")]
    Foreign {
        /// The directory.
        directory: PathBuf,
        /// The entry that was found.
        found: ForeignEntry,
    },
    /// The directory was written by a later version of the program.
    #[error(
        "{directory} has format {found}, but this version of Petasos knows formats up to {known}; \
         use the newer version, or another directory"
    )]
    NewerVersion {
        /// The directory.
        directory: PathBuf,
        /// The format in the directory.
        found: u32,
        /// The latest format that this program knows.
        known: u32,
    },
    /// The settings leave no room for even a few segments.
    #[error("a disk cache of {bytes_max} bytes is too small; set disk_size to at least {bytes_min} bytes")]
    TooSmall {
        /// The configured size, in bytes.
        bytes_max: u64,
        /// The smallest size that works, in bytes.
        bytes_min: u64,
    },
    /// The system refused an operation.
    #[error("{path}: cannot {operation}: {source}")]
    Io {
        /// The operation.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The reason why the tier writes nothing, or why it does not write one body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OffReason {
    /// The tier was closed.
    #[error("closed")]
    Closed,
    /// The disk is full. The tier tries again after a pause.
    #[error("the disk is full; Petasos tries it again after a pause")]
    Full,
    /// The system refused an operation. The tier stays off; readable objects stay readable.
    #[error("cannot {operation}: {kind}")]
    Io {
        /// The operation.
        operation: &'static str,
        /// The kind of the system's error.
        kind: io::ErrorKind,
    },
    /// The disk does not answer. It is used again when it does.
    #[error("the disk does not answer; Petasos uses it again when it answers")]
    Hung,
    /// This body is not written, because the running fills take their whole share of the tier.
    #[error("the bodies that are being written leave no space for another one")]
    Crowded,
    /// This one item exceeds a limit, or bytes of a body were pushed although the queue had no
    /// room. Others are not affected.
    #[error("the body is too large")]
    TooLarge,
}

/// The reason why an object cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Its segment was evicted.
    #[error("evicted")]
    Gone,
    /// The bytes do not match their checksum or are not a record.
    #[error("damaged")]
    Damaged,
    /// The system refused an operation.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
}

/// Error numbers of the system: the process, or the machine, has no file descriptor left.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

impl ReadError {
    /// Whether the failure is temporary, for lack of file descriptors or memory. The object itself
    /// may be intact.
    pub fn is_passing(&self) -> bool {
        let Self::Io(error) = self else { return false };
        error.kind() == io::ErrorKind::OutOfMemory || matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
    }
}
