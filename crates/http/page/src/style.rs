//! Determines the files that a document's styles make a browser load (CSS Cascade, CSS Fonts Level
//! 4). These are images for backgrounds, borders, markers, masks, cursors and content of displayed
//! boxes, and the fonts of their text.
//!
//! Invariant: a file is listed only if a winning declaration for a displayed box names it. There is
//! no layout, so positions and sizes are unknown. A custom property has one value in the whole
//! document: the winning declaration among all boxes that set it. All work that a page can multiply
//! costs steps of the tree's budget, and ends when no step is left.

use crate::css::Rule;
use crate::css_text::{inside, split, strings};
use crate::css_value::{self, Declaration, Face, Property, family_name};
use crate::dom::{DOCUMENT, DomTree, NodeIndex};
use crate::selector::{RuleIndexKey, StyledBox};
use cssparser::{Parser, Token};
use resource::{LimitCounts, PageLimit, PageLimits};
use selectors::matching::SelectorCaches;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use url::Url;

/// How deep custom properties may refer to each other, functions between them included.
const VARIABLES_DEPTH_MAX: u32 = 24;

/// Length at which a value with substituted custom properties is cut, because they can double it
/// with each reference.
const RESOLVED_BYTES_MAX: usize = 64 * 1024;

/// Steps after which the caches of the matcher are emptied. They grow by at most one entry a step.
const CACHED_STEPS: u64 = 1_000_000;

/// The files that a document loads because of its styles.
#[derive(Clone, Debug, Default)]
pub(crate) struct StyleResources {
    /// Images in tree order, without repetition.
    pub(crate) images: Vec<Url>,
    /// Fonts in tree order, without repetition.
    pub(crate) fonts: Vec<Url>,
    /// Omissions because of [`PageLimits`].
    pub(crate) limits: LimitCounts,
}

/// Precedence of a declaration; greater wins. In order: important, inline, layer, specificity,
/// position of the rule.
type Rank = (bool, bool, bool, [u16; 3], usize);

/// A declaration that wins so far.
type WinningDeclaration<'a> = (Rank, &'a Declaration);

/// The winning declarations of a document.
#[derive(Default)]
struct Cascade<'a> {
    /// By box, for the boxes with any declaration.
    boxes: HashMap<(NodeIndex, StyledBox), BTreeMap<&'a Property, WinningDeclaration<'a>>>,
    /// Custom properties, by name.
    variables: HashMap<&'a str, WinningDeclaration<'a>>,
}

/// Applies `rules` in cascade order to a document, and returns the files that its displayed boxes
/// load.
pub(crate) fn style(
    tree: &DomTree,
    rules: &[&Rule],
    faces: &[&Face],
    base: &Url,
    limits: &PageLimits,
) -> StyleResources {
    tree.allow(limits.matches_max);
    let inline: Vec<(NodeIndex, Vec<Declaration>)> = tree
        .in_order()
        .into_iter()
        .filter_map(|place| {
            Some((place, css_value::parse_declarations(tree.node(place).attribute("style")?, base)))
        })
        .collect();
    // Rules come first; declarations of `style` attributes then compete with them by rank.
    let mut cascade = Cascade::default();
    cascade.apply(tree, rules);
    for (place, declarations) in &inline {
        for declaration in declarations {
            let rank = (declaration.is_important, true, true, [0; 3], 0);
            cascade.offer((*place, StyledBox::Element), declaration, rank);
        }
    }
    let mut by_family: HashMap<&str, Vec<&Face>> = HashMap::new();
    for &face in faces {
        by_family.entry(&face.family).or_default().push(face);
    }
    let addresses = cascade.addresses();
    let mut walk = BoxWalk {
        tree,
        cascade: &cascade,
        addresses: &addresses,
        faces: &by_family,
        base,
        seen: HashSet::new(),
        styled: StyleResources::default(),
    };
    walk.run();
    let mut styled = walk.styled;
    if !tree.spend(1) {
        styled.limits.add(PageLimit::Matches);
    }
    styled
}

