//! Resources that a document names for a browser to load, in tree order (HTML, sections 4.2, 4.8
//! and 4.12).
//!
//! Invariant: URLs are absolute, without fragment, and http or https. Resources that scripts or
//! styles add are not included. Lazy images and frames are marked, because without a layout it is
//! unknown whether they are near the visible area.

use crate::css::Sheet;
use crate::dom::{DomNode, DomTree, NodeIndex};
use crate::media::Viewport;
use crate::srcset;
use resource::{LimitCounts, PageLimits, ResourceClass};
use std::rc::Rc;
use url::Url;

/// A resource that a document names.
#[derive(Clone, Debug)]
pub(crate) struct NamedResource {
    /// Its absolute URL.
    pub(crate) url: Url,
    /// Its purpose.
    pub(crate) class: ResourceClass,
    /// Whether a browser loads it only when it comes near the visible area.
    pub(crate) is_lazy: bool,
    /// The size of its frame; only for documents in frames.
    pub(crate) viewport: Option<Viewport>,
}

/// A stylesheet that applies to a document; their order is the cascade order.
#[derive(Clone, Debug)]
pub(crate) enum SheetOf {
    /// The text of a `style` element.
    Here(Rc<Sheet>),
    /// A linked stylesheet, loaded from this URL.
    There(Url),
}

/// A parsed document and the resources it names.
#[derive(Debug, Default)]
pub(crate) struct ParsedDocument {
    pub(crate) tree: DomTree,
    /// The URL that relative URLs resolve against; `None` only in the default value.
    pub(crate) base: Option<Url>,
    /// Its resources: those of `Link` header fields, then those of elements in tree order, then the
    /// icon.
    pub(crate) items: Vec<NamedResource>,
    /// The stylesheets whose media match and that are not alternate, in cascade order.
    pub(crate) sheets: Vec<SheetOf>,
    /// Frame documents given inline in `srcdoc` attributes, with the size of their frames.
    pub(crate) inner: Vec<(String, Viewport)>,
    /// Omissions because of [`PageLimits`].
    pub(crate) limits: LimitCounts,
}

/// Size of a frame without `width` and `height` attributes (HTML, section 15.4.3).
const FRAME: Viewport = Viewport { width_px: 300.0, height_px: 150.0 };

/// Path of the icon that browsers request when a document names none.
const ICON_PATH: &str = "/favicon.ico";

/// Preferred icon width in pixels; the named icon with the nearest width is loaded.
const ICON_PX: u32 = 32;

/// Parses the document at `url` and lists its resources.
///
/// `links` are the values of the response's `Link` header fields. `is_top` distinguishes the page
/// from documents in frames; only the page has an icon.
pub(crate) fn extract(
    content: &[u8],
    url: &Url,
    links: &[String],
    is_top: bool,
    viewport: &Viewport,
    limits: &PageLimits,
) -> ParsedDocument {
    let tree = DomTree::parse(content, limits);
    let order = tree.in_order();
    let base = order
        .iter()
        .map(|&place| tree.node(place))
        .find_map(|node| (node.name == "base").then(|| node.attribute("href")).flatten())
        .and_then(|href| url.join(href.trim()).ok())
        .filter(|base| matches!(base.scheme(), "http" | "https"))
        .unwrap_or_else(|| url.clone());
    let parsed = ParsedDocument { limits: tree.limits, ..ParsedDocument::default() };
    let mut reading =
        DocumentReading { tree: &tree, base: &base, viewport, limits, icons: Vec::new(), parsed };
    links.iter().for_each(|link| reading.link_field(link));
    order.into_iter().for_each(|place| reading.element(place));
    if is_top {
        reading.icon(url);
    }
    let parsed = reading.parsed;
    ParsedDocument { tree, base: Some(base), ..parsed }
}

struct DocumentReading<'a> {
    tree: &'a DomTree,
    base: &'a Url,
    viewport: &'a Viewport,
    limits: &'a PageLimits,
    /// URLs of the named icons, each with its width in pixels if given.
    icons: Vec<(Url, Option<u32>)>,
    parsed: ParsedDocument,
}

