//! Writes users and their comments.

use super::material::{FIRST_NAMES, LAST_NAMES, TOWNS};
use super::prose::{self, Subject};
use super::{ARTICLES, DAY, FIRST_DAY, NODES, PRODUCTS, Writer};
use crate::secret;
use crate::text::slug;
use rusqlite::params;

/// Accounts that can log in, with password and role. The site is a demonstration on loopback, and
/// its documentation contains the passwords. All other users have no password and cannot log in.
const ACCOUNTS: &[(&str, &str, i64)] = &[
    ("editor", "two-wheels", EDITOR),
    ("alice", "bell-and-lamp", CUSTOMER),
    ("bruno", "chain-and-oil", CUSTOMER),
];

const CUSTOMER: i64 = 3;
const EDITOR: i64 = 4;

/// Number of users that cannot log in.
const AUTHORS: usize = 60;

const COMMENTS: usize = 3600;

/// Writes roles and users.
pub(super) fn write_users(writer: &mut Writer<'_>) -> rusqlite::Result<()> {
    let roles =
        [(1, "anonymous user"), (2, "authenticated user"), (CUSTOMER, "customer"), (EDITOR, "editor")];
    for (rid, name) in roles {
        writer.run("INSERT INTO role VALUES (?, ?)", params![rid, name])?;
    }
    for (name, password, role) in ACCOUNTS {
        // Salts must differ between accounts, but need not be secret.
        let salt = writer.choices.bits().to_be_bytes();
        user(writer, name, &secret::password_hash(password, &salt), *role)?;
    }
    for index in 0..AUTHORS {
        let first = FIRST_NAMES.get(index % FIRST_NAMES.len()).copied().unwrap_or_default();
        let last = writer.choices.pick(LAST_NAMES);
        user(writer, &format!("{first} {last}"), "", CUSTOMER)?;
    }
    Ok(())
}

fn user(writer: &mut Writer<'_>, name: &str, pass: &str, role: i64) -> rusqlite::Result<()> {
    writer.users += 1;
    let uid = writer.users;
    let taken = writer.aliases.contains_key(&format!("people/{}", slug(name)));
    let name = if taken { format!("{name} {uid}") } else { name.to_owned() };
    let town = *writer.choices.pick(TOWNS);
    writer.run(
        "INSERT INTO users (uid, name, mail, pass, status, created, access, town) VALUES (?, ?, ?, ?, 1, ?, 0, ?)",
        params![uid, name, format!("{}@mission.example", slug(&name)), pass, FIRST_DAY, town],
    )?;
    for rid in [2, role] {
        writer.run("INSERT INTO users_roles VALUES (?, ?)", params![uid, rid])?;
    }
    writer.alias(&format!("user/{uid}"), &format!("people/{}", slug(&name)))
}

/// Writes comments on products and articles. About a third of them are replies to other comments.
pub(super) fn write_comments(writer: &mut Writer<'_>) -> rusqlite::Result<()> {
    let mut threads: Vec<(i64, i64, String, i64)> = Vec::new();
    for index in 0..COMMENTS {
        let subject = Subject { noun: "bicycle", nodes: NODES, sentences: prose::COMMENT };
        let choices = &mut writer.choices;
        let answered = if !threads.is_empty() && choices.chance(33) {
            let from = threads.len().saturating_sub(60);
            threads.get(from..).map(|recent| choices.pick(recent).clone())
        } else {
            None
        };
        let nid = answered
            .as_ref()
            .map_or_else(|| 1 + choices.below((PRODUCTS + ARTICLES) as usize) as i64, |to| to.1);
        let sentences = 1 + choices.below(3);
        let text = prose::paragraph(choices, sentences, &subject);
        let registered = choices.chance(70);
        let uid = if registered { 2 + choices.below(AUTHORS) as i64 } else { 0 };
        let name = if registered { "" } else { *choices.pick(FIRST_NAMES) };
        let rating = if nid <= PRODUCTS && answered.is_none() { choices.between(2, 5) } else { 0 };
        let created = FIRST_DAY + 30 * DAY + index as i64 * 6 * 3600 + choices.between(0, 6 * 3600);
        let cid = index as i64 + 1;
        let thread = answered.as_ref().map_or_else(|| format!("{cid:08}"), |to| format!("{}.{cid:08}", to.2));
        let pid = answered.as_ref().map_or(0, |to| to.0);
        let depth = answered.as_ref().map_or(0, |to| to.3 + 1);
        let heading: Vec<&str> = text.split(' ').take(4).collect();
        let heading = heading.join(" ");
        let heading = heading.trim_end_matches([',', '.', ':']);
        writer.run(
            "INSERT INTO comments (cid, nid, pid, uid, name, subject, comment, rating, created, status, place) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?)",
            params![cid, nid, pid, uid, name, heading, text, rating, created, thread],
        )?;
        if depth < 3 {
            threads.push((cid, nid, thread, depth));
        }
    }
    Ok(())
}
