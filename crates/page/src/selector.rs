//! Parses selectors (Selectors Level 4) and matches them with elements of a document in its initial
//! state, before any user action.
//!
//! Invariant: pseudo-classes that need a user action (`:hover`, `:focus`) and unknown ones never
//! match. Pseudo-classes that only narrow a match by language or form state are ignored. A rule
//! with an invalid selector is dropped.

use crate::css_text::{identifier, is_name_byte, split, unescape};
use crate::dom::{DOCUMENT, Place, Tree};

/// Most selectors in one list. A longer list is invalid.
const ALTERNATIVES_MAX: usize = 512;
/// How deep `:not()`, `:is()` and `:where()` may nest.
const NESTING_MAX: u32 = 6;

/// The box of an element that a rule styles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// The element itself.
    Element,
    /// `::before`
    Before,
    /// `::after`
    After,
    /// A pseudo-element that loads nothing, such as `::selection`.
    Other,
}

/// One complex selector of a selector list.
#[derive(Clone, Debug)]
pub(crate) struct Selector {
    /// Compound selectors from right to left, starting with the element's own. Each is stored with
    /// its relation to the compound before it in this list.
    compounds: Vec<(Combinator, Vec<Simple>)>,
    /// The box that the selector styles.
    pub(crate) part: Part,
    /// Counts of ids; of classes, attributes and pseudo-classes; of types and pseudo-elements.
    pub(crate) specificity: [u16; 3],
}

/// Relation of an element to the element that the previous compound in the list describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combinator {
    /// The first compound, which describes the element itself.
    Same,
    Descendant,
    Child,
    Next,
    Later,
}

#[derive(Clone, Debug)]
enum Simple {
    Type(String),
    Id(String),
    Class(String),
    Attribute { name: String, test: Test, value: String, ignores_case: bool },
    Not(Vec<Selector>),
    Is(Vec<Selector>),
    Nth { step: i64, offset: i64, from_end: bool, of_type: bool },
    Only,
    Root,
    Link,
    Empty,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Present,
    Equals,
    Word,
    Dash,
    Prefix,
    Suffix,
    Contains,
}

impl Selector {
    /// Parses a comma-separated list of selectors. `None` if any of them is invalid.
    pub(crate) fn parse_list(text: &str) -> Option<Vec<Self>> {
        Self::list(text, 0)
    }

    /// An id, class or type that every matching element has; rules are indexed by it.
    pub(crate) fn handle(&self) -> Handle<'_> {
        let simple = self.compounds.first().map(|(_, simple)| simple.as_slice()).unwrap_or_default();
        let id = simple.iter().find_map(|simple| match simple {
            Simple::Id(id) => Some(Handle::Id(id)),
            _ => None,
        });
        let class = || {
            simple.iter().find_map(|simple| match simple {
                Simple::Class(class) => Some(Handle::Class(class)),
                _ => None,
            })
        };
        let kind = || {
            simple.iter().find_map(|simple| match simple {
                Simple::Type(name) => Some(Handle::Type(name)),
                _ => None,
            })
        };
        id.or_else(class).or_else(kind).unwrap_or(Handle::Any)
    }

    /// Whether the element at `place` matches.
    pub(crate) fn matches(&self, tree: &Tree, place: Place) -> bool {
        self.matches_from(tree, place, 0)
    }

    fn matches_from(&self, tree: &Tree, place: Place, index: usize) -> bool {
        let Some((_, simple)) = self.compounds.get(index) else { return true };
        // Each comparison costs one step, so nested descendant selectors cannot run for long.
        if !tree.spend(1) {
            return false;
        }
        if !simple.iter().all(|simple| simple.matches(tree, place)) {
            return false;
        }
        let Some((combinator, _)) = self.compounds.get(index + 1) else { return true };
        match combinator {
            Combinator::Same => true,
            Combinator::Child => parent(tree, place).is_some_and(|up| self.matches_from(tree, up, index + 1)),
            Combinator::Descendant => ancestors(tree, place).any(|up| self.matches_from(tree, up, index + 1)),
            Combinator::Next => {
                before(tree, place).last().is_some_and(|&left| self.matches_from(tree, left, index + 1))
            }
            Combinator::Later => {
                before(tree, place).iter().rev().any(|&left| self.matches_from(tree, left, index + 1))
            }
        }
    }

    fn list(text: &str, nesting: u32) -> Option<Vec<Self>> {
        if nesting > NESTING_MAX {
            return None;
        }
        let parts = split(text, b',');
        if parts.len() > ALTERNATIVES_MAX {
            return None;
        }
        parts.into_iter().map(|part| Reader { rest: part.trim(), nesting }.selector()).collect()
    }
}

