//! Selectors of style rules (Selectors Level 4). The crate `selectors` parses them and matches them
//! with elements of a document in its initial state, before any user action.
//!
//! Invariant: pseudo-classes that need a user action (`:hover`, `:focus`), unknown ones and
//! `:has()` never match. Pseudo-classes that only narrow a match by language or form state are
//! ignored. Parsing and matching recurse only as deep as `CHAIN_MAX` and `NESTING_MAX` allow. Each
//! element that a match looks at costs steps of the tree's budget; without steps nothing matches.

use crate::css_text::{inside, skip};
use crate::dom::{DOCUMENT, DomNode, DomTree, NodeIndex};
use cssparser::{ParseError, Parser, ToCss, Token};
use precomputed_hash::PrecomputedHash;
use selectors::attr::{AttrSelectorOperation, CaseSensitivity, NamespaceConstraint};
use selectors::bloom::BloomFilter;
use selectors::matching::{
    ElementSelectorFlags, MatchingContext, MatchingForInvalidation, MatchingMode, NeedsSelectorFlags,
    QuirksMode, SelectorCaches, matches_selector,
};
use selectors::parser::{
    Component, NonTSPseudoClass, ParseRelative, PseudoElement, SelectorImpl, SelectorList,
    SelectorParseErrorKind,
};
use selectors::{Element, OpaqueElement};
use std::fmt;

/// Tokens of a selector with its parents in place of `&`. A rule with a longer selector is dropped.
const TOKENS_MAX: u64 = 65_536;
/// Tokens on the longest way from the element of a selector to the innermost selector inside it.
const CHAIN_MAX: u64 = 256;
/// How deep functions and brackets of a selector may nest.
const NESTING_MAX: u32 = 16;

/// The box of an element that a rule styles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StyledBox {
    /// The element itself.
    Element,
    /// `::before`
    Before,
    /// `::after`
    After,
    /// A pseudo-element that loads nothing, such as `::selection`.
    Other,
}

/// Why a list of selectors is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectorRefusal {
    /// It is not valid CSS.
    Invalid,
    /// It is beyond `TOKENS_MAX`, `CHAIN_MAX` or `NESTING_MAX`.
    TooLong,
}

/// The selectors of a rule.
#[derive(Debug)]
pub(crate) struct RuleSelectors {
    list: SelectorList<SelectorTypes>,
    /// The size of each selector of the list.
    sizes: Vec<SelectorSize>,
}

/// The size of a selector, or of a list of selectors.
#[derive(Clone, Copy, Debug, Default)]
struct SelectorSize {
    tokens: u64,
    /// Tokens on the longest way to an innermost selector.
    chain: u64,
    /// Number of places for the selectors of the enclosing rule.
    parents: u64,
}

impl SelectorSize {
    fn of(input: &mut Parser<'_>, nesting: u32) -> Option<Self> {
        let mut size = Self::default();
        let mut own = 0;
        let mut innermost = 0;
        while let Ok(token) = input.next().cloned() {
            own += 1;
            size.tokens += 1;
            match token {
                Token::Comma => {
                    size.chain = size.chain.max(own + innermost);
                    own = 0;
                    innermost = 0;
                }
                Token::Delim('&') => size.parents += 1,
                Token::Function(_)
                | Token::ParenthesisBlock
                | Token::SquareBracketBlock
                | Token::CurlyBracketBlock => {
                    let nesting = nesting.checked_sub(1)?;
                    let inner = inside(input, |inner| Self::of(inner, nesting)).flatten()?;
                    innermost = innermost.max(inner.chain);
                    size.tokens += inner.tokens;
                    size.parents += inner.parents;
                }
                _ => {}
            }
        }
        size.chain = size.chain.max(own + innermost);
        Some(size)
    }

    /// The size with the selectors of the enclosing rule in place of each `&`. A selector without
    /// `&` begins with one.
    fn inside(self, parents: &[Self]) -> Self {
        let tokens: u64 = parents.iter().map(|parent| parent.tokens).fold(0, u64::saturating_add);
        let chain = parents.iter().map(|parent| parent.chain).max().unwrap_or_default();
        let all = tokens.saturating_mul(self.parents.max(1));
        Self { tokens: self.tokens.saturating_add(all), chain: self.chain.saturating_add(chain), ..self }
    }
}

