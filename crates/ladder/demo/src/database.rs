//! The site's database file. It is built if it is missing or belongs to another version, and reused
//! otherwise.
//!
//! Invariant: a file under its final name is complete, because it is built under another name and
//! then renamed.

use crate::content;
use crate::limits;
use crate::script::{self, context::Context, context::Shared};
use crate::scripts::{self, ScriptError, Scripts};
use crate::secret;
use crate::switches::Switches;
use rusqlite::{Connection, OptionalExtension, params};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Version of the generator. Increment it when the generator writes different content from the same
/// tables and texts.
const CONTENT_VERSION: u32 = 1;

/// Reasons why there is no usable database.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatabaseError {
    /// A file operation failed.
    #[error("{path}: {source}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// SQLite reported an error.
    #[error("{path}: {source}")]
    Sqlite {
        /// The path of the database.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The scripts cannot be loaded.
    #[error(transparent)]
    Scripts(#[from] ScriptError),
    /// The modules failed to install themselves.
    #[error("the modules cannot be installed: {0}")]
    Install(String),
}

/// The path of the data directory's database. Builds the database if necessary.
///
/// # Errors
/// If the database can neither be used nor built.
pub(crate) fn prepare(
    directory: &Path,
    scripts: &Scripts,
    shared: &Shared,
) -> Result<PathBuf, DatabaseError> {
    let path = directory.join("site.db");
    let version = version();
    if stamp(&path).is_some_and(|(found, seed)| found == version && seed == content::SEED) {
        return Ok(path);
    }
    for suffix in ["", "-wal", "-shm"] {
        let stale = directory.join(format!("site.db{suffix}"));
        match fs::remove_file(&stale) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(DatabaseError::File { path: stale, source: error });
            }
            _ => {}
        }
    }
    let partial = directory.join("site.db.partial");
    // Removes the file of an interrupted build. If that fails, building the new one fails below.
    let _ = fs::remove_file(&partial);
    let sqlite = |error| DatabaseError::Sqlite { path: partial.clone(), source: error };
    let mut connection = Connection::open(&partial).map_err(sqlite)?;
    fill(&mut connection, &version).map_err(sqlite)?;
    install_modules(connection, scripts, shared)?;
    fs::rename(&partial, &path).map_err(|error| DatabaseError::File { path: path.clone(), source: error })?;
    Ok(path)
}

/// Opens a connection with the settings of a worker.
///
/// # Errors
/// The errors of SQLite.
pub(crate) fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(limits::DATABASE_WAIT)?;
    connection.set_prepared_statement_cache_capacity(limits::STATEMENTS_MAX);
    // With WAL, readers and a writer do not block each other. A crash of the machine may lose the
    // last writes, but never consistency.
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY;",
    )?;
    connection.pragma_update(None, "cache_size", -(limits::DATABASE_CACHE_KIB as i64))?;
    Ok(connection)
}

/// The signing key, which was created with the database.
///
/// # Errors
/// The errors of SQLite.
pub(crate) fn signing_key(connection: &Connection) -> rusqlite::Result<String> {
    connection.query_row("SELECT value FROM secret WHERE name = 'signing'", [], |row| row.get(0))
}

/// The version that this program would build. It depends on the scripts, the schema and the
/// generator.
fn version() -> String {
    let texts = scripts::all_texts() + content::SCHEMA;
    format!("{}-{CONTENT_VERSION}-{}", env!("CARGO_PKG_VERSION"), secret::fingerprint(texts.as_bytes()))
}

fn stamp(path: &Path) -> Option<(String, u64)> {
    if !path.exists() {
        return None;
    }
    let connection = Connection::open(path).ok()?;
    let read = connection.query_row("SELECT version, seed FROM stamp", [], |row| {
        Ok((row.get(0)?, row.get::<_, i64>(1)? as u64))
    });
    read.optional().ok()?
}

fn fill(connection: &mut Connection, version: &str) -> rusqlite::Result<()> {
    // No other process uses the file before it is renamed, so it need not survive a crash.
    connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
    connection.set_prepared_statement_cache_capacity(limits::STATEMENTS_MAX);
    connection.execute_batch(content::SCHEMA)?;
    content::build(connection, content::SEED)?;
    let key = secret::token().map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    connection.execute("INSERT INTO secret VALUES ('signing', ?)", [key])?;
    connection.execute("INSERT INTO stamp VALUES (?, ?)", params![version, content::SEED as i64])?;
    connection.execute_batch("ANALYZE")
}

/// Lets the modules write their settings, routes, blocks, listings and permissions.
fn install_modules(connection: Connection, scripts: &Scripts, shared: &Shared) -> Result<(), DatabaseError> {
    let context = Arc::new(Context::new(Arc::new(shared.for_installation()), connection));
    context.begin(Switches::default());
    let engine = script::engine(&context);
    let core = scripts.core(false, &engine, &context.shared.counters)?;
    let whole = scripts.whole(&core, false, &engine, &context.shared.counters)?;
    let installed = script::call(&engine, &whole.ast, "install", ());
    context.end();
    installed.map(|_| ()).map_err(|error| DatabaseError::Install(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn version_is_deterministic() {
        assert_eq!(version(), version());
    }
}
