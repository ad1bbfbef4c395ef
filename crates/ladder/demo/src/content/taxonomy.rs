//! Writes the vocabularies, their terms, and the menus made from them.

use super::Writer;
use super::material::{BRANDS, DEPARTMENTS, KINDS, TAGS, TOPICS};
use crate::text::slug;
use rusqlite::params;

/// Number of the vocabulary of departments and kinds.
pub(super) const CATALOGUE: i64 = 1;
/// Number of the vocabulary of the journal's topics.
pub(super) const TOPIC: i64 = 2;
/// Number of the vocabulary of brands.
pub(super) const BRAND: i64 = 3;
/// Number of the vocabulary of free tags.
pub(super) const TAG: i64 = 4;

/// Writes all vocabularies with their terms and aliases, and the main menu.
pub(super) fn write(writer: &mut Writer<'_>) -> rusqlite::Result<()> {
    let vocabularies = [(CATALOGUE, "Catalogue"), (TOPIC, "Topics"), (BRAND, "Brands"), (TAG, "Tags")];
    for (vid, name) in vocabularies {
        writer.run("INSERT INTO vocabulary (vid, name, weight) VALUES (?, ?, ?)", params![vid, name, vid])?;
    }
    for (weight, (department, description)) in DEPARTMENTS.iter().enumerate() {
        let parent = term(writer, CATALOGUE, 0, department, description, weight, "shop")?;
        let menu = link(writer, "main", 0, &format!("taxonomy/term/{parent}"), department, weight)?;
        let kinds = KINDS.iter().filter(|kind| kind.department == *department);
        for (weight, kind) in kinds.enumerate() {
            let description = format!("Every {} we would ride ourselves.", kind.noun);
            let tid = term(writer, CATALOGUE, parent, kind.name, &description, weight, "shop")?;
            link(writer, "main", menu, &format!("taxonomy/term/{tid}"), kind.name, weight)?;
        }
    }
    for (vid, terms, prefix) in [(TOPIC, TOPICS, "topics"), (BRAND, BRANDS, "brands")] {
        for (weight, (name, description)) in terms.iter().enumerate() {
            term(writer, vid, 0, name, description, weight, prefix)?;
        }
    }
    for tag in TAGS {
        term(writer, TAG, 0, tag, "", 0, "tags")?;
    }
    Ok(())
}

/// Writes one menu link. Returns its number.
pub(super) fn link(
    writer: &Writer<'_>,
    menu: &str,
    parent: i64,
    path: &str,
    title: &str,
    weight: usize,
) -> rusqlite::Result<i64> {
    writer.run(
        "INSERT INTO menu_links (menu, plid, path, title, weight) VALUES (?, ?, ?, ?, ?)",
        params![menu, parent, path, title, weight as i64],
    )?;
    Ok(writer.transaction.last_insert_rowid())
}

fn term(
    writer: &mut Writer<'_>,
    vocabulary: i64,
    parent: i64,
    name: &str,
    description: &str,
    weight: usize,
    prefix: &str,
) -> rusqlite::Result<i64> {
    writer.run(
        "INSERT INTO term (vid, parent, name, description, weight) VALUES (?, ?, ?, ?, ?)",
        params![vocabulary, parent, name, description, weight as i64],
    )?;
    let tid = writer.transaction.last_insert_rowid();
    writer.terms.insert((vocabulary, name.to_owned()), tid);
    writer.alias(&format!("taxonomy/term/{tid}"), &format!("{prefix}/{}", slug(name)))?;
    Ok(tid)
}