impl RuleSelectors {
    /// Parses the prelude of a rule inside a rule with the selectors `parent`.
    pub(crate) fn parse(input: &mut Parser<'_>, parent: Option<&Self>) -> Result<Self, SelectorRefusal> {
        // The parser recurses at each function and bracket, and so does matching. Both are measured
        // before, because no later point can stop a recursion.
        let start = input.state();
        let sizes: Result<Vec<SelectorSize>, ParseError<()>> = input.parse_comma_separated(|one| {
            let size = SelectorSize::of(one, NESTING_MAX)
                .map(|size| parent.map_or(size, |up| size.inside(&up.sizes)));
            let is_short = |size: &SelectorSize| size.tokens <= TOKENS_MAX && size.chain <= CHAIN_MAX;
            size.filter(is_short).ok_or_else(|| ParseError::custom(()))
        });
        let sizes = sizes.map_err(|_| SelectorRefusal::TooLong)?;
        input.reset(&start);
        let relative = if parent.is_some() { ParseRelative::ForNesting } else { ParseRelative::No };
        let list = SelectorList::parse(&Grammar, input, relative).map_err(|_| SelectorRefusal::Invalid)?;
        let list = match parent {
            Some(parent) => list.replace_parent_selector(&parent.list),
            None => list,
        };
        Ok(Self { list, sizes })
    }

    /// The selectors of the list, each by itself.
    pub(crate) fn all(&self) -> Vec<ComplexSelector> {
        self.list
            .slice()
            .iter()
            .zip(&self.sizes)
            .map(|(parsed, size)| ComplexSelector::new(parsed, size))
            .collect()
    }
}

/// One complex selector of a selector list.
#[derive(Clone, Debug)]
pub(crate) struct ComplexSelector {
    parsed: selectors::parser::Selector<SelectorTypes>,
    /// Cost of looking at one element.
    steps: u64,
    /// The box that the selector styles.
    pub(crate) part: StyledBox,
    /// Counts of ids; of classes, attributes and pseudo-classes; of types and pseudo-elements. Each
    /// is at most 1023.
    pub(crate) specificity: [u16; 3],
}

