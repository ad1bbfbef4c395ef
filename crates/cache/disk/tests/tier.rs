//! The tier without faults: writing, reading, fills, eviction and reopening.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod common;

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use common::{CachedTier, body, power, read, record, settings};
use petasos_disk::{
    Location, OffReason, OpenError, ReadError, RetentionPolicy, Tier, TierSettings, WriterProgress, open,
};
use platform::{SimulatedDisk, SystemClock, SystemDisk};

fn all(cache: &mut CachedTier) -> Vec<(Location, Bytes, bool)> {
    cache.recovery.by_ref().map(|found| (found.location, found.index, found.proven)).collect()
}

#[test]
fn written_objects_are_read_back() {
    let mut cache = CachedTier::open(SimulatedDisk::new(1), settings());
    for (number, bytes) in [(1, 0), (2, 10), (3, 65_536), (4, 65_537), (5, 100_000)] {
        let location = cache.write(record(number, bytes)).unwrap();
        let (index, head, octets) = read(&cache.tier, location).unwrap();
        assert_eq!(index, format!("index {number}"));
        assert_eq!(head, format!("head {number}"));
        assert_eq!(octets, body(number, bytes));
        let stored = cache.tier.read(location).unwrap();
        stored.body.verify().unwrap();
        assert_eq!(stored.body.read_at(bytes as u64 / 2, 3).unwrap(), octets[bytes / 2..][..3.min(bytes)]);
        assert!(stored.body.read_at(bytes as u64, 3).unwrap().is_empty());
        assert_eq!(stored.body.check(bytes as u64 / 2, 3).unwrap(), (bytes / 2).min(3) as u64);
        assert_eq!(stored.body.check(0, 1 << 20).unwrap(), bytes as u64);
        assert_eq!(stored.body.check(bytes as u64, 3).unwrap(), 0);
    }
    let figures = cache.tier.figures();
    assert_eq!((figures.objects, figures.written, figures.accepted, figures.durable), (5, 5, 5, 5));
}

#[test]
fn restart_recovers_objects_and_invalidations() {
    let disk = SimulatedDisk::new(1);
    let mut cache = CachedTier::open(disk.clone(), settings());
    let kept = cache.write(record(1, 500)).unwrap();
    let removed = cache.write(record(2, 500)).unwrap();
    let refreshed = cache.write(record(3, 500)).unwrap();
    cache.tier.remove(removed);
    cache.tier.refresh(refreshed, "again".into(), 9);
    assert_eq!(read(&cache.tier, refreshed).unwrap().0, "again", "before the refresh is written");
    cache.settle();
    assert_eq!(read(&cache.tier, refreshed).unwrap().0, "again", "after the refresh is written");
    assert_eq!(cache.tier.figures().durable, 5);
    cache.tier.journal_invalidation(12, b"twelve").unwrap();
    cache.tier.journal_invalidation(11, b"eleven").unwrap();
    disk.kill();
    let mut cache = CachedTier::open(disk.clone(), settings());
    assert_eq!(cache.recovery.invalidations(), [(11, "eleven".into()), (12, "twelve".into())]);
    assert!(cache.recovery.sequence() > 12);
    assert_eq!(all(&mut cache), [(kept, "index 1".into(), true), (refreshed, "again".into(), true)]);
    assert_eq!(read(&cache.tier, refreshed).unwrap(), ("again".into(), "head 3".into(), body(3, 500)));
    cache.tier.remove(kept);
    cache.settle();
    cache.close();
    let mut cache = CachedTier::open(disk, settings());
    assert_eq!(all(&mut cache), [(refreshed, "again".into(), true)]);
}

#[test]
fn directory_changes_its_owner_while_the_old_tier_reads() {
    let disk = SimulatedDisk::new(1);
    let mut old = CachedTier::open(disk.clone(), settings());
    let kept = old.write(record(1, 500)).unwrap();
    let again = |disk: &SimulatedDisk| open(Arc::new(disk.clone()), Arc::new(SystemClock::new()), settings());
    assert!(matches!(again(&disk), Err(OpenError::Locked { .. })));
    let tier = old.tier.clone();
    old.close();
    tier.give_up_lock();
    let mut new = CachedTier::open(disk, settings());
    assert_eq!(all(&mut new), [(kept, "index 1".into(), true)]);
    assert_eq!(read(&tier, kept).unwrap().2, body(1, 500));
    assert_eq!(tier.journal_invalidation(9, b"nine"), Err(OffReason::Closed));
}

