//! If an invalidation cannot be written, the directory's contents are not used again. Every place
//! that can record this is tested.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test ends where it fails")]

mod common;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use common::devices::Devices;
use common::{CachedTier, record};
use petasos_disk::{DistrustPlace, Durability, OffReason, distrust};
use platform::Disk;

/// A cache with three synced objects.
fn warm(devices: &Devices, durability: Durability) -> CachedTier {
    let mut cache = CachedTier::open(devices.clone(), Devices::settings(durability));
    (1..=3).for_each(|number| assert!(cache.write(record(number, 3000)).is_some()));
    cache.sync();
    cache
}

/// The number of objects that the next life may use without asking the origin.
fn proven(devices: &Devices, durability: Durability) -> usize {
    let cache = CachedTier::open(devices.clone(), Devices::settings(durability));
    cache.recovery.filter(|found| found.proven).count()
}

/// Sends an invalidation while devices fail with `kind`. Then the process or the machine ends, and
/// the devices work again.
fn attack(kind: ErrorKind, state_fails: bool, durability: Durability, reboots: bool) {
    let mut devices = Devices::new();
    let cache = warm(&devices, durability);
    devices.tier.set_broken(Some(kind));
    devices.state.set_broken(state_fails.then_some(kind));
    let answered = cache.tier.journal_invalidation(9, b"purge");
    let at = format!("{kind:?}, state fails: {state_fails}, {durability:?}, reboots: {reboots}");
    let expected = match (state_fails, durability) {
        (false, _) => Some(DistrustPlace::State),
        (true, Durability::Process) => Some(DistrustPlace::Runtime),
        (true, Durability::Power) => None,
    };
    assert_eq!((cache.tier.distrusted(), answered.is_ok()), (expected, expected.is_some()), "{at}");
    assert!(matches!(cache.tier.off(), Some(OffReason::Io { .. })), "{at}");
    drop(cache);
    if reboots {
        devices.reboot()
    } else {
        devices.kill()
    }
    devices.tier.set_broken(None);
    devices.state.set_broken(None);
    if answered.is_ok() {
        assert_eq!(proven(&devices, durability), 0, "{at}");
        devices.kill();
        assert_eq!(proven(&devices, durability), 0, "in the life after next: {at}");
    }
}

#[test]
fn acknowledged_invalidation_holds_for_every_fault_and_place() {
    for kind in [ErrorKind::Other, ErrorKind::ReadOnlyFilesystem, ErrorKind::StorageFull, ErrorKind::NotFound]
    {
        for state_fails in [false, true] {
            for durability in [Durability::Process, Durability::Power] {
                attack(kind, state_fails, durability, false);
                attack(kind, state_fails, durability, true);
            }
        }
    }
}

#[test]
fn every_caller_gets_an_error_until_a_place_works() {
    let devices = Devices::new();
    let cache = warm(&devices, Durability::Process);
    let all = [&devices.tier, &devices.state, &devices.runtime];
    all.iter().for_each(|device| device.set_broken(Some(ErrorKind::Other)));
    assert!(cache.tier.journal_invalidation(9, b"first").is_err());
    assert!(cache.tier.journal_invalidation(10, b"second").is_err());
    assert!(cache.tier.confirm().is_err() && cache.tier.is_undurable());
    devices.state.set_broken(None);
    assert_eq!(cache.tier.confirm(), Ok(()));
    assert!(!cache.tier.is_undurable());
    assert_eq!(cache.tier.journal_invalidation(11, b"third"), Ok(()));
    drop(cache);
    devices.kill();
    all.iter().for_each(|device| device.set_broken(None));
    assert_eq!(proven(&devices, Durability::Process), 0);
}

#[test]
fn failed_background_sync_requires_distrust() {
    let devices = Devices::new();
    let mut cache = warm(&devices, Durability::Process);
    cache.tier.journal_invalidation(9, b"answered and not synced").unwrap();
    let all = [&devices.tier, &devices.state, &devices.runtime];
    all.iter().for_each(|device| device.set_broken(Some(ErrorKind::Other)));
    cache.sync();
    assert!(cache.tier.is_undurable());
    devices.runtime.set_broken(None);
    assert_eq!(cache.tier.confirm(), Ok(()));
    assert_eq!(cache.tier.distrusted(), Some(DistrustPlace::Runtime));
}