/// The key under which a rule is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Handle<'a> {
    /// An `id`.
    Id(&'a str),
    /// A class.
    Class(&'a str),
    /// An element's type.
    Type(&'a str),
    /// No key: the rule is compared with every element.
    Any,
}

fn parent(tree: &Tree, place: Place) -> Option<Place> {
    tree.node(place).parent.filter(|&up| up != DOCUMENT)
}

fn ancestors(tree: &Tree, place: Place) -> impl Iterator<Item = Place> {
    std::iter::successors(parent(tree, place), |&up| parent(tree, up))
}

fn siblings(tree: &Tree, place: Place) -> &[Place] {
    tree.node(place).parent.map(|up| tree.node(up).children.as_slice()).unwrap_or_default()
}

fn before(tree: &Tree, place: Place) -> &[Place] {
    let all = siblings(tree, place);
    if !tree.spend(all.len() as u64) {
        return &[];
    }
    let at = all.iter().position(|&other| other == place).unwrap_or_default();
    all.get(..at).unwrap_or_default()
}

impl Simple {
    fn matches(&self, tree: &Tree, place: Place) -> bool {
        let node = tree.node(place);
        match self {
            Self::Type(name) => node.name == *name,
            Self::Id(id) => node.attribute("id") == Some(id),
            Self::Class(class) => node.words("class").any(|word| word == class),
            Self::Attribute { name, test, value, ignores_case } => {
                node.attribute(name).is_some_and(|found| test.holds(found, value, *ignores_case))
            }
            Self::Not(selectors) => !selectors.iter().any(|selector| selector.matches(tree, place)),
            Self::Is(selectors) => selectors.iter().any(|selector| selector.matches(tree, place)),
            Self::Nth { step, offset, from_end, of_type } => {
                let count = |other: &&Place| !of_type || tree.node(**other).name == node.name;
                let all = siblings(tree, place);
                if !tree.spend(all.len() as u64) {
                    return false;
                }
                let at = all.iter().position(|&other| other == place).unwrap_or_default();
                let index = if *from_end {
                    all.iter().skip(at).filter(count).count()
                } else {
                    all.iter().take(at + 1).filter(count).count()
                };
                is_nth(i64::try_from(index).unwrap_or(i64::MAX), *step, *offset)
            }
            Self::Only => siblings(tree, place).len() == 1,
            Self::Root => node.parent == Some(DOCUMENT),
            Self::Link => matches!(node.name.as_str(), "a" | "area") && node.has("href"),
            Self::Empty => node.children.is_empty() && node.text.is_empty(),
            Self::Never => false,
        }
    }
}

/// Whether `index` is `step * n + offset` for an integer `n` of at least 0.
fn is_nth(index: i64, step: i64, offset: i64) -> bool {
    let over = index - offset;
    if step == 0 { over == 0 } else { over % step == 0 && over / step >= 0 }
}

impl Test {
    fn holds(self, found: &str, value: &str, ignores_case: bool) -> bool {
        if ignores_case {
            return self.holds(&found.to_ascii_lowercase(), &value.to_ascii_lowercase(), false);
        }
        match self {
            Self::Present => true,
            Self::Equals => found == value,
            Self::Word => !value.is_empty() && found.split_ascii_whitespace().any(|word| word == value),
            Self::Dash => {
                found.strip_prefix(value).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            }
            Self::Prefix => !value.is_empty() && found.starts_with(value),
            Self::Suffix => !value.is_empty() && found.ends_with(value),
            Self::Contains => !value.is_empty() && found.contains(value),
        }
    }
}

/// Parses one complex selector from left to right.
struct Reader<'a> {
    rest: &'a str,
    nesting: u32,
}

impl<'a> Reader<'a> {
    fn selector(&mut self) -> Option<Selector> {
        let mut compounds: Vec<(Combinator, Vec<Simple>)> = Vec::new();
        let mut specificity = [0; 3];
        let mut part = Part::Element;
        let mut combinator = Combinator::Same;
        loop {
            let simple = self.compound(&mut specificity, &mut part)?;
            compounds.push((combinator, simple));
            let blank = self.rest.len();
            self.rest = self.rest.trim_start();
            let had_blank = self.rest.len() < blank;
            combinator = match self.rest.bytes().next() {
                None => break,
                Some(b'>') => Combinator::Child,
                Some(b'+') => Combinator::Next,
                Some(b'~') => Combinator::Later,
                Some(_) if had_blank => Combinator::Descendant,
                Some(_) => return None,
            };
            if combinator != Combinator::Descendant {
                self.rest = self.rest.get(1..)?.trim_start();
            }
            if part != Part::Element {
                return None;
            }
        }
        // The text gives the relation of a compound to its left neighbour. Matching goes from right
        // to left, so each relation moves to the next compound of the reversed list.
        let mut outwards: Vec<_> = compounds.into_iter().rev().collect();
        let relations: Vec<Combinator> = std::iter::once(Combinator::Same)
            .chain(outwards.iter().map(|(combinator, _)| *combinator))
            .collect();
        for ((combinator, _), relation) in outwards.iter_mut().zip(relations) {
            *combinator = relation;
        }
        Some(Selector { compounds: outwards, part, specificity })
    }

    fn compound(&mut self, specificity: &mut [u16; 3], part: &mut Part) -> Option<Vec<Simple>> {
        let mut simple = Vec::new();
        let mut any = false;
        loop {
            let mut weight = 1;
            match self.rest.bytes().next() {
                Some(b'*') => self.rest = self.rest.get(1..)?,
                Some(b'#') => {
                    self.rest = self.rest.get(1..)?;
                    simple.push(Simple::Id(self.name()?));
                    weight = 0;
                    specificity[0] += 1;
                }
                Some(b'.') => {
                    self.rest = self.rest.get(1..)?;
                    simple.push(Simple::Class(self.name()?));
                    weight = 0;
                    specificity[1] += 1;
                }
                Some(b'[') => {
                    simple.push(self.attribute()?);
                    weight = 0;
                    specificity[1] += 1;
                }
                Some(b':') => {
                    weight = 0;
                    self.pseudo(&mut simple, specificity, part)?;
                }
                Some(byte) if is_name_byte(byte) => {
                    simple.push(Simple::Type(self.name()?.to_ascii_lowercase()));
                    weight = 0;
                    specificity[2] += 1;
                }
                _ => break,
            }
            any = true;
            // The `|` of a namespace prefix after `*` is skipped; namespaces are ignored.
            if weight == 1 {
                self.rest = self.rest.strip_prefix('|').unwrap_or(self.rest);
            }
        }
        any.then_some(simple)
    }

    fn name(&mut self) -> Option<String> {
        let (name, rest) = identifier(self.rest);
        self.rest = rest;
        (!name.is_empty()).then_some(name)
    }

    /// Returns the text inside the parentheses or brackets that begin here, and skips them.
    fn inside(&mut self, open: u8, close: u8) -> Option<&'a str> {
        let text = self.rest;
        let (mut depth, mut quote, mut escaped) = (0_u32, None, false);
        for (at, byte) in text.bytes().enumerate() {
            if std::mem::take(&mut escaped) {
                continue;
            }
            match (quote, byte) {
                (_, b'\\') => escaped = true,
                (Some(mark), _) if mark == byte => quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, _) if byte == open => depth += 1,
                (None, _) if byte == close => {
                    depth -= 1;
                    if depth == 0 {
                        self.rest = text.get(at + 1..)?;
                        return text.get(1..at);
                    }
                }
                (None, _) => {}
            }
        }
        None
    }

    fn attribute(&mut self) -> Option<Simple> {
        let inside = self.inside(b'[', b']')?.trim();
        let (name, rest) = identifier(inside);
        let rest = rest.trim_start();
        let name = name.to_ascii_lowercase();
        if name.is_empty() {
            return None;
        }
        if rest.is_empty() {
            return Some(Simple::Attribute {
                name,
                test: Test::Present,
                value: String::new(),
                ignores_case: false,
            });
        }
        let (operator, value) = rest.split_once('=')?;
        let test = match operator {
            "" => Test::Equals,
            "~" => Test::Word,
            "|" => Test::Dash,
            "^" => Test::Prefix,
            "$" => Test::Suffix,
            "*" => Test::Contains,
            _ => return None,
        };
        let value = value.trim();
        let (value, flag) = match value.bytes().next() {
            Some(quote @ (b'"' | b'\'')) => {
                let end = value.get(1..)?.find(char::from(quote))? + 1;
                (unescape(value.get(1..end)?), value.get(end + 1..)?.trim())
            }
            _ => {
                let (word, flag) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
                (unescape(word), flag.trim())
            }
        };
        // HTML compares the values of these attributes without case (only the ones that pages use).
        let ignores_case =
            flag.eq_ignore_ascii_case("i") || matches!(name.as_str(), "type" | "rel" | "media");
        Some(Simple::Attribute { name, test, value, ignores_case })
    }

    fn pseudo(
        &mut self,
        simple: &mut Vec<Simple>,
        specificity: &mut [u16; 3],
        part: &mut Part,
    ) -> Option<()> {
        let is_element = self.rest.starts_with("::");
        self.rest = self.rest.trim_start_matches(':');
        let name = self.name()?.to_ascii_lowercase();
        let argument = if self.rest.starts_with('(') { Some(self.inside(b'(', b')')?) } else { None };
        if is_element || matches!(name.as_str(), "before" | "after" | "first-line" | "first-letter") {
            *part = match name.as_str() {
                "before" => Part::Before,
                "after" => Part::After,
                "first-line" | "first-letter" => Part::Element,
                _ => Part::Other,
            };
            specificity[2] += 1;
            return Some(());
        }
        let found = match (name.as_str(), argument) {
            ("not", Some(argument)) => self.nested(argument, specificity, true).map(Simple::Not)?,
            ("is" | "matches" | "-webkit-any" | "-moz-any", Some(argument)) => {
                self.nested(argument, specificity, true).map(Simple::Is)?
            }
            ("where", Some(argument)) => self.nested(argument, specificity, false).map(Simple::Is)?,
            ("nth-child", Some(argument)) => nth(argument, false, false)?,
            ("nth-last-child", Some(argument)) => nth(argument, true, false)?,
            ("nth-of-type", Some(argument)) => nth(argument, false, true)?,
            ("nth-last-of-type", Some(argument)) => nth(argument, true, true)?,
            ("lang" | "dir", Some(_))
            | ("enabled" | "read-write" | "defined" | "scope" | "optional" | "valid", None) => {
                return Some(());
            }
            (name, None) => plain_pseudo(name),
            _ => Simple::Never,
        };
        if !matches!(name.as_str(), "not" | "is" | "matches" | "where") {
            specificity[1] += 1;
        }
        simple.push(found);
        Some(())
    }

    fn nested(&self, argument: &str, specificity: &mut [u16; 3], counts: bool) -> Option<Vec<Selector>> {
        let selectors = Selector::list(argument, self.nesting + 1)?;
        let most = selectors.iter().map(|selector| selector.specificity).max().unwrap_or_default();
        if counts {
            for (sum, more) in specificity.iter_mut().zip(most) {
                *sum = sum.saturating_add(more);
            }
        }
        Some(selectors)
    }
}