impl<'a> Cascade<'a> {
    /// Determines the winning declarations among the rules for every element and pseudo-element.
    fn apply(&mut self, tree: &DomTree, rules: &[&'a Rule]) {
        let mut by_handle: HashMap<RuleIndexKey<'a>, Vec<(usize, usize)>> = HashMap::new();
        for (order, rule) in rules.iter().enumerate() {
            for (index, selector) in rule.selectors.iter().enumerate() {
                if selector.part != StyledBox::Other {
                    by_handle.entry(selector.handle()).or_default().push((order, index));
                }
            }
        }
        let mut caches = SelectorCaches::default();
        let mut cached_from = tree.steps_left();
        for place in tree.in_order() {
            if cached_from - tree.steps_left() > CACHED_STEPS {
                caches = SelectorCaches::default();
                cached_from = tree.steps_left();
            }
            let node = tree.node(place);
            // A repeated class is looked up once.
            let classes: BTreeSet<&str> = node.words("class").collect();
            let handles = node
                .attribute("id")
                .map(RuleIndexKey::Id)
                .into_iter()
                .chain(classes.into_iter().map(RuleIndexKey::Class))
                .chain([RuleIndexKey::Type(&node.name), RuleIndexKey::Any]);
            for &(order, index) in handles.filter_map(|handle| by_handle.get(&handle)).flatten() {
                if tree.steps_left() == 0 {
                    return;
                }
                let Some(rule) = rules.get(order) else { continue };
                let Some(selector) = rule.selectors.get(index) else { continue };
                if selector.matches_with(tree, place, &mut caches)
                    && tree.spend(rule.declarations.len() as u64)
                {
                    self.take(rule, (place, selector.part), selector.specificity, order);
                }
            }
        }
    }

    /// Lets the declarations of a rule that matches a box compete.
    fn take(&mut self, rule: &'a Rule, of: (NodeIndex, StyledBox), specificity: [u16; 3], order: usize) {
        for declaration in &rule.declarations {
            // Layers reverse for important declarations: those inside a layer win (CSS Cascade
            // Level 5).
            let is_important = declaration.is_important;
            let rank = (is_important, false, rule.is_layered == is_important, specificity, order);
            self.offer(of, declaration, rank);
        }
    }

    fn offer(&mut self, of: (NodeIndex, StyledBox), declaration: &'a Declaration, rank: Rank) {
        let offered = (rank, declaration);
        let best = match &declaration.property {
            Property::Custom(name) => self.variables.entry(name).or_insert(offered),
            property => self.boxes.entry(of).or_default().entry(property).or_insert(offered),
        };
        if best.0 <= rank {
            *best = offered;
        }
    }

    /// The URLs in custom properties that contain a single one: as written, and resolved. A URL in
    /// a custom property is relative to the stylesheet that sets the property.
    fn addresses(&self) -> HashMap<String, &'a Url> {
        let pairs = self.variables.values().filter_map(|(_, declaration)| {
            let [url] = declaration.urls.as_slice() else { return None };
            Some((css_value::urls(&declaration.value).pop()?, url))
        });
        pairs.collect()
    }
}

/// Properties whose images a box loads.
const PICTURES: [Property; 6] = [
    Property::Background,
    Property::BorderImage,
    Property::ListStyle,
    Property::Mask,
    Property::Shape,
    Property::Cursor,
];

/// The inherited font properties of a box that decide which font file is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Font {
    families: Rc<str>,
    weight: u16,
    is_italic: bool,
}

/// Walks over the displayed boxes and collects their files.
struct BoxWalk<'a, 'b> {
    tree: &'a DomTree,
    cascade: &'b Cascade<'a>,
    addresses: &'b HashMap<String, &'a Url>,
    faces: &'b HashMap<&'a str, Vec<&'a Face>>,
    base: &'b Url,
    seen: HashSet<Url>,
    styled: StyleResources,
}

