//! Makes the program of a template from its paired tags.
//!
//! Invariant: an element is checked before an operation of it is emitted, so that nothing is parsed
//! twice. A rejected element becomes one text.

use crate::attributes::{Attribute, attributes};
use crate::expression::Expression;
use crate::program::{FaultKind, Include, Limits, Operation, Program, Span, TemplateError};
use crate::tags::{Element, Tag, TagKind, span, tags};
use crate::variable::{Piece, pieces};
use std::ops::Range;

/// Parses a template; see [`Program::parse`].
pub(crate) fn parse(template: &[u8], limits: &Limits) -> Result<Program, TemplateError> {
    if template.len() > limits.template_bytes_max as usize {
        return Err(TemplateError::TooLong);
    }
    let whole = span(0, template.len());
    let program = Program { operations: Vec::new(), whole, faults: Vec::new(), fault_count: 0 };
    let tags = tags(template);
    let mut parser = Parser { template, tags: &tags, limits, program, includes: 0 };
    let all = Content { place: whole, tags: 0..tags.len(), is_substituted: false };
    parser.content(&all, 0)?;
    parser.program.operations.shrink_to_fit();
    Ok(parser.program)
}

/// Why an element is not carried out.
enum Rejection {
    Fault(FaultKind),
    Limit(TemplateError),
}

impl From<FaultKind> for Rejection {
    fn from(kind: FaultKind) -> Self {
        Self::Fault(kind)
    }
}

impl From<TemplateError> for Rejection {
    fn from(error: TemplateError) -> Self {
        Self::Limit(error)
    }
}

/// A part of the template and the tags in it.
struct Content {
    place: Span,
    tags: Range<usize>,
    /// Whether variables in its text are replaced.
    is_substituted: bool,
}

struct Parser<'t> {
    template: &'t [u8],
    tags: &'t [Tag],
    limits: &'t Limits,
    program: Program,
    includes: usize,
}

impl<'t> Parser<'t> {
    fn content(&mut self, content: &Content, depth: usize) -> Result<(), TemplateError> {
        if depth > self.limits.nesting_max {
            return Err(TemplateError::TooDeep);
        }
        let (mut at, mut number) = (content.place.begin, content.tags.start);
        while number < content.tags.end
            && let Some(tag) = self.tags.get(number)
        {
            self.text(Span::new(at, tag.span.begin), content.is_substituted)?;
            let last = match self.last_tag(number) {
                Ok(last) => last,
                Err(kind) => {
                    self.program.note(kind, tag.span.begin);
                    self.raw(tag.span)?;
                    (at, number) = (tag.span.end, number + 1);
                    continue;
                }
            };
            let whole = Span::new(tag.span.begin, self.tags.get(last).unwrap_or(tag).span.end);
            match self.element(number, last, content.is_substituted, depth) {
                Ok(()) => {}
                Err(Rejection::Fault(kind)) => {
                    self.program.note(kind, tag.span.begin);
                    self.raw(whole)?;
                }
                Err(Rejection::Limit(error)) => return Err(error),
            }
            (at, number) = (whole.end, last + 1);
        }
        self.text(Span::new(at, content.place.end), content.is_substituted)
    }

    /// The number of the tag that ends the element which this tag begins.
    fn last_tag(&self, number: usize) -> Result<usize, FaultKind> {
        match self.tags.get(number).map(|tag| tag.kind) {
            Some(TagKind::Start(_, Some(last))) => Ok(last),
            Some(TagKind::Whole(_)) => Ok(number),
            Some(TagKind::Start(_, None) | TagKind::End(..)) | None => Err(FaultKind::Unpaired),
            Some(TagKind::Unknown) => Err(FaultKind::UnknownElement),
            Some(TagKind::Unfinished) => Err(FaultKind::UnfinishedTag),
        }
    }

    /// The content of the element between two tags, which are the same one for an empty element.
    fn inner(&self, first: usize, last: usize, is_substituted: bool) -> Content {
        let begin = self.tags.get(first).map_or(0, |tag| tag.span.end);
        let end = self.tags.get(last).map_or(begin, |tag| tag.span.begin);
        Content {
            place: Span::new(begin, end.max(begin)),
            tags: first + 1..last.max(first + 1),
            is_substituted,
        }
    }