/// Parses a pseudo-class without an argument.
fn plain_pseudo(name: &str) -> Simple {
    let nth = |from_end, of_type| Simple::Nth { step: 0, offset: 1, from_end, of_type };
    let attribute = |name: &str| Simple::Attribute {
        name: name.to_owned(),
        test: Test::Present,
        value: String::new(),
        ignores_case: false,
    };
    match name {
        "root" => Simple::Root,
        "link" | "any-link" => Simple::Link,
        "first-child" => nth(false, false),
        "last-child" => nth(true, false),
        "first-of-type" => nth(false, true),
        "last-of-type" => nth(true, true),
        "only-child" => Simple::Only,
        "empty" => Simple::Empty,
        "checked" => attribute("checked"),
        "disabled" => attribute("disabled"),
        "required" => attribute("required"),
        "open" => attribute("open"),
        // Pseudo-classes that need a user action, and unknown ones.
        _ => Simple::Never,
    }
}

/// Parses the argument of `:nth-child()` and its variants, such as `odd`, `even`, `3` or `2n+1`.
fn nth(argument: &str, from_end: bool, of_type: bool) -> Option<Simple> {
    let text: String = argument.split(" of ").next()?.chars().filter(|c| !c.is_whitespace()).collect();
    let text = text.to_ascii_lowercase();
    let (step, offset) = match text.as_str() {
        "odd" => (2, 1),
        "even" => (2, 0),
        _ => match text.split_once('n') {
            None => (0, text.parse().ok()?),
            Some((step, offset)) => {
                let step = match step {
                    "" | "+" => 1,
                    "-" => -1,
                    number => number.parse().ok()?,
                };
                (step, if offset.is_empty() { 0 } else { offset.parse().ok()? })
            }
        },
    };
    Some(Simple::Nth { step, offset, from_end, of_type })
}

