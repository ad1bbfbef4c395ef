//! Random histories of one disk: each life ends at a random operation, and the contents that the
//! next life finds are compared with a model. `PETASOS_CRASH_LIVES` sets the number of lives;
//! `PETASOS_CRASH_SEED` repeats one history.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test ends where it fails")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::model::{Chance, LifeEnd, ModelObject, ModelTier, OperationProgress, StoreSide};
use common::{CachedTier, body, power, settings};
use petasos_disk::{Durability, Location, OffReason, ReadError, Record, RecoveredObject, TierSettings};
use platform::{DiskFault, SimulatedDisk};

const LIVES_OF_A_HISTORY: u64 = 5;

struct History {
    seed: u64,
    chance: Chance,
    disk: SimulatedDisk,
    settings: TierSettings,
    model: StoreSide,
    /// Invalidations that were acknowledged.
    acknowledged: BTreeSet<u64>,
    asked: BTreeSet<u64>,
    sequence: u64,
    next_number: u64,
    /// Whether the contents may be lost, because the device failed.
    may_be_empty: bool,
    /// Whether nothing has happened yet that could leave an object unproven.
    is_certain: bool,
}

fn index(number: u64, version: usize) -> Bytes {
    format!("{number} {version}").into()
}

fn parse(index: &Bytes) -> (u64, usize) {
    let text = std::str::from_utf8(index).unwrap();
    let (number, version) = text.split_once(' ').unwrap();
    (number.parse().unwrap(), version.parse().unwrap())
}

