//! A directory for servers that run as another user, and the rendering of configuration templates
//! into it.
//!
//! Invariant: only the servers' user can read the directory. Its path holds no character that a
//! server's configuration could not quote. A rendered file has no placeholder left. This module
//! starts nothing: [`crate::service`] does.

use crate::account::ServerAccount;
use crate::service::LabDirectory;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// Longest path of a Unix socket, in bytes (unix(7): 108 with the terminating zero).
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Longest socket path below the directory.
const LONGEST_SOCKET: &str = "run/php-opcode.sock";

/// Locks the directory against a second run until the returned file is closed.
pub(crate) fn lock(dir: &Path) -> Result<File> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let path = dir.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

impl LabDirectory {
    /// Returns the servers' directory and makes it first if necessary. It is `site` below `dir`. If
    /// the servers' user cannot reach that, or configurations cannot hold its path, `site` is a
    /// link to a directory below /var/tmp.
    pub(crate) fn settle(dir: &Path) -> Result<Self> {
        let account = ServerAccount::for_servers()?;
        let site = dir.join("site");
        if !site.exists() {
            // A link whose target was deleted is useless. Fails harmlessly if there is no link.
            let _ = fs::remove_file(&site);
        }
        if !site.is_symlink() {
            make_own(account, &site)?;
            let found = site.canonicalize()?;
            let reachable = account.command("test").arg("-x").arg(&found).status()?.success();
            if !reachable || !is_usable(&found) {
                fs::remove_dir(&site).with_context(|| format!("{} is in the way", site.display()))?;
                let other =
                    output(account.command("mktemp").args(["-d", "/var/tmp/petasos-servers.XXXXXX"]))?;
                eprintln!("the servers cannot work in {}: their files are in {other}", found.display());
                symlink(&other, &site)?;
            }
        }
        let place = Self::find(dir, account)?;
        for name in ["conf", "log", "run", "tmp"] {
            make_own(account, &place.directory.join(name))?;
        }
        Ok(place)
    }

    /// Returns the servers' directory if it exists already.
    ///
    /// # Errors
    /// If it does not exist.
    pub(crate) fn find(dir: &Path, account: ServerAccount) -> Result<Self> {
        let site = dir.join("site");
        let directory = site.canonicalize().with_context(|| format!("cannot find {}", site.display()))?;
        Ok(Self { directory, account })
    }

    /// Writes a file that only the servers' account can read. `path` is relative to the directory.
    ///
    /// # Errors
    /// Names the file that cannot be written.
    pub(crate) fn write(&self, path: &str, text: &str) -> Result<()> {
        let path = self.directory.join(path);
        let written = fs::write(&path, text)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o600)))
            .and_then(|()| self.account.give(&path));
        written.with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Makes a directory, unless it exists, and restricts it to the account. It may hold sockets,
/// secrets or a database without a password.
pub(crate) fn make_own(account: ServerAccount, path: &Path) -> Result<()> {
    let made = if path.exists() { Ok(()) } else { fs::create_dir(path) };
    made.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o700)))
        .and_then(|()| account.give(path))
        .with_context(|| format!("cannot make {}", path.display()))
}

/// Finds `count` free loopback addresses. All listeners stay open until the last one is bound, so
/// that the addresses differ.
pub(crate) fn loopback_addresses(count: usize) -> Result<Vec<SocketAddr>> {
    let listeners: Vec<_> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
    Ok(listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?)
}

/// As [`loopback_addresses`], for a constant number of addresses.
pub(crate) fn free_addresses<const N: usize>() -> Result<[SocketAddr; N]> {
    loopback_addresses(N)?.try_into().ok().context("as many addresses as listeners")
}

/// Replaces each `{{name}}` with its value. A placeholder without a value is an error.
pub(crate) fn render(template: &str, values: &[(&str, &str)]) -> Result<String> {
    let text = values
        .iter()
        .fold(template.to_owned(), |text, (name, value)| text.replace(&format!("{{{{{name}}}}}"), value));
    let unknown = text.split_once("{{").map(|(_, rest)| rest.lines().next().unwrap_or_default());
    ensure!(
        unknown.is_none(),
        "a template has a placeholder that nothing is put into: {{{{{}",
        unknown.unwrap_or_default()
    );
    Ok(text)
}

/// Runs a short command and returns its output without the trailing newline.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Whether every server's configuration can hold this path, and a socket path below it is short
/// enough for the system.
fn is_usable(directory: &Path) -> bool {
    let Some(text) = directory.to_str() else { return false };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@".contains(&byte);
    text.bytes().all(plain) && text.len() + 1 + LONGEST_SOCKET.len() <= SOCKET_PATH_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::{free_addresses, is_usable, render};
    use std::path::Path;

    #[test]
    fn placeholders_are_replaced_and_unknown_ones_are_errors() {
        assert_eq!(render("a {{x}} {{y}} {{x}}", &[("x", "1"), ("y", "2")]).unwrap(), "a 1 2 1");
        assert!(render("a {{z}}", &[("x", "1")]).unwrap_err().to_string().contains("{{z}}"));
    }

    #[test]
    fn directory_must_be_usable_in_every_configuration() {
        assert!(is_usable(Path::new("/home/me/petasos-1.0/target/labs/wordpress/site")));
        assert!(!is_usable(Path::new("/home/me/my sites/petasos")));
        assert!(!is_usable(Path::new("/home/{me}/petasos")));
        assert!(is_usable(Path::new(&format!("/{}", "d".repeat(86)))));
        assert!(!is_usable(Path::new(&format!("/{}", "d".repeat(87)))), "a socket's path would be too long");
    }

    #[test]
    fn addresses_differ() {
        let [first, second, third] = free_addresses().unwrap();
        assert!(first != second && second != third && first != third);
    }
}
