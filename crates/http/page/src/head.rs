//! Evidence in a document's head that identifies the CMS behind it.
//!
//! Invariant: only elements count that a browser with scripting makes children of the document's
//! `head`. Text in a script, comment, title, `noscript`, template, attribute or in the body may
//! come from the site's users, so it is ignored. The cost is bounded: at most [`HEAD_BYTES_MAX`]
//! bytes and few elements are parsed, and parsing stops where the body begins.

use crate::dom::{DOCUMENT, DomNode, DomTree};
use profiles::DocumentHead;

/// Bytes of a document that are parsed, without content coding. Later elements are not found.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Most generators, and most assets, that are kept of one head.
const ENTRIES_MAX: usize = 256;

/// Charsets in which the ASCII bytes of markup have their ASCII meaning and no other.
const ASCII_CHARSETS: [&str; 4] = ["utf-8", "utf8", "us-ascii", "ascii"];

/// Name prefixes of further charsets with this property.
const ASCII_FAMILIES: [&str; 3] = ["iso-8859-", "windows-125", "latin"];

/// Returns the generators and assets that the head of a document names.
///
/// `content` is the beginning of the document without content coding. `content_type` is the value
/// of the response's `Content-Type`. `host` is the host of the page with its port.
///
/// The result is empty for a document whose charset may not be ASCII-compatible. In such a charset,
/// users' text could look like elements here and like text in a browser.
pub fn document_head(content: &[u8], content_type: &[u8], host: &[u8]) -> DocumentHead {
    let content = content.get(..HEAD_BYTES_MAX).unwrap_or(content);
    let is_ascii = charset_of(content_type).is_none_or(|charset| is_ascii_markup(&charset));
    // UTF-16 and UTF-32 contain NUL bytes; ESC switches the character set in ISO-2022.
    let is_other = content.iter().any(|&byte| byte == 0 || byte == 0x1b);
    if !is_ascii || is_other || content.starts_with(b"\xfe\xff") || content.starts_with(b"\xff\xfe") {
        return DocumentHead::default();
    }
    let tree = DomTree::parse_head(content);
    if tree.limits.total() > 0 {
        return DocumentHead::default();
    }
    let elements: Vec<&DomNode> = head_elements(&tree);
    if elements.iter().filter_map(|node| declared_charset(node)).any(|charset| !is_ascii_markup(&charset)) {
        return DocumentHead::default();
    }
    let generators = elements.iter().filter(|node| node.name == "meta" && node.says("name", "generator"));
    let generators = generators.filter_map(|node| node.attribute("content")).map(str::to_owned);
    // A `base` element with another host makes relative URLs point to that host.
    let mut bases =
        elements.iter().filter(|node| node.name == "base").filter_map(|node| node.attribute("href"));
    let assets =
        elements.iter().filter_map(|node| loaded(node)).filter_map(|address| target_on_host(address, host));
    DocumentHead {
        generators: generators.take(ENTRIES_MAX).collect(),
        assets: if bases.all(|base| target_on_host(base, host).is_some()) {
            assets.take(ENTRIES_MAX).collect()
        } else {
            Vec::new()
        },
    }
}

/// The children of the document's head.
fn head_elements(tree: &DomTree) -> Vec<&DomNode> {
    let child = |place: usize, name: &str| {
        tree.node(place).children.iter().copied().find(|&child| tree.node(child).name == name)
    };
    let head = child(DOCUMENT, "html").and_then(|html| child(html, "head"));
    let children = head.map_or(&[][..], |head| &tree.node(head).children);
    children.iter().map(|&place| tree.node(place)).collect()
}

/// The URL of the script or stylesheet that an element loads. Canonical and alternate links are
/// ignored, because they depend on the page and not on the template.
fn loaded(node: &DomNode) -> Option<&str> {
    match node.name.as_str() {
        "script" => node.attribute("src"),
        "link" => {
            let loads = |word: &str| {
                ["stylesheet", "preload", "modulepreload"]
                    .iter()
                    .any(|known| word.eq_ignore_ascii_case(known))
            };
            if node.words("rel").any(loads) { node.attribute("href") } else { None }
        }
        _ => None,
    }
}

