//! Installs the Debian packages that tests and labs need, if they are missing.
//!
//! Invariant: no service of a package is started, now or at boot. No file of the machine's owner is
//! changed. Nothing happens without permission (root or sudo). Packages are never removed, and an
//! installed package keeps its version.

use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// The script that runs as root. Its head describes it.
const INSTALL: &str = include_str!("packages/install.sh");
/// The file that Debian's maintainer scripts consult before they start a service.
const POLICY_PATH: &str = "/usr/sbin/policy-rc.d";
/// The policy during an installation: start nothing. The comment in it lets a later run recognise a
/// file that a killed run left.
const POLICY: &str = "#!/bin/sh\n# Petasos installs packages without starting their services.\nexit 101";
/// Output of apt.
const LOG_PATH: &str = "target/packages.log";
/// Number of log lines that an error message shows.
pub(crate) const TAIL_LINES: usize = 15;
/// The script's exit code if the owner's own policy lets services start.
const POLICY_ALLOWS: i32 = 3;

/// Installs these Debian packages if they are missing. Asks first on a terminal, unless `CI=true`.
///
/// # Errors
/// If a package is missing and may not or cannot be installed. The message names the command to run
/// by hand.
pub(crate) fn ensure(packages: &[&str]) -> Result<()> {
    ensure_in_order(&[packages])
}

/// As [`ensure`], but installs each list before the next. A package that depends on one of several
/// alternatives then takes an installed one instead of the first.
///
/// # Errors
/// As [`ensure`].
pub(crate) fn ensure_in_order(lists: &[&[&str]]) -> Result<()> {
    let wanted: Vec<&str> = lists.concat();
    let listing = Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Abbrev} ${Package}\\n"])
        .args(&wanted)
        .output()
        .with_context(|| {
            format!("dpkg-query does not run: this needs Debian 12 with {}", wanted.join(" "))
        })?;
    let listing = String::from_utf8_lossy(&listing.stdout);
    let lists: Vec<String> =
        lists.iter().map(|list| missing(list, &listing).join(" ")).filter(|list| !list.is_empty()).collect();
    if lists.is_empty() && !left_over() {
        return Ok(());
    }
    install(&lists)
}

/// The last lines of a log, for an error message.
pub(crate) fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    let last = lines.get(from..).unwrap_or_default().join("\n    ");
    format!("the last lines of {}:\n    {last}", path.display())
}

/// The packages of `wanted` that dpkg does not list as installed.
fn missing<'a>(wanted: &[&'a str], listing: &str) -> Vec<&'a str> {
    let installed = |name: &str| {
        let mut words = listing.lines().map(str::split_ascii_whitespace);
        words.any(|mut words| words.next() == Some("ii") && words.next() == Some(name))
    };
    wanted.iter().copied().filter(|name| !installed(name)).collect()
}

/// Whether a killed installation left its policy file.
fn left_over() -> bool {
    std::fs::read_to_string(POLICY_PATH).is_ok_and(|text| text.trim_end() == POLICY)
}

fn install(lists: &[String]) -> Result<()> {
    let by_hand = format!("apt-get install --no-install-recommends {}", lists.join(" "));
    let mut command =
        as_root().with_context(|| format!("Debian packages are missing; as root: {by_hand}"))?;
    ask(lists)?;
    std::fs::create_dir_all("target")?;
    let log = File::create(LOG_PATH).with_context(|| format!("cannot write {LOG_PATH}"))?;
    eprintln!("installing Debian packages: {} (log: {LOG_PATH})", lists.join(" "));
    let status = command
        .args(["sh", "-c", INSTALL, "petasos-packages", POLICY_PATH, POLICY])
        .args(lists)
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .context("cannot run sh as root")?;
    match status.code() {
        Some(0) => Ok(()),
        Some(POLICY_ALLOWS) => bail!(
            "{POLICY_PATH} is yours and lets packages start their services, so nothing was installed; as root: \
             {by_hand}"
        ),
        _ => bail!("apt-get failed ({status}); {}", tail(Path::new(LOG_PATH))),
    }
}

/// Returns a command that runs `env` as root, directly or through sudo. Arguments are added to it.
fn as_root() -> Result<Command> {
    if rustix::process::geteuid().is_root() {
        return Ok(Command::new("env"));
    }
    let without_password = Command::new("sudo")
        .args(["--non-interactive", "true"])
        .stderr(Stdio::null())
        .status()
        .context("this is not root, and there is no sudo")?;
    ensure!(
        without_password.success() || std::io::stdin().is_terminal(),
        "this is not root, and sudo wants a password"
    );
    let mut command = Command::new("sudo");
    command.arg("env");
    Ok(command)
}

/// Asks for consent if the program runs on a terminal.
fn ask(lists: &[String]) -> Result<()> {
    let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if lists.is_empty() || !terminal || std::env::var_os("CI").is_some_and(|ci| ci == "true") {
        return Ok(());
    }
    eprint!("Install the Debian packages {} and what they need? [Y/n] ", lists.join(" "));
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    // An empty line is consent, because yes is the default; end of input is not.
    ensure!(!answer.is_empty() && matches!(answer.trim(), "" | "y" | "Y" | "yes"), "nothing was installed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn packages_not_fully_installed_are_missing() {
        let listing = "ii  nginx-core\nrc  varnish\nun  php\niU  mariadb-server\n";
        let wanted = ["nginx-core", "varnish", "php", "mariadb-server", "wordpress"];
        assert_eq!(missing(&wanted, listing), ["varnish", "php", "mariadb-server", "wordpress"]);
        assert_eq!(missing(&["nginx"], "ii  nginx-core\n"), ["nginx"]);
        assert!(missing(&[], "").is_empty());
    }
}
