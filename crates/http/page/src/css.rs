//! Collects the parts of a stylesheet that decide which files are loaded: imports, font faces, and
//! rules that name files or fonts or hide boxes (CSS Syntax Level 3, Cascade, Conditional Rules,
//! Nesting). cssparser reads the text.
//!
//! Invariant: parsing never fails, and its recursion depth is bounded. An invalid rule is dropped,
//! as in browsers. Matching rules with elements is the part of `style`.

use crate::css_text::{rest, skip};
use crate::css_value::{Declaration, Face, declaration, face};
use crate::media::Viewport;
use crate::selector::{ComplexSelector, RuleSelectors, SelectorRefusal};
use cssparser::{
    AtRuleParser, CowRcStr, DeclarationParser, ParseError, Parser, ParserState, QualifiedRuleParser,
    RuleBodyItemParser, RuleBodyParser, StyleSheetParser,
};
use resource::{LimitCounts, PageLimit, PageLimits};
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
    /// Omissions because of [`PageLimits`].
    pub(crate) limits: LimitCounts,
}

/// A rule with at least one relevant declaration.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The selectors of the elements that the rule applies to.
    pub(crate) selectors: Vec<ComplexSelector>,
    /// The relevant declarations.
    pub(crate) declarations: Vec<Declaration>,
    /// Whether the rule is in a cascade layer; normal declarations outside layers win over it.
    pub(crate) is_layered: bool,
}

/// State of parsing one stylesheet.
struct SheetParser<'a> {
    base: &'a Url,
    viewport: &'a Viewport,
    limits: &'a PageLimits,
    sheet: Sheet,
    /// Number of selectors in all rules; at most [`PageLimits::rules_max`].
    selectors: usize,
    /// Set after the first block, because later imports are invalid.
    imports_are_over: bool,
}

/// The blocks around an item.
#[derive(Clone, Copy, Default)]
struct EnclosingBlocks<'a> {
    is_layered: bool,
    /// The selectors of the enclosing rule.
    parent: Option<&'a RuleSelectors>,
    depth: u32,
}

impl Sheet {
    /// Parses a stylesheet that was loaded from `base`, or is inline in a document with this base
    /// URL.
    pub(crate) fn parse(text: &str, base: &Url, viewport: &Viewport, limits: &PageLimits) -> Self {
        let sheet = Self::default();
        let mut reading =
            SheetParser { base, viewport, limits, sheet, selectors: 0, imports_are_over: false };
        let mut input = Parser::new(text.strip_prefix('\u{feff}').unwrap_or(text));
        let mut block =
            BlockParser { reading: &mut reading, within: EnclosingBlocks::default(), found: Vec::new() };
        // The block collects the rules, so the results of the iterator are empty.
        StyleSheetParser::new(&mut input, &mut block).for_each(drop);
        reading.sheet
    }
}

impl SheetParser<'_> {
    /// Parses the rules of a block outside of style rules.
    fn rules(&mut self, input: &mut Parser<'_>, within: EnclosingBlocks<'_>) {
        if within.depth <= BLOCKS_MAX {
            let mut block = BlockParser { reading: self, within, found: Vec::new() };
            RuleBodyParser::new(input, &mut block).for_each(drop);
        }
    }

    /// Parses the declarations and nested rules of a rule with these selectors.
    fn style(&mut self, selectors: &RuleSelectors, input: &mut Parser<'_>, within: EnclosingBlocks<'_>) {
        if within.depth > BLOCKS_MAX {
            return;
        }
        // A nested rule is stored before the rule around it, which wins on equal specificity. In
        // CSS Nesting, the later one wins.
        let within = EnclosingBlocks { parent: Some(selectors), ..within };
        let mut block = BlockParser { reading: self, within, found: Vec::new() };
        RuleBodyParser::new(input, &mut block).for_each(drop);
        let declarations = block.found;
        if declarations.is_empty() {
            return;
        }
        let selectors = selectors.all();
        if self.selectors + selectors.len() > self.limits.rules_max {
            if self.sheet.limits.of(PageLimit::Rules) == 0 {
                self.sheet.limits.add(PageLimit::Rules);
            }
            return;
        }
        self.selectors += selectors.len();
        self.sheet.rules.push(Rule { selectors, declarations, is_layered: within.is_layered });
    }

    /// Parses the prelude of an `@import`: the URL, then an optional layer, then an optional
    /// condition about features, then a media query.
    fn import(&self, input: &mut Parser<'_>) -> AtRuleStart {
        let Ok(address) = input.expect_url_or_string() else { return AtRuleStart::Irrelevant };
        if input.try_parse(|input| input.expect_ident_matching("layer")).is_err() {
            skip_function(input, "layer");
        }
        skip_function(input, "supports");
        let applies = self.viewport.matches(&rest(input));
        self.base.join(&address).map_or(AtRuleStart::Irrelevant, |url| AtRuleStart::Import(url, applies))
    }
}