impl<'a> BoxWalk<'a, '_> {
    fn run(&mut self) {
        let root = Font { families: "".into(), weight: 400, is_italic: false };
        let children = |place: NodeIndex| self.tree.node(place).children.iter().rev().copied();
        let mut waiting: Vec<(NodeIndex, Font)> =
            children(DOCUMENT).map(|place| (place, root.clone())).collect();
        while let Some((place, inherited)) = waiting.pop() {
            if self.tree.steps_left() == 0 {
                return;
            }
            let tree = self.tree;
            if let Some(font) = self.visit(place, &inherited) {
                waiting.extend(tree.node(place).children.iter().rev().map(|&child| (child, font.clone())));
            }
        }
    }

    /// Collects the files of an element and its `::before` and `::after` boxes. Returns the
    /// element's font, or `None` if it is not displayed.
    fn visit(&mut self, place: NodeIndex, inherited: &Font) -> Option<Font> {
        let node = self.tree.node(place);
        if !self.is_shown(place) {
            return None;
        }
        let mut font = default_font(&node.name, inherited);
        self.take_box(place, StyledBox::Element, inherited, &mut font);
        let has_text = !node.text.trim().is_empty() && !matches!(node.name.as_str(), "script" | "style");
        let shown_value = node.attribute("value").or_else(|| node.attribute("placeholder"));
        if has_text {
            self.take_fonts(&font, &node.text);
        } else if node.name == "input"
            && let Some(value) = shown_value
        {
            self.take_fonts(&font, value);
        }
        for part in [StyledBox::Before, StyledBox::After] {
            let Some(winner) = self.winner(place, part, &Property::Content) else { continue };
            let content = self.resolve(&winner.value);
            if matches!(content.trim(), "" | "none" | "normal") {
                continue;
            }
            let mut own = font.clone();
            if self.take_box(place, part, &font, &mut own) {
                let files = self.files(winner);
                self.take_images(files);
                self.take_fonts(&own, &strings(&content));
            }
        }
        Some(font)
    }

    fn winner(&self, place: NodeIndex, part: StyledBox, property: &Property) -> Option<&'a Declaration> {
        self.cascade.boxes.get(&(place, part))?.get(property).map(|(_, declaration)| *declaration)
    }

    fn is_shown(&self, place: NodeIndex) -> bool {
        let node = self.tree.node(place);
        if let Some(winner) = self.winner(place, StyledBox::Element, &Property::Display) {
            return self.resolve(&winner.value).trim() != "none";
        }
        let is_hidden = node.has("hidden") || (node.name == "input" && node.says("type", "hidden"));
        let is_never = matches!(
            node.name.as_str(),
            "head"
                | "link"
                | "meta"
                | "noscript"
                | "script"
                | "style"
                | "template"
                | "title"
                | "datalist"
                | "area"
        );
        !(is_hidden || is_never || (node.name == "dialog" && !node.has("open")))
    }

    /// Collects the images of a box and applies its font properties to `font`. Returns whether the
    /// box is displayed.
    fn take_box(&mut self, place: NodeIndex, part: StyledBox, inherited: &Font, font: &mut Font) -> bool {
        let display = self.winner(place, part, &Property::Display);
        if display.is_some_and(|display| self.resolve(&display.value).trim() == "none") {
            return false;
        }
        for property in &PICTURES {
            if let Some(winner) = self.winner(place, part, property) {
                let files = self.files(winner);
                self.take_images(files);
            }
        }
        if let Some(winner) = self.winner(place, part, &Property::FontFamily) {
            let value = self.resolve(&winner.value);
            font.families = match value.trim() {
                "inherit" | "unset" => Rc::clone(&inherited.families),
                "initial" => "".into(),
                families => families.into(),
            };
        }
        if let Some(winner) = self.winner(place, part, &Property::FontWeight) {
            font.weight = css_value::weight(&self.resolve(&winner.value)).unwrap_or(inherited.weight);
        }
        if let Some(winner) = self.winner(place, part, &Property::FontStyle) {
            let value = self.resolve(&winner.value).to_ascii_lowercase();
            font.is_italic = match value.trim() {
                "inherit" | "unset" => inherited.is_italic,
                style => style.starts_with("italic") || style.starts_with("oblique"),
            };
        }
        true
    }

    fn take_images(&mut self, files: Vec<Url>) {
        for url in files {
            if self.seen.insert(url.clone()) {
                self.styled.images.push(url);
            }
        }
    }

    /// The files that a declaration names, with custom properties substituted.
    fn files(&self, declaration: &Declaration) -> Vec<Url> {
        if !declaration.value.contains("var(") {
            let is_paid = self.tree.spend(1 + declaration.urls.len() as u64);
            return if is_paid { declaration.urls.clone() } else { Vec::new() };
        }
        let value = self.resolve(&declaration.value);
        let named = css_value::urls(&value);
        let resolve = |address: &String| match self.addresses.get(address.as_str()) {
            Some(url) => Some((*url).clone()),
            None => self.base.join(address).ok().filter(|url| matches!(url.scheme(), "http" | "https")),
        };
        named.iter().filter(|address| !address.starts_with('#')).filter_map(resolve).collect()
    }

    /// A value with each `var()` substituted; empty when no steps are left.
    fn resolve<'v>(&self, value: &'v str) -> Cow<'v, str> {
        if !self.tree.spend(1 + value.len() as u64 / 16) {
            return Cow::Borrowed("");
        }
        if !value.contains("var(") {
            return Cow::Borrowed(value);
        }
        let mut out = String::new();
        self.substitute(value, VARIABLES_DEPTH_MAX, &mut out);
        Cow::Owned(out)
    }

    fn substitute(&self, value: &str, depth: u32, out: &mut String) {
        self.copy(&mut Parser::new(value), depth, out);
    }

    /// Copies the tokens of a value with each `var()` substituted. Recurses at most `depth` deep,
    /// and leaves out deeper ones.
    fn copy(&self, input: &mut Parser<'_>, depth: u32, out: &mut String) {
        loop {
            let start = input.position();
            let Ok(token) = input.next_including_whitespace_and_comments().cloned() else { return };
            let text = input.slice_from(start);
            if out.len() >= RESOLVED_BYTES_MAX || !self.tree.spend(1 + text.len() as u64 / 16) {
                return;
            }
            let (is_variable, close) = match &token {
                Token::Comment(_) => (false, None),
                Token::Function(name) => (name.eq_ignore_ascii_case("var"), Some(')')),
                Token::ParenthesisBlock => (false, Some(')')),
                Token::SquareBracketBlock => (false, Some(']')),
                Token::CurlyBracketBlock => (false, Some('}')),
                _ => (false, None),
            };
            if !is_variable {
                out.push_str(if matches!(token, Token::Comment(_)) { " " } else { text });
            }
            let Some(close) = close else { continue };
            inside(input, |inner| match depth.checked_sub(1) {
                Some(depth) if is_variable => self.variable(inner, depth, out),
                Some(depth) => self.copy(inner, depth, out),
                None => {}
            });
            if !is_variable {
                out.push(close);
            }
        }
    }

    /// Adds the value of the custom property that a `var()` names, or else its fallback.
    fn variable(&self, input: &mut Parser<'_>, depth: u32, out: &mut String) {
        let Ok(name) = input.expect_ident_cloned() else { return };
        let name = name.strip_prefix("--").unwrap_or(&name);
        match self.cascade.variables.get(name) {
            Some((_, declaration)) => self.substitute(&declaration.value, depth, out),
            None if input.expect_comma().is_ok() => self.copy(input, depth, out),
            None => {}
        }
    }

    /// Collects the font files that `text` needs.
    ///
    /// Browsers also load the first available font, because they measure lines with it. It is the
    /// first font that contains the space character (CSS Fonts, "first available font").
    fn take_fonts(&mut self, font: &Font, text: &str) {
        let cost = 1 + (text.len() + font.families.len()) as u64 / 16;
        if self.faces.is_empty() || text.trim().is_empty() || !self.tree.spend(cost) {
            return;
        }
        let families: Vec<String> = split(&font.families, b',').into_iter().map(family_name).collect();
        let characters: BTreeSet<u32> =
            text.chars().filter(|character| !character.is_whitespace()).map(u32::from).collect();
        self.take_faces(&families, font, &BTreeSet::from([u32::from(' ')]));
        self.take_faces(&families, font, &characters);
    }

    /// Collects the font files of the first family with a matching face for any of the characters.
    fn take_faces(&mut self, families: &[String], font: &Font, characters: &BTreeSet<u32>) {
        for name in families {
            let of_family = self.faces.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
            if !self.tree.spend(1 + of_family.len() as u64) || (of_family.is_empty() && is_there(name)) {
                return;
            }
            let best = best_faces(of_family, font).into_iter().filter(|face| self.covers(face, characters));
            let urls: Vec<Url> = best.filter_map(|face| face.url.clone()).collect();
            for url in &urls {
                if self.seen.insert(url.clone()) {
                    self.styled.fonts.push(url.clone());
                }
            }
            if !urls.is_empty() {
                return;
            }
        }
    }

    /// Whether a face has any of the characters.
    fn covers(&self, face: &Face, characters: &BTreeSet<u32>) -> bool {
        let has_any = |&(from, to): &(u32, u32)| from <= to && characters.range(from..=to).next().is_some();
        self.tree.spend(1 + face.ranges.len() as u64)
            && (face.ranges.is_empty() || face.ranges.iter().any(has_any))
    }
}

