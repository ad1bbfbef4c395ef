//! The thread that keeps the resident memory of the process within what it was given.
//!
//! Invariant: the store gives way 8 MiB before the end of the promised margin (docs/performance.md), and the thread looks
//! often enough that downloads from this machine do not fill these between two looks. It has the priority of the workers,
//! because a process that waits for cores must not exceed its memory meanwhile.

use crate::disk_threads;
use crate::shared::Shared;
use platform::Monotonic;
use std::io;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

/// Resident bytes beside the given memory at which the store gives way: the program, connections and their buffers.
const BESIDE_BYTES: u64 = 16 << 20;

/// The share of the given memory that the allocator may lose: one part in this many.
const LOSS_PART: u64 = 20;

/// The pause between two looks at a process that is far from its limit.
const PAUSE: Duration = Duration::from_millis(50);

/// The pause between two looks at a process that is near its limit. A look costs about 20 microseconds.
const NEAR_PAUSE: Duration = Duration::from_millis(5);

/// The distance from the limit that is near, in bytes.
const NEAR_BYTES: u64 = 16 << 20;

/// How often threads give free memory back while the store cannot give way any further. It costs each worker some tens
/// of microseconds, and page faults when it needs the memory again.
const GIVE_BACK_EVERY: Duration = Duration::from_millis(100);

/// Starts the thread. The process must be there for this edge alone, because its memory is taken for the edge's.
///
/// # Errors
/// When there is no thread to be had.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let shared = Arc::downgrade(shared);
    let watch = move || {
        let mut give_back_at = Monotonic::default();
        while let Some(pause) = shared.upgrade().and_then(|shared| look(&shared, &mut give_back_at)) {
            std::thread::sleep(pause);
        }
    };
    Builder::new().name("petasos-memory".to_owned()).spawn(watch).map(drop)
}

/// Fits the store to the process; gives the pause until the next look, or `None` where there shall be none.
fn look(shared: &Shared, give_back_at: &mut Monotonic) -> Option<Duration> {
    let resident_bytes = platform::resident_bytes().filter(|_| !shared.is_quitting())?;
    let memory_bytes = shared.plan.memory_bytes;
    let resident_bytes_max = memory_bytes + memory_bytes / LOSS_PART + BESIDE_BYTES;
    let now = shared.clock.monotonic();
    if !shared.store.fit(resident_bytes, resident_bytes_max) && now >= *give_back_at {
        shared.memory_short.notify_waiters();
        disk_threads::dismiss();
        *give_back_at = now.plus(GIVE_BACK_EVERY);
    }
    Some(if resident_bytes + NEAR_BYTES > resident_bytes_max { NEAR_PAUSE } else { PAUSE })
}
