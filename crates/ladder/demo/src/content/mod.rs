//! Fills an empty database with the content of the shop: two thousand nodes with terms, comments
//! and a search index. The same seed always gives the same content.
//!
//! Routes, blocks, listings, permissions and settings belong to the program. The modules install
//! them into a new database.

mod material;
mod people;
mod products;
mod prose;
mod random;
mod stories;
mod taxonomy;

use crate::text;
use random::Choices;
use rusqlite::{Connection, Transaction, params};
use std::collections::HashMap;

/// The seed of the shipped site.
pub(crate) const SEED: u64 = 2009;

/// The database schema.
pub(crate) const SCHEMA: &str = include_str!("schema.sql");

/// Number of nodes by type, in the order of their numbers. The other nodes are pages.
const PRODUCTS: i64 = 1240;
const ARTICLES: i64 = 736;
const NODES: i64 = 2000;

/// 2024-01-06 (a Saturday), as seconds since 1970. All dates of the content are relative to it.
const FIRST_DAY: i64 = 1_704_499_200;
const DAY: i64 = 86_400;

/// Writes the whole content into the empty tables of `connection`, in one transaction.
///
/// # Errors
/// The errors of SQLite. Then nothing is written.
pub(crate) fn build(connection: &mut Connection, seed: u64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    {
        let mut writer = Writer::new(&transaction, seed);
        taxonomy::write(&mut writer)?;
        people::write_users(&mut writer)?;
        products::write(&mut writer)?;
        stories::write(&mut writer)?;
        people::write_comments(&mut writer)?;
        writer.write_search_index()?;
    }
    transaction.commit()
}

/// One node to write.
struct Node<'a> {
    kind: &'static str,
    title: &'a str,
    uid: i64,
    created: i64,
    promote: bool,
    /// 0: no comments; 2: open for comments.
    comment: i64,
    body: &'a str,
    alias: &'a str,
}

/// The state of filling a database: the generator, the numbers and names used so far, and the words
/// for the search index.
struct Writer<'t> {
    transaction: &'t Transaction<'t>,
    choices: Choices,
    nodes: i64,
    users: i64,
    /// Numbers of the terms, by vocabulary and name.
    terms: HashMap<(i64, String), i64>,
    aliases: HashMap<String, u32>,
    words: HashMap<(String, i64), i64>,
}

impl<'t> Writer<'t> {
    fn new(transaction: &'t Transaction<'t>, seed: u64) -> Self {
        Self {
            transaction,
            choices: Choices::from_seed(seed),
            nodes: 0,
            users: 0,
            terms: HashMap::new(),
            aliases: HashMap::new(),
            words: HashMap::new(),
        }
    }

    /// Runs one statement. The prepared form is cached.
    fn run(&self, statement: &str, values: impl rusqlite::Params) -> rusqlite::Result<()> {
        self.transaction.prepare_cached(statement)?.execute(values).map(|_| ())
    }

    /// Writes a node with its alias and access rule, and collects its words. Returns its number.
    fn node(&mut self, node: &Node<'_>) -> rusqlite::Result<i64> {
        self.nodes += 1;
        let nid = self.nodes;
        let teaser = teaser(node.body);
        self.run(
            "INSERT INTO node (nid, type, title, uid, status, created, changed, promote, comment, format, teaser, body) \
             VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, 'light', ?, ?)",
            params![
                nid,
                node.kind,
                node.title,
                node.uid,
                node.created,
                node.created,
                node.promote,
                node.comment,
                teaser,
                node.body
            ],
        )?;
        self.run("INSERT INTO node_access (nid, gid, realm, grant_view) VALUES (?, 0, 'all', 1)", [nid])?;
        self.alias(&format!("node/{nid}"), node.alias)?;
        for (text, score) in [(node.title, 5), (node.body, 1)] {
            for word in text::words(text) {
                *self.words.entry((word, nid)).or_insert(0) += score;
            }
        }
        Ok(nid)
    }

    /// Gives an internal path a public alias. If the alias is taken, a number is appended.
    fn alias(&mut self, path: &str, wanted: &str) -> rusqlite::Result<()> {
        let taken = self.aliases.entry(wanted.to_owned()).or_insert(0);
        *taken += 1;
        let alias = if *taken == 1 { wanted.to_owned() } else { format!("{wanted}-{taken}") };
        self.run("INSERT INTO url_alias (src, dst) VALUES (?, ?)", [path, &alias])
    }

    /// Assigns an existing term to a node.
    fn file_under(&self, nid: i64, vocabulary: i64, term: &str) -> rusqlite::Result<()> {
        let tid = self.terms.get(&(vocabulary, term.to_owned()));
        debug_assert!(tid.is_some(), "no term {term} in vocabulary {vocabulary}");
        self.run("INSERT OR IGNORE INTO term_node (nid, tid) VALUES (?, ?)", params![nid, tid])
    }

    fn write_search_index(&mut self) -> rusqlite::Result<()> {
        let mut words: Vec<((String, i64), i64)> = self.words.drain().collect();
        // Sorted by the table's key, so that SQLite only appends.
        words.sort_unstable();
        for ((word, nid), score) in words {
            self.run(
                "INSERT INTO search_index (word, nid, score) VALUES (?, ?, ?)",
                params![word, nid, score],
            )?;
        }
        Ok(())
    }
}

/// The text for listings: the first paragraph, up to its first list item.
fn teaser(body: &str) -> &str {
    body.split("\n\n").next().unwrap_or(body).split("\n- ").next().unwrap_or(body)
}

#[cfg(test)]
mod tests {
    use super::{NODES, SCHEMA, SEED, build};
    use rusqlite::Connection;

    fn built(seed: u64) -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        build(&mut connection, seed).unwrap();
        connection
    }

    fn number(connection: &Connection, query: &str) -> i64 {
        connection.query_row(query, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn shop_has_2000_nodes_with_titles_aliases_and_terms() {
        let connection = built(SEED);
        assert_eq!(number(&connection, "SELECT count(*) FROM node"), NODES);
        for nothing in [
            "SELECT count(*) FROM node WHERE title = '' OR body = '' OR body LIKE '%{%'",
            "SELECT count(*) FROM node n LEFT JOIN url_alias a ON a.src = 'node/' || n.nid WHERE a.dst IS NULL",
            "SELECT count(*) FROM product p LEFT JOIN node n ON n.nid = p.nid WHERE n.nid IS NULL",
            "SELECT count(*) FROM node n WHERE type = 'product' AND \
             (SELECT count(*) FROM term_node t JOIN term USING (tid) WHERE t.nid = n.nid AND vid = 1) <> 1",
            "SELECT count(*) FROM term_node WHERE tid IS NULL",
            "SELECT count(*) FROM comments c LEFT JOIN node n ON n.nid = c.nid WHERE n.nid IS NULL",
        ] {
            assert_eq!(number(&connection, nothing), 0, "{nothing}");
        }
        assert!(number(&connection, "SELECT count(*) FROM comments") > 3000);
    }

    #[test]
    fn seed_determines_the_content() {
        let sum = |seed| {
            let connection = built(seed);
            let nodes: String = connection
                .query_row("SELECT group_concat(title || body) FROM node", [], |row| row.get(0))
                .unwrap();
            (nodes, number(&connection, "SELECT sum(price) FROM product"))
        };
        let first = sum(1);
        assert_eq!(first, sum(1));
        assert_ne!(first, sum(2));
    }
}