#[test]
fn witnesses_keep_a_killed_cache_warm() {
    for durability in [Durability::Process, Durability::Power] {
        let mut devices = Devices::new();
        drop(warm(&devices, durability));
        devices.kill();
        assert_eq!(proven(&devices, durability), 3);
        devices.kill();
        assert_eq!(proven(&devices, durability), 3, "in the life after next");
        devices.reboot();
        let expected = if durability == Durability::Power { 3 } else { 0 };
        assert_eq!(proven(&devices, durability), expected, "after a restart of the machine");
    }
}

#[test]
fn change_of_durability_keeps_a_killed_cache_warm() {
    let devices = Devices::new();
    drop(warm(&devices, Durability::Process));
    for durability in [Durability::Power, Durability::Power, Durability::Process, Durability::Process] {
        devices.kill();
        assert_eq!(proven(&devices, durability), 3);
    }
}

#[test]
fn lost_witness_after_a_crash_begins_empty() {
    for (device, durability) in [(0, Durability::Process), (1, Durability::Process), (0, Durability::Power)] {
        let mut devices = Devices::new();
        drop(warm(&devices, durability));
        devices.kill();
        match device {
            0 => devices.state = platform::SimulatedDisk::new(9),
            _ => devices.runtime = platform::SimulatedDisk::new(9),
        }
        assert_eq!(proven(&devices, durability), 0, "device {device}");
    }
}

#[test]
fn lost_witness_after_a_clean_close_stays_warm() {
    let mut devices = Devices::new();
    warm(&devices, Durability::Process).close();
    devices.kill();
    devices.state = platform::SimulatedDisk::new(9);
    devices.runtime = platform::SimulatedDisk::new(9);
    assert_eq!(proven(&devices, Durability::Process), 3);
}

#[test]
fn directory_swapped_between_lives_begins_empty() {
    let mut devices = Devices::new();
    warm(&devices, Durability::Process).close();
    devices.kill();
    let first = std::mem::replace(&mut devices.tier, platform::SimulatedDisk::new(7));
    let cache = CachedTier::open(devices.clone(), Devices::settings(Durability::Process));
    cache.tier.journal_invalidation(9, b"purge").unwrap();
    cache.close();
    devices.kill();
    devices.tier = first;
    let cache = CachedTier::open(devices, Devices::settings(Durability::Process));
    assert!(cache.recovery.is_distrusted());
    assert_eq!(cache.recovery.count(), 0);
}

#[test]
fn unopened_directory_can_be_distrusted() {
    for is_clean in [false, true] {
        let mut devices = Devices::new();
        let cache = warm(&devices, Durability::Power);
        if is_clean {
            cache.close()
        } else {
            drop(cache)
        }
        devices.kill();
        devices.tier.set_broken(Some(ErrorKind::Other));
        let settings = Devices::settings(Durability::Power);
        assert!(CachedTier::try_open(Arc::new(devices.clone()), settings.clone()).is_err());
        devices.state.set_broken(Some(ErrorKind::Other));
        assert!(distrust(&devices, &settings).is_err());
        devices.state.set_broken(None);
        distrust(&devices, &settings).unwrap();
        devices.reboot();
        devices.tier.set_broken(None);
        assert_eq!(proven(&devices, Durability::Power), 0, "clean: {is_clean}");
    }
}

#[test]
fn crash_while_emptying_a_distrusted_directory_keeps_it_empty() {
    let mut is_over = false;
    for operation in 1..200 {
        let devices = Devices::new();
        let cache = warm(&devices, Durability::Process);
        devices.tier.set_broken(Some(ErrorKind::Other));
        cache.tier.journal_invalidation(9, b"purge").unwrap();
        drop(cache);
        devices.kill();
        devices.tier.set_broken(None);
        devices.tier.fail_at(devices.tier.operations() + operation, platform::DiskFault::Kill);
        let opened = CachedTier::try_open(Arc::new(devices.clone()), Devices::settings(Durability::Process));
        is_over = opened.is_ok() && !devices.tier.is_killed();
        drop(opened);
        devices.kill();
        assert_eq!(proven(&devices, Durability::Process), 0, "killed at operation {operation}");
        if is_over {
            break;
        }
    }
    assert!(is_over, "the directory was never emptied without a crash");
}

