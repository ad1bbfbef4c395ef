//! Parses the CSS values that decide which files are loaded: file names and fonts (CSS Values Level
//! 4, CSS Fonts Level 4, CSS Images Level 4).
//!
//! Invariant: an invalid value names no file. This module does not decide whether a declaration
//! applies.

use crate::css::{scan, without_comments};
use crate::css_text::{split, unescape};
use url::Url;

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

/// The properties that decide what is loaded.
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
    let text = without_comments(text);
    split(&text, b';').into_iter().flat_map(|text| declarations(text, base)).collect()
}

/// Parses one declaration. The result is empty for irrelevant properties; a shorthand gives several
/// declarations.
pub(crate) fn declarations(text: &str, base: &Url) -> Vec<Declaration> {
    let Some((name, value)) = text.split_once(':') else { return Vec::new() };
    let name = name.trim();
    let value = value.trim();
    let (value, is_important) = match value.rsplit_once('!') {
        Some((before, word)) if word.trim().eq_ignore_ascii_case("important") => (before.trim_end(), true),
        _ => (value, false),
    };
    let one = |property| {
        let urls = urls(value).iter().filter_map(|address| loadable(address, base)).collect();
        vec![Declaration { property, value: value.to_owned(), urls, is_important }]
    };
    if let Some(name) = name.strip_prefix("--") {
        return one(Property::Custom(name.to_owned()));
    }
    let name = name.to_ascii_lowercase();
    match name.strip_prefix("-webkit-").unwrap_or(&name) {
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
    }
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
    let mut rest = value;
    while let Some(at) = rest.find(['u', 'U', 'i', 'I']) {
        let text = rest.get(at..).unwrap_or_default();
        if let Some((address, after)) = address(text).filter(|_| begins(text, "url(")) {
            found.push(address);
            rest = after;
        } else if let Some(inside) = function(text, "image-set") {
            found.extend(image_set(inside));
            rest = text.get(inside.len() + "image-set()".len()..).unwrap_or_default();
        } else {
            rest = text.get(1..).unwrap_or_default();
        }
    }
    found
}

fn image_set(inside: &str) -> Option<String> {
    let candidates = split(inside, b',').into_iter().map(str::trim).filter_map(|candidate| {
        let (address, conditions) = address(candidate)?;
        let kind =
            function_within(conditions, "type").map(|kind| kind.trim_matches(['"', '\'', ' '])).unwrap_or("");
        let density = split(conditions, b' ')
            .into_iter()
            .find_map(|word| word.trim_end_matches("dppx").trim_end_matches('x').parse::<f64>().ok());
        crate::srcset::is_supported(kind).then_some((address, density.unwrap_or(1.0)))
    });
    let mut candidates: Vec<(String, f64)> = candidates.collect();
    candidates.sort_by(|a, b| a.1.total_cmp(&b.1));
    let enough = candidates.iter().find(|(_, density)| *density >= 1.0).or_else(|| candidates.last());
    enough.map(|(address, _)| address.clone())
}

fn begins(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
}

/// The text inside the parentheses of the function `name` with which `text` begins.
fn function<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let inside = text.get(name.len()..).filter(|_| begins(text, name))?.strip_prefix('(')?;
    inside.get(..scan(inside, b")"))
}

fn function_within<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.find(name).and_then(|at| function(text.get(at..)?, name))
}

/// The text after the function `name` with which `text` begins.
pub(crate) fn after_function<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let inside = function(text, name)?;
    text.get(name.len() + inside.len() + 2..)
}

/// The URL at the start of `text`, as a string or in `url()`, and the text after it.
pub(crate) fn address(text: &str) -> Option<(String, &str)> {
    let (text, in_function) = match begins(text, "url(") {
        true => (text.get(4..)?.trim_start(), true),
        false => (text, false),
    };
    let (address, rest) = match text.bytes().next()? {
        quote @ (b'"' | b'\'') => {
            let inside = text.get(1..)?;
            let (address, rest) = inside.split_at_checked(unescaped(inside, quote)?)?;
            (address, rest.get(1..)?)
        }
        _ if in_function => {
            let end = unescaped(text, b')').unwrap_or(text.len());
            let (address, rest) = text.split_at_checked(end)?;
            return Some((unescape(address.trim_end()), rest.strip_prefix(')').unwrap_or(rest)));
        }
        _ => return None,
    };
    let rest = if in_function { rest.get(scan(rest, b")") + 1..).unwrap_or_default() } else { rest };
    Some((unescape(address), rest))
}

/// Position of the first `stop` that is not escaped by a backslash.
fn unescaped(text: &str, stop: u8) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let stops = byte == stop && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        stops
    })
}

/// Parses the block of an `@font-face` rule. `None` without a family name.
pub(crate) fn face(block: &str, base: &Url) -> Option<Face> {
    let mut face =
        Face { family: String::new(), weights: (400, 400), is_italic: false, ranges: Vec::new(), url: None };
    for text in split(block, b';') {
        let Some((name, value)) = text.split_once(':') else { continue };
        let value = value.trim();
        match name.trim().to_ascii_lowercase().as_str() {
            "font-family" => face.family = family_name(value),
            "font-weight" => {
                let mut words = value.split_ascii_whitespace().filter_map(weight);
                let first = words.next().unwrap_or(400);
                face.weights = (first, words.next().unwrap_or(first));
            }
            "font-style" => face.is_italic = begins(value, "italic") || begins(value, "oblique"),
            "unicode-range" => face.ranges = value.split(',').filter_map(unicode_range).collect(),
            "src" => face.url = source(value, base),
            _ => {}
        }
    }
    (!face.family.is_empty()).then_some(face)
}

/// The first file of a `src` descriptor in a format that browsers support. `local()` sources are
/// skipped.
fn source(value: &str, base: &Url) -> Option<Url> {
    split(value, b',').into_iter().map(str::trim).find_map(|source| {
        let (address, rest) = address(source).filter(|_| begins(source, "url("))?;
        let format = function_within(rest, "format").unwrap_or("").to_ascii_lowercase();
        let is_read = !["embedded-opentype", "svg"].iter().any(|format_| format.contains(format_));
        is_read.then(|| loadable(&address, base)).flatten()
    })
}

/// A family name in the form used for comparison: unquoted, in lower case, with single spaces.
pub(crate) fn family_name(text: &str) -> String {
    let text = text.trim();
    let inner = text.trim_matches(['"', '\'']);
    let name = unescape(inner).to_lowercase();
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

/// Parses a range of characters such as `U+0025-00FF` or `U+4??`.
fn unicode_range(text: &str) -> Option<(u32, u32)> {
    let text = text.trim();
    let text = text.strip_prefix("U+").or_else(|| text.strip_prefix("u+"))?;
    let number = |digits: &str| u32::from_str_radix(digits, 16).ok();
    match text.split_once('-') {
        Some((from, to)) => Some((number(from)?, number(to)?)),
        None => Some((number(&text.replace('?', "0"))?, number(&text.replace('?', "F"))?)),
    }
}