/// The request target of a URL on `host`: the part after the host. A relative URL is returned
/// unchanged.
///
/// `host` includes the port. Returns `None` for other hosts and for schemes other than http and
/// https.
pub fn target_on_host(address: &str, host: &[u8]) -> Option<String> {
    let address = address.trim_ascii();
    let without_scheme = ["http:", "https:"].iter().find_map(|scheme| {
        address.get(..scheme.len()).filter(|start| start.eq_ignore_ascii_case(scheme))?;
        address.get(scheme.len()..)
    });
    let rest = without_scheme.unwrap_or(address);
    let Some(after) = rest.strip_prefix("//") else {
        // Without `//` the URL is relative, unless it has a scheme, such as `data:`.
        let is_relative = without_scheme.is_none() && !rest.split(['/', '?']).next()?.contains([':', '\\']);
        return is_relative.then(|| rest.to_owned());
    };
    let path = after.find(['/', '?', '#']).unwrap_or(after.len());
    let (authority, path) = after.split_at_checked(path)?;
    authority.as_bytes().eq_ignore_ascii_case(host).then(|| path.to_owned())
}

/// The charset that a `meta` element declares, in lower case.
fn declared_charset(node: &DomNode) -> Option<String> {
    if node.name != "meta" {
        return None;
    }
    if let Some(charset) = node.attribute("charset") {
        return Some(charset.trim_ascii().to_ascii_lowercase());
    }
    let is_type = node.says("http-equiv", "content-type");
    if is_type { charset_of(node.attribute("content")?.as_bytes()) } else { None }
}

/// The charset that a media type names, in lower case.
fn charset_of(content_type: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(content_type).to_ascii_lowercase();
    let (_, value) = text.split_once("charset=")?;
    let end = value.find([';', ' ', ',']).unwrap_or(value.len());
    Some(value.get(..end)?.trim_matches(['"', '\'']).to_owned())
}

