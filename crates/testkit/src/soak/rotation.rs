//! Rotation of the access log: the file is renamed, and a signal makes the edge open a new one.

use super::{SoakState, lock};
use crate::Edge;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between two rotations. In a short soak, a quarter of its length.
const PAUSE: Duration = Duration::from_secs(30);
/// Pause between two checks of the end of the soak or of the log file.
const SLICE: Duration = Duration::from_millis(50);
/// Longest time that the edge may take to open the log, on a loaded machine.
const LIMIT: Duration = Duration::from_secs(10);

/// Rotates the access log until the end. SIGHUP does it too; the reloads send that.
pub(super) fn rotate(stage: &SoakState<'_>, edge: &Edge, directory: &Path) {
    let pause = PAUSE.min(stage.plan.length / 4);
    for number in 1.. {
        let due = pause * number;
        while stage.health.now() < due {
            if stage.is_over() {
                return;
            }
            std::thread::sleep(SLICE);
        }
        // A SIGHUP opens the log too.
        let _turn = lock(&stage.orders);
        let log = directory.join("access.log");
        std::fs::rename(&log, directory.join(format!("access.{number}.log"))).unwrap();
        edge.signal("USR1");
        stage.count(ROTATIONS);
        let begun = stage.health.now();
        while !log.exists() {
            if stage.health.now() > begun + LIMIT {
                return stage.complain(&format!("no access log {LIMIT:?} after SIGUSR1"));
            }
            std::thread::sleep(SLICE);
        }
    }
}

/// Name under which rotations are counted.
pub(super) const ROTATIONS: &str = "rotations by SIGUSR1";

/// All files of the access log.
pub(super) fn logs(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect()
}
