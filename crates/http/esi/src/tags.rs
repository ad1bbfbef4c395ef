//! Finds ESI tags in a template and pairs them.
//!
//! Invariant: a byte is read a bounded number of times, however tags are nested or broken. Two
//! elements that cross each other are not both paired: the inner start tag loses.

use crate::attributes::attributes;
use crate::program::Span;

/// The elements of ESI 1.0, and the comment that hides markup from other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Include,
    Inline,
    Remove,
    Comment,
    Vars,
    Choose,
    When,
    Otherwise,
    Try,
    Attempt,
    Except,
    /// `<!--esi ... -->`
    Hidden,
}

const ELEMENTS: [(&[u8], Element); 11] = [
    (b"include", Element::Include),
    (b"inline", Element::Inline),
    (b"remove", Element::Remove),
    (b"comment", Element::Comment),
    (b"vars", Element::Vars),
    (b"choose", Element::Choose),
    (b"when", Element::When),
    (b"otherwise", Element::Otherwise),
    (b"try", Element::Try),
    (b"attempt", Element::Attempt),
    (b"except", Element::Except),
];

/// Number of elements including the hidden comment.
const ELEMENT_COUNT: usize = ELEMENTS.len() + 1;

/// The kind of a tag, and its partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagKind {
    /// A start tag with the number of its end tag among all tags; `None` if it has none.
    Start(Element, Option<usize>),
    /// An end tag, and whether it has a start tag.
    End(Element, bool),
    /// A tag that is an element by itself.
    Whole(Element),
    /// A tag of no element of ESI 1.0.
    Unknown,
    /// A tag that does not end.
    Unfinished,
}

/// A tag in the template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    pub(crate) span: Span,
    /// The text between the name and the end of the tag.
    pub(crate) attributes: Span,
    pub(crate) kind: TagKind,
}

const START: &[u8] = b"<esi:";
const END: &[u8] = b"</esi:";
const HIDDEN_START: &[u8] = b"<!--esi";
const HIDDEN_END: &[u8] = b"-->";

/// The tags of a template in their order, paired.
pub(crate) fn tags(template: &[u8]) -> Vec<Tag> {
    let mut found = Pairing::default();
    let mut at = 0;
    while let Some(next) =
        template.get(at..).and_then(|rest| rest.iter().position(|byte| matches!(byte, b'<' | b'-')))
    {
        at += next;
        let rest = template.get(at..).unwrap_or_default();
        at = match rest {
            _ if rest.starts_with(START) => found.start(template, at),
            _ if rest.starts_with(END) => found.end(template, at),
            _ if is_hidden_start(rest) => {
                let end = at + HIDDEN_START.len();
                found.open(span(at, end), span(end, end), Element::Hidden);
                end
            }
            _ if rest.starts_with(HIDDEN_END) && found.is_open(Element::Hidden) => {
                let end = at + HIDDEN_END.len();
                found.close(span(at, end), Element::Hidden);
                end
            }
            _ => at + 1,
        };
    }
    found.tags
}

fn is_hidden_start(rest: &[u8]) -> bool {
    rest.starts_with(HIDDEN_START) && rest.get(HIDDEN_START.len()).is_some_and(u8::is_ascii_whitespace)
}

/// Positions fit, because the limit of a template does.
pub(crate) fn span(begin: usize, end: usize) -> Span {
    let fit = |at| u32::try_from(at).unwrap_or(u32::MAX);
    Span::new(fit(begin), fit(end))
}

/// Number of tags with ESI markup in a quoted value whose end is searched. Further ones count as
/// unfinished, so that broken tags cost linear time.
const SEARCHES_MAX: u32 = 64;

#[derive(Default)]
struct Pairing {
    tags: Vec<Tag>,
    /// The number of such searches so far.
    searches: u32,
    /// The start tags without an end tag so far.
    open: Vec<(Element, usize)>,
    /// How many of them each element has, so that an end tag without partner costs no search.
    open_counts: [usize; ELEMENT_COUNT],
}

impl Pairing {
    fn is_open(&self, element: Element) -> bool {
        self.open_counts.get(element as usize).is_some_and(|count| *count > 0)
    }

    fn count(&mut self, element: Element, opened: bool) {
        if let Some(count) = self.open_counts.get_mut(element as usize) {
            *count = if opened { *count + 1 } else { count.saturating_sub(1) };
        }
    }

