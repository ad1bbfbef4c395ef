//! Invalidations that cannot be journaled are kept until they are durable, and no caller is told
//! that they are durable before.

#![expect(clippy::unwrap_used, reason = "a test: a failure is a failure")]

use bytes::Bytes;
use clock::ManualClock;
use disk::{DiskWriter, OpenedTier, Recovery, TierSettings};
use invalidation::{Ban, Mode};
use petasos_store as store;
use platform::SimulatedDisk;
use std::io::ErrorKind;
use std::sync::Arc;
use store::{Bans, Invalidation, Selector, SiteId, SiteNames, Store, StoreLimits};

struct UndurableSiteNames;

impl SiteNames for UndurableSiteNames {
    fn name(&self, _: SiteId) -> Bytes {
        Bytes::from_static(b"shop")
    }

    fn find(&self, _: &[u8]) -> Option<SiteId> {
        Some(SiteId(0))
    }
}

struct NoBans;

impl Bans for NoBans {
    fn ban(&self, _: &[u8]) -> Option<Arc<dyn Ban>> {
        None
    }
}

fn open(disk: &SimulatedDisk) -> (Store, DiskWriter, Recovery) {
    let settings =
        TierSettings { directory: "/cache".into(), bytes_max: 64 << 20, ..TierSettings::default() };
    let OpenedTier { tier, writer, recovery } =
        disk::open(Arc::new(disk.clone()), Arc::new(ManualClock::default()), settings).unwrap();
    let store = Store::new(StoreLimits::default(), 1);
    let (store, _) = store.above(&tier, &recovery, Arc::new(UndurableSiteNames), &NoBans, 1, |_, _| {});
    (store, writer, recovery)
}

fn purge(store: &Store, page: usize) {
    let target = Bytes::from(format!("/page-{page}"));
    let selector = Selector::Target { site: SiteId(0), host: "a.test".into(), target };
    store.invalidate(&Invalidation { selector, mode: Mode::Hard });
}

#[test]
fn failed_invalidation_is_kept_until_it_is_durable() {
    let disk = SimulatedDisk::new(1);
    let (store, _writer, _) = open(&disk);
    disk.set_broken(Some(ErrorKind::ReadOnlyFilesystem));
    purge(&store, 1);
    assert!(store.persist().is_err() && store.is_behind());
    assert!(store.persist().is_err(), "a call without a new invalidation fails too");
    purge(&store, 2);
    assert!(store.persist().is_err() && store.is_behind());
    disk.set_broken(None);
    assert_eq!(store.persist(), Ok(()));
    assert!(!store.is_behind());
}

#[test]
fn too_many_pending_invalidations_become_one_of_everything() {
    let disk = SimulatedDisk::new(1);
    let (store, _writer, _) = open(&disk);
    (0..4097).for_each(|page| purge(&store, page));
    purge(&store, 5000);
    let last = store.sequence();
    store.persist().unwrap();
    drop(store);
    disk.kill();
    let (_, _, recovery) = open(&disk);
    let numbers: Vec<_> = recovery.invalidations().iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [last - 1, last]);
}
