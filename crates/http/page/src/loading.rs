//! One page load: from the responses that have arrived to the requests that come next.
//!
//! Invariant: each URL is handed out at most once. The caller answers every asset with exactly one
//! call: [`Loading::document`], [`Loading::stylesheet`], or [`Loading::ended`]. The last is for
//! content that needs no parsing and for failed requests. The images and fonts of a document's
//! styles are known once all its stylesheets have arrived or failed. This module uses no network
//! and no clock.

use crate::css::{Rule, Sheet};
use crate::css_value::Face;
use crate::extract::{NamedResource, ParsedDocument, SheetOf, extract};
use crate::media::Viewport;
use crate::style::{StyleResources, style};
use bytes::Bytes;
use message::Fields;
use resource::{LimitCounts, PageLimit, PageLimits, ResourceClass};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use url::Url;

/// Bytes of documents and stylesheets whose parsed form is kept, with their keys; beyond this the
/// memo is emptied. Of the parsed form, only [`ENTRY_BYTES`] are counted.
const MEMO_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes counted for each entry of the memo beside its content, URL and links: about the parsed
/// form of an empty document.
const ENTRY_BYTES: usize = 4 * 1024;

/// A resource that the caller must load.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Its absolute URL without fragment.
    pub url: Url,
    /// Its purpose.
    pub class: ResourceClass,
    /// Size of the window or frame whose styles apply to it.
    viewport: Viewport,
    /// Frame nesting depth: 0 for the page, 1 for a frame of the page.
    depth: u32,
}

/// Parsed documents and stylesheets, shared by all page loads.
///
/// When an origin sends the same bytes to every visitor, they are parsed only once.
#[derive(Debug, Default)]
pub struct Memo {
    documents: HashMap<DocumentKey, Rc<ParsedDocument>>,
    sheets: HashMap<(Url, ViewportKey, Bytes), Rc<Sheet>>,
    /// Styles by the memory addresses of the parsed document and of its stylesheets.
    styled: HashMap<(usize, Vec<usize>), Rc<StyleResources>>,
    /// Keeps the keys of `styled` valid: an address cannot be reused while its object is held here.
    kept: Vec<(Rc<ParsedDocument>, Vec<Rc<Sheet>>)>,
    /// Bytes of all keys, and [`ENTRY_BYTES`] for each; see [`MEMO_BYTES_MAX`].
    bytes: usize,
}

/// URL, `Link` values, whether it is the page, viewport and content.
type DocumentKey = (Url, Vec<String>, bool, ViewportKey, Bytes);

/// Bits of a viewport's width and height, because `f64` cannot be hashed.
type ViewportKey = (u64, u64);

/// The state of one page load.
#[derive(Debug)]
pub struct Loading {
    limits: PageLimits,
    /// URLs that were handed out, and the final URLs of documents after redirects.
    seen: HashSet<Url>,
    sheets: HashMap<Url, SheetState>,
    /// The page and the documents in its frames.
    frames: Vec<FrameState>,
    /// Lazy assets, without repetition; at most [`PageLimits::assets_max`].
    lazy: Vec<Subresource>,
    /// Number of assets handed out; at most [`PageLimits::assets_max`].
    assets: usize,
    counts: LimitCounts,
}

#[derive(Debug)]
enum SheetState {
    /// Requested; the value is its import depth.
    Awaited(u32),
    Here(Rc<Sheet>),
    Missing,
}

#[derive(Debug)]
struct FrameState {
    parsed: Rc<ParsedDocument>,
    viewport: Viewport,
    is_styled: bool,
}

impl Loading {
    /// Starts a page load. The first call after this is [`Loading::document`] with
    /// [`Loading::page`].
    pub fn new(limits: PageLimits) -> Self {
        Self {
            limits,
            seen: HashSet::new(),
            sheets: HashMap::new(),
            frames: Vec::new(),
            lazy: Vec::new(),
            assets: 0,
            counts: LimitCounts::default(),
        }
    }

    /// The asset of the page, which the caller loads first.
    pub fn page(url: Url) -> Subresource {
        Subresource { url, class: ResourceClass::Document, viewport: Viewport::DEFAULT, depth: 0 }
    }

