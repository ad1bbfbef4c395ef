//! Properties that must hold for any input. The property tests call these functions with generated
//! bytes, and the seed tests with the committed seeds. The fuzz targets of this crate call them
//! with their own input.
//!
//! Each function panics if a property does not hold.

use bytes::Bytes;
use message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
use petasos_purge::{
    BanPattern, CONDITIONS_MAX, ConditionBan, Malformed, OrderItem, PurgeOrder, PurgeOutcome, PurgeReply,
    PurgeScope, TAG_BYTES_MAX, TAGS_MAX, TagExpression, TagsError, api, is_purge_method, read, reply,
    signals, tags_of,
};

/// Checks a request: method and target on the first line, then fields as `Name: value`.
pub(crate) fn orders(octets: &[u8]) {
    let mut lines = octets.split(|&octet| octet == b'\n');
    let first = lines.next().unwrap_or_default();
    let (method, target) = split_at_first(first, b' ');
    let mut head = RequestHead {
        method: Method::from_token(method),
        target: Bytes::copy_from_slice(target),
        version: Version::Http11,
        fields: Fields::new(),
    };
    for line in lines {
        let (name, value) = split_at_first(line, b':');
        head.fields.push(Bytes::copy_from_slice(name), Bytes::copy_from_slice(value.trim_ascii()));
    }
    let order = read(&head);
    assert!(is_purge_method(&head.method) || order.is_err());
    match &order {
        Ok(order) => {
            check_order(order);
            check_answers(order);
        }
        Err(malformed) => check_malformed(malformed, &malformed.reply()),
    }

    let shouted = head.fields.iter().map(|field| message::Field {
        name: field.name.to_ascii_uppercase().into(),
        value: field.value.clone(),
    });
    let mut other = RequestHead { fields: shouted.collect(), ..head.clone() };
    assert_eq!(read(&other), order, "case of names does not matter");
    other.fields.push("X-Unknown", "1");
    assert_eq!(read(&other), order, "nor do other fields");
    if let (Some(host), true) = (head.fields.first("Host"), target.starts_with(b"/")) {
        let absolute = [b"http://", &host[..], target].concat();
        if h1::Target::split(&head.method, &absolute).is_ok_and(|split| split.path_and_query == target) {
            assert_eq!(
                read(&RequestHead { target: absolute.into(), ..head.clone() }),
                order,
                "absolute-form"
            );
        }
    }
}

/// Checks each line as the value of headers that carry tags.
pub(crate) fn tags(octets: &[u8]) {
    for line in octets.split(|&octet| octet == b'\n') {
        expression(line);
        for header in ["Cache-Tags", "xkey"] {
            stated(header, line);
        }
    }
}

