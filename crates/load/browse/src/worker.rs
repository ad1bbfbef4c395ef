//! The state of one thread that its page loads use: figures, parsed trees and resolved addresses,
//! and access to the shared state.
//!
//! Invariant: a page load belongs to the warm-up or to the measured part by the moment at which it
//! falls due, and so do its requests and connections, whenever they end. The warm-up has figures of
//! its own. The schedule of page loads is in `crowd`.

use crate::connection::ByteStream;
use crate::lingering::LingeringConnections;
use crate::names::{NameCache, ResolvedAddresses};
use crate::series::{Current, Tally};
use crate::shared::BrowseContext;
use crate::visitor::Connections;
use address::Address;
use clock::Monotonic;
use load::LocalLimit;
use net::{Stream, TlsError};
use page::Memo;
use record::{FetchFailure, PageFigures};
use std::cell::{RefCell, RefMut};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use url::Url;

/// The state of one thread that its page loads use.
pub(crate) struct BrowseWorker {
    pub(crate) shared: Arc<BrowseContext>,
    pub(crate) memo: RefCell<Memo>,
    /// The figures of the measured part, and those of the warm-up.
    measured: RefCell<PageFigures>,
    warmup: RefCell<PageFigures>,
    names: NameCache,
    /// The current second.
    current: RefCell<Current>,
    /// Connections of visitors whose page load is over.
    lingering: LingeringConnections,
}

impl BrowseWorker {
    /// The worker of one of `threads` threads.
    pub(crate) fn new(shared: Arc<BrowseContext>, threads: usize) -> Self {
        Self {
            lingering: LingeringConnections::new(shared.plan.linger, shared.lingering_max / threads),
            current: RefCell::new(Current::new(shared.measuring_since)),
            memo: RefCell::default(),
            measured: RefCell::new(PageFigures::new()),
            warmup: RefCell::new(PageFigures::new()),
            names: NameCache::default(),
            shared,
        }
    }

    /// The figures for a page load, by whether it belongs to the measured part.
    pub(crate) fn figures(&self, is_measured: bool) -> RefMut<'_, PageFigures> {
        if is_measured { self.measured.borrow_mut() } else { self.warmup.borrow_mut() }
    }

    /// Changes the tally of the current second. Does nothing for page loads of the warm-up.
    pub(crate) fn tally(&self, is_measured: bool, count: impl FnOnce(&mut Tally)) {
        if !is_measured {
            return;
        }
        let now = self.shared.counting(self.shared.clock.monotonic());
        self.current.borrow_mut().at(now, &self.shared.series).map(count);
    }

    /// Hands in the seconds that are over at `now`.
    pub(crate) fn advance(&self, now: Monotonic) {
        self.current.borrow_mut().advance(self.shared.counting(now), &self.shared.series);
    }

    /// Hands in the last second at the end of the run. Returns the figures of the measured part,
    /// and those of the warm-up.
    pub(crate) fn end(&self, now: Monotonic) -> (PageFigures, PageFigures) {
        self.current.borrow_mut().end(self.shared.counting(now), &self.shared.series);
        (self.measured.take(), self.warmup.take())
    }

    /// Handles the connections of a finished page load: they linger if the plan says so, otherwise
    /// they close.
    pub(crate) fn leave(&self, connections: Connections) {
        if !self.lingering.is_wanted() {
            return;
        }
        let is_measured = connections.is_measured;
        let closed_early: u64 = connections.idle().map(|connection| self.lingering.keep(connection)).sum();
        self.figures(is_measured).closed_early += closed_early;
    }

    /// Opens a connection for a URL. Tries the addresses of its host in turn. `is_measured` is
    /// whether it counts in the measured part.
    pub(crate) async fn connect(
        &self,
        url: &Url,
        is_measured: bool,
    ) -> Result<Box<dyn ByteStream>, FetchFailure> {
        let address = self.shared.plan.address(url).ok_or(FetchFailure::Name)?;
        let addresses = self.resolve(&address).await?;
        let mut failure: Option<(u8, FetchFailure)> = None;
        for address in addresses {
            let found = match self.dial(address, is_measured).await {
                Ok(stream) => self.secure(stream, url).await,
                Err(failure) => Err(failure),
            };
            match found {
                Ok(wire) => return Ok(wire),
                Err(found) => {
                    let found = (gravity(found, address), found);
                    failure = failure.filter(|before| before.0 > found.0).or(Some(found));
                }
            }
        }
        Err(failure.map_or(FetchFailure::Connect, |(_, failure)| failure))
    }

    /// Connects to an address. If descriptors have run out, closes lingering connections to free
    /// some.
    async fn dial(&self, address: SocketAddr, is_measured: bool) -> Result<Stream, FetchFailure> {
        loop {
            let error = match Stream::connect(&Address::Ip(address)).await {
                Ok(stream) => {
                    self.figures(is_measured).connections += 1;
                    return Ok(stream);
                }
                Err(error) => error,
            };
            let failure = failure_of(&error, FetchFailure::Connect);
            if failure != FetchFailure::Descriptors || !self.lingering.close_oldest().await {
                return Err(failure);
            }
            self.figures(is_measured).closed_early += 1;
        }
    }

    /// Makes the TLS handshake, if the URL uses TLS.
    async fn secure(&self, stream: Stream, url: &Url) -> Result<Box<dyn ByteStream>, FetchFailure> {
        if url.scheme() != "https" {
            return Ok(Box::new(stream));
        }
        let tls = self.shared.tls.as_ref().ok_or(FetchFailure::Tls)?;
        let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        match tls.secure(stream, host).await {
            Ok(stream) if self.shared.plan.is_http2 && !stream.is_http2() => Err(FetchFailure::Http2),
            Ok(stream) => Ok(Box::new(stream)),
            Err(TlsError::NoProtocol) if self.shared.plan.is_http2 => Err(FetchFailure::Http2),
            Err(_) => Err(FetchFailure::Tls),
        }
    }

    /// The addresses of a host.
    async fn resolve(&self, address: &Address) -> ResolvedAddresses {
        match address {
            Address::Ip(address) => Ok(vec![*address]),
            Address::Host { name, port } => self.names.find(name, *port, || look_up(name, *port)).await,
            Address::Unix(_) => Err(FetchFailure::Name),
        }
    }
}