    /// Takes a document that arrived from `url` after redirects. Returns the assets to load next.
    ///
    /// `fields` are the response's header fields; `content` is decoded, without its content coding.
    pub fn document(
        &mut self,
        memo: &mut Memo,
        asset: &Subresource,
        url: &Url,
        fields: &Fields,
        content: &Bytes,
    ) -> Vec<Subresource> {
        let links = fields.all("Link").map(|value| String::from_utf8_lossy(value).into_owned()).collect();
        self.seen.insert(without_fragment(url));
        let mut next = Vec::new();
        self.read_document(memo, asset, url, links, content, &mut next);
        self.apply_styles(memo, &mut next);
        next
    }

    /// Takes a stylesheet that arrived from `url` after redirects. Returns the assets to load next.
    pub fn stylesheet(
        &mut self,
        memo: &mut Memo,
        asset: &Subresource,
        url: &Url,
        content: &Bytes,
    ) -> Vec<Subresource> {
        let mut next = Vec::new();
        let depth = match self.sheets.get(&asset.url) {
            Some(SheetState::Awaited(depth)) => *depth,
            // A preloaded stylesheet that no document has linked yet counts as depth 0.
            _ => 0,
        };
        let sheet = memo.sheet(url, &asset.viewport, content, &self.limits);
        self.counts.merge(&sheet.limits);
        for (import, _) in &sheet.imports {
            self.want_sheet(import, depth + 1, asset, &mut next);
        }
        self.sheets.insert(asset.url.clone(), SheetState::Here(sheet));
        self.apply_styles(memo, &mut next);
        next
    }

    /// Takes the end of a request that failed or whose content needs no parsing. Returns the assets
    /// to load next.
    pub fn ended(&mut self, memo: &mut Memo, asset: &Subresource) -> Vec<Subresource> {
        let mut next = Vec::new();
        if asset.class == ResourceClass::Stylesheet {
            self.sheets.insert(asset.url.clone(), SheetState::Missing);
            self.apply_styles(memo, &mut next);
        }
        next
    }

    /// Lazy assets that nothing else has loaded so far.
    pub fn lazy(&self) -> impl Iterator<Item = &Subresource> {
        self.lazy.iter().filter(|asset| !self.seen.contains(&asset.url))
    }

    /// Omissions because of [`PageLimits`] so far.
    pub fn limits_hit(&self) -> &LimitCounts {
        &self.counts
    }

    fn read_document(
        &mut self,
        memo: &mut Memo,
        asset: &Subresource,
        url: &Url,
        links: Vec<String>,
        content: &Bytes,
        next: &mut Vec<Subresource>,
    ) {
        let is_top = asset.class == ResourceClass::Document;
        let parsed = memo.document(url, links, is_top, &asset.viewport, content, &self.limits);
        self.counts.merge(&parsed.limits);
        for item in &parsed.items {
            self.want(item, asset, next);
        }
        for sheet in &parsed.sheets {
            match sheet {
                SheetOf::There(url) => self.want_sheet(url, 0, asset, next),
                SheetOf::Here(sheet) => {
                    for (import, _) in &sheet.imports {
                        self.want_sheet(import, 1, asset, next);
                    }
                }
            }
        }
        for (text, viewport) in &parsed.inner {
            let inner = Subresource {
                class: ResourceClass::Frame,
                viewport: *viewport,
                depth: asset.depth + 1,
                ..asset.clone()
            };
            if inner.depth > self.limits.frames_max {
                self.counts.add(PageLimit::Frames);
                continue;
            }
            let base = parsed.base.clone().unwrap_or_else(|| url.clone());
            self.read_document(memo, &inner, &base, Vec::new(), &Bytes::from(text.clone()), next);
        }
        self.frames.push(FrameState { parsed, viewport: asset.viewport, is_styled: false });
    }