#[test]
fn fill_is_readable_while_it_is_written() {
    let disk = SimulatedDisk::new(1);
    let mut cache = CachedTier::open(disk.clone(), settings());
    let whole = body(7, 100_000);
    let mut fill = cache.tier.fill(None).unwrap();
    let view = fill.view();
    for chunk in whole.chunks(7_000) {
        fill.push(Bytes::copy_from_slice(chunk));
        cache.settle();
        let mut seen = Vec::new();
        while (seen.len() as u64) < view.len() {
            seen.extend_from_slice(&view.read_at(seen.len() as u64, 9_000).unwrap());
        }
        assert_eq!(seen, whole[..seen.len()]);
    }
    let place = Arc::new(Mutex::new(None));
    let answer = Arc::clone(&place);
    fill.finish("streamed".into(), "head".into(), 3, move |location| *answer.lock().unwrap() = location);
    cache.settle();
    let location = place.lock().unwrap().unwrap();
    assert_eq!(read(&cache.tier, location).unwrap(), ("streamed".into(), "head".into(), whole.clone()));
    assert_eq!(view.read_at(99_999, 5).unwrap(), whole[99_999..]);
    disk.kill();
    let mut cache = CachedTier::open(disk, settings());
    assert_eq!(all(&mut cache), [(location, "streamed".into(), true)]);
    assert_eq!(read(&cache.tier, location).unwrap().2, whole);
}

#[test]
fn abandoned_fill_leaves_nothing() {
    let mut cache = CachedTier::open(SimulatedDisk::new(1), settings());
    let before = cache.tier.figures().bytes;
    let mut fill = cache.tier.fill(Some(100_000)).unwrap();
    fill.push(body(1, 100_000).into());
    cache.settle();
    assert!(cache.tier.figures().bytes > before + 65_000);
    drop(fill);
    cache.settle();
    assert!(cache.tier.figures().bytes < before + 100);
    assert_eq!(cache.tier.figures().objects, 0);
}

#[test]
fn fill_waits_for_the_writer_and_is_bounded() {
    let mut cache = CachedTier::open(SimulatedDisk::new(1), settings());
    assert!(cache.tier.fill(Some(1 << 20)).is_none(), "larger than any object may be");
    let mut fill = cache.tier.fill(None).unwrap();
    let context = Context::from_waker(Waker::noop());
    let mut pushed = 0;
    while fill.poll_ready(&context) == Poll::Ready(Ok(())) {
        fill.push(body(1, 65_536).into());
        pushed += 65_536;
    }
    assert!(pushed <= 5 << 20, "it waits for the writer: {pushed}");
    cache.settle();
    assert_eq!(fill.poll_ready(&context), Poll::Ready(Err(OffReason::TooLarge)));
    let fills: Vec<_> = std::iter::from_fn(|| cache.tier.fill(None)).collect();
    assert_eq!(fills.len(), 63, "64 fills may run, and one is still open");
    drop(fills);
    assert!(cache.tier.fill(None).is_some());
    assert!(cache.tier.figures().refused >= 2);
}

#[test]
fn full_queue_refuses_writes() {
    let cache =
        CachedTier::open(SimulatedDisk::new(1), TierSettings { queue_bytes_max: 50_000, ..settings() });
    let accepted = (0..100).filter(|number| cache.tier.write(record(*number, 1000), |_| ())).count();
    assert!((40..50).contains(&accepted), "{accepted}");
    assert_eq!(cache.tier.figures().refused, 100 - accepted as u64);
}

/// A keeper that keeps one object, and refreshes it once more while it moves.
struct Refreshing {
    tier: Tier,
    wanted: Location,
    moved: Mutex<Option<Location>>,
}

impl RetentionPolicy for Refreshing {
    fn evicts(&self, location: Location) -> bool {
        location == self.wanted
    }

    fn moved(&self, from: Location, to: Location, renew: &mut dyn FnMut() -> bool) {
        assert!(self.tier.refresh(from, "newest".into(), 1) && renew());
        *self.moved.lock().unwrap() = Some(to);
    }
}

