//! What a tier is opened with. Every limit has its default here.

use std::path::PathBuf;
use std::time::Duration;

use crate::OpenError;

/// Where a tier is kept and what it may take.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory, created if it does not exist. It is refused if it has files of other programs.
    pub directory: PathBuf,
    /// The names of files that the caller itself keeps in the directory. Default: none.
    pub companions: &'static [&'static str],
    /// A directory, preferably on another device, that outlives the machine's restarts. Default: none.
    pub state_directory: Option<PathBuf>,
    /// A directory that outlives the process, such as one below /run. Default: none.
    pub runtime_directory: Option<PathBuf>,
    /// The most that the files of the directory may take, in bytes. Default 10 GiB.
    pub bytes_max: u64,
    /// What an invalidation has survived when it is answered. Default [`Durability::Process`].
    pub durability: Durability,
    /// The size of a segment, in bytes. Default (`None`): 64 MiB, at most `bytes_max / 16`, at least `bytes_max / 512`.
    pub segment_bytes: Option<u64>,
    /// The most that may wait for the writer, in bytes. Default 32 MiB.
    pub queue_bytes_max: u64,
    /// The most bodies that may stream in at the same time. Default 64.
    pub fills_max: usize,
    /// The most that bodies which are streaming in may take together, in bytes, as a segment that is written to cannot
    /// be evicted. Default (`None`): `bytes_max / 4`.
    pub fill_bytes_max: Option<u64>,
    /// The most that the journal of invalidations may take, in bytes. Default (`None`): `bytes_max / 64`, at most
    /// 16 MiB.
    pub invalidation_bytes_max: Option<u64>,
    /// How long nothing is written after the disk was full. Default 10 s.
    pub full_pause: Duration,
    /// How long an operation of the disk may take before the disk counts as hung. Default 2 s.
    pub timeout: Duration,
}

/// What an invalidation has survived when it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process: it is in the system's page cache, and synced within a second. After a power cut
    /// every object is to be validated before it is used.
    #[default]
    Process,
    /// A power cut: it is synced before it is answered.
    Power,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            directory: PathBuf::new(),
            companions: &[],
            state_directory: None,
            runtime_directory: None,
            bytes_max: 10 << 30,
            durability: Durability::default(),
            segment_bytes: None,
            queue_bytes_max: 32 << 20,
            fills_max: 64,
            fill_bytes_max: None,
            invalidation_bytes_max: None,
            full_pause: Duration::from_secs(10),
            timeout: Duration::from_secs(2),
        }
    }
}

/// The least that a tier works with, in bytes.
const BYTES_MIN: u64 = 1 << 20;

/// The settings with every default worked out.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) directory: PathBuf,
    pub(crate) durability: Durability,
    /// What segments and the journal together may take before something is written or moved, in bytes. The rest is
    /// for what is there twice while it is moved.
    pub(crate) usable_bytes: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) segments_max: u64,
    pub(crate) object_bytes_max: u64,
    pub(crate) queue_bytes_max: u64,
    pub(crate) fills_max: u64,
    pub(crate) fill_bytes_max: u64,
    /// How much of a fill may wait before it is held back, in bytes.
    pub(crate) fill_window_bytes: u64,
    pub(crate) invalidation_bytes_max: u64,
    pub(crate) full_pause: Duration,
}

impl Plan {
    pub(crate) fn of(settings: &Settings) -> Result<Self, OpenError> {
        let bytes_max = settings.bytes_max;
        if bytes_max < BYTES_MIN {
            return Err(OpenError::TooSmall { bytes_max, bytes_min: BYTES_MIN });
        }
        let segment_bytes = settings
            .segment_bytes
            .unwrap_or_else(|| (bytes_max / 16).min(64 << 20).max(bytes_max / 512))
            .clamp(4 << 10, bytes_max / 16);
        let invalidation_bytes_max = settings
            .invalidation_bytes_max
            .unwrap_or_else(|| (bytes_max / 64).min(16 << 20))
            .clamp(4 << 10, bytes_max / 16);
        Ok(Self {
            directory: settings.directory.clone(),
            durability: settings.durability,
            // Half a segment is kept at most, an index is a quarter of a segment and its copy no larger, and the
            // journal stands twice while it is compacted.
            usable_bytes: bytes_max - segment_bytes - 2 * invalidation_bytes_max,
            segment_bytes,
            // Each start begins a new segment, however small the last one is.
            segments_max: 2 * (bytes_max / segment_bytes) + settings.fills_max as u64,
            object_bytes_max: bytes_max / 8,
            queue_bytes_max: settings.queue_bytes_max,
            // A fill keeps up to a piece in memory until it is finished; they must not fill the queue by that alone.
            fills_max: (settings.fills_max as u64).min(settings.queue_bytes_max / (256 << 10)),
            fill_bytes_max: settings.fill_bytes_max.unwrap_or(bytes_max / 4).min(bytes_max),
            fill_window_bytes: (settings.queue_bytes_max / 8).max(256 << 10),
            invalidation_bytes_max,
            full_pause: settings.full_pause,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Plan, Settings};

    #[test]
    fn files_stay_few_and_segments_small() {
        for gibibytes in [1, 10, 100, 1000, 10_000] {
            let plan = Plan::of(&Settings { bytes_max: gibibytes << 30, ..Settings::default() }).unwrap();
            assert!(plan.segments_max <= 2 * 512 + 64 + 2, "{plan:?}");
            assert!(plan.usable_bytes > plan.segment_bytes * 8);
        }
        let plan = Plan::of(&Settings::default()).unwrap();
        assert_eq!(plan.segment_bytes, 64 << 20);
        assert!(Plan::of(&Settings { bytes_max: 1000, ..Settings::default() }).is_err());
    }
}