impl DocumentReading<'_> {
    fn resolve(&self, address: &str) -> Option<Url> {
        let address = address.trim();
        if address.is_empty() {
            return None;
        }
        let mut url = self.base.join(address).ok()?;
        url.set_fragment(None);
        matches!(url.scheme(), "http" | "https").then_some(url)
    }

    fn add(&mut self, address: Option<&str>, class: ResourceClass) {
        self.add_when(address, class, false);
    }

    fn add_when(&mut self, address: Option<&str>, class: ResourceClass, is_lazy: bool) {
        if let Some(url) = address.and_then(|address| self.resolve(address)) {
            self.parsed.items.push(NamedResource { url, class, is_lazy, viewport: None });
        }
    }

    fn element(&mut self, place: NodeIndex) {
        let tree = self.tree;
        let node = tree.node(place);
        match node.name.as_str() {
            "link" => self.link(node),
            "style" => self.style(node),
            "script" => self.script(node),
            "img" => self.image(place, node),
            "iframe" => self.frame(node),
            "frame" => self.frame(node),
            "input" if node.says("type", "image") => self.add(node.attribute("src"), ResourceClass::Image),
            "video" => {
                self.add(node.attribute("poster"), ResourceClass::Image);
                self.media(node);
            }
            "audio" => self.media(node),
            "embed" => self.add(node.attribute("src"), ResourceClass::Other),
            "object" => self.add(node.attribute("data"), ResourceClass::Other),
            "image" => self.add(node.attribute("href"), ResourceClass::Image),
            "use" => {
                self.add(node.attribute("href").filter(|href| !href.starts_with('#')), ResourceClass::Image)
            }
            "body" | "table" | "thead" | "tbody" | "tr" | "td" | "th" => {
                self.add(node.attribute("background"), ResourceClass::Image);
            }
            _ => {}
        }
    }

    fn link(&mut self, node: &DomNode) {
        let rel: Vec<String> = node.words("rel").map(str::to_ascii_lowercase).collect();
        let is = |word: &str| rel.iter().any(|found| found == word);
        let media = node.attribute("media").unwrap_or_default();
        let href = node.attribute("href");
        let kind = node.attribute("type").unwrap_or_default();
        if is("stylesheet") && !node.has("disabled") && matches!(kind.trim(), "" | "text/css") {
            self.add(href, ResourceClass::Stylesheet);
            let applies = !is("alternate") && self.viewport.matches(media);
            if applies && let Some(url) = href.and_then(|href| self.resolve(href)) {
                self.parsed.sheets.push(SheetOf::There(url));
            }
        }
        if is("icon") {
            let width = node.attribute("sizes").and_then(|sizes| {
                sizes
                    .split_ascii_whitespace()
                    .find_map(|size| size.to_ascii_lowercase().split('x').next()?.parse().ok())
            });
            if let Some(url) = href.and_then(|href| self.resolve(href)) {
                self.icons.push((url, width));
            }
        }
        if is("modulepreload") {
            self.add(href, ResourceClass::Script);
        }
        if is("prefetch") {
            self.add(href, ResourceClass::Other);
        }
        if is("preload") && self.viewport.matches(media) {
            let purpose = node.attribute("as").unwrap_or_default().to_ascii_lowercase();
            let images = (node.attribute("imagesrcset"), node.attribute("imagesizes").unwrap_or_default());
            self.preload(href, &purpose, kind, images);
        }
    }

    fn preload(&mut self, href: Option<&str>, purpose: &str, kind: &str, images: (Option<&str>, &str)) {
        let class = match purpose {
            "style" => ResourceClass::Stylesheet,
            "script" => ResourceClass::Script,
            "font" => ResourceClass::Font,
            "fetch" => ResourceClass::Other,
            "image" if srcset::is_supported(kind) => {
                let (set, sizes) = images;
                let chosen = set.and_then(|set| srcset::choose(set, sizes, href, self.viewport));
                return self.add(chosen.as_deref().or(href), ResourceClass::Image);
            }
            _ => return,
        };
        self.add(href, class);
    }

    /// Parses one `Link` header field value, such as `</a.css>; rel=preload; as=style`; it may list
    /// several links.
    fn link_field(&mut self, value: &str) {
        for link in crate::css_text::split(value, b',') {
            let Some((address, parameters)) =
                link.trim().strip_prefix('<').and_then(|rest| rest.split_once('>'))
            else {
                continue;
            };
            let parameter = |name: &str| {
                crate::css_text::split(parameters, b';').into_iter().find_map(|part| {
                    let (found, value) = part.split_once('=')?;
                    found.trim().eq_ignore_ascii_case(name).then(|| value.trim().trim_matches('"'))
                })
            };
            let rel = parameter("rel").unwrap_or_default().to_ascii_lowercase();
            if !self.viewport.matches(parameter("media").unwrap_or_default()) {
                continue;
            }
            match rel.as_str() {
                "preload" => {
                    let purpose = parameter("as").unwrap_or_default().to_ascii_lowercase();
                    let images = (parameter("imagesrcset"), parameter("imagesizes").unwrap_or_default());
                    self.preload(Some(address), &purpose, parameter("type").unwrap_or_default(), images);
                }
                "modulepreload" => self.add(Some(address), ResourceClass::Script),
                _ => {}
            }
        }
    }

    fn style(&mut self, node: &DomNode) {
        if !matches!(node.attribute("type").unwrap_or_default().trim(), "" | "text/css") {
            return;
        }
        let sheet = Sheet::parse(&node.text, self.base, self.viewport, self.limits);
        self.parsed.limits.merge(&sheet.limits);
        if self.viewport.matches(node.attribute("media").unwrap_or_default()) {
            self.parsed.sheets.push(SheetOf::Here(Rc::new(sheet)));
        } else {
            // Browsers also load the imports of a `style` element whose media do not match.
            for (url, _) in sheet.imports {
                self.add(Some(url.as_str()), ResourceClass::Stylesheet);
            }
        }
    }

    fn script(&mut self, node: &DomNode) {
        let kind = node.attribute("type").unwrap_or_default().trim().to_ascii_lowercase();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let is_script = matches!(
            kind,
            "" | "module"
                | "text/javascript"
                | "application/javascript"
                | "text/ecmascript"
                | "application/ecmascript"
                | "application/x-javascript"
                | "text/x-javascript"
                | "text/jscript"
        );
        let is_for_old = node.has("nomodule") && kind != "module";
        if is_script && !is_for_old {
            // SVG scripts have their URL in `href`.
            self.add(node.attribute("src").or_else(|| node.attribute("href")), ResourceClass::Script);
        }
    }

    fn image(&mut self, place: NodeIndex, node: &DomNode) {
        let is_lazy = node.says("loading", "lazy");
        let chosen = self.picture_source(place).or_else(|| {
            let set = node.attribute("srcset").unwrap_or_default();
            srcset::choose(
                set,
                node.attribute("sizes").unwrap_or_default(),
                node.attribute("src"),
                self.viewport,
            )
        });
        self.add_when(chosen.as_deref(), ResourceClass::Image, is_lazy);
    }

    /// The file that the first matching `source` element before the image in its `picture` names.
    fn picture_source(&self, place: NodeIndex) -> Option<String> {
        let picture = self.tree.node(self.tree.node(place).parent?);
        if picture.name != "picture" {
            return None;
        }
        let before = picture.children.iter().take_while(|&&other| other != place);
        before.map(|&other| self.tree.node(other)).filter(|node| node.name == "source").find_map(|source| {
            let fits = self.viewport.matches(source.attribute("media").unwrap_or_default())
                && srcset::is_supported(source.attribute("type").unwrap_or_default());
            if !fits {
                return None;
            }
            let set = source.attribute("srcset")?;
            srcset::choose(set, source.attribute("sizes").unwrap_or_default(), None, self.viewport)
        })
    }

    fn frame(&mut self, node: &DomNode) {
        let pixels = |name: &str, otherwise: f64| {
            let text = node.attribute(name).unwrap_or_default().trim();
            match text.strip_suffix('%') {
                Some(part) => part.parse::<f64>().ok().map(|part| self.viewport.width_px * part / 100.0),
                None => text.parse().ok(),
            }
            .unwrap_or(otherwise)
        };
        let viewport = Viewport {
            width_px: pixels("width", FRAME.width_px),
            height_px: pixels("height", FRAME.height_px),
        };
        if let Some(text) = node.attribute("srcdoc") {
            self.parsed.inner.push((text.to_owned(), viewport));
        } else if let Some(url) = node.attribute("src").and_then(|src| self.resolve(src)) {
            let is_lazy = node.says("loading", "lazy");
            self.parsed.items.push(NamedResource {
                url,
                class: ResourceClass::Frame,
                is_lazy,
                viewport: Some(viewport),
            });
        }
    }

    /// Adds the file of an audio or video element. Without `autoplay`, `preload=none` prevents the
    /// load.
    fn media(&mut self, node: &DomNode) {
        if node.says("preload", "none") && !node.has("autoplay") {
            return;
        }
        let source = node.attribute("src").or_else(|| {
            let sources = node.children.iter().map(|&child| self.tree.node(child));
            sources.filter(|child| child.name == "source").find_map(|child| child.attribute("src"))
        });
        let source = source.map(str::to_owned);
        self.add(source.as_deref(), ResourceClass::Media);
    }

    /// Adds the page's icon: the named icon with the nearest width, else the last one without a
    /// width, else `/favicon.ico`.
    fn icon(&mut self, url: &Url) {
        let distance = |width: &Option<u32>| width.map_or(u32::MAX, |width| width.abs_diff(ICON_PX));
        let named =
            self.icons.iter().rev().min_by_key(|(_, width)| distance(width)).map(|(url, _)| url.clone());
        if let Some(url) = named.or_else(|| url.join(ICON_PATH).ok()) {
            self.parsed.items.push(NamedResource {
                url,
                class: ResourceClass::Icon,
                is_lazy: false,
                viewport: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ResourceClass, SheetOf, extract};
    use crate::media::Viewport;
    use resource::PageLimits;
    use url::Url;

    fn items(html: &str) -> String {
        items_with(html, &[])
    }

    fn items_with(html: &str, links: &[&str]) -> String {
        let url = Url::parse("http://h/dir/page").unwrap();
        let links: Vec<String> = links.iter().map(|&link| link.to_owned()).collect();
        let parsed = extract(html.as_bytes(), &url, &links, true, &Viewport::DEFAULT, &PageLimits::DEFAULT);
        let found = parsed.items.iter().filter(|item| item.url.path() != "/favicon.ico").map(|item| {
            let lazy = if item.is_lazy { "~" } else { "" };
            format!("{lazy}{}:{}", item.class.name(), item.url.as_str().trim_start_matches("http://h"))
        });
        found.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn link_elements_and_fields_name_their_resources() {
        assert_eq!(items("<link rel=stylesheet href=a.css>"), "stylesheet:/dir/a.css");
        assert_eq!(items("<link rel='stylesheet' href=p.css media=print>"), "stylesheet:/dir/p.css");
        assert_eq!(
            items("<link rel=stylesheet href=d disabled><link rel=stylesheet type=text/less href=l>"),
            ""
        );
        assert_eq!(items("<link rel=preload as=font href=f><link rel=preload href=g>"), "font:/dir/f");
        assert_eq!(
            items("<link rel=preload as=image media=print href=f><link rel=modulepreload href=m>"),
            "script:/dir/m"
        );
        assert_eq!(items("<link rel=preload as=image imagesrcset='b 2x, c 1x' href=d>"), "image:/dir/c");
        assert_eq!(
            items("<link rel='dns-prefetch preconnect canonical' href=//x><link rel=prefetch href=n>"),
            "other:/dir/n"
        );
        assert_eq!(
            items_with("", &["<a.css>; rel=preload; as=style, </b>;rel=\"modulepreload\""]),
            "stylesheet:/dir/a.css script:/b"
        );
    }

    #[test]
    fn only_matching_stylesheets_style_the_page() {
        let url = Url::parse("http://h/").unwrap();
        let html = "<link rel=stylesheet href=a><link rel='alternate stylesheet' href=b><link rel=stylesheet media=print href=c><style>d{}</style>";
        let parsed = extract(html.as_bytes(), &url, &[], true, &Viewport::DEFAULT, &PageLimits::DEFAULT);
        assert_eq!(parsed.sheets.len(), 2);
        assert!(matches!(&parsed.sheets[0], SheetOf::There(url) if url.path() == "/a"));
        assert_eq!(parsed.items.iter().filter(|item| item.class == ResourceClass::Stylesheet).count(), 3);
    }

    #[test]
    fn only_classic_and_module_scripts_are_loaded() {
        assert_eq!(
            items("<script src=a></script><script type=module src=b></script>"),
            "script:/dir/a script:/dir/b"
        );
        assert_eq!(
            items("<script type=application/ld+json src=a></script><script nomodule src=b></script>"),
            ""
        );
        assert_eq!(items("<script type='text/javascript; charset=x' src=a></script>"), "script:/dir/a");
    }

    #[test]
    fn images_are_chosen_from_all_their_sources() {
        assert_eq!(
            items("<img src=a><img src=b loading=lazy><img src='data:x'><img src=' '>"),
            "image:/dir/a ~image:/dir/b"
        );
        assert_eq!(
            items("<img src=s srcset='a 300w, b 800w' sizes='(max-width: 9px) 1px, 700px'>"),
            "image:/dir/b"
        );
        let picture = "<picture><source type=image/jxl srcset=j><source media=print srcset=p>\
                       <source type=image/webp srcset='w1 1x, w2 2x'><img src=f></picture>";
        assert_eq!(items(picture), "image:/dir/w1");
        assert_eq!(items("<picture><img src=f><source srcset=x></picture>"), "image:/dir/f");
        let svg = "<svg><image href=v /><use href=#x /><use xlink:href=u#x /></svg>";
        assert_eq!(items(svg), "image:/dir/v image:/dir/u");
        assert_eq!(items("<input type=image src=i><table background=t>"), "image:/dir/i image:/dir/t");
        assert_eq!(items("<noscript><img src=n></noscript>"), "");
    }

    #[test]
    fn frames_media_and_objects_resolve_against_base() {
        assert_eq!(items("<base href=/b/><base href=/c/><img src=x>"), "image:/b/x");
        assert_eq!(
            items(
                "<iframe src=f></iframe><iframe src=g loading=lazy></iframe><iframe src=about:blank></iframe>"
            ),
            "frame:/dir/f ~frame:/dir/g"
        );
        assert_eq!(
            items("<video poster=p preload=none src=v></video><video><source src=w></video>"),
            "image:/dir/p media:/dir/w"
        );
        assert_eq!(items("<object data=o></object><embed src=e>"), "other:/dir/o other:/dir/e");
    }

    #[test]
    fn nearest_icon_or_favicon_is_loaded() {
        let icon = |html: &str| {
            let url = Url::parse("http://h/").unwrap();
            let parsed = extract(html.as_bytes(), &url, &[], true, &Viewport::DEFAULT, &PageLimits::DEFAULT);
            parsed
                .items
                .iter()
                .find(|item| item.class == ResourceClass::Icon)
                .map(|item| item.url.path().to_owned())
        };
        assert_eq!(icon("").as_deref(), Some("/favicon.ico"));
        assert_eq!(icon("<link rel='shortcut icon' href=a>").as_deref(), Some("/a"));
        assert_eq!(
            icon("<link rel=icon sizes=192x192 href=a><link rel=icon sizes=32x32 href=b>").as_deref(),
            Some("/b")
        );
        assert_eq!(icon("<link rel=icon href='data:,'>").as_deref(), Some("/favicon.ico"));
    }
}
