//! Text functions that the content generator and the script engine share. So words are split the
//! same way for indexing and for searching.

/// Words that are too common to index.
const STOP_WORDS: &[&str] = &[
    "and", "are", "but", "for", "from", "has", "have", "into", "not", "that", "the", "this", "was", "with",
    "you",
];

/// Longest indexed word, in bytes. Longer words are skipped.
const WORD_BYTES_MAX: usize = 40;

/// The words of a text as they are indexed: in lower case, at least three bytes long, without stop
/// words.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| word.len() >= 3 && word.len() <= WORD_BYTES_MAX)
        .map(str::to_lowercase)
        .filter(|word| !STOP_WORDS.contains(&word.as_str()))
}

/// A text as part of a URL: ASCII letters in lower case and digits. Apostrophes are dropped; other
/// characters become single dashes.
pub(crate) fn slug(text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() {
            slug.push(letter.to_ascii_lowercase());
        } else if letter != '\'' && !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.truncate(slug.trim_end_matches('-').len());
    slug
}

/// Escapes a text for HTML content and quoted attributes.
pub(crate) fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Percent-encodes all bytes except unreserved characters and `/` (RFC 3986 section 2.3).
pub(crate) fn encode_url(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                encoded.push(char::from(byte));
            }
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

/// Decodes percent-encoding and, with `plus`, `+` as a space, as in forms. Invalid encodings are
/// kept unchanged. Invalid UTF-8 is replaced.
pub(crate) fn decode_url(text: &[u8], plus: bool) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let value = match (byte, after.split_at_checked(2)) {
            (b'%', Some((digits, beyond))) => match hexadecimal(digits) {
                Some(value) => {
                    rest = beyond;
                    value
                }
                None => byte,
            },
            (b'+', _) if plus => b' ',
            _ => byte,
        };
        decoded.push(value);
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Removes tags: everything from `<` to the next `>`.
pub(crate) fn strip_tags(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(before);
        rest = tag.split_once('>').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    text
}

fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let digits =
        std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::{decode_url, encode_url, escape_html, slug, strip_tags, words};

    #[test]
    fn words_are_split_and_lowercased() {
        let found: Vec<String> = words("The Aurora, a *bell* for 28-inch Räder").collect();
        assert_eq!(found, ["aurora", "bell", "inch", "räder"]);
    }

    #[test]
    fn slugs_are_plain() {
        assert_eq!(slug("Children's bikes & more!"), "childrens-bikes-more");
        assert_eq!(slug("  --  "), "");
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(
            escape_html("<a href=\"x\" title='y'>&"),
            "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;"
        );
    }

    #[test]
    fn urls_round_trip_and_invalid_encodings_are_kept() {
        assert_eq!(encode_url("a b/ü?"), "a%20b/%C3%BC%3F");
        assert_eq!(decode_url(b"a%20b/%C3%BC%3F", false), "a b/ü?");
        assert_eq!(decode_url(b"1+1%2B%2", true), "1 1+%2");
        assert_eq!(decode_url(b"%+1%zz%ff", false), "%+1%zz\u{fffd}");
    }

    #[test]
    fn tags_are_removed_and_text_is_kept() {
        assert_eq!(strip_tags("<p>one <b>two</b></p> three <broken"), "one two three ");
    }
}