#[test]
fn refresh_during_a_move_reaches_the_copy() {
    let disk = SimulatedDisk::new(1);
    let mut cache = CachedTier::open(disk.clone(), settings());
    let wanted = cache.write(record(1, 3000)).unwrap();
    let keeper = Refreshing { tier: cache.tier.clone(), wanted, moved: Mutex::default() };
    for number in 2..1000 {
        assert!(cache.tier.write(record(number, 3000), |_| ()));
        while cache.writer.step(&keeper) == WriterProgress::Worked {}
        if keeper.moved.lock().unwrap().is_some() {
            break;
        }
    }
    let to = keeper.moved.lock().unwrap().unwrap();
    assert_eq!(read(&cache.tier, to).unwrap().0, "newest");
    drop(keeper);
    disk.kill();
    let mut cache = CachedTier::open(disk, settings());
    assert!(all(&mut cache).iter().any(|(location, index, _)| *location == to && index == "newest"));
    assert_eq!(read(&cache.tier, to).unwrap(), ("newest".into(), "head 1".into(), body(1, 3000)));
}

#[test]
fn oldest_segment_is_evicted_and_wanted_objects_stay() {
    let disk = SimulatedDisk::new(1);
    let mut cache = CachedTier::open(disk.clone(), settings());
    let wanted = cache.write(record(1, 3000)).unwrap();
    cache.keeper.keep.lock().unwrap().push(wanted);
    let unwanted = cache.write(record(2, 3000)).unwrap();
    let reader = cache.tier.read(unwanted).unwrap();
    let mut newest = None;
    for number in 3..1000 {
        newest = cache.write(record(number, 3000));
        assert!(newest.is_some());
        assert!(cache.tier.figures().bytes <= 1 << 20);
        assert!(disk.bytes() <= 1 << 20, "{}", disk.bytes());
    }
    assert!(cache.keeper.asked.lock().unwrap().len() > 500);
    assert_eq!(read(&cache.tier, newest.unwrap()).unwrap().2, body(999, 3000));
    assert!(matches!(cache.tier.read(unwanted), Err(ReadError::Gone)));
    assert_eq!(reader.body.read_at(0, 3000).unwrap(), body(2, 3000), "an open reader can continue");
    let to = cache.keeper.moved.lock().unwrap()[&wanted];
    let is_there = cache.tier.read(to).is_ok() || cache.keeper.asked.lock().unwrap().contains(&to);
    assert!(is_there, "it was written again");
    let figures = cache.tier.figures();
    assert!(figures.evicted > 500 && figures.kept == 1 && figures.segments <= 16, "{figures:?}");
}

#[test]
fn smaller_size_holds_after_a_restart_without_writes() {
    let disk = SimulatedDisk::new(1);
    let larger = TierSettings { bytes_max: settings().bytes_max * 2, ..settings() };
    let mut cache = CachedTier::open(disk.clone(), larger);
    let written: Vec<_> = (1..=80).map(|number| cache.write(record(number, 20_000)).unwrap()).collect();
    cache.close();
    let bytes_max = settings().bytes_max;
    assert!(disk.bytes() > bytes_max);
    let mut cache = CachedTier::open(disk.clone(), settings());
    *cache.keeper.keep.lock().unwrap() = written;
    assert!(!all(&mut cache).is_empty());
    cache.settle();
    assert!(disk.bytes() <= bytes_max, "{} bytes", disk.bytes());
    assert!(cache.tier.figures().objects > 10, "{:?}", cache.tier.figures());
}

#[test]
fn segment_without_objects_is_removed_at_once() {
    let mut cache = CachedTier::open(SimulatedDisk::new(1), settings());
    let locations: Vec<_> = (1..100).filter_map(|number| cache.write(record(number, 3000))).collect();
    let before = cache.tier.figures();
    locations.iter().for_each(|location| cache.tier.remove(*location));
    cache.settle();
    let figures = cache.tier.figures();
    assert_eq!(figures.objects, 0);
    assert!(figures.segments <= 1 && before.segments > 3, "{figures:?}");
    assert!(cache.keeper.asked.lock().unwrap().is_empty());
}

