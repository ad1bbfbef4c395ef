//! Judges the buffers of the database server.
//!
//! Invariant: the functions here are pure. An unknown size is not judged.

use super::assignments::{bytes, is_on};
use super::facts::{DatabaseFact, MachineFact};
use crate::finding::Finding;
use crate::judge::rounded;

const BUFFER_KEY: &str = "innodb_buffer_pool_size";
/// MariaDB's and MySQL's own size of the buffer pool.
const BUFFER_BYTES: u64 = 128 << 20;
/// Quarters of the machine's memory that the buffer pool may have beside PHP.
const MEMORY_QUARTERS_BESIDE_PHP: u64 = 1;
/// A buffer pool above this many quarters of the memory leaves none for PHP.
const MEMORY_QUARTERS_MAX: u64 = 3;
/// Sizes are proposed in this unit.
const STEP_BYTES: u64 = 64 << 20;
/// Below this number of looked-up pages, the share of disk reads says nothing.
const REQUESTS_MIN: u64 = 100_000;

/// Everything about the database server. `None` if there is no server on this machine. `has_php`:
/// it shares the machine with PHP.
pub(super) fn database(fact: Option<&DatabaseFact>, machine: MachineFact, has_php: bool) -> Vec<Finding> {
    let Some(fact) = fact else {
        return vec![Finding::unseen(
            "database",
            "no database server is installed here, so its buffers cannot be seen",
            "run the command on the machine of the database",
        )];
    };
    let mut found = vec![buffers(fact, machine, has_php)];
    found.extend(disk_reads(fact));
    found.extend(query_cache(fact));
    found
}

fn restart(fact: &DatabaseFact) -> &'static str {
    if fact.name == "MySQL" { "systemctl restart mysql" } else { "systemctl restart mariadb" }
}

/// Where a line of the server's section belongs.
fn mend(fact: &DatabaseFact, key: &str, value: &str) -> String {
    let place = match fact.settings.last(key) {
        Some(set) => format!("line {} of {}", set.line, set.path.display()),
        None => format!("{}/90-site.cnf below `[mysqld]`", fact.directory.display()),
    };
    format!("write `{key} = {value}` in {place}, then {}", restart(fact))
}

/// The size of the buffer pool, in bytes.
pub(super) fn buffer_bytes(fact: &DatabaseFact) -> u64 {
    let written = fact.settings.last(BUFFER_KEY).and_then(|set| bytes(&set.value));
    fact.live.and_then(|live| live.buffer_bytes).or(written).unwrap_or(BUFFER_BYTES)
}

/// The buffer pool beside the tables and the machine's memory.
fn buffers(fact: &DatabaseFact, machine: MachineFact, has_php: bool) -> Finding {
    let (key, size) = (BUFFER_KEY, buffer_bytes(fact));
    let label = format!("{}: a buffer pool of {}", fact.name, rounded(size));
    let quarters = if has_php { MEMORY_QUARTERS_BESIDE_PHP } else { MEMORY_QUARTERS_MAX };
    let room = (machine.memory_bytes / 4 * quarters / STEP_BYTES).max(1) * STEP_BYTES;
    let megabytes = |bytes: u64| format!("{}M", bytes >> 20);
    if size / MEMORY_QUARTERS_MAX > machine.memory_bytes / 4 {
        let message = format!("{label}, but the machine has only {}", rounded(machine.memory_bytes));
        return Finding::warning("database", message, mend(fact, key, &megabytes(room)))
            .because("the pool and PHP then push each other out to the swap space");
    }
    let Some(data) = fact.live.and_then(|live| live.data_bytes).or(fact.data_bytes) else {
        let message = format!("{label}; the size of the tables cannot be seen");
        return Finding::unseen("database", message, "run `petasos doctor --stack` as root");
    };
    // A quarter more than the tables, for their growth.
    let wanted = (data + data / 4).div_ceil(STEP_BYTES).max(1) * STEP_BYTES;
    if size >= data {
        return Finding::ok("database", format!("{label} holds all tables ({})", rounded(data)));
    }
    if size >= room {
        let limit = if has_php { "be taken from PHP" } else { "be above three quarters of the memory" };
        let message = format!("{label} for tables of {}; more would {limit}", rounded(data));
        return Finding::ok("database", message);
    }
    let message = format!("{label} for tables of {}", rounded(data));
    Finding::warning("database", message, mend(fact, key, &megabytes(wanted.min(room))))
        .because("tables that do not fit are read from the disk again, in the middle of a page")
}

