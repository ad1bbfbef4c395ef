//! One shard of the index: slots with one variant each, chained by the hash of their key, and the order in
//! which they go when room is needed.
//!
//! Invariant: the weight of all slots, scopes and of the eviction order's own memory never exceeds the shard's budget
//! once something is stored; and a chain is ordered from the newest variant to the oldest. The lock around a shard is
//! the store's.

use crate::lingering::Lingering;
use crate::s3fifo::S3Fifo;
use crate::scopes::Scopes;
use crate::slot::{NONE, SLOT_BYTES, Slot};
use crate::slowly::push_slowly;
use crate::{Key, Lookup, Object};
use hashbrown::HashTable;
use message::Fields;
use semantics::{VariantKey, VaryRule};
use std::sync::Arc;

/// One shard.
#[derive(Debug)]
pub(crate) struct Shard {
    /// The newest slot of each chain, by the hash of its key.
    index: HashTable<u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    scopes: Scopes,
    order: S3Fifo,
    bytes_max: usize,
    body_bytes_max: u64,
    variants_max: usize,
    counters: ShardCounters,
    lingering: Lingering,
}

/// What a shard counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShardCounters {
    pub(crate) objects: u64,
    pub(crate) published: u64,
    pub(crate) evicted: u64,
}

/// What is published.
pub(crate) struct Entry<'a> {
    pub(crate) hash: u64,
    pub(crate) key: &'a Key,
    pub(crate) rule: VaryRule,
    pub(crate) variant: VariantKey,
    pub(crate) object: Arc<Object>,
}

impl Shard {
    /// An empty shard for `bytes_max` octets, of bodies of at most `body_bytes_max` and at most `variants_max`
    /// variants a key. What leaves it while it is read is counted in `lingering`.
    pub(crate) fn new(
        bytes_max: usize,
        body_bytes_max: u64,
        variants_max: usize,
        lingering: Lingering,
    ) -> Self {
        Self {
            index: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            scopes: Scopes::default(),
            order: S3Fifo::new(bytes_max),
            bytes_max,
            body_bytes_max,
            variants_max,
            counters: ShardCounters::default(),
            lingering,
        }
    }

    /// The octets in use. Slots that are free at the moment are in memory too.
    pub(crate) fn bytes(&self) -> usize {
        self.order.bytes() + self.scopes.bytes() + self.slots.len() * SLOT_BYTES
    }

    pub(crate) const fn counters(&self) -> ShardCounters {
        self.counters
    }

    /// The newest variant under `key` that a request with `fields` selects; it counts as used.
    pub(crate) fn lookup(&mut self, hash: u64, key: &Key, fields: &Fields) -> Lookup {
        let (outcome, id) = self.find(hash, key, fields);
        if let Some(id) = id {
            self.order.touch(id);
        }
        outcome
    }

    /// The same, without counting as a use.
    pub(crate) fn peek(&self, hash: u64, key: &Key, fields: &Fields) -> Lookup {
        self.find(hash, key, fields).0
    }

    fn find(&self, hash: u64, key: &Key, fields: &Fields) -> (Lookup, Option<u32>) {
        let mut outcome = Lookup::Absent;
        let mut at = self.first(hash);
        while let Some(slot) = self.slot(at) {
            if let Some(scope) = self.scopes.get(slot.scope)
                && slot.target() == key.target()
                && scope.is_of(key)
            {
                if scope.rule.matches_octets(fields, slot.variant()) {
                    return (Lookup::Found(Arc::clone(&slot.object)), Some(at));
                }
                outcome = Lookup::NoVariant;
            }
            at = slot.next;
        }
        (outcome, None)
    }

    /// What the variants under `key` vary on, together.
    pub(crate) fn rule(&self, hash: u64, key: &Key) -> VaryRule {
        let scopes =
            self.variants(hash, key).into_iter().filter_map(|id| self.scopes.get(self.slot(id)?.scope));
        scopes.fold(VaryRule::default(), |all, scope| all.union(&scope.rule))
    }

