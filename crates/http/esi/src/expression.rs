//! Expressions of `test`: comparisons of values, joined by `!`, `&`, `|` and parentheses.
//!
//! Comparisons bind first, then `!`, `&` and `|`. Two integers are compared as numbers, other
//! values by their bytes. A comparison with an empty or missing value is false, whatever its
//! operator is. A value alone is true unless it is empty, missing or `false`. Operators may be
//! written with the entities of XML, and `&` and `|` twice.

use crate::attributes::{decoded, decoded_byte};
use crate::program::Span;
use crate::tags::span;
use crate::values::Values;
use crate::variable::{OPEN, Variable, variable};
use std::cmp::Ordering;

/// Largest depth of parentheses, because each takes a part of the parser's stack.
const DEPTH_MAX: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    Literal(Span),
    Variable(Variable),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Value(Operand),
    Compare(Comparison, Operand, Operand),
    Not,
    And,
    Or,
}

/// A parsed expression: its nodes, each behind its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expression(Box<[Node]>);

impl Expression {
    /// Parses the expression at `place`. `None` if it is malformed.
    pub(crate) fn parse(template: &[u8], place: Span) -> Option<Self> {
        let (at, end) = (place.begin as usize, place.end as usize);
        let mut parser = Parser { template, at, end, nodes: Vec::new(), depth: 0 };
        parser.alternatives()?;
        parser.skip_white();
        (parser.at == end).then(|| Self(parser.nodes.into()))
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Whether the expression holds for a request.
    pub(crate) fn is_true(&self, template: &[u8], values: &Values<'_>) -> bool {
        let mut stack: Vec<bool> = Vec::new();
        for node in &self.0 {
            let result = match node {
                Node::Value(operand) => {
                    let value = operand.value(template, values);
                    !value.is_empty() && value != b"false"
                }
                Node::Compare(comparison, left, right) => {
                    comparison.holds(&left.value(template, values), &right.value(template, values))
                }
                Node::Not => !stack.pop().unwrap_or_default(),
                Node::And | Node::Or => {
                    let (right, left) = (stack.pop().unwrap_or_default(), stack.pop().unwrap_or_default());
                    if *node == Node::And { left && right } else { left || right }
                }
            };
            stack.push(result);
        }
        stack.pop().unwrap_or_default()
    }
}

impl Operand {
    fn value(self, template: &[u8], values: &Values<'_>) -> Vec<u8> {
        match self {
            Self::Literal(place) => decoded(place.of(template)),
            Self::Variable(variable) => match values.value(template, variable) {
                Some(value) => value.into_owned(),
                None => variable.default.map_or_else(Vec::new, |place| decoded(place.of(template))),
            },
        }
    }
}

impl Comparison {
    fn holds(self, left: &[u8], right: &[u8]) -> bool {
        if left.is_empty() || right.is_empty() {
            return false;
        }
        let order = match (integer(left), integer(right)) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => left.cmp(right),
        };
        match self {
            Self::Equal => order == Ordering::Equal,
            Self::Unequal => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
        }
    }
}

fn integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

struct Parser<'t> {
    template: &'t [u8],
    at: usize,
    end: usize,
    nodes: Vec<Node>,
    depth: u32,
}

impl Parser<'_> {
    fn rest(&self) -> &[u8] {
        self.template.get(self.at..self.end).unwrap_or_default()
    }

    fn skip_white(&mut self) {
        self.at += self.rest().iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    /// Takes `wanted` if it comes next, whether its characters are written as entities or not.
    fn take(&mut self, wanted: &[u8]) -> bool {
        let mut rest = self.rest();
        let all = rest.len();
        for byte in wanted {
            match decoded_byte(rest) {
                Some((found, bytes)) if found == *byte => rest = rest.get(bytes..).unwrap_or_default(),
                _ => return false,
            }
        }
        self.at += all - rest.len();
        true
    }

    fn alternatives(&mut self) -> Option<()> {
        self.joined(b"|", Node::Or, Self::conjunction)
    }

    fn conjunction(&mut self) -> Option<()> {
        self.joined(b"&", Node::And, Self::negation)
    }

    fn joined(
        &mut self,
        operator: &[u8],
        node: Node,
        operand: impl Fn(&mut Self) -> Option<()>,
    ) -> Option<()> {
        operand(self)?;
        loop {
            self.skip_white();
            if !self.take(operator) {
                return Some(());
            }
            let _ = self.take(operator);
            operand(self)?;
            self.nodes.push(node);
        }
    }

    fn negation(&mut self) -> Option<()> {
        let mut is_negated = false;
        loop {
            self.skip_white();
            if !self.take(b"!") {
                break;
            }
            is_negated = !is_negated;
        }
        self.comparison()?;
        if is_negated {
            self.nodes.push(Node::Not);
        }
        Some(())
    }

    fn comparison(&mut self) -> Option<()> {
        if self.take(b"(") {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return None;
            }
            self.alternatives()?;
            self.skip_white();
            self.depth -= 1;
            return self.take(b")").then_some(());
        }
        let left = self.operand()?;
        self.skip_white();
        let node = match self.operator() {
            Some(comparison) => {
                self.skip_white();
                Node::Compare(comparison, left, self.operand()?)
            }
            None => Node::Value(left),
        };
        self.nodes.push(node);
        Some(())
    }

    fn operator(&mut self) -> Option<Comparison> {
        // Longer operators first.
        let operators: [(&[u8], Comparison); 6] = [
            (b"==", Comparison::Equal),
            (b"!=", Comparison::Unequal),
            (b"<=", Comparison::LessOrEqual),
            (b">=", Comparison::GreaterOrEqual),
            (b"<", Comparison::Less),
            (b">", Comparison::Greater),
        ];
        operators.into_iter().find(|(text, _)| self.take(text)).map(|(_, comparison)| comparison)
    }

    fn operand(&mut self) -> Option<Operand> {
        let rest = self.rest();
        if rest.starts_with(OPEN) {
            let (variable, behind) = variable(self.template, self.at, self.end)?;
            self.at = behind;
            return Some(Operand::Variable(variable));
        }
        let (begin, bytes, behind) = match rest.split_first()? {
            (b'\'', text) => {
                let bytes = text.iter().position(|byte| *byte == b'\'')?;
                (self.at + 1, bytes, self.at + bytes + 2)
            }
            _ => {
                let sign = usize::from(rest.first() == Some(&b'-'));
                let digits = rest.iter().skip(sign).take_while(|byte| byte.is_ascii_digit()).count();
                (digits > 0).then_some((self.at, sign + digits, self.at + sign + digits))?
            }
        };
        self.at = behind;
        Some(Operand::Literal(span(begin, begin + bytes)))
    }
}
