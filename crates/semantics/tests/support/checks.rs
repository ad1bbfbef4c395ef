//! What must hold for any field values whatsoever. The property tests call these functions with generated octets,
//! the corpus test with the committed seeds, and the fuzz targets beside this crate with whatever they find.
//!
//! Each function panics when something does not hold: a value written again must read the same, equal messages
//! must give equal answers, and answers must agree with the slow models.

#[path = "models.rs"]
mod models;

use bytes::Bytes;
use message::{Fields, Method, ResponseHead, Status, list_members};
use models::{DateForms, SearchVariance, wanted_octets};
use petasos_semantics::structured::{MEMBERS_MAX, Value, parse_dictionary, parse_list};
use petasos_semantics::{
    ByteRange, ContentRange, DELTA_SECS_MAX, Directives, GROUP_BYTES_MAX, GROUPS_MAX, NoVarySearch, Policy,
    RANGES_MAX, RangeAnswer, Scope, VARY_NAMES_MAX, VaryRule, answer_range, answer_range_from_part,
    format_date, groups, joined_extent, multipart_layout, parse_date, stated_directives,
};
use platform::Timestamp;

/// Each line as one line of `Cache-Control`.
pub(crate) fn cache_control(octets: &[u8]) {
    let lines: Vec<_> = octets.split(|&byte| byte == b'\n').collect();
    let read = |lines: &[&[u8]]| Directives::of_response(&fields_of("Cache-Control", lines));
    let directives = read(&lines);
    for secs in [directives.max_age_secs, directives.s_maxage_secs, directives.max_stale_secs] {
        assert!(secs.is_none_or(|secs| secs <= DELTA_SECS_MAX));
    }
    assert_eq!(read(&[written(&directives).as_bytes()]), directives, "written and read again");

    let shouted = octets.to_ascii_uppercase();
    let shouted: Vec<_> = shouted.split(|&byte| byte == b'\n').collect();
    assert_eq!(folded(read(&shouted)), folded(directives.clone()), "case does not matter");

    // Each line counts by itself, and the strictest counts.
    let each: Vec<_> = lines.iter().map(|line| read(&[line])).collect();
    assert_eq!(directives.no_store, each.iter().any(|one| one.no_store));
    assert_eq!(directives.max_age_secs, each.iter().filter_map(|one| one.max_age_secs).min());
    let private = |one: &Directives| match &one.private {
        Scope::Nothing => Some(Vec::new()),
        Scope::Fields(names) => Some(names.clone()),
        Scope::Everything => None,
    };
    let all_private: Option<Vec<_>> = each.iter().map(private).collect();
    assert_eq!(private(&directives), all_private.map(|names| names.concat()), "all named fields are private");

    if lines.iter().any(|line| ends_in_quotes(line)) {
        assert!(directives.no_store, "what an open quote hides may be anything");
    } else {
        assert_eq!(read(&[&lines.join(&b", "[..])]), directives, "lines are one list");
    }
    let with_no_store = [&lines[..], &[b"no-store"]].concat();
    assert_eq!(read(&with_no_store), Directives { no_store: true, ..directives });
}