/// Whether every browser has this generic font family; the search for a font file ends there.
fn is_there(family: &str) -> bool {
    matches!(
        family,
        "serif"
            | "sans-serif"
            | "monospace"
            | "cursive"
            | "fantasy"
            | "system-ui"
            | "ui-serif"
            | "ui-sans-serif"
            | "ui-monospace"
            | "ui-rounded"
            | "math"
            | "emoji"
    )
}

/// The faces of a family with the nearest style and weight (CSS Fonts section 5.2).
fn best_faces<'a>(faces: &[&'a Face], font: &Font) -> Vec<&'a Face> {
    let key = |face: &Face| (face.is_italic != font.is_italic, weight_distance(face.weights, font.weight));
    let best = faces.iter().map(|face| key(face)).min();
    faces.iter().copied().filter(|face| Some(key(face)) == best).collect()
}

/// Distance of a face's weight range from the desired weight: first the rank of the direction in
/// which CSS Fonts searches, then the difference.
fn weight_distance((low, high): (u16, u16), asked: u16) -> (u8, u16) {
    let (low, high) = (low.min(high), low.max(high));
    if (low..=high).contains(&asked) {
        return (0, 0);
    }
    let (nearest, is_lighter) = if high < asked { (high, true) } else { (low, false) };
    let distance = nearest.abs_diff(asked);
    let step = match asked {
        400..=500 if !is_lighter && nearest <= 500 => 1,
        400..=500 => {
            if is_lighter {
                2
            } else {
                3
            }
        }
        _ if (asked < 400) == is_lighter => 1,
        _ => 2,
    };
    (step, distance)
}

