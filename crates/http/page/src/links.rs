//! The links of a document that a visitor may follow, for programs that visit a site page by page.
//!
//! Invariant: URLs are absolute, without fragment, and http or https. A link is only described
//! here; the caller decides whether it is requested. Links that scripts add are missing. At most
//! [`LINKS_MAX`] links are kept.

use crate::dom::{DomNode, DomTree};
use resource::PageLimits;
use url::Url;

/// Links that are kept of one document, in tree order; the following ones are dropped.
pub const LINKS_MAX: usize = 10_000;

/// Bytes of a URL as written in an attribute; a longer one is no page of a site.
const HREF_BYTES_MAX: usize = 8 * 1024;

/// Attributes for scripts that turn a link into a request with another method, or ask first.
const SCRIPTED: [&str; 6] =
    ["data-method", "data-turbo-method", "data-confirm", "data-turbo-confirm", "hx-delete", "hx-post"];

/// How a document refers to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkKind {
    /// An `a` element.
    Anchor,
    /// An `area` element of an image map.
    Area,
    /// `rel=next`
    Next,
    /// `rel=prev`
    Previous,
    /// `rel=canonical`: the URL that the site prefers for this document.
    Canonical,
    /// `rel=alternate`: the document in another language or for other devices.
    Alternate,
    /// `rel=alternate` with the media type of a feed.
    Feed,
}

/// A link of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentLink {
    /// The absolute URL, without fragment.
    pub url: Url,
    /// How the document refers to it.
    pub kind: LinkKind,
    /// Whether the link says `rel=nofollow`.
    pub is_nofollow: bool,
    /// Whether following the link does more than show a page, as far as its attributes tell: it has
    /// a `download` attribute, or a script sends it with another method or asks for confirmation.
    pub is_scripted: bool,
}

/// The links of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentLinks {
    /// The links in tree order, each as often as the document has it.
    pub links: Vec<DocumentLink>,
    /// Whether a `meta` element asks robots to follow no link.
    pub is_nofollow: bool,
    /// Whether a limit on elements, nesting, bytes or links was reached, so that links are missing.
    pub is_cut: bool,
}

/// Finds the links of the document at `url`, which is its URL after redirects.
///
/// `content` is the document without content coding. `robot` is the robot's name in `meta`
/// elements, in lower case.
pub fn document_links(content: &[u8], url: &Url, robot: &str, limits: &PageLimits) -> DocumentLinks {
    let kept = content.get(..limits.decoded_bytes_max).unwrap_or(content);
    let is_long = kept.len() < content.len();
    let tree = DomTree::parse(kept, limits);
    let nodes: Vec<&DomNode> = tree.in_order().into_iter().map(|place| tree.node(place)).collect();
    let base = nodes
        .iter()
        .find_map(|node| (node.name == "base").then(|| node.attribute("href")).flatten())
        .and_then(|href| url.join(href.trim()).ok())
        .filter(|base| matches!(base.scheme(), "http" | "https"))
        .unwrap_or_else(|| url.clone());
    let mut found = DocumentLinks { is_cut: is_long || tree.limits.total() > 0, ..DocumentLinks::default() };
    for node in nodes {
        if node.name == "meta" {
            found.is_nofollow |= (node.says("name", "robots") || node.says("name", robot))
                && node.attribute("content").is_some_and(forbids_following);
        }
        let Some(kind) = kind_of(node) else { continue };
        let Some(url) = node.attribute("href").and_then(|href| resolve(&base, href)) else { continue };
        if found.links.len() >= LINKS_MAX {
            found.is_cut = true;
            break;
        }
        let is_nofollow = has_word(node, "nofollow");
        found.links.push(DocumentLink { url, kind, is_nofollow, is_scripted: is_scripted(node) });
    }
    found
}

/// Whether a list of directives, as in a `meta` element or in `X-Robots-Tag`, asks robots to follow
/// no link.
pub fn forbids_following(directives: &str) -> bool {
    let mut words = directives.split([',', ' ', ';']).map(str::trim);
    words.any(|word| word.eq_ignore_ascii_case("nofollow") || word.eq_ignore_ascii_case("none"))
}

fn has_word(node: &DomNode, word: &str) -> bool {
    node.words("rel").any(|found| found.eq_ignore_ascii_case(word))
}

fn kind_of(node: &DomNode) -> Option<LinkKind> {
    match node.name.as_str() {
        "a" if has_word(node, "next") => Some(LinkKind::Next),
        "a" if has_word(node, "prev") => Some(LinkKind::Previous),
        "a" => Some(LinkKind::Anchor),
        "area" => Some(LinkKind::Area),
        "link" if has_word(node, "canonical") => Some(LinkKind::Canonical),
        "link" if has_word(node, "next") => Some(LinkKind::Next),
        "link" if has_word(node, "prev") => Some(LinkKind::Previous),
        "link" if has_word(node, "alternate") && !has_word(node, "stylesheet") => alternate(node),
        _ => None,
    }
}

/// An alternate link by its media type. Without one it is a document; other types, such as the JSON
/// of an interface, are for programs.
fn alternate(node: &DomNode) -> Option<LinkKind> {
    let kind = node.attribute("type").unwrap_or_default().trim_ascii().to_ascii_lowercase();
    match kind.split(';').next().unwrap_or_default().trim_ascii() {
        "" | "text/html" | "application/xhtml+xml" => Some(LinkKind::Alternate),
        "application/rss+xml" | "application/atom+xml" => Some(LinkKind::Feed),
        _ => None,
    }
}

