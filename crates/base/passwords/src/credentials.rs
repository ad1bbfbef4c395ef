//! The credentials of a request: the value of its `Authorization`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;

/// The name of the scheme, which is compared without regard to case (RFC 9110 section 11.1).
const SCHEME: &[u8] = b"Basic";

/// Upper bound of a user's name and of a password, in bytes. The time of a check with SHA-crypt
/// grows with the length.
const PART_BYTES_MAX: usize = 256;

/// A user's name and password, as a client states them. They need not be text in UTF-8.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) user: Vec<u8>,
    pub(crate) password: Vec<u8>,
}

impl Credentials {
    /// Reads the value of `Authorization` (RFC 7617 section 2). `None` for another scheme, for a
    /// value other than base64 of a name, a colon and a password, and for a name or password with
    /// control characters or of more than 256 bytes.
    pub fn read(value: &[u8]) -> Option<Self> {
        let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
        let coded = rest.strip_prefix(b" ").filter(|_| scheme.eq_ignore_ascii_case(SCHEME))?;
        let decoded = STANDARD.decode(coded.trim_ascii()).ok()?;
        // Bcrypt reads a key with a final NUL as the key without.
        if decoded.iter().any(u8::is_ascii_control) {
            return None;
        }
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        let (user, password) = (decoded.get(..colon)?.to_vec(), decoded.get(colon + 1..)?.to_vec());
        let is_short = user.len() <= PART_BYTES_MAX && password.len() <= PART_BYTES_MAX;
        is_short.then_some(Self { user, password })
    }
}

impl Credentials {
    /// The user's name.
    pub fn user(&self) -> &[u8] {
        &self.user
    }

    /// The password.
    pub fn password(&self) -> &[u8] {
        &self.password
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Credentials;

    #[test]
    fn credentials_are_base64_of_name_and_password() {
        let long = format!("Basic {}", "YTph".repeat(100));
        for (value, expected) in [
            // RFC 7617 section 2 and section 2.1.
            ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", Some(("Aladdin", "open sesame"))),
            ("Basic dGVzdDoxMjPCow==", Some(("test", "123£"))),
            ("bASIC  YTpiOmM=  ", Some(("a", "b:c"))),
            ("Basic Og==", Some(("", ""))),
            ("Basic YQ==", None),
            ("Basic YTpi=", None),
            ("Basic YTpiAA==", None),
            ("Basic", None),
            ("Basic ", None),
            ("BasicYTpi", None),
            ("Bearer YTpi", None),
            ("", None),
            (&long, None),
        ] {
            let read = Credentials::read(value.as_bytes());
            let expected = expected.map(|(user, password)| (user.as_bytes(), password.as_bytes()));
            let parts = read.as_ref().map(|read| (&read.user[..], &read.password[..]));
            assert_eq!(parts, expected, "{value}");
        }
    }

    #[test]
    fn credentials_are_not_printed() {
        let read = Credentials::read(b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(format!("{read:?}"), "Some(Credentials { .. })");
    }
}
