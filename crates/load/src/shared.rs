//! What the threads of one run share: its course, where its URLs lead, the contents that answers are compared with,
//! and the reasons to end before time.
//!
//! Invariant: everything here is written rarely, so that threads do not slow each other down; the one exception is
//! the count of requests left, which is one atomic step a request. Runs in `ab`'s name keep `ab`'s account as well,
//! under a lock, because `ab` compares each answer with the one that ended first.

use crate::ab_account::{AbAccount, AbEnd, Counting};
use crate::arrival::Course;
use crate::content::Contents;
use crate::control::Control;
use crate::expect::{Expect, Length};
use crate::local_limit::LocalLimit;
use crate::outcome::{Ended, FailureKind};
use crate::plan::Plan;
use crate::routes::Routes;
use crate::tls::Tls;
use crate::{GONE_AFTER, LoadError};
use bytes::Bytes;
use platform::{Clock, Monotonic};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// So many connections must fail before any stood for the target to count as unreachable.
const FIRST_CONNECTS_MAX: u64 = 10;

/// So many requests must have ended within the time that is looked at before a run is judged as failing.
const FAILING_REQUESTS_MIN: u64 = 20;

pub(crate) struct Shared<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) control: &'a Control,
    pub(crate) routes: &'a Routes,
    /// The requests as octets, one for each URL.
    pub(crate) images: &'a [Bytes],
    /// What connections with TLS need, if any of the URLs does.
    pub(crate) tls: Option<Tls>,
    pub(crate) course: Course,
    pub(crate) contents: Contents,
    /// What ApacheBench would have counted, if that is wanted.
    ab: Option<Mutex<AbAccount>>,
    /// The last moment, in nanoseconds, at which the target gave a sign of life; 0 before the first.
    alive_at: AtomicU64,
    first_connect_failures: AtomicU64,
    /// Requests that ended and that failed, those of the warm-up included.
    ended_requests: AtomicU64,
    failed_requests: AtomicU64,
    ended: OnceLock<Ended>,
    fatal: OnceLock<LoadError>,
}

/// How many requests had ended and failed at some moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trend {
    ended: u64,
    failed: u64,
}

impl<'a> Shared<'a> {
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
            ab: (plan.counting != Counting::Ours).then(Mutex::default),
            alive_at: AtomicU64::new(0),
            first_connect_failures: AtomicU64::new(0),
            ended_requests: AtomicU64::new(0),
            failed_requests: AtomicU64::new(0),
            ended: OnceLock::new(),
            fatal: OnceLock::new(),
        }
    }

    /// Takes note of the end of a measured answer for `ab`'s account.
    pub(crate) fn ab_end(&self, end: impl FnOnce() -> AbEnd) {
        let counts_lengths = self.plan.expect.length == Length::Constant;
        self.with_ab(|account| account.end(end(), counts_lengths));
    }

    /// Changes `ab`'s account, if it is kept.
    pub(crate) fn with_ab(&self, change: impl FnOnce(&mut AbAccount)) {
        if let Some(account) = &self.ab {
            // A thread that panicked leaves counters, which are as good as before.
            change(&mut account.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// `ab`'s account so far, if it is kept.
    pub(crate) fn ab_account(&self) -> Option<AbAccount> {
        let account = self.ab.as_ref()?;
        Some(account.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Whether the run is over at `now`; if the reason is a new one, it is noted.
    pub(crate) fn is_over(&self, now: Monotonic) -> bool {
        if self.control.is_stopped() {
            self.end(Ended::Stopped);
        } else if self.course.is_over(now) {
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

    /// Why the run ended, if somebody ended it before its load had.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.ended.get().copied()
    }

    /// The error that ended the run, if one did.
    pub(crate) fn take_fatal(&mut self) -> Option<LoadError> {
        self.fatal.take()
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
    pub(crate) fn connect_failed(&self, now: Monotonic, url: u32, kind: FailureKind, reason: &str) {
        if self.was_alive() {
            let alive_at = Monotonic::from_nanos(self.alive_at.load(Ordering::Relaxed));
            if now.since(alive_at) >= GONE_AFTER {
                self.end(Ended::TargetGone);
            }
        } else if kind == FailureKind::Tls {
            // A server that does not prove its name will not do so by being asked again.
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

    /// Which answers to requests for this URL count as good.
    #[inline]
    pub(crate) fn expect(&self, url: u32) -> &Expect {
        let own = self.routes.urls.get(url as usize).and_then(|of| of.expect.as_ref());
        own.unwrap_or(&self.plan.expect)
    }

    /// The address that requests for this URL go to.
    pub(crate) fn address(&self, url: u32) -> SocketAddr {
        self.routes.address(self.routes.route(url).address)
    }

    /// Counts requests that ended, for [`Shared::trend`].
    pub(crate) fn count(&self, ended: u64, failed: u64) {
        self.ended_requests.fetch_add(ended, Ordering::Relaxed);
        self.failed_requests.fetch_add(failed, Ordering::Relaxed);
    }

    /// How many requests have ended and failed so far.
    pub(crate) fn trend(&self) -> Trend {
        let failed = self.failed_requests.load(Ordering::Relaxed);
        Trend { ended: self.ended_requests.load(Ordering::Relaxed), failed }
    }

    /// Ends the run if most requests since `then` failed and the plan says so.
    pub(crate) fn end_if_failing(&self, then: Trend) {
        let now = self.trend();
        let (ended, failed) = (now.ended - then.ended, now.failed.saturating_sub(then.failed));
        if self.plan.stop.when_failing && ended >= FAILING_REQUESTS_MIN && failed * 2 > ended {
            self.end(Ended::Failing);
        }
    }
}

/// Which kind of failure an error while making a connection is; `None` if it is no fault of this one
/// connection but a limit of the process.
pub(crate) fn connect_failure_kind(error: &io::Error) -> Option<FailureKind> {
    match LocalLimit::of(error) {
        None => Some(FailureKind::Connect),
        Some(LocalLimit::Ports) => Some(FailureKind::Address),
        Some(LocalLimit::Descriptors | LocalLimit::Memory) => None,
    }
}
