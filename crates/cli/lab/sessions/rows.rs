//! The content after a session, normalised so that two sessions compare equal. Times since the
//! start, sessions, transients and scheduled tasks are masked. Rows whose number depends on the
//! order of simultaneous requests are identified by other columns.
//!
//! Invariant: every other difference of two databases is a difference of their rows.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Replacement for a time since the start of the session.
const TIME: &str = "(time)";
/// Tables whose rows are not identified by their primary key: table, column with the number, and
/// identifying columns.
const KEYS: &[(&str, &str, &[&str])] = &[
    ("wp_options", "option_id", &["option_name"]),
    ("wp_postmeta", "meta_id", &["post_id", "meta_key"]),
    ("wp_commentmeta", "meta_id", &["comment_id", "meta_key"]),
    ("wp_termmeta", "meta_id", &["term_id", "meta_key"]),
    ("wp_usermeta", "umeta_id", &["user_id", "meta_key"]),
];
/// Options that differ from session to session: transients, and scheduled tasks.
const PASSING: [&str; 3] = ["_transient_", "_site_transient_", "cron"];

type DatabaseRow = BTreeMap<String, Value>;

/// Rows by table and key.
#[derive(Default)]
pub(crate) struct DatabaseRows(BTreeMap<String, DatabaseRow>);

impl DatabaseRows {
    /// The rows of `dump.php`'s tables after a session that started at `start` (UTC, `YYYY-MM-DD
    /// HH:MM:SS`).
    pub(crate) fn of(tables: &Value, start: &str) -> Self {
        let mut rows = Self::default();
        for (table, content) in tables.as_object().unwrap() {
            let renamed = KEYS.iter().find(|(name, ..)| name == table);
            let primary = content["key"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
            let key = renamed.map_or_else(|| primary.collect(), |(_, _, key)| key.to_vec());
            for row in content["rows"].as_array().unwrap() {
                let mut row = row.as_object().unwrap().clone();
                let name: Vec<_> =
                    key.iter().map(|column| format!("{column}={}", plain(&row[*column]))).collect();
                if let Some((_, number, _)) = renamed {
                    row.remove(*number);
                }
                if !is_passing(table, &row) {
                    rows.add(&format!("{table} {}", name.join(" ")), normal(row, start));
                }
            }
        }
        rows
    }

    /// Adds an uploaded file by its size and hash.
    pub(crate) fn add_file(&mut self, path: &str, bytes: &[u8]) {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let row = json!({"bytes": bytes.len(), "hash": hasher.finish()});
        self.add(&format!("uploaded file {path}"), row.as_object().unwrap().clone().into_iter().collect());
    }

    /// Adds a row. A second row with the same key gets a number.
    fn add(&mut self, name: &str, row: DatabaseRow) {
        let names =
            (1..).map(|number| if number == 1 { name.to_owned() } else { format!("{name} #{number}") });
        let free = names.into_iter().find(|name| !self.0.contains_key(name));
        self.0.insert(free.unwrap(), row);
    }

    /// Differences of this content and that of the same session through the edge: one line for each
    /// row or column.
    pub(crate) fn differences(&self, through: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut names: Vec<_> = self.0.keys().chain(through.0.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            match (self.0.get(name), through.0.get(name)) {
                (Some(row), None) => lines.push(format!("{name}: missing through the edge: {row:?}")),
                (None, Some(row)) => lines.push(format!("{name}: only through the edge: {row:?}")),
                (Some(without), Some(through)) => {
                    for (column, value) in without {
                        let other = through.get(column).unwrap_or(&Value::Null);
                        if value != other {
                            lines.push(format!(
                                "{name}: {column} is {other} through the edge, {value} without"
                            ));
                        }
                    }
                }
                (None, None) => {}
            }
        }
        lines
    }
}

/// Whether a row is a transient or the list of scheduled tasks.
fn is_passing(table: &str, row: &Map<String, Value>) -> bool {
    let name = row.get("option_name").and_then(Value::as_str).unwrap_or_default();
    table == "wp_options"
        && PASSING.iter().any(|start| name == *start || (start.ends_with('_') && name.starts_with(start)))
}

/// Normalises a row: masks times since the start, and replaces sessions by their number.
fn normal(mut row: Map<String, Value>, start: &str) -> DatabaseRow {
    if row.get("meta_key") == Some(&json!("session_tokens")) {
        let sessions = row["meta_value"].as_object().map_or(0, Map::len);
        row.insert("meta_value".to_owned(), json!(sessions));
    }
    row.into_iter().map(|(column, value)| (column, timeless(value, start))).collect()
}

/// Masks times since the start in a value.
fn timeless(value: Value, start: &str) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(|value| timeless(value, start)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, timeless(value, start))).collect()
        }
        Value::String(text) if is_date_since(&text, start) => json!(TIME),
        Value::String(text) => {
            // An edit lock has a time and a user, such as 1700000000:1.
            let parts = text.split(':').map(|part| if is_seconds_since(part, start) { TIME } else { part });
            json!(parts.collect::<Vec<_>>().join(":"))
        }
        Value::Number(number) if is_seconds_since(&number.to_string(), start) => json!(TIME),
        other => other,
    }
}