/// The key under which a rule is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RuleIndexKey<'a> {
    /// An `id`.
    Id(&'a str),
    /// A class.
    Class(&'a str),
    /// An element's type.
    Type(&'a str),
    /// No key: the rule is compared with every element.
    Any,
}

impl ComplexSelector {
    fn new(parsed: &selectors::parser::Selector<SelectorTypes>, size: &SelectorSize) -> Self {
        let count = |shift: u32| u16::try_from((parsed.specificity() >> shift) & 0x3ff).unwrap_or(u16::MAX);
        Self {
            // Ordinary selectors cost one step for each element. A long one may visit all its
            // tokens.
            steps: 1 + size.tokens / 64 * 8,
            part: parsed.pseudo_element().copied().unwrap_or(StyledBox::Element),
            specificity: [count(20), count(10), count(0)],
            parsed: parsed.clone(),
        }
    }

    /// An id, class or type that every matching element has; rules are indexed by it.
    pub(crate) fn handle(&self) -> RuleIndexKey<'_> {
        let mut components = self.parsed.iter();
        // A pseudo-element is a separate compound, to the right of its element's compound.
        if self.parsed.has_pseudo_element() {
            components.by_ref().for_each(drop);
            components.next_sequence();
        }
        components.fold(RuleIndexKey::Any, |best, component| match (best, component) {
            (RuleIndexKey::Id(_), _) => best,
            (_, Component::ID(id)) => RuleIndexKey::Id(&id.0),
            (RuleIndexKey::Class(_), _) => best,
            (_, Component::Class(class)) => RuleIndexKey::Class(&class.0),
            (_, Component::LocalName(name)) => RuleIndexKey::Type(&name.lower_name.0),
            _ => best,
        })
    }

    /// Whether the element at `place` matches. `caches` serve one tree and one set of selectors.
    pub(crate) fn matches_with(&self, tree: &DomTree, place: NodeIndex, caches: &mut SelectorCaches) -> bool {
        if !tree.spend(self.steps) {
            return false;
        }
        let mode = if self.parsed.has_pseudo_element() {
            MatchingMode::ForStatelessPseudoElement
        } else {
            MatchingMode::Normal
        };
        let mut context = MatchingContext::new(
            mode,
            None,
            caches,
            QuirksMode::NoQuirks,
            NeedsSelectorFlags::No,
            MatchingForInvalidation::No,
        );
        let element = MatchElement { tree, place, steps: self.steps };
        matches_selector(&self.parsed, 0, None, element, &mut context)
    }
}

/// The types for selectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SelectorTypes;

impl SelectorImpl for SelectorTypes {
    type ExtraMatchingData<'a> = ();
    type AttrValue = SelectorName;
    type Identifier = SelectorName;
    type LocalName = SelectorName;
    type NamespaceUrl = SelectorName;
    type NamespacePrefix = SelectorName;
    type BorrowedNamespaceUrl = SelectorName;
    type BorrowedLocalName = SelectorName;
    type NonTSPseudoClass = PseudoClass;
    type PseudoElement = StyledBox;
}

/// A name or value in a selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SelectorName(Box<str>);

impl From<&str> for SelectorName {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl AsRef<str> for SelectorName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl ToCss for SelectorName {
    fn to_css<W: fmt::Write>(&self, out: &mut W) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl PrecomputedHash for SelectorName {
    /// Only the filters for ancestors and `:has()` use hashes. Neither is used here.
    fn precomputed_hash(&self) -> u32 {
        0
    }
}

impl ToCss for StyledBox {
    fn to_css<W: fmt::Write>(&self, out: &mut W) -> fmt::Result {
        write!(out, "::{self:?}")
    }
}

impl PseudoElement for StyledBox {
    fn accepts_state_pseudo_classes(&self) -> bool {
        true
    }
}

/// A pseudo-class that does not depend on the structure of the tree alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PseudoClass {
    Link,
    /// Matches elements with this attribute.
    Attribute(&'static str),
    Always,
    Never,
}

impl PseudoClass {
    fn named(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "link" | "any-link" => Self::Link,
            "checked" => Self::Attribute("checked"),
            "disabled" => Self::Attribute("disabled"),
            "required" => Self::Attribute("required"),
            "open" => Self::Attribute("open"),
            "enabled" | "read-write" | "defined" | "optional" | "valid" => Self::Always,
            // Pseudo-classes that need a user action, and unknown ones.
            _ => Self::Never,
        }
    }
}

impl ToCss for PseudoClass {
    fn to_css<W: fmt::Write>(&self, out: &mut W) -> fmt::Result {
        write!(out, ":{self:?}")
    }
}

impl NonTSPseudoClass for PseudoClass {
    fn is_active_or_hover(&self) -> bool {
        false
    }

    /// Pseudo-elements accept these alone.
    fn is_user_action_state(&self) -> bool {
        *self == Self::Never
    }
}

/// The selectors that the parser accepts.
struct Grammar;

impl<'i> selectors::Parser<'i> for Grammar {
    type Impl = SelectorTypes;
    type Error = SelectorParseErrorKind;

    fn parse_nth_child_of(&self) -> bool {
        true
    }

    fn parse_is_and_where(&self) -> bool {
        true
    }

    fn parse_parent_selector(&self) -> bool {
        true
    }

    fn is_is_alias(&self, name: &str) -> bool {
        ["matches", "-webkit-any", "-moz-any"].iter().any(|alias| name.eq_ignore_ascii_case(alias))
    }

    fn parse_non_ts_pseudo_class(&self, name: &str) -> Result<PseudoClass, ParseError<Self::Error>> {
        Ok(PseudoClass::named(name))
    }

    fn parse_non_ts_functional_pseudo_class(
        &self,
        name: &str,
        arguments: &mut Parser<'i>,
        _: bool,
    ) -> Result<PseudoClass, ParseError<Self::Error>> {
        skip(arguments);
        let is_ignored = ["lang", "dir"].iter().any(|ignored| name.eq_ignore_ascii_case(ignored));
        Ok(if is_ignored { PseudoClass::Always } else { PseudoClass::Never })
    }

    fn parse_pseudo_element(&self, name: &str) -> Result<StyledBox, ParseError<Self::Error>> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "before" => StyledBox::Before,
            "after" => StyledBox::After,
            "first-line" | "first-letter" => StyledBox::Element,
            _ => StyledBox::Other,
        })
    }

    fn parse_functional_pseudo_element(
        &self,
        _: &str,
        arguments: &mut Parser<'i>,
    ) -> Result<StyledBox, ParseError<Self::Error>> {
        skip(arguments);
        Ok(StyledBox::Other)
    }
}

