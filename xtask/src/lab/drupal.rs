//! The Drupal lab: the user's own Drupal 7 or Pressflow 7 on MariaDB, PHP-FPM and nginx. Its
//! purpose is described in `labs/drupal/README.md`.
//!
//! Invariant: the user's tree is only read. A tree of another system is refused before anything is
//! made.

use super::files::StackFile;
use super::stack::{Stack, StackSite, StackStep, remove};
use super::{database, files, front, php};
use crate::account::ServerAccount;
use crate::place::{make_own, output};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

/// The script that submits the pages of Drupal's installer.
const INSTALL: &str = files::text!("drupal/php/install.php");
/// The script that makes the content.
const FILL: &str = files::text!("drupal/php/fill.php");
/// The file that defines Drupal's version.
const BOOTSTRAP: &str = "includes/bootstrap.inc";
/// Files that every Drupal 7 has and the lab needs.
const FILES: [&str; 4] = ["index.php", "install.php", BOOTSTRAP, "includes/install.core.inc"];

/// A string that [`BOOTSTRAP`] contains in Pressflow but not in Drupal.
const PRESSFLOW_SIGN: &str = "pressflow_smart_start";

/// The stack. It needs the values that [`given`] finds in the user's tree.
pub(crate) const STACK: Stack = Stack {
    title: "Drupal",
    name: "drupal",
    host: "drupal.test",
    page: "/",
    log_in: "/user",
    packages: &[&[
        "mariadb-server",
        "nginx-core",
        "php8.2-apcu",
        "php8.2-cli",
        "php8.2-fpm",
        "php8.2-gd",
        "php8.2-mbstring",
        "php8.2-mysql",
        "php8.2-opcache",
        "php8.2-xml",
    ]],
    addresses: &[
        ("nginx_objects", "nginx, opcode cache, Drupal keeps pages and all else in APCu"),
        (
            "nginx_aggressive",
            "nginx, opcode cache, Drupal keeps pages and sends them before modules are loaded",
        ),
        ("nginx_pages", "nginx, opcode cache, Drupal keeps pages"),
        ("nginx_opcode", "nginx, opcode cache"),
        ("nginx_plain_pages", "nginx, no opcode cache, Drupal keeps pages"),
        ("nginx_plain", "nginx, no opcode cache"),
        ("edge", "free for Petasos"),
    ],
    secrets: &["admin_password", "user_password", "hash_salt"],
    templates: &[
        files::FOR_PHP,
        &[
            files::rendered!("conf/nginx.conf", "drupal/conf/nginx.conf"),
            files::rendered!("conf/nginx-site.conf", "drupal/conf/nginx-site.conf"),
            StackFile::rendered("conf/install.php", INSTALL),
            StackFile::rendered("conf/fill.php", FILL),
            files::rendered!("drupal/sites/default/settings.php", "drupal/php/settings.php"),
            files::rendered!("drupal/lab-flush.php", "drupal/php/lab-flush.php"),
            files::verbatim!("drupal/sites/all/modules/lab/lab.info", "drupal/module/lab.info"),
            files::verbatim!("drupal/sites/all/modules/lab/lab.module", "drupal/module/lab.module"),
            files::verbatim!("drupal/sites/all/modules/lab/lab.cache.inc", "drupal/module/lab.cache.inc"),
        ],
    ],
    is_current: |_| true,
    steps: &[
        StackStep::Make(copy),
        StackStep::Write,
        database::MAKE,
        database::START,
        StackStep::Make(fill),
        php::START_PLAIN,
        php::START_OPCODE,
        front::start_nginx(&[
            "nginx_plain",
            "nginx_plain_pages",
            "nginx_opcode",
            "nginx_pages",
            "nginx_aggressive",
            "nginx_objects",
        ]),
    ],
};

