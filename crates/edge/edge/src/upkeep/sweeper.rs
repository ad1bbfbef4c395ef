//! The sweeper thread: frees invalidated objects and makes late purges durable.
//!
//! Invariants: responses never wait for it. It holds the store's locks for a few objects at a time,
//! and rests between walks so that other threads have priority.

use crate::shared::Shared;
use crate::upkeep::persisting::persist_aside;
use crate::upkeep::supervisor::{self, ThreadEnd};
use std::sync::Arc;
use std::time::Duration;
use threads::JoinHandle;

/// Objects of one walk, so few that another thread on its core waits only some tens of
/// microseconds.
const WALK_SLOTS: usize = 512;

/// Pause between two walks.
const REST: Duration = Duration::from_micros(500);

/// Number of walks in a row before the thread does its other work.
const WALKS_MAX: usize = 64;

/// Nice value of the thread.
const GIVE_WAY_NICE: i32 = 10;

/// How often the thread checks the disk if nothing was invalidated.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Pause after a failed attempt to make purges durable.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The next action after a series of walks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Nothing, until something is invalidated.
    WhenDue,
    /// All objects were visited, but more was invalidated meanwhile. The next walk waits, so that
    /// it can compare objects with many bans at once. Look-ups check bans themselves, so only
    /// memory is freed later.
    Gather,
    /// More walks.
    GoOn,
}

impl Next {
    /// The rest before it.
    const fn rest(self) -> Duration {
        match self {
            Self::GoOn => REST,
            Self::WhenDue | Self::Gather => LOOK_EVERY,
        }
    }
}

/// Visits objects until all were visited, or for a limited number of walks.
fn sweep(shared: &Shared) -> Next {
    for _ in 0..WALKS_MAX {
        // The shutdown waits for this thread, and no client is left that could look anything up.
        if shared.is_quitting() {
            return Next::WhenDue;
        }
        let swept = shared.store.sweep(WALK_SLOTS);
        match (swept.more, swept.ended) {
            (false, _) => return Next::WhenDue,
            (true, true) => return Next::Gather,
            (true, false) => threads::sleep(REST),
        }
    }
    Next::GoOn
}

/// Starts the thread. It is restarted after a panic: it frees purged objects, makes late purges
/// durable, and is the only one that notices a hung disk.
///
/// # Errors
/// If the system cannot create a thread.
pub(crate) fn start(shared: Arc<Shared>) -> std::io::Result<JoinHandle<()>> {
    supervisor::start("petasos-sweeper", move || {
        threads::give_way(GIVE_WAY_NICE);
        let mut retry_at = shared.clock.monotonic();
        let mut next = Next::WhenDue;
        while shared.sweeper.wait(next.rest(), next == Next::WhenDue) {
            let now = shared.clock.monotonic();
            let persistence = &shared.persistence;
            let may_retry =
                now >= retry_at || !(persistence.is_at_risk(&shared.store) || persistence.is_set_aside());
            if shared.persistence.is_behind(&shared.store) && may_retry {
                // Not on this thread, because it monitors the disk and must not block on it.
                persist_aside(&shared.current());
                retry_at = now.plus(RETRY_AFTER);
            }
            shared.persistence.look_after(shared.store.is_written_down());
            next = sweep(&shared.current());
        }
        ThreadEnd::of(&shared.ending)
    })
}

#[cfg(test)]
mod tests {
    use super::{WALK_SLOTS, sweep};
    use crate::shared::Shared;
    use crate::system::System;
    use bytes::Bytes;
    use config::EdgePlan;
    use invalidation::Mode;
    use message::{Fields, ResponseHead, Status};
    use semantics::{Freshness, Moment, VaryRule};
    use std::sync::Arc;
    use std::time::Duration;
    use store::{Body, Invalidation, Key, Object, Publication, Selector, SiteId};

    #[test]
    fn sweep_stops_within_a_walk_when_the_edge_quits() {
        let plan = EdgePlan::for_origin("http://127.0.0.1:1".parse().unwrap());
        let shared = Shared::new(plan, None, System::of_machine());
        for number in 0..8 * WALK_SLOTS {
            let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
            let head = ResponseHead::new(Status::OK);
            let object = Arc::new(Object::new(&head, &Bytes::new(), Body::copy_of(b"x"), freshness));
            let key = &Key::new(SiteId(0), false, b"a.test", Bytes::from(format!("/{number}")));
            let (rule, variant) = (VaryRule::default(), VaryRule::default().key(&Fields::new()));
            shared.store.publish(Publication { key, rule, variant, object, tags: &[], begun: 0 });
        }
        shared.store.invalidate(&Invalidation {
            selector: Selector::Host { site: SiteId(0), host: Bytes::from_static(b"a.test") },
            mode: Mode::Hard,
        });
        shared.quit();
        sweep(&shared);
        let left = shared.store.stats().objects;
        assert!(left >= 6 * WALK_SLOTS as u64, "{left} objects are left to the end of the process");
    }
}
