//! Facts about the layers of an application, as `read` and `probe` find them.

use super::assignments::Assignments;
use std::path::PathBuf;

/// The layers of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MachineFact {
    pub(crate) memory_bytes: u64,
    pub(crate) cores: u64,
}

/// How a web server runs PHP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PhpKind {
    /// PHP-FPM.
    Fpm,
    /// Apache's module.
    Apache,
}

/// A PHP that serves visitors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PhpFact {
    /// A version such as `8.2`.
    pub(crate) version: String,
    pub(crate) kind: PhpKind,
    /// php.ini and the files after it.
    pub(crate) settings: Assignments,
    /// Extensions for which Debian's packages are installed, whether loaded or not.
    pub(crate) packaged: Vec<String>,
    pub(crate) pools: Vec<PoolFact>,
}

/// A pool of PHP-FPM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolFact {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) settings: Assignments,
    /// `None` if none runs, or processes are not those of the root.
    pub(crate) workers: Option<WorkersFact>,
}

/// Worker processes that run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkersFact {
    pub(crate) count: u64,
    /// The memory of the largest worker, which has served the most. `None` if it may not be read.
    pub(crate) largest: Option<WorkerMemoryFact>,
}

/// The memory of a worker process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkerMemoryFact {
    /// Of this process alone.
    pub(crate) private: u64,
    /// The opcode cache and other memory common to all workers of a master.
    pub(crate) shared: u64,
}

/// An installed application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApplicationFact {
    pub(crate) kind: ApplicationKind,
    /// The directory of its code.
    pub(crate) directory: PathBuf,
    /// Files that PHP may compile.
    pub(crate) php_files: u64,
}

/// A kind of application, and its object cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ApplicationKind {
    /// WordPress; the drop-in is `object-cache.php` below `content`.
    WordPress { content: PathBuf, drop_in: DropInFact },
    /// MediaWiki; the value of `$wgMainCacheType` if it is set.
    MediaWiki { settings: PathBuf, main_cache: Option<String> },
}

/// A drop-in of WordPress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DropInFact {
    None,
    /// It is there, or may be there, and may not be read.
    Unreadable,
    /// Its text.
    Text(String),
}

/// A server for objects that applications keep in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectServerFact {
    pub(crate) name: &'static str,
    /// The address that accepts connections.
    pub(crate) address: Option<String>,
}

/// Redis' limit of memory, from its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedisFact {
    pub(crate) path: PathBuf,
    /// In bytes; 0 is no limit.
    pub(crate) memory_max: u64,
    pub(crate) policy: String,
}

/// A database server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseFact {
    /// `MariaDB` or `MySQL`.
    pub(crate) name: &'static str,
    /// The settings of the server, with `_` in their names.
    pub(crate) settings: Assignments,
    /// The directory for a file with settings of the owner.
    pub(crate) directory: PathBuf,
    /// The size of all tables, in bytes.
    pub(crate) data_bytes: Option<u64>,
    /// The statements of the running server.
    pub(crate) live: Option<LiveDatabaseFact>,
}

/// The statements of a running database server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveDatabaseFact {
    pub(crate) buffer_bytes: Option<u64>,
    pub(crate) data_bytes: Option<u64>,
    /// Pages that were read from the disk, and those that queries looked for.
    pub(crate) disk_reads: Option<u64>,
    pub(crate) requests: Option<u64>,
}

/// The responses of a web server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebFact {
    pub(crate) url: String,
    pub(crate) status: u16,
    /// The value of Server.
    pub(crate) server: String,
    pub(crate) location: Option<String>,
    pub(crate) page: FileFact,
    /// Whether the server keeps the connection.
    pub(crate) is_kept: bool,
    /// Files that the page needs.
    pub(crate) files: Vec<FileFact>,
}

/// A response as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileFact {
    pub(crate) path: String,
    /// Whether its kind shrinks when it is compressed.
    pub(crate) is_text: bool,
    pub(crate) coding: Option<String>,
    pub(crate) bytes: u64,
    pub(crate) lifetime: Lifetime,
}

/// How long a browser may use a response without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// The response says nothing.
    Unstated,
    /// The response forbids it, or gives this number of seconds.
    Secs(u64),
}
