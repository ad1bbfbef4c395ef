//! Parses the CSS values that decide which files are loaded: file names and fonts (CSS Values Level
//! 4, CSS Fonts Level 4, CSS Images Level 4).
//!
//! Invariant: an invalid value names no file. This module does not decide whether a declaration
//! applies.

use crate::css_text::{inside, members, pairs, rest, split, unescape, value};
use cssparser::{ParseError, Parser, Token, UnicodeRange};
use url::Url;

/// Nesting depth of functions in which files are looked for.
const FUNCTIONS_MAX: u32 = 16;

/// One property with its value.
#[derive(Clone, Debug)]
pub(crate) struct Declaration {
    /// The property.
    pub(crate) property: Property,
    /// Its value as written, without `!important`.
    pub(crate) value: String,
    /// The files it names, as absolute http and https URLs.
    pub(crate) urls: Vec<Url>,
    /// Whether the declaration is `!important`.
    pub(crate) is_important: bool,
}

/// The properties that decide which resources are loaded.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Property {
    /// `background`, `background-image`
    Background,
    /// `border-image`, `border-image-source`
    BorderImage,
    /// `list-style`, `list-style-image`
    ListStyle,
    /// `mask`, `mask-image`, with a prefix or without
    Mask,
    /// `shape-outside`
    Shape,
    /// `cursor`
    Cursor,
    /// `content`
    Content,
    /// `display`
    Display,
    /// `font-family`, or the part of `font`
    FontFamily,
    /// `font-weight`, or the part of `font`
    FontWeight,
    /// `font-style`, or the part of `font`
    FontStyle,
    /// A custom property; the name is without `--`.
    Custom(String),
}

/// A font of an `@font-face` rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Face {
    /// Its family name as [`family_name`] gives it.
    pub(crate) family: String,
    /// The ends of its weight range, 1 to 1000, in any order.
    pub(crate) weights: (u16, u16),
    /// Whether it is italic or oblique.
    pub(crate) is_italic: bool,
    /// Inclusive ranges of the characters it covers; empty means all.
    pub(crate) ranges: Vec<(u32, u32)>,
    /// The first of its files in a format that browsers support.
    pub(crate) url: Option<Url>,
}

/// Parses the declarations of a `style` attribute.
pub(crate) fn parse_declarations(text: &str, base: &Url) -> Vec<Declaration> {
    let mut found = Vec::new();
    pairs(&mut Parser::new(text), |name, value| {
        found.extend(declaration(name, value, base).unwrap_or_default());
    });
    found
}

/// Parses the value of one declaration. The result is empty for irrelevant properties; a shorthand
/// gives several declarations. A block in braces is an error, because it belongs to a nested rule.
pub(crate) fn declaration<'i>(
    name: &str,
    input: &mut Parser<'i>,
    base: &Url,
) -> Result<Vec<Declaration>, ParseError<()>> {
    let custom = name.strip_prefix("--");
    let Some((text, is_important)) = value(input, custom.is_some()) else {
        return Err(ParseError::custom(()));
    };
    let value = text.trim();
    let one = |property| {
        let urls = urls(value).iter().filter_map(|address| loadable(address, base)).collect();
        vec![Declaration { property, value: value.to_owned(), urls, is_important }]
    };
    if let Some(name) = custom {
        return Ok(one(Property::Custom(name.to_owned())));
    }
    let name = name.to_ascii_lowercase();
    Ok(match name.strip_prefix("-webkit-").unwrap_or(&name) {
        "background" | "background-image" => one(Property::Background),
        "border-image" | "border-image-source" => one(Property::BorderImage),
        "list-style" | "list-style-image" => one(Property::ListStyle),
        "mask" | "mask-image" | "mask-box-image" => one(Property::Mask),
        "shape-outside" => one(Property::Shape),
        "cursor" => one(Property::Cursor),
        "content" => one(Property::Content),
        "display" => one(Property::Display),
        "font-family" => one(Property::FontFamily),
        "font-weight" => one(Property::FontWeight),
        "font-style" => one(Property::FontStyle),
        "font" => font_shorthand(value, is_important),
        _ => Vec::new(),
    })
}

/// Splits a `font` shorthand such as `italic bold 12px/1.5 "A", serif` into family, weight and
/// style.
fn font_shorthand(value: &str, is_important: bool) -> Vec<Declaration> {
    let one = |property, value: &str| Declaration {
        property,
        value: value.to_owned(),
        urls: Vec::new(),
        is_important,
    };
    let mut weight = "normal";
    let mut style = "normal";
    let mut words = split(value, b' ').into_iter().filter(|word| !word.is_empty());
    for word in words.by_ref() {
        let lower = word.to_ascii_lowercase();
        let is_weight =
            lower.parse::<u16>().is_ok() || matches!(lower.as_str(), "bold" | "bolder" | "lighter");
        if is_weight {
            weight = word;
        } else if matches!(lower.as_str(), "italic" | "oblique") {
            style = word;
        } else if !matches!(lower.as_str(), "normal" | "small-caps" | "condensed" | "expanded") {
            break;
        }
    }
    let family: Vec<&str> = words.skip_while(|word| word.starts_with('/')).collect();
    if family.is_empty() {
        return vec![one(Property::FontFamily, value)];
    }
    vec![
        one(Property::FontFamily, &family.join(" ")),
        one(Property::FontWeight, weight),
        one(Property::FontStyle, style),
    ]
}

