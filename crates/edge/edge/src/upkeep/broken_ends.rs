//! Ends of earlier processes by a broken invariant of store or disk tier.
//!
//! Invariant: a cause that lies in the contents of the disk cannot end one process after the other.
//! After a few ends within a short time the next start leaves the disk alone.

use clock::Timestamp;
use config::EdgePlan;
use disk::TierSettings;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of ends within [`ENDS_WITHIN`] that switches the disk tier off.
const ENDS_MAX: usize = 3;

/// Period in which ends are counted.
const ENDS_WITHIN: Duration = Duration::from_secs(300);

/// The file in which the ends of processes with the disk tier of this plan are recorded. `None`
/// without a disk tier or a state directory.
pub(crate) fn record_of(plan: &EdgePlan) -> Option<PathBuf> {
    let disk = plan.disk.as_ref()?;
    Some(record(&disk.directory, disk.state_directory.as_deref()?))
}

/// As [`record_of`], for the settings of a tier.
pub(crate) fn record_of_tier(settings: &TierSettings) -> Option<PathBuf> {
    Some(record(&settings.directory, settings.state_directory.as_deref()?))
}

/// Processes with other directories may have the same state directory.
fn record(directory: &Path, state_directory: &Path) -> PathBuf {
    let directory = directory.display().to_string().replace('/', "-");
    state_directory.join(format!("broken{directory}"))
}

/// Whether the ends in this record make the next start leave the disk alone.
pub(crate) fn are_frequent(record: &[u8], now: Timestamp) -> bool {
    let times = std::str::from_utf8(record).unwrap_or_default().lines();
    let times = times.filter_map(|line| line.parse().ok()).map(Timestamp::from_secs);
    // A time in the future comes from a clock that was set back since.
    times.filter(|time| *time <= now && now.since(*time) <= ENDS_WITHIN).count() >= ENDS_MAX
}

#[cfg(test)]
mod tests {
    use super::are_frequent;
    use clock::Timestamp;

    #[test]
    fn three_ends_within_five_minutes_are_frequent() {
        let now = Timestamp::from_secs(1_000_000);
        for (record, expected) in [
            ("", false),
            ("999990\n999995\n", false),
            ("999990\n999995\n1000000\n", true),
            ("999699\n999995\n1000000\n", false),
            ("999700\n999995\n1000000\n", true),
            ("1000001\n999995\n1000000\n", false),
            ("x\n\n999995\n1000000\n", false),
        ] {
            assert_eq!(are_frequent(record.as_bytes(), now), expected, "{record}");
        }
        assert!(!are_frequent(&[255; 9], now));
    }
}
