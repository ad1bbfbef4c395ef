//! The target of a redirect from a directory without a slash to the one with it.
//!
//! Invariant: it begins with exactly one slash and has only characters that a URI may have, so it
//! stays on the same host and adds no field. The query is kept.

use bytes::Bytes;

/// The `Location` for a path without its final slash, with the request's query.
pub(crate) fn with_slash(path: &[u8], query: Option<&[u8]>) -> Bytes {
    let mut location = Vec::with_capacity(path.len() + 2 + query.map_or(0, <[u8]>::len));
    for &byte in path {
        push(&mut location, byte, b"/-._~!$&'()*+,;=:@");
    }
    location.push(b'/');
    if let Some(query) = query {
        location.push(b'?');
        for &byte in query {
            // Percent-encodings of the client stay unchanged.
            push(&mut location, byte, b"/-._~!$&'()*+,;=:@?%");
        }
    }
    location.into()
}

fn push(location: &mut Vec<u8>, byte: u8, kept: &[u8]) {
    if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
        location.push(byte);
    } else {
        let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0').to_ascii_uppercase() as u8;
        location.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use super::with_slash;

    #[test]
    fn path_is_encoded_and_the_query_is_kept() {
        assert_eq!(with_slash(b"/a/b", None), "/a/b/");
        assert_eq!(with_slash("/a b/é?".as_bytes(), Some(b"x=%20&y=/?")), "/a%20b/%C3%A9%3F/?x=%20&y=/?");
        assert_eq!(with_slash(b"/a", Some(b"")), "/a/?");
        assert_eq!(with_slash(b"/a%", Some(b"\r\n\"<")), "/a%25/?%0D%0A%22%3C");
    }
}
