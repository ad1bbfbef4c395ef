//! Many concurrent fills: how much of the tier they take, and how the writer behaves without room.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test ends where it fails")]

mod common;

use common::{CachedTier, body, record, settings};
use petasos_disk::{DiskWriter, Fill, Location, RetentionPolicy, TierSettings};
use platform::{DiskFault, SimulatedDisk};

const PIECE: usize = 64 << 10;

/// A keeper that keeps every object, like a store whose objects are all in use.
struct KeepsAll;

impl RetentionPolicy for KeepsAll {
    fn evicts(&self, _: Location) -> bool {
        true
    }

    fn moved(&self, _: Location, _: Location, _: &mut dyn FnMut() -> bool) {}
}

/// Steps the writer until it is idle, at most `steps` times.
fn step(writer: &mut DiskWriter, steps: usize) {
    let is_idle = (0..steps).any(|_| writer.step(&KeepsAll) != petasos_disk::WriterProgress::Worked);
    assert!(is_idle, "the writer was not idle after {steps} steps");
}

/// A tier with kept objects and as many fills as it admits, each with one piece. The disk is killed
/// after many operations, so that a writer that never stops is detected.
fn pinned(settings: TierSettings) -> (SimulatedDisk, CachedTier, Vec<Fill>, u64) {
    let disk = SimulatedDisk::new(1);
    let mut cache = CachedTier::open(disk.clone(), settings);
    (1..=10).for_each(|number| assert!(cache.write(record(number, 3000)).is_some()));
    let before = disk.operations();
    disk.fail_at(before + 20_000, DiskFault::Kill);
    let mut fills: Vec<_> = std::iter::from_fn(|| cache.tier.fill(None)).take(32).collect();
    for fill in &mut fills {
        fill.push(body(1, PIECE).into());
        step(&mut cache.writer, 100);
    }
    (disk, cache, fills, before)
}

#[test]
fn fills_that_pin_the_whole_tier_do_not_livelock_it() {
    let all = TierSettings { fill_bytes_max: Some(1 << 20), ..settings() };
    let (disk, mut cache, fills, before) = pinned(all);
    let operations = disk.operations() - before;
    assert!(operations < 1000, "{operations} operations of the disk for {} fills", fills.len());
    assert!(!disk.is_killed() && cache.tier.off().is_none());
    drop(fills);
    step(&mut cache.writer, 100);
    assert!(cache.write(record(99, 3000)).is_some(), "the tier works again after the fills have ended");
}

#[test]
fn running_fills_take_no_more_than_their_share() {
    let share = 256 << 10;
    let (_, mut cache, fills, _) = pinned(TierSettings { fill_bytes_max: Some(share), ..settings() });
    assert_eq!(cache.tier.figures().fill_bytes, share);
    assert!(cache.tier.fill(Some(1)).is_none(), "there is no room for one more");
    let refused = cache.tier.figures().fills_unshared;
    assert_eq!(refused, 32 - share / PIECE as u64 + 1, "each fill beyond the share is counted");
    drop(fills);
    step(&mut cache.writer, 100);
    assert_eq!(cache.tier.figures().fill_bytes, 0);
    let expected = cache.tier.fill(Some(100_000)).unwrap();
    assert_eq!(cache.tier.figures().fill_bytes, 100_000, "an announced length is reserved at once");
    drop(expected);
    step(&mut cache.writer, 100);
    assert_eq!(cache.tier.figures().fill_bytes, 0);
}

#[test]
fn step_after_a_finished_fill_pins_no_segment() {
    let mut cache =
        CachedTier::open(SimulatedDisk::new(1), TierSettings { bytes_max: 32 << 20, ..settings() });
    let mut fill = cache.tier.fill(None).unwrap();
    // More bytes than one step writes, so that another step is queued after the end.
    fill.push(body(1, 3 << 20).into());
    fill.finish("index".into(), "head".into(), 1, |location| assert!(location.is_some()));
    step(&mut cache.writer, 100);
    assert_eq!(cache.tier.figures().fill_bytes, 0, "the finished fill holds another segment");
}

#[test]
fn bytes_of_fills_count_until_they_are_written_or_dropped() {
    let mut cache =
        CachedTier::open(SimulatedDisk::new(1), TierSettings { bytes_max: 32 << 20, ..settings() });
    let waiting = |cache: &CachedTier| cache.tier.figures().fill_waiting_bytes;
    let mut fills: Vec<_> = (0..2).map(|_| cache.tier.fill(None).unwrap()).collect();
    for fill in &mut fills {
        fill.push(body(1, PIECE + 100).into());
    }
    assert_eq!(waiting(&cache), 2 * (PIECE as u64 + 100));
    step(&mut cache.writer, 100);
    assert_eq!(waiting(&cache), 200, "what is no whole piece waits for the end");
    fills.remove(0).finish("index".into(), "head".into(), 1, |location| assert!(location.is_some()));
    step(&mut cache.writer, 100);
    assert_eq!(waiting(&cache), 100);
    drop(fills);
    step(&mut cache.writer, 100);
    assert_eq!(waiting(&cache), 0);
}
