//! Parses the parts of a stylesheet that decide which files are loaded: imports, font faces, and
//! rules that name files or fonts or hide boxes (CSS Syntax Level 3, Cascade, Conditional Rules,
//! Nesting).
//!
//! Invariant: parsing never fails, and its recursion depth is bounded. An invalid rule is dropped,
//! as in browsers. Matching rules with elements is the part of `style`.

use crate::css_text::split;
use crate::css_value::{Declaration, Face, address, after_function, declarations, face};
use crate::limits::{Limit, LimitCounts, Limits};
use crate::media::Viewport;
use crate::selector::Selector;
use url::Url;

/// Nesting depth of blocks; deeper blocks are dropped.
const BLOCKS_MAX: u32 = 16;

/// The relevant content of a stylesheet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sheet {
    /// Imported stylesheets in order, each with a flag: whether its media query matches.
    pub(crate) imports: Vec<(Url, bool)>,
    /// Rules in the order in which they are parsed; a nested rule precedes the rule around it.
    pub(crate) rules: Vec<Rule>,
    /// Font faces in order.
    pub(crate) faces: Vec<Face>,
    /// Omissions because of [`Limits`].
    pub(crate) limits: LimitCounts,
}

/// A rule with at least one relevant declaration.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The selectors of the elements to which the rule applies.
    pub(crate) selectors: Vec<Selector>,
    /// The relevant declarations.
    pub(crate) declarations: Vec<Declaration>,
    /// Whether the rule is in a cascade layer; normal declarations outside layers win over it.
    pub(crate) is_layered: bool,
}

/// State of parsing one stylesheet.
struct Reading<'a> {
    base: &'a Url,
    viewport: &'a Viewport,
    rules_max: usize,
    sheet: Sheet,
    /// Set after the first block, because later imports are invalid.
    imports_are_over: bool,
}

/// The blocks around an item.
#[derive(Clone, Copy)]
struct Within<'a> {
    is_layered: bool,
    /// The selectors of the enclosing rule.
    parent: Option<&'a str>,
    depth: u32,
}

impl Sheet {
    /// Parses a stylesheet that was loaded from `base`, or that is inline in a document with this
    /// base URL.
    pub(crate) fn parse(text: &str, base: &Url, viewport: &Viewport, limits: &Limits) -> Self {
        let text = without_comments(text);
        let sheet = Self::default();
        let mut reading =
            Reading { base, viewport, rules_max: limits.rules_max, sheet, imports_are_over: false };
        reading.rules(&text, Within { is_layered: false, parent: None, depth: 0 });
        reading.sheet
    }
}

