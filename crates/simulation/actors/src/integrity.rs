//! Checks that a response has exactly the content of one page in one version.
//!
//! Invariant: a response whose framing is complete has the whole content or exactly the part that
//! it names. Three lies of an origin cannot be noticed by any recipient, and are permitted with
//! exactly their length: a `Content-Length` that is too short, an empty body, and a close-delimited
//! body that ends early in an orderly way.

use crate::answer::accepts;
use crate::coded::{decoded, mark};
use crate::content::{ContentId, NONE, verify};
use crate::event::Begun;
use crate::exchange::{Ask, RangeSpec, Reply};
use crate::page::PagePlan;

/// Checks head and body of a response with content.
///
/// # Errors
///
/// A sentence that says what is wrong.
pub(crate) fn check(
    ask: &Ask,
    reply: &Reply,
    page: &PagePlan,
    id: &ContentId,
    lies: &Begun,
) -> Result<(), String> {
    let bytes = page.length_bytes(id.version);
    let form = Form::of(ask, reply, page, id)?;
    let (coded, made) = match form {
        Form::Plain => (None, None),
        Form::OfOrigin(coded) => (Some(coded), None),
        Form::OfEdge(coding) => (None, Some(coding)),
    };
    let whole = Whole { bytes: coded.as_ref().map_or(bytes, Vec::len), lies, id, coded };
    whole.check_etag(reply, page, made.as_deref())?;
    match (reply.status, made) {
        (Some(206), Some(coding)) => Err(format!("a part of the form in {coding}")),
        (_, Some(coding)) => whole.check_made(ask, reply, &coding),
        (Some(206), None) => whole.check_part(ask, reply),
        _ => whole.check_whole(ask, reply),
    }
}

/// The form in which a response has its content.
enum Form {
    Plain,
    /// The origin's gzip.
    OfOrigin(Vec<u8>),
    /// A coding of the edge.
    OfEdge(String),
}

impl Form {
    /// The form that a response says it has. A visitor must not receive a coding that it refuses,
    /// and what is for one user must not be coded by the edge.
    fn of(ask: &Ask, reply: &Reply, page: &PagePlan, id: &ContentId) -> Result<Self, String> {
        let is_accepted = |coding: &str| ask.codings.as_deref().is_some_and(|value| accepts(value, coding));
        match reply.field("Content-Encoding") {
            None => Ok(Self::Plain),
            Some("gzip") if ask.accepts_gzip && page.is_coded => Ok(Self::OfOrigin(page.coded_form(id))),
            Some(coding) if is_accepted(coding) && id.user == NONE => Ok(Self::OfEdge(coding.to_owned())),
            Some(coding) => Err(format!("the coding {coding}, accepts {:?}", ask.codings)),
        }
    }
}

/// The content that a response should have.
struct Whole<'a> {
    /// The length of the form that is sent.
    bytes: usize,
    lies: &'a Begun,
    id: &'a ContentId,
    /// The content with the gzip coding, if the response has it.
    coded: Option<Vec<u8>>,
}