/// Resolves a URL that a browser would load. `None` for `data:` URLs and for fragments of the
/// document.
fn loadable(address: &str, base: &Url) -> Option<Url> {
    let address = address.trim();
    if address.is_empty() || address.starts_with('#') {
        return None;
    }
    base.join(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}

/// The URLs in a value. An `image-set()` contributes the file for one device pixel per CSS pixel.
pub(crate) fn urls(value: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect_urls(&mut Parser::new(value), FUNCTIONS_MAX, &mut found);
    found
}

fn collect_urls(input: &mut Parser<'_>, depth: u32, found: &mut Vec<String>) {
    while let Ok(token) = input.next().cloned() {
        if let Some(address) = address(&token, input) {
            found.push(address);
            continue;
        }
        match token {
            Token::Function(name) if is_image_set(&name) => found.extend(inside(input, image_set).flatten()),
            Token::Function(_)
            | Token::ParenthesisBlock
            | Token::SquareBracketBlock
            | Token::CurlyBracketBlock => {
                if let Some(depth) = depth.checked_sub(1) {
                    inside(input, |inner| collect_urls(inner, depth, found));
                }
            }
            _ => {}
        }
    }
}

fn is_image_set(name: &str) -> bool {
    name.eq_ignore_ascii_case("image-set") || name.eq_ignore_ascii_case("-webkit-image-set")
}

/// The URL that a token is, as `url(x)` or `url("x")`. `input` is at the end of the token.
fn address(token: &Token<'_>, input: &mut Parser<'_>) -> Option<String> {
    match token {
        Token::UnquotedUrl(address) => Some(address.to_string()),
        Token::Function(name) if name.eq_ignore_ascii_case("url") => word(input, false),
        _ => None,
    }
}

/// The string at the beginning of the function that was just entered, or a word if `bare`.
fn word(input: &mut Parser<'_>, bare: bool) -> Option<String> {
    inside(input, |inner| match inner.next() {
        Ok(Token::QuotedString(text)) => Some(text.to_string()),
        Ok(Token::Ident(text)) if bare => Some(text.to_string()),
        _ => None,
    })
    .flatten()
}

fn image_set(input: &mut Parser<'_>) -> Option<String> {
    let mut candidates: Vec<(String, f32)> = members(input, candidate).into_iter().flatten().collect();
    candidates.sort_by(|a, b| a.1.total_cmp(&b.1));
    let enough = candidates.iter().find(|(_, density)| *density >= 1.0).or_else(|| candidates.last());
    enough.map(|(address, _)| address.clone())
}

/// One image of an `image-set()` in a format that browsers support, and its density.
fn candidate(input: &mut Parser<'_>) -> Option<(String, f32)> {
    let mut found = None;
    let mut kind = String::new();
    let mut density = 1.0;
    while let Ok(token) = input.next().cloned() {
        match &token {
            Token::QuotedString(text) => found = Some(text.to_string()),
            Token::Dimension { value, unit, .. } if matches!(&**unit, "x" | "dppx") => density = *value,
            Token::Function(name) if name.eq_ignore_ascii_case("type") => {
                kind = word(input, false).unwrap_or_default();
            }
            _ => found = address(&token, input).or(found),
        }
    }
    if crate::srcset::is_supported(&kind) { found.map(|found| (found, density)) } else { None }
}

/// Parses the block of an `@font-face` rule. `None` without a family name.
pub(crate) fn face(input: &mut Parser<'_>, base: &Url) -> Option<Face> {
    let mut face =
        Face { family: String::new(), weights: (400, 400), is_italic: false, ranges: Vec::new(), url: None };
    pairs(input, |name, value| match name.to_ascii_lowercase().as_str() {
        "font-family" => face.family = family_name(&rest(value)),
        "font-weight" => {
            let text = rest(value);
            let mut words = text.split_ascii_whitespace().filter_map(weight);
            let first = words.next().unwrap_or(400);
            face.weights = (first, words.next().unwrap_or(first));
        }
        "font-style" => {
            let style = rest(value).to_ascii_lowercase();
            face.is_italic = style.starts_with("italic") || style.starts_with("oblique");
        }
        "unicode-range" => {
            let ranges = members(value, |range| UnicodeRange::parse(range).ok());
            face.ranges = ranges.into_iter().flatten().map(|range| (range.start, range.end)).collect();
        }
        "src" => face.url = members(value, |source| font_file(source, base)).into_iter().flatten().next(),
        _ => {}
    });
    (!face.family.is_empty()).then_some(face)
}

/// The file of one source of a font in a format that browsers support. `local()` sources have none.
fn font_file(input: &mut Parser<'_>, base: &Url) -> Option<Url> {
    let mut found = None;
    let mut format = String::new();
    while let Ok(token) = input.next().cloned() {
        match &token {
            Token::Function(name) if name.eq_ignore_ascii_case("format") => {
                format = word(input, true).unwrap_or_default().to_ascii_lowercase();
            }
            _ => found = found.or_else(|| address(&token, input)),
        }
    }
    let is_read = !matches!(format.as_str(), "embedded-opentype" | "svg");
    if is_read { loadable(&found?, base) } else { None }
}

/// A family name in the form used for comparison: unquoted, in lower case, with single spaces.
pub(crate) fn family_name(text: &str) -> String {
    let name = unescape(text.trim()).to_lowercase();
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Parses a weight keyword or number, 1 to 1000. `bolder` counts as 700 and `lighter` as 100.
pub(crate) fn weight(word: &str) -> Option<u16> {
    match word.trim().to_ascii_lowercase().as_str() {
        "normal" => Some(400),
        "bold" | "bolder" => Some(700),
        "lighter" => Some(100),
        number => {
            number.parse::<f32>().ok().filter(|weight| (1.0..=1000.0).contains(weight)).map(|w| w as u16)
        }
    }
}