/// The font that an element has by the browser's default stylesheet.
fn default_font(name: &str, inherited: &Font) -> Font {
    let mut font = inherited.clone();
    match name {
        "b" | "strong" | "th" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => font.weight = 700,
        "i" | "em" | "cite" | "var" | "dfn" | "address" => font.is_italic = true,
        "code" | "kbd" | "samp" | "pre" | "tt" => font.families = "monospace".into(),
        "button" | "input" | "select" | "textarea" => {
            font = Font { families: "".into(), weight: 400, is_italic: false };
        }
        _ => {}
    }
    font
}

#[cfg(test)]
mod tests {
    use super::style;
    use crate::css::Sheet;
    use crate::dom::DomTree;
    use crate::media::Viewport;
    use resource::{PageLimit, PageLimits};
    use url::Url;

    fn styled(html: &str, css: &str) -> (Vec<String>, Vec<String>) {
        let base = Url::parse("http://h/").unwrap();
        let tree = DomTree::parse(html.as_bytes(), &PageLimits::DEFAULT);
        let sheet = Sheet::parse(css, &base, &Viewport::DEFAULT, &PageLimits::DEFAULT);
        let rules: Vec<_> = sheet.rules.iter().collect();
        let faces: Vec<_> = sheet.faces.iter().collect();
        let styled = style(&tree, &rules, &faces, &base, &PageLimits::DEFAULT);
        let paths = |urls: Vec<Url>| urls.iter().map(|url| url.path().to_owned()).collect();
        (paths(styled.images), paths(styled.fonts))
    }

    fn images(html: &str, css: &str) -> String {
        styled(html, css).0.join(" ")
    }

    fn fonts(html: &str, css: &str) -> String {
        styled(html, css).1.join(" ")
    }

