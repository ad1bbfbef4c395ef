//! A password file: lines of `user:hash`.
//!
//! Invariant: a file is accepted complete or not at all. A file with a gap would lock out a user
//! without a word.

use crate::credentials::Credentials;
use crate::hash::{HashError, PasswordHash};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;

/// The users of a site and the hashes of their passwords. Two files are equal if their texts are.
#[derive(Clone)]
pub struct PasswordFile {
    users: BTreeMap<Vec<u8>, PasswordHash>,
    digest: [u8; 32],
}

/// A line that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number in the file, from 1.
    pub number: usize,
    /// The fault.
    pub problem: LineError,
}

/// The fault of a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is not a name and a hash.
    #[error("a line is `user:hash`; make it with `htpasswd -B`")]
    NoUser,
    /// An earlier line has the same name.
    #[error("an earlier line is for the same user; remove one of them")]
    Twice,
    /// The hash cannot be used.
    #[error("{0}")]
    Hash(#[from] HashError),
}

impl PasswordFile {
    /// Reads the text of a file. Empty lines and lines that begin with `#` count for nothing, and
    /// so does anything after a second colon.
    ///
    /// # Errors
    /// All lines that cannot be used.
    pub fn parse(text: &str) -> Result<Self, Vec<BadLine>> {
        let (mut users, mut bad) = (BTreeMap::new(), Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match read_line(line) {
                Ok((user, hash)) => {
                    if users.insert(user.as_bytes().to_vec(), hash).is_some() {
                        bad.push(BadLine { number, problem: LineError::Twice });
                    }
                }
                Err(problem) => bad.push(BadLine { number, problem }),
            }
        }
        let digest = Sha256::digest(text.as_bytes()).into();
        if bad.is_empty() { Ok(Self { users, digest }) } else { Err(bad) }
    }

    /// The number of users.
    pub fn users(&self) -> usize {
        self.users.len()
    }

    /// The SHA-256 digest of the text. It distinguishes checks under different files.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Whether the credentials are those of a user. Takes up to a second of a processor, for
    /// unknown users too.
    pub fn admits(&self, credentials: &Credentials) -> bool {
        let known = self.users.get(&credentials.user);
        let Some(hash) = known.or_else(|| self.users.values().next()) else { return false };
        let is_of = hash.is_of(&credentials.password);
        known.is_some() && is_of
    }
}

fn read_line(line: &str) -> Result<(&str, PasswordHash), LineError> {
    let (user, rest) = line.split_once(':').filter(|(user, _)| !user.is_empty()).ok_or(LineError::NoUser)?;
    let hash = rest.split(':').next().unwrap_or_default();
    Ok((user, PasswordHash::parse(hash)?))
}

impl PartialEq for PasswordFile {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for PasswordFile {}

impl fmt::Debug for PasswordFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordFile").field("users", &self.users.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{BadLine, LineError, PasswordFile};
    use crate::{Credentials, HashError};
    use proptest::prelude::{any, proptest};

    const ANN: &str = "ann:$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.";
    const BOB: &str = "bob:$5$rounds=1400$saltsaltsaltsalt$1IhldHiaE6B4kivNYSu0Vxm0fHWfj9BAerBqRvi1IE9";

    fn credentials(user: &str, password: &str) -> Credentials {
        Credentials { user: user.into(), password: password.into() }
    }

    #[test]
    fn users_of_a_file_have_their_own_passwords() {
        let file = PasswordFile::parse(&format!("# staging\n\n{ANN}\r\n{BOB}:Bob B.\n")).unwrap();
        assert_eq!(file.users(), 2);
        let long = "a rather long pass phrase of more than sixty-four letters, with spaces";
        for (user, password, expected) in [
            ("ann", "secret", true),
            ("bob", long, true),
            ("ann", long, false),
            ("bob", "secret", false),
            ("", "secret", false),
            ("Ann", "secret", false),
            // An unknown user is checked with the first hash, which is Ann's.
            ("eve", "secret", false),
        ] {
            assert_eq!(file.admits(&credentials(user, password)), expected, "{user} {password}");
        }
        assert!(!PasswordFile::parse("").unwrap().admits(&credentials("", "")));
    }

    #[test]
    fn bad_lines_are_named_with_their_numbers() {
        let text = format!("{ANN}\n{ANN}\nx\n:y\neve:$apr1$a$b\n");
        let bad = PasswordFile::parse(&text).unwrap_err();
        let numbers: Vec<_> = bad.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [2, 3, 4, 5]);
        let problems: Vec<_> = bad.into_iter().map(|BadLine { problem, .. }| problem).collect();
        let broken = LineError::Hash(HashError::Broken);
        assert_eq!(problems, [LineError::Twice, LineError::NoUser, LineError::NoUser, broken]);
    }

    #[test]
    fn hashes_are_not_printed() {
        let file = PasswordFile::parse(ANN).unwrap();
        assert_eq!(format!("{file:?}"), "PasswordFile { users: 1, .. }");
        assert_ne!(file, PasswordFile::parse(&format!("{ANN}\n")).unwrap());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(\\$[256][aby]?\\$(rounds=)?[0-9]{0,3}\\$?)?\\PC{0,40}", value in any::<Vec<u8>>()) {
            let _ = PasswordFile::parse(&format!("a:{text}\n{text}"));
            let _ = Credentials::read(&value);
            let _ = Credentials::read(&[b"Basic ", &value[..]].concat());
        }
    }
}
