//! Determines the files that a document's styles make a browser load (CSS Cascade, CSS Fonts Level
//! 4). These are images for backgrounds, borders, markers, masks, cursors and content of displayed
//! boxes, and the fonts of their text.
//!
//! Invariant: a file is listed only if a winning declaration for a displayed box names it. There is
//! no layout, so positions and sizes are unknown. A custom property has one value in the whole
//! document: the winning declaration among all boxes that set it.

use crate::css::{self, Rule};
use crate::css_value::{self, Declaration, Face, Property, family_name};
use crate::dom::{DOCUMENT, Place, Tree};
use crate::limits::{Limit, LimitCounts, Limits};
use crate::selector::{Handle, Part};
use std::collections::{BTreeMap, HashMap, HashSet};
use url::Url;

/// How deep custom properties may refer to each other.
const VARIABLES_DEPTH_MAX: u32 = 8;

/// The files that a document loads because of its styles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Styled {
    /// Images in tree order, without repetition.
    pub(crate) images: Vec<Url>,
    /// Fonts in tree order, without repetition.
    pub(crate) fonts: Vec<Url>,
    /// Omissions because of [`Limits`].
    pub(crate) limits: LimitCounts,
}

/// Precedence of a declaration; greater wins. In order: important, inline, layer, specificity,
/// position of the rule.
type Rank = (bool, bool, bool, [u16; 3], usize);

/// The winning declarations of one box.
type Winners<'a> = BTreeMap<&'a Property, (Rank, &'a Declaration)>;

/// The boxes to which any declaration applies.
type Boxes<'a> = HashMap<(Place, Part), Winners<'a>>;

/// Applies `rules` in cascade order to a document, and returns the files that its displayed boxes
/// load.
pub(crate) fn style(tree: &Tree, rules: &[&Rule], faces: &[&Face], base: &Url, limits: &Limits) -> Styled {
    tree.allow(limits.matches_max);
    let inline: Vec<(Place, Vec<Declaration>)> = tree
        .in_order()
        .into_iter()
        .filter_map(|place| {
            Some((place, css_value::parse_declarations(tree.node(place).attribute("style")?, base)))
        })
        .collect();
    // Rules come first; declarations of `style` attributes then compete with them by rank.
    let mut boxes = Boxes::new();
    cascade(tree, rules, &mut boxes);
    for (place, declarations) in &inline {
        let winners = boxes.entry((*place, Part::Element)).or_default();
        for declaration in declarations {
            offer(winners, declaration, (declaration.is_important, true, true, [0; 3], 0));
        }
    }
    let variables = variables(&boxes);
    let mut walk = Walk {
        tree,
        boxes: &boxes,
        variables: &variables,
        faces,
        base,
        seen: HashSet::new(),
        styled: Styled::default(),
    };
    walk.run();
    let mut styled = walk.styled;
    if !tree.spend(1) {
        styled.limits.add(Limit::Matches);
    }
    styled
}

/// Determines the winning declarations among the rules for every element and pseudo-element.
fn cascade<'a>(tree: &Tree, rules: &[&'a Rule], boxes: &mut Boxes<'a>) {
    let mut by_handle: HashMap<Handle<'a>, Vec<(usize, usize)>> = HashMap::new();
    for (order, rule) in rules.iter().enumerate() {
        for (index, selector) in rule.selectors.iter().enumerate().filter(|(_, one)| one.part != Part::Other)
        {
            by_handle.entry(selector.handle()).or_default().push((order, index));
        }
    }
    for place in tree.in_order() {
        let node = tree.node(place);
        let id = node.attribute("id").map(Handle::Id);
        let handles = id
            .into_iter()
            .chain(node.words("class").map(Handle::Class))
            .chain([Handle::Type(&node.name), Handle::Any]);
        for &(order, index) in handles.filter_map(|handle| by_handle.get(&handle)).flatten() {
            let Some(rule) = rules.get(order) else { continue };
            let Some(selector) = rule.selectors.get(index).filter(|one| one.matches(tree, place)) else {
                continue;
            };
            let winners = boxes.entry((place, selector.part)).or_default();
            for declaration in &rule.declarations {
                // Layers reverse for important declarations: those inside a layer win (CSS Cascade
                // Level 5).
                let is_important = declaration.is_important;
                let rank =
                    (is_important, false, rule.is_layered == is_important, selector.specificity, order);
                offer(winners, declaration, rank);
            }
        }
    }
}

