//! The limits of the demo site, with their units and the reasons for their sizes.

use std::time::Duration;

/// Open connections, including idle ones. Further connections wait in the kernel's backlog.
pub(crate) const CONNECTIONS_MAX: usize = 1024;

/// Complete page requests that may wait for a worker. Further ones are answered with 503.
pub(crate) const QUEUE_MAX: usize = 512;

/// Content of a request, in bytes. The longest form (a comment) is far below.
pub(crate) const CONTENT_BYTES_MAX: usize = 64 * 1024;

/// Head of a request, in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Time in which a client must send a complete request, and for which an idle connection is kept.
pub(crate) const RECEIVE_TIMEOUT: Duration = Duration::from_secs(15);

/// Time in which a client must read a complete response.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(15);

/// Time for which a refused client may continue sending before its connection is closed.
pub(crate) const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes that a refused client may continue to send.
pub(crate) const LINGER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Default number of workers: enough for two cores while some workers wait for the disk.
pub(crate) const WORKERS_DEFAULT: usize = 4;

/// Greatest number of workers. Each one has a database connection and a script engine.
pub(crate) const WORKERS_MAX: usize = 64;

/// Time for which a statement waits for another worker's write before it fails.
pub(crate) const DATABASE_WAIT: Duration = Duration::from_secs(5);

/// Prepared statements that each worker's connection keeps.
pub(crate) const STATEMENTS_MAX: usize = 512;

/// Page cache of each worker's database connection, in KiB. It holds a whole new database.
pub(crate) const DATABASE_CACHE_KIB: usize = 16 * 1024;

/// Rows that one query may return to a script.
pub(crate) const ROWS_MAX: usize = 10_000;

/// Entries of the object cache, including pages. The oldest entry is evicted first.
pub(crate) const OBJECTS_MAX: usize = 50_000;

/// Size of the pages and other values in the object cache, in bytes.
pub(crate) const OBJECT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Rows of the page cache in the database. The oldest row is evicted first.
pub(crate) const PAGE_ROWS_MAX: i64 = 5_000;

/// Operations that a script may execute for one request: some hundred times the need of the most
/// expensive page.
pub(crate) const OPERATIONS_MAX: u64 = 50_000_000;

/// Nested calls of script functions.
pub(crate) const CALLS_MAX: usize = 64;

/// Nesting depth of one script expression.
pub(crate) const EXPRESSION_DEPTH_MAX: usize = 96;

/// Size of one string in a script, in bytes. It leaves room for a page or the longest feed.
pub(crate) const STRING_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Short strings of which an engine keeps a single copy: the names and words of all scripts, and as
/// many words of pages. With a lower limit, the engine spends its time on evicting strings.
pub(crate) const STRINGS_SHARED_MAX: usize = 16 * 1024;

/// Elements of one array or map in a script.
pub(crate) const COLLECTION_MAX: usize = 20_000;

/// Fields of a query string or form that are read. Further ones are ignored.
pub(crate) const FORM_FIELDS_MAX: usize = 100;
