//! The user that runs the edge, and the user's permissions for files.
//!
//! Invariant: permissions are judged by owner, group and mode. Access control lists are not read.

use rustix::process::{getgroups, getuid};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The user of the Debian package.
const SERVICE: &str = "petasos";

/// A user with its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The name, or the number if there is none.
    pub name: String,
    pub(crate) user: u32,
    pub(crate) groups: Vec<u32>,
}

/// Why there is no account.
#[derive(Debug, PartialEq, Eq)]
pub enum AccountError {
    /// The machine has no user of this name.
    Unknown(String),
}

/// Owner, group and mode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ownership {
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) mode: u32,
}

impl Ownership {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self { user: metadata.uid(), group: metadata.gid(), mode: metadata.mode() })
    }
}

/// Rights, as the bits of one class of a mode.
pub(crate) const READ: u32 = 4;
pub(crate) const WRITE: u32 = 2;
pub(crate) const SEARCH: u32 = 1;

impl Account {
    /// The user that the edge has: the one with this name, or else the package's user for root, if
    /// it exists, or else the user of this process.
    ///
    /// # Errors
    /// If no user has the name.
    pub fn of(name: Option<&str>) -> Result<Self, AccountError> {
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let groups = fs::read_to_string("/etc/group").unwrap_or_default();
        if let Some(name) = name {
            return Self::named(name, &users, &groups).ok_or_else(|| AccountError::Unknown(name.to_owned()));
        }
        let service = getuid().is_root().then(|| Self::named(SERVICE, &users, &groups)).flatten();
        Ok(service.unwrap_or_else(|| Self::own(&users)))
    }

    /// Whether it is the user of the Debian package, whose unit has a sandbox.
    pub(crate) fn is_service(&self) -> bool {
        self.name == SERVICE
    }

    /// Whether it is the user of this process.
    pub fn is_own(&self) -> bool {
        self.user == getuid().as_raw()
    }

    fn own(users: &str) -> Self {
        let user = getuid().as_raw();
        let own = users.lines().find(|line| number(line, 2) == Some(user));
        let name = own.and_then(|line| line.split(':').next()).map(str::to_owned);
        let mut groups: Vec<_> =
            getgroups().unwrap_or_default().into_iter().map(rustix::fs::Gid::as_raw).collect();
        groups.push(rustix::process::getgid().as_raw());
        Self { name: name.unwrap_or_else(|| user.to_string()), user, groups }
    }

    /// The user in the texts of /etc/passwd and /etc/group.
    fn named(name: &str, users: &str, groups: &str) -> Option<Self> {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut all = vec![number(line, 3)?];
        let is_member =
            |line: &&str| line.split(':').nth(3).unwrap_or_default().split(',').any(|one| one == name);
        all.extend(groups.lines().filter(is_member).filter_map(|line| number(line, 2)));
        Some(Self { name: name.to_owned(), user: number(line, 2)?, groups: all })
    }

    /// Whether the user has all these rights.
    pub(crate) fn may(&self, file: Ownership, rights: u32) -> bool {
        if self.user == 0 {
            return true;
        }
        let class = if file.user == self.user {
            file.mode >> 6
        } else if self.groups.contains(&file.group) {
            file.mode >> 3
        } else {
            file.mode
        };
        class & rights == rights
    }
}

/// The number in a field of a line of /etc/passwd or /etc/group.
fn number(line: &str, field: usize) -> Option<u32> {
    line.split(':').nth(field)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Account, Ownership, READ, SEARCH, WRITE};

    fn account() -> Account {
        let users = "root:x:0:0::/root:/bin/sh\npetasos:x:101:102::/nowhere:/usr/sbin/nologin\n";
        let groups = "root:x:0:\npetasos:x:102:\nssl-cert:x:105:other,petasos\nadm:x:4:petasos2\n";
        Account::named("petasos", users, groups).unwrap()
    }

    #[test]
    fn user_is_read_with_all_groups() {
        assert_eq!(account(), Account { name: "petasos".to_owned(), user: 101, groups: vec![102, 105] });
        assert_eq!(Account::named("nobody", "", ""), None);
    }

    #[test]
    fn first_class_that_matches_decides() {
        for (user, group, mode, rights, expected) in [
            (101, 0, 0o600, READ | WRITE, true),
            // The owner has the rights of the owner only.
            (101, 102, 0o077, READ, false),
            (0, 105, 0o640, READ, true),
            (0, 105, 0o640, WRITE, false),
            (0, 4, 0o750, SEARCH, false),
            (0, 0, 0o755, READ | SEARCH, true),
            (0, 0, 0o755, WRITE, false),
        ] {
            let file = Ownership { user, group, mode };
            assert_eq!(account().may(file, rights), expected, "{file:?} {rights}");
        }
        let root = Account { name: "root".to_owned(), user: 0, groups: vec![0] };
        assert!(root.may(Ownership { user: 1, group: 1, mode: 0 }, READ | WRITE));
    }
}