    fn element(
        &mut self,
        first: usize,
        last: usize,
        is_substituted: bool,
        depth: usize,
    ) -> Result<(), Rejection> {
        let Some(tag) = self.tags.get(first) else { return Ok(()) };
        let element = match tag.kind {
            TagKind::Start(element, _) | TagKind::Whole(element) => element,
            TagKind::End(..) | TagKind::Unknown | TagKind::Unfinished => {
                return Err(FaultKind::Unpaired.into());
            }
        };
        let inner = self.inner(first, last, is_substituted || element == Element::Vars);
        match element {
            Element::Include => {
                self.must_be_empty(&inner)?;
                let include = self.include(tag)?;
                self.includes += 1;
                if self.includes > self.limits.includes_max {
                    return Err(TemplateError::TooManyIncludes.into());
                }
                self.push(Operation::Include(Box::new(include)))?;
            }
            Element::Comment => {
                self.must_be_empty(&inner)?;
                let [text] = self.known(tag, [b"text"])?;
                text.ok_or(FaultKind::MissingAttribute)?;
            }
            Element::Remove => {
                let [] = self.known(tag, [])?;
            }
            Element::Vars => {
                let [] = self.known(tag, [])?;
                self.content(&inner, depth + 1)?;
            }
            Element::Hidden => self.content(&inner, depth + 1)?,
            Element::Choose => self.choose(tag, &inner, depth)?,
            Element::Try => self.attempt(tag, &inner, depth)?,
            Element::Inline => {
                let [name, fetchable] = self.known(tag, [b"name", b"fetchable"])?;
                name.ok_or(FaultKind::MissingAttribute)?;
                match fetchable.map(|value| value.of(self.template)) {
                    None | Some(b"no") => self.content(&inner, depth + 1)?,
                    Some(b"yes") => return Err(FaultKind::InlineRefused.into()),
                    Some(_) => return Err(FaultKind::BadValue.into()),
                }
            }
            Element::When | Element::Otherwise | Element::Attempt | Element::Except => {
                return Err(FaultKind::Misplaced.into());
            }
        }
        Ok(())
    }

