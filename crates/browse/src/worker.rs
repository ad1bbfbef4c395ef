//! What one thread of visitors has for their page loads: its own figures, trees and known addresses, and what all
//! threads share.
//!
//! Invariant: what the warm-up came to is in no figure that is handed in. Who loads what, and when, is not known here.

use crate::connection::Wire;
use crate::lingering::Lingering;
use crate::outcome::{FetchFailure, Figures};
use crate::series::{Current, Tally};
use crate::shared::Shared;
use crate::turns::Turns;
use crate::visitor::Connections;
use load::LocalLimit;
use net::{Address, Stream, TlsError};
use page::Memo;
use platform::Monotonic;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use url::Url;

/// What one thread has for its page loads.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) memo: RefCell<Memo>,
    pub(crate) figures: RefCell<Figures>,
    addresses: RefCell<HashMap<(String, u16), Vec<SocketAddr>>>,
    /// The second that is going on.
    current: RefCell<Current>,
    /// When the visitors of this thread begin.
    pub(crate) turns: Turns,
    /// Whether the warm-up is over.
    is_measuring: Cell<bool>,
    /// Connections of visitors who have their page.
    lingering: Lingering,
}

impl Worker {
    /// The worker at a place among so many.
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

    /// The warm-up is over, and what it came to is forgotten.
    pub(crate) fn begin_measuring(&self) {
        self.is_measuring.set(true);
        *self.figures.borrow_mut() = Figures::new();
    }

    /// Takes note, in the second that is going on, of what has ended; nothing counts before the measured part.
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

    /// The run is over: hands in the last second, and gives the figures.
    pub(crate) fn end(&self, now: Monotonic) -> Figures {
        self.current.borrow_mut().end(self.shared.counting(now), &self.shared.series);
        self.figures.take()
    }

    /// Leaves the connections of a visitor who has the page, at once or after a while.
    pub(crate) fn leave(&self, connections: Connections) {
        if !self.lingering.is_wanted() {
            return;
        }
        let closed_early: u64 = connections.idle().map(|connection| self.lingering.keep(connection)).sum();
        self.figures.borrow_mut().closed_early += closed_early;
    }

    /// Opens a connection for a URL.
    pub(crate) async fn connect(&self, url: &Url) -> Result<Box<dyn Wire>, FetchFailure> {
        let address = self.shared.plan.address(url).ok_or(FetchFailure::Name)?;
        let addresses = self.resolve(&address).await?;
        let mut failure = None;
        for address in addresses {
            let found = match self.dial(address).await {
                Ok(stream) => self.secure(stream, url).await,
                Err(failure) => Err(failure),
            };
            match found {
                Ok(wire) => return Ok(wire),
                Err(found) => {
                    failure = failure.filter(|before| gravity(*before) > gravity(found)).or(Some(found))
                }
            }
        }
        Err(failure.unwrap_or(FetchFailure::Connect))
    }

    /// Connects to an address. Where descriptors have run out, lingering connections go for those that pages need.
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

    /// Secures a connection, if the URL asks for it.
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

    /// The addresses of a host, asked for once in a run.
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

/// The failure that an error tells of: a limit of this machine, or else what the site may have done.
fn failure_of(error: &io::Error, of_site: FetchFailure) -> FetchFailure {
    match LocalLimit::of(error) {
        None => of_site,
        Some(LocalLimit::Ports) => FetchFailure::Address,
        Some(LocalLimit::Descriptors) => FetchFailure::Descriptors,
        Some(LocalLimit::Memory) => FetchFailure::Memory,
    }
}

/// How much the failure of one address of a host says about the host, beside those of its others. A machine without
/// IPv6 has no local address toward an IPv6 one: that says least.
fn gravity(failure: FetchFailure) -> u8 {
    match failure {
        FetchFailure::Address => 0,
        FetchFailure::Connect => 1,
        FetchFailure::Descriptors | FetchFailure::Memory => 3,
        _ => 2,
    }
}
