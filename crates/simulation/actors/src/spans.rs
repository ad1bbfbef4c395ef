//! Reads the messages in which spans arrive: OTLP in Protocol Buffers.
//!
//! Invariant: a message that is not well-formed has no spans. The reader knows only the fields that
//! the oracle judges; it checks the form of all others.

use std::collections::BTreeMap;

/// A trace and a span in it.
pub(crate) type SpanId = (u128, u64);

/// The subject of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// A phase of a request.
    Internal,
    /// A request of a client.
    Server,
    /// A request to an origin.
    Client,
}

/// A span as the collector receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) id: SpanId,
    pub(crate) parent: Option<u64>,
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    /// Begin and end, in nanoseconds since 1970.
    pub(crate) times: (u64, u64),
    /// Its attributes; the text of a number is empty.
    pub(crate) attributes: BTreeMap<String, String>,
}

/// A field of a message in Protocol Buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field<'a> {
    Number(u64),
    /// A number of eight bytes.
    Fixed(u64),
    Bytes(&'a [u8]),
}

/// The spans in an `ExportTraceServiceRequest`; `None` if it is not well-formed.
pub(crate) fn spans(message: &[u8]) -> Option<Vec<Span>> {
    let mut spans = Vec::new();
    for (number, of_resource) in fields(message)? {
        let (1, Field::Bytes(of_resource)) = (number, of_resource) else { return None };
        let parts = fields(of_resource)?;
        // The resource comes first.
        let (1, Field::Bytes(resource)) = parts.first()? else { return None };
        fields(resource)?;
        for (number, part) in parts.get(1..)? {
            let (2, Field::Bytes(of_scope)) = (number, part) else { return None };
            for (number, part) in fields(of_scope)? {
                match (number, part) {
                    (1, Field::Bytes(scope)) => drop(fields(scope)?),
                    (2, Field::Bytes(message)) => spans.push(span(message)?),
                    _ => return None,
                }
            }
        }
    }
    Some(spans)
}

/// A span. It has identifiers of the right lengths, a name and a kind, and ends after it begins.
fn span(message: &[u8]) -> Option<Span> {
    let all = fields(message)?;
    let of = |wanted: u64| all.iter().find(|(number, _)| *number == wanted).map(|(_, field)| *field);
    let fixed = |wanted| match of(wanted)? {
        Field::Fixed(value) => Some(value),
        _ => None,
    };
    let trace = u128::from_be_bytes(bytes(of(1)?)?.try_into().ok()?);
    let id = u64::from_be_bytes(bytes(of(2)?)?.try_into().ok()?);
    let parent = match of(4) {
        Some(parent) => Some(u64::from_be_bytes(bytes(parent)?.try_into().ok()?)),
        None => None,
    };
    let name = text(of(5)?)?;
    let kind = match of(6)? {
        Field::Number(1) => SpanKind::Internal,
        Field::Number(2) => SpanKind::Server,
        Field::Number(3) => SpanKind::Client,
        _ => return None,
    };
    let times = (fixed(7)?, fixed(8)?);
    let is_valid = trace != 0 && id != 0 && !name.is_empty() && 0 < times.0 && times.0 <= times.1;
    let attributes = all.iter().filter(|(number, _)| *number == 9);
    let attributes = attributes.map(|(_, field)| attribute(bytes(*field)?)).collect::<Option<_>>()?;
    is_valid.then_some(Span { id: (trace, id), parent, name, kind, times, attributes })
}

/// Name and text of an attribute.
fn attribute(message: &[u8]) -> Option<(String, String)> {
    let fields_of = fields(message)?;
    let [(1, name), (2, Field::Bytes(value))] = fields_of.as_slice() else { return None };
    let value = match fields(value)?.as_slice() {
        [(1, value)] => text(*value)?,
        [(3, Field::Number(_))] => String::new(),
        _ => return None,
    };
    Some((text(*name)?, value))
}

fn bytes(field: Field<'_>) -> Option<&[u8]> {
    match field {
        Field::Bytes(bytes) => Some(bytes),
        Field::Number(_) | Field::Fixed(_) => None,
    }
}

fn text(field: Field<'_>) -> Option<String> {
    String::from_utf8(bytes(field)?.to_vec()).ok()
}

/// The fields of a message with their numbers; `None` if it is not well-formed.
fn fields(message: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let (mut rest, mut found) = (message, Vec::new());
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut rest)?),
            1 => Field::Fixed(u64::from_le_bytes(taken(&mut rest, 8)?.try_into().ok()?)),
            2 => {
                let bytes = usize::try_from(varint(&mut rest)?).ok()?;
                Field::Bytes(taken(&mut rest, bytes)?)
            }
            5 => {
                let value = u32::from_le_bytes(taken(&mut rest, 4)?.try_into().ok()?);
                Field::Number(value.into())
            }
            _ => return None,
        };
        found.push((tag >> 3, field));
    }
    Some(found)
}

fn taken<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (part, after) = rest.split_at_checked(bytes)?;
    *rest = after;
    Some(part)
}

/// A number in the form in which seven bits of it are in each byte.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *taken(rest, 1)?.first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{SpanKind, spans};

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    fn message(begun: u8, ended: u8, span_id: &[u8]) -> Vec<u8> {
        let time = |number: u8, value: u8| [&[number << 3 | 1, value][..], &[0; 7]].concat();
        let attribute = field(9, &[field(1, b"url.path"), field(2, &field(1, b"/a"))].concat());
        let head = [field(1, &[1; 16]), field(2, span_id), field(5, b"GET"), vec![6 << 3, 2]].concat();
        let span = [head, time(7, begun), time(8, ended), attribute].concat();
        let of_scope = [field(1, &[]), field(2, &span)].concat();
        field(1, &[field(1, &[]), field(2, &of_scope)].concat())
    }

    #[test]
    fn only_whole_spans_are_read() {
        let right = message(1, 2, &[1; 8]);
        let read = spans(&right).unwrap();
        let [span] = read.as_slice() else { panic!("{read:?}") };
        assert_eq!((span.kind, span.times, span.parent), (SpanKind::Server, (1, 2), None));
        assert_eq!((span.id.1, &span.attributes["url.path"][..]), (0x0101_0101_0101_0101, "/a"));
        assert_eq!(spans(&[right.clone(), right.clone()].concat()).unwrap().len(), 2);
        assert_eq!(spans(right.split_last().unwrap().1), None, "cut");
        assert_eq!(spans(&message(3, 2, &[1; 8])), None, "ends before it begins");
        assert_eq!(spans(&message(1, 2, &[1; 7])), None, "short identifier");
    }
}