fn is_ascii_markup(charset: &str) -> bool {
    ASCII_CHARSETS.contains(&charset) || ASCII_FAMILIES.iter().any(|family| charset.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::{HEAD_BYTES_MAX, document_head};
    use profiles::DocumentHead;

    const TYPE: &[u8] = b"text/html; charset=UTF-8";
    const SIGNS: &str = "<meta name=\"generator\" content=\"WordPress 6.1.9\">\
                         <link rel=\"stylesheet\" href=\"/wp-includes/a.css\"><script src=/wp-content/b.js></script>";

    fn head(page: &str) -> DocumentHead {
        document_head(page.as_bytes(), TYPE, b"a.test:8080")
    }

    fn is_empty(page: &str) -> bool {
        head(page) == DocumentHead::default()
    }

    #[test]
    fn generators_and_assets_in_the_head_are_found() {
        for page in [
            format!("<!DOCTYPE html><html><head><title>x</title>{SIGNS}</head><body>"),
            SIGNS.to_owned(),
            format!("<head>{SIGNS}"),
            format!("<HTML><HEAD></HEAD>{SIGNS}"),
            format!("<!-- x --><title></title><style>a</style><script>1</script>{SIGNS}<p>"),
        ] {
            let found = head(&page);
            assert_eq!(found.generators, ["WordPress 6.1.9"], "{page}");
            assert_eq!(found.assets, ["/wp-includes/a.css", "/wp-content/b.js"], "{page}");
        }
    }

    #[test]
    fn markup_in_text_comments_or_the_body_is_ignored() {
        for (before, after) in [
            ("<script>'", "'</script>"),
            ("<script><!--<script>", "</script>--></script>"),
            ("<!--", "-->"),
            ("<!-- --!", "-->"),
            ("<title>", "</title>"),
            ("<style>", "</style>"),
            ("<noscript>", "</noscript>"),
            ("<template>", "</template>"),
            ("<template><template></template>", "</template>"),
            ("<noframes>", "</noframes>"),
            ("<meta name=description content='", "'>"),
            ("<link title='", "'>"),
            ("<body>", ""),
            ("<p>", "</p>"),
            ("text", ""),
            ("<svg>", "</svg>"),
            ("<svg><title>", "</title></svg>"),
            ("<svg><desc><![CDATA[", "]]></desc></svg>"),
            ("<math><annotation-xml encoding=text/html>", "</annotation-xml></math>"),
            ("<textarea>", "</textarea>"),
            ("<xmp>", "</xmp>"),
            ("<plaintext>", ""),
            ("<iframe>", "</iframe>"),
            ("<select>", "</select>"),
            ("<table>", "</table>"),
            ("<frameset>", "</frameset>"),
            ("<div><head>", "</head></div>"),
            ("<![CDATA[", "<p>]]>"),
            ("<?xml ", "?>"),
        ] {
            let page = format!("<html><head>{before}{SIGNS}{after}");
            // A bogus comment ends at the first `>`, so the text after it is markup again.
            if matches!(before, "<![CDATA[" | "<?xml ") {
                assert_eq!(head(&page).generators, Vec::<String>::new(), "{page}");
            } else {
                assert!(is_empty(&page), "{page}");
            }
            let unclosed = format!("<html><head>{before}{SIGNS}");
            assert_eq!(head(&unclosed).generators, Vec::<String>::new(), "{unclosed}");
        }
    }

    #[test]
    fn elements_beyond_the_byte_limit_are_not_found() {
        let padded = |bytes: usize| format!("<head><!--{}-->{SIGNS}", "x".repeat(bytes));
        assert_eq!(head(&padded(1_000)).generators.len(), 1);
        assert!(is_empty(&padded(HEAD_BYTES_MAX)));
        // An element that the limit cuts in two is not found.
        let cut = HEAD_BYTES_MAX - "<head><!---->".len() - SIGNS.find('>').unwrap();
        assert!(is_empty(&padded(cut)));
    }

    #[test]
    fn document_in_a_non_ascii_charset_has_an_empty_head() {
        let page = format!("<head>{SIGNS}");
        for content_type in ["text/html", "text/html; charset=\"utf-8\"", "text/html;charset=ISO-8859-15"] {
            let found = document_head(page.as_bytes(), content_type.as_bytes(), b"a");
            assert_eq!(found.generators.len(), 1, "{content_type}");
        }
        for charset in ["utf-16", "utf-16le", "utf-7", "iso-2022-jp", "hz-gb-2312", "shift_jis", "gbk", "x"] {
            let content_type = format!("text/html; charset={charset}");
            assert_eq!(
                document_head(page.as_bytes(), content_type.as_bytes(), b"a"),
                DocumentHead::default()
            );
            assert!(is_empty(&format!("<meta charset={charset}>{page}")), "{charset}");
            let equivalent = format!("<meta http-equiv=Content-Type content='{content_type}'>");
            assert!(is_empty(&format!("{equivalent}{page}")), "{charset}");
        }
        for bytes in [&b"\xfe\xff"[..], b"\xff\xfe", b"\x1b$B", b"\0"] {
            assert_eq!(
                document_head(&[bytes, page.as_bytes()].concat(), TYPE, b"a"),
                DocumentHead::default()
            );
        }
        assert_eq!(
            document_head(&[b"\xef\xbb\xbf", page.as_bytes()].concat(), TYPE, b"a").generators.len(),
            1
        );
    }

    #[test]
    fn assets_are_scripts_and_stylesheets_of_the_same_host() {
        for (element, expected) in [
            ("<link rel='preload stylesheet' href='a.css?b'>", Some("a.css?b")),
            ("<link rel=STYLESHEET href='//A.test:8080/a.css'>", Some("/a.css")),
            ("<script src='HTTPS://a.test:8080/a.js'></script>", Some("/a.js")),
            ("<script src='//a.test:8080?x'></script>", Some("?x")),
            ("<script src=' /a:b.js '></script>", Some("/a:b.js")),
            ("<link rel=stylesheet href='//b.test/a.css'>", None),
            ("<link rel=stylesheet href='http://a.test/a.css'>", None),
            ("<link rel=stylesheet href='//x@a.test:8080/a.css'>", None),
            ("<link rel=stylesheet href='http:/a.css'>", None),
            ("<link rel=stylesheet href='data:text/css,/a.css'>", None),
            ("<link rel=stylesheet href='\\\\b.test/a.css'>", None),
            ("<link rel=canonical href=/a.css>", None),
            ("<link rel=alternate href=/a.css>", None),
            ("<link href=/a.css>", None),
            ("<script>/a.css</script>", None),
            ("<base href='//b.test/'><link rel=stylesheet href=/a.css>", None),
            ("<base href='//a.test:8080/x'><link rel=stylesheet href=/a.css>", Some("/a.css")),
        ] {
            assert_eq!(head(element).assets.first().map(String::as_str), expected, "{element}");
        }
    }

    #[test]
    fn hostile_markup_gives_an_empty_or_bounded_head() {
        let formatting: String = (0..).map(|count| format!("<b a={count}>")).take(1_500).collect();
        let many = format!("{formatting}{}", "<p>x".repeat(2_000));
        for page in [many, "<a><b><i>".repeat(2_000), "<template>".repeat(1_600), "<div>".repeat(4_000)] {
            assert!(is_empty(&page));
        }
        assert_eq!(head(&"<meta name=generator content=x>".repeat(600)).generators.len(), super::ENTRIES_MAX);
    }
}