/// Looks up the addresses of a name; at least one if there is no failure.
async fn look_up(name: &str, port: u16) -> ResolvedAddresses {
    let found = tokio::net::lookup_host((name, port)).await;
    let found = found.map_err(|error| failure_of(&error, FetchFailure::Name))?;
    let found: Vec<SocketAddr> = found.collect();
    if found.is_empty() { Err(FetchFailure::Name) } else { Ok(found) }
}

/// The failure for an I/O error: a limit of this machine, otherwise `of_site`.
fn failure_of(error: &io::Error, of_site: FetchFailure) -> FetchFailure {
    match LocalLimit::of(error) {
        None => of_site,
        Some(LocalLimit::Ports) => FetchFailure::Address,
        Some(LocalLimit::Descriptors) => FetchFailure::Descriptors,
        Some(LocalLimit::Memory) => FetchFailure::Memory,
    }
}

/// Rank of a failure, if several addresses of a host fail in different ways; the highest one is
/// reported. A machine without IPv6 has no local address for an IPv6 peer, so that failure says
/// least; with IPv4 it means that local ports ran out.
fn gravity(failure: FetchFailure, address: SocketAddr) -> u8 {
    match failure {
        FetchFailure::Address if address.is_ipv6() => 0,
        FetchFailure::Connect => 1,
        FetchFailure::Address | FetchFailure::Descriptors | FetchFailure::Memory => 3,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::BrowseWorker;
    use crate::plan::PagePlan;
    use crate::ramp_up::RampUp;
    use crate::series::PageSeries;
    use crate::shared::BrowseContext;
    use clock::{Clock, ManualClock, Monotonic, Timestamp};
    use load::FailureTally;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::time::Duration;

    /// A worker whose warm-up takes a second, at the beginning of the run.
    fn worker(clock: Arc<dyn Clock>) -> BrowseWorker {
        let began = Monotonic::default();
        let ramp_up = RampUp { began, ramp: Duration::ZERO, users: 1 };
        let shared = BrowseContext {
            plan: PagePlan::new("http://h/").unwrap(),
            tls: None,
            clock,
            watch: Arc::default(),
            pages_left: AtomicU64::new(0),
            failure_tally: FailureTally::default(),
            is_failing: AtomicBool::new(false),
            series: PageSeries::new(1, ramp_up),
            ramp_up,
            lingering_max: 1,
            began,
            measuring_since: began.plus(Duration::from_secs(1)),
            deadline: None,
        };
        BrowseWorker::new(Arc::new(shared), 1)
    }

    #[test]
    fn measured_page_counts_from_the_first_moment_on() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(0)));
        let worker = worker(Arc::<ManualClock>::clone(&clock));
        // Nothing has noticed the end of the warm-up before this page ends.
        clock.advance(Duration::from_secs(1));
        for (is_measured, pages) in [(true, 1), (false, 2)] {
            worker.figures(is_measured).pages.good += pages;
            worker.tally(is_measured, |tally| tally.counts.good += pages);
        }
        clock.advance(Duration::from_millis(100));
        let (measured, warmup) = worker.end(clock.monotonic());
        assert_eq!((measured.pages.good, warmup.pages.good), (1, 2));
        assert_eq!(worker.shared.series.finish().iter().map(|second| second.good).sum::<u64>(), 1);
    }
}