    fn push(&mut self, span: Span, attributes: Span, kind: TagKind) {
        self.tags.push(Tag { span, attributes, kind });
    }

    fn open(&mut self, tag: Span, attributes: Span, element: Element) {
        self.open.push((element, self.tags.len()));
        self.count(element, true);
        self.push(tag, attributes, TagKind::Start(element, None));
    }

    fn close(&mut self, tag: Span, element: Element) {
        let number = self.tags.len();
        let is_paired = self.is_open(element);
        while is_paired && let Some((opened, start)) = self.open.pop() {
            self.count(opened, false);
            if opened == element {
                if let Some(start) = self.tags.get_mut(start) {
                    start.kind = TagKind::Start(element, Some(number));
                }
                break;
            }
        }
        self.push(tag, tag, TagKind::End(element, is_paired));
    }

    /// Reads the start tag at `at`. Returns the position behind it.
    fn start(&mut self, template: &[u8], at: usize) -> usize {
        let (name, end) = match self.read_tag(template, at + START.len()) {
            Ok(read) => read,
            Err(end) => {
                self.push(span(at, end), span(end, end), TagKind::Unfinished);
                return end;
            }
        };
        let behind = at + START.len() + name.len();
        let is_whole = template.get(end.saturating_sub(2)) == Some(&b'/') && end - 2 >= behind;
        let attributes = span(behind, end - if is_whole { 2 } else { 1 });
        match (element(name), is_whole) {
            (None, _) => self.push(span(at, end), attributes, TagKind::Unknown),
            (Some(element), true) => self.push(span(at, end), attributes, TagKind::Whole(element)),
            (Some(element), false) => self.open(span(at, end), attributes, element),
        }
        end
    }

    /// Reads the end tag at `at`. Returns the position behind it.
    fn end(&mut self, template: &[u8], at: usize) -> usize {
        match self.read_tag(template, at + END.len()) {
            Ok((name, end)) => {
                match element(name) {
                    Some(element) => self.close(span(at, end), element),
                    None => self.push(span(at, end), span(end, end), TagKind::Unknown),
                }
                end
            }
            Err(end) => {
                self.push(span(at, end), span(end, end), TagKind::Unfinished);
                end
            }
        }
    }

    /// Reads a tag from its name on. Returns the name and the position behind the tag, or the
    /// position where the search for its end stopped: the next ESI tag, or the end of the template.
    /// ESI markup in a quoted value is text, if the tag is well-formed with it.
    fn read_tag<'t>(&mut self, template: &'t [u8], begin: usize) -> Result<(&'t [u8], usize), usize> {
        let rest = template.get(begin..).unwrap_or_default();
        let name_bytes =
            rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-').count();
        let name = rest.get(..name_bytes).unwrap_or_default();
        let (mut quote, mut quoted_tag) = (None, None);
        for (offset, byte) in rest.iter().enumerate().skip(name_bytes) {
            let (at, from_here) = (begin + offset, || rest.get(offset..).unwrap_or_default());
            match (quote, *byte) {
                (_, b'<') if [START, END, HIDDEN_START].iter().any(|tag| from_here().starts_with(tag)) => {
                    let is_searched = quote.is_some() && (quoted_tag.is_some() || self.may_search());
                    if !is_searched {
                        return Err(quoted_tag.unwrap_or(at));
                    }
                    quoted_tag = quoted_tag.or(Some(at));
                }
                (None, b'>') => {
                    let is_whole = at > begin && template.get(at - 1) == Some(&b'/');
                    let place = span(begin + name_bytes, if is_whole { at - 1 } else { at });
                    return match quoted_tag.filter(|_| attributes(template, place).is_err()) {
                        Some(next) => Err(next),
                        None => Ok((name, at + 1)),
                    };
                }
                (None, b'"' | b'\'') => quote = Some(*byte),
                (Some(open), byte) if open == byte => quote = None,
                _ => {}
            }
        }
        Err(quoted_tag.unwrap_or(template.len()))
    }

    /// Counts a search for the end of a tag with ESI markup in a quoted value.
    fn may_search(&mut self) -> bool {
        self.searches += 1;
        self.searches <= SEARCHES_MAX
    }
}

fn element(name: &[u8]) -> Option<Element> {
    ELEMENTS.iter().find(|(known, _)| *known == name).map(|(_, element)| *element)
}
