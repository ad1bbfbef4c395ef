//! State that the threads of one run share: its course, its routes, the reference contents of
//! responses, and the reasons to end early.
//!
//! Invariant: everything here is written rarely, so that threads do not slow each other down. The
//! exception is the count of requests left, one atomic operation for each request. Relaxed ordering
//! is enough, because the counters guard no other data. With `ab`'s counting, `ab`'s account is
//! kept under a lock, because `ab` compares each response with the one that ended first.

use crate::arrival::Course;
use crate::content::Contents;
use crate::control::Control;
use crate::local_limit::LocalLimit;
use crate::routes::Routes;
use crate::tls::Tls;
use crate::trend::{FailureTally, Trend};
use crate::{GONE_AFTER, LoadError};
use bytes::Bytes;
use clock::{Clock, Monotonic};
use record::{AbAccount, AbEnd, Counting, Ended, Expect, FailureKind, Length, Plan};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// If this many connections fail before the first one succeeds, the target counts as unreachable.
const FIRST_CONNECTS_MAX: u64 = 10;

pub(crate) struct LoadContext<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) control: &'a Control,
    pub(crate) routes: &'a Routes,
    /// The serialised requests, one for each URL.
    pub(crate) images: &'a [Bytes],
    /// The TLS configuration, if any URL uses TLS.
    pub(crate) tls: Option<Tls>,
    pub(crate) course: Course,
    pub(crate) contents: Contents,
    /// Number of threads that busy-wait for responses.
    pub(crate) busy_waits: usize,
    /// ApacheBench's counts, if the plan asks for them.
    ab: Option<Mutex<AbAccount>>,
    /// When the target last showed a sign of life, in nanoseconds; 0 before the first.
    alive_at: AtomicU64,
    first_connect_failures: AtomicU64,
    /// Requests that ended and requests that failed, including those of the warm-up.
    pub(crate) failure_tally: FailureTally,
    ended: OnceLock<Ended>,
    fatal: OnceLock<LoadError>,
}

impl<'a> LoadContext<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        clock: &'a dyn Clock,
        control: &'a Control,
        routes: &'a Routes,
        images: &'a [Bytes],
        tls: Option<Tls>,
    ) -> Self {
        Self {
            plan,
            clock,
            control,
            routes,
            images,
            tls,
            course: Course::new(clock.monotonic(), plan),
            contents: Contents::new(images.len()),
            busy_waits: 0,
            ab: (plan.counting != Counting::Ours).then(Mutex::default),
            alive_at: AtomicU64::new(0),
            first_connect_failures: AtomicU64::new(0),
            failure_tally: FailureTally::default(),
            ended: OnceLock::new(),
            fatal: OnceLock::new(),
        }
    }

    /// Counts the end of a measured response in `ab`'s account.
    pub(crate) fn ab_end(&self, end: impl FnOnce() -> Option<AbEnd>) {
        let counts_lengths = self.plan.expect.length == Length::Constant;
        self.with_ab(|account| {
            if let Some(end) = end() {
                account.end(end, counts_lengths);
            }
        });
    }

    /// Changes `ab`'s account, if it is kept.
    pub(crate) fn with_ab(&self, change: impl FnOnce(&mut AbAccount)) {
        if let Some(account) = &self.ab {
            // The counters are still usable after a panic in another thread.
            change(&mut account.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// `ab`'s account so far, if it is kept.
    pub(crate) fn ab_account(&self) -> Option<AbAccount> {
        let account = self.ab.as_ref()?;
        Some(account.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Whether the run is over at `now`. Records the reason if it is the first.
    pub(crate) fn is_over(&self, now: Monotonic) -> bool {
        if self.control.is_stopped() {
            self.end(Ended::Stopped);
        } else if self.course.is_over(now) {
            self.end(Ended::Time);
        }
        self.ended.get().is_some() || self.fatal.get().is_some()
    }

    /// Ends the run. Only the first reason is kept.
    pub(crate) fn end(&self, reason: Ended) {
        // If a reason is already set, this one is dropped.
        let _ = self.ended.set(reason);
    }

    /// Ends the run without an outcome. Only the first error is kept.
    pub(crate) fn fail(&self, error: LoadError) {
        let _ = self.fatal.set(error);
    }

    /// Why the run ended, if it ended before all its load was generated.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.ended.get().copied()
    }

    /// The error that ended the run, if there was one.
    pub(crate) fn take_fatal(&mut self) -> Option<LoadError> {
        self.fatal.take()
    }

    /// Records a sign of life of the target.
    pub(crate) fn alive(&self, now: Monotonic) {
        self.alive_at.store(now.as_nanos().max(1), Ordering::Relaxed);
    }

    /// Whether the target has ever shown a sign of life.
    pub(crate) fn was_alive(&self) -> bool {
        self.alive_at.load(Ordering::Relaxed) != 0
    }

    /// Handles a failed connection: ends the run if the target is gone or was never reachable.
    pub(crate) fn connect_failed(&self, now: Monotonic, url: u32, kind: FailureKind, reason: &str) {
        if self.was_alive() {
            let alive_at = Monotonic::from_nanos(self.alive_at.load(Ordering::Relaxed));
            if now.since(alive_at) >= GONE_AFTER {
                self.end(Ended::TargetGone);
            }
        } else if kind == FailureKind::Tls {
            // A server whose certificate is refused would be refused again.
            self.unreachable(url, kind, reason);
        } else if self.first_connect_failures.fetch_add(1, Ordering::Relaxed) + 1 >= FIRST_CONNECTS_MAX {
            self.unreachable(url, kind, reason);
        }
    }

    /// Ends the run because no connection could be made.
    pub(crate) fn unreachable(&self, url: u32, kind: FailureKind, reason: &str) {
        let reason = kind.advice().unwrap_or(reason).to_owned();
        let target = self.routes.urls.get(url as usize).map_or(&self.plan.target, |of| &of.target);
        self.fail(LoadError::Unreachable { url: target.to_string(), address: self.address(url), reason });
    }

    /// Which responses of this URL count as good.
    #[inline]
    pub(crate) fn expect(&self, url: u32) -> &Expect {
        let own = self.routes.urls.get(url as usize).and_then(|of| of.expect.as_ref());
        own.unwrap_or(&self.plan.expect)
    }

    /// The address that requests for this URL go to.
    pub(crate) fn address(&self, url: u32) -> SocketAddr {
        self.routes.address(self.routes.route(url).address)
    }

    /// Counts requests that ended, and those of them that failed. Ends the run if more failed than
    /// the plan permits.
    pub(crate) fn count_ends(&self, ended: u64, failed: u64) {
        self.failure_tally.count(ended, failed);
        if failed > 0 && self.plan.stop.failures_max.is_some_and(|max| self.failure_tally.failed() >= max) {
            self.end(Ended::Failing);
        }
    }

    /// Ends the run if most requests since `then` failed and the plan says so. Returns the counts
    /// to compare with next time.
    pub(crate) fn end_if_failing(&self, then: Trend) -> Trend {
        let now = self.failure_tally.now();
        if self.plan.stop.when_failing && now.fails_since(then) == Some(true) {
            self.end(Ended::Failing);
        }
        now
    }
}

/// The kind of failure for an error while connecting; `None` if a limit of the process was reached.
pub(crate) fn connect_failure_kind(error: &io::Error) -> Option<FailureKind> {
    match LocalLimit::of(error) {
        None => Some(FailureKind::Connect),
        Some(LocalLimit::Ports) => Some(FailureKind::Address),
        Some(LocalLimit::Descriptors | LocalLimit::Memory) => None,
    }
}
