//! The tier when the disk is full, broken, damaged or locked, or was written in another format.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test ends where it fails")]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::{CachedTier, body, read, record, settings};
use petasos_disk::{Durability, OffReason, OpenError, ReadError, TierSettings};
use platform::{Access, Disk, DiskFault, FaultyDisk, SimulatedDisk};

fn found(cache: &mut CachedTier) -> Vec<(Bytes, bool)> {
    cache.recovery.by_ref().map(|found| (found.index, found.proven)).collect()
}

/// A disk with three objects, and their cache.
fn three(settings: TierSettings) -> (SimulatedDisk, CachedTier) {
    let disk = SimulatedDisk::new(1);
    let mut cache = CachedTier::open(disk.clone(), settings);
    (1..=3).for_each(|number| assert!(cache.write(record(number, 3000)).is_some()));
    (disk, cache)
}

fn at(name: &str) -> std::path::PathBuf {
    Path::new("/cache").join(name)
}

const INDEX: &str = "segment-00000001.index";
const DATA: &str = "segment-00000001.data";

#[test]
fn full_disk_is_tried_again_after_a_pause() {
    let (disk, mut cache) = three(settings());
    disk.set_room(Some(disk.bytes() + 1000));
    assert!(cache.write(record(4, 30_000)).is_none());
    assert_eq!(cache.tier.off(), Some(OffReason::Full));
    assert!(!cache.tier.write(record(5, 10), |_| ()), "writes are refused during the pause");
    cache.tier.journal_invalidation(7, b"heard of nevertheless").unwrap();
    assert!(cache.tier.figures().full == 1 && disk.bytes() < 1000, "the oldest segments were evicted before");
    disk.set_room(None);
    cache.settle();
    assert_eq!(cache.tier.off(), Some(OffReason::Full));
    cache.clock.advance(Duration::from_secs(10));
    cache.settle();
    assert_eq!(cache.tier.off(), None);
    let location = cache.write(record(6, 100)).unwrap();
    assert_eq!(read(&cache.tier, location).unwrap().2, body(6, 100));
    disk.kill();
    let mut cache = CachedTier::open(disk, settings());
    assert_eq!(found(&mut cache), [("index 6".into(), true)]);
    assert_eq!(cache.recovery.invalidations().len(), 1);
}

#[test]
fn segment_removed_for_the_journal_is_reported_and_drops_notes() {
    let (disk, mut cache) = three(settings());
    let first = cache.write(record(4, 10)).unwrap();
    (5..200).for_each(|number| assert!(cache.write(record(number, 3000)).is_some()));
    assert!(cache.tier.refresh(first, "never written".into(), 200));
    assert!(cache.tier.figures().queue_bytes > 0);
    disk.set_room(Some(disk.bytes()));
    cache.tier.journal_invalidation(201, b"heard of").unwrap();
    assert!(matches!(cache.tier.read(first), Err(ReadError::Gone)));
    assert!(!cache.tier.refresh(first, "too late".into(), 202));
    disk.set_room(None);
    cache.settle();
    assert_eq!(*cache.keeper.lost_segments.lock().unwrap(), [first.segment()]);
    let figures = cache.tier.figures();
    assert_eq!((figures.queue_bytes, figures.durable), (0, figures.accepted));
}

#[test]
fn objects_of_an_unreadable_index_are_reported_as_lost() {
    for damage in [true, false] {
        let (disk, mut cache) = three(settings());
        if damage {
            disk.damage(&at(INDEX), |octets| octets[20] ^= 1);
        } else {
            disk.remove(&at(INDEX)).unwrap();
        }
        (4..1000).for_each(|number| assert!(cache.write(record(number, 3000)).is_some()));
        assert_eq!(*cache.keeper.lost_segments.lock().unwrap(), [1]);
    }
}