    /// Stores an entry in place of the same variant, if there is one; makes room first. Says no if the entry
    /// alone exceeds a limit; the variant that stood there is gone all the same, as it is out of date.
    pub(crate) fn publish(&mut self, entry: Entry<'_>) -> bool {
        let variants = self.variants(entry.hash, entry.key);
        let same = |id: &u32| {
            let slot = self.slot(*id);
            slot.is_some_and(|slot| {
                slot.variant() == entry.variant.octets()
                    && self.scopes.get(slot.scope).is_some_and(|scope| scope.rule == entry.rule)
            })
        };
        let replaced = variants.iter().copied().find(same);
        // Newest first: past the limit, the oldest goes.
        let surplus = if variants.len() >= self.variants_max { variants.last().copied() } else { None };
        if let Some(id) = replaced.or(surplus) {
            self.drop_slot(id);
        }
        let Entry { hash, key, rule, variant, object } = entry;
        let scope = self.scopes.enter(key, rule);
        let slot = Slot::new(hash, scope, key.target(), variant.octets(), object);
        let bytes = slot.bytes();
        let fits = bytes <= self.bytes_max && slot.object.content_bytes() <= self.body_bytes_max;
        if !fits || !self.make_room(bytes) {
            self.lingering.count(&slot.object);
            self.scopes.leave(scope);
            return false;
        }
        self.add(slot, bytes);
        true
    }

    /// Removes every variant under `key`; says how many there were.
    pub(crate) fn remove(&mut self, hash: u64, key: &Key) -> usize {
        let ids = self.variants(hash, key);
        ids.iter().for_each(|id| self.drop_slot(*id));
        ids.len()
    }

    /// Evicts until `bytes` more fit; false if they cannot.
    fn make_room(&mut self, bytes: usize) -> bool {
        loop {
            let place = if self.free.is_empty() { SLOT_BYTES } else { 0 };
            if self.bytes().saturating_add(bytes).saturating_add(place) <= self.bytes_max {
                return true;
            }
            let slots = &self.slots;
            let hash_of =
                |id: u32| slots.get(id as usize).and_then(Option::as_ref).map_or(0, |slot| slot.hash);
            let Some(id) = self.order.evict(hash_of) else { return false };
            self.take_slot(id);
            self.counters.evicted += 1;
        }
    }

    fn add(&mut self, mut slot: Slot, bytes: usize) {
        let hash = slot.hash;
        let id = self.free.pop().unwrap_or_else(|| {
            push_slowly(&mut self.slots, None);
            // A slot costs at least SLOT_BYTES, so 32 bits count more slots than fit into memory.
            (self.slots.len() - 1) as u32
        });
        let Self { index, slots, .. } = self;
        let hash_of = |id: &u32| slots.get(*id as usize).and_then(Option::as_ref).map_or(0, |slot| slot.hash);
        match index.find_mut(hash, |id| hash_of(id) == hash) {
            Some(first) => slot.next = std::mem::replace(first, id),
            None => {
                index.insert_unique(hash, id, hash_of);
            }
        }
        if let Some(place) = slots.get_mut(id as usize) {
            *place = Some(slot);
        }
        self.order.insert(id, hash, bytes);
        self.counters.objects += 1;
        self.counters.published += 1;
    }

    /// The first slot of a chain; [`NONE`] if there is no such chain.
    fn first(&self, hash: u64) -> u32 {
        let is_same = |id: &u32| self.slot(*id).is_some_and(|slot| slot.hash == hash);
        self.index.find(hash, is_same).copied().unwrap_or(NONE)
    }

