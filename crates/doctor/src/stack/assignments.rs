//! Assignments in configuration files of PHP, PHP-FPM and MariaDB, which share one simple form.
//!
//! Invariant: parsing never fails. A line other than `[section]`, `key = value` and `key` is
//! skipped, as the programs do or warn of.

use std::path::{Path, PathBuf};

/// One assignment and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) section: String,
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) path: PathBuf,
    pub(crate) line: usize,
}

/// The assignments of all files that a program reads, in its order. A later one wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assignments(Vec<Assignment>);

impl Assignments {
    /// Adds those in the text of a file.
    pub(crate) fn add(&mut self, path: &Path, text: &str) {
        let mut section = String::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                name.0.trim().clone_into(&mut section);
                continue;
            }
            if line.is_empty() || line.starts_with([';', '#', '!']) {
                continue;
            }
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            self.0.push(Assignment {
                section: section.clone(),
                key: key.trim().to_owned(),
                value: bare(value).to_owned(),
                path: path.to_owned(),
                line: number,
            });
        }
    }

    /// The effective assignment of a key: the last one, in any section.
    pub(crate) fn last(&self, key: &str) -> Option<&Assignment> {
        self.0.iter().rev().find(|one| one.key == key)
    }

    /// All assignments, in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Assignment> {
        self.0.iter()
    }

    /// The assignments that fulfil a condition, with keys written anew.
    pub(crate) fn select(&self, mut change: impl FnMut(&Assignment) -> Option<String>) -> Self {
        let chosen = self.0.iter().filter_map(|one| Some(Assignment { key: change(one)?, ..one.clone() }));
        Self(chosen.collect())
    }
}

/// A value without quotation marks, or up to its comment.
fn bare(value: &str) -> &str {
    let value = value.trim();
    for mark in ['"', '\''] {
        if let Some((inside, _)) = value.strip_prefix(mark).and_then(|rest| rest.split_once(mark)) {
            return inside;
        }
    }
    let comment = value.find([';', '#']).unwrap_or(value.len());
    value.get(..comment).unwrap_or(value).trim_end()
}

/// Whether a value switches something on, as PHP and MariaDB understand it.
pub(crate) fn is_on(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    matches!(value.as_str(), "on" | "yes" | "true") || value.parse::<u64>().is_ok_and(|number| number != 0)
}

/// A size in bytes: a number that K, M, G or T may follow. `None` for -1, which means no limit.
pub(crate) fn bytes(value: &str) -> Option<u64> {
    let value = value.trim();
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match value.get(digits.len()..)?.to_ascii_uppercase().as_str() {
        "" => 0,
        "K" | "KB" => 10,
        "M" | "MB" => 20,
        "G" | "GB" => 30,
        "T" | "TB" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::{Assignments, bytes, is_on};
    use std::path::Path;

    #[test]
    fn later_assignments_win_and_comments_are_none() {
        let mut all = Assignments::default();
        all.add(Path::new("/a"), "; memory_limit = 1\n[PHP]\nmemory_limit = 128M ; room\nempty =\n");
        all.add(
            Path::new("/b"),
            "[www]\nphp_admin_value[error_log] = \"a;b\"\nmemory_limit=256M\nskip-networking\n",
        );
        let found = all.last("memory_limit").unwrap();
        assert_eq!((found.value.as_str(), found.path.as_path(), found.line), ("256M", Path::new("/b"), 3));
        assert_eq!(found.section, "www");
        assert_eq!(all.last("php_admin_value[error_log]").unwrap().value, "a;b");
        assert_eq!(all.last("skip-networking").unwrap().value, "");
        assert_eq!(all.last("empty").unwrap().value, "");
        assert_eq!(all.last("none"), None);
        let chosen = all.select(|one| (one.section == "PHP").then(|| one.key.to_uppercase()));
        assert_eq!(chosen.iter().count(), 2);
        assert_eq!(chosen.last("MEMORY_LIMIT").unwrap().value, "128M");
    }

    #[test]
    fn values_have_the_meaning_of_their_programs() {
        for (value, meaning) in
            [("On", true), ("1", true), ("yes", true), ("0", false), ("off", false), ("", false)]
        {
            assert_eq!(is_on(value), meaning, "{value}");
        }
        for (value, meaning) in [
            ("128M", Some(128 << 20)),
            ("4096k", Some(4 << 20)),
            ("1G", Some(1 << 30)),
            ("5", Some(5)),
            ("-1", None),
            ("lots", None),
            ("99999999999999999999", None),
            ("18446744073709551615G", None),
        ] {
            assert_eq!(bytes(value), meaning, "{value}");
        }
    }
}
