//! The settings of a tier. Every limit has its default here.

use std::path::PathBuf;
use std::time::Duration;

use crate::OpenError;

/// The place and the limits of a tier.
#[derive(Clone, Debug)]
pub struct TierSettings {
    /// The directory. It is created if it does not exist, and refused if it contains files of other
    /// programs.
    pub directory: PathBuf,
    /// The names of files that the caller keeps in the directory. Default: none.
    pub companions: &'static [&'static str],
    /// A directory that outlives restarts of the machine, preferably on another device. It holds a
    /// witness. Default: none.
    pub state_directory: Option<PathBuf>,
    /// A directory that outlives the process, such as one below /run. It holds a witness. Default:
    /// none.
    pub runtime_directory: Option<PathBuf>,
    /// The largest total size of the directory's files, in bytes. Default: 10 GiB.
    pub bytes_max: u64,
    /// The event that an acknowledged invalidation survives. Default: [`Durability::Process`].
    pub durability: Durability,
    /// The size of a segment, in bytes. Default (`None`): 64 MiB, at most `bytes_max / 16`, at
    /// least `bytes_max / 512`.
    pub segment_bytes: Option<u64>,
    /// The most bytes that may wait for the writer. Default: 32 MiB.
    pub queue_bytes_max: u64,
    /// The most fills that may run at the same time. Default: 64.
    pub fills_max: usize,
    /// The most bytes that running fills may take together. Segments with running fills cannot be
    /// evicted. Default (`None`): `bytes_max / 4`.
    pub fill_bytes_max: Option<u64>,
    /// The largest size of the journal of invalidations, in bytes. Default (`None`):
    /// `bytes_max / 64`, at most 16 MiB.
    pub invalidation_bytes_max: Option<u64>,
    /// The pause in writing after the disk was full. Default: 10 s.
    pub full_pause: Duration,
    /// The time after which an unanswered operation means that the disk hangs. Default: 2 s.
    pub timeout: Duration,
}

/// The event that an acknowledged invalidation survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process. The invalidation is in the system's page cache and is synced within
    /// a second. After a power cut every object must be validated before it is used.
    #[default]
    Process,
    /// A power cut. The invalidation is synced before it is acknowledged.
    Power,
}

impl Default for TierSettings {
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

/// The smallest tier that works, in bytes.
const BYTES_MIN: u64 = 1 << 20;

/// The settings with all defaults applied.
#[derive(Clone, Debug)]
pub(crate) struct TierPlan {
    pub(crate) directory: PathBuf,
    pub(crate) durability: Durability,
    /// The most bytes that segments and journal may take together before the next write. The rest
    /// of `bytes_max` is for data that exists twice while it is moved or compacted.
    pub(crate) usable_bytes: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) segments_max: u64,
    pub(crate) object_bytes_max: u64,
    pub(crate) queue_bytes_max: u64,
    pub(crate) fills_max: u64,
    pub(crate) fill_bytes_max: u64,
    /// The bytes of one fill that may wait for the writer before its owner has to wait.
    pub(crate) fill_window_bytes: u64,
    pub(crate) invalidation_bytes_max: u64,
    pub(crate) full_pause: Duration,
}

impl TierPlan {
    pub(crate) fn of(settings: &TierSettings) -> Result<Self, OpenError> {
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
            // An eviction writes at most half a segment again. An index takes a quarter of a
            // segment, and its compacted copy no more. The journal exists twice while it is
            // compacted.
            usable_bytes: bytes_max - segment_bytes - 2 * invalidation_bytes_max,
            segment_bytes,
            // Each start begins a new segment, even if the last one is small.
            segments_max: 2 * (bytes_max / segment_bytes) + settings.fills_max as u64,
            object_bytes_max: bytes_max / 8,
            queue_bytes_max: settings.queue_bytes_max,
            // A fill keeps up to one piece in memory until it is finished. These pieces alone must
            // not fill the queue.
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
    use super::{TierPlan, TierSettings};

    #[test]
    fn files_stay_few_and_segments_small() {
        for gibibytes in [1, 10, 100, 1000, 10_000] {
            let plan = TierPlan::of(&TierSettings { bytes_max: gibibytes << 30, ..TierSettings::default() })
                .unwrap();
            assert!(plan.segments_max <= 2 * 512 + 64 + 2, "{plan:?}");
            assert!(plan.usable_bytes > plan.segment_bytes * 8);
        }
        let plan = TierPlan::of(&TierSettings::default()).unwrap();
        assert_eq!(plan.segment_bytes, 64 << 20);
        assert!(TierPlan::of(&TierSettings { bytes_max: 1000, ..TierSettings::default() }).is_err());
    }
}