    /// The slots of `key`, newest first.
    fn variants(&self, hash: u64, key: &Key) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut at = self.first(hash);
        while let Some(slot) = self.slot(at) {
            if slot.target() == key.target()
                && self.scopes.get(slot.scope).is_some_and(|scope| scope.is_of(key))
            {
                ids.push(at);
            }
            at = slot.next;
        }
        ids
    }

    fn slot(&self, id: u32) -> Option<&Slot> {
        self.slots.get(id as usize)?.as_ref()
    }

    fn drop_slot(&mut self, id: u32) {
        self.order.remove(id);
        self.take_slot(id);
    }

    /// Empties a slot that the eviction order no longer has, and mends its chain.
    fn take_slot(&mut self, id: u32) {
        self.unchain(id);
        let Some(slot) = self.slots.get_mut(id as usize).and_then(Option::take) else { return };
        self.lingering.count(&slot.object);
        self.scopes.leave(slot.scope);
        self.counters.objects -= 1;
        if self.counters.objects > 0 {
            push_slowly(&mut self.free, id);
            return;
        }
        // Nothing refers to a slot any more: their memory is free for other things than slots.
        (self.index, self.slots, self.free) = (HashTable::new(), Vec::new(), Vec::new());
        self.order.clear();
    }

    /// Takes a slot out of its chain.
    fn unchain(&mut self, id: u32) {
        let Some((hash, next)) = self.slot(id).map(|slot| (slot.hash, slot.next)) else { return };
        let Self { index, slots, .. } = self;
        if let Ok(mut first) = index.find_entry(hash, |first| *first == id) {
            match next {
                NONE => drop(first.remove()),
                _ => *first.get_mut() = next,
            }
            return;
        }
        let mut at = index
            .find(hash, |first| {
                slots.get(*first as usize).and_then(Option::as_ref).is_some_and(|slot| slot.hash == hash)
            })
            .copied();
        while let Some(before) = at.and_then(|id| slots.get_mut(id as usize)?.as_mut()) {
            if before.next == id {
                before.next = next;
                return;
            }
            at = Some(before.next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Lingering, Shard};
    use crate::{Body, Key, Lookup, Object, SiteId};
    use bytes::Bytes;
    use message::{Fields, ResponseHead, Status};
    use semantics::{Freshness, Moment, Policy, VaryRule};
    use std::sync::Arc;
    use std::time::Duration;

    fn key(name: &'static str) -> Key {
        Key::new(SiteId(0), false, b"example.org", Bytes::from_static(name.as_bytes()))
    }

    fn fields(language: &'static str) -> Fields {
        let mut fields = Fields::new();
        fields.push("Accept-Language", language);
        fields
    }

    fn object(body: &[u8]) -> Arc<Object> {
        let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
        Arc::new(Object::new(&ResponseHead::new(Status::OK), b"", Body::copy_of(body), freshness))
    }

    fn publish(
        shard: &mut Shard,
        (hash, name): (u64, &'static str),
        (vary, language): (&'static str, &'static str),
        object: Arc<Object>,
    ) -> bool {
        let mut response = Fields::new();
        response.push("Vary", vary);
        let rule = VaryRule::from_response(&response, &Policy::default_profile()).unwrap();
        let variant = rule.key(&fields(language));
        shard.publish(Entry { hash, key: &key(name), rule, variant, object })
    }

    fn body(shard: &mut Shard, hash: u64, name: &'static str, language: &'static str) -> Option<String> {
        match shard.lookup(hash, &key(name), &fields(language)) {
            Lookup::Found(object) => {
                Some(String::from_utf8(object.content().collect::<Vec<_>>().concat()).unwrap())
            }
            Lookup::NoVariant => Some("other variant".to_owned()),
            Lookup::Absent => None,
        }
    }

    #[test]
    fn keys_with_one_hash_stay_apart() {
        let mut shard = Shard::new(1 << 20, 1 << 20, 4, Lingering::default());
        assert!(publish(&mut shard, (7, "/a"), ("", ""), object(b"a")));
        assert!(publish(&mut shard, (7, "/b"), ("", ""), object(b"b")));
        assert!(publish(&mut shard, (7, "/c"), ("", ""), object(b"c")));
        assert_eq!(body(&mut shard, 7, "/a", "").unwrap(), "a");
        assert_eq!(body(&mut shard, 7, "/d", ""), None);
        assert_eq!(shard.remove(7, &key("/b")), 1);
        assert_eq!(body(&mut shard, 7, "/b", ""), None);
        assert_eq!(body(&mut shard, 7, "/a", "").unwrap(), "a");
        assert_eq!(shard.remove(7, &key("/c")), 1);
        assert_eq!(shard.remove(7, &key("/a")), 1);
        assert_eq!((shard.index.len(), shard.bytes()), (0, 0));
    }

    #[test]
    fn the_newest_matching_variant_answers() {
        let mut shard = Shard::new(1 << 20, 1 << 20, 4, Lingering::default());
        assert!(publish(&mut shard, (1, "/"), ("Accept-Language", "de"), object(b"de")));
        assert!(publish(&mut shard, (1, "/"), ("Accept-Language", "en"), object(b"en")));
        assert_eq!(body(&mut shard, 1, "/", "de").unwrap(), "de");
        assert_eq!(body(&mut shard, 1, "/", "fr").unwrap(), "other variant");
        assert!(publish(&mut shard, (1, "/"), ("", ""), object(b"all")));
        assert_eq!(body(&mut shard, 1, "/", "de").unwrap(), "all");
        assert_eq!(shard.rule(1, &key("/")).names(), ["accept-language"]);
        assert!(publish(&mut shard, (1, "/"), ("Accept-Language", "de"), object(b"DE")));
        assert_eq!(body(&mut shard, 1, "/", "de").unwrap(), "DE");
        assert_eq!(shard.remove(1, &key("/")), 3);
    }

    #[test]
    fn past_the_limit_of_variants_the_oldest_goes() {
        let mut shard = Shard::new(1 << 20, 1 << 20, 2, Lingering::default());
        for (language, text) in [("de", "de"), ("en", "en"), ("fr", "fr")] {
            assert!(publish(&mut shard, (1, "/"), ("Accept-Language", language), object(text.as_bytes())));
        }
        assert_eq!(body(&mut shard, 1, "/", "de").unwrap(), "other variant");
        assert_eq!(body(&mut shard, 1, "/", "fr").unwrap(), "fr");
        assert_eq!(shard.counters().objects, 2);
    }

    #[test]
    fn what_exceeds_a_limit_is_refused_and_the_outdated_one_goes() {
        for (bytes_max, body_bytes_max) in [(2_000, 1 << 20), (1 << 20, 1_000)] {
            let mut shard = Shard::new(bytes_max, body_bytes_max, 2, Lingering::default());
            assert!(publish(&mut shard, (1, "/"), ("", ""), object(b"small")));
            assert!(!publish(&mut shard, (1, "/"), ("", ""), object(&[b'x'; 4_000])));
            assert_eq!(body(&mut shard, 1, "/", ""), None);
            assert_eq!(shard.bytes(), 0);
        }
    }

    #[test]
    fn replacing_is_no_growth() {
        let mut shard = Shard::new(1 << 20, 1 << 20, 2, Lingering::default());
        assert!(publish(&mut shard, (1, "/"), ("", ""), object(b"0123456789")));
        let bytes = shard.bytes();
        for _ in 0..100 {
            assert!(publish(&mut shard, (1, "/"), ("", ""), object(b"9876543210")));
        }
        assert_eq!((shard.bytes(), shard.slots.len()), (bytes, 1));
    }

    #[test]
    fn what_leaves_while_it_is_read_is_counted_until_it_is_let_go() {
        let (lingering, body) = (Lingering::default(), vec![b'x'; 1_000]);
        let mut shard = Shard::new(1 << 20, 1 << 20, 4, lingering.clone());
        for round in 0..2 {
            assert!(publish(&mut shard, (1, "a"), ("", ""), object(&body)));
            let Lookup::Found(read) = shard.lookup(1, &key("a"), &fields("")) else { panic!("not stored") };
            assert_eq!(lingering.bytes(), 0);
            match round {
                0 => assert_eq!(shard.remove(1, &key("a")), 1),
                _ => assert!(publish(&mut shard, (1, "a"), ("", ""), object(b"new"))),
            }
            assert!(lingering.bytes() > 1_000);
            drop(read);
            assert_eq!(lingering.bytes(), 0);
        }
        assert_eq!(shard.remove(1, &key("a")), 1);
        assert_eq!(lingering.bytes(), 0, "nobody read it");
        let mut tiny = Shard::new(100, 1 << 20, 4, lingering.clone());
        let read = object(&body);
        assert!(!publish(&mut tiny, (1, "a"), ("", ""), Arc::clone(&read)) && lingering.bytes() > 1_000);
        drop(read);
        assert_eq!(lingering.bytes(), 0);
    }
}
