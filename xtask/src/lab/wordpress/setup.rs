//! What has to be there before the servers of the WordPress lab can start: a directory that their user can
//! work in, a copy of the package's WordPress, a database, content.
//!
//! Invariant: a part is either missing or complete. It is made under another name and renamed at the end, or,
//! as the content, marked when it is complete; a killed attempt is thrown away by the next.

use super::PACKAGES;
use crate::account::Account;
use crate::lab::wordpress::files;
use crate::packages::tail;
use crate::service::Place;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian's package keeps WordPress.
const WORDPRESS_PATH: &str = "/usr/share/wordpress";

/// Keeps a second `up` or `down` out until the file is closed.
pub(super) fn lock(dir: &Path) -> Result<File> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let path = dir.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// The lab's own directory, made if it is not there: `site` below `dir`, or, where the servers' user or their
/// configurations cannot get at that, a link to a directory below /var/tmp.
pub(super) fn settle(dir: &Path) -> Result<Place> {
    let account = Account::for_servers()?;
    let site = dir.join("site");
    if !site.exists() {
        // A link whose target has been cleaned away is of no use.
        let _ = fs::remove_file(&site);
    }
    if !site.is_symlink() {
        make_own(account, &site)?;
        let found = site.canonicalize()?;
        let reachable = account.command("test").arg("-x").arg(&found).status()?.success();
        if !reachable || !files::is_usable(&found) {
            fs::remove_dir(&site).with_context(|| format!("{} is in the way", site.display()))?;
            let other = output(account.command("mktemp").args(["-d", "/var/tmp/petasos-wordpress.XXXXXX"]))?;
            eprintln!("the servers cannot work in {}: their files are in {other}", found.display());
            symlink(&other, &site)?;
        }
    }
    let place = place(dir, account)?;
    for name in ["conf", "log", "run", "tmp"] {
        make_own(account, &place.directory.join(name))?;
    }
    Ok(place)
}

pub(super) fn place(dir: &Path, account: Account) -> Result<Place> {
    let site = dir.join("site");
    let directory = site.canonicalize().with_context(|| format!("cannot find {}", site.display()))?;
    Ok(Place { directory, account })
}

/// Makes a directory, if it is not there, and makes it the account's alone: what is in it (sockets, secrets, a
/// database without password) is nobody else's business.
fn make_own(account: Account, path: &Path) -> Result<()> {
    let made = if path.exists() { Ok(()) } else { fs::create_dir(path) };
    made.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o700)))
        .and_then(|()| account.give(path))
        .with_context(|| format!("cannot make {}", path.display()))
}

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

/// What a short command prints, without the end of line.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Removes a directory with all that is in it, if it is there.
fn remove(directory: &Path) -> Result<()> {
    let removed = if directory.exists() { fs::remove_dir_all(directory) } else { Ok(()) };
    removed.with_context(|| format!("cannot remove {}", directory.display()))
}

fn at(place: &Place, path: &str) -> PathBuf {
    place.directory.join(path)
}