/// Three blocks between empty lines: lines of `Vary`, then two clients' fields as `Name: value`.
pub(crate) fn vary(octets: &[u8]) {
    let mut blocks = octets.split(|&byte| byte == b'\n').collect::<Vec<_>>().into_iter();
    let mut block = || blocks.by_ref().take_while(|line| !line.is_empty()).collect::<Vec<_>>();
    let (lines, one, other) = (block(), client(&block()), client(&block()));
    let has_star = lines.iter().any(|line| {
        !line.contains(&b'"') && line.split(|&byte| byte == b',').any(|name| name.trim_ascii() == b"*")
    });
    for policy in [Policy::default_profile(), Policy::rfc()] {
        let Ok(rule) = VaryRule::from_response(&fields_of("Vary", &lines), &policy) else { continue };
        assert!(!has_star, "`*` selects nothing that could be stored");
        let names = rule.names();
        assert!(names.len() <= VARY_NAMES_MAX && names.is_sorted_by(|one, next| one < next));
        for name in names {
            let is_listed = |line: &&[u8]| list_members(line).any(|listed| listed.eq_ignore_ascii_case(name));
            assert!(lines.iter().any(is_listed) && !name.iter().any(u8::is_ascii_uppercase));
        }
        let again = VaryRule::from_response(&fields_of("Vary", &[&names.join(&b","[..])]), &policy);
        assert_eq!(again.as_ref(), Ok(&rule), "written and read again");
        assert_eq!(rule.union(&rule), rule);

        let (key, other_key) = (rule.key(&one), rule.key(&other));
        assert!(rule.matches(&one, &key));
        assert_eq!(rule.matches(&other, &key), key == other_key);
        assert_eq!(VaryRule::default().matches(&one, &key), key.is_empty(), "a key of another rule");
        let selecting: Fields = one.iter().filter(|field| rule.selects_on(&field.name)).cloned().collect();
        assert_eq!(rule.key(&selecting), key, "other fields do not matter");
        let same = |name: &Bytes| {
            let name = std::str::from_utf8(name).expect("a token is ASCII");
            one.all(name).eq(other.all(name))
        };
        assert!(!names.iter().all(same) || key == other_key, "equal requests select one variant");
    }
}

/// The octets as a date, and their first eight as a moment.
pub(crate) fn dates(octets: &[u8]) {
    if let Some(moment) = parse_date(octets) {
        let forms = DateForms::of(moment.as_secs());
        let text = std::str::from_utf8(octets).expect("a date is ASCII").trim();
        // asctime's day is padded with a space; some pad it with a zero. The day of the week need not be that day's.
        let rest =
            |form: &str| form.replace("  ", " 0").split_once(' ').map(|(_, rest)| rest.to_ascii_lowercase());
        let forms = [forms.imf_fixdate, forms.rfc850, forms.asctime];
        let is_text = forms.iter().any(|form| rest(form) == rest(text));
        // A leap second is the one after it.
        assert!(is_text || text.contains(":60"), "{text} was read as one of {forms:?}");
        assert_eq!(parse_date(&format_date(moment)), Some(moment), "written and read again");
    }
    const YEAR_10000_SECS: u64 = 253_402_300_800;
    let Some(first) = octets.first_chunk() else { return };
    let moment = Timestamp::from_secs(u64::from_be_bytes(*first) % YEAR_10000_SECS);
    let forms = DateForms::of(moment.as_secs());
    assert_eq!(format_date(moment), forms.imf_fixdate);
    assert_eq!(parse_date(forms.imf_fixdate.as_bytes()), Some(moment));
    assert_eq!(parse_date(forms.asctime.as_bytes()), Some(moment));
    // Two digits cannot name every year.
    if (1970..2070).contains(&forms.year) {
        assert_eq!(parse_date(forms.rfc850.as_bytes()), Some(moment));
    }
}