#[test]
fn repeated_refreshes_do_not_grow_the_files() {
    let disk = SimulatedDisk::new(1);
    let mut cache = CachedTier::open(disk.clone(), settings());
    let locations: Vec<_> = (1..60).filter_map(|number| cache.write(record(number, 3000))).collect();
    for round in 0..200 {
        for (at, location) in locations.iter().enumerate().take(25) {
            cache.tier.refresh(*location, format!("round {round} of {at}").into(), 70);
        }
        cache.settle();
    }
    for (at, location) in locations.iter().enumerate().take(25) {
        assert_eq!(read(&cache.tier, *location).unwrap().0, format!("round 199 of {at}"));
    }
    let bytes = cache.tier.figures().bytes;
    assert!(bytes < 300_000, "{bytes}");
    assert_eq!(cache.tier.figures().objects, 59);
    disk.kill();
    let mut cache = CachedTier::open(disk, settings());
    assert_eq!(all(&mut cache).len(), 59);
    assert_eq!(read(&cache.tier, locations[3]).unwrap().0, "round 199 of 3");
}

#[test]
fn old_invalidations_are_dropped_when_no_object_needs_them() {
    let disk = SimulatedDisk::new(1);
    let mut cache = CachedTier::open(disk.clone(), settings());
    let needy = cache.write(record(5, 10)).unwrap();
    for number in 6..2000 {
        cache.tier.journal_invalidation(number, &[7; 20]).unwrap();
        assert!(disk.bytes() <= 1 << 20);
    }
    cache.tier.remove(needy);
    cache.settle();
    cache.sync();
    assert!(cache.tier.figures().invalidation_bytes <= 64 << 10);
    disk.kill();
    let cache = CachedTier::open(disk, settings());
    let left = cache.recovery.invalidations();
    assert_eq!(left.last().unwrap().0, 1999);
    assert!(cache.recovery.sequence() >= 2000);
}

#[test]
fn object_older_than_a_dropped_invalidation_is_unproven() {
    let disk = SimulatedDisk::new(1);
    let mut cache =
        CachedTier::open(disk.clone(), TierSettings { invalidation_bytes_max: Some(4096), ..settings() });
    cache.write(record(5, 10)).unwrap();
    for number in 6..300 {
        cache.tier.journal_invalidation(number, &[7; 20]).unwrap();
        assert!(cache.tier.figures().invalidation_bytes <= 4096);
    }
    cache.write(record(299, 10)).unwrap();
    disk.kill();
    let mut cache = CachedTier::open(disk, settings());
    let proven: Vec<_> = all(&mut cache).into_iter().map(|(_, index, proven)| (index, proven)).collect();
    assert_eq!(proven, [("index 5".into(), false), ("index 299".into(), true)]);
}

#[test]
fn directory_has_one_writer() {
    let disk = SimulatedDisk::new(1);
    let _held = CachedTier::open(disk.clone(), settings());
    assert!(matches!(CachedTier::try_open(Arc::new(disk), settings()), Err(OpenError::Locked { .. })));
}

#[test]
fn close_waits_for_the_writer_thread() {
    let directory = tempfile::tempdir().unwrap();
    let at = || TierSettings { directory: directory.path().into(), bytes_max: 64 << 20, ..power() };
    let again = || open(Arc::new(SystemDisk), Arc::new(SystemClock::new()), at()).unwrap();
    let opened = again();
    let tier = opened.tier.clone();
    let (sender, places) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || opened.writer.run(&common::KeepList::default()));
    let invalidator = tier.clone();
    let purges = std::thread::spawn(move || {
        (0..50).for_each(|number| invalidator.journal_invalidation(5000 + number, b"purge").unwrap());
    });
    for number in 0..1000 {
        let sender = sender.clone();
        assert!(tier.write(record(number, 2000), move |location| sender.send((number, location)).unwrap()));
    }
    let places: Vec<_> = places.iter().take(1000).collect();
    let ranges = tier.read(places[7].1.unwrap()).unwrap().body.pieces().unwrap();
    assert_eq!(ranges.bytes, 2000);
    purges.join().unwrap();
    tier.close();
    tier.close();
    thread.join().unwrap();
    assert_eq!(tier.off(), Some(OffReason::Closed));
    assert_eq!(tier.journal_invalidation(9, b""), Err(OffReason::Closed));
    assert!(!tier.write(record(1, 1), |_| ()) && tier.fill(None).is_none());
    assert_eq!(tier.figures().durable, 1000);
    drop((tier, opened.tier, opened.recovery));
    let mut opened = again();
    assert_eq!(opened.recovery.invalidations().len(), 50);
    assert_eq!(opened.recovery.by_ref().filter(|found| found.proven).count(), 1000);
    for (number, location) in places {
        assert_eq!(read(&opened.tier, location.unwrap()).unwrap().2, body(number, 2000));
    }
}