impl Reading<'_> {
    fn rules(&mut self, text: &str, within: Within<'_>) {
        let mut rest = text;
        while let Some(item) = Item::next(&mut rest) {
            self.item(&item, within);
        }
    }

    fn item(&mut self, item: &Item<'_>, within: Within<'_>) {
        let prelude = item.prelude.trim().trim_start_matches("<!--").trim_start_matches("-->").trim();
        match (prelude.strip_prefix('@'), item.block) {
            (Some(rule), None) => self.statement(rule),
            (Some(rule), Some(block)) => {
                self.imports_are_over = true;
                self.at_rule(rule, block, within);
            }
            (None, Some(block)) => {
                self.imports_are_over = true;
                self.rule(prelude, block, within);
            }
            (None, None) => {}
        }
    }

    /// Parses an at-rule without a block. Only imports are relevant.
    fn statement(&mut self, rule: &str) {
        let Some((name, rest)) = rule.split_once(|c: char| c.is_whitespace() || c == '"' || c == '\'') else {
            return;
        };
        if name.eq_ignore_ascii_case("layer") || name.eq_ignore_ascii_case("charset") {
            return;
        }
        if !name.eq_ignore_ascii_case("import") || self.imports_are_over {
            return;
        }
        // The quote of the URL may have ended the rule's name, so it is put back.
        let rest = rule.get(rule.len() - rest.len() - 1..).unwrap_or(rest).trim();
        let Some((address, conditions)) = address(rest) else { return };
        let Ok(url) = self.base.join(&address) else { return };
        let media = conditions.trim();
        let media = after_function(media, "layer").unwrap_or(media).trim();
        let media = media.strip_prefix("layer").unwrap_or(media).trim();
        let media = after_function(media, "supports").unwrap_or(media);
        self.sheet.imports.push((url, self.viewport.matches(media)));
    }

    fn at_rule(&mut self, rule: &str, block: &str, within: Within<'_>) {
        let end = rule.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(rule.len());
        let (name, prelude) = rule.split_at_checked(end).unwrap_or((rule, ""));
        let name = name.to_ascii_lowercase();
        let is_layered = within.is_layered || name == "layer";
        let inner = Within { is_layered, depth: within.depth + 1, ..within };
        if inner.depth > BLOCKS_MAX {
            return;
        }
        let applies = match name.as_str() {
            "media" => self.viewport.matches(prelude),
            "supports" => !prelude.trim_start().to_ascii_lowercase().starts_with("not"),
            "layer" | "container" | "scope" => true,
            "font-face" => {
                self.sheet.faces.extend(face(block, self.base));
                false
            }
            _ => false,
        };
        match (applies, within.parent) {
            (false, _) => {}
            (true, None) => self.rules(block, inner),
            // A condition inside a rule contains declarations of that rule.
            (true, Some(parent)) => self.rule(parent, block, Within { parent: None, ..inner }),
        }
    }

    fn rule(&mut self, prelude: &str, block: &str, within: Within<'_>) {
        if within.depth > BLOCKS_MAX {
            return;
        }
        if self.sheet.rules.len() >= self.rules_max {
            if self.sheet.limits.of(Limit::Rules) == 0 {
                self.sheet.limits.add(Limit::Rules);
            }
            return;
        }
        let text = within.parent.map_or_else(|| prelude.to_owned(), |parent| nested(parent, prelude));
        let mut found = Vec::new();
        let mut rest = block;
        while let Some(item) = Item::next(&mut rest) {
            let is_rule = item.block.is_some() && !item.prelude.trim_start().starts_with("--");
            if is_rule {
                // The nested rule is stored before the rule around it, which wins on equal
                // specificity. In CSS Nesting, the later one wins.
                let inner = Within { parent: Some(&text), depth: within.depth + 1, ..within };
                self.item(&item, inner);
            } else if item.block.is_none() {
                found.extend(declarations(item.prelude, self.base));
            }
        }
        if found.is_empty() {
            return;
        }
        if let Some(selectors) = Selector::parse_list(&text) {
            let is_layered = within.is_layered;
            self.sheet.rules.push(Rule { selectors, declarations: found, is_layered });
        }
    }
}

/// The full selector of a nested rule: `&` becomes `:is(parent)`, which is prepended if missing.
fn nested(parent: &str, prelude: &str) -> String {
    let parts = split(prelude, b',').into_iter().map(str::trim).map(|part| {
        if part.contains('&') {
            part.replace('&', &format!(":is({parent})"))
        } else {
            format!(":is({parent}) {part}")
        }
    });
    parts.collect::<Vec<_>>().join(",")
}

/// A statement that ends with a semicolon, or a prelude with its block.
struct Item<'a> {
    prelude: &'a str,
    block: Option<&'a str>,
}

impl<'a> Item<'a> {
    fn next(rest: &mut &'a str) -> Option<Self> {
        let text = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ';' || c == '}');
        if text.is_empty() {
            return None;
        }
        let stop = scan(text, b"{;}");
        let prelude = text.get(..stop).unwrap_or(text);
        let after = text.get(stop..).unwrap_or_default();
        if !after.starts_with('{') {
            *rest = after.get(1..).unwrap_or_default();
            return Some(Self { prelude, block: None });
        }
        let inside = after.get(1..).unwrap_or_default();
        let end = scan_block(inside);
        *rest = inside.get(end + 1..).unwrap_or_default();
        Some(Self { prelude, block: inside.get(..end) })
    }
}

/// Position of the first byte of `stops` outside strings, parentheses and brackets, or the end of
/// `text`.
pub(crate) fn scan(text: &str, stops: &[u8]) -> usize {
    let mut walk = Walk::default();
    text.bytes()
        .position(|byte| {
            let is_outside = walk.parentheses == 0 && walk.quote.is_none() && !walk.is_escaped;
            let stop = is_outside && stops.contains(&byte);
            walk.step(byte);
            stop
        })
        .unwrap_or(text.len())
}

/// Position of the brace that closes the block in which `text` begins, or the end of `text`.
fn scan_block(text: &str) -> usize {
    let mut walk = Walk::default();
    let mut depth = 1_u32;
    text.bytes()
        .position(|byte| {
            if walk.quote.is_none() && !walk.is_escaped {
                match byte {
                    b'{' => depth += 1,
                    b'}' => depth -= 1,
                    _ => {}
                }
                // An unclosed parenthesis ends with its block.
                if matches!(byte, b'{' | b'}') {
                    walk.parentheses = 0;
                }
            }
            walk.step(byte);
            depth == 0
        })
        .unwrap_or(text.len())
}