fn resolve(base: &Url, href: &str) -> Option<Url> {
    let href = href.trim_ascii();
    // A link within the document, and the text of a script, name no other document.
    if href.is_empty() || href.starts_with('#') || href.len() > HREF_BYTES_MAX {
        return None;
    }
    let mut url = base.join(href).ok()?;
    url.set_fragment(None);
    matches!(url.scheme(), "http" | "https").then_some(url)
}

fn is_scripted(node: &DomNode) -> bool {
    let asks = |name: &str| {
        node.attribute(name).is_some_and(|script| script.contains("confirm(") || script.contains("submit("))
    };
    // `data-method=get` does not change a link.
    let has_script = SCRIPTED.iter().any(|name| node.has(name) && !node.says(name, "get"));
    has_script || node.has("download") || asks("onclick") || asks("href")
}

#[cfg(test)]
mod tests {
    use super::{DocumentLinks, LINKS_MAX, LinkKind, document_links, forbids_following};
    use resource::PageLimits;
    use url::Url;

    fn links(html: &str) -> DocumentLinks {
        let url = Url::parse("http://h/dir/page").unwrap();
        document_links(html.as_bytes(), &url, "petasos", &PageLimits::DEFAULT)
    }

    fn urls(html: &str) -> String {
        let found = links(html).links;
        let found: Vec<&str> =
            found.iter().map(|link| link.url.as_str().trim_start_matches("http://h")).collect();
        found.join(" ")
    }

    #[test]
    fn anchors_and_areas_are_resolved_without_fragments() {
        assert_eq!(urls("<a href=a>x</a><a href='/b?c=d&amp;e#f'>"), "/dir/a /b?c=d&e");
        assert_eq!(urls("<map><area href='//o/x'></map><a>x</a><a href=''>"), "http://o/x");
        assert_eq!(urls("<a href='#top'><a href='javascript:x()'><a href=mailto:a@b><a href=tel:1>"), "");
        assert_eq!(urls("<A HREF=' /a\n'>"), "/a");
        assert_eq!(
            urls("<!-- <a href=a> --><script>'<a href=a>'</script><template><a href=a></template>"),
            ""
        );
        assert_eq!(urls("<textarea><a href=a></textarea><noscript><a href=n></noscript>"), "");
    }

    #[test]
    fn base_of_any_place_applies_to_all_links() {
        assert_eq!(urls("<a href=x><base href=/b/><base href=/c/>"), "/b/x");
        assert_eq!(urls("<base href='data:x'><a href=x>"), "/dir/x");
        assert_eq!(urls("<base href='https://other/'><a href=x>"), "https://other/x");
    }

    #[test]
    fn link_elements_have_their_kinds() {
        let html = "<link rel=canonical href=c><link rel=next href=n><link rel='prev' href=p>\
                    <link rel=alternate hreflang=de href=d><link rel=alternate type=application/rss+xml href=f>\
                    <link rel=alternate type=application/json href=j><link rel='alternate stylesheet' href=s>\
                    <link rel=stylesheet href=t><a rel=next href=m>";
        let kinds: Vec<LinkKind> = links(html).links.iter().map(|link| link.kind).collect();
        use LinkKind::{Alternate, Canonical, Feed, Next, Previous};
        assert_eq!(kinds, [Canonical, Next, Previous, Alternate, Feed, Next]);
    }

    #[test]
    fn nofollow_of_links_and_of_the_document_is_found() {
        assert!(links("<a rel='external NoFollow' href=a>").links[0].is_nofollow);
        assert!(!links("<a rel='external' href=a>").links[0].is_nofollow);
        for (html, expected) in [
            ("<meta name=robots content='noindex, nofollow'>", true),
            ("<meta name=ROBOTS content=NONE>", true),
            ("<meta name=petasos content=nofollow>", true),
            ("<meta name=otherbot content=nofollow>", false),
            ("<meta name=robots content='max-image-preview:large'>", false),
            ("<p>&lt;meta name=robots content=nofollow&gt;", false),
        ] {
            assert_eq!(links(html).is_nofollow, expected, "{html}");
        }
        assert!(forbids_following("noindex,nofollow") && !forbids_following("noindex"));
    }

    #[test]
    fn links_that_a_script_turns_into_actions_are_marked() {
        for (attributes, expected) in [
            ("data-method=delete", true),
            ("data-method=get", false),
            ("data-confirm='Sure?'", true),
            ("onclick=\"return confirm('x')\"", true),
            ("onclick=\"track()\"", false),
            ("download", true),
            ("class=x", false),
        ] {
            let found = links(&format!("<a href=a {attributes}>"));
            assert_eq!(found.links[0].is_scripted, expected, "{attributes}");
        }
    }

    #[test]
    fn hostile_documents_give_bounded_links() {
        let many = "<a href=x>".repeat(LINKS_MAX + 5);
        let found = links(&many);
        assert!(found.is_cut && found.links.len() <= LINKS_MAX, "{}", found.links.len());
        let long = format!("<a href='/{}'><a href=b>", "x".repeat(10_000_000));
        assert!(links(&long).links.len() <= 1 && links(&long).is_cut);
        assert_eq!(urls("<a href='\u{0}a'><a href='http://[::1'><a href='http://'>"), "/dir/%EF%BF%BDa");
        let url = Url::parse("http://h/").unwrap();
        let found = document_links(b"<a href='/\xff\xfe'>", &url, "petasos", &PageLimits::DEFAULT);
        assert_eq!(found.links[0].url.as_str(), "http://h/%EF%BF%BD%EF%BF%BD");
        assert!(links(&"<div>".repeat(100_000)).is_cut);
    }
}
