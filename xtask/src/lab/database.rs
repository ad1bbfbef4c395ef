//! MariaDB for a stack: its own tables, made once, and the server, at a Unix socket alone.
//!
//! Invariant: the tables are either missing or complete; a killed attempt is thrown away by the next. Databases are
//! the content system's own business.

use super::stack::{Ready, Server, Site, Step, remove};
use crate::place::output;
use anyhow::Result;
use std::fs;

/// Makes MariaDB's own tables.
pub(crate) const MAKE: Step = Step::Make(make);
/// Starts the server.
pub(crate) const START: Step = Step::Start(Server {
    name: "mariadb",
    command: "mariadbd --defaults-file={{site}}/conf/my.cnf",
    ready: Ready::Socket("mariadb.sock"),
});

/// Has the server carry out statements.
///
/// # Errors
/// What the server says to them.
pub(crate) fn run(site: &Site<'_>, statements: &str) -> Result<()> {
    let socket = format!("--socket={}", site.value("mariadb_socket")?);
    let mut client = site.place.account.step("mariadb");
    output(client.args(["--no-defaults", &socket, "--user=root", "-e", statements])).map(|_| ())
}

/// Makes MariaDB's own tables, once.
fn make(site: &Site<'_>) -> Result<()> {
    let (data, new) = (site.at("mariadb"), site.at("mariadb.new"));
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