#[test]
fn crash_while_opening_a_directory_keeps_it_warm() {
    for device in 0..3 {
        let mut is_over = false;
        for operation in 1..200 {
            let devices = Devices::new();
            drop(warm(&devices, Durability::Process));
            devices.kill();
            let failing = [&devices.tier, &devices.state, &devices.runtime][device].clone();
            failing.fail_at(failing.operations() + operation, platform::DiskFault::Kill);
            let opened =
                CachedTier::try_open(Arc::new(devices.clone()), Devices::settings(Durability::Process));
            is_over = opened.is_ok() && !failing.is_killed();
            drop(opened);
            devices.kill();
            let at = format!("device {device}, killed at operation {operation}");
            assert_eq!(proven(&devices, Durability::Process), 3, "{at}");
            if is_over {
                break;
            }
        }
        assert!(is_over, "the directory was never opened without a crash");
    }
}

#[test]
fn copy_from_the_previous_life_begins_empty() {
    let devices = Devices::new();
    drop(warm(&devices, Durability::Process));
    devices.kill();
    let names = devices.tier.list(Path::new("/cache")).unwrap();
    let paths = names.into_iter().map(|(name, _)| Path::new("/cache").join(name));
    let copy: Vec<_> = paths.map(|path| (devices.tier.read(&path).unwrap(), path)).collect();
    let cache = CachedTier::open(devices.clone(), Devices::settings(Durability::Process));
    cache.tier.journal_invalidation(9, b"purge").unwrap();
    drop(cache);
    devices.kill();
    copy.iter().for_each(|(content, path)| devices.tier.replace(path, content).unwrap());
    assert_eq!(proven(&devices, Durability::Process), 0);
}

#[test]
fn contents_set_aside_are_unused_unless_taken_back() {
    for (state_fails, durability) in
        [(false, Durability::Process), (true, Durability::Process), (false, Durability::Power)]
    {
        for (taken_back, expected) in [(false, 0), (true, 3)] {
            let devices = Devices::new();
            let cache = warm(&devices, durability);
            devices.state.set_broken(state_fails.then_some(ErrorKind::Other));
            let place = cache.tier.set_aside().unwrap();
            assert_eq!(place, if state_fails { DistrustPlace::Runtime } else { DistrustPlace::State });
            assert_eq!(
                (cache.tier.off(), cache.tier.distrusted()),
                (None, None),
                "the tier stays in use in this life"
            );
            if taken_back {
                cache.tier.journal_invalidation(9, b"purge").unwrap();
                assert!(cache.tier.take_back(place));
            }
            drop(cache);
            devices.kill();
            devices.state.set_broken(None);
            let cache = CachedTier::open(devices.clone(), Devices::settings(durability));
            assert_eq!(cache.recovery.invalidations().len(), usize::from(taken_back));
            let used = cache.recovery.filter(|found| found.proven).count();
            assert_eq!(
                used, expected,
                "taken back: {taken_back}, {durability:?}, state fails: {state_fails}"
            );
        }
    }
}

#[test]
fn set_aside_returns_none_if_no_place_works() {
    let devices = Devices::new();
    let cache = warm(&devices, Durability::Power);
    devices.state.set_broken(Some(ErrorKind::Other));
    assert_eq!(cache.tier.set_aside(), None, "the runtime directory does not count under this durability");
}

#[test]
fn distrust_for_another_reason_is_not_taken_back() {
    let devices = Devices::new();
    let cache = warm(&devices, Durability::Process);
    let place = cache.tier.set_aside().unwrap();
    devices.tier.set_broken(Some(ErrorKind::Other));
    cache.tier.journal_invalidation(9, b"purge").unwrap();
    assert_eq!(cache.tier.distrusted(), Some(DistrustPlace::State));
    assert!(!cache.tier.take_back(place));
    drop(cache);
    devices.kill();
    devices.tier.set_broken(None);
    assert_eq!(proven(&devices, Durability::Process), 0);
}
