//! Facts about the machine, as `probe` finds them and `judge` judges them.

use crate::account::Ownership;
use std::path::PathBuf;
use std::time::Duration;

/// The name of our own processes.
pub(crate) const PETASOS: &str = "petasos";

/// The result of binding an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PortFact {
    Free,
    /// A process listens there. The name is unknown to other users than root.
    Taken {
        process: Option<ProcessFact>,
        user: Option<u32>,
    },
    /// This user may not listen at ports so low.
    Denied,
    /// Another error, as a sentence with its fix.
    Unusable(String),
}

/// A process that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessFact {
    pub(crate) number: u32,
    pub(crate) name: String,
    /// The largest number of files that it may open.
    pub(crate) files_max: Option<u64>,
}

/// A directory in which the edge writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryFact {
    pub(crate) path: PathBuf,
    /// The directory itself, or its nearest ancestor that exists.
    pub(crate) found: PathBuf,
    pub(crate) ownership: Ownership,
    /// The first ancestor that the account may not pass.
    pub(crate) closed: Option<PathBuf>,
    /// A file in it that belongs to another user.
    pub(crate) foreign: Option<PathBuf>,
}

/// A file with a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecretFact {
    pub(crate) setting: &'static str,
    pub(crate) path: PathBuf,
    /// `None`: it does not exist.
    pub(crate) ownership: Option<Ownership>,
    /// The first directory above it, or above the target of the link, that the account may not
    /// pass.
    pub(crate) closed: Option<PathBuf>,
}

/// A file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiskFact {
    pub(crate) setting: &'static str,
    pub(crate) path: PathBuf,
    /// The magic number of its kind.
    pub(crate) kind: u64,
    pub(crate) bytes: u64,
    pub(crate) free_bytes: u64,
    /// The setting's limit, and the bytes that its files have already.
    pub(crate) limit: Option<(u64, u64)>,
    /// How long it took to write a block durably. `None`: it could not be written.
    pub(crate) sync: Option<Duration>,
}

/// The clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockFact {
    pub(crate) secs: u64,
    /// Whether a time server corrects it. `None`: the system does not say.
    pub(crate) is_synchronised: Option<bool>,
}

/// The result of resolving a server's name and connecting to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReachFact {
    Reached(Duration),
    /// The name has no address.
    Unresolved,
    /// The system's error.
    Refused(String),
    /// Nothing happened in this time.
    Silent(Duration),
}
