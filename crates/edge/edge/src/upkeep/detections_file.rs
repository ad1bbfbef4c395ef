//! The file of detected profiles in the disk tier's directory, written for the next process.
//!
//! Invariants: a file of another format and rows that do not fit the plan are ignored; detection
//! then starts anew. No stored response depends on the file, because each carries the rules that it
//! was judged by.

use crate::memory::detection::{Detected, UNCONFIRMED_MAX};
use crate::sites::Site;
use crate::upkeep::disk_threads::DiskThreads;
use clock::Timestamp;
use platform::Disk;
use semantics::Moment;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The file in the disk tier's directory.
const FILE: &str = "recognised";

/// The temporary name under which earlier versions wrote it.
const FORMER_PARTIAL_FILE: &str = "recognised.new";

/// Files in the disk tier's directory that do not belong to the tier itself.
pub(crate) const FILES: &[&str] = &[FILE, FORMER_PARTIAL_FILE];

/// The version of the file format. Version 1 had one line of text for each site, without times.
const FORMAT: u32 = 2;

#[derive(Debug, Deserialize, Serialize)]
struct DetectionsDocument {
    format: u32,
    sites: Vec<DetectionRow>,
}

/// One site and its origin.
#[derive(Debug, Deserialize, Serialize)]
struct DetectionRow {
    site: String,
    origin: String,
    /// Whether an operator has switched off detection.
    off: bool,
    detected: Option<DetectionRecord>,
}

#[derive(Debug, Deserialize, Serialize)]
struct DetectionRecord {
    profile: String,
    software: String,
    signs: Vec<String>,
    /// Seconds since 1970.
    since: u64,
    /// Seconds since 1970.
    confirmed: u64,
}

/// The file of detections on a disk.
pub(crate) struct DetectionsFile<'a> {
    /// The directory of the disk tier.
    pub(crate) directory: &'a Path,
    pub(crate) disk: &'a Arc<dyn Disk>,
}

/// What a previous process has detected.
#[derive(Debug, Default)]
pub(crate) struct Detections(Vec<DetectionRow>);

impl DetectionsFile<'_> {
    /// Writes the detections of all sites. Blocks.
    ///
    /// # Errors
    /// As the disk reports them.
    pub(crate) fn write<'a>(&self, sites: impl Iterator<Item = &'a Arc<Site>>) -> io::Result<()> {
        let sites = sites.filter_map(|site| DetectionRow::of(site)).collect();
        let text = serde_json::to_vec_pretty(&DetectionsDocument { format: FORMAT, sites })?;
        self.disk.replace(&self.directory.join(FILE), &text)
    }

    /// Reads the detections of the previous process on `threads`; empty if the disk does not
    /// deliver them `within` this time.
    pub(crate) fn read(&self, threads: &DiskThreads, within: Duration) -> Detections {
        let (disk, path) = (Arc::clone(self.disk), self.directory.join(FILE));
        let Some(Ok(text)) = threads.run_here(within, move || disk.read(&path)) else {
            return Detections::default();
        };
        match serde_json::from_slice::<DetectionsDocument>(&text) {
            Ok(document) if document.format == FORMAT => Detections(document.sites),
            Ok(_) | Err(_) => Detections::default(),
        }
    }
}

/// Restores the detections of the previous process.
pub(crate) fn restore<'a>(
    Detections(rows): Detections,
    sites: impl Iterator<Item = &'a Arc<Site>>,
    now: Moment,
) {
    for site in sites {
        let is_own =
            |row: &&DetectionRow| row.site == site.label() && row.origin == site.plan.origin.to_string();
        let Some(row) = rows.iter().find(is_own) else { continue };
        if row.off {
            site.detection.switch_off();
        } else if let Some(found) = row.detected.as_ref().and_then(|detected| detected.found(site, now)) {
            site.detection.restore(found);
        }
    }
}

impl DetectionRow {
    /// The row of a site; `None` if there is nothing to keep.
    fn of(site: &Site) -> Option<Self> {
        let off = site.detection.is_off();
        let detected = site.detection.found().and_then(|found| {
            Some(DetectionRecord {
                profile: site.plan.recognisable.get(found.place)?.name.clone(),
                software: found.software,
                signs: found.signs,
                since: found.since.as_secs(),
                confirmed: found.confirmed.wall.as_secs(),
            })
        });
        (off || detected.is_some()).then(|| Self {
            site: site.label().to_owned(),
            origin: site.plan.origin.to_string(),
            off,
            detected,
        })
    }
}

impl DetectionRecord {
    /// The detection for a site of this plan; `None` if it has expired or its profile is unknown.
    fn found(&self, site: &Site, now: Moment) -> Option<Detected> {
        let place = site.plan.recognisable.iter().position(|policy| policy.name == self.profile)?;
        // A time in the future means that the clock was set back; it counts as now.
        let confirmed = Timestamp::from_secs(self.confirmed).min(now.wall);
        let is_valid = !self.signs.is_empty() && now.wall.since(confirmed) < UNCONFIRMED_MAX;
        is_valid.then(|| Detected {
            place,
            software: self.software.clone(),
            signs: self.signs.clone(),
            since: Timestamp::from_secs(self.since),
            confirmed: Moment { wall: confirmed, monotonic: now.monotonic },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{DetectionsFile, FILE};
    use platform::{Disk, SystemDisk};
    use std::sync::Arc;

    #[test]
    fn file_replaces_a_link_of_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::NamedTempFile::new().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), directory.path().join(FILE)).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(SystemDisk);
        let file = DetectionsFile { directory: directory.path(), disk: &disk };
        file.write(std::iter::empty()).unwrap();
        assert_eq!(std::fs::read(elsewhere.path()).unwrap(), b"");
        assert!(std::fs::read(directory.path().join(FILE)).unwrap().starts_with(b"{"));
    }
}
