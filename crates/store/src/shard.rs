//! One shard of the index: slots with one variant each, chained by the hash of their key, and the order in
//! which they go when room is needed.
//!
//! Invariant: the weight of all slots and of the eviction order's own memory never exceeds the shard's budget,
//! also not for a moment while something is stored; and a chain is ordered from the newest variant to the
//! oldest. The lock around a shard is the store's.

use crate::hash::PrehashedState;
use crate::lingering::Lingering;
use crate::s3fifo::S3Fifo;
use crate::{Key, Lookup, Object};
use message::Fields;
use semantics::{VariantKey, VaryRule};
use std::collections::HashMap;
use std::sync::Arc;

/// What a slot costs beside the object, key and variant in it: the slot, its node in the eviction order, its
/// entry in the index with the room a hash table keeps free, the counters of two `Arc`s and the allocator's
/// own bookkeeping for some ten allocations.
pub(crate) const SLOT_BYTES: usize = 512;

/// One shard.
#[derive(Debug)]
pub(crate) struct Shard {
    /// Hash of a key to the newest slot of its chain.
    index: HashMap<u64, u32, PrehashedState>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
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

#[derive(Debug)]
struct Slot {
    hash: u64,
    key: Key,
    rule: VaryRule,
    variant: VariantKey,
    object: Arc<Object>,
    /// The next older slot whose key has the same hash.
    next: Option<u32>,
}

/// What is published.
pub(crate) struct Entry {
    pub(crate) hash: u64,
    pub(crate) key: Key,
    pub(crate) rule: VaryRule,
    pub(crate) variant: VariantKey,
    pub(crate) object: Arc<Object>,
}

impl Entry {
    /// The octets of memory the entry occupies once stored.
    pub(crate) fn bytes(&self) -> usize {
        let names: usize = self.rule.names().iter().map(|name| name.len() + size_of_val(name)).sum();
        (SLOT_BYTES + self.key.bytes() + self.variant.len() + names).saturating_add(self.object.bytes())
    }
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
            index: HashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            order: S3Fifo::new(bytes_max),
            bytes_max,
            body_bytes_max,
            variants_max,
            counters: ShardCounters::default(),
            lingering,
        }
    }

    /// The octets in use.
    pub(crate) fn bytes(&self) -> usize {
        self.order.bytes()
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
        let mut at = self.index.get(&hash).copied();
        while let Some((id, slot)) = at.and_then(|id| Some((id, self.slot(id)?))) {
            at = slot.next;
            if slot.key != *key {
                continue;
            }
            if slot.rule.matches(fields, &slot.variant) {
                return (Lookup::Found(Arc::clone(&slot.object)), Some(id));
            }
            outcome = Lookup::NoVariant;
        }
        (outcome, None)
    }

    /// What the variants under `key` vary on, together.
    pub(crate) fn rule(&self, hash: u64, key: &Key) -> VaryRule {
        let ids = self.variants(hash, key);
        ids.iter()
            .filter_map(|id| self.slot(*id))
            .fold(VaryRule::default(), |all, slot| all.union(&slot.rule))
    }

    /// Stores an entry in place of the same variant, if there is one; makes room first. Says no if the entry
    /// alone exceeds a limit; the variant that stood there is gone all the same, as it is out of date.
    pub(crate) fn publish(&mut self, entry: Entry) -> bool {
        let variants = self.variants(entry.hash, &entry.key);
        let same = |id: &u32| {
            self.slot(*id).is_some_and(|slot| slot.rule == entry.rule && slot.variant == entry.variant)
        };
        let replaced = variants.iter().copied().find(same);
        // Newest first: past the limit, the oldest goes.
        let surplus = if variants.len() >= self.variants_max { variants.last().copied() } else { None };
        if let Some(id) = replaced.or(surplus) {
            self.drop_slot(id);
        }
        let bytes = entry.bytes();
        let fits = bytes <= self.bytes_max && entry.object.body().len() <= self.body_bytes_max;
        if !fits || !self.make_room(bytes) {
            self.lingering.count(&entry.object);
            return false;
        }
        self.add(entry, bytes);
        true
    }

    /// Removes every variant under `key`; says how many there were.
    pub(crate) fn remove(&mut self, hash: u64, key: &Key) -> usize {
        let variants = self.variants(hash, key);
        for id in &variants {
            self.drop_slot(*id);
        }
        variants.len()
    }

    /// Evicts until `bytes` more fit.
    fn make_room(&mut self, bytes: usize) -> bool {
        while self.order.bytes() + bytes > self.bytes_max {
            let Some(id) = self.order.evict() else { return false };
            self.take_slot(id);
            self.counters.evicted += 1;
        }
        true
    }

    fn add(&mut self, entry: Entry, bytes: usize) {
        let Entry { hash, key, rule, variant, object } = entry;
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // A slot costs at least SLOT_BYTES, so 32 bits count more slots than fit into memory.
            (self.slots.len() - 1) as u32
        });
        let next = self.index.insert(hash, id);
        if let Some(place) = self.slots.get_mut(id as usize) {
            *place = Some(Slot { hash, key, rule, variant, object, next });
        }
        self.order.insert(id, hash, bytes);
        self.counters.objects += 1;
        self.counters.published += 1;
    }

    /// The slots of `key`, newest first.
    fn variants(&self, hash: u64, key: &Key) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut at = self.index.get(&hash).copied();
        while let Some((id, slot)) = at.and_then(|id| Some((id, self.slot(id)?))) {
            if slot.key == *key {
                ids.push(id);
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
        let Some(slot) = self.slots.get_mut(id as usize).and_then(Option::take) else { return };
        self.lingering.count(&slot.object);
        self.free.push(id);
        self.counters.objects -= 1;
        let Some(&first) = self.index.get(&slot.hash) else { return };
        if first == id {
            match slot.next {
                Some(next) => self.index.insert(slot.hash, next),
                None => self.index.remove(&slot.hash),
            };
            return;
        }
        let mut at = Some(first);
        while let Some(before) = at.and_then(|id| self.slots.get_mut(id as usize)?.as_mut()) {
            if before.next == Some(id) {
                before.next = slot.next;
                return;
            }
            at = before.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Lingering, SLOT_BYTES, Shard};
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

    fn entry(
        hash: u64,
        name: &'static str,
        vary: &'static str,
        language: &'static str,
        body: &[u8],
    ) -> Entry {
        let mut response = Fields::new();
        response.push("Vary", vary);
        let rule = VaryRule::from_response(&response, &Policy::default_profile()).unwrap();
        let variant = rule.key(&fields(language));
        let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
        let object = Object::new(&ResponseHead::new(Status::OK), b"", Body::copy_of(body), freshness);
        Entry { hash, key: key(name), rule, variant, object: Arc::new(object) }
    }

    fn body(shard: &mut Shard, hash: u64, name: &'static str, language: &'static str) -> Option<String> {
        match shard.lookup(hash, &key(name), &fields(language)) {
            Lookup::Found(object) => Some(String::from_utf8(object.body().chunks().concat()).unwrap()),
            Lookup::NoVariant => Some("other variant".to_owned()),
            Lookup::Absent => None,
        }
    }

    #[test]
    fn keys_with_one_hash_stay_apart() {
        let mut shard = Shard::new(1 << 20, 1 << 20, 4, Lingering::default());
        assert!(shard.publish(entry(7, "/a", "", "", b"a")));
        assert!(shard.publish(entry(7, "/b", "", "", b"b")));
        assert!(shard.publish(entry(7, "/c", "", "", b"c")));
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
        assert!(shard.publish(entry(1, "/", "Accept-Language", "de", b"de")));
        assert!(shard.publish(entry(1, "/", "Accept-Language", "en", b"en")));
        assert_eq!(body(&mut shard, 1, "/", "de").unwrap(), "de");
        assert_eq!(body(&mut shard, 1, "/", "fr").unwrap(), "other variant");
        assert!(shard.publish(entry(1, "/", "", "", b"all")));
        assert_eq!(body(&mut shard, 1, "/", "de").unwrap(), "all");
        assert_eq!(shard.rule(1, &key("/")).names(), ["accept-language"]);
        assert!(shard.publish(entry(1, "/", "Accept-Language", "de", b"DE")));
        assert_eq!(body(&mut shard, 1, "/", "de").unwrap(), "DE");
        assert_eq!(shard.remove(1, &key("/")), 3);
    }

    #[test]
    fn past_the_limit_of_variants_the_oldest_goes() {
        let mut shard = Shard::new(1 << 20, 1 << 20, 2, Lingering::default());
        for (language, text) in [("de", "de"), ("en", "en"), ("fr", "fr")] {
            assert!(shard.publish(entry(1, "/", "Accept-Language", language, text.as_bytes())));
        }
        assert_eq!(body(&mut shard, 1, "/", "de").unwrap(), "other variant");
        assert_eq!(body(&mut shard, 1, "/", "fr").unwrap(), "fr");
        assert_eq!(shard.counters().objects, 2);
    }

    #[test]
    fn what_exceeds_a_limit_is_refused_and_the_outdated_one_goes() {
        for (bytes_max, body_bytes_max) in [(SLOT_BYTES * 4, 1 << 20), (1 << 20, 1_000)] {
            let mut shard = Shard::new(bytes_max, body_bytes_max, 2, Lingering::default());
            assert!(shard.publish(entry(1, "/", "", "", b"small")));
            assert!(!shard.publish(entry(1, "/", "", "", &vec![b'x'; SLOT_BYTES * 4])));
            assert_eq!(body(&mut shard, 1, "/", ""), None);
            assert_eq!(shard.bytes(), 0);
        }
    }

    #[test]
    fn replacing_is_no_growth() {
        let mut shard = Shard::new(1 << 20, 1 << 20, 2, Lingering::default());
        assert!(shard.publish(entry(1, "/", "", "", b"0123456789")));
        let bytes = shard.bytes();
        for _ in 0..100 {
            assert!(shard.publish(entry(1, "/", "", "", b"9876543210")));
        }
        assert_eq!((shard.bytes(), shard.slots.len()), (bytes, 1));
    }

    #[test]
    fn what_leaves_while_it_is_read_is_counted_until_it_is_let_go() {
        let (lingering, body) = (Lingering::default(), vec![b'x'; 1_000]);
        let mut shard = Shard::new(1 << 20, 1 << 20, 4, lingering.clone());
        for round in 0..2 {
            assert!(shard.publish(entry(1, "a", "", "", &body)));
            let Lookup::Found(read) = shard.lookup(1, &key("a"), &fields("")) else { panic!("not stored") };
            assert_eq!(lingering.bytes(), 0);
            match round {
                0 => assert_eq!(shard.remove(1, &key("a")), 1),
                _ => assert!(shard.publish(entry(1, "a", "", "", b"new"))),
            }
            assert!(lingering.bytes() > 1_000);
            drop(read);
            assert_eq!(lingering.bytes(), 0);
        }
        assert_eq!(shard.remove(1, &key("a")), 1);
        assert_eq!(lingering.bytes(), 0, "nobody read it");
        let mut tiny = Shard::new(100, 1 << 20, 4, lingering.clone());
        let refused = entry(1, "a", "", "", &body);
        let read = Arc::clone(&refused.object);
        assert!(!tiny.publish(refused) && lingering.bytes() > 1_000);
        drop(read);
        assert_eq!(lingering.bytes(), 0);
    }
}