impl Whole<'_> {
    /// The entity tag belongs to the same content as `X-Sim`.
    fn check_etag(&self, reply: &Reply, page: &PagePlan, made: Option<&str>) -> Result<(), String> {
        let Some(etag) = reply.field("ETag") else { return Ok(()) };
        let mark = made.map(mark).unwrap_or_default();
        // A form that is made while it is sent has a weak tag.
        let strong = |tag: &str| tag.trim_start_matches("W/").to_owned();
        let own = format!("{}{mark}\"", page.etag(self.id).trim_end_matches('"'));
        let is_right = etag == own || made.is_some() && strong(etag) == strong(&own);
        if page.validator.has_etag() && is_right {
            return Ok(());
        }
        Err(format!("the entity tag {etag} is not that of \"{}\"", self.id))
    }

    /// Checks a form that the edge has made: it decodes to the content.
    fn check_made(&self, ask: &Ask, reply: &Reply, coding: &str) -> Result<(), String> {
        if ask.method == "HEAD" {
            return if reply.body.is_empty() { Ok(()) } else { Err("HEAD has a body".to_owned()) };
        }
        let (content, is_whole) =
            decoded(coding, &reply.body).ok_or_else(|| format!("the unknown coding {coding}"))?;
        verify(self.id, 0, &content).map_err(|fault| format!("{coding}: not \"{}\": {fault}", self.id))?;
        let bytes = content.len();
        if reply.is_complete() && !(is_whole && self.may_be_whole(bytes)) || bytes > self.bytes {
            return Err(format!(
                "{coding}: complete with {bytes} bytes, not {}, ended: {is_whole}",
                self.bytes
            ));
        }
        Ok(())
    }

    /// Whether a complete body may have this length.
    fn may_be_whole(&self, bytes: usize) -> bool {
        bytes == self.bytes || self.lies.whole_bytes.contains(&bytes)
    }

    fn check_whole(&self, ask: &Ask, reply: &Reply) -> Result<(), String> {
        let announced =
            reply.field("Content-Length").map(|bytes| bytes.parse::<usize>().unwrap_or(usize::MAX));
        if let Some(bytes) = announced
            && bytes != self.bytes
            && !self.lies.announced_bytes.contains(&bytes)
        {
            return Err(format!("Content-Length is {bytes}, but \"{}\" has {} bytes", self.id, self.bytes));
        }
        if ask.method == "HEAD" {
            return if reply.body.is_empty() { Ok(()) } else { Err("HEAD has a body".to_owned()) };
        }
        self.compare(0, &reply.body)?;
        let bytes = reply.body.len();
        if reply.is_complete() && !self.may_be_whole(bytes) {
            return Err(format!("complete with {bytes} bytes, but \"{}\" has {}", self.id, self.bytes));
        }
        if bytes > self.bytes {
            return Err(format!("{bytes} bytes, but \"{}\" has {}", self.id, self.bytes));
        }
        Ok(())
    }

    fn compare(&self, start: usize, octets: &[u8]) -> Result<(), String> {
        if let Some(coded) = &self.coded {
            let is_same = coded.get(start..).is_some_and(|rest| rest.starts_with(octets));
            return if is_same { Ok(()) } else { Err(format!("not the coded body of \"{}\"", self.id)) };
        }
        verify(self.id, start, octets).map_err(|fault| format!("not the body of \"{}\": {fault}", self.id))
    }

    /// Checks a 206: one part, or several in `multipart/byteranges`.
    fn check_part(&self, ask: &Ask, reply: &Reply) -> Result<(), String> {
        if ask.ranges.is_empty() {
            return Err("206, but no part was asked for".to_owned());
        }
        if let Some(held) =
            ask.if_range.as_ref().filter(|held| held.date_secs.is_none() && held.id != *self.id)
        {
            return Err(format!("a part of \"{}\", but If-Range names \"{}\"", self.id, held.id));
        }
        match (reply.field("Content-Range"), reply.field("Content-Type")) {
            (Some(range), _) => {
                let part = self.read_range(range)?;
                self.check_asked(&ask.ranges, part)?;
                self.check_octets(part, &reply.body, reply)
            }
            (None, Some(kind)) if kind.starts_with("multipart/byteranges") => {
                let (_, boundary) = kind.split_once("boundary=").ok_or("multipart without boundary")?;
                self.check_multipart(ask, reply, boundary.trim_matches('"'))
            }
            (None, _) => Err("206 without Content-Range".to_owned()),
        }
    }

    fn check_octets(&self, part: Part, octets: &[u8], reply: &Reply) -> Result<(), String> {
        let bytes = part.last + 1 - part.first;
        let announced = reply.field("Content-Length").and_then(|bytes| bytes.parse::<usize>().ok());
        let range = format!("{}-{}", part.first, part.last);
        if announced.is_some_and(|announced| announced != bytes) {
            return Err(format!("Content-Length {announced:?}, but the part {range} has {bytes} bytes"));
        }
        self.compare(part.first, octets)?;
        if reply.is_complete() && octets.len() != bytes || octets.len() > bytes {
            return Err(format!("{} bytes for the part {range}", octets.len()));
        }
        Ok(())
    }

    /// Reads `bytes first-last/whole`.
    fn read_range(&self, range: &str) -> Result<Part, String> {
        let fault = || format!("Content-Range {range}, but \"{}\" has {} bytes", self.id, self.bytes);
        let rest = range.strip_prefix("bytes ").and_then(|rest| rest.split_once('/'));
        let (extent, whole) = rest.ok_or_else(fault)?;
        let (first, last) = extent.split_once('-').ok_or_else(fault)?;
        let number = |text: &str| text.parse::<usize>().map_err(|_| fault());
        let part = Part { first: number(first)?, last: number(last)?, whole: number(whole)? };
        let is_right = part.first <= part.last && part.last < part.whole && self.may_be_whole(part.whole);
        if is_right { Ok(part) } else { Err(fault()) }
    }

    /// A part begins and ends where a range was asked for. Several ranges may be joined.
    fn check_asked(&self, ranges: &[RangeSpec], part: Part) -> Result<(), String> {
        let resolved: Vec<_> = ranges.iter().filter_map(|range| range.resolve(part.whole)).collect();
        let begins = resolved.iter().any(|(first, _)| *first == part.first);
        let ends = resolved.iter().any(|(_, last)| *last == part.last);
        if begins && ends {
            Ok(())
        } else {
            Err(format!("the part {}-{} was not asked for", part.first, part.last))
        }
    }

    fn check_multipart(&self, ask: &Ask, reply: &Reply, boundary: &str) -> Result<(), String> {
        let mut rest = &reply.body[..];
        let separator = format!("--{boundary}");
        let mut parts = 0;
        loop {
            let Some(at) = find(rest, separator.as_bytes()) else {
                return if reply.is_complete() { Err("multipart without end".to_owned()) } else { Ok(()) };
            };
            rest = rest.get(at + separator.len()..).unwrap_or_default();
            if rest.starts_with(b"--") {
                return if parts > 0 { Ok(()) } else { Err("multipart without parts".to_owned()) };
            }
            let Some(end) = find(rest, b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(rest.get(..end).unwrap_or_default()).to_lowercase();
            let range = head.lines().find_map(|line| line.strip_prefix("content-range:"));
            let part = self.read_range(range.ok_or("a part without Content-Range")?.trim())?;
            self.check_asked(&ask.ranges, part)?;
            let octets = rest.get(end + 4..).unwrap_or_default();
            let bytes = part.last + 1 - part.first;
            let taken = octets.len().min(bytes);
            self.compare(part.first, octets.get(..taken).unwrap_or_default())?;
            let after = octets.get(taken..).unwrap_or_default();
            if reply.is_complete() && !after.starts_with(b"\r\n--") {
                return Err(format!("the part {}-{} does not end with its range", part.first, part.last));
            }
            rest = after;
            parts += 1;
        }
    }
}

/// A part of the content, by its first and last byte, and the stated length of the whole.
#[derive(Clone, Copy)]
struct Part {
    first: usize,
    last: usize,
    whole: usize,
}

/// The offset of the first occurrence of `needle`.
fn find(octets: &[u8], needle: &[u8]) -> Option<usize> {
    octets.windows(needle.len()).position(|window| window == needle)
}