/// Values from the user's tree: its canonical path, its distribution and its version.
///
/// # Errors
/// If it is not Drupal 7; the message names the missing part.
pub(crate) fn given(source: Option<&Path>) -> Result<[(&'static str, String); 3]> {
    let source =
        source.context("--source DIR is missing: the top of a Drupal 7 or Pressflow 7 that you have")?;
    ensure!(source.is_dir(), "--source: {} is not a directory", source.display());
    ensure!(
        !source.join("core/lib/Drupal.php").exists(),
        "--source: {} is Drupal 8 or later; this lab is for Drupal 7 and Pressflow 7",
        source.display()
    );
    for file in FILES {
        ensure!(
            source.join(file).is_file(),
            "--source: {} has no {file}; name the top of an unpacked Drupal 7 or Pressflow 7",
            source.display()
        );
    }
    let bootstrap = source.join(BOOTSTRAP);
    let text = fs::read(&bootstrap).with_context(|| format!("cannot read {}", bootstrap.display()))?;
    let text = String::from_utf8_lossy(&text);
    let version = text.split_once("define('VERSION', '").and_then(|(_, rest)| rest.split('\'').next());
    let version = version.with_context(|| format!("--source: {} states no VERSION", bootstrap.display()))?;
    ensure!(version.starts_with("7."), "--source: {} is Drupal {version}, not Drupal 7", source.display());
    let distribution = if text.contains(PRESSFLOW_SIGN) { "Pressflow" } else { "Drupal" };
    let source = source.canonicalize()?.to_str().context("--source: the path is not text")?.to_owned();
    Ok([("source", source), ("distribution", distribution.to_owned()), ("version", version.to_owned())])
}

/// Copies the tree and resolves links, unless there is a copy of it already.
fn copy(site: &StackSite<'_>) -> Result<()> {
    let copy = site.at("drupal");
    let new = site.at("drupal.new");
    let mark = site.at("drupal.source");
    let wanted = identity(site)?;
    if !copy.exists() || !files::holds(&mark, &wanted) {
        [&copy, &new].into_iter().try_for_each(|old| loosen(old).and_then(|()| remove(old)))?;
        let account = site.place.account;
        let source = site.value("source")?;
        copy_tree(account, Path::new(source), &new).with_context(|| format!("cannot copy {source}"))?;
        for name in ["sites", "sites/default", "sites/default/files"] {
            make_own(account, &new.join(name))?;
        }
        fs::rename(&new, &copy)?;
        files::write(&mark, &wanted)?;
    }
    loosen(&copy)
}

/// Copies a tree without `.git` and resolves links. The caller reads the files and the account
/// writes them, because files that root has cloned are often readable by root only.
fn copy_tree(account: ServerAccount, source: &Path, new: &Path) -> Result<()> {
    fs::create_dir(new)?;
    account.give(new)?;
    let mut reader = ServerAccount::Caller.step("tar");
    let reader = reader.arg("-C").arg(source).args(["-chf", "-", "--exclude=./.git", "."]);
    let mut reading = reader.stdout(Stdio::piped()).spawn().context("cannot start tar")?;
    let archive = reading.stdout.take().context("tar has no output")?;
    let mut writer = account.step("tar");
    let writer = writer.args(["-xf", "-", "--no-same-owner", "--no-same-permissions", "-C"]).arg(new);
    let written = output(writer.stdin(Stdio::from(archive)));
    let read = reading.wait()?;
    written?;
    ensure!(read.success(), "{} cannot be read as a whole", source.display());
    Ok(())
}

/// Text that identifies the user's tree: path, distribution and version.
fn identity(site: &StackSite<'_>) -> Result<String> {
    let [source, distribution, version] = ["source", "distribution", "version"].map(|name| site.value(name));
    Ok(format!("{}\n{} {}\n", source?, distribution?, version?))
}

/// Makes the settings file and its directory writable again. Drupal's installer removes that
/// permission at its end.
fn loosen(drupal: &Path) -> Result<()> {
    for (name, mode) in [("sites/default", 0o700), ("sites/default/settings.php", 0o600)] {
        let path = drupal.join(name);
        if path.exists() {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))
                .with_context(|| format!("cannot change {}", path.display()))?;
        }
    }
    Ok(())
}

/// Installs Drupal and makes its content, unless both exist and come from this tree and these
/// scripts.
fn fill(site: &StackSite<'_>) -> Result<()> {
    let mark = site.at("mariadb/filled-by");
    let wanted = format!("{}{INSTALL}{FILL}", identity(site)?);
    if files::holds(&mark, &wanted) {
        return Ok(());
    }
    // Without this removal, a failed attempt would look like the previous complete one.
    let _ = fs::remove_file(&mark);
    site.make_empty("drupal/sites/default/files")?;
    database::run(site, "DROP DATABASE IF EXISTS drupal; CREATE DATABASE drupal CHARACTER SET utf8mb4")?;
    install(site)?;
    loosen(&site.at("drupal"))?;
    let mut fill = php::script(site);
    fill.arg(site.at("conf/fill.php")).arg(site.at("drupal")).arg(site.at("conf/user-password"));
    site.run("fill", &mut fill)?;
    files::write(&mark, &wanted)
}

