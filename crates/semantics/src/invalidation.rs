//! What an unsafe request makes unusable (RFC 9111 section 4.4).
//!
//! Invariant: only targets of the request's own origin are named, so that no site can empty another's store.

use bytes::Bytes;
use message::{Method, ResponseHead, names};

/// The targets, in origin-form, of the same origin whose stored responses a non-error answer to an unsafe method
/// makes unusable: the request's own, and what `Location` and `Content-Location` name. Each once; empty if the
/// method is safe or the answer is an error.
///
/// `https`, `host` and `target` are the request's effective scheme, its `Host` and its target in origin-form.
pub fn invalidated_targets(
    method: &Method,
    https: bool,
    host: &[u8],
    target: &[u8],
    answer: &ResponseHead,
) -> Vec<Bytes> {
    let succeeded = (200..400).contains(&answer.status.code());
    if method.is_safe() || !succeeded {
        return Vec::new();
    }
    let mut targets = vec![Bytes::copy_from_slice(target)];
    for name in [names::LOCATION, names::CONTENT_LOCATION] {
        let resolved = answer.fields.only(name).and_then(|reference| resolve(https, host, target, reference));
        if let Some(resolved) = resolved.map(Bytes::from).filter(|resolved| !targets.contains(resolved)) {
            targets.push(resolved);
        }
    }
    targets
}

/// The target in origin-form that a reference in a message about `target` names (RFC 3986 section 5.2); `None` if it
/// is of another origin than `host` under this scheme, or cannot be read.
pub(crate) fn resolve(https: bool, host: &[u8], target: &[u8], reference: &[u8]) -> Option<Vec<u8>> {
    let reference = reference.split(|&byte| byte == b'#').next().unwrap_or_default();
    let reference = match scheme_of(reference) {
        Some((scheme, rest)) => {
            let own: &[u8] = if https { b"https" } else { b"http" };
            // What has our scheme but no authority is not of our form.
            if !scheme.eq_ignore_ascii_case(own) || !rest.starts_with(b"//") {
                return None;
            }
            rest
        }
        None => reference,
    };
    if let Some(rest) = reference.strip_prefix(b"//") {
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let same = without_port(https, authority).eq_ignore_ascii_case(without_port(https, host));
        return same.then(|| rooted(path));
    }
    let (base, _) = split_query(target);
    Some(match reference.first() {
        None => target.to_vec(),
        Some(b'/') => rooted(reference),
        Some(b'?') => [base, reference].concat(),
        Some(_) => {
            let directory = base.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
            rooted(&[base.get(..directory).unwrap_or_default(), reference].concat())
        }
    })
}

/// The scheme of a reference and what follows its colon.
fn scheme_of(reference: &[u8]) -> Option<(&[u8], &[u8])> {
    let (scheme, rest) = reference.split_at(reference.iter().position(|byte| b":/?#".contains(byte))?);
    Some((scheme, rest.strip_prefix(b":")?))
}

/// The authority without the port that its scheme has anyway.
fn without_port(https: bool, authority: &[u8]) -> &[u8] {
    let port: &[u8] = if https { b":443" } else { b":80" };
    authority.strip_suffix(port).or_else(|| authority.strip_suffix(b":")).unwrap_or(authority)
}

/// A path and its query as they stand in a target: with a slash at the front, and without dot segments (RFC 3986
/// section 5.2.4).
fn rooted(path: &[u8]) -> Vec<u8> {
    let (path, query) = split_query(path);
    let mut kept: Vec<&[u8]> = Vec::new();
    let segments: Vec<_> = path.strip_prefix(b"/").unwrap_or(path).split(|&byte| byte == b'/').collect();
    for (index, &segment) in segments.iter().enumerate() {
        let is_last = index + 1 == segments.len();
        match segment {
            b"." => {}
            b".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
        // A path that ends in a dot segment names the directory.
        if is_last && matches!(segment, b"." | b"..") {
            kept.push(b"");
        }
    }
    [b"/", &kept.join(&b'/')[..], query].concat()
}

/// The path, and the query with its question mark.
fn split_query(target: &[u8]) -> (&[u8], &[u8]) {
    target.split_at(target.iter().position(|&byte| byte == b'?').unwrap_or(target.len()))
}