    #[test]
    fn only_winning_declarations_load_files() {
        assert_eq!(
            images("<p class=a>", "p{background:url(1)} .a{background:url(2)} p{background:url(3)}"),
            "/2"
        );
        assert_eq!(images("<p>", "p{background:url(1)!important} p{background:none}"), "/1");
        assert_eq!(images("<p>", "p{background:url(1)} p{background:none}"), "");
        assert_eq!(images("<p style='background:url(4)'>", "p{background:url(1)}"), "/4");
        assert_eq!(images("<p>", "p{background:url(1)} @layer x{p{background:url(2)}}"), "/1");
        assert_eq!(images("<p>", ".b{background:url(1)} p:hover{background:url(2)}"), "");
    }

    #[test]
    fn hidden_elements_load_nothing() {
        let css = "div{background:url(1)} p{background:url(2)}";
        assert_eq!(images("<div hidden><p></div>", css), "");
        assert_eq!(images("<div style='display:none'><p></div>", css), "");
        assert_eq!(images("<div hidden style='display:block'><p></div>", css), "/1 /2");
    }

    #[test]
    fn pseudo_elements_without_content_load_nothing() {
        assert_eq!(images("<p>", "p::before{background:url(1)}"), "");
        assert_eq!(images("<p>", "p::before{background:url(1);content:''}"), "/1");
        assert_eq!(images("<p>", "p:after{content:url(2)}"), "/2");
        assert_eq!(images("<p>", "p:after{content:url(2);display:none}"), "");
    }

    #[test]
    fn custom_properties_are_substituted() {
        assert_eq!(
            images("<p>", ":root{--i:url(1)} p{background:var(--i) no-repeat, var(--j, url(2))}"),
            "/1 /2"
        );
        assert_eq!(images("<p>", ":root{--a:var(--a)} p{background:var(--a)}"), "");
        assert_eq!(
            fonts(
                "<p>x",
                "@font-face{font-family:A;src:url(a)} :root{--f:'A', serif} p{font-family:var(--f)}"
            ),
            "/a"
        );
    }

    #[test]
    fn fonts_are_loaded_only_for_text_that_uses_them() {
        let faces = "@font-face{font-family:A;src:url(a)} @font-face{font-family:A;font-weight:700;src:url(ab)} \
                     @font-face{font-family:B;src:url(b);unicode-range:U+400-4FF} ";
        let fonts = |html: &str, css: &str| fonts(html, &format!("{faces}{css}"));
        assert_eq!(fonts("<p>x", "p{font-family:A}"), "/a");
        assert_eq!(fonts("<p> ", "p{font-family:A}"), "");
        assert_eq!(fonts("<h1><span>x", "body{font-family:A}"), "/ab");
        assert_eq!(fonts("<h1>x", "h1{font:400 1em A}"), "/a");
        assert_eq!(fonts("<p>x", "p{font-family:sans-serif, A}"), "");
        assert_eq!(fonts("<p>x", "p{font-family:Unknown, A}"), "/a");
        assert_eq!(fonts("<p>x", "p{font-family:B, A}"), "/a");
        assert_eq!(fonts("<p>\u{416}", "p{font-family:B, A}"), "/a /b");
        assert_eq!(fonts("<p>\u{416}", "p{font-family:B, serif}"), "/b");
        assert_eq!(fonts("<p>x<code>y", "code{font-family:inherit} p{font-family:A}"), "/a");
        assert_eq!(fonts("<button>x", "body{font-family:A}"), "");
        assert_eq!(fonts("<i>", "i{font-family:A} i::before{content:'\\e900'}"), "/a");
    }

