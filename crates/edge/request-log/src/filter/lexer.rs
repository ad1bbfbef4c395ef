//! Splits an expression into tokens with their columns.

use super::fault::{FilterError, FilterFault};

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Open,
    Close,
    /// `=`, `!=`, `~`, `!~`, `<`, `<=`, `>` or `>=`.
    Operator(&'static str),
    /// A name, a number, `and`, `or` or `not`.
    Word(String),
    /// A text that was in quotes.
    Quoted(String),
}

/// A token and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) token: Token,
    /// In characters, counted from 1.
    pub(super) column: usize,
}

/// Operators and signs, the longer ones first, with the token that each is.
const SIGNS: [(&str, Sign); 14] = [
    ("&&", Sign::Word("and")),
    ("||", Sign::Word("or")),
    ("==", Sign::Operator("=")),
    ("!=", Sign::Operator("!=")),
    ("!~", Sign::Operator("!~")),
    ("<=", Sign::Operator("<=")),
    (">=", Sign::Operator(">=")),
    ("=", Sign::Operator("=")),
    ("~", Sign::Operator("~")),
    ("<", Sign::Operator("<")),
    (">", Sign::Operator(">")),
    ("!", Sign::Word("not")),
    ("(", Sign::Open),
    (")", Sign::Close),
];

#[derive(Clone, Copy)]
enum Sign {
    Word(&'static str),
    Operator(&'static str),
    Open,
    Close,
}

/// The tokens of an expression.
pub(super) fn tokens(text: &str) -> Result<Vec<Placed>, FilterError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let column = column_of(text, rest);
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let (token, length) = if let Some((sign, token)) = sign(rest) {
            (token, sign.len())
        } else if first == '"' || first == '\'' {
            quoted(rest, first).ok_or(FilterError { column, fault: FilterFault::OpenQuote })?
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || "()=!~<>&|\"'".contains(c));
            let word = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            if word.is_empty() {
                let fault = FilterFault::Expected {
                    expected: "a word, an operator or a text in quotes".to_owned(),
                    found: format!("`{first}`"),
                };
                return Err(FilterError { column, fault });
            }
            (Token::Word(word.to_owned()), word.len())
        };
        tokens.push(Placed { token, column });
        rest = rest.get(length..).unwrap_or_default();
    }
}

/// The column at which `rest`, the end of `text`, begins.
pub(super) fn column_of(text: &str, rest: &str) -> usize {
    let begun = text.len() - rest.len();
    text.get(..begun).unwrap_or_default().chars().count() + 1
}

fn sign(rest: &str) -> Option<(&'static str, Token)> {
    let (sign, meaning) = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign))?;
    let token = match *meaning {
        Sign::Word(word) => Token::Word(word.to_owned()),
        Sign::Operator(operator) => Token::Operator(operator),
        Sign::Open => Token::Open,
        Sign::Close => Token::Close,
    };
    Some((sign, token))
}

/// The text in quotes with which `rest` begins, and its length with the quotes.
fn quoted(rest: &str, quote: char) -> Option<(Token, usize)> {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character == quote {
            return Some((Token::Quoted(text), at + quote.len_utf8()));
        }
        let next = characters.peek().map(|(_, next)| *next);
        if character == '\\' && next == Some(quote) {
            text.push(quote);
            characters.next();
        } else if character == '\\' && next == Some('\\') {
            // Both stay, so that the second one does not keep a quote from ending the text.
            text.push_str("\\\\");
            characters.next();
        } else {
            text.push(character);
        }
    }
    None
}
