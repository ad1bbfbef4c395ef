//! The header fields that a purge request of any dialect may have: tokens, and whether to refill.

use crate::malformed::{Malformed, MalformedFault};
use message::{Fields, names};

/// The header field in which any purge request says whether the most requested of the purged pages
/// are fetched again.
pub(crate) const REFILL: &str = "Petasos-Refill";

/// A header field with the value yes or no; `None` if it is missing.
pub(crate) fn flag(fields: &Fields, name: &'static str) -> Result<Option<bool>, Malformed> {
    let Some(value) = fields.first(name) else { return Ok(None) };
    match value.to_ascii_lowercase().as_slice() {
        b"1" | b"true" => Ok(Some(true)),
        b"0" | b"false" => Ok(Some(false)),
        other => Err(Malformed::header(name, MalformedFault::expected("1 or true", other))),
    }
}

/// The tokens in a request, in all fields where clients put them.
///
/// These are `Authorization: Bearer`, Fastly's `Fastly-Key`, Cloudflare's `X-Auth-Key`, and the
/// WordPress plugins' `X-Control-Key` and `X-VC-Purge-Key`. Compare the tokens in constant time.
pub fn presented_tokens(fields: &Fields) -> impl Iterator<Item = &[u8]> {
    let bearer = fields.all(names::AUTHORIZATION).filter_map(|value| {
        let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
    });
    let keys = TOKEN_HEADERS.iter().flat_map(|name| fields.all(name)).map(|value| &**value);
    bearer.chain(keys).filter(|token| !token.is_empty())
}

/// The fields besides `Authorization` in which clients send a token.
pub(crate) const TOKEN_HEADERS: &[&str] = &["Fastly-Key", "X-Auth-Key", "X-Control-Key", "X-VC-Purge-Key"];

#[cfg(test)]
mod tests {
    use super::presented_tokens;
    use message::Fields;

    #[test]
    fn tokens_are_found_in_every_field_clients_use() {
        let mut fields = Fields::new();
        for (name, value) in [
            ("Authorization", "bearer  one "),
            ("Authorization", "Basic dXNlcg=="),
            ("Fastly-Key", "two"),
            ("x-auth-key", "three"),
            ("X-Control-Key", "four"),
            ("X-VC-Purge-Key", "five"),
            ("X-Control-Key", ""),
        ] {
            fields.push(name, value);
        }
        let expected = [&b"one"[..], b"two", b"three", b"four", b"five"];
        assert_eq!(presented_tokens(&fields).collect::<Vec<_>>(), expected);
    }
}