/// Six lines: `Range`, `If-Range`, the stored `ETag`, two `Content-Range`, and the complete length. A line that is
/// empty or missing is a field that is not there.
pub(crate) fn ranges(octets: &[u8]) {
    let mut lines = octets.split(|&byte| byte == b'\n');
    let [range, if_range, tag, one, other, complete] =
        [(); 6].map(|()| lines.next().filter(|line| !line.is_empty()));
    let mut request = Fields::new();
    range.iter().for_each(|value| request.push("Range", value.to_vec()));
    if_range.iter().for_each(|value| request.push("If-Range", value.to_vec()));
    let mut response = ResponseHead::new(Status::OK);
    tag.iter().for_each(|value| response.fields.push("ETag", value.to_vec()));
    let digits = complete.and_then(|line| std::str::from_utf8(line).ok()).and_then(|line| line.parse().ok());
    let complete = digits.unwrap_or(10).min(300);

    let answer = answer_range(&Method::Get, &request, &response, complete);
    assert_eq!(answer_range(&Method::Head, &request, &response, complete), RangeAnswer::Whole);
    let is_same = |tag: &[u8]| tag.len() > 1 && tag.starts_with(b"\"") && tag.ends_with(b"\"");
    match if_range {
        Some(validator) if if_range != tag || !is_same(validator) => {
            assert_eq!(answer, RangeAnswer::Whole, "another representation may have been meant");
        }
        Some(validator) if !validator[1..validator.len() - 1].iter().all(u8::is_ascii_alphanumeric) => {}
        _ => assert_answer_is_what_was_asked(range.unwrap_or_default(), complete, &answer),
    }
    if let RangeAnswer::Parts(parts) = &answer {
        assert_multipart_can_be_taken_apart(complete, parts);
    }

    let extents = [one, other].map(|value| value.and_then(ContentRange::parse));
    for extent in extents.iter().flatten() {
        assert!(extent.first <= extent.last && extent.complete.is_none_or(|complete| extent.last < complete));
        assert_eq!(ContentRange::parse(&extent.value()), Some(*extent), "written and read again");
        assert_eq!(extent.received(extent.bytes()), Some(*extent));
        let from_part = answer_range_from_part(&Method::Get, &request, &response, *extent);
        if let Some(complete) = extent.complete {
            let whole = answer_range(&Method::Get, &request, &response, complete);
            let is_stored = |part: &ByteRange| extent.first <= part.first && part.last <= extent.last;
            let expected = match whole {
                RangeAnswer::Parts(parts) => Some(parts).filter(|parts| parts.iter().all(is_stored)),
                RangeAnswer::Whole | RangeAnswer::Unsatisfiable => None,
            };
            assert_eq!(from_part, expected, "a part answers what the whole would");
        }
    }
    if let [Some(one), Some(other)] = extents {
        assert_joined(&response, one, other);
    }
}

/// `answer` against the model, octet by octet.
fn assert_answer_is_what_was_asked(range: &[u8], complete: u64, answer: &RangeAnswer) {
    let model = std::str::from_utf8(range).ok().and_then(|range| wanted_octets(range, complete));
    let is_answered = |(_, count, sum): &(_, usize, u64)| *count <= RANGES_MAX && *sum <= complete;
    let Some((wanted, ..)) = model.filter(is_answered).filter(|_| complete > 0) else {
        assert_eq!(*answer, RangeAnswer::Whole);
        return;
    };
    let mut answered = vec![false; wanted.len()];
    match answer {
        RangeAnswer::Whole => panic!("a valid range was ignored"),
        RangeAnswer::Unsatisfiable => {}
        RangeAnswer::Parts(parts) => {
            assert!(!parts.is_empty());
            for part in parts {
                let octets = usize::try_from(part.first).unwrap()..=usize::try_from(part.last).unwrap();
                assert!(octets.clone().all(|octet| !answered[octet]), "an octet is sent twice");
                let is_end = |octet: Option<usize>| octet.and_then(|octet| wanted.get(octet)) != Some(&true);
                assert!(
                    is_end(octets.start().checked_sub(1)) && is_end(Some(octets.end() + 1)),
                    "cut in two"
                );
                answered[octets].fill(true);
            }
        }
    }
    assert_eq!(answered, wanted);
}

/// A multipart answer is built as a sender would and read as a receiver would.
fn assert_multipart_can_be_taken_apart(complete: u64, parts: &[ByteRange]) {
    let whole: Vec<u8> = (0..complete).map(|octet| b'A' + (octet % 26) as u8).collect();
    let octets = |part: &ByteRange| &whole[part.first as usize..=part.last as usize];
    let layout = multipart_layout("xyz", Some(b"text/plain"), complete, parts);
    let mut content = Vec::new();
    for (head, part) in layout.heads.iter().zip(parts) {
        content.extend_from_slice(head);
        content.extend_from_slice(octets(part));
    }
    content.extend_from_slice(&layout.end);
    assert_eq!(content.len() as u64, layout.content_bytes);

    let text = String::from_utf8(content).expect("the content is ASCII");
    let body = text.strip_suffix("\r\n--xyz--\r\n").expect("it ends by the closing delimiter");
    let mut received = body.split("\r\n--xyz\r\n");
    assert_eq!(received.next(), Some(""), "nothing goes before the first delimiter");
    for part in parts {
        let (head, body) =
            received.next().and_then(|part| part.split_once("\r\n\r\n")).expect("a head and a body");
        let mut lines = head.split("\r\n");
        assert_eq!(lines.next(), Some("Content-Type: text/plain"));
        let extent = lines.next().and_then(|line| line.strip_prefix("Content-Range: ")).expect("an extent");
        assert_eq!(ContentRange::parse(extent.as_bytes()), Some(part.of_complete(complete)));
        assert_eq!((lines.next(), body.as_bytes()), (None, octets(part)));
    }
    assert_eq!(received.next(), None);
}

