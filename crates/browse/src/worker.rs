//! The state of one thread that its page loads use: figures, parsed trees and resolved addresses,
//! and access to the shared state.
//!
//! Invariant: pages of the warm-up are in no figure that is returned. The schedule of page loads is
//! in `crowd`.

use crate::connection::Wire;
use crate::lingering::Lingering;
use crate::outcome::{FetchFailure, Figures};
use crate::series::{Current, Tally};
use crate::shared::Shared;
use crate::turns::Turns;
use crate::visitor::Connections;
use address::Address;
use clock::Monotonic;
use load::LocalLimit;
use net::{Stream, TlsError};
use page::Memo;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use url::Url;

/// The state of one thread that its page loads use.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) memo: RefCell<Memo>,
    pub(crate) figures: RefCell<Figures>,
    addresses: RefCell<HashMap<(String, u16), Vec<SocketAddr>>>,
    /// The current second.
    current: RefCell<Current>,
    /// When the visitors of this thread begin.
    pub(crate) turns: Turns,
    /// Whether the warm-up is over.
    is_measuring: Cell<bool>,
    /// Connections of visitors whose page load is over.
    lingering: Lingering,
}

impl Worker {
    /// The worker at `place`: the index of its thread and the number of threads.
    pub(crate) fn new(shared: Arc<Shared>, place: (usize, usize)) -> Self {
        let users = if shared.plan.rate.is_none() { shared.plan.users } else { 0 };
        let turns = Turns { began: shared.began, ramp: shared.plan.ramp, users, place };
        Self {
            lingering: Lingering::new(shared.plan.linger, shared.lingering_max / place.1),
            current: RefCell::new(Current::new(shared.measuring_since, turns)),
            turns,
            is_measuring: Cell::new(shared.plan.warmup.is_zero()),
            memo: RefCell::default(),
            figures: RefCell::new(Figures::new()),
            addresses: RefCell::default(),
            shared,
        }
    }

    /// Whether the warm-up is over.
    pub(crate) fn is_measuring(&self) -> bool {
        self.is_measuring.get()
    }

    /// Ends the warm-up and discards its figures.
    pub(crate) fn begin_measuring(&self) {
        self.is_measuring.set(true);
        *self.figures.borrow_mut() = Figures::new();
    }

    /// Changes the tally of the current second. Does nothing before the measured part.
    pub(crate) fn tally(&self, count: impl FnOnce(&mut Tally)) {
        if !self.is_measuring.get() {
            return;
        }
        let now = self.shared.counting(self.shared.clock.monotonic());
        self.current.borrow_mut().at(now, &self.shared.series).map(count);
    }

    /// Hands in the seconds that are over at `now`.
    pub(crate) fn advance(&self, now: Monotonic) {
        self.current.borrow_mut().advance(self.shared.counting(now), &self.shared.series);
    }

    /// Hands in the last second and returns the figures, at the end of the run.
    pub(crate) fn end(&self, now: Monotonic) -> Figures {
        self.current.borrow_mut().end(self.shared.counting(now), &self.shared.series);
        self.figures.take()
    }

    /// Handles the connections of a finished page load: they linger if the plan says so, otherwise
    /// they close.
    pub(crate) fn leave(&self, connections: Connections) {
        if !self.lingering.is_wanted() {
            return;
        }
        let closed_early: u64 = connections.idle().map(|connection| self.lingering.keep(connection)).sum();
        self.figures.borrow_mut().closed_early += closed_early;
    }

    /// Opens a connection for a URL. Tries the addresses of its host in turn.
    pub(crate) async fn connect(&self, url: &Url) -> Result<Box<dyn Wire>, FetchFailure> {
        let address = self.shared.plan.address(url).ok_or(FetchFailure::Name)?;
        let addresses = self.resolve(&address).await?;
        let mut failure: Option<(u8, FetchFailure)> = None;
        for address in addresses {
            let found = match self.dial(address).await {
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
    async fn dial(&self, address: SocketAddr) -> Result<Stream, FetchFailure> {
        loop {
            let error = match Stream::connect(&Address::Ip(address)).await {
                Ok(stream) => {
                    self.figures.borrow_mut().connections += 1;
                    return Ok(stream);
                }
                Err(error) => error,
            };
            let failure = failure_of(&error, FetchFailure::Connect);
            if failure != FetchFailure::Descriptors || !self.lingering.close_oldest().await {
                return Err(failure);
            }
            self.figures.borrow_mut().closed_early += 1;
        }
    }

    /// Makes the TLS handshake, if the URL uses TLS.
    async fn secure(&self, stream: Stream, url: &Url) -> Result<Box<dyn Wire>, FetchFailure> {
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

    /// The addresses of a host. The thread caches successful lookups for the whole run.
    async fn resolve(&self, address: &Address) -> Result<Vec<SocketAddr>, FetchFailure> {
        match address {
            Address::Ip(address) => Ok(vec![*address]),
            Address::Host { name, port } => {
                let key = (name.clone(), *port);
                if let Some(known) = self.addresses.borrow().get(&key) {
                    return Ok(known.clone());
                }
                let found = tokio::net::lookup_host((name.as_str(), *port)).await;
                let found = found.map_err(|error| failure_of(&error, FetchFailure::Name))?;
                let found: Vec<SocketAddr> = found.collect();
                if found.is_empty() {
                    return Err(FetchFailure::Name);
                }
                self.addresses.borrow_mut().insert(key, found.clone());
                Ok(found)
            }
            Address::Unix(_) => Err(FetchFailure::Name),
        }
    }
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