/// Open strings, parentheses and escapes at a position in the text.
#[derive(Default)]
struct Walk {
    parentheses: u32,
    quote: Option<u8>,
    is_escaped: bool,
}

impl Walk {
    fn step(&mut self, byte: u8) {
        if std::mem::take(&mut self.is_escaped) {
            return;
        }
        match (self.quote, byte) {
            (_, b'\\') => self.is_escaped = true,
            // An unclosed string ends at the end of its line.
            (Some(_), b'\n') => self.quote = None,
            (Some(open), _) if open == byte => self.quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => self.quote = Some(byte),
            (None, b'(' | b'[') => self.parentheses += 1,
            (None, b')' | b']') => self.parentheses = self.parentheses.saturating_sub(1),
            (None, _) => {}
        }
    }
}

/// Replaces comments by spaces. In strings and unquoted URLs, `/*` does not begin a comment.
pub(crate) fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut walk = Walk::default();
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"', '\'', '\\', '(', ')', '\n']) {
        let (before, after) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(before);
        let is_url = walk.parentheses > 0;
        if after.starts_with("/*") && walk.quote.is_none() && !is_url {
            out.push(' ');
            rest = after.get(2..).and_then(|inside| inside.split_once("*/")).map_or("", |(_, rest)| rest);
            continue;
        }
        let take =
            if after.starts_with('\\') { 1 + after.chars().nth(1).map_or(0, char::len_utf8) } else { 1 };
        let (mark, after) = after.split_at_checked(take).unwrap_or((after, ""));
        match mark {
            // Only an unquoted `url()` keeps `/*`; other functions may contain comments.
            "(" if walk.quote.is_none() => {
                walk.parentheses = u32::from(before.len() >= 3 && ends_in_url(before) && !quoted(after));
            }
            ")" if walk.quote.is_none() => walk.parentheses = 0,
            "\"" | "'" | "\n" if walk.parentheses == 0 => mark.bytes().for_each(|byte| walk.step(byte)),
            _ => {}
        }
        out.push_str(mark);
        rest = after;
    }
    out.push_str(rest);
    out
}

fn ends_in_url(text: &str) -> bool {
    text.get(text.len() - 3..).is_some_and(|end| end.eq_ignore_ascii_case("url"))
}