impl History {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let base = if chance.of(2) == 0 { power() } else { settings() };
        let presses = chance.of(2) == 0;
        let settings = TierSettings {
            segment_bytes: Some(16 << 10),
            invalidation_bytes_max: presses.then_some(4096),
            ..base
        };
        Self {
            seed,
            chance,
            disk: SimulatedDisk::new(seed),
            model: StoreSide {
                syncs_moved: settings.durability == Durability::Power,
                ..StoreSide::default()
            },
            settings,
            acknowledged: BTreeSet::new(),
            asked: BTreeSet::new(),
            sequence: 0,
            next_number: 1,
            may_be_empty: false,
            is_certain: !presses,
        }
    }

    fn run(&mut self, lives: u64) {
        let mut end = None;
        for _ in 0..lives {
            let mut cache = self.open();
            self.check(&mut cache, end);
            self.plan_faults();
            for _ in 0..self.chance.of(150) {
                self.act(&mut cache);
                if self.disk.is_killed() {
                    break;
                }
                let bytes = self.disk.bytes();
                assert!(bytes <= self.settings.bytes_max || !self.is_certain, "seed {}: {bytes}", self.seed);
            }
            end = Some(self.end(&mut cache));
        }
    }

    fn open(&self) -> CachedTier {
        let opened = CachedTier::try_open(Arc::new(self.disk.clone()), self.settings.clone());
        opened.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed))
    }

    fn plan_faults(&mut self) {
        let mut at = self.disk.operations();
        for _ in 0..self.chance.of(4) {
            at += 1 + self.chance.of(200);
            let fault = match self.chance.of(10) {
                0..4 => DiskFault::Kill,
                4..7 => DiskFault::Short,
                7..9 => DiskFault::Full,
                _ => DiskFault::Io,
            };
            self.may_be_empty |= fault == DiskFault::Io;
            self.is_certain &= fault != DiskFault::Io;
            self.disk.fail_at(at, fault);
        }
        let room =
            if self.chance.of(4) == 0 { Some(self.disk.bytes() + self.chance.of(300_000)) } else { None };
        self.disk.set_room(room);
    }

    fn act(&mut self, cache: &mut CachedTier) {
        match self.chance.of(20) {
            0..7 => self.write(cache),
            7..9 => self.refresh(cache),
            9..11 => self.remove(cache),
            11 => self.fill(cache),
            12..15 => self.invalidate(cache),
            15 => cache.clock.advance(Duration::from_millis(400)),
            _ => {
                for _ in 0..self.chance.of(3) {
                    cache.writer.step(&self.model);
                }
            }
        }
    }

    fn new_object(&mut self, body_bytes: usize) -> (u64, Record) {
        let number = self.next_number;
        self.next_number += 1;
        let came = OperationProgress::default();
        let object = ModelObject { body_bytes, versions: vec![came], ..ModelObject::default() };
        self.model.shelf.lock().unwrap().objects.insert(number, object);
        let record = Record {
            index: index(number, 0),
            head: format!("head {number}").into(),
            body: vec![body(number, body_bytes).into()],
            sequence: self.sequence.saturating_sub(self.chance.of(3)),
        };
        (number, record)
    }

    fn done(&self, number: u64) -> impl FnOnce(Option<Location>) + Send + 'static {
        let model = self.model.clone();
        move |location| {
            let Some(location) = location else { return };
            let mut shelf = model.shelf.lock().unwrap();
            shelf.places.insert(location, number);
            let object = shelf.objects.get_mut(&number).unwrap();
            object.location = Some(location);
            object.written = Some(object.versions[0]);
        }
    }

    fn accepted(&self, cache: &CachedTier, number: u64) {
        let operation = cache.tier.figures().accepted;
        let mut shelf = self.model.shelf.lock().unwrap();
        shelf.objects.get_mut(&number).unwrap().versions[0].operation = operation;
    }

    fn write(&mut self, cache: &CachedTier) {
        let bytes = self.chance.of(9_000) as usize;
        let (number, record) = self.new_object(bytes);
        if cache.tier.write(record, self.done(number)) {
            self.accepted(cache, number);
        }
    }

    fn fill(&mut self, cache: &mut CachedTier) {
        let bytes = self.chance.of(90_000) as usize;
        let (number, record) = self.new_object(bytes);
        let Some(mut fill) = cache.tier.fill(None) else { return };
        let whole = Bytes::from(body(number, bytes));
        let mut from = 0;
        while from < bytes {
            let to = (from + 1 + self.chance.of(30_000) as usize).min(bytes);
            fill.push(whole.slice(from..to));
            from = to;
            self.act_between(cache);
            if self.chance.of(30) == 0 {
                return;
            }
        }
        fill.finish(record.index, record.head, record.sequence, self.done(number));
        self.accepted(cache, number);
    }

    fn act_between(&mut self, cache: &mut CachedTier) {
        match self.chance.of(4) {
            0 => self.write(cache),
            1 => drop(cache.writer.step(&self.model)),
            2 => self.invalidate(cache),
            _ => {}
        }
    }

    /// A random object whose location the store knows.
    fn any(&mut self) -> Option<(u64, Location)> {
        let shelf = self.model.shelf.lock().unwrap();
        let known: Vec<_> = shelf
            .objects
            .iter()
            .filter(|(number, object)| object.removed.is_none() && !shelf.forgotten.contains(number))
            .filter_map(|(number, object)| Some((*number, object.location?)))
            .collect();
        drop(shelf);
        (!known.is_empty()).then(|| known[self.chance.of(known.len() as u64) as usize])
    }

    fn refresh(&mut self, cache: &CachedTier) {
        let Some((number, location)) = self.any() else { return };
        let version = self.model.shelf.lock().unwrap().objects[&number].versions.len();
        let before = cache.tier.figures().accepted;
        cache.tier.refresh(location, index(number, version), self.sequence);
        let operation = cache.tier.figures().accepted;
        if operation > before {
            let came = OperationProgress { operation, ..OperationProgress::default() };
            self.model.shelf.lock().unwrap().objects.get_mut(&number).unwrap().versions.push(came);
        }
        if let Ok(stored) = cache.tier.read(location)
            && operation > before
        {
            assert_eq!(parse(&stored.index), (number, version), "seed {}: seen at once", self.seed);
        }
    }

    fn remove(&mut self, cache: &CachedTier) {
        let Some((number, location)) = self.any() else { return };
        let before = cache.tier.figures().accepted;
        cache.tier.remove(location);
        let operation = cache.tier.figures().accepted;
        // A removal may be undone if the tier is too broken to write it, or had evicted the object
        // already.
        let operation = if operation > before { operation } else { u64::MAX };
        let removed = Some(OperationProgress { operation, ..OperationProgress::default() });
        self.model.shelf.lock().unwrap().objects.get_mut(&number).unwrap().removed = removed;
    }

    fn invalidate(&mut self, cache: &CachedTier) {
        self.sequence += 1;
        self.asked.insert(self.sequence);
        let octets = format!("purge {}", self.sequence);
        if cache.tier.journal_invalidation(self.sequence, octets.as_bytes()).is_ok() {
            self.acknowledged.insert(self.sequence);
        }
    }

    /// Ends the life, and notes which operations must be durable or synced by then.
    fn end(&mut self, cache: &mut CachedTier) -> LifeEnd {
        let closes = self.chance.of(4) == 0;
        if closes {
            cache.tier.close();
            self.disk.set_room(None);
            for _ in 0..200 {
                cache.writer.step(&self.model);
            }
        }
        let figures = cache.tier.figures();
        let mut shelf = self.model.shelf.lock().unwrap();
        let gone = |location: &Location| matches!(cache.tier.read(*location), Err(ReadError::Gone));
        let forgotten: Vec<_> =
            shelf.places.iter().filter(|(place, _)| gone(place)).map(|(_, number)| *number).collect();
        shelf.forgotten.extend(forgotten);
        for object in shelf.objects.values_mut() {
            let removed = object.removed.iter_mut();
            for came in object.versions.iter_mut().chain(removed).chain(&mut object.written) {
                came.is_durable |= came.operation <= figures.durable;
                came.is_synced |= came.operation <= figures.synced;
                came.operation = u64::MAX;
            }
        }
        self.may_be_empty |= matches!(cache.tier.off(), Some(OffReason::Io { .. }));
        let cut = if closes { LifeEnd::Closed } else { LifeEnd::PowerCut };
        let end = if self.chance.of(2) == 0 { LifeEnd::Kill } else { cut };
        match end {
            LifeEnd::Kill => self.disk.kill(),
            LifeEnd::PowerCut | LifeEnd::Closed => self.disk.power_cut(),
        }
        self.disk.set_room(None);
        end
    }

    fn check(&mut self, cache: &mut CachedTier, end: Option<LifeEnd>) {
        let mut found: Vec<_> = cache.recovery.by_ref().collect();
        let invalidations: BTreeSet<_> =
            cache.recovery.invalidations().iter().map(|(number, _)| *number).collect();
        assert!(cache.recovery.invalidations().is_sorted_by_key(|(number, _)| *number));
        assert!(
            invalidations.is_subset(&self.asked),
            "seed {}: an invalidation that was never sent",
            self.seed
        );
        let is_cut = matches!(end, Some(LifeEnd::PowerCut | LifeEnd::Closed));
        let is_lossy = end == Some(LifeEnd::PowerCut) && self.settings.durability == Durability::Process;
        if is_cut && self.settings.durability == Durability::Process {
            self.acknowledged.clone_from(&invalidations);
        }
        assert!(
            self.acknowledged.last().is_none_or(|last| cache.recovery.sequence() > *last)
                || self.may_be_empty,
            "seed {}: numbers are assigned only once",
            self.seed
        );
        self.is_certain &= !is_cut;
        let mut shelf = std::mem::take(&mut *self.model.shelf.lock().unwrap());
        shelf.places.clear();
        let mut seen = BTreeSet::new();
        let mut damaged = Vec::new();
        // An object that was written again exists twice if the life ended before the old copy was
        // removed. The later copy counts.
        found.sort_by_key(|recovered| std::cmp::Reverse(recovered.order));
        for recovered in &found {
            let (number, version) = parse(&recovered.index);
            if seen.contains(&number) {
                cache.tier.remove(recovered.location);
                // The later copy was written in the life that ended, and may not have been synced.
                shelf.objects.get_mut(&number).unwrap().unsync(is_cut);
                continue;
            }
            if !self.check_object(cache, &shelf.objects[&number], recovered, (number, version), end) {
                damaged.push((number, recovered.location));
            }
            if recovered.proven {
                let later = self.acknowledged.range(recovered.sequence + 1..);
                let missing: Vec<_> = later.filter(|number| !invalidations.contains(number)).collect();
                assert!(missing.is_empty(), "seed {}: {number} is proven without {missing:?}", self.seed);
            }
            assert!(recovered.sequence < cache.recovery.sequence());
            seen.insert(number);
            shelf.places.insert(recovered.location, number);
            let object = shelf.objects.get_mut(&number).unwrap();
            object.location = Some(recovered.location);
            // Versions after the recovered one are lost for good. The recovered one is durable.
            for (at, came) in object.versions.iter_mut().enumerate().skip(version) {
                came.is_durable = at == version;
                came.is_synced = at == version && (came.is_synced || is_cut);
            }
        }
        for (number, object) in &shelf.objects {
            let must = object.written.is_some_and(|came| Self::must(came, end))
                && object.removed.is_none()
                && !shelf.forgotten.contains(number)
                && !self.may_be_empty;
            assert!(!must || seen.contains(number), "seed {}: {number} is missing after {end:?}", self.seed);
        }
        Self::take_over(&mut shelf, &seen, is_cut, is_lossy);
        for (number, location) in damaged {
            cache.tier.remove(location);
            let operation = cache.tier.figures().accepted;
            let object = shelf.objects.get_mut(&number).unwrap();
            object.removed = Some(OperationProgress { operation, ..OperationProgress::default() });
            object.written = None;
        }
        *self.model.shelf.lock().unwrap() = shelf;
        self.begin_life(invalidations, cache.recovery.sequence());
    }

    /// Takes over the invalidations that the recovery found, and the next number.
    fn begin_life(&mut self, invalidations: BTreeSet<u64>, sequence: u64) {
        self.acknowledged.retain(|number| invalidations.contains(number));
        self.asked = invalidations;
        self.sequence = sequence;
        self.may_be_empty = false;
    }

    /// Makes the recovered objects the model's state for the next life.
    fn take_over(shelf: &mut ModelTier, seen: &BTreeSet<u64>, is_cut: bool, is_lossy: bool) {
        shelf.objects.retain(|number, object| seen.contains(number) || object.removed.is_some());
        for (number, object) in &mut shelf.objects {
            if seen.contains(number) {
                object.removed = None;
                let is_synced = is_cut || object.versions[0].is_synced;
                object.written = Some(OperationProgress { operation: u64::MAX, is_durable: true, is_synced });
                object.is_suspect |= is_lossy;
            }
        }
        shelf.forgotten.clear();
    }

    fn must(came: OperationProgress, end: Option<LifeEnd>) -> bool {
        if matches!(end, Some(LifeEnd::PowerCut | LifeEnd::Closed)) {
            came.is_synced
        } else {
            came.is_durable
        }
    }

    fn check_object(
        &self,
        cache: &CachedTier,
        object: &ModelObject,
        recovered: &RecoveredObject,
        (number, version): (u64, usize),
        end: Option<LifeEnd>,
    ) -> bool {
        let at = format!("seed {} object {number} after {end:?}: {object:?} {recovered:?}", self.seed);
        assert!(!object.removed.is_some_and(|came| Self::must(came, end)), "it was removed: {at}");
        assert!(version < object.versions.len(), "{at}");
        let newest = object.versions.iter().rposition(|came| Self::must(*came, end)).unwrap_or(0);
        assert!(version >= newest, "an older index came back: {at}");
        if end == Some(LifeEnd::PowerCut) && self.settings.durability == Durability::Process {
            assert!(!recovered.proven, "{at}");
        }
        if object.is_suspect && version == 0 && object.versions.len() == 1 {
            assert!(!recovered.proven, "{at}");
        }
        if self.is_certain {
            assert!(recovered.proven, "{at}");
        }
        match common::read(&cache.tier, recovered.location) {
            Ok((index, head, octets)) => {
                assert_eq!(index, recovered.index, "{at}");
                assert_eq!(head, format!("head {number}"), "{at}");
                assert!(octets == body(number, object.body_bytes), "a foreign body: {at}");
                true
            }
            Err(ReadError::Damaged) => {
                let was_synced = object.written.is_some_and(|came| came.is_synced);
                assert!(!self.is_whole(end) && !was_synced, "damaged: {at}");
                false
            }
            Err(error) => panic!("{error}: {at}"),
        }
    }

    /// Whether all data that reached the files must still be intact.
    fn is_whole(&self, end: Option<LifeEnd>) -> bool {
        !matches!(end, Some(LifeEnd::PowerCut | LifeEnd::Closed)) && self.is_certain
    }
}

#[test]
fn recovery_keeps_promises_after_random_crashes() {
    if let Some(seed) = std::env::var("PETASOS_CRASH_SEED").ok().and_then(|seed| seed.parse().ok()) {
        History::new(seed).run(LIVES_OF_A_HISTORY);
        return;
    }
    let lives = std::env::var("PETASOS_CRASH_LIVES").ok().and_then(|lives| lives.parse().ok()).unwrap_or(300);
    for seed in 1..=lives / LIVES_OF_A_HISTORY {
        History::new(seed).run(LIVES_OF_A_HISTORY);
    }
}