    /// Hands out a resource of a document, or notes it when it is lazy.
    fn want(&mut self, item: &NamedResource, from: &Subresource, next: &mut Vec<Subresource>) {
        let viewport = item.viewport.unwrap_or(from.viewport);
        let depth = from.depth + u32::from(item.class == ResourceClass::Frame);
        let asset = Subresource { url: without_fragment(&item.url), class: item.class, viewport, depth };
        if asset.depth > self.limits.frames_max {
            self.counts.add(PageLimit::Frames);
        } else if item.is_lazy {
            let is_known = self.lazy.iter().any(|other| other.url == asset.url);
            if !is_known && self.lazy.len() < self.limits.assets_max {
                self.lazy.push(asset);
            }
        } else {
            self.hand_out(asset, next);
        }
    }

    fn want_sheet(&mut self, url: &Url, depth: u32, from: &Subresource, next: &mut Vec<Subresource>) {
        let url = without_fragment(url);
        match self.sheets.get(&url) {
            Some(_) => {}
            None if depth > self.limits.imports_max => self.counts.add(PageLimit::Imports),
            None => {
                let asset =
                    Subresource { url: url.clone(), class: ResourceClass::Stylesheet, ..from.clone() };
                let was_handed_out = self.seen.contains(&url) || self.hand_out(asset, next);
                let state = if was_handed_out { SheetState::Awaited(depth) } else { SheetState::Missing };
                self.sheets.insert(url, state);
            }
        }
    }

    /// Hands out an asset unless its URL was handed out before; returns whether it was handed out
    /// now.
    fn hand_out(&mut self, asset: Subresource, next: &mut Vec<Subresource>) -> bool {
        if self.seen.contains(&asset.url) {
            return false;
        }
        if self.assets >= self.limits.assets_max {
            self.counts.add(PageLimit::Assets);
            return false;
        }
        self.assets += 1;
        self.seen.insert(asset.url.clone());
        next.push(asset);
        true
    }

    /// Hands out the images and fonts of every document whose stylesheets are complete.
    fn apply_styles(&mut self, memo: &mut Memo, next: &mut Vec<Subresource>) {
        for index in 0..self.frames.len() {
            let Some(frame) = self.frames.get(index).filter(|frame| !frame.is_styled) else { continue };
            let Some(sheets) = self.sheets_of(frame) else { continue };
            let parsed = Rc::clone(&frame.parsed);
            let viewport = frame.viewport;
            let styled = memo.styled(&parsed, sheets, &self.limits);
            self.counts.merge(&styled.limits);
            let found = styled.images.iter().map(|url| (url, ResourceClass::Image));
            for (url, class) in found.chain(styled.fonts.iter().map(|url| (url, ResourceClass::Font))) {
                let asset = Subresource { url: without_fragment(url), class, viewport, depth: 0 };
                self.hand_out(asset, next);
            }
            if let Some(frame) = self.frames.get_mut(index) {
                frame.is_styled = true;
            }
        }
    }

    /// The stylesheets of a document in cascade order, imports before the importing sheet. If a
    /// stylesheet is imported several times, its last place counts, as in browsers. `None` while a
    /// stylesheet is still awaited.
    fn sheets_of(&self, frame: &FrameState) -> Option<Vec<Rc<Sheet>>> {
        // From the last to the first, so that the first place found is the one that counts.
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        for sheet in frame.parsed.sheets.iter().rev() {
            match sheet {
                SheetOf::Here(sheet) => self.collect(sheet, &mut seen, &mut found)?,
                SheetOf::There(url) => self.collect_from(url, &mut seen, &mut found)?,
            }
        }
        found.reverse();
        Some(found)
    }

    fn collect(&self, sheet: &Rc<Sheet>, seen: &mut HashSet<Url>, found: &mut Vec<Rc<Sheet>>) -> Option<()> {
        found.push(Rc::clone(sheet));
        for (url, _) in sheet.imports.iter().rev().filter(|(_, applies)| *applies) {
            self.collect_from(url, seen, found)?;
        }
        Some(())
    }

    /// Adds the stylesheet at `url` and its imports, unless it is in `seen`, which also ends import
    /// cycles.
    fn collect_from(&self, url: &Url, seen: &mut HashSet<Url>, found: &mut Vec<Rc<Sheet>>) -> Option<()> {
        let url = without_fragment(url);
        if !seen.insert(url.clone()) {
            return Some(());
        }
        match self.sheets.get(&url) {
            Some(SheetState::Awaited(_)) => None,
            Some(SheetState::Here(sheet)) => self.collect(sheet, seen, found),
            _ => Some(()),
        }
    }
}

