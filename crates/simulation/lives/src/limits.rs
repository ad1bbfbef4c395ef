//! The watch over the limits of the edge while it lives.
//!
//! Invariant: a figure beyond its bound is recorded once.

use crate::filling::BreakerWatch;
use crate::logging::log_bytes;
use crate::society::{SharedEdge, Society};
use actors::{Moment, Timeline, lock};
use edge::{EmbeddedEdge, Metric};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use world::World;

/// How often the figures are compared with their bounds, in simulated time.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What the edge may allocate beside the configured memory: the program's tables, and connections
/// with their buffers. docs/performance.md promises it.
const BESIDE_BYTES: u64 = 24 << 20;

/// What each body outside the store takes even if the share of all bodies, an eighth of the memory,
/// is used up; and the bodies that are read back from the disk at the same time.
pub(crate) const SMALL_BODY_BYTES: u64 = 64 << 10;
const DISK_READS_MAX: u64 = 8;

/// The setting `limits.buffer_memory_percent`, which no run changes.
const BUFFERS_PERCENT: u64 = 5;

/// What the disk may take beyond its size: segments that are being written, the journal and marks.
const DISK_BESIDE_BYTES: u64 = 2 << 20;

/// What the values of each minute and the summaries may take. The file of the minutes begins with
/// room for a day, and a damaged one is kept once.
const PAST_BYTES: u64 = 512 << 10;

/// What may wait for the disk's writer: an eighth of the memory, within these bounds, and a piece
/// of each body that is being written.
const QUEUE_BYTES: (u64, u64) = (4 << 20, 32 << 20);
const QUEUE_PIECES_BYTES: u64 = 1 << 20;

/// What a fetch hands to the disk's writer at once.
const PUSH_BYTES: u64 = 128 << 10;

/// The longest time until a smaller size of the disk is in force after a restart.
const SHRINKING_MAX: Duration = Duration::from_secs(20);

/// The longest time in which the disk's writer ends none of the operations that it has, while the
/// disk is well. The documentation says that it is a second behind at most.
const WRITER_STANDS_MAX: Duration = Duration::from_secs(3);

/// The progress of the disk's writer.
struct WriterProgress {
    /// The last operation that it has ended.
    durable: u64,
    /// When it ended this operation, or had nothing to do.
    since: Moment,
}

impl WriterProgress {
    /// Describes a writer that makes no progress.
    fn fault(&mut self, society: &Society, edge: &EmbeddedEdge, now: Moment) -> Option<String> {
        let (accepted, durable) = (edge.metric(Metric::DiskAccepted), edge.metric(Metric::DiskDurable));
        if edge.metric(Metric::DiskOff) > 0 || durable == accepted || durable != self.durable {
            (self.durable, self.since) = (durable, now);
            return None;
        }
        let stands = now.since(self.since);
        let is_late = stands > WRITER_STANDS_MAX && !lock(&society.ledger).is_disk_ill(self.since, now);
        is_late.then(|| {
            format!(
                "the disk's writer stands at operation {durable} of {accepted} for {} ms",
                stands.as_millis()
            )
        })
    }
}

/// Compares figures with their bounds until the edge has ended.
pub(crate) async fn watch(world: World, society: Society, edge: SharedEdge, timeline: Timeline) {
    let mut breaker = BreakerWatch::default();
    let mut writer = WriterProgress { durable: 0, since: timeline.now() };
    let before = without_actors(&world, &society).saturating_sub(world.disk().memory_bytes());
    let settled = Instant::now() + SHRINKING_MAX;
    loop {
        sleep(LOOK_EVERY).await;
        let is_settled = Instant::now() > settled;
        let found = match &*lock(&edge) {
            Some(edge) => excess(&world, &society, edge, before).or_else(|| {
                disk_excess(&world, &society)
                    // A directory that the tier refuses stays as it is.
                    .filter(|_| is_settled && edge.metric(Metric::DiskOff) == 0)
                    .or_else(|| writer.fault(&society, edge, timeline.now()))
                    .or_else(|| breaker.fault(&world, &society, edge))
            }),
            None => return,
        };
        if let Some(text) = found {
            world.violations().record(text);
            return;
        }
    }
}

/// The first figure that is beyond its bound.
fn excess(world: &World, society: &Society, edge: &EmbeddedEdge, before: u64) -> Option<String> {
    let settings = &society.settings;
    let memory = settings.memory_bytes;
    let fetches = &society.upkeep.fetches;
    // A process that hands over ends only after its last request.
    let allocated_max = (memory + BESIDE_BYTES) * society.upkeep.processes.load(Ordering::Relaxed);
    let bounds = [
        ("the store takes", edge.metric(Metric::StoreBytes), edge.metric(Metric::StoreBytesMax)),
        (
            "bodies outside the store take",
            edge.metric(Metric::FillingBytes),
            memory / 8 + SMALL_BODY_BYTES * (fetches.all() as u64 + DISK_READS_MAX),
        ),
        ("buffers take", edge.metric(Metric::BufferedBytes), memory / 100 * BUFFERS_PERCENT),
        ("the spool takes", edge.metric(Metric::SpoolBytes), settings.spool_bytes.unwrap_or(0)),
        (
            "the write queue of the disk takes",
            edge.metric(Metric::DiskQueueBytes),
            (memory / 8).clamp(QUEUE_BYTES.0, QUEUE_BYTES.1) + QUEUE_PIECES_BYTES,
        ),
        (
            "large bodies before the disk's writer take",
            edge.metric(Metric::DiskFillWaitingBytes),
            (memory / 8).clamp(QUEUE_BYTES.0, QUEUE_BYTES.1) / 2 + PUSH_BYTES,
        ),
        // Without those from origins that a reload has replaced.
        ("active fetches are", edge.metric(Metric::OriginFetchesActive), fetches.largest() as u64),
        ("the edge has allocated", edge_bytes(world, society, before, allocated_max), allocated_max),
    ];
    let beyond = bounds.into_iter().find(|(_, value, bound)| value > bound);
    beyond.map(|(what, value, bound)| format!("{what} {value}, more than {bound}"))
}

/// The size of the disk, if it is beyond its bound.
fn disk_excess(world: &World, society: &Society) -> Option<String> {
    let settings = &society.settings;
    let tier = settings.disk_bytes.unwrap_or(0) + DISK_BESIDE_BYTES;
    let spools = settings.spool_bytes.unwrap_or(0) * society.upkeep.processes.load(Ordering::Relaxed);
    let past = if settings.keeps_past { PAST_BYTES } else { 0 };
    // The log grows until its operator removes it.
    let log = settings.log.map_or(0, |_| log_bytes(world.disk().content()));
    let (bytes, bound) = (world.disk().bytes() - log, tier + spools + past);
    (bytes > bound).then(|| format!("the disk holds {bytes}, more than {bound}"))
}

/// What the process has allocated without the actors: the bodies that they hold to send and to
/// compare them, and what waits in connections. Their number follows from the crowd, and the edge
/// cannot bound it.
fn without_actors(world: &World, society: &Society) -> u64 {
    let of_actors = lock(&society.ledger).memory().bytes() + world.open_pipes().memory_bytes();
    (society.allocated_bytes)().saturating_sub(of_actors)
}

/// What the edge has allocated since the beginning of the watch. The simulated disk is subtracted
/// only if it decides, because counting its memory takes long.
fn edge_bytes(world: &World, society: &Society, before: u64, bound: u64) -> u64 {
    let allocated = without_actors(world, society).saturating_sub(before);
    if allocated <= bound {
        return allocated;
    }
    allocated.saturating_sub(world.disk().memory_bytes())
}
