//! The external account binding (RFC 8555 section 7.3.4): the key that identifies a customer of an
//! authority.
//!
//! Invariant: the key is read from a file and appears in no message.

use crate::files::{self, FileError};
use instant_acme::ExternalAccountKey;
use std::path::Path;

/// Reads the binding from a file with the identifier of the key and the key in base64, in this
/// order, with white space between.
pub(crate) fn read(path: &Path) -> Result<ExternalAccountKey, FileError> {
    let unusable = |reason: &str| FileError::Content { path: path.to_owned(), reason: reason.to_owned() };
    let text = files::read(path)?.ok_or_else(|| unusable("there is no such file"))?;
    let mut words = text.split_whitespace();
    let (Some(id), Some(key), None) = (words.next(), words.next(), words.next()) else {
        return Err(unusable("it must hold the identifier of the key and the HMAC key, each in a line"));
    };
    let key =
        decode(key).filter(|key| !key.is_empty()).ok_or_else(|| unusable("the HMAC key is not base64"))?;
    Ok(ExternalAccountKey::new(id.to_owned(), &key))
}

/// Decodes base64 with the alphabet for URLs or the usual one, with or without padding (RFC 4648).
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'-' | b'+' => 62,
            b'_' | b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            // The shift leaves the bits of one byte; older ones are cut off.
            octets.push(u8::try_from(bits >> held & 0xff).ok()?);
            bits &= (1 << held) - 1;
        }
    }
    // A single letter of a last group is no byte.
    (held < 6).then_some(octets)
}

#[cfg(test)]
mod tests {
    use super::{decode, read};

    #[test]
    fn both_alphabets_of_base64_are_decoded() {
        for (text, octets) in [
            ("", Some(&b""[..])),
            ("Zg==", Some(b"f")),
            ("Zm8", Some(b"fo")),
            ("Zm9vYmFy", Some(b"foobar")),
            ("-_-_", Some(b"\xfb\xff\xbf")),
            ("+/+/", Some(b"\xfb\xff\xbf")),
            ("Z", None),
            ("Zm 9", None),
        ] {
            assert_eq!(decode(text).as_deref(), octets, "{text}");
        }
    }

    #[test]
    fn a_fault_of_the_file_is_told_without_the_key() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("eab");
        for (text, fault) in [
            ("kid-1\nc2VjcmV0", None),
            ("kid-1 c2VjcmV0\n", None),
            ("c2VjcmV0", Some("identifier of the key")),
            ("kid-1\nc2VjcmV0!", Some("not base64")),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = read(&file).err().map(|error| error.to_string());
            match (&error, fault) {
                (None, None) => {}
                (Some(error), Some(fault)) => assert!(error.contains(fault) && !error.contains("c2Vj")),
                _ => panic!("{text}: {error:?}"),
            }
        }
        let gone = read(&directory.path().join("none")).err().unwrap().to_string();
        assert!(gone.contains("no such file"), "{gone}");
    }
}
