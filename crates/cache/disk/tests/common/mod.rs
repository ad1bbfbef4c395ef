//! A tier whose writer is stepped by the test, and a keeper that records its calls.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test ends where it fails")]

pub(crate) mod devices;
pub(crate) mod model;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use clock::ManualClock;
use petasos_disk::{
    DiskWriter, Durability, Location, OpenError, OpenedTier, Record, Recovery, RetentionPolicy, Tier,
    TierSettings, WriterProgress, open,
};
use platform::Disk;

/// A keeper that keeps the objects listed in `keep`.
#[derive(Default)]
pub(crate) struct KeepList {
    pub(crate) keep: Mutex<Vec<Location>>,
    pub(crate) asked: Mutex<Vec<Location>>,
    pub(crate) moved: Mutex<HashMap<Location, Location>>,
    pub(crate) lost: Mutex<Vec<Location>>,
    pub(crate) lost_segments: Mutex<Vec<u32>>,
}

impl RetentionPolicy for KeepList {
    fn evicts(&self, location: Location) -> bool {
        self.asked.lock().unwrap().push(location);
        self.keep.lock().unwrap().contains(&location)
    }

    fn moved(&self, from: Location, to: Location, renew: &mut dyn FnMut() -> bool) {
        assert!(renew());
        self.moved.lock().unwrap().insert(from, to);
    }

    fn lost(&self, location: Location) {
        self.lost.lock().unwrap().push(location);
    }

    fn lost_all(&self, segment: u32) {
        self.lost_segments.lock().unwrap().push(segment);
    }
}

pub(crate) struct CachedTier {
    pub(crate) tier: Tier,
    pub(crate) writer: DiskWriter,
    pub(crate) recovery: Recovery,
    pub(crate) keeper: KeepList,
    pub(crate) clock: Arc<ManualClock>,
}

pub(crate) fn settings() -> TierSettings {
    TierSettings { directory: PathBuf::from("/cache"), bytes_max: 1 << 20, ..TierSettings::default() }
}

pub(crate) fn power() -> TierSettings {
    TierSettings { durability: Durability::Power, ..settings() }
}

impl CachedTier {
    pub(crate) fn try_open(disk: Arc<dyn Disk>, settings: TierSettings) -> Result<Self, OpenError> {
        let clock = Arc::new(ManualClock::default());
        let OpenedTier { tier, writer, recovery } = open(disk, clock.clone(), settings)?;
        Ok(Self { tier, writer, recovery, keeper: KeepList::default(), clock })
    }

    pub(crate) fn open(disk: impl Disk + 'static, settings: TierSettings) -> Self {
        Self::try_open(Arc::new(disk), settings).unwrap()
    }

    /// Steps the writer until it is idle.
    pub(crate) fn settle(&mut self) {
        while self.writer.step(&self.keeper) == WriterProgress::Worked {}
    }

    /// Lets a second pass, so that the periodic sync takes place.
    pub(crate) fn sync(&mut self) {
        self.clock.advance(std::time::Duration::from_secs(1));
        self.settle();
    }

    pub(crate) fn close(mut self) {
        self.tier.close();
        while self.writer.step(&self.keeper) != WriterProgress::Closed {}
    }

    pub(crate) fn write(&mut self, record: Record) -> Option<Location> {
        let place = Arc::new(Mutex::new(None));
        let answer = Arc::clone(&place);
        if !self.tier.write(record, move |location| *answer.lock().unwrap() = location) {
            return None;
        }
        self.settle();
        place.lock().unwrap().take()
    }
}

/// An object that differs from all others.
pub(crate) fn record(number: u64, body_bytes: usize) -> Record {
    Record {
        index: format!("index {number}").into(),
        head: format!("head {number}").into(),
        body: body(number, body_bytes).chunks(1000).map(Bytes::copy_from_slice).collect(),
        sequence: number,
    }
}

pub(crate) fn body(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (number.wrapping_mul(31) ^ (at * 7) ^ (at >> 8)) as u8).collect()
}

/// The index entry, head and body at a location. The body is read in small parts.
pub(crate) fn read(
    tier: &Tier,
    location: Location,
) -> Result<(Bytes, Bytes, Vec<u8>), petasos_disk::ReadError> {
    let stored = tier.read(location)?;
    let mut body = Vec::new();
    while (body.len() as u64) < stored.body.len() {
        body.extend_from_slice(&stored.body.read_at(body.len() as u64, 50_000)?);
    }
    Ok((stored.index, stored.head, body))
}
