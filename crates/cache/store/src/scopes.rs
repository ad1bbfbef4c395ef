//! The attributes that many slots of a shard share, kept once: site, scheme, host and Vary rule.
//!
//! Invariant: a scope exists exactly while a slot is in it. Its number may then be reused.

use crate::key::{Key, SiteId};
use crate::weight::allocated;
use bytes::Bytes;
use platform::HashMap;
use semantics::VaryRule;

/// The scopes of one shard.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    entries: Vec<Option<ScopeEntry>>,
    ids: HashMap<MarkScope, u32>,
    free: Vec<u32>,
    bytes: usize,
}

/// One scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MarkScope {
    pub(crate) site: SiteId,
    pub(crate) https: bool,
    host: Bytes,
    pub(crate) rule: VaryRule,
}

#[derive(Debug)]
struct ScopeEntry {
    scope: MarkScope,
    slots: u32,
}

impl MarkScope {
    /// Whether the scope has the site, the scheme and the host of `key`.
    pub(crate) fn is_of(&self, key: &Key) -> bool {
        (self.site, self.https) == (key.site(), key.is_https()) && self.host == key.host()
    }

    pub(crate) fn host(&self) -> &[u8] {
        &self.host
    }

    /// The bytes that the scope costs, including its host and field names.
    fn bytes(&self) -> usize {
        let names = self.rule.names().iter().map(|name| allocated(name.len()) + size_of_val(name));
        SCOPE_BYTES + allocated(self.host.len()) + names.sum::<usize>()
    }
}

/// The bytes of two copies of a scope, its counter and its places in list and table, including the
/// space that these keep free.
const SCOPE_BYTES: usize = 384;

impl Scopes {
    /// Adds a slot to the scope of `key` and `rule`, which is created if it does not exist. Returns
    /// its number.
    pub(crate) fn enter(&mut self, key: &Key, rule: VaryRule) -> u32 {
        let scope = MarkScope { site: key.site(), https: key.is_https(), host: key.host_octets(), rule };
        if let Some(&id) = self.ids.get(&scope) {
            self.entry_mut(id).slots += 1;
            return id;
        }
        let scope = MarkScope { host: Bytes::copy_from_slice(&scope.host), ..scope };
        self.bytes += scope.bytes();
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            (self.entries.len() - 1) as u32
        });
        self.ids.insert(scope.clone(), id);
        let before = self.place_mut(id).replace(ScopeEntry { scope, slots: 1 });
        assert!(before.is_none(), "a free number has no scope");
        id
    }

    /// Removes a slot from its scope.
    pub(crate) fn leave(&mut self, id: u32) {
        let entry = self.entry_mut(id);
        entry.slots -= 1;
        if entry.slots > 0 {
            return;
        }
        if let Some(ScopeEntry { scope, .. }) = self.place_mut(id).take() {
            self.bytes -= scope.bytes();
            self.ids.remove(&scope);
            self.free.push(id);
        }
    }

    /// The scope of a slot. A missing scope must not read as "not invalidated".
    #[expect(clippy::expect_used, reason = "a scope exists while a slot is in it")]
    pub(crate) fn of(&self, id: u32) -> &MarkScope {
        let entry = self.entries.get(id as usize).and_then(Option::as_ref);
        &entry.expect("a scope exists while a slot is in it").scope
    }

    #[expect(clippy::expect_used, reason = "numbers come from this list")]
    fn place_mut(&mut self, id: u32) -> &mut Option<ScopeEntry> {
        self.entries.get_mut(id as usize).expect("the number comes from this list")
    }

    #[expect(clippy::expect_used, reason = "a scope exists while a slot is in it")]
    fn entry_mut(&mut self, id: u32) -> &mut ScopeEntry {
        self.place_mut(id).as_mut().expect("a scope exists while a slot is in it")
    }

    /// The number of slots in scopes that `is_meant` accepts.
    pub(crate) fn count(&self, is_meant: impl Fn(&MarkScope) -> bool) -> u64 {
        let meant = self.entries.iter().flatten().filter(|entry| is_meant(&entry.scope));
        meant.map(|entry| u64::from(entry.slots)).sum()
    }

    /// The hosts of the site's slots. A host occurs once for each of its scopes.
    pub(crate) fn hosts(&self, site: SiteId) -> impl Iterator<Item = &Bytes> {
        let scopes = self.entries.iter().flatten().map(|entry| &entry.scope);
        scopes.filter(move |scope| scope.site == site).map(|scope| &scope.host)
    }

    /// The bytes in use.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::Scopes;
    use crate::{Key, SiteId};
    use bytes::Bytes;
    use semantics::VaryRule;

    fn key(host: &str) -> Key {
        Key::new(SiteId(0), false, host.as_bytes(), Bytes::new())
    }

    #[test]
    fn scope_exists_while_a_slot_uses_it() {
        let mut scopes = Scopes::default();
        let rule = VaryRule::default;
        let a = scopes.enter(&key("a.test"), rule());
        let b = scopes.enter(&key("b.test"), rule());
        assert_eq!(scopes.enter(&key("a.test"), rule()), a);
        assert!(scopes.of(a).is_of(&key("a.test")) && scopes.of(b).is_of(&key("b.test")));
        let both = scopes.bytes();
        let hosts = |site| scopes.hosts(SiteId(site)).map(|host| host.to_vec()).collect::<Vec<_>>();
        assert_eq!((hosts(0), hosts(1)), (vec![b"a.test".to_vec(), b"b.test".to_vec()], Vec::new()));
        scopes.leave(a);
        assert_eq!(scopes.bytes(), both);
        scopes.leave(a);
        assert!(scopes.bytes() < both);
        assert_eq!(scopes.enter(&key("c.test"), rule()), a);
        scopes.leave(a);
        scopes.leave(b);
        assert_eq!((scopes.bytes(), scopes.ids.len()), (0, 0));
    }

    #[test]
    #[should_panic(expected = "a scope exists while a slot is in it")]
    fn missing_scope_is_a_broken_invariant() {
        let mut scopes = Scopes::default();
        let id = scopes.enter(&key("a.test"), VaryRule::default());
        scopes.leave(id);
        scopes.of(id);
    }
}
