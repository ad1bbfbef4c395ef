//! Reads an expression into its tree by recursive descent.
//!
//! Invariant: the depth of the recursion is limited.

use super::condition::Condition;
use super::fault::{FilterError, FilterFault};
use super::field::{FIELDS, FieldRow, hint};
use super::lexer::{Placed, Token, column_of, tokens};
use super::{DEPTH_MAX, FILTER_BYTES_MAX, Node, PATTERNS_MAX};

/// The longest piece of an expression that a message repeats, in characters.
const FOUND_CHARS_MAX: usize = 40;

/// Reads an expression.
pub(super) fn read(text: &str) -> Result<Node, FilterError> {
    if text.len() > FILTER_BYTES_MAX {
        return Err(FilterError { column: 1, fault: FilterFault::TooLong });
    }
    let tokens = tokens(text)?;
    let patterns = tokens.iter().filter(|placed| matches!(placed.token, Token::Operator("~" | "!~")));
    if let Some(beyond) = patterns.clone().nth(PATTERNS_MAX) {
        return Err(FilterError { column: beyond.column, fault: FilterFault::TooManyPatterns });
    }
    let patterns = patterns.count();
    let mut parser = Parser { tokens: &tokens, end: column_of(text, ""), depth: 0, patterns };
    let root = parser.alternatives()?;
    if parser.tokens.is_empty() { Ok(root) } else { Err(parser.expected("`and`, `or` or the end")) }
}

/// The tokens that were not read yet.
struct Parser<'a> {
    tokens: &'a [Placed],
    /// The column after the expression.
    end: usize,
    depth: usize,
    /// Number of regular expressions in the whole expression.
    patterns: usize,
}

impl Parser<'_> {
    /// Parts joined by `or`.
    fn alternatives(&mut self) -> Result<Node, FilterError> {
        let mut parts = vec![self.conjunction()?];
        while self.take_word("or") {
            parts.push(self.conjunction()?);
        }
        Ok(joined(parts, Node::Any))
    }

    /// Parts joined by `and`.
    fn conjunction(&mut self) -> Result<Node, FilterError> {
        let mut parts = vec![self.part()?];
        while self.take_word("and") {
            parts.push(self.part()?);
        }
        Ok(joined(parts, Node::All))
    }

    /// A condition, or a negated or parenthesised part.
    fn part(&mut self) -> Result<Node, FilterError> {
        if self.depth == DEPTH_MAX {
            return Err(self.fault(FilterFault::TooDeep));
        }
        self.depth += 1;
        let part = if self.take_word("not") {
            Node::Not(Box::new(self.part()?))
        } else if self.take(&Token::Open) {
            let inner = self.alternatives()?;
            if !self.take(&Token::Close) {
                return Err(self.expected("`and`, `or` or `)`"));
            }
            inner
        } else {
            Node::Condition(self.condition()?)
        };
        self.depth -= 1;
        Ok(part)
    }

    fn condition(&mut self) -> Result<Condition, FilterError> {
        let Some(Placed { token: Token::Word(name), .. }) = self.tokens.first() else {
            return Err(self.expected("a field, `not` or `(`"));
        };
        let Some(row) = FieldRow::by_name(name) else { return Err(self.fault(unknown_field(name))) };
        self.advance();
        let Some(&Placed { token: Token::Operator(operator), column: at_operator }) = self.tokens.first()
        else {
            return Err(self.expected(&format!("an operator after `{}`: {}", row.name, row.operators())));
        };
        self.advance();
        let Some(Placed { token: Token::Word(value) | Token::Quoted(value), column: at_value }) =
            self.tokens.first()
        else {
            return Err(self.expected("a value: a word, or a text in quotes"));
        };
        let condition = Condition::new(row, operator, value, self.patterns).map_err(|fault| {
            let is_of_operator = matches!(fault, FilterFault::BadOperator { .. });
            FilterError { column: if is_of_operator { at_operator } else { *at_value }, fault }
        })?;
        self.advance();
        Ok(condition)
    }

    fn take(&mut self, wanted: &Token) -> bool {
        let is_next = self.tokens.first().is_some_and(|next| next.token == *wanted);
        if is_next {
            self.advance();
        }
        is_next
    }

    fn take_word(&mut self, wanted: &str) -> bool {
        let is_next =
            matches!(self.tokens.first(), Some(Placed { token: Token::Word(word), .. }) if word == wanted);
        if is_next {
            self.advance();
        }
        is_next
    }

    fn advance(&mut self) {
        self.tokens = self.tokens.get(1..).unwrap_or_default();
    }

    fn fault(&self, fault: FilterFault) -> FilterError {
        FilterError { column: self.tokens.first().map_or(self.end, |next| next.column), fault }
    }

    fn expected(&self, expected: &str) -> FilterError {
        let found = match self.tokens.first().map(|next| &next.token) {
            None => "the end".to_owned(),
            Some(Token::Open) => "`(`".to_owned(),
            Some(Token::Close) => "`)`".to_owned(),
            Some(Token::Operator(operator)) => format!("`{operator}`"),
            Some(Token::Word(text) | Token::Quoted(text)) => {
                format!("`{}`", text.chars().take(FOUND_CHARS_MAX).collect::<String>())
            }
        };
        self.fault(FilterFault::Expected { expected: expected.to_owned(), found })
    }
}

/// The only part, or all parts joined.
fn joined(mut parts: Vec<Node>, join: fn(Vec<Node>) -> Node) -> Node {
    if parts.len() == 1 { parts.swap_remove(0) } else { join(parts) }
}

fn unknown_field(name: &str) -> FilterFault {
    let names = || FIELDS.iter().map(|row| row.name);
    FilterFault::UnknownField {
        name: name.chars().take(FOUND_CHARS_MAX).collect(),
        hint: hint(name, names()),
        known: names().collect::<Vec<_>>().join(", "),
    }
}