/// Joining does not depend on the order and covers both parts, and only under a strong entity tag.
fn assert_joined(response: &ResponseHead, one: ContentRange, other: ContentRange) {
    let joined = joined_extent((response, one), (response, other));
    assert_eq!(joined, joined_extent((response, other), (response, one)));
    let Some(joined) = joined else { return };
    assert!(response.fields.first("ETag").is_some_and(|tag| tag.starts_with(b"\"")));
    assert_eq!((joined.first, joined.last), (one.first.min(other.first), one.last.max(other.last)));
    assert!(joined.bytes() <= one.bytes().saturating_add(other.bytes()), "no octet in it is unknown");
    assert!(
        [one.complete, other.complete].iter().flatten().all(|complete| joined.complete == Some(*complete))
    );
    assert_eq!(ContentRange::parse(&joined.value()), Some(joined));
}

/// The first line as a structured field of each kind, the others as targets under it as `No-Vary-Search`.
pub(crate) fn structured(octets: &[u8]) {
    let mut lines = octets.split(|&byte| byte == b'\n');
    let value = lines.next().unwrap_or_default();
    let twice = [value, b", ", value].concat();
    let twice_fits = 2 * value.split(|&byte| byte == b',').count() <= MEMBERS_MAX;

    let dictionary = parse_dictionary(value);
    if let Some(members) = &dictionary {
        assert!(value.iter().all(|&byte| byte == b'\t' || matches!(byte, b' '..=b'~')));
        let text: Vec<_> = members.iter().map(|(key, value)| (key, written_value(value))).collect();
        let text: Vec<_> =
            text.iter().map(|(key, value)| [key, &b"="[..], value.as_bytes()].concat()).collect();
        assert_eq!(parse_dictionary(&text.join(&b", "[..])), dictionary, "written and read again");
        let keys: Vec<_> = members.iter().map(|(key, _)| key).collect();
        assert!((1..keys.len()).all(|place| !keys[..place].contains(&keys[place])), "a key is there twice");
        if !members.is_empty() && twice_fits {
            assert_eq!(parse_dictionary(&twice), dictionary, "the last member of a key counts");
        }
    }
    let targeted = fields_of("CDN-Cache-Control", &[value]);
    let (_, is_targeted) = stated_directives(&targeted, &Policy::default_profile());
    assert_eq!(is_targeted, dictionary.is_some_and(|members| !members.is_empty()));

    let list = parse_list(value);
    if let Some(members) = list.as_ref().filter(|members| !members.is_empty()) {
        let text: Vec<_> = members.iter().map(written_value).collect();
        assert_eq!(parse_list(text.join(",").as_bytes()), list, "written and read again");
        if twice_fits {
            assert_eq!(parse_list(&twice), Some([&members[..], members].concat()));
        }
    }
    assert_groups(value, list.as_deref().unwrap_or_default());
    assert_no_vary_search(value, &lines.collect::<Vec<_>>());
}

/// `Cache-Groups` names the strings of a list of strings.
fn assert_groups(value: &[u8], members: &[Value]) {
    let found = groups(&fields_of("Cache-Groups", &[value]));
    assert!(found.len() <= GROUPS_MAX && found.is_sorted_by(|one, next| one < next));
    assert!(found.iter().all(|group| group.len() <= GROUP_BYTES_MAX));
    let all_strings = members.iter().all(|member| matches!(member, Value::String(_)));
    assert!(found.is_empty() || all_strings);
    for group in &found {
        assert!(members.contains(&Value::String(group.to_vec())));
    }
    if all_strings && members.len() <= GROUPS_MAX {
        let is_found = |group: &[u8]| group.len() > GROUP_BYTES_MAX || found.iter().any(|one| one == group);
        assert!(members.iter().all(|member| matches!(member, Value::String(group) if is_found(group))));
    }
}

