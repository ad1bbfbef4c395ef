//! What the threads of one run share: the arrival of requests, the reference length, and the reasons to end
//! before time.
//!
//! Invariant: everything here is written rarely, so that threads do not slow each other down; the one
//! exception is the count of requests left, which is one atomic step a request.

use crate::arrival::ClosedLoop;
use crate::control::Control;
use crate::expect::{Expect, Length};
use crate::outcome::{Ended, FailureKind};
use crate::plan::Plan;
use crate::reader::Answer;
use crate::recorder::Judgement;
use crate::{GONE_AFTER, LoadError};
use platform::{Clock, Monotonic};
use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many connections must fail before any stood for the target to count as unreachable.
const FIRST_CONNECTS_MAX: u64 = 10;

pub(crate) struct Shared<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) control: &'a Control,
    pub(crate) address: SocketAddr,
    pub(crate) image: &'a [u8],
    pub(crate) closed_loop: ClosedLoop,
    document: ReferenceLength,
    /// The last moment, in nanoseconds, at which the target gave a sign of life; 0 before the first.
    alive_at: AtomicU64,
    first_connect_failures: AtomicU64,
    ended: OnceLock<Ended>,
    fatal: OnceLock<LoadError>,
}

impl<'a> Shared<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        clock: &'a dyn Clock,
        control: &'a Control,
        address: SocketAddr,
        image: &'a [u8],
    ) -> Self {
        Self {
            plan,
            clock,
            control,
            address,
            image,
            closed_loop: ClosedLoop::new(clock.monotonic(), plan.warmup, plan.stop),
            document: ReferenceLength::default(),
            alive_at: AtomicU64::new(0),
            first_connect_failures: AtomicU64::new(0),
            ended: OnceLock::new(),
            fatal: OnceLock::new(),
        }
    }

    /// Whether the run is over at `now`; if the reason is a new one, it is noted.
    pub(crate) fn is_over(&self, now: Monotonic) -> bool {
        if self.control.is_stopped() {
            self.end(Ended::Stopped);
        } else if self.closed_loop.is_over(now) {
            self.end(Ended::Time);
        }
        self.ended.get().is_some() || self.fatal.get().is_some()
    }

    /// Ends the run; the first reason counts.
    pub(crate) fn end(&self, reason: Ended) {
        // A second reason comes too late and is dropped.
        let _ = self.ended.set(reason);
    }

    /// Ends the run without an outcome; the first error counts.
    pub(crate) fn fail(&self, error: LoadError) {
        let _ = self.fatal.set(error);
    }

    /// Why the run ended; if nobody ended it, all its requests were made.
    pub(crate) fn ended(&self) -> Ended {
        self.ended.get().copied().unwrap_or(Ended::Requests)
    }

    /// The error that ended the run, if one did.
    pub(crate) fn take_fatal(&mut self) -> Option<LoadError> {
        self.fatal.take()
    }

    /// Content octets of the first answer with a good status.
    pub(crate) fn document_bytes(&self) -> Option<u64> {
        self.document.get()
    }

    /// Takes note that the target does something.
    pub(crate) fn alive(&self, now: Monotonic) {
        self.alive_at.store(now.as_nanos().max(1), Ordering::Relaxed);
    }

    /// Whether the target has ever given a sign of life.
    pub(crate) fn was_alive(&self) -> bool {
        self.alive_at.load(Ordering::Relaxed) != 0
    }

    /// Takes note of a connection that could not be made, and ends the run if there is no hope.
    pub(crate) fn connect_failed(&self, now: Monotonic, kind: FailureKind, reason: &str) {
        if self.was_alive() {
            let alive_at = Monotonic::from_nanos(self.alive_at.load(Ordering::Relaxed));
            if now.since(alive_at) >= GONE_AFTER {
                self.end(Ended::TargetGone);
            }
        } else if self.first_connect_failures.fetch_add(1, Ordering::Relaxed) + 1 >= FIRST_CONNECTS_MAX {
            self.unreachable(kind, reason);
        }
    }

    /// Ends the run because no connection could be made.
    pub(crate) fn unreachable(&self, kind: FailureKind, reason: &str) {
        let reason = kind.advice().unwrap_or(reason).to_owned();
        self.fail(LoadError::Unreachable {
            url: self.plan.target.to_string(),
            address: self.address,
            reason,
        });
    }

    pub(crate) fn judge(&self, answer: &Answer) -> Judgement {
        self.document.judge(&self.plan.expect, answer)
    }
}

/// The length of the first answer with a good status, which the others are compared with.
#[derive(Debug)]
struct ReferenceLength(AtomicU64);

/// No length yet. No answer is this long.
const UNKNOWN: u64 = u64::MAX;

impl Default for ReferenceLength {
    fn default() -> Self {
        Self(AtomicU64::new(UNKNOWN))
    }
}

impl ReferenceLength {
    fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&bytes| bytes != UNKNOWN)
    }

    fn judge(&self, expect: &Expect, answer: &Answer) -> Judgement {
        if !expect.status.contains(answer.status) {
            return Judgement { wrong: Some(FailureKind::Status), length_differs: false };
        }
        let mut reference = self.0.load(Ordering::Relaxed);
        if reference == UNKNOWN {
            let bytes = answer.content_bytes;
            let set = self.0.compare_exchange(UNKNOWN, bytes, Ordering::Relaxed, Ordering::Relaxed);
            reference = set.err().unwrap_or(bytes);
        }
        let length_differs = reference != answer.content_bytes;
        let wrong = (length_differs && expect.length == Length::Constant).then_some(FailureKind::Length);
        Judgement { wrong, length_differs }
    }
}

/// Which kind of failure an error while making a connection is; `None` if it is no fault of this one
/// connection but a limit of the process.
pub(crate) fn connect_failure_kind(error: &io::Error) -> Option<FailureKind> {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => Some(FailureKind::Address),
        _ if is_process_limit(error) => None,
        _ => Some(FailureKind::Connect),
    }
}

fn is_process_limit(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .iter()
        .any(|limit| error.raw_os_error() == Some(limit.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::ReferenceLength;
    use crate::expect::{Expect, Length};
    use crate::outcome::FailureKind;
    use crate::reader::Answer;

    fn answer(status: u16, content_bytes: u64) -> Answer {
        Answer { status, content_bytes, persistent: true, verdict: None }
    }

    #[test]
    fn the_first_good_status_sets_the_length() {
        let (reference, expect) = (ReferenceLength::default(), Expect::default());
        let wrong = |status, bytes| reference.judge(&expect, &answer(status, bytes)).wrong;
        assert_eq!(wrong(500, 3), Some(FailureKind::Status));
        assert_eq!(wrong(200, 10), None);
        assert_eq!(wrong(200, 11), Some(FailureKind::Length));
        assert_eq!(wrong(404, 10), Some(FailureKind::Status));
        assert_eq!(wrong(200, 10), None);
        assert_eq!(reference.get(), Some(10));
    }

    #[test]
    fn variable_lengths_are_good_but_noted() {
        let reference = ReferenceLength::default();
        let expect = Expect { length: Length::Variable, ..Expect::default() };
        reference.judge(&expect, &answer(200, 10));
        let judgement = reference.judge(&expect, &answer(200, 11));
        assert_eq!((judgement.wrong, judgement.length_differs), (None, true));
    }
}
