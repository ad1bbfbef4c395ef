//! Every bound of the demo site, with its unit and the reason for its size. Nothing else in the crate
//! writes such a number down.

use std::time::Duration;

/// Connections the front keeps open at once, idle ones included; further ones wait in the kernel's backlog.
pub(crate) const CONNECTIONS_MAX: usize = 1024;

/// Complete page requests that may wait for a worker; the next one is answered 503.
pub(crate) const QUEUE_MAX: usize = 512;

/// Request content in octets: the longest form (a comment) is far below.
pub(crate) const CONTENT_BYTES_MAX: usize = 64 * 1024;

/// A request head in octets.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// How long a client may take to send a complete request, and how long an idle connection is kept.
pub(crate) const RECEIVE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a client may take to accept a complete response.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a refused client may go on sending before its connection is closed all the same.
pub(crate) const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// How many octets a refused client may go on sending.
pub(crate) const LINGER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Workers when `--workers` is not given: enough to use two cores while some wait for the disk.
pub(crate) const WORKERS_DEFAULT: usize = 4;

/// The most workers; each holds a database connection and a script engine.
pub(crate) const WORKERS_MAX: usize = 64;

/// How long a statement waits for another worker's write before it fails.
pub(crate) const DATABASE_WAIT: Duration = Duration::from_secs(5);

/// Prepared statements kept by each worker's connection.
pub(crate) const STATEMENTS_MAX: usize = 512;

/// Database pages in kibibytes that each worker's connection keeps: the whole of a new database.
pub(crate) const DATABASE_CACHE_KIB: usize = 16 * 1024;

/// Rows one query may return to a script.
pub(crate) const ROWS_MAX: usize = 10_000;

/// Entries of the object cache, pages included; the oldest entry leaves first.
pub(crate) const OBJECTS_MAX: usize = 50_000;

/// Octets of pages and other values in the object cache.
pub(crate) const OBJECT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Rows of the page cache in the database; the oldest row leaves first.
pub(crate) const PAGE_ROWS_MAX: i64 = 5_000;

/// Operations a script may spend on one request: some hundred times what the dearest page needs.
pub(crate) const OPERATIONS_MAX: u64 = 50_000_000;

/// Nested calls of script functions.
pub(crate) const CALLS_MAX: usize = 64;

/// Nesting of one script expression.
pub(crate) const EXPRESSION_DEPTH_MAX: usize = 96;

/// Octets of one string in a script: a page, with room for the longest feed.
pub(crate) const STRING_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Short strings that an engine keeps one copy of: the names and words of all scripts, with room for as many
/// of a page. With fewer, the engine is busy choosing which to drop.
pub(crate) const STRINGS_SHARED_MAX: usize = 16 * 1024;

/// Elements of one array or map in a script.
pub(crate) const COLLECTION_MAX: usize = 20_000;

/// Fields of a query string or form that are read; more are ignored.
pub(crate) const FORM_FIELDS_MAX: usize = 100;