/// Canonical targets are equal exactly where the model calls the targets equivalent.
fn assert_no_vary_search(value: &[u8], targets: &[&[u8]]) {
    let rule = NoVarySearch::of(&fields_of("No-Vary-Search", &[value]));
    let model = SearchVariance::of(value);
    assert_eq!(rule.is_some(), model.is_some());
    let (Some(rule), Some(model)) = (rule, model) else { return };
    for target in targets {
        let canonical = rule.canonical(target);
        assert_eq!(rule.canonical(&canonical), canonical, "canonical already");
        assert!(model.equivalent(target, &canonical), "the canonical form is equivalent");
        for other in targets {
            let is_equal = rule.canonical(other) == canonical;
            assert_eq!(is_equal, model.equivalent(target, other), "{target:?} and {other:?} under {model:?}");
        }
    }
}

fn fields_of(name: &'static str, lines: &[&[u8]]) -> Fields {
    let mut fields = Fields::new();
    lines.iter().for_each(|line| fields.push(name, line.to_vec()));
    fields
}

/// Lines of `Name: value` as a request's fields.
fn client(lines: &[&[u8]]) -> Fields {
    let mut fields = Fields::new();
    for line in lines {
        let mut halves = line.splitn(2, |&byte| byte == b':').map(|half| half.trim_ascii().to_vec());
        fields.push(halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
    }
    fields
}

/// Whether a quoted string opens in the line and does not close.
fn ends_in_quotes(line: &[u8]) -> bool {
    let (mut quoted, mut octets) = (false, line.iter());
    while let Some(octet) = octets.next() {
        match octet {
            b'\\' if quoted => drop(octets.next()),
            b'"' => quoted = !quoted,
            _ => {}
        }
    }
    quoted
}

/// The directives as one line of `Cache-Control`.
fn written(directives: &Directives) -> String {
    let mut members = Vec::new();
    for (name, secs) in [
        ("max-age", directives.max_age_secs),
        ("s-maxage", directives.s_maxage_secs),
        ("min-fresh", directives.min_fresh_secs),
        ("max-stale", directives.max_stale_secs),
        ("stale-while-revalidate", directives.stale_while_revalidate_secs),
        ("stale-if-error", directives.stale_if_error_secs),
    ] {
        members.extend(secs.map(|secs| format!("{name}={secs}")));
    }
    for (name, scope) in [("no-cache", &directives.no_cache), ("private", &directives.private)] {
        match scope {
            Scope::Nothing => {}
            Scope::Fields(names) => {
                let names = String::from_utf8(names.join(&b", "[..])).expect("tokens are ASCII");
                members.push(format!("{name}=\"{names}\""));
            }
            Scope::Everything => members.push(name.to_owned()),
        }
    }
    for (name, is_set) in [
        ("no-store", directives.no_store),
        ("public", directives.public),
        ("must-revalidate", directives.must_revalidate),
        ("proxy-revalidate", directives.proxy_revalidate),
        ("must-understand", directives.must_understand),
        ("no-transform", directives.no_transform),
        ("only-if-cached", directives.only_if_cached),
        ("immutable", directives.immutable),
    ] {
        members.extend(is_set.then(|| name.to_owned()));
    }
    members.join(", ")
}

/// The directives with field names in lower case.
fn folded(mut directives: Directives) -> Directives {
    for scope in [&mut directives.no_cache, &mut directives.private] {
        if let Scope::Fields(names) = scope {
            names.iter_mut().for_each(|name| *name = name.to_ascii_lowercase().into());
        }
    }
    directives
}

/// A value as RFC 9651 section 4.1 writes it; one that is not told apart becomes a decimal.
fn written_value(value: &Value) -> String {
    let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).expect("ASCII");
    match value {
        Value::Boolean(value) => format!("?{}", u8::from(*value)),
        Value::Integer(number) => number.to_string(),
        Value::String(string) => {
            format!("\"{}\"", text(string).replace('\\', "\\\\").replace('"', "\\\""))
        }
        Value::Token(token) => text(token),
        Value::InnerList(items) => {
            format!("({})", items.iter().map(written_value).collect::<Vec<_>>().join(" "))
        }
        Value::Other => "1.5".to_owned(),
    }
}