fn quoted(text: &str) -> bool {
    text.trim_start().starts_with(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::Sheet;
    use crate::css_value::{Property, family_name, parse_declarations, urls, weight};
    use crate::limits::{Limit, Limits};
    use crate::media::Viewport;
    use proptest::prelude::*;
    use url::Url;

    fn parse(text: &str) -> Sheet {
        let base = Url::parse("http://h/css/a.css").unwrap();
        Sheet::parse(text, &base, &Viewport::DEFAULT, &Limits::DEFAULT)
    }

    /// The paths of all files that rules name.
    fn files(text: &str) -> Vec<String> {
        let sheet = parse(text);
        let urls = sheet.rules.iter().flat_map(|rule| &rule.declarations).flat_map(|found| &found.urls);
        urls.map(|url| url.path().to_owned()).collect()
    }

    #[test]
    fn imports_after_the_first_rule_are_ignored() {
        let sheet = parse(
            "@charset \"x\"; @layer a; @import url(b.css) screen; @import 'c.css' print;\n@import url(\"d.css\") \
             layer(x) supports(display: grid) (min-width: 1px); a{display:none} @import 'late.css';",
        );
        let found: Vec<_> = sheet.imports.iter().map(|(url, matches)| (url.path(), *matches)).collect();
        assert_eq!(found, [("/css/b.css", true), ("/css/c.css", false), ("/css/d.css", true)]);
    }

    #[test]
    fn files_of_rules_resolve_against_the_stylesheet() {
        assert_eq!(files("a{background:#fff url( 'x.png' ) no-repeat}"), ["/css/x.png"]);
        assert_eq!(files("a{background-image:url(/x.png),url(y\\)z.png)}"), ["/x.png", "/css/y)z.png"]);
        assert_eq!(
            files("a{background:url(data:image/png;base64,AA==)} b{cursor:url(c.cur),auto}"),
            ["/css/c.cur"]
        );
        assert_eq!(files("/* a{background:url(no)} */ b{/**/list-style:url(y)/*;*/}"), ["/css/y"]);
        assert_eq!(files("a{content:'}';background:url(z)}"), ["/css/z"]);
        assert_eq!(files("a{mask-image:url(//i/*x*/m.svg)}"), ["/*x*/m.svg"]);
        assert_eq!(files("a{-webkit-mask:url(m.svg#x)} b{mask:url(#x)}"), ["/css/m.svg"]);
        assert_eq!(files("a{color:red;background:url(unclosed"), ["/css/unclosed"]);
    }

    #[test]
    fn unmatched_conditions_are_dropped_and_nested_rules_kept() {
        assert_eq!(
            files("@media print{a{background:url(p)}} @media (min-width:1px){a{background:url(s)}}"),
            ["/css/s"]
        );
        assert_eq!(
            files("@supports not (x:y){a{background:url(p)}} @supports (x:y){a{background:url(s)}}"),
            ["/css/s"]
        );
        assert_eq!(
            files("@keyframes k{from{background:url(p)}} @page{background:url(q)}"),
            Vec::<String>::new()
        );
        assert_eq!(
            files("a{&:not(.x){background:url(n)} .y{background:url(m)} --v:{a:b}; display:block}"),
            ["/css/n", "/css/m"]
        );
        assert!(parse("@layer x{a{display:none}}").rules[0].is_layered);
        let deep = "@media all{".repeat(5_000);
        assert!(parse(&deep).rules.is_empty());
    }

    #[test]
    fn image_set_gives_one_supported_file() {
        assert_eq!(urls("image-set(url(a.png) 1x, url(b.png) 2x)"), ["a.png"]);
        assert_eq!(urls("-webkit-image-set('a.jxl' type('image/jxl'), \"b.png\" 2x)"), ["b.png"]);
        assert_eq!(urls("linear-gradient(red, blue), URL(x)"), ["x"]);
    }

    #[test]
    fn font_face_descriptors_are_parsed() {
        let sheet = parse(
            "@font-face{font-family:\"DM  Sans\";src:local('x'),url(a.eot) format('embedded-opentype'),\
             url(a.woff2)format(\"woff2\");font-weight:100 900;font-style:italic;unicode-range:U+0-FF,U+4??}",
        );
        let face = &sheet.faces[0];
        assert_eq!((face.family.as_str(), face.weights, face.is_italic), ("dm sans", (100, 900), true));
        assert_eq!(face.ranges, [(0, 0xff), (0x400, 0x4ff)]);
        assert_eq!(face.url.as_ref().unwrap().path(), "/css/a.woff2");
        assert!(parse("@font-face{src:url(a)}").faces.is_empty());
        assert_eq!((family_name("'A b'"), weight("BOLD"), weight("x")), ("a b".to_owned(), Some(700), None));
    }

    #[test]
    fn font_shorthand_gives_family_weight_and_style() {
        let base = Url::parse("http://h/").unwrap();
        let found = parse_declarations("font: italic 700 12px/1.5 'A B', serif !important", &base);
        let values: Vec<_> = found.iter().map(|found| found.value.as_str()).collect();
        assert_eq!(values, ["'A B', serif", "700", "italic"]);
        assert!(found.iter().all(|found| found.is_important));
        assert_eq!(parse_declarations("font:inherit", &base)[0].property, Property::FontFamily);
    }

    #[test]
    fn rules_beyond_the_limit_are_dropped() {
        let base = Url::parse("http://h/").unwrap();
        let limits = Limits { rules_max: 10, ..Limits::DEFAULT };
        let sheet = Sheet::parse(&"a{display:none}".repeat(50), &base, &Viewport::DEFAULT, &limits);
        assert_eq!((sheet.rules.len(), sheet.limits.of(Limit::Rules)), (10, 1));
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "[a-z@{}();:'\"/*\\\\ ,.#&\n-]{0,200}") {
            parse(&text);
        }

        /// A rule is found wherever it is among other complete rules.
        #[test]
        fn rule_is_found_between_other_rules(before in 0_usize..4, after in 0_usize..4) {
            let noise = ["@media print{b{c:d}}", "e{f:'}{'}", "/*{*/", "@font-face{g:url(h)}", "i{j:k;l{m:n}}"];
            let text = format!("{}x{{background:url(z)}}{}", noise[..before].concat(), noise[..after].concat());
            prop_assert_eq!(files(&text), ["/css/z"]);
        }
    }
}
