//! The site's caches: whole pages, in the database or in memory, and other values in memory.
//!
//! Invariant: after an invalidation, nothing can be found that was made from older data. A request
//! notes the generation when it starts. An invalidation increments the generation and removes
//! entries under one lock. Storing takes the same lock, and refuses entries of an older generation.
//!
//! The scripts decide what may be cached, and for how long.

use crate::limits;
use clock::Timestamp;
use rhai::Dynamic;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeMap, HashMap};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// A cached page, without the parts that are made for each response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// The body.
    pub(crate) body: rhai::ImmutableString,
    /// Status and header fields as JSON, as the scripts wrote them.
    pub(crate) headers: rhai::ImmutableString,
}

/// Selects the entries that an invalidation removes.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    /// All entries.
    All,
    /// Entries with at least one of these tags.
    Tags(Vec<String>),
}

/// The result of storing an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The entry was stored.
    Yes,
    /// Data changed since the request began, so the entry was dropped.
    Overtaken,
}

/// The caches of one site. Its workers share them.
#[derive(Debug, Default)]
pub(crate) struct Caches(RwLock<Memory>);

#[derive(Debug, Default)]
struct Memory {
    generation: u64,
    entries: HashMap<String, Entry>,
    /// Keys by sequence number, the oldest first.
    order: BTreeMap<u64, String>,
    sequence: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    value: Value,
    tags: Vec<String>,
    expires: Timestamp,
    sequence: u64,
    bytes: usize,
}

#[derive(Clone, Debug)]
enum Value {
    Page(Page),
    Object(Dynamic),
}

impl Caches {
    /// The current generation. A request notes it before it reads any data.
    pub(crate) fn generation(&self) -> u64 {
        self.read().generation
    }

    /// A page cached in memory.
    pub(crate) fn page(&self, key: &str, now: Timestamp) -> Option<Page> {
        match self.read().find(&page_key(key), now)? {
            Value::Page(page) => Some(page.clone()),
            Value::Object(_) => None,
        }
    }

    /// Stores a page in memory. `begun` is the generation when the request started.
    pub(crate) fn store_page(
        &self,
        begun: u64,
        key: &str,
        page: Page,
        tags: Vec<String>,
        expires: Timestamp,
    ) -> Stored {
        let bytes = page.body.len() + page.headers.len();
        self.write().insert(begun, page_key(key), Value::Page(page), bytes, tags, expires)
    }

    /// A cached value other than a page. `bin` is the namespace of `key`.
    pub(crate) fn object(&self, bin: &str, key: &str, now: Timestamp) -> Option<Dynamic> {
        match self.read().find(&object_key(bin, key), now)? {
            Value::Object(value) => Some(value.clone()),
            Value::Page(_) => None,
        }
    }

    /// Stores a value of about `bytes` bytes. The value must not share objects with the request
    /// that made it.
    pub(crate) fn store_object(
        &self,
        begun: u64,
        (bin, key): (&str, &str),
        (value, bytes): (Dynamic, usize),
        tags: Vec<String>,
        expires: Timestamp,
    ) -> Stored {
        self.write().insert(begun, object_key(bin, key), Value::Object(value), bytes, tags, expires)
    }

