//! What has to be there before the servers of the WordPress lab can start: a copy of the package's WordPress, a
//! database, content.
//!
//! Invariant: a part is either missing or complete. It is made under another name and renamed at the end, or,
//! as the content, marked when it is complete; a killed attempt is thrown away by the next.

use super::PACKAGES;
use crate::packages::tail;
use crate::place::{make_own, output};
use crate::service::Place;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian's package keeps WordPress.
const WORDPRESS_PATH: &str = "/usr/share/wordpress";

/// Copies the package's WordPress, links resolved, when there is no copy or the package's version is another.
pub(super) fn copy_wordpress(place: &Place) -> Result<()> {
    let names = PACKAGES.last().copied().unwrap_or_default();
    let version = output(Command::new("dpkg-query").args(["--show"]).args(names))?;
    let (copy, new, mark) =
        (at(place, "wordpress"), at(place, "wordpress.new"), at(place, "wordpress.version"));
    if copy.exists() && fs::read_to_string(&mark).is_ok_and(|found| found == version) {
        return Ok(());
    }
    // With the copy go the uploaded pictures: the database that names them must be made anew as well.
    [&at(place, "mariadb"), &copy, &new].into_iter().try_for_each(|old| remove(old))?;
    output(place.account.step("cp").args(["-rL", "--no-preserve=mode", WORDPRESS_PATH]).arg(&new))?;
    for name in ["wp-content/mu-plugins", "wp-content/uploads"] {
        make_own(place.account, &new.join(name))?;
    }
    fs::rename(&new, &copy)?;
    fs::write(&mark, version).with_context(|| format!("cannot write {}", mark.display()))
}

/// Makes MariaDB's own tables, once.
pub(super) fn make_database(place: &Place) -> Result<()> {
    let (data, new) = (at(place, "mariadb"), at(place, "mariadb.new"));
    if data.exists() {
        return Ok(());
    }
    remove(&new)?;
    let mut command = place.account.step("mariadb-install-db");
    command.args([
        "--no-defaults",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
    ]);
    run(place, "mariadb-install-db", command.arg(format!("--datadir={}", new.display())))?;
    fs::rename(&new, &data)?;
    Ok(())
}

/// Lets WordPress install itself and make its content, unless it has.
pub(super) fn fill(place: &Place) -> Result<()> {
    let mut command = place.account.step("php8.2");
    command.args(["-d", "memory_limit=512M", "-d", "display_errors=stderr", "-d", "sendmail_path=/bin/true"]);
    command.arg(at(place, "conf/fill.php")).arg(at(place, "wordpress")).arg(at(place, "conf/admin-password"));
    run(place, "fill", &mut command)
}

/// Runs a step whose output goes to a log of its own.
fn run(place: &Place, name: &str, command: &mut Command) -> Result<()> {
    let path = place.log(name);
    let log = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let status = command.current_dir(&place.directory).stdout(log.try_clone()?).stderr(log).status();
    let status = status.with_context(|| format!("cannot run {name}"))?;
    ensure!(status.success(), "{name} ended with {status}; {}", tail(&path));
    Ok(())
}

/// Removes a directory with all that is in it, if it is there.
fn remove(directory: &Path) -> Result<()> {
    let removed = if directory.exists() { fs::remove_dir_all(directory) } else { Ok(()) };
    removed.with_context(|| format!("cannot remove {}", directory.display()))
}

fn at(place: &Place, path: &str) -> PathBuf {
    place.directory.join(path)
}