impl Memo {
    /// Counts an entry whose key has `bytes`, and empties the memo first when it does not fit.
    fn make_room(&mut self, bytes: usize) {
        let bytes = bytes + ENTRY_BYTES;
        self.bytes += bytes;
        if self.bytes > MEMO_BYTES_MAX {
            *self = Self { bytes, ..Self::default() };
        }
    }

    fn document(
        &mut self,
        url: &Url,
        links: Vec<String>,
        is_top: bool,
        viewport: &Viewport,
        content: &Bytes,
        limits: &PageLimits,
    ) -> Rc<ParsedDocument> {
        let key = (url.clone(), links, is_top, key_of(viewport), content.clone());
        if let Some(parsed) = self.documents.get(&key) {
            return Rc::clone(parsed);
        }
        let parsed = Rc::new(extract(content, url, &key.1, is_top, viewport, limits));
        let links: usize = key.1.iter().map(String::len).sum();
        self.make_room(content.len() + url.as_str().len() + links);
        self.documents.insert(key, Rc::clone(&parsed));
        parsed
    }

    fn sheet(&mut self, url: &Url, viewport: &Viewport, content: &Bytes, limits: &PageLimits) -> Rc<Sheet> {
        let key = (url.clone(), key_of(viewport), content.clone());
        if let Some(sheet) = self.sheets.get(&key) {
            return Rc::clone(sheet);
        }
        let sheet = Rc::new(Sheet::parse(&String::from_utf8_lossy(content), url, viewport, limits));
        self.make_room(content.len() + url.as_str().len());
        self.sheets.insert(key, Rc::clone(&sheet));
        sheet
    }

    fn styled(
        &mut self,
        parsed: &Rc<ParsedDocument>,
        sheets: Vec<Rc<Sheet>>,
        limits: &PageLimits,
    ) -> Rc<StyleResources> {
        let key =
            (Rc::as_ptr(parsed) as usize, sheets.iter().map(|sheet| Rc::as_ptr(sheet) as usize).collect());
        if let Some(styled) = self.styled.get(&key) {
            return Rc::clone(styled);
        }
        let rules: Vec<&Rule> = sheets.iter().flat_map(|sheet| &sheet.rules).collect();
        let faces: Vec<&Face> = sheets.iter().flat_map(|sheet| &sheet.faces).collect();
        let styled = match &parsed.base {
            Some(base) => Rc::new(style(&parsed.tree, &rules, &faces, base, limits)),
            None => Rc::default(),
        };
        // If this empties the memo, the vector `kept` below still holds the sheets that the key
        // refers to.
        self.make_room(sheets.len() * size_of::<usize>());
        self.styled.insert(key, Rc::clone(&styled));
        self.kept.push((Rc::clone(parsed), sheets));
        styled
    }
}

fn key_of(viewport: &Viewport) -> ViewportKey {
    (viewport.width_px.to_bits(), viewport.height_px.to_bits())
}

fn without_fragment(url: &Url) -> Url {
    let mut url = url.clone();
    url.set_fragment(None);
    url
}

#[cfg(test)]
mod tests {
    use super::{Loading, Memo, Subresource};
    use bytes::Bytes;
    use message::Fields;
    use proptest::prelude::*;
    use resource::{PageLimit, PageLimits, ResourceClass};
    use std::collections::{BTreeMap, BTreeSet};
    use url::Url;

    type TestSite = BTreeMap<&'static str, String>;