    /// Stores a page in the database.
    ///
    /// # Errors
    /// The errors of SQLite. Then the page is not stored.
    pub(crate) fn store_row(
        &self,
        connection: &Connection,
        begun: u64,
        key: &str,
        page: &Page,
        tags: &[String],
        (now, lifetime): (Timestamp, Duration),
    ) -> rusqlite::Result<Stored> {
        // Held until the row is written, so that no invalidation runs between the check of the
        // generation and the write.
        let memory = self.write();
        if memory.generation != begun {
            return Ok(Stored::Overtaken);
        }
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO cache_page (cid, data, headers, tags, created, expire) \
                 VALUES (?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                key,
                page.body.as_str(),
                page.headers.as_str(),
                format!(" {} ", tags.join(" ")),
                now.as_secs() as i64,
                now.plus(lifetime).as_secs() as i64
            ])?;
        trim_rows(connection)?;
        Ok(Stored::Yes)
    }

    /// Removes the entries that match `scope` from memory and database. Requests that begin after
    /// it returns find none of them.
    ///
    /// # Errors
    /// The errors of SQLite. Then memory is already cleared, but rows may remain.
    pub(crate) fn invalidate(&self, connection: &Connection, scope: &Scope) -> rusqlite::Result<()> {
        let mut memory = self.write();
        memory.generation += 1;
        match scope {
            Scope::All => {
                memory.clear();
                connection.execute("DELETE FROM cache_page", [])?;
            }
            Scope::Tags(tags) => {
                memory.remove_tagged(tags);
                let mut delete =
                    connection.prepare_cached("DELETE FROM cache_page WHERE instr(tags, ?) > 0")?;
                for tag in tags {
                    delete.execute([format!(" {tag} ")])?;
                }
            }
        }
        Ok(())
    }

    /// Number of entries in memory, and their size in bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let memory = self.read();
        (memory.entries.len(), memory.bytes)
    }

    // Ignoring poison is safe: only the allocator or a bug in the maps can panic while the lock is
    // held, and lookups check each entry anyway.
    fn read(&self) -> RwLockReadGuard<'_, Memory> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Memory> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A page cached in the database.
///
/// # Errors
/// The errors of SQLite.
pub(crate) fn row(connection: &Connection, key: &str, now: Timestamp) -> rusqlite::Result<Option<Page>> {
    connection
        .prepare_cached("SELECT data, headers FROM cache_page WHERE cid = ? AND expire > ?")?
        .query_row(params![key, now.as_secs() as i64], |row| {
            let text = |index| row.get_ref(index).and_then(|value| Ok(value.as_str()?.into()));
            Ok(Page { body: text(0)?, headers: text(1)? })
        })
        .optional()
}

/// Deletes the oldest rows beyond the limit.
fn trim_rows(connection: &Connection) -> rusqlite::Result<()> {
    let rows: i64 =
        connection.prepare_cached("SELECT count(*) FROM cache_page")?.query_row([], |row| row.get(0))?;
    if rows > limits::PAGE_ROWS_MAX {
        connection
            .prepare_cached(
                "DELETE FROM cache_page WHERE cid IN (SELECT cid FROM cache_page ORDER BY created LIMIT ?)",
            )?
            .execute([rows - limits::PAGE_ROWS_MAX])?;
    }
    Ok(())
}

impl Memory {
    fn find(&self, key: &str, now: Timestamp) -> Option<&Value> {
        self.entries.get(key).filter(|entry| entry.expires > now).map(|entry| &entry.value)
    }

    fn insert(
        &mut self,
        begun: u64,
        key: String,
        value: Value,
        bytes: usize,
        tags: Vec<String>,
        expires: Timestamp,
    ) -> Stored {
        if self.generation != begun {
            return Stored::Overtaken;
        }
        self.remove(&key);
        let bytes = bytes + key.len() + tags.iter().map(String::len).sum::<usize>();
        self.sequence += 1;
        self.order.insert(self.sequence, key.clone());
        self.bytes += bytes;
        self.entries.insert(key, Entry { value, tags, expires, sequence: self.sequence, bytes });
        while self.bytes > limits::OBJECT_BYTES_MAX || self.entries.len() > limits::OBJECTS_MAX {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.remove(&oldest);
        }
        Stored::Yes
    }

    fn remove(&mut self, key: &str) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.sequence);
            self.bytes -= entry.bytes;
        }
    }

    fn remove_tagged(&mut self, tags: &[String]) {
        let tagged = |entry: &Entry| entry.tags.iter().any(|tag| tags.contains(tag));
        let keys: Vec<String> =
            self.entries.iter().filter(|(_, entry)| tagged(entry)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.remove(&key);
        }
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
        self.bytes = 0;
    }
}

// Page keys and object keys cannot collide, because no bin's name starts with a slash.
fn page_key(key: &str) -> String {
    format!("/{key}")
}

fn object_key(bin: &str, key: &str) -> String {
    format!("{bin}:{key}")
}