/// Skips a function of this name if it comes next.
fn skip_function(input: &mut Parser<'_>, name: &str) {
    // Another token stays where it is.
    if input.try_parse(|input| input.expect_function_matching(name)).is_ok() {
        crate::css_text::inside(input, |_| ());
    }
}

/// Parses the items of one block, or of the whole stylesheet.
struct BlockParser<'a, 'b> {
    reading: &'b mut SheetParser<'a>,
    within: EnclosingBlocks<'b>,
    /// The relevant declarations of a style rule.
    found: Vec<Declaration>,
}

/// The beginning of an at-rule, up to its block or semicolon.
enum AtRuleStart {
    Import(Url, bool),
    /// A rule whose block contains rules that apply; the flag says whether they are in a layer.
    Group {
        is_layered: bool,
    },
    FontFace,
    Irrelevant,
}

impl<'i> AtRuleParser<'i> for BlockParser<'_, '_> {
    type Prelude = AtRuleStart;
    type AtRule = ();
    type Error = ();

    fn parse_prelude(
        &mut self,
        name: CowRcStr<'i>,
        input: &mut Parser<'i>,
    ) -> Result<AtRuleStart, ParseError<()>> {
        let group = AtRuleStart::Group { is_layered: self.within.is_layered };
        let rule = match name.to_ascii_lowercase().as_str() {
            "import" => self.reading.import(input),
            "media" if self.reading.viewport.matches(&rest(input)) => group,
            "supports" if !rest(input).to_ascii_lowercase().starts_with("not") => group,
            "layer" => AtRuleStart::Group { is_layered: true },
            "container" | "scope" => group,
            "font-face" => AtRuleStart::FontFace,
            _ => AtRuleStart::Irrelevant,
        };
        skip(input);
        Ok(rule)
    }

    fn rule_without_block(&mut self, rule: AtRuleStart, _: &ParserState) -> Result<(), ()> {
        let AtRuleStart::Import(url, applies) = rule else { return Ok(()) };
        if self.reading.imports_are_over {
            return Err(());
        }
        // More stylesheets than this are never loaded.
        if self.reading.sheet.imports.len() >= self.reading.limits.assets_max {
            self.reading.sheet.limits.add(PageLimit::Assets);
        } else {
            self.reading.sheet.imports.push((url, applies));
        }
        Ok(())
    }

    fn parse_block(
        &mut self,
        rule: AtRuleStart,
        _: &ParserState,
        input: &mut Parser<'i>,
    ) -> Result<(), ParseError<()>> {
        self.reading.imports_are_over = true;
        match rule {
            AtRuleStart::FontFace => self.reading.sheet.faces.extend(face(input, self.reading.base)),
            AtRuleStart::Group { is_layered } => {
                let within = EnclosingBlocks { is_layered, depth: self.within.depth + 1, ..self.within };
                match within.parent {
                    None => self.reading.rules(input, within),
                    // A condition inside a rule contains declarations of that rule.
                    Some(parent) => self.reading.style(parent, input, within),
                }
            }
            AtRuleStart::Import(..) | AtRuleStart::Irrelevant => {}
        }
        Ok(())
    }
}

