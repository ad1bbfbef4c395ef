//! The media type of a file, from the extension of its name.
//!
//! Invariant: text has `charset=utf-8`. XML has no charset, because one there would overrule the
//! document's own declaration.

use bytes::Bytes;

/// Types that `mime_guess` has in an older form, or not at all.
const CORRECTIONS: [(&str, &str); 17] = [
    ("cjs", "text/javascript"),
    ("ico", "image/vnd.microsoft.icon"),
    ("js", "text/javascript"),
    ("m4a", "audio/mp4"),
    ("map", "application/json"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("obj", "model/obj"),
    ("otf", "font/otf"),
    ("toml", "application/toml"),
    ("ts", "video/mp2t"),
    ("ttf", "font/ttf"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("br", "application/x-brotli"),
    ("zst", "application/zstd"),
];

/// The type of files without a known extension.
const UNKNOWN: &str = "application/octet-stream";

/// The media type of the file with this name.
pub(crate) fn media_type(name: &[u8]) -> Bytes {
    let Some(extension) = extension(name) else { return Bytes::from_static(UNKNOWN.as_bytes()) };
    let corrected = CORRECTIONS.iter().find(|(known, _)| *known == extension);
    let media_type = match corrected {
        Some((_, media_type)) => media_type,
        None => mime_guess::from_ext(&extension).first_raw().unwrap_or(UNKNOWN),
    };
    if media_type.starts_with("text/") {
        Bytes::from(format!("{media_type}; charset=utf-8"))
    } else {
        Bytes::from_static(media_type.as_bytes())
    }
}

/// The text behind the last dot of a file's name, in lower case.
fn extension(name: &[u8]) -> Option<String> {
    let file = name.rsplit(|&byte| byte == b'/').next()?;
    let dot = file.iter().rposition(|&byte| byte == b'.')?;
    let extension = std::str::from_utf8(file.get(dot + 1..)?).ok()?;
    Some(extension.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::media_type;

    #[test]
    fn types_follow_the_extension() {
        for (name, expected) in [
            ("a.html", "text/html; charset=utf-8"),
            ("A.HTML", "text/html; charset=utf-8"),
            ("a.css", "text/css; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.mjs", "text/javascript; charset=utf-8"),
            ("a.js.map", "application/json"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("a.xml", "application/xml"),
            ("a.json", "application/json"),
            ("a.webmanifest", "application/manifest+json"),
            ("a.svg", "image/svg+xml"),
            ("a.avif", "image/avif"),
            ("a.webp", "image/webp"),
            ("a.woff2", "font/woff2"),
            ("a.wasm", "application/wasm"),
            ("a.mp4", "video/mp4"),
            ("a.tar.gz", "application/gzip"),
            ("a.pdf", "application/pdf"),
            ("a", "application/octet-stream"),
            ("a.", "application/octet-stream"),
            ("b.html/a", "application/octet-stream"),
            ("a.unheard-of", "application/octet-stream"),
        ] {
            assert_eq!(media_type(name.as_bytes()), expected, "{name}");
        }
        assert_eq!(media_type(b"a.\xff"), "application/octet-stream");
    }
}
