//! The hash of a password.
//!
//! Invariant: the time of a check is bounded. A file with a higher cost is refused.

use bcrypt::HashParts;
use sha_crypt::{PasswordHashRef, PasswordVerifier, ShaCrypt};

/// Upper bound of the cost of bcrypt: a second of a processor, roughly.
const BCRYPT_COST_MAX: u32 = 14;

/// Upper bound of the rounds of SHA-crypt: a second of a processor, roughly.
const SHA_ROUNDS_MAX: u32 = 1_000_000;

/// A hash in the modular crypt format.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum PasswordHash {
    /// `$2y$`, `$2b$` or `$2a$`.
    Bcrypt(String),
    /// `$5$` or `$6$`.
    ShaCrypt(String),
}

/// A hash that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// It is of another kind, or none at all.
    #[error("this is no hash of bcrypt or SHA-crypt; make the line with `htpasswd -B`")]
    Unknown,
    /// It is MD5 or SHA-1, which graphics cards compute billions of times a second.
    #[error("hashes of this kind are broken; make the line with `htpasswd -B`")]
    Broken,
    /// Its check would take longer than about a second.
    #[error("the check of this hash would take too long; bcrypt may cost 14, SHA-crypt a million rounds")]
    Costly,
}

impl PasswordHash {
    /// Reads a hash.
    ///
    /// # Errors
    /// [`HashError`] if its kind is not known or not safe, or its check takes too long.
    pub(crate) fn parse(text: &str) -> Result<Self, HashError> {
        if ["$apr1$", "$1$", "{SHA}", "{SSHA}"].iter().any(|prefix| text.starts_with(prefix)) {
            return Err(HashError::Broken);
        }
        if ["$2y$", "$2b$", "$2a$"].iter().any(|prefix| text.starts_with(prefix)) {
            // The parser of bcrypt cuts the text without regard to characters of several bytes.
            if !text.is_ascii() {
                return Err(HashError::Unknown);
            }
            let parts: HashParts = text.parse().map_err(|_| HashError::Unknown)?;
            return match parts.get_cost() {
                ..=BCRYPT_COST_MAX => Ok(Self::Bcrypt(text.to_owned())),
                _ => Err(HashError::Costly),
            };
        }
        let fields = ["$5$", "$6$"].iter().find_map(|prefix| text.strip_prefix(prefix));
        let fields = fields.ok_or(HashError::Unknown)?;
        let rounds = fields.strip_prefix("rounds=").map(|rest| rest.split('$').next().unwrap_or_default());
        if let Some(rounds) = rounds {
            let rounds: u32 = rounds.parse().map_err(|_| HashError::Unknown)?;
            if rounds > SHA_ROUNDS_MAX {
                return Err(HashError::Costly);
            }
        }
        // The check of any password finds out whether the hash has all its fields.
        let hash = PasswordHashRef::new(text).map_err(|_| HashError::Unknown)?;
        match ShaCrypt::default().verify_password(b"", hash) {
            Ok(()) | Err(sha_crypt::password_hash::Error::PasswordInvalid) => {
                Ok(Self::ShaCrypt(text.to_owned()))
            }
            Err(_) => Err(HashError::Unknown),
        }
    }

    /// Whether the hash is that of `password`. Takes up to a second.
    pub(crate) fn is_of(&self, password: &[u8]) -> bool {
        match self {
            // Errors mean a hash that cannot be read, and `parse` has read it.
            Self::Bcrypt(text) => bcrypt::verify(password, text).unwrap_or(false),
            Self::ShaCrypt(text) => PasswordHashRef::new(text)
                .is_ok_and(|hash| ShaCrypt::default().verify_password(password, hash).is_ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HashError, PasswordHash};

    /// Of `htpasswd -nbB`, `openssl passwd -6`, `openssl passwd -5`, and of `crypt` of the
    /// C library.
    const GOOD: [(&str, &str); 5] = [
        ("secret", "$2y$05$/fe/9A1jU5RTWGVIsmciq.ec2XJJJteKFLHDFCMvvS2fuMYrZoCHW"),
        (
            "secret",
            "$6$abcdefgh$ltjgWl6579NluT/Vi1nwEvcil.G5Nbc4NiXZaNGStk8PSwGfQv72N2CKPPrVACtLtip/cZ/1GM/O6IND4WQhG.",
        ),
        ("secret", "$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM."),
        (
            "a rather long pass phrase of more than sixty-four letters, with spaces",
            "$5$rounds=1400$saltsaltsaltsalt$1IhldHiaE6B4kivNYSu0Vxm0fHWfj9BAerBqRvi1IE9",
        ),
        ("", "$2y$05$5MXhQiPKZRFahx11xHoiAOBUzVJpy6JFRS2q.0e5j/DbA7FnaKzD."),
    ];

    #[test]
    fn hashes_of_common_tools_admit_their_password_alone() {
        for (password, text) in GOOD {
            let hash = PasswordHash::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(hash.is_of(password.as_bytes()), "{text}");
            for other in ["Secret", "secret ", "x"] {
                assert!(!hash.is_of(other.as_bytes()), "{text} {other}");
            }
        }
    }

    #[test]
    fn weak_costly_and_other_hashes_are_refused() {
        for (text, error) in [
            ("$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/", HashError::Broken),
            ("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", HashError::Broken),
            ("$1$abcdefgh$x", HashError::Broken),
            ("rqXexS6ZhobKA", HashError::Unknown),
            ("secret", HashError::Unknown),
            ("", HashError::Unknown),
            ("$2y$05$", HashError::Unknown),
            ("$2y$05$abcdefghijklmnopqrstué3456789012345678901234567890123", HashError::Unknown),
            ("$6$abcdefgh", HashError::Unknown),
            ("$6$rounds=x$abcdefgh$abc", HashError::Unknown),
            ("$6$rounds=999999999$abcdefgh$abc", HashError::Costly),
            ("$2y$31$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZabcde", HashError::Costly),
        ] {
            assert_eq!(PasswordHash::parse(text).err(), Some(error), "{text}");
        }
    }
}
