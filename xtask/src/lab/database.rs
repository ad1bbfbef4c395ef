//! MariaDB for a stack: its system tables, made once, and the server, which listens on a Unix
//! socket only.
//!
//! Invariant: the system tables are either missing or complete, and the next run removes incomplete
//! ones. Each content system creates its own database.

use super::stack::{ReadyCondition, StackServer, StackSite, StackStep, remove};
use crate::place::output;
use anyhow::Result;
use std::collections::BTreeMap;
use std::fs;

/// Makes MariaDB's system tables.
pub(crate) const MAKE: StackStep = StackStep::Make(make);
/// Starts the server.
pub(crate) const START: StackStep = StackStep::Start(StackServer {
    name: "mariadb",
    command: "mariadbd --defaults-file={{site}}/conf/my.cnf",
    ready: ReadyCondition::Socket("mariadb.sock"),
});

/// Runs SQL statements as MariaDB's root.
///
/// # Errors
/// With the server's error message.
pub(crate) fn run(site: &StackSite<'_>, statements: &str) -> Result<()> {
    query(site, statements).map(|_| ())
}

/// As [`run`]. Returns the rows: one a line, with a tab between two values.
fn query(site: &StackSite<'_>, statements: &str) -> Result<String> {
    let socket = format!("--socket={}", site.value("mariadb_socket")?);
    let mut client = site.place.account.step("mariadb");
    output(client.args(["--no-defaults", &socket, "--user=root", "--batch", "-N", "-e", statements]))
}

/// The checksum of each table of a database, by the table's name.
///
/// # Errors
/// With the server's error message.
pub(crate) fn checksums(site: &StackSite<'_>, database: &str) -> Result<BTreeMap<String, String>> {
    let tables = query(site, &format!("SHOW TABLES FROM {database}"))?;
    let names: Vec<String> = tables.lines().map(|table| format!("{database}.{table}")).collect();
    let sums = query(site, &format!("CHECKSUM TABLE {}", names.join(", ")))?;
    let sums = sums.lines().filter_map(|line| line.split_once('\t'));
    Ok(sums.map(|(table, sum)| (table.to_owned(), sum.to_owned())).collect())
}

/// Makes MariaDB's system tables, unless they exist.
fn make(site: &StackSite<'_>) -> Result<()> {
    let data = site.at("mariadb");
    let new = site.at("mariadb.new");
    if data.exists() {
        return Ok(());
    }
    remove(&new)?;
    let mut command = site.place.account.step("mariadb-install-db");
    command.args([
        "--no-defaults",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
    ]);
    site.run("mariadb-install-db", command.arg(format!("--datadir={}", new.display())))?;
    fs::rename(&new, &data)?;
    Ok(())
}