fn offer<'a>(winners: &mut Winners<'a>, declaration: &'a Declaration, rank: Rank) {
    match winners.get(&declaration.property) {
        Some((best, _)) if *best > rank => {}
        _ => {
            winners.insert(&declaration.property, (rank, declaration));
        }
    }
}

/// The winning declaration of each custom property among all boxes.
fn variables<'a>(boxes: &Boxes<'a>) -> HashMap<&'a str, &'a Declaration> {
    let mut best: HashMap<&str, (Rank, &Declaration)> = HashMap::new();
    for (property, (rank, declaration)) in boxes.values().flatten() {
        let Property::Custom(name) = property else { continue };
        match best.get(name.as_str()) {
            Some((other, _)) if other > rank => {}
            _ => {
                best.insert(name, (*rank, declaration));
            }
        }
    }
    best.into_iter().map(|(name, (_, declaration))| (name, declaration)).collect()
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
    families: String,
    weight: u16,
    is_italic: bool,
}

/// Walks over the displayed boxes and collects their files.
struct Walk<'a, 'b> {
    tree: &'a Tree,
    boxes: &'b Boxes<'a>,
    variables: &'b HashMap<&'a str, &'a Declaration>,
    faces: &'b [&'a Face],
    base: &'b Url,
    seen: HashSet<Url>,
    styled: Styled,
}