/// Submits the pages of Drupal's installer. PHP's built-in server serves them, because the lab's
/// nginx does not serve the installer. It listens at the address of `nginx_plain`, which is still
/// unused.
fn install(site: &StackSite<'_>) -> Result<()> {
    let address = site.value("nginx_plain")?;
    let path = site.place.log("install-pages");
    let log = fs::File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut pages = php::script(site);
    pages.args(["-S", address, "-t"]).arg(site.at("drupal")).current_dir(&site.place.directory);
    let mut pages = pages.stdout(log.try_clone()?).stderr(log).spawn().context("cannot run php8.2")?;
    let mut walk = php::script(site);
    walk.arg(site.at("conf/install.php")).args([address]).arg(site.at("conf/admin-password"));
    let walked = site.run("install", &mut walk);
    pages.kill().and_then(|()| pages.wait()).context("cannot end the server of the install pages")?;
    walked
}

#[cfg(test)]
mod tests {
    use super::{BOOTSTRAP, FILES, copy_tree, given};
    use crate::account::ServerAccount;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::path::{Path, PathBuf};

    /// Makes a directory with these files, each with a definition of this version.
    fn tree(name: &str, files: &[&str], version: &str) -> PathBuf {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/xtask-tests/drupal").join(name);
        let _ = fs::remove_dir_all(&top);
        for file in files {
            let path = top.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("<?php\ndefine('VERSION', '{version}');\n")).unwrap();
        }
        top
    }

    #[test]
    fn clone_readable_by_its_owner_only_is_copied_without_git() {
        let top = tree("clone", &["index.php", ".git/objects/pack", "includes/a.inc"], "7.103");
        for file in ["index.php", ".git/objects/pack"] {
            fs::set_permissions(top.join(file), fs::Permissions::from_mode(0o400)).unwrap();
        }
        fs::set_permissions(top.join(".git"), fs::Permissions::from_mode(0o700)).unwrap();
        let new = top.with_extension("new");
        let _ = fs::remove_dir_all(&new);
        copy_tree(ServerAccount::for_servers().unwrap(), &top, &new).unwrap();
        assert!(new.join("index.php").is_file() && new.join("includes/a.inc").is_file());
        assert!(!new.join(".git").exists());
        if let ServerAccount::Other { user, .. } = ServerAccount::for_servers().unwrap() {
            assert_eq!(fs::metadata(new.join("index.php")).unwrap().uid(), user);
        }
    }

    #[test]
    fn tree_that_is_not_drupal_7_is_refused_with_the_reason() {
        let refused = |source: Option<&Path>, reason: &str| {
            let error = given(source).unwrap_err().to_string();
            assert!(error.contains("--source") && error.contains(reason), "{error}");
        };
        refused(None, "--source DIR is missing");
        refused(Some(Path::new("/no/such/directory")), "/no/such/directory is not a directory");
        refused(Some(Path::new("/proc")), "/proc has no index.php");
        refused(Some(&tree("half", &FILES[..2], "7.103")), "has no includes/bootstrap.inc");
        refused(Some(&tree("six", &FILES, "6.38")), "is Drupal 6.38");
        refused(Some(&tree("nine", &["core/lib/Drupal.php", "index.php"], "9.5")), "is Drupal 8 or later");
    }

    #[test]
    fn distribution_and_version_of_drupal_7_are_recognised() {
        let top = tree("seven", &FILES, "7.103");
        let [(_, source), (_, distribution), (_, version)] = given(Some(&top)).unwrap();
        assert!(source.ends_with("/drupal/seven"), "{source}");
        assert_eq!((distribution.as_str(), version.as_str()), ("Drupal", "7.103"));
        let bootstrap = "<?php\ndefine('VERSION', '7.101');\nvariable_get('pressflow_smart_start', FALSE);\n";
        fs::write(top.join(BOOTSTRAP), bootstrap).unwrap();
        let [_, (_, distribution), (_, version)] = given(Some(&top)).unwrap();
        assert_eq!((distribution.as_str(), version.as_str()), ("Pressflow", "7.101"));
    }
}