    /// Loads `/` of a site and returns the requested paths and the load. With `reversed`, the
    /// latest request is answered first.
    fn load(site: &TestSite, limits: PageLimits, reversed: bool) -> (BTreeSet<String>, Loading) {
        let mut memo = Memo::default();
        let mut loading = Loading::new(limits);
        let mut waiting = vec![Loading::page(Url::parse("http://h/").unwrap())];
        let mut asked = BTreeSet::new();
        while !waiting.is_empty() {
            let asset: Subresource = if reversed { waiting.pop().unwrap() } else { waiting.remove(0) };
            assert!(asked.insert(asset.url.path().to_owned()), "{} twice", asset.url);
            let content = site.get(asset.url.path()).map(|text| Bytes::from(text.clone()));
            waiting.extend(match (content, asset.class) {
                (Some(content), ResourceClass::Document | ResourceClass::Frame) => {
                    loading.document(&mut memo, &asset, &asset.url, &Fields::new(), &content)
                }
                (Some(content), ResourceClass::Stylesheet) => {
                    loading.stylesheet(&mut memo, &asset, &asset.url, &content)
                }
                _ => loading.ended(&mut memo, &asset),
            });
        }
        (asked, loading)
    }

    fn paths(site: &TestSite) -> String {
        let (one, _) = load(site, PageLimits::DEFAULT, false);
        let (other, _) = load(site, PageLimits::DEFAULT, true);
        assert_eq!(one, other, "the order of responses changed the loaded resources");
        one.iter().filter(|path| *path != "/favicon.ico").map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    fn site(files: &[(&'static str, &str)]) -> TestSite {
        files.iter().map(|&(path, text)| (path, text.to_owned())).collect()
    }

    #[test]
    fn imported_stylesheets_are_loaded_and_applied() {
        let site = site(&[
            ("/", "<link rel=stylesheet href=a.css><link rel=preload as=style href=a.css><p class=x>t"),
            (
                "/a.css",
                "@import 'b.css'; @import 'print.css' print; .x{background:url(x.png)} .y{background:url(y.png)}",
            ),
            ("/b.css", "@import 'a.css'; @font-face{font-family:F;src:url(f.woff2)} p{font-family:F}"),
            ("/print.css", "p{background:url(print.png)!important}"),
        ]);
        assert_eq!(paths(&site), "/ /a.css /b.css /f.woff2 /print.css /x.png");
    }

    #[test]
    fn frames_use_their_own_styles_and_viewport() {
        let site = site(&[
            (
                "/",
                "<style>p{background:url(outer.png)}</style><iframe src=f width=500></iframe><iframe srcdoc='<img src=s.png>'></iframe>",
            ),
            ("/f", "<style>@media (max-width:600px){p{background:url(inner.png)}}</style><p>"),
        ]);
        assert_eq!(paths(&site), "/ /f /inner.png /s.png");
    }

    #[test]
    fn missing_stylesheet_does_not_block_the_other_styles() {
        let site =
            site(&[("/", "<link rel=stylesheet href=gone.css><style>p{background:url(p.png)}</style><p>")]);
        assert_eq!(paths(&site), "/ /gone.css /p.png");
    }

    #[test]
    fn lazy_images_are_listed_but_not_loaded() {
        let site = site(&[(
            "/",
            "<img src=a><img src=b loading=lazy><img loading=lazy src=b><img loading=lazy src=a>",
        )]);
        let (asked, loading) = load(&site, PageLimits::DEFAULT, false);
        assert!(!asked.contains("/b"));
        assert_eq!(loading.lazy().map(|asset| asset.url.path()).collect::<Vec<_>>(), ["/b"]);
    }

    #[test]
    fn many_images_and_endless_imports_stop_at_the_limits() {
        let many: String = (0..5_000).map(|number| format!("<img src=i{number}>")).collect();
        let (asked, loading) = load(&site(&[("/", many.as_str())]), PageLimits::DEFAULT, false);
        assert_eq!(asked.len(), 1_001);
        assert_eq!(loading.limits_hit().of(PageLimit::Assets), 4_001);
        let mut site: TestSite = (0..20)
            .map(|number| (&*format!("/{number}.css").leak(), format!("@import '{}.css';", number + 1)))
            .collect();
        site.insert("/", "<link rel=stylesheet href=0.css>".to_owned());
        let (asked, loading) = load(&site, PageLimits::DEFAULT, false);
        assert_eq!((asked.len(), loading.limits_hit().of(PageLimit::Imports)), (11, 1));
        let mut site: TestSite = BTreeMap::new();
        site.insert("/", "<iframe src=/a>".to_owned());
        for (path, inner) in [("/a", "/b"), ("/b", "/c"), ("/c", "/d"), ("/d", "/e")] {
            site.insert(path, format!("<iframe src={inner}>"));
        }
        let (asked, loading) = load(&site, PageLimits::DEFAULT, false);
        assert!(!asked.contains("/d"));
        assert_eq!(loading.limits_hit().of(PageLimit::Frames), 1);
    }

    #[test]
    fn memo_of_empty_contents_is_bounded() {
        let mut memo = Memo::default();
        for number in 0..20_000 {
            let asset = Loading::page(Url::parse(&format!("http://h/{number}")).unwrap());
            let mut loading = Loading::new(PageLimits::DEFAULT);
            loading.document(&mut memo, &asset, &asset.url, &Fields::new(), &Bytes::new());
        }
        assert!(memo.documents.len() <= 16 * 1024, "{}", memo.documents.len());
        assert!(memo.styled.len() <= 16 * 1024 && memo.kept.len() <= 16 * 1024);
        let mut memo = Memo::default();
        let asset = Loading::page(Url::parse("http://h/").unwrap());
        for number in 0..200 {
            let link = format!("<{number}{}>", "x".repeat(1024 * 1024));
            let fields: Fields = [("Link", link)].into_iter().collect();
            let mut loading = Loading::new(PageLimits::DEFAULT);
            loading.document(&mut memo, &asset, &asset.url, &fields, &Bytes::new());
        }
        assert!(memo.documents.len() <= 64, "{}", memo.documents.len());
    }

    #[test]
    fn last_place_of_a_repeated_import_counts() {
        let site = site(&[
            ("/", "<link rel=stylesheet href=a.css><p>"),
            ("/a.css", "@import 'b.css'; @import 'c.css'; @import 'b.css';"),
            ("/b.css", "p{background:url(b.png)}"),
            ("/c.css", "p{background:url(c.png)}"),
        ]);
        assert_eq!(paths(&site), "/ /a.css /b.css /b.png /c.css");
    }

    #[test]
    fn repeated_imports_apply_the_rules_once() {
        let mut memo = Memo::default();
        let asset = Loading::page(Url::parse("http://h/").unwrap());
        let mut loading = Loading::new(PageLimits::DEFAULT);
        let html = format!("<style>{}</style><p>", "@import 'a.css';".repeat(1_000));
        let next = loading.document(&mut memo, &asset, &asset.url, &Fields::new(), &Bytes::from(html));
        let sheet = next.iter().find(|asset| asset.class == ResourceClass::Stylesheet).unwrap();
        let text = Bytes::from("*{cursor:help}".repeat(1_000));
        loading.stylesheet(&mut memo, sheet, &sheet.url, &text);
        assert_eq!(memo.kept.last().unwrap().1.len(), 2);
    }

    proptest! {
        /// Stylesheets that import each other in any way: each reachable one is requested once, in
        /// any order of responses. The page's styles apply at the end.
        #[test]
        fn any_import_graph_is_loaded_once_and_applied(edges in prop::collection::vec((0_usize..6, 0_usize..6), 0..14)) {
            let names = ["/0.css", "/1.css", "/2.css", "/3.css", "/4.css", "/5.css"];
            let mut site = site(&[("/", "<link rel=stylesheet href=/0.css><p>")]);
            for (index, name) in names.iter().enumerate() {
                let imports: String = edges.iter().filter(|(from, _)| *from == index)
                    .map(|(_, to)| format!("@import '{}';", names[*to])).collect();
                site.insert(name, format!("{imports} p{{background:url(/{index}.png)}}"));
            }
            let mut reached = BTreeSet::from([0]);
            for _ in 0..6 {
                let more: Vec<usize> = edges.iter().filter(|(from, _)| reached.contains(from)).map(|(_, to)| *to).collect();
                reached.extend(more);
            }
            let mut expected: BTreeSet<String> = reached.iter().map(|index| names[*index].to_owned()).collect();
            expected.extend(["/".to_owned(), "/favicon.ico".to_owned(), "/0.png".to_owned()]);
            for reversed in [false, true] {
                let (asked, _) = load(&site, PageLimits::DEFAULT, reversed);
                prop_assert_eq!(&asked, &expected);
            }
        }
    }
}