#[test]
fn removal_without_disk_space_is_kept() {
    let (disk, mut cache) = three(settings());
    let removed = cache.write(record(4, 10)).unwrap();
    for _ in 0..20 {
        disk.fail_at(disk.operations() + 1, DiskFault::Full);
    }
    let before = cache.tier.figures().durable;
    cache.tier.remove(removed);
    (1..60).for_each(|ahead| disk.fail_at(disk.operations() + ahead, DiskFault::Full));
    cache.writer.step(&cache.keeper);
    let figures = cache.tier.figures();
    assert!(figures.durable == before || figures.segments == 0, "{figures:?}");
    disk.kill();
    cache = CachedTier::open(disk, settings());
    assert!(found(&mut cache).iter().all(|(index, _)| figures.segments > 0 || index != "index 4"));
}

#[test]
fn refresh_without_disk_space_is_written_after_the_pause() {
    let (disk, mut cache) = three(settings());
    (4..200).for_each(|number| assert!(cache.write(record(number, 3000)).is_some()));
    let location = cache.write(record(200, 10)).unwrap();
    (1..=12).for_each(|ahead| disk.fail_at(disk.operations() + ahead, DiskFault::Full));
    cache.tier.refresh(location, "again".into(), 200);
    cache.settle();
    let figures = cache.tier.figures();
    assert!(figures.durable < figures.accepted && cache.tier.off() == Some(OffReason::Full), "{figures:?}");
    for _ in 0..5 {
        cache.clock.advance(Duration::from_secs(10));
        cache.settle();
    }
    let figures = cache.tier.figures();
    assert_eq!((figures.durable, cache.tier.off()), (figures.accepted, None));
    disk.kill();
    let mut cache = CachedTier::open(disk, settings());
    assert!(found(&mut cache).contains(&("again".into(), true)));
}

#[test]
fn broken_disk_turns_the_tier_off() {
    let (disk, mut cache) = three(settings());
    let location = cache.write(record(4, 3000)).unwrap();
    disk.fail_at(disk.operations() + 1, DiskFault::Io);
    assert!(cache.write(record(5, 10)).is_none());
    assert!(matches!(cache.tier.off(), Some(OffReason::Io { .. })));
    assert_eq!(cache.tier.figures().io_errors, 1);
    assert!(!cache.tier.write(record(6, 10), |_| ()) && cache.tier.fill(None).is_none());
    assert_eq!(read(&cache.tier, location).unwrap().2, body(4, 3000), "existing objects can be read");
    cache.tier.journal_invalidation(9, b"still heard of").unwrap();
    disk.kill();
    let mut cache = CachedTier::open(disk, settings());
    assert_eq!(found(&mut cache).len(), 4);
    assert_eq!(cache.recovery.invalidations(), [(9, "still heard of".into())]);
}

#[test]
fn panic_of_the_writer_turns_the_tier_off() {
    let (_disk, cache) = three(settings());
    let CachedTier { tier, writer, keeper, .. } = cache;
    assert!(tier.write(record(4, 10), |_| panic!("intended by the test")));
    assert!(std::thread::spawn(move || writer.run(&keeper)).join().is_err());
    let off = tier.off();
    assert!(matches!(off, Some(OffReason::Io { .. })), "{off:?}");
    assert!(tier.close(), "close does not wait for a writer that has ended");
}

#[test]
fn unwritable_invalidation_makes_the_next_start_empty() {
    let (disk, cache) = three(settings());
    disk.fail_at(disk.operations() + 1, DiskFault::Io);
    assert_eq!(
        cache.tier.journal_invalidation(9, b"lost"),
        Ok(()),
        "no object is left that it could apply to"
    );
    assert!(matches!(cache.tier.off(), Some(OffReason::Io { .. })));
    assert_eq!(cache.tier.journal_invalidation(10, b"next"), Ok(()));
    drop(cache);
    disk.kill();
    let mut cache = CachedTier::open(disk.clone(), settings());
    assert_eq!(found(&mut cache), []);
    assert!(disk.bytes() < 500);
}

#[test]
fn invalidation_without_journal_and_mark_is_an_error() {
    let (disk, cache) = three(settings());
    // The write of the journal, and both ways of spoiling the mark.
    (1..=3).for_each(|ahead| disk.fail_at(disk.operations() + ahead, DiskFault::Io));
    assert!(matches!(cache.tier.journal_invalidation(9, b"lost"), Err(OffReason::Io { .. })));
    assert_eq!(cache.tier.journal_invalidation(10, b"next"), Ok(()), "the mark can be spoiled now");
}