/// How often the server went to the disk. This judges the pool by its use.
fn disk_reads(fact: &DatabaseFact) -> Option<Finding> {
    let live = fact.live?;
    let (reads, requests) = (live.disk_reads?, live.requests?);
    if requests < REQUESTS_MIN {
        return None;
    }
    let hundredths = reads.saturating_mul(10_000) / requests;
    let share = format!("{}.{:02} %", hundredths / 100, hundredths % 100);
    Some(Finding::ok("database", format!("{share} of {requests} looked-up pages came from the disk")))
}

/// The query cache of MariaDB, which MySQL no longer has.
fn query_cache(fact: &DatabaseFact) -> Option<Finding> {
    let set = fact.settings.last("query_cache_type")?;
    let is_used = is_on(&set.value) || set.value.eq_ignore_ascii_case("demand");
    (is_used && fact.name == "MariaDB").then(|| {
        Finding::warning("database", "the query cache is on", mend(fact, "query_cache_type", "0"))
            .because("one lock guards it, so every write makes all queries of the site wait")
    })
}

#[cfg(test)]
mod tests {
    use super::super::assignments::Assignments;
    use super::super::facts::LiveDatabaseFact;
    use super::{DatabaseFact, MachineFact, database};
    use crate::finding::{Finding, Level};
    use std::path::Path;

    const MACHINE: MachineFact = MachineFact { memory_bytes: 4 << 30, cores: 2 };

    fn fact(text: &str, data: Option<u64>) -> DatabaseFact {
        let mut settings = Assignments::default();
        settings.add(Path::new("/etc/mysql/mariadb.conf.d/50-server.cnf"), text);
        let directory = "/etc/mysql/mariadb.conf.d".into();
        DatabaseFact { name: "MariaDB", settings, directory, data_bytes: data, live: None }
    }

    fn first(fact: &DatabaseFact) -> Finding {
        database(Some(fact), MACHINE, true).remove(0)
    }

    #[test]
    fn buffers_hold_the_tables_or_a_line_makes_them() {
        let own = first(&fact("", Some(100 << 20)));
        assert_eq!(own.level, Level::Ok, "{own:?}");
        let small = first(&fact("", Some(400 << 20)));
        let line = "write `innodb_buffer_pool_size = 512M` in /etc/mysql/mariadb.conf.d/90-site.cnf below `[mysqld]`";
        assert!(small.level == Level::Warning && small.fix.clone().unwrap().contains(line), "{small:?}");
        // Not more than a quarter of the memory, and the existing line.
        let large = first(&fact("innodb_buffer_pool_size = 256M\n", Some(9 << 30)));
        let line = "`innodb_buffer_pool_size = 1024M` in line 1 of /etc/mysql/mariadb.conf.d/50-server.cnf";
        assert!(large.fix.clone().unwrap().contains(line), "{large:?}");
        assert_eq!(first(&fact("innodb_buffer_pool_size = 1G\n", Some(9 << 30))).level, Level::Ok);
        assert_eq!(first(&fact("innodb_buffer_pool_size = 3500M\n", Some(1))).level, Level::Warning);
        assert_eq!(first(&fact("", None)).level, Level::Unseen);
        assert_eq!(database(None, MACHINE, true)[0].level, Level::Unseen);
        // Without PHP, three quarters of the memory are there.
        let alone = |text: &str| database(Some(&fact(text, Some(9 << 30))), MACHINE, false).remove(0);
        let found = alone("innodb_buffer_pool_size = 1G\n");
        assert!(found.fix.clone().unwrap().contains("`innodb_buffer_pool_size = 3072M`"), "{found:?}");
        let full = alone("innodb_buffer_pool_size = 3G\n");
        assert!(
            full.level == Level::Ok && full.message.ends_with("three quarters of the memory"),
            "{full:?}"
        );
    }

    #[test]
    fn running_server_is_believed_before_its_files() {
        let live = LiveDatabaseFact {
            buffer_bytes: Some(512 << 20),
            data_bytes: Some(300 << 20),
            disk_reads: Some(123),
            requests: Some(1_000_000),
        };
        let fact = DatabaseFact { live: Some(live), ..fact("innodb_buffer_pool_size = 8M\n", Some(9 << 30)) };
        let found = database(Some(&fact), MACHINE, true);
        assert_eq!(found[0].level, Level::Ok, "{found:?}");
        assert!(found[1].message.starts_with("0.01 % of 1000000"), "{found:?}");
    }

    #[test]
    fn query_cache_is_switched_off() {
        for (text, count) in [("query_cache_type = ON\n", 2), ("query_cache_type = 0\n", 1), ("", 1)] {
            let found = database(Some(&fact(text, Some(1))), MACHINE, true);
            assert_eq!(found.len(), count, "{text} {found:?}");
        }
    }
}
