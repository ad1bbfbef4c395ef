//! Rotation of the access log: the file is renamed, and a signal makes the edge open a new one.

use super::SoakState;
use crate::Edge;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between two rotations. In a short soak, a quarter of its length.
const PAUSE: Duration = Duration::from_secs(60);
/// Pause between two checks of the end of the soak or of the log file.
const SLICE: Duration = Duration::from_millis(50);
/// Longest time that the edge may take to open the log, on a loaded machine.
const LIMIT: Duration = Duration::from_secs(10);

/// Rotates the access log until the end, alternating the two signals.
pub(super) fn rotate(stage: &SoakState<'_>, edge: &Edge, directory: &Path) {
    let pause = PAUSE.min(stage.plan.length / 4);
    for (number, signal) in (1..).zip(["HUP", "USR1"].into_iter().cycle()) {
        let due = pause * number;
        while stage.health.now() < due {
            if stage.is_over() {
                return;
            }
            std::thread::sleep(SLICE);
        }
        let log = directory.join("access.log");
        std::fs::rename(&log, directory.join(format!("access.{number}.log"))).unwrap();
        edge.signal(signal);
        stage.count(if signal == "HUP" { HUP } else { USR1 });
        let begun = stage.health.now();
        while !log.exists() {
            if stage.health.now() > begun + LIMIT {
                return stage.complain(&format!("no access log {LIMIT:?} after the signal {signal}"));
            }
            std::thread::sleep(SLICE);
        }
    }
}

/// Names under which rotations are counted.
pub(super) const HUP: &str = "rotations by SIGHUP";
pub(super) const USR1: &str = "rotations by SIGUSR1";

/// All files of the access log.
pub(super) fn logs(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect()
}