impl<'i> QualifiedRuleParser<'i> for BlockParser<'_, '_> {
    type Prelude = RuleSelectors;
    type QualifiedRule = ();
    type Error = ();

    fn parse_prelude(&mut self, input: &mut Parser<'i>) -> Result<RuleSelectors, ParseError<()>> {
        self.reading.imports_are_over = true;
        RuleSelectors::parse(input, self.within.parent).map_err(|refusal| {
            if refusal == SelectorRefusal::TooLong {
                self.reading.sheet.limits.add(PageLimit::Rules);
            }
            ParseError::custom(())
        })
    }

    fn parse_block(
        &mut self,
        selectors: RuleSelectors,
        _: &ParserState,
        input: &mut Parser<'i>,
    ) -> Result<(), ParseError<()>> {
        let within = EnclosingBlocks { depth: self.within.depth + 1, ..self.within };
        self.reading.style(&selectors, input, within);
        Ok(())
    }
}

impl<'i> DeclarationParser<'i> for BlockParser<'_, '_> {
    type Declaration = ();
    type Error = ();

    fn parse_value(
        &mut self,
        name: CowRcStr<'i>,
        input: &mut Parser<'i>,
        _: &ParserState,
    ) -> Result<(), ParseError<()>> {
        self.found.extend(declaration(&name, input, self.reading.base)?);
        Ok(())
    }
}

impl RuleBodyItemParser<'_, (), ()> for BlockParser<'_, '_> {
    fn parse_declarations(&self) -> bool {
        self.within.parent.is_some()
    }

    fn parse_qualified(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Sheet;
    use crate::css_value::{Property, family_name, parse_declarations, urls, weight};
    use crate::media::Viewport;
    use proptest::prelude::*;
    use resource::{PageLimit, PageLimits};
    use url::Url;

    fn parse(text: &str) -> Sheet {
        let base = Url::parse("http://h/css/a.css").unwrap();
        Sheet::parse(text, &base, &Viewport::DEFAULT, &PageLimits::DEFAULT)
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
        let limits = PageLimits { rules_max: 10, ..PageLimits::DEFAULT };
        let sheet = Sheet::parse(&"a{display:none}".repeat(50), &base, &Viewport::DEFAULT, &limits);
        assert_eq!((sheet.rules.len(), sheet.limits.of(PageLimit::Rules)), (10, 1));
    }

    #[test]
    fn nested_rules_with_many_parents_are_dropped_and_counted() {
        // Each level repeats the selectors of the level above a hundred times.
        let level = format!("{}{{cursor:url(x);", "&".repeat(100));
        let text = format!("a{{{}{}}} b{{cursor:url(y)}}", level.repeat(16), "}".repeat(16));
        let sheet = parse(&text);
        assert_eq!((sheet.rules.len(), sheet.limits.of(PageLimit::Rules)), (3, 1));
    }

    #[test]
    fn nested_rules_apply_to_the_elements_of_their_parent() {
        assert_eq!(
            parse("a{b{cursor:url(x)} > c,&.d{cursor:url(y)} @media all{cursor:url(z)}}").rules.len(),
            3
        );
        assert_eq!(files("a:hover{b:hover{cursor:url(x)} c:d{cursor:url(y)}}"), ["/css/x", "/css/y"]);
    }

    #[test]
    fn imports_beyond_the_limit_are_counted() {
        let sheet = parse(&"@import 'a.css';".repeat(1_500));
        assert_eq!((sheet.imports.len(), sheet.limits.of(PageLimit::Assets)), (1_000, 500));
    }

    #[test]
    fn deep_blocks_and_brackets_end() {
        for text in [
            "@media all{",
            "a{",
            "a{b(",
            "a{--b:(",
            "a{cursor:url(x) [(",
            "@import url(x) ((",
            "@font-face{src:(",
        ] {
            parse(&text.repeat(20_000));
        }
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
