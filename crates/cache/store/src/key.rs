//! Cache keys.
//!
//! Invariant: two requests share a key only if site, scheme, canonical host and target are equal.
//! These four parts are compared in full; a hash only finds candidates. No part has a default, so
//! no caller can omit one.

use bytes::Bytes;
use semantics::{canonical_host, canonical_target};

/// A configured site: its number in the resolved plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(pub u32);

/// The cache key of a page. It does not contain what selects a variant of the page: keyed cookies,
/// device classes and the fields that `Vary` names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    site: SiteId,
    https: bool,
    host: Bytes,
    target: Bytes,
}

impl Key {
    /// The key of a request to `site`. `host` is the value of `Host`; the key contains its
    /// [`canonical_host`]. `target` is the request target exactly as it is forwarded.
    pub fn new(site: SiteId, https: bool, host: &[u8], target: Bytes) -> Self {
        Self { site, https, host: Bytes::from(canonical_host(https, host)), target }
    }

    /// The site.
    pub const fn site(&self) -> SiteId {
        self.site
    }

    /// Whether visitors reach the page by https.
    pub const fn is_https(&self) -> bool {
        self.https
    }

    /// The host, in lower case, without a default port or a final dot.
    pub fn host(&self) -> &[u8] {
        &self.host
    }

    /// The request target.
    pub fn target(&self) -> &[u8] {
        &self.target
    }

    /// Whether both keys name the same page, even if the targets are percent-encoded differently.
    pub fn is_spelling_of(&self, other: &Self) -> bool {
        (self.site, self.https, &self.host) == (other.site, other.https, &other.host)
            && canonical_target(&self.target) == canonical_target(&other.target)
    }

    /// The host as [`Bytes`] that share the memory of this key.
    pub(crate) fn host_octets(&self) -> Bytes {
        self.host.clone()
    }

    /// The same key in its own allocations. A target is often a slice of a whole read buffer, which
    /// a stored key would keep alive.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self {
            site: self.site,
            https: self.https,
            host: Bytes::copy_from_slice(&self.host),
            target: Bytes::copy_from_slice(&self.target),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, SiteId};
    use bytes::Bytes;

    fn key(https: bool, host: &str, target: &'static str) -> Key {
        Key::new(SiteId(1), https, host.as_bytes(), Bytes::from_static(target.as_bytes()))
    }

    #[test]
    fn equivalent_hosts_have_one_key() {
        assert_eq!(key(false, "Example.org:80", "/"), key(false, "example.ORG", "/"));
        assert_eq!(key(true, "example.org:443", "/"), key(true, "example.org", "/"));
        assert_eq!(key(false, "example.org.:8080", "/"), key(false, "example.org:8080", "/"));
    }

    #[test]
    fn different_requests_have_different_keys() {
        let base = key(false, "example.org", "/a");
        assert_ne!(base, key(true, "example.org", "/a"));
        assert_ne!(base, key(false, "example.org:443", "/a"));
        assert_ne!(base, key(false, "example.com", "/a"));
        assert_ne!(base, key(false, "example.org", "/A"));
        assert_ne!(base, Key::new(SiteId(2), false, b"example.org", Bytes::from_static(b"/a")));
    }
}
