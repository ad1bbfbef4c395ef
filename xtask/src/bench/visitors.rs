//! Honest visitors of a benchmark, who send requests at a constant rate, and the percentiles of
//! their times.

use clock::{Clock, Monotonic};
use platform::SystemClock;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;
use testkit::Client;

/// Number of visitors, each in a separate network.
pub(super) const VISITORS: u8 = 20;
/// Time between two requests of a visitor.
const VISIT_EVERY: Duration = Duration::from_millis(100);
/// Time for which they send requests.
pub(super) const MEASURED: Duration = Duration::from_secs(8);
/// Receive buffer of a visitor, in bytes.
const RECEIVE_BYTES: usize = 64 << 10;

/// A server with visitors.
pub(super) struct VisitedServer {
    pub(super) address: SocketAddr,
    clock: SystemClock,
}

/// A request of a visitor: its target, and with which others its time is counted.
pub(super) struct Visit {
    pub(super) target: String,
    pub(super) kind: VisitKind,
}

/// Requests whose times belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VisitKind {
    /// For a stored page.
    Stored,
    /// For an uncacheable page.
    Own,
}

/// The results of visits.
#[derive(Debug, Default)]
pub(super) struct Visits {
    pub(super) stored: Vec<Duration>,
    pub(super) own: Vec<Duration>,
    pub(super) refused: usize,
}

impl VisitedServer {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, clock: SystemClock::new() }
    }

    pub(super) fn now(&self) -> Monotonic {
        self.clock.monotonic()
    }

    /// Sends a request on a new connection. Returns the time of a complete 200 response.
    pub(super) fn ask(&self, visitor: u8, target: &str) -> Option<Duration> {
        let begun = self.clock.monotonic();
        let request = format!("GET {target} HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n\r\n");
        let from = [127, 0, 100 + visitor, 1];
        let answer = Client::try_connect_from(from, self.address, RECEIVE_BYTES)?.try_ask(request)?;
        (answer.status == 200 && answer.complete).then(|| self.clock.monotonic().since(begun))
    }

    /// All visitors send requests for [`MEASURED`]. `request` is the request of a visitor with this
    /// number.
    ///
    /// A visitor sends each kind of request by itself. A server that holds its own pages for longer
    /// than the benchmark would otherwise seem to answer nothing.
    pub(super) fn visit(&self, request: impl Fn(u8, usize) -> Visit + Sync) -> Visits {
        let visits = Mutex::new(Visits::default());
        std::thread::scope(|threads| {
            for visitor in 0..VISITORS {
                for kind in [VisitKind::Stored, VisitKind::Own] {
                    let (visits, request) = (&visits, &request);
                    threads.spawn(move || self.visit_as((visitor, kind), request, visits));
                }
            }
        });
        visits.into_inner().unwrap_or_default()
    }

    /// Sends the requests of a visitor that are of this kind, at their times.
    fn visit_as(
        &self,
        (visitor, wanted): (u8, VisitKind),
        request: &impl Fn(u8, usize) -> Visit,
        visits: &Mutex<Visits>,
    ) {
        let begun = self.clock.monotonic();
        // Shifted, so that the visitors alternate.
        let mut next = begun.plus(VISIT_EVERY * u32::from(visitor) / u32::from(VISITORS));
        for number in 0.. {
            if next.since(begun) >= MEASURED || self.clock.monotonic().since(begun) >= MEASURED {
                return;
            }
            let Visit { target, kind } = request(visitor, number);
            if kind != wanted {
                next = next.plus(VISIT_EVERY);
                continue;
            }
            std::thread::sleep(next.since(self.clock.monotonic()));
            let time = self.ask(visitor, &target);
            // A poisoned lock means that another visitor panicked, which has already been printed.
            let Ok(mut visits) = visits.lock() else { return };
            match (time, kind) {
                (Some(time), VisitKind::Own) => visits.own.push(time),
                (Some(time), VisitKind::Stored) => visits.stored.push(time),
                (None, _) => visits.refused += 1,
            }
            drop(visits);
            next = later(next.plus(VISIT_EVERY), self.clock.monotonic());
        }
    }
}

/// The time below which this share of all times is, in percent.
pub(super) fn percentile(mut times: Vec<Duration>, percent: usize) -> Option<Duration> {
    times.sort_unstable();
    times.get((times.len() * percent).div_ceil(100).saturating_sub(1)).copied()
}

/// A time in milliseconds, or a dash.
pub(super) fn millis(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time.as_secs_f64() * 1e3))
}

/// The later of two times.
pub(super) fn later(one: Monotonic, other: Monotonic) -> Monotonic {
    if one.since(other).is_zero() { other } else { one }
}
