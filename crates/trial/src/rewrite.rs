//! Rewrites the links of a page to its own site, so that they lead to the preview.
//!
//! Invariant: only URLs whose authority is exactly that of the site are changed, with the scheme
//! http or https or without one. A longer host name or another port is another site.

use memchr::memmem;

/// Rewrites URLs of the site with this authority in a text, such as HTML. Slashes may be escaped,
/// as in scripts.
pub(crate) fn rewritten(content: &[u8], authority: &str, preview: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len());
    let mut copied = 0;
    for place in memmem::find_iter(content, authority.as_bytes()) {
        let before = content.get(copied..place).unwrap_or_default();
        let end = place + authority.len();
        let is_longer = content
            .get(end)
            .is_some_and(|next| next.is_ascii_alphanumeric() || matches!(next, b'.' | b':' | b'-' | b'@'));
        let slashes = [&b"//"[..], br"\/\/"].into_iter().find(|slashes| before.ends_with(slashes));
        let Some(slashes) = slashes.filter(|_| !is_longer) else { continue };
        let mut kept = before.get(..before.len() - slashes.len()).unwrap_or_default();
        let has_scheme = [&b"https:"[..], b"http:"].into_iter().find(|scheme| kept.ends_with(scheme));
        if let Some(scheme) = has_scheme {
            kept = kept.get(..kept.len() - scheme.len()).unwrap_or_default();
        } else if kept.last() == Some(&b':') {
            // Another scheme, such as that of a web socket.
            continue;
        }
        out.extend_from_slice(kept);
        out.extend_from_slice(if has_scheme.is_some() { b"http:" } else { b"" });
        out.extend_from_slice(slashes);
        out.extend_from_slice(preview.as_bytes());
        copied = end;
    }
    out.extend_from_slice(content.get(copied..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::rewritten;

    fn text(content: &str) -> String {
        String::from_utf8(rewritten(content.as_bytes(), "shop.test", "127.0.0.1:9")).unwrap()
    }

    #[test]
    fn urls_of_the_site_lead_to_the_preview() {
        for (from, to) in [
            ("<a href=\"https://shop.test/a\">", "<a href=\"http://127.0.0.1:9/a\">"),
            ("http://shop.test", "http://127.0.0.1:9"),
            ("<img src=//shop.test/x>", "<img src=//127.0.0.1:9/x>"),
            (r#"{"url":"https:\/\/shop.test\/x"}"#, r#"{"url":"http:\/\/127.0.0.1:9\/x"}"#),
            ("https://shop.test/a https://shop.test/b", "http://127.0.0.1:9/a http://127.0.0.1:9/b"),
        ] {
            assert_eq!(text(from), to);
        }
    }

    #[test]
    fn other_sites_and_mere_names_stay() {
        for same in [
            "https://shop.test.example/",
            "https://shop.test:8443/",
            "https://www.shop.test/",
            "https://shop.test@example.org/",
            "wss://shop.test/",
            "mail@shop.test",
            "Welcome to shop.test",
            "",
        ] {
            assert_eq!(text(same), same);
        }
    }
}