    #[test]
    fn matching_stops_at_the_step_limit() {
        let base = Url::parse("http://h/").unwrap();
        let tree = DomTree::parse("<div>".repeat(400).as_bytes(), &PageLimits::DEFAULT);
        let css = format!("{} {{background:url(x)}}", "div ".repeat(30) + "p div");
        let sheet = Sheet::parse(&css, &base, &Viewport::DEFAULT, &PageLimits::DEFAULT);
        let rules: Vec<_> = sheet.rules.iter().collect();
        let limits = PageLimits { matches_max: 100_000, ..PageLimits::DEFAULT };
        let styled = style(&tree, &rules, &[], &base, &limits);
        assert!(styled.images.is_empty());
        assert_eq!(styled.limits.of(PageLimit::Matches), 0, "the failing part is found at once");
        // The matcher restarts at each ancestor for each `:is()` around.
        let css = ":is(:is(p div) div) div {background:url(x)}";
        let sheet = Sheet::parse(css, &base, &Viewport::DEFAULT, &PageLimits::DEFAULT);
        let rules: Vec<_> = sheet.rules.iter().collect();
        let styled = style(&tree, &rules, &[], &base, &limits);
        assert_eq!(styled.limits.of(PageLimit::Matches), 1);
    }

    /// Number of times that the step limit was reached. Panics if files were found nonetheless.
    fn overruns(html: &str, css: &str) -> u64 {
        let base = Url::parse("http://h/").unwrap();
        let tree = DomTree::parse(html.as_bytes(), &PageLimits::DEFAULT);
        let limits = PageLimits { matches_max: 100_000, ..PageLimits::DEFAULT };
        let sheet = Sheet::parse(css, &base, &Viewport::DEFAULT, &limits);
        let rules: Vec<_> = sheet.rules.iter().collect();
        let faces: Vec<_> = sheet.faces.iter().collect();
        let styled = style(&tree, &rules, &faces, &base, &limits);
        assert!(styled.images.is_empty() && styled.fonts.is_empty());
        styled.limits.of(PageLimit::Matches)
    }

    #[test]
    fn work_that_a_page_multiplies_stops_at_the_step_limit() {
        let many = |text: &str, times: usize| text.repeat(times);
        // Rules that are compared with each element.
        assert_eq!(overruns(&many("<br>", 1_000), &many("*{cursor:help}", 1_000)), 1);
        // Words of a class, which each class of a rule is compared with.
        let words = format!("<p class='{}'>", many("b ", 500_000));
        assert_eq!(overruns(&words, &many(".b.c{cursor:url(x)}", 100)), 1);
        // Custom properties that refer to others twice.
        let doubled: String =
            (0..24).map(|number| format!("--a{number}:var(--a{0}) var(--a{0});", number + 1)).collect();
        assert_eq!(overruns("<p>", &format!("p{{{doubled}cursor:var(--a0)}}")), 1);
        // Values that each element reads.
        let long = format!("p{{content:'{}';display:{}}}", many("x", 50_000), many("y", 50_000));
        assert_eq!(overruns(&many("<p>x", 1_000), &long), 1);
        // Ranges of a font, which each text is compared with.
        let ranges = format!("unicode-range:U+1{}", many(",U+1", 10_000));
        let css = format!("@font-face{{font-family:F;src:url(f);{ranges}}} p{{font-family:F}}");
        assert_eq!(overruns(&many("<p>x", 1_000), &css), 1);
    }

    #[test]
    fn repeated_words_of_a_class_are_looked_up_once() {
        let html = format!("<p class='{}c'>", "b ".repeat(1_000));
        assert_eq!(images(&html, ".b.c{cursor:url(1)} .b{background:url(2)}"), "/2 /1");
    }

    #[test]
    fn many_variables_in_one_value_need_little_stack() {
        let html = format!("<div style='display:{}'>", "var()".repeat(50_000));
        let nested = format!("<div style='display:{}'>", "var(--a,".repeat(50_000));
        let parsed = std::thread::Builder::new().stack_size(1024 * 1024).spawn(move || {
            assert_eq!(images(&html, "div{cursor:url(1)}"), "/1");
            assert_eq!(images(&nested, "div{cursor:url(1)}"), "/1");
        });
        parsed.unwrap().join().unwrap();
    }

    #[test]
    fn selector_of_many_siblings_needs_little_stack() {
        let html = "<br>".repeat(2_000);
        let css =
            format!("{} br{{cursor:url(1)}} {} br{{cursor:url(2)}}", "br+".repeat(10_000), "br~".repeat(100));
        let styled = std::thread::Builder::new().stack_size(1024 * 1024).spawn(move || images(&html, &css));
        assert_eq!(styled.unwrap().join().unwrap(), "/2");
    }
}