#[test]
fn failed_read_is_an_error_and_leaves_the_tier_on() {
    let (disk, mut cache) = three(settings());
    let location = cache.write(record(4, 3000)).unwrap();
    disk.fail_at(disk.operations() + 1, DiskFault::Io);
    assert!(matches!(cache.tier.read(location), Err(ReadError::Io(_))));
    disk.fail_at(disk.operations() + 1, DiskFault::Short);
    assert_eq!(read(&cache.tier, location).unwrap().2, body(4, 3000));
    assert_eq!(cache.tier.off(), None);
}

#[test]
fn damaged_bytes_are_never_returned() {
    let (disk, mut cache) = three(settings());
    let location = cache.write(record(4, 3000)).unwrap();
    let mut whole = Vec::new();
    disk.damage(&at(DATA), |octets| whole.clone_from(octets));
    for place in (location_of(&whole, b"head 4") - 71..whole.len()).step_by(41) {
        disk.damage(&at(DATA), |octets| octets[place] ^= 4);
        assert!(matches!(read(&cache.tier, location), Err(ReadError::Damaged)), "{place}");
        disk.damage(&at(DATA), |octets| octets.clone_from(&whole));
    }
    assert_eq!(read(&cache.tier, location).unwrap().2, body(4, 3000));
    assert!(cache.tier.figures().torn > 50);
}

fn location_of(haystack: &[u8], needle: &[u8]) -> usize {
    haystack.windows(needle.len()).position(|window| window == needle).unwrap()
}

#[test]
fn objects_before_index_damage_stay_unproven() {
    let (disk, cache) = three(settings());
    drop(cache);
    disk.damage(&at(INDEX), |octets| {
        let second = location_of(octets, b"index 2");
        octets[second] ^= 1;
    });
    disk.kill();
    let mut cache = CachedTier::open(disk.clone(), settings());
    let first = cache.recovery.next().unwrap();
    assert_eq!((first.index.clone(), first.proven), ("index 1".into(), false));
    assert!(cache.recovery.next().is_none() && cache.tier.figures().torn > 0);
    drop(cache);
    disk.kill();
    let mut cache = CachedTier::open(disk.clone(), settings());
    assert_eq!(found(&mut cache), [("index 1".into(), false)], "not in the next life either");
    cache.tier.refresh(first.location, "validated".into(), 9);
    cache.settle();
    disk.kill();
    assert_eq!(found(&mut CachedTier::open(disk, settings())), [("validated".into(), true)]);
}

#[test]
fn damaged_journal_leaves_existing_objects_unproven() {
    let (disk, cache) = three(settings());
    (5..9).for_each(|number| cache.tier.journal_invalidation(number, b"purge").unwrap());
    disk.damage(&at("invalidations"), |octets| {
        let first = location_of(octets, b"purge");
        octets[first] ^= 1;
    });
    disk.kill();
    let mut cache = CachedTier::open(disk.clone(), settings());
    assert_eq!(cache.recovery.invalidations().len(), 3);
    assert!(found(&mut cache).iter().all(|(_, proven)| !proven));
    let next = cache.recovery.sequence();
    cache.write(record(next, 10)).unwrap();
    disk.kill();
    let mut cache = CachedTier::open(disk, settings());
    assert_eq!(found(&mut cache).iter().filter(|(_, proven)| *proven).count(), 1, "the new object is proven");
}

#[test]
fn missing_journal_or_mark_leaves_nothing_proven() {
    let (disk, _) = three(settings());
    disk.kill();
    disk.remove(&at("invalidations")).unwrap();
    assert!(found(&mut CachedTier::open(disk.clone(), settings())).iter().all(|(_, proven)| !proven));
    disk.kill();
    disk.remove(&at("mark")).unwrap();
    assert_eq!(found(&mut CachedTier::open(disk, settings())), []);
}