/// Whether this is a date and time, separated by `T` or a space, and not before the start.
fn is_date_since(text: &str, start: &str) -> bool {
    let is_date = |text: &str| {
        text.len() == start.len()
            && text.bytes().zip(start.bytes()).all(|(a, b)| a.is_ascii_digit() == b.is_ascii_digit())
    };
    text.get(..start.len()).is_some_and(|text| is_date(text) && text.replace('T', " ").as_str() >= start)
}

/// Whether this is a number of seconds since 1970 with ten digits, not before the day of the start.
fn is_seconds_since(text: &str, start: &str) -> bool {
    let seconds = text.parse::<u64>();
    text.len() == "1700000000".len() && seconds.is_ok_and(|seconds| seconds / 86_400 >= day(start))
}

/// The number of days from 1970-01-01 to the date that `start` begins with.
fn day(start: &str) -> u64 {
    let mut numbers = start.get(..10).unwrap().split('-').map(|number| number.parse::<u64>().unwrap());
    let [year, month, day] = [(); 3].map(|()| numbers.next().unwrap());
    // Years begin in March here, so that a leap day is the last day of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469
}

/// The value as plain text, without quotes around strings.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{DatabaseRows, day, timeless};
    use serde_json::{Value, json};

    const START: &str = "2026-11-22 22:00:00";

    fn posts(status: &str, date: &str) -> Value {
        json!({"wp_posts": {"key": ["ID"], "rows": [{"ID": "7", "post_status": status, "post_date": date}]}})
    }

    #[test]
    fn changed_column_is_named_with_both_values() {
        let without = DatabaseRows::of(&posts("trash", START), START);
        let through = DatabaseRows::of(&posts("publish", START), START);
        assert_eq!(
            without.differences(&through),
            ["wp_posts ID=7: post_status is \"publish\" through the edge, \"trash\" without"]
        );
        assert_eq!(without.differences(&DatabaseRows::default()).len(), 1, "a missing row is a difference");
        assert_eq!(DatabaseRows::default().differences(&without).len(), 1, "a further row is a difference");
    }

    #[test]
    fn times_since_the_start_are_masked_and_earlier_ones_are_not() {
        let rows = |date| DatabaseRows::of(&posts("trash", date), START);
        let later = ["2026-11-22 22:00:01", "2026-11-23 01:00:00"].map(rows);
        assert!(later[0].differences(&later[1]).is_empty());
        for earlier in ["0000-00-00 00:00:00", "2024-01-02 08:00:00"] {
            assert_eq!(later[0].differences(&rows(earlier)).len(), 1, "{earlier}");
        }
    }

    #[test]
    fn times_are_found_inside_decoded_values() {
        assert_eq!(day("1970-01-01"), 0);
        assert_eq!(day("2026-11-22 22:00:00"), 1_795_384_800 / 86_400);
        let value = json!({"_modified": "2026-11-22T22:10:00.123Z", "lock": "1795384860:1", "at": 1_795_384_860, "size": 1200});
        let normal = json!({"_modified": "(time)", "lock": "(time):1", "at": "(time)", "size": 1200});
        assert_eq!(timeless(value, START), normal);
    }

    #[test]
    fn contents_of_sessions_and_transients_are_ignored() {
        let rows = |token: &str, transient: &str| {
            let sessions = json!({token: {"login": 1}});
            let usermeta = json!({"umeta_id": token, "user_id": "1", "meta_key": "session_tokens", "meta_value": sessions});
            let option = json!({"option_id": "1", "option_name": "_transient_x", "option_value": transient});
            let tables = json!({
                "wp_usermeta": {"key": ["umeta_id"], "rows": [usermeta]},
                "wp_options": {"key": ["option_id"], "rows": [option]},
            });
            DatabaseRows::of(&tables, START)
        };
        assert!(rows("1", "a").differences(&rows("2", "b")).is_empty());
    }
}