#[cfg(test)]
mod tests {
    use super::{Caches, Page, Scope, Stored, row};
    use crate::content::SCHEMA;
    use crate::limits;
    use clock::Timestamp;
    use rusqlite::Connection;
    use std::time::Duration;

    const NOW: Timestamp = Timestamp::from_secs(1_000);
    const LATER: Timestamp = Timestamp::from_secs(1_060);

    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        connection
    }

    fn page(text: &str) -> Page {
        Page { body: text.into(), headers: "{}".into() }
    }

    fn tags(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn entry_begun_before_an_invalidation_is_not_stored() {
        let (caches, connection) = (Caches::default(), database());
        let begun = caches.generation();
        caches.invalidate(&connection, &Scope::Tags(tags(&["unrelated"]))).unwrap();
        let lifetime = (NOW, Duration::from_secs(60));
        assert_eq!(caches.store_page(begun, "a", page("old"), vec![], LATER), Stored::Overtaken);
        assert_eq!(
            caches.store_row(&connection, begun, "a", &page("old"), &[], lifetime).unwrap(),
            Stored::Overtaken
        );
        assert_eq!(caches.page("a", NOW), None);
        assert_eq!(row(&connection, "a", NOW).unwrap(), None);
    }

    #[test]
    fn tags_remove_their_entries_and_no_others() {
        let (caches, connection) = (Caches::default(), database());
        let begun = caches.generation();
        for (key, tag) in [("a", "node:1"), ("b", "node:12")] {
            assert_eq!(caches.store_page(begun, key, page(key), tags(&[tag, "x"]), LATER), Stored::Yes);
            let lifetime = (NOW, Duration::from_secs(60));
            caches.store_row(&connection, begun, key, &page(key), &tags(&[tag, "x"]), lifetime).unwrap();
        }
        caches.invalidate(&connection, &Scope::Tags(tags(&["node:1"]))).unwrap();
        assert_eq!(caches.page("a", NOW), None);
        assert_eq!(caches.page("b", NOW), Some(page("b")));
        assert_eq!(row(&connection, "a", NOW).unwrap(), None);
        assert_eq!(row(&connection, "b", NOW).unwrap(), Some(page("b")));
        caches.invalidate(&connection, &Scope::All).unwrap();
        assert_eq!(caches.size(), (0, 0));
        assert_eq!(row(&connection, "b", NOW).unwrap(), None);
    }

    #[test]
    fn entries_end_with_their_lifetime() {
        let (caches, connection) = (Caches::default(), database());
        caches.store_page(0, "a", page("a"), vec![], LATER);
        caches.store_object(0, ("variable", "a"), (1_i64.into(), 8), vec![], LATER);
        caches.store_row(&connection, 0, "a", &page("a"), &[], (NOW, Duration::from_secs(60))).unwrap();
        assert!(caches.page("a", NOW).is_some() && caches.object("variable", "a", NOW).is_some());
        assert!(caches.page("a", LATER).is_none() && caches.object("variable", "a", LATER).is_none());
        assert_eq!(row(&connection, "a", LATER).unwrap(), None);
    }

    #[test]
    fn memory_and_rows_have_a_limit() {
        let (caches, connection) = (Caches::default(), database());
        let long: rhai::ImmutableString = "x".repeat(limits::OBJECT_BYTES_MAX / 4).into();
        for index in 0..6 {
            let page = Page { body: long.clone(), headers: "".into() };
            caches.store_page(0, &index.to_string(), page, vec![], LATER);
        }
        assert!(caches.page("0", NOW).is_none() && caches.page("5", NOW).is_some());
        assert!(caches.size().1 <= limits::OBJECT_BYTES_MAX);
        for index in 0..limits::PAGE_ROWS_MAX + 3 {
            let now = Timestamp::from_secs(1_000 + index as u64);
            let lifetime = (now, Duration::from_secs(100_000));
            caches.store_row(&connection, 0, &index.to_string(), &page("x"), &[], lifetime).unwrap();
        }
        assert_eq!(row(&connection, "2", NOW).unwrap(), None);
        assert!(row(&connection, "3", NOW).unwrap().is_some());
    }
}
