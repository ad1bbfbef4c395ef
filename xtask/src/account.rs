//! The user that a lab's servers run as. All servers run as one ordinary user, because some refuse
//! to run as root and none needs root. It is the caller, or Debian's user for web servers if the
//! caller is root.
//!
//! Invariant: a program started through an account has no more rights than its user. This module
//! creates no users.

use anyhow::{Context, Result};
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Debian's user for web servers, present on every installation.
const WEB_USER: &str = "www-data";

/// The user that runs the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerAccount {
    /// The user who called this program.
    Caller,
    /// Another user, by its ids; the caller is root.
    Other {
        /// User id.
        user: u32,
        /// Id of the user's primary group.
        group: u32,
    },
}

impl ServerAccount {
    /// The account for servers started by the caller.
    ///
    /// # Errors
    /// If the caller is root and the machine has no user for web servers.
    pub(crate) fn for_servers() -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Caller);
        }
        let passwd = std::fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        let (user, group) =
            numbers(&passwd, WEB_USER).with_context(|| format!("/etc/passwd has no user {WEB_USER}"))?;
        Ok(Self::Other { user, group })
    }

    /// A command that runs as this account, with empty standard input and a minimal environment.
    pub(crate) fn command(self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).env_clear();
        command
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LANG", "C.UTF-8");
        if let Self::Other { user, group } = self {
            command.uid(user).gid(group);
        }
        command
    }

    /// As [`ServerAccount::command`], for a step of an installation. The step is killed when this
    /// program dies, because otherwise it could still write while the next attempt recreates the
    /// same files.
    pub(crate) fn step(self, program: &str) -> Command {
        let mut command = self.command("setpriv");
        command.args(["--pdeathsig", "KILL", program]);
        command
    }

    /// Makes this account the owner of a file or directory.
    ///
    /// # Errors
    /// As the system reports them.
    pub(crate) fn give(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Caller => Ok(()),
            Self::Other { user, group } => chown(path, Some(user), Some(group)),
        }
    }
}

/// The user id and group id of `name` in the text of /etc/passwd.
fn numbers(passwd: &str, name: &str) -> Option<(u32, u32)> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next()? == name;
        let mut numbers = fields.skip(1).map(|field| field.parse().ok());
        if found { Some((numbers.next()??, numbers.next()??)) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn user_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nwww:x:7:8::/:/bin/sh\nwww-data-x:x:1:2::/:/bin/sh\n\
            www-data:x:33:34:w:/var/www:/bin/sh\nbad:x:a:b\n";
        assert_eq!(numbers(passwd, "www-data"), Some((33, 34)));
        assert_eq!(numbers(passwd, "www-dat"), None);
        assert_eq!(numbers(passwd, "bad"), None);
    }
}