/// Checks a tag expression.
fn expression(text: &[u8]) {
    match TagExpression::parse(text) {
        Ok(TagExpression::AnyOf(tags)) => {
            check_tags(&tags);
            // The list contains every tag that the text, taken as a regular expression, matches
            // whole. Two differences are excluded. The parser takes an unescaped dot literally. The
            // escapes `\<` and `\>` of clients are word boundaries to the crate `regex`.
            let is_expression = text.iter().any(|octet| b"()^$\\".contains(octet));
            let differs = |pair: &[u8]| {
                matches!(pair, br"\<" | br"\>")
                    || matches!(pair, [before, b'.'] if *before != b'\\' && *before != b',')
            };
            let is_expression = is_expression && !text.starts_with(b".") && !text.windows(2).any(differs);
            let whole = BanPattern::compile(&[b"^(?:", text.trim_ascii(), b")$"].concat());
            if let (true, Ok(whole)) = (is_expression, whole) {
                for word in text.split(|octet| !octet.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
                {
                    assert!(!whole.is_match(word) || tags.iter().any(|tag| **tag == *word));
                }
            }
        }
        Ok(TagExpression::Pattern(pattern)) => assert_eq!(pattern.as_str().as_bytes(), text.trim_ascii()),
        Ok(TagExpression::Everything) => assert!(text.contains(&b'*')),
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
}

/// Checks the tags of a response: each must be found by every way of purging it.
fn stated(header: &'static str, line: &[u8]) {
    if line.iter().any(|octet| octet.is_ascii_control() && *octet != b'\t') {
        // No header field can carry these bytes.
        return;
    }
    let mut response = Fields::new();
    response.push(header, Bytes::copy_from_slice(line));
    let tags = match tags_of(&response, true, b"a.test") {
        Ok(tags) => tags,
        Err(TagsError::TooMany) => return assert!(line.len() > TAGS_MAX),
        Err(TagsError::TooLong) => return assert!(line.len() > TAG_BYTES_MAX),
    };
    assert!(tags.is_sorted_by(|one, next| one < next), "each once");
    for tag in &tags {
        assert!(!tag.is_empty() && !tag.iter().any(|octet| b" \t,".contains(octet)));
        let only = Ok(TagExpression::AnyOf(vec![tag.clone()]));
        let quoted = quoted(tag);
        for (open, close) in [("(^|,)(", ")(,|$)"), ("((^|,)", "(,|$))"), ("(", ")(,.+)?$")] {
            let text = [open.as_bytes(), &quoted, close.as_bytes()].concat();
            assert_eq!(TagExpression::parse(&text), only, "{}", text.escape_ascii());
        }
        if !tag.contains(&b'|') && !tag.iter().any(|octet| br"\^$()[]{}*".contains(octet)) {
            assert_eq!(TagExpression::parse(tag), only);
        }
    }
    let mut again = Fields::new();
    for tag in tags.iter().rev() {
        again.push("Surrogate-Key", tag.clone());
    }
    assert_eq!(tags_of(&again, false, b""), Ok(tags), "stated one by one");
}

/// A tag as clients quote it for a regular expression.
fn quoted(tag: &[u8]) -> Vec<u8> {
    let special = |octet: u8| br".\+*?[^]$(){}=!<>|:-#/".contains(&octet);
    tag.iter().flat_map(|&octet| special(octet).then_some(b'\\').into_iter().chain([octet])).collect()
}

/// Checks a ban expression.
pub(crate) fn bans(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    match ConditionBan::parse(&text) {
        Ok(ban) => {
            assert!((1..=CONDITIONS_MAX).contains(&ban.conditions().len()));
            let written = ban.to_string();
            // Quotes and escapes may make the text longer than [`ConditionBan::parse`] accepts.
            if written.len() <= petasos_purge::BAN_BYTES_MAX {
                assert_eq!(ConditionBan::parse(&written), Ok(ban), "{written}");
            }
        }
        Err(error) => {
            assert!((1..=text.len() + 1).contains(&error.column), "{error}");
        }
    }
}

/// Checks a call of the API: the target on the first line, then the content.
pub(crate) fn calls(octets: &[u8]) {
    let (target, content) = split_at_first(octets, b'\n');
    let Some(route) = api::ApiRoute::of(target) else { return };
    match api::read(&route, &Method::Post, &Fields::new(), content) {
        Ok(order) => {
            check_order(&order);
            check_answers(&order);
        }
        Err(refused) => {
            assert!([400, 413, 501].contains(&refused.status.code()));
            let reply = refused.reply();
            let json = serde_json::from_slice::<serde_json::Value>(&reply.content);
            assert!(json.is_ok_and(|json| json.is_object()));
            assert_eq!(reply.head.status, refused.status);
        }
    }
    assert!(api::read(&route, &Method::Put, &Fields::new(), content).is_err());
}

/// Checks each line as the value of the fields in which origins ask for invalidations. No text may
/// hide the readable path behind it.
pub(crate) fn asked_by_answers(octets: &[u8]) {
    for line in octets.split(|&octet| octet == b'\n') {
        for name in ["X-LiteSpeed-Purge", "X-Cache-Invalidate", "Cache-Group-Invalidation"] {
            let mut answer = ResponseHead::new(Status::OK);
            answer.fields.push(name, Bytes::copy_from_slice(line));
            let found = signals(&Method::Post, &answer, true, b"a.test");
            found.invalidations.iter().for_each(check_invalidation);
        }
        for (name, separator) in [("X-LiteSpeed-Purge", &b";"[..]), ("X-Cache-Invalidate", b",")] {
            let mut answer = ResponseHead::new(Status::OK);
            answer.fields.push(name, Bytes::from([line, separator, b"/last"].concat()));
            let found = signals(&Method::Post, &answer, true, b"a.test");
            let is_last =
                |scope: &PurgeScope| matches!(scope, PurgeScope::Target { target, .. } if target == "/last");
            assert!(found.invalidations.last().is_some_and(|last| is_last(&last.scope)));
        }
    }
}

fn check_order(order: &PurgeOrder) {
    assert!(!order.invalidations.is_empty() && !order.dialect.is_empty());
    order.invalidations.iter().for_each(check_invalidation);
}

fn check_invalidation(invalidation: &OrderItem) {
    match &invalidation.scope {
        PurgeScope::Target { target, .. } => assert!(target.starts_with(b"/")),
        PurgeScope::Prefix { prefix, .. } => assert!(prefix.starts_with(b"/")),
        PurgeScope::Tags { any_of, all_of, .. } => check_tags(&[&any_of[..], all_of].concat()),
        PurgeScope::Ban { ban, .. } => assert!((1..=CONDITIONS_MAX).contains(&ban.conditions().len())),
        PurgeScope::Pattern { .. } | PurgeScope::Host { .. } | PurgeScope::Everything { .. } => {}
    }
}

fn check_tags(tags: &[Bytes]) {
    assert!((1..=TAGS_MAX + 1).contains(&tags.len()));
    assert!(tags.iter().all(|tag| !tag.is_empty() && tag.len() <= TAG_BYTES_MAX));
}

/// Whatever the outcome, the reply is 200, must not be cached, and is JSON.
fn check_answers(order: &PurgeOrder) {
    for (purged, softened) in [(0, 0), (u64::MAX, 7)] {
        let reply = reply(
            order,
            PurgeOutcome { purged, softened, uncounted: 1, sequence: u64::MAX, ..PurgeOutcome::default() },
            Status::SERVICE_UNAVAILABLE,
        );
        assert_eq!(reply.head.status, Status::OK);
        assert!(serde_json::from_slice::<serde_json::Value>(&reply.content).is_ok());
        check_fields(&reply);
    }
}

fn check_malformed(malformed: &Malformed, reply: &PurgeReply) {
    assert_eq!(reply.head.status, Status::BAD_REQUEST);
    let text = malformed.to_string();
    assert!(text.is_ascii() || text.chars().all(|character| !character.is_control()), "{text:?}");
    check_fields(reply);
}

/// No text from a client may add a line to the head.
fn check_fields(reply: &PurgeReply) {
    let clean = |octets: &[u8]| octets.iter().all(|&octet| octet == b'\t' || octet >= b' ');
    assert!(clean(&reply.head.reason) && reply.head.fields.iter().all(|field| clean(&field.value)));
    assert_eq!(reply.head.fields.first("Cache-Control").map(|value| &value[..]), Some(&b"no-store"[..]));
}

/// The text before and after the first `separator`.
fn split_at_first(octets: &[u8], separator: u8) -> (&[u8], &[u8]) {
    let at = octets.iter().position(|&octet| octet == separator).unwrap_or(octets.len());
    (octets.get(..at).unwrap_or_default(), octets.get(at + 1..).unwrap_or_default())
}