impl<'a> Walk<'a, '_> {
    fn run(&mut self) {
        let root = Font { families: String::new(), weight: 400, is_italic: false };
        let children = |place: Place| self.tree.node(place).children.iter().rev().copied();
        let mut waiting: Vec<(Place, Font)> = children(DOCUMENT).map(|place| (place, root.clone())).collect();
        while let Some((place, inherited)) = waiting.pop() {
            let tree = self.tree;
            if let Some(font) = self.visit(place, &inherited) {
                waiting.extend(tree.node(place).children.iter().rev().map(|&child| (child, font.clone())));
            }
        }
    }

    /// Collects the files of an element and its `::before` and `::after` boxes. Returns the
    /// element's font, or `None` if it is not displayed.
    fn visit(&mut self, place: Place, inherited: &Font) -> Option<Font> {
        let node = self.tree.node(place);
        if !self.is_shown(place) {
            return None;
        }
        let mut font = default_font(&node.name, inherited);
        self.take_box(place, Part::Element, inherited, &mut font);
        let has_text = !node.text.trim().is_empty() && !matches!(node.name.as_str(), "script" | "style");
        let shown_value = node.attribute("value").or_else(|| node.attribute("placeholder"));
        if has_text {
            self.take_fonts(&font, &node.text);
        } else if let Some(value) = shown_value.filter(|_| node.name == "input") {
            self.take_fonts(&font, value);
        }
        for part in [Part::Before, Part::After] {
            let Some(winner) = self.winner(place, part, &Property::Content) else { continue };
            let content = self.resolve(&winner.value, 0);
            if matches!(content.trim(), "" | "none" | "normal") {
                continue;
            }
            let mut own = font.clone();
            if self.take_box(place, part, &font, &mut own) {
                let files = self.files(winner);
                self.take_images(files);
                let text: String =
                    content.split(['"', '\'']).skip(1).step_by(2).map(crate::css_text::unescape).collect();
                self.take_fonts(&own, &text);
            }
        }
        Some(font)
    }

    fn winner(&self, place: Place, part: Part, property: &Property) -> Option<&'a Declaration> {
        self.boxes.get(&(place, part))?.get(property).map(|(_, declaration)| *declaration)
    }

    fn is_shown(&self, place: Place) -> bool {
        let node = self.tree.node(place);
        if let Some(winner) = self.winner(place, Part::Element, &Property::Display) {
            return self.resolve(&winner.value, 0).trim() != "none";
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
    fn take_box(&mut self, place: Place, part: Part, inherited: &Font, font: &mut Font) -> bool {
        let display = self.winner(place, part, &Property::Display);
        if display.is_some_and(|display| self.resolve(&display.value, 0).trim() == "none") {
            return false;
        }
        for property in &PICTURES {
            if let Some(winner) = self.winner(place, part, property) {
                let files = self.files(winner);
                self.take_images(files);
            }
        }
        if let Some(winner) = self.winner(place, part, &Property::FontFamily) {
            let value = self.resolve(&winner.value, 0);
            font.families = match value.trim() {
                "inherit" | "unset" => inherited.families.clone(),
                "initial" => String::new(),
                families => families.to_owned(),
            };
        }
        if let Some(winner) = self.winner(place, part, &Property::FontWeight) {
            font.weight = css_value::weight(&self.resolve(&winner.value, 0)).unwrap_or(inherited.weight);
        }
        if let Some(winner) = self.winner(place, part, &Property::FontStyle) {
            let value = self.resolve(&winner.value, 0).to_ascii_lowercase();
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
            return declaration.urls.clone();
        }
        let value = self.resolve(&declaration.value, 0);
        // A URL in a custom property is relative to the stylesheet that sets the property. It was
        // resolved there if it is the property's whole value.
        let known: HashMap<&str, &Url> =
            self.variables.values().flat_map(|variable| css_urls(variable).into_iter()).collect();
        let named = css_value::urls(&value);
        let resolve = |address: &String| match known.get(address.as_str()) {
            Some(url) => Some((*url).clone()),
            None => self.base.join(address).ok().filter(|url| matches!(url.scheme(), "http" | "https")),
        };
        named.iter().filter(|address| !address.starts_with('#')).filter_map(resolve).collect()
    }

    /// Substitutes every `var()` in a value.
    fn resolve(&self, value: &str, depth: u32) -> String {
        let Some(at) = value.find("var(").filter(|_| depth < VARIABLES_DEPTH_MAX) else {
            return value.to_owned();
        };
        if !self.tree.spend(1) {
            return String::new();
        }
        let (before, after) = value.split_at_checked(at).unwrap_or((value, ""));
        let inside_from = after.get(4..).unwrap_or_default();
        let inside = inside_from.get(..css::scan(inside_from, b")")).unwrap_or_default();
        let rest = inside_from.get(inside.len() + 1..).unwrap_or_default();
        let (name, fallback) =
            inside.split_once(',').map_or((inside, None), |(name, other)| (name, Some(other)));
        let name = name.trim().trim_start_matches("--");
        let replacement = match (self.variables.get(name), fallback) {
            (Some(declaration), _) => self.resolve(&declaration.value, depth + 1),
            (None, Some(fallback)) => self.resolve(fallback.trim(), depth + 1),
            (None, None) => String::new(),
        };
        let mut resolved = format!("{before}{replacement}");
        // Cut at 64 KiB, because custom properties can double a value with each reference.
        if resolved.len() < 64 * 1024 {
            resolved.push_str(&self.resolve(rest, depth + u32::from(rest.len() >= value.len())));
        }
        resolved
    }

    /// Collects the font files that `text` needs.
    ///
    /// Browsers also load the first available font, because they measure lines with it. It is the
    /// first font that contains the space character (CSS Fonts, "first available font").
    fn take_fonts(&mut self, font: &Font, text: &str) {
        if self.faces.is_empty() || text.trim().is_empty() {
            return;
        }
        let families: Vec<String> =
            crate::css_text::split(&font.families, b',').into_iter().map(family_name).collect();
        self.take_faces(&families, font, &|face| covers(face, ' '));
        self.take_faces(&families, font, &|face| text.chars().any(|c| !c.is_whitespace() && covers(face, c)));
    }

    /// Collects the font files of the first family with a matching face for which `has_it` is true.
    fn take_faces(&mut self, families: &[String], font: &Font, has_it: &dyn Fn(&Face) -> bool) {
        for name in families {
            let of_family: Vec<&Face> =
                self.faces.iter().copied().filter(|face| face.family == *name).collect();
            if of_family.is_empty() && is_there(name) {
                return;
            }
            let best = best_faces(&of_family, font).into_iter().filter(|face| has_it(face));
            let mut is_found = false;
            for url in best.filter_map(|face| face.url.clone()) {
                is_found = true;
                if self.seen.insert(url.clone()) {
                    self.styled.fonts.push(url);
                }
            }
            if is_found {
                return;
            }
        }
    }
}

/// The URL of a custom property that is a single `url()`: as written, and resolved.
fn css_urls(declaration: &Declaration) -> Vec<(&str, &Url)> {
    let value = declaration.value.trim();
    let inside = value.strip_prefix("url(").and_then(|rest| rest.strip_suffix(')'));
    let address = inside.map(|inside| inside.trim().trim_matches(['"', '\'']));
    address.zip(declaration.urls.first()).into_iter().collect()
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

fn covers(face: &Face, character: char) -> bool {
    let code = u32::from(character);
    face.ranges.is_empty() || face.ranges.iter().any(|&(from, to)| (from..=to).contains(&code))
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
        "code" | "kbd" | "samp" | "pre" | "tt" => font.families = "monospace".to_owned(),
        "button" | "input" | "select" | "textarea" => {
            font = Font { families: String::new(), weight: 400, is_italic: false };
        }
        _ => {}
    }
    font
}

#[cfg(test)]
mod tests {
    use super::style;
    use crate::css::Sheet;
    use crate::dom::Tree;
    use crate::limits::{Limit, Limits};
    use crate::media::Viewport;
    use url::Url;

    fn styled(html: &str, css: &str) -> (Vec<String>, Vec<String>) {
        let base = Url::parse("http://h/").unwrap();
        let tree = Tree::parse(html.as_bytes(), &Limits::DEFAULT);
        let sheet = Sheet::parse(css, &base, &Viewport::DEFAULT, &Limits::DEFAULT);
        let rules: Vec<_> = sheet.rules.iter().collect();
        let faces: Vec<_> = sheet.faces.iter().collect();
        let styled = style(&tree, &rules, &faces, &base, &Limits::DEFAULT);
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
        let tree = Tree::parse("<div>".repeat(400).as_bytes(), &Limits::DEFAULT);
        let css = format!("{} {{background:url(x)}}", "div ".repeat(30) + "p div");
        let sheet = Sheet::parse(&css, &base, &Viewport::DEFAULT, &Limits::DEFAULT);
        let rules: Vec<_> = sheet.rules.iter().collect();
        let limits = Limits { matches_max: 100_000, ..Limits::DEFAULT };
        let styled = style(&tree, &rules, &[], &base, &limits);
        assert!(styled.images.is_empty());
        assert_eq!(styled.limits.of(Limit::Matches), 0, "the failing part is found at once");
        let css = format!("p {} {{background:url(x)}}", "div ".repeat(30));
        let sheet = Sheet::parse(&css, &base, &Viewport::DEFAULT, &Limits::DEFAULT);
        let rules: Vec<_> = sheet.rules.iter().collect();
        let styled = style(&tree, &rules, &[], &base, &limits);
        assert_eq!(styled.limits.of(Limit::Matches), 1);
    }
}