#[test]
fn only_synced_objects_are_proven_after_a_power_cut() {
    let (disk, mut cache) = three(TierSettings { durability: Durability::Power, ..settings() });
    cache.sync();
    assert_eq!(cache.tier.figures().synced, 3);
    disk.power_cut();
    let mut cache = CachedTier::open(disk.clone(), settings());
    assert_eq!(found(&mut cache).iter().filter(|(_, proven)| *proven).count(), 3);
    cache.sync();
    cache.close();
    disk.power_cut();
    let mut cache = CachedTier::open(disk.clone(), settings());
    assert_eq!(
        found(&mut cache).iter().filter(|(_, proven)| *proven).count(),
        3,
        "the directory was closed cleanly"
    );
    disk.power_cut();
    let mut cache = CachedTier::open(disk.clone(), settings());
    assert_eq!(found(&mut cache), (1..=3).map(|n| (format!("index {n}").into(), false)).collect::<Vec<_>>());
    disk.kill();
    let mut cache = CachedTier::open(disk, settings());
    assert!(found(&mut cache).iter().all(|(_, proven)| !proven), "no object has been refreshed since");
}

#[test]
fn directory_of_a_later_format_is_left_unchanged() {
    let (disk, cache) = three(settings());
    drop(cache);
    disk.kill();
    let files = disk.list(Path::new("/cache")).unwrap();
    disk.damage(&at("mark"), |octets| octets[8] = 77);
    let refused = CachedTier::try_open(Arc::new(disk.clone()), settings()).err();
    assert!(matches!(refused, Some(OpenError::NewerVersion { found: 77, known: 2, .. })), "{refused:?}");
    assert_eq!(disk.list(Path::new("/cache")).unwrap(), files);
}

#[test]
fn error_names_a_directory_that_cannot_be_written() {
    let disk = SimulatedDisk::new(1);
    disk.fail_at(1, DiskFault::Io);
    let refused = CachedTier::try_open(Arc::new(disk), settings()).err().unwrap().to_string();
    assert_eq!(refused, "/cache: cannot create the directory: the device failed");
    let directory = tempfile::tempdir().unwrap();
    let at = TierSettings { directory: directory.path().into(), ..settings() };
    let refused = CachedTier::try_open(Arc::new(FaultyDisk::with_room(10)), at);
    assert!(matches!(refused, Err(OpenError::Io { operation: "write", .. })));
}

#[test]
fn reads_of_damaged_records_are_counted() {
    let (disk, mut cache) = three(settings());
    let location = cache.write(record(4, 100_000)).unwrap();
    let stored = cache.tier.read(location).unwrap();
    let mut content = disk.read(&at(DATA)).unwrap();
    // The body is at the end of the file.
    let place = content.len() - 30_000;
    content[place] ^= 1;
    disk.open(&at(DATA), Access::Write).unwrap().write_at(&content, 0).unwrap();
    assert!(stored.body.read_at(0, 60_000).is_ok(), "this piece is intact");
    assert!(matches!(stored.body.read_at(65_536, 10), Err(ReadError::Damaged)));
    let aside = cache.tier.read_aside(location).unwrap();
    assert!(matches!(aside.body.verify(), Err(ReadError::Damaged)));
    assert_eq!(cache.tier.figures().damaged, 2);
    disk.open(&at(DATA), Access::Write).unwrap().truncate(place as u64).unwrap();
    assert!(matches!(stored.body.check(65_536, 10), Err(ReadError::Damaged)));
    disk.fail_at(disk.operations() + 1, DiskFault::Io);
    assert!(matches!(stored.body.read_at(0, 10), Err(ReadError::Io(_))));
    assert_eq!(cache.tier.figures().damaged, 4);
}

#[test]
fn damaged_refreshed_index_entry_is_rejected() {
    let disk = SimulatedDisk::new(1);
    let mut cache = CachedTier::open(disk.clone(), settings());
    let location = cache.write(record(1, 100)).unwrap();
    cache.tier.refresh(location, "refreshed".into(), 9);
    cache.settle();
    assert_eq!(read(&cache.tier, location).unwrap().0, "refreshed");
    let mut content = disk.read(&at(INDEX)).unwrap();
    let place = content.windows(9).position(|octets| octets == b"refreshed").unwrap();
    content[place] = b'R';
    disk.open(&at(INDEX), Access::Write).unwrap().write_at(&content, 0).unwrap();
    assert!(matches!(read(&cache.tier, location), Err(ReadError::Damaged)));
    assert_eq!(cache.tier.figures().damaged, 1);
}
