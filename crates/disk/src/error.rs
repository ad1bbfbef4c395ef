//! Why a tier cannot be opened, why it is off, and why something cannot be read.

use std::io;
use std::path::PathBuf;

/// Why a tier cannot be opened. Serving goes on without it; the text tells the operator what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the directory.
    #[error("{directory}: another process uses this directory; give each its own")]
    Locked {
        /// The directory.
        directory: PathBuf,
    },
    /// Another program's file is there.
    #[error(
        "{directory} has {found} in it, which is not of the disk cache; give `disk` a directory of its own, or empty it"
    )]
    Foreign {
        /// The directory.
        directory: PathBuf,
        /// What was found.
        found: PathBuf,
    },
    /// The directory was written by a later version of the program.
    #[error(
        "{directory}: written in format {found}, this program knows formats up to {known}; \
         use the newer program, or another directory"
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
    #[error("a disk cache of {bytes_max} bytes is too small; at least {bytes_min} are needed")]
    TooSmall {
        /// What was asked for, in bytes.
        bytes_max: u64,
        /// The least that works, in bytes.
        bytes_min: u64,
    },
    /// The system refused.
    #[error("{path}: cannot {operation}: {source}")]
    Io {
        /// What was to be done.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Why nothing is written any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OffReason {
    /// The tier was closed.
    #[error("closed")]
    Closed,
    /// The disk is full; after a pause it is tried again.
    #[error("the disk is full; it is tried again after a pause")]
    Full,
    /// The system refused an operation; what could be read before still can be.
    #[error("cannot {operation}: {kind}")]
    Io {
        /// What was to be done.
        operation: &'static str,
        /// The system's answer.
        kind: io::ErrorKind,
    },
    /// The disk does not answer. When it does, it is used again.
    #[error("the disk does not answer; it is used again when it does")]
    Hung,
    /// The bodies that are streaming in take their whole share of the tier; this one is not written.
    #[error("the bodies that are being written leave no room for another")]
    Crowded,
    /// This one body is larger than the tier keeps, or came faster than it was asked for. Others are not concerned.
    #[error("the body is too large")]
    TooLarge,
}

/// Why something cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Its segment was evicted.
    #[error("evicted")]
    Gone,
    /// What stands there does not match its checksum.
    #[error("damaged")]
    Damaged,
    /// The system refused.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
}

/// The process, or the machine, has no descriptor left.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

impl ReadError {
    /// Whether descriptors or memory were wanting at the moment: what was to be read may be as it was written.
    pub fn is_passing(&self) -> bool {
        let Self::Io(error) = self else { return false };
        error.kind() == io::ErrorKind::OutOfMemory || matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
    }
}