    /// The attributes of a tag with these names. Others are noted and ignored.
    fn known<const N: usize>(
        &mut self,
        tag: &Tag,
        names: [&[u8]; N],
    ) -> Result<[Option<Span>; N], FaultKind> {
        let read: Vec<Attribute<'t>> = attributes(self.template, tag.attributes)?;
        if read.iter().any(|(name, _)| !names.contains(name)) {
            self.program.note(FaultKind::UnknownAttribute, tag.span.begin);
        }
        Ok(names.map(|wanted| read.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value)))
    }

    fn must_be_empty(&self, inner: &Content) -> Result<(), FaultKind> {
        let is_empty = inner.tags.is_empty() && self.is_white(inner.place);
        if is_empty { Ok(()) } else { Err(FaultKind::UnexpectedContent) }
    }

    fn is_white(&self, place: Span) -> bool {
        place.of(self.template).iter().all(u8::is_ascii_whitespace)
    }

    fn include(&mut self, tag: &Tag) -> Result<Include, FaultKind> {
        let [src, alt, onerror, maxwait] = self.known(tag, [b"src", b"alt", b"onerror", b"maxwait"])?;
        let src = src.filter(|src| !self.is_white(*src)).ok_or(FaultKind::MissingAttribute)?;
        let continues = match onerror.map(|value| value.of(self.template)) {
            None => false,
            Some(b"continue") => true,
            Some(_) => return Err(FaultKind::BadValue),
        };
        let maxwait_ms = match maxwait {
            None => None,
            Some(value) => {
                let text = std::str::from_utf8(value.of(self.template)).map_err(|_| FaultKind::BadValue)?;
                Some(text.trim().parse().map_err(|_| FaultKind::BadValue)?)
            }
        };
        let (src, alt) = (self.url(src)?, alt.map(|alt| self.url(alt)).transpose()?);
        Ok(Include { src, alt, continues, maxwait_ms })
    }

    /// The pieces of a URL.
    fn url(&self, place: Span) -> Result<Vec<Piece>, FaultKind> {
        let mut is_good = true;
        let pieces = pieces(self.template, place, |_| is_good = false);
        if is_good { Ok(pieces) } else { Err(FaultKind::BadVariable) }
    }

    /// The parts of an element that consists of parts, each with its first and last tag.
    fn parts(&self, inner: &Content, known: [Element; 2]) -> Result<Vec<(Element, usize, usize)>, FaultKind> {
        let (mut at, mut number, mut parts) = (inner.place.begin, inner.tags.start, Vec::new());
        while number < inner.tags.end
            && let Some(tag) = self.tags.get(number)
        {
            let last = self.last_tag(number).map_err(|_| FaultKind::StrayContent)?;
            let element = match tag.kind {
                TagKind::Start(element, _) | TagKind::Whole(element) => element,
                TagKind::End(..) | TagKind::Unknown | TagKind::Unfinished => {
                    return Err(FaultKind::StrayContent);
                }
            };
            if !self.is_white(Span::new(at, tag.span.begin)) || !known.contains(&element) {
                return Err(FaultKind::StrayContent);
            }
            parts.push((element, number, last));
            at = self.tags.get(last).unwrap_or(tag).span.end;
            number = last + 1;
        }
        let is_rest_white = self.is_white(Span::new(at, inner.place.end));
        if is_rest_white { Ok(parts) } else { Err(FaultKind::StrayContent) }
    }

    fn choose(&mut self, tag: &Tag, inner: &Content, depth: usize) -> Result<(), Rejection> {
        let [] = self.known(tag, [])?;
        let parts = self.parts(inner, [Element::When, Element::Otherwise])?;
        let whens = parts.iter().take_while(|(element, ..)| *element == Element::When).count();
        if whens == 0 || parts.len() > whens + 1 {
            return Err(FaultKind::BadChoose.into());
        }
        let mut branches = Vec::with_capacity(parts.len());
        for (element, first, last) in parts {
            let Some(part) = self.tags.get(first) else { continue };
            let test = if element == Element::When {
                let [test] = self.known(part, [b"test"])?;
                Some(self.expression(test.ok_or(FaultKind::MissingAttribute)?)?)
            } else {
                let [] = self.known(part, [])?;
                None
            };
            branches.push((test, self.inner(first, last, inner.is_substituted)));
        }
        let mut jumps = Vec::new();
        for (test, content) in branches {
            let Some(test) = test else {
                self.content(&content, depth + 1)?;
                continue;
            };
            let unless = self.push(Operation::Unless(test, 0))?;
            self.content(&content, depth + 1)?;
            jumps.push(self.push(Operation::Jump(0))?);
            self.aim(unless);
        }
        jumps.into_iter().for_each(|jump| self.aim(jump));
        Ok(())
    }

    fn expression(&self, place: Span) -> Result<Expression, FaultKind> {
        if place.of(self.template).len() > self.limits.expression_bytes_max {
            return Err(FaultKind::BadExpression);
        }
        Expression::parse(self.template, place).ok_or(FaultKind::BadExpression)
    }

    fn attempt(&mut self, tag: &Tag, inner: &Content, depth: usize) -> Result<(), Rejection> {
        let [] = self.known(tag, [])?;
        let parts = self.parts(inner, [Element::Attempt, Element::Except])?;
        let only = |wanted| {
            let mut found = parts.iter().filter(|(element, ..)| *element == wanted);
            found.next().filter(|_| found.next().is_none()).copied()
        };
        let (Some(attempt), Some(except)) = (only(Element::Attempt), only(Element::Except)) else {
            return Err(FaultKind::BadTry.into());
        };
        let [attempt, except] =
            [attempt, except].map(|(_, first, last)| self.inner(first, last, inner.is_substituted));
        let begin = self.push(Operation::Attempt(0))?;
        self.content(&attempt, depth + 1)?;
        self.push(Operation::Commit)?;
        let jump = self.push(Operation::Jump(0))?;
        self.aim(begin);
        self.content(&except, depth + 1)?;
        self.aim(jump);
        Ok(())
    }

    /// Lets an operation jump to the end of the program so far.
    fn aim(&mut self, operation: usize) {
        let end = u32::try_from(self.program.operations.len()).unwrap_or(u32::MAX);
        if let Some(Operation::Unless(_, target) | Operation::Jump(target) | Operation::Attempt(target)) =
            self.program.operations.get_mut(operation)
        {
            *target = end;
        }
    }

    fn text(&mut self, place: Span, is_substituted: bool) -> Result<(), TemplateError> {
        if !is_substituted {
            return self.raw(place);
        }
        let mut faults = Vec::new();
        for piece in pieces(self.template, place, |at| faults.push(at)) {
            match piece {
                Piece::Literal(place) => self.raw(place)?,
                Piece::Variable(variable) => {
                    self.push(Operation::Value(variable))?;
                }
            }
        }
        faults.into_iter().for_each(|at| self.program.note(FaultKind::BadVariable, at));
        Ok(())
    }

    fn raw(&mut self, place: Span) -> Result<(), TemplateError> {
        if place.begin >= place.end {
            return Ok(());
        }
        // No jump leads between two texts that touch, because a tag lies before each target.
        if let Some(Operation::Text(last)) = self.program.operations.last_mut()
            && last.end == place.begin
        {
            last.end = place.end;
            return Ok(());
        }
        self.push(Operation::Text(place)).map(|_| ())
    }

    /// Appends an operation. Returns its number.
    fn push(&mut self, operation: Operation) -> Result<usize, TemplateError> {
        let number = self.program.operations.len();
        if number >= self.limits.operations_max {
            return Err(TemplateError::TooManyOperations);
        }
        self.program.operations.push(operation);
        Ok(number)
    }
}