#[cfg(test)]
mod tests {
    use super::{Part, Selector};
    use crate::css_text::{split, unescape};
    use crate::dom::Tree;
    use crate::limits::Limits;

    const PAGE: &str = r#"<body class="home blog"><div id=top><p class=a>1<p>2<span lang=en-GB></span></div>
        <ul><li>x<li data-k="a b">y<li>z</ul><a href=/>l</a><input type=CHECKBOX checked>"#;

    /// The matching elements, each as its name followed by its text.
    fn matched(selector: &str) -> String {
        let tree = Tree::parse(PAGE.as_bytes(), &Limits::DEFAULT);
        let list = Selector::parse_list(selector).unwrap_or_default();
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
            assert!(Selector::parse_list(text).is_none(), "{text}");
        }
    }

    #[test]
    fn specificity_and_pseudo_element_are_parsed() {
        let parse = |text: &str| Selector::parse_list(text).unwrap().remove(0);
        assert_eq!(parse("#a .b[c] d::before").specificity, [1, 2, 2]);
        assert_eq!(parse(":where(#a) b").specificity, [0, 0, 1]);
        assert_eq!(parse(":not(#a, b)").specificity, [1, 0, 0]);
        assert_eq!(parse("a:after").part, Part::After);
        assert_eq!(parse("::selection").part, Part::Other);
    }

    #[test]
    fn escapes_are_decoded_and_nested_separators_kept() {
        assert_eq!(unescape(r"\66 oo\:b\000041z"), "foo:bAz");
        assert_eq!(split("a(1,2),'b,c',d", b','), ["a(1,2)", "'b,c'", "d"]);
        assert_eq!(matched(r".\61"), "p1");
    }
}