/// An element that a match looks at.
#[derive(Clone, Copy, Debug)]
struct MatchElement<'a> {
    tree: &'a DomTree,
    place: NodeIndex,
    /// Cost of looking at one element.
    steps: u64,
}

impl<'a> MatchElement<'a> {
    fn node(&self) -> &'a DomNode {
        self.tree.node(self.place)
    }

    /// Goes to another element, if the budget allows it.
    fn at(&self, place: Option<NodeIndex>) -> Option<Self> {
        let place = place?;
        if self.tree.spend(self.steps) { Some(Self { place, ..*self }) } else { None }
    }

    /// The sibling at an index, if the budget allows it.
    fn sibling(&self, index: Option<usize>) -> Option<Self> {
        let parent = self.tree.node(self.node().parent?);
        self.at(index.and_then(|index| parent.children.get(index)).copied())
    }

    /// The value of an attribute, if the budget allows to compare it `times` times.
    fn attribute(&self, name: &str, times: usize) -> Option<&'a str> {
        let value = self.node().attribute(name)?;
        let bytes = (value.len() as u64).saturating_mul(times as u64);
        self.tree.spend(1 + bytes / 32).then_some(value)
    }
}

impl Element for MatchElement<'_> {
    type Impl = SelectorTypes;

    fn opaque(&self) -> OpaqueElement {
        OpaqueElement::new(self.node())
    }

    fn parent_element(&self) -> Option<Self> {
        self.at(self.node().parent.filter(|&up| up != DOCUMENT))
    }

    fn parent_node_is_shadow_root(&self) -> bool {
        false
    }

    fn containing_shadow_host(&self) -> Option<Self> {
        None
    }

    fn is_pseudo_element(&self) -> bool {
        false
    }

    fn prev_sibling_element(&self) -> Option<Self> {
        self.sibling(self.node().index.checked_sub(1))
    }

    fn next_sibling_element(&self) -> Option<Self> {
        self.sibling(self.node().index.checked_add(1))
    }

    fn first_element_child(&self) -> Option<Self> {
        self.at(self.node().children.first().copied())
    }

    /// Names of attributes and types are compared in lower case, also those of other languages.
    fn is_html_element_in_html_document(&self) -> bool {
        true
    }

    fn has_local_name(&self, name: &SelectorName) -> bool {
        *self.node().name == *name.0
    }

    fn has_namespace(&self, _: &SelectorName) -> bool {
        false
    }

    fn is_same_type(&self, other: &Self) -> bool {
        self.node().name == other.node().name
    }

    fn attr_matches(
        &self,
        _: &NamespaceConstraint<&SelectorName>,
        name: &SelectorName,
        operation: &AttrSelectorOperation<&SelectorName>,
    ) -> bool {
        // The search for a part may compare the sought text at each byte.
        let times = match operation {
            AttrSelectorOperation::Exists => 0,
            AttrSelectorOperation::WithValue { value, .. } => 1 + value.0.len() / 4,
        };
        self.attribute(&name.0, times).is_some_and(|value| operation.eval_str(value))
    }

    fn match_non_ts_pseudo_class(
        &self,
        class: &PseudoClass,
        _: &mut MatchingContext<'_, SelectorTypes>,
    ) -> bool {
        match class {
            PseudoClass::Link => self.is_link(),
            PseudoClass::Attribute(name) => self.node().has(name),
            PseudoClass::Always => true,
            PseudoClass::Never => false,
        }
    }

    /// The context skips the pseudo-element at the end of a selector. Elsewhere none is valid.
    fn match_pseudo_element(&self, _: &StyledBox, _: &mut MatchingContext<'_, SelectorTypes>) -> bool {
        false
    }

    fn apply_selector_flags(&self, _: ElementSelectorFlags) {}

    fn is_link(&self) -> bool {
        matches!(self.node().name.as_str(), "a" | "area") && self.node().has("href")
    }

    fn is_html_slot_element(&self) -> bool {
        false
    }

    fn has_id(&self, id: &SelectorName, case: CaseSensitivity) -> bool {
        self.attribute("id", 0).is_some_and(|found| case.eq(found.as_bytes(), id.0.as_bytes()))
    }

    fn has_class(&self, class: &SelectorName, case: CaseSensitivity) -> bool {
        let mut words = self.attribute("class", 1).unwrap_or_default().split_ascii_whitespace();
        words.any(|word| case.eq(word.as_bytes(), class.0.as_bytes()))
    }

    fn has_custom_state(&self, _: &SelectorName) -> bool {
        false
    }

    fn imported_part(&self, _: &SelectorName) -> Option<SelectorName> {
        None
    }

    fn is_part(&self, _: &SelectorName) -> bool {
        false
    }

    fn is_empty(&self) -> bool {
        self.node().children.is_empty() && self.node().text.is_empty()
    }

    fn is_root(&self) -> bool {
        self.node().parent == Some(DOCUMENT)
    }

    fn add_element_unique_hashes(&self, _: &mut BloomFilter) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{ComplexSelector, RuleSelectors, SelectorRefusal, StyledBox};
    use crate::css_text::{split, unescape};
    use crate::dom::{DomTree, NodeIndex};
    use cssparser::Parser;
    use resource::PageLimits;
    use selectors::matching::SelectorCaches;

    impl ComplexSelector {
        fn parse_list(text: &str) -> Option<Vec<Self>> {
            RuleSelectors::parse(&mut Parser::new(text), None).ok().map(|found| found.all())
        }

        fn matches(&self, tree: &DomTree, place: NodeIndex) -> bool {
            self.matches_with(tree, place, &mut SelectorCaches::default())
        }
    }

    fn refusal(text: &str) -> Option<SelectorRefusal> {
        RuleSelectors::parse(&mut Parser::new(text), None).err()
    }

    const PAGE: &str = r#"<body class="home blog"><div id=top><p class=a>1<p>2<span lang=en-GB></span></div>
        <ul><li>x<li data-k="a b">y<li>z</ul><a href=/>l</a><input type=CHECKBOX checked>"#;

    /// The matching elements, each as its name followed by its text.
    fn matched(selector: &str) -> String {
        let tree = DomTree::parse(PAGE.as_bytes(), &PageLimits::DEFAULT);
        let list = ComplexSelector::parse_list(selector).unwrap_or_default();
        let mut found = Vec::new();
        for place in tree.in_order() {
            if list.iter().any(|selector| selector.matches(&tree, place)) {
                let node = tree.node(place);
                found.push(format!("{}{}", node.name, node.text.trim()));
            }
        }
        found.join(" ")
    }

    #[test]
    fn simple_selectors_match_elements_with_their_feature() {
        assert_eq!(matched(".a"), "p1");
        assert_eq!(matched("BODY.home.blog > #top"), "div");
        assert_eq!(matched("[data-k~=b], [lang|=en]"), "span liy");
        assert_eq!(matched("input[type='checkbox']:checked"), "input");
        assert_eq!(matched(".b"), "");
        assert_eq!(matched(":root"), "html");
        assert_eq!(matched("a:link"), "al");
    }

    #[test]
    fn combinators_match_the_related_elements_only() {
        assert_eq!(matched("body p"), "p1 p2");
        assert_eq!(matched("p + p"), "p2");
        assert_eq!(matched("div ~ a"), "al");
        assert_eq!(matched("div > span"), "");
        assert_eq!(matched("div>p>span"), "span");
        assert_eq!(matched("html > p"), "");
    }

    #[test]
    fn pseudo_classes_match_the_initial_state_only() {
        assert_eq!(matched("li:first-child, li:nth-child(2n+3)"), "lix liz");
        assert_eq!(matched("li:nth-last-child(2)"), "liy");
        assert_eq!(matched("li:not(:first-child):not([data-k])"), "liz");
        assert_eq!(matched(":is(p, li):last-of-type"), "p2 liz");
        assert_eq!(matched("a:hover, a:focus-within, a:unheard-of"), "");
        assert_eq!(matched("a:not(:hover)"), "al");
    }

    #[test]
    fn invalid_selector_is_refused() {
        for text in ["", ",", "a >", "a::before b", "a[", "a)b", "p..a"] {
            assert!(ComplexSelector::parse_list(text).is_none(), "{text}");
        }
    }

    #[test]
    fn specificity_and_pseudo_element_are_parsed() {
        let parse = |text: &str| ComplexSelector::parse_list(text).unwrap().remove(0);
        assert_eq!(parse("#a .b[c] d::before").specificity, [1, 2, 2]);
        assert_eq!(parse(":where(#a) b").specificity, [0, 0, 1]);
        assert_eq!(parse(":not(#a, b)").specificity, [1, 0, 0]);
        assert_eq!(parse("a:after").part, StyledBox::After);
        assert_eq!(parse("::selection").part, StyledBox::Other);
    }

    #[test]
    fn escapes_are_decoded_and_nested_separators_kept() {
        assert_eq!(unescape(r"\66 oo\:b\000041z"), "foo:bAz");
        assert_eq!(split("a(1,2),'b,c',d", b','), ["a(1,2)", "'b,c'", "d"]);
        assert_eq!(matched(r".\61"), "p1");
    }

    #[test]
    fn nth_child_at_the_ends_of_the_integer_range_matches_nothing() {
        for number in ["-n-9223372036854775807", "-n-2147483648", "-2147483648n+2147483647", "-1n-2147483647"]
        {
            assert_eq!(matched(&format!("li:nth-child({number})")), "", "{number}");
        }
        assert_eq!(matched("li:nth-child(-n+9223372036854775807)"), "lix liy liz");
    }

    #[test]
    fn specificity_of_many_classes_stays_at_its_maximum() {
        let found = ComplexSelector::parse_list(&".a".repeat(120)).unwrap().remove(0);
        assert_eq!(found.specificity, [0, 120, 0]);
        let many = format!(":is({})", vec![".a".repeat(60); 2].join(","));
        let found = ComplexSelector::parse_list(&many.repeat(40)).unwrap().remove(0);
        assert_eq!(found.specificity, [0, 1023, 0]);
    }

    #[test]
    fn deep_and_long_selectors_are_refused() {
        assert_eq!(refusal(&":is(".repeat(100_000)), Some(SelectorRefusal::TooLong));
        assert_eq!(refusal(&"a:not([".repeat(100_000)), Some(SelectorRefusal::TooLong));
        assert_eq!(refusal(&"a+".repeat(100_000)), Some(SelectorRefusal::TooLong));
        assert_eq!(refusal(&".a".repeat(70_000)), Some(SelectorRefusal::TooLong));
        assert_eq!(refusal(&"a,".repeat(5_000)), Some(SelectorRefusal::Invalid));
    }

    #[test]
    fn type_and_class_of_nth_child_are_respected() {
        assert_eq!(matched("li:nth-child(1 of [data-k])"), "liy");
        assert_eq!(matched(":is(a, !):only-of-type"), "al");
        assert_eq!(matched("p:has(span)"), "");
    }
}
