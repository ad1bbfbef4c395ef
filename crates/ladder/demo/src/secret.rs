//! Passwords, random tokens and signatures. All cryptographic primitives come from other crates.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// Rounds of PBKDF2-HMAC-SHA256 for a new password. The passwords are public, so this is a third of
/// what a real shop would use. The number is stored with each hash.
const ROUNDS: u32 = 200_000;

/// Greatest number of rounds accepted in a stored hash, so that a damaged row cannot block a worker
/// for long.
const ROUNDS_MAX: u32 = 2_000_000;

/// Hashes a password with a salt: `pbkdf2-sha256$rounds$salt$hash`.
pub(crate) fn password_hash(password: &str, salt: &[u8]) -> String {
    let hash = derive(password, salt, ROUNDS);
    format!("pbkdf2-sha256${ROUNDS}${}${}", hexadecimal(salt), hexadecimal(&hash))
}

/// Whether `password` matches the hash `stored`. An empty or unknown hash matches no password.
pub(crate) fn password_matches(password: &str, stored: &str) -> bool {
    let mut parts = stored.split('$');
    let (Some("pbkdf2-sha256"), Some(rounds), Some(salt), Some(hash), None) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let Some(rounds) = rounds.parse().ok().filter(|rounds| *rounds > 0 && *rounds <= ROUNDS_MAX) else {
        return false;
    };
    let Some(salt) = octets(salt) else { return false };
    equal(&hexadecimal(&derive(password, &salt, rounds)), hash)
}

/// A random, unguessable name of 32 hexadecimal digits.
///
/// # Errors
/// If the system cannot supply random numbers.
pub(crate) fn token() -> std::io::Result<String> {
    let mut octets = [0_u8; 16];
    let mut filled = 0;
    while let Some(rest) = octets.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(hexadecimal(&octets))
}

/// A signature of `text` with `key`: the first 32 hexadecimal digits of its HMAC-SHA256.
pub(crate) fn sign(key: &str, text: &str) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.as_bytes()) else {
        unreachable!("HMAC takes keys of any length");
    };
    mac.update(text.as_bytes());
    let signature = mac.finalize().into_bytes();
    hexadecimal(signature.get(..16).unwrap_or_default())
}

/// A fingerprint of `content`: the first 32 hexadecimal digits of its SHA-256.
pub(crate) fn fingerprint(content: &[u8]) -> String {
    hexadecimal(Sha256::digest(content).get(..16).unwrap_or_default())
}

/// Compares two secrets. The time does not depend on the position of the first difference.
pub(crate) fn equal(left: &str, right: &str) -> bool {
    left.len() == right.len()
        && left.bytes().zip(right.bytes()).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

fn derive(password: &str, salt: &[u8], rounds: u32) -> [u8; 32] {
    pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), salt, rounds)
}

fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn octets(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return None;
    }
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::{derive, equal, fingerprint, hexadecimal, password_hash, password_matches, sign, token};

    #[test]
    fn password_matches_only_its_own_hash() {
        let stored = password_hash("two-wheels", b"salt");
        assert!(password_matches("two-wheels", &stored));
        assert!(!password_matches("two-wheel", &stored));
        for broken in ["", "x", "pbkdf2-sha256$0$73$", "pbkdf2-sha256$1$7$00", "pbkdf2-sha256$99999999$73$00"]
        {
            assert!(!password_matches("", broken), "{broken}");
        }
    }

    #[test]
    fn pbkdf2_matches_the_published_vector() {
        // RFC 7914 section 11: PBKDF2-HMAC-SHA-256 of "passwd" and "salt" in one round.
        let expected = "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc";
        assert_eq!(hexadecimal(&derive("passwd", b"salt", 1)), expected);
    }

    #[test]
    fn signatures_depend_on_key_and_text() {
        assert_eq!(sign("k", "t"), sign("k", "t"));
        assert_ne!(sign("k", "t"), sign("k", "u"));
        assert_ne!(sign("k", "t"), sign("l", "t"));
        assert_ne!(token().unwrap(), token().unwrap());
        assert_eq!(fingerprint(b"").len(), 32);
        assert!(equal("a", "a") && !equal("a", "b") && !equal("a", "aa"));
    }
}
