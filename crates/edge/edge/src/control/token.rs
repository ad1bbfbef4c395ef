//! The token for purges: read from its file, which is created if the plan says so.
//!
//! Invariants: an existing file is never changed. A new file is never visible half-written or
//! readable by others. It is written under another name and hard-linked to its own, which fails if
//! the name exists.

use config::EdgePlan;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Random bytes of a created token: 256 bits, written as hexadecimal digits.
const TOKEN_BYTES: usize = 32;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It could not be read.
    #[error(
        "cannot read the token file {}: {error}; write the token into its first line, or start with --create-token",
        path.display()
    )]
    Reading {
        /// The path as configured.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It could not be created.
    #[error("cannot create the token file {}: {error}; choose a directory that can be written", path.display())]
    Creation {
        /// The path as configured.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// The token of a plan, if it has one.
///
/// # Errors
/// If the file cannot be read, or should be created and cannot.
pub(crate) fn obtain(plan: &EdgePlan) -> Result<Option<String>, TokenError> {
    let Some(path) = &plan.token_file else { return Ok(None) };
    if plan.create_token {
        let failed = |error| TokenError::Creation { path: path.clone(), error };
        if create(path).map_err(failed)? {
            tracing::info!("created the token file {}", path.display());
        }
    }
    read(path).map(Some).map_err(|error| TokenError::Reading { path: path.clone(), error })
}

/// Reads the token: the first line of the file, trimmed.
fn read(path: &Path) -> io::Result<String> {
    let text = std::fs::read_to_string(path)?;
    match text.lines().next().map(str::trim).filter(|token| !token.is_empty()) {
        Some(token) => Ok(token.to_owned()),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "its first line is empty")),
    }
}

/// Creates the file with a random token unless it exists; returns whether it was created.
fn create(path: &Path) -> io::Result<bool> {
    if path.symlink_metadata().is_ok() {
        return Ok(false);
    }
    let token = random()?;
    let mut draft = path.as_os_str().to_owned();
    // A random suffix avoids collisions with other processes and with drafts of killed ones.
    draft.push(format!(".{:.16}", random()?));
    let draft = PathBuf::from(draft);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let linked = write(file, &token).and_then(|()| std::fs::hard_link(&draft, path));
    std::fs::remove_file(&draft)?;
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

fn write(mut file: File, token: &str) -> io::Result<()> {
    writeln!(file, "{token}")?;
    file.sync_all()
}

/// A new random token.
pub(crate) fn random() -> io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    if !is_simulated(&mut bytes) {
        // Up to 256 bytes are always returned completely (getrandom(2)).
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Fills `bytes` from the seed of a simulation, so that a run can be repeated. Returns whether
/// there is one; on the system there never is.
fn is_simulated(bytes: &mut [u8; TOKEN_BYTES]) -> bool {
    let mut words = bytes.chunks_exact_mut(size_of::<u64>());
    words.all(|word| {
        threads::simulated_seed().inspect(|seed| word.copy_from_slice(&seed.to_le_bytes())).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::{create, read};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn created_token_is_random_and_private() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = ["one", "two"].map(|name| {
            let path = directory.path().join(name);
            assert!(create(&path).unwrap());
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            read(&path).unwrap()
        });
        assert!(tokens.iter().all(|token| token.len() == 64 && token.bytes().all(|b| b.is_ascii_hexdigit())));
        assert_ne!(tokens[0], tokens[1]);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "no draft is left");
    }

    #[test]
    fn existing_token_file_is_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        for content in ["own\n", ""] {
            std::fs::write(&path, content).unwrap();
            assert!(!create(&path).unwrap());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        let dangling = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path().join("elsewhere"), &dangling).unwrap();
        assert!(!create(&dangling).unwrap() && !directory.path().join("elsewhere").exists());
        assert!(create(&directory.path().join("missing/token")).is_err());
    }
}
