//! The trace of a simulated run: a hash of all events, and their last lines if they are wanted.
//!
//! Invariant: two runs with the same events at the same simulated times have the same hash. A line
//! is formatted only if lines are kept.

use crate::pipe::locked;
use crate::random::{digest, mix};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// The trace of a run. Clones are the same trace.
#[derive(Clone, Debug)]
pub struct Trace(Arc<Mutex<Events>>);

#[derive(Debug)]
struct Events {
    start: Instant,
    hash: u64,
    count: u64,
    lines_max: usize,
    lines: VecDeque<String>,
}

impl Trace {
    /// An empty trace whose times count from now. It keeps the last `lines_max` lines; with 0 it
    /// keeps only the hash.
    pub fn new(lines_max: usize) -> Self {
        let start = Instant::now();
        Self(Arc::new(Mutex::new(Events { start, hash: 0, count: 0, lines_max, lines: VecDeque::new() })))
    }

    /// Adds an event: its kind, a number that distinguishes events of this kind, and its line.
    pub fn event(&self, kind: &'static str, number: u64, line: impl FnOnce() -> String) {
        let mut events = locked(&self.0);
        let elapsed = events.start.elapsed();
        let what = digest(kind.as_bytes()) ^ mix(number);
        events.hash = mix(events.hash ^ (elapsed.as_nanos() as u64) ^ mix(what));
        events.count += 1;
        if events.lines_max == 0 {
            return;
        }
        // The line is formatted without the lock, because it may use code that traces.
        drop(events);
        let line = format!("{:>12.3} ms  {kind}: {}", elapsed.as_secs_f64() * 1e3, line());
        let mut events = locked(&self.0);
        if events.lines.len() >= events.lines_max {
            events.lines.pop_front();
        }
        events.lines.push_back(line);
    }

    /// A hash of all events so far.
    pub fn hash(&self) -> u64 {
        locked(&self.0).hash
    }

    /// The number of events so far.
    pub fn count(&self) -> u64 {
        locked(&self.0).count
    }

    /// The simulated time since the start.
    pub fn elapsed(&self) -> Duration {
        locked(&self.0).start.elapsed()
    }

    /// The last lines, in order.
    pub fn lines(&self) -> Vec<String> {
        locked(&self.0).lines.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Trace;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn hash_depends_on_kinds_numbers_order_and_times() {
        let mut hashes = std::collections::BTreeSet::new();
        for case in 0..5 {
            let trace = Trace::new(0);
            let events = [("a", 1), if case == 1 { ("a", 3) } else { ("b", 2) }];
            let events = if case == 2 { [events[1], events[0]] } else { events };
            if case == 3 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            for (kind, number) in events {
                trace.event(kind, number, || panic!("no line is wanted"));
            }
            hashes.insert(trace.hash());
        }
        assert_eq!(hashes.len(), 4, "only the cases 0 and 4 are equal");
    }

    #[tokio::test(start_paused = true)]
    async fn last_lines_are_kept() {
        let trace = Trace::new(2);
        for number in 0..3 {
            trace.event("step", number, || format!("number {number}"));
        }
        let lines = trace.lines();
        assert_eq!(lines.len(), 2);
        assert!(lines[1].ends_with("ms  step: number 2"), "{lines:?}");
        assert_eq!(trace.count(), 3);
    }
}
