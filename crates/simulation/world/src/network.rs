//! The network of a world: addresses at which origins accept connections in memory.
//!
//! Invariant: an address refuses connections unless an origin listens at it. The two ends of all
//! connections are counted.

use crate::pipe::locked;
use crate::{FaultCounts, FaultKind, OpenPipes, Pipe, PipeSettings, Random, Trace, pipe};
use address::Address;
use net::{Connecting, Network, Stream};
use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// The behaviour of an address for new connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectMode {
    /// Nothing.
    #[default]
    Accept,
    /// Every connection is refused.
    Refuse,
    /// Connecting does not end until the mode changes; then the caller may try again.
    Hang,
    /// Connecting takes this time in milliseconds.
    Slow(u64),
}

/// The network of a world. Clones are the same network.
#[derive(Clone)]
pub struct SimulatedNetwork {
    shared: Arc<Shared>,
}

struct Shared {
    trace: Trace,
    faults: FaultCounts,
    open: OpenPipes,
    state: Mutex<State>,
}

struct State {
    random: Random,
    /// The addresses as text, because [`Address`] has no order.
    places: BTreeMap<String, Place>,
}

#[derive(Default)]
struct Place {
    mode: ConnectMode,
    /// The properties of its connections; by chance if there are none.
    settings: Option<PipeSettings>,
    accepts: Option<mpsc::Sender<Pipe>>,
}

/// How an attempt to connect goes on.
enum Attempt {
    Accept(mpsc::Sender<Pipe>, Box<PipeSettings>, Random),
    Refuse,
    Hang,
}

impl SimulatedNetwork {
    /// A network without listeners.
    pub fn new(random: Random, trace: Trace, faults: FaultCounts) -> Self {
        let state = Mutex::new(State { random, places: BTreeMap::new() });
        Self { shared: Arc::new(Shared { trace, faults, open: OpenPipes::default(), state }) }
    }

    /// Starts to listen at `address`. Up to `backlog` connections wait until they are received; at
    /// least 1. Further ones wait for a place. Dropping the receiver ends the listening. The mode
    /// of the address stays.
    pub fn listen(&self, address: &Address, backlog: usize) -> mpsc::Receiver<Pipe> {
        let (accepts, accepted) = mpsc::channel(backlog.max(1));
        locked(&self.shared.state).places.entry(address.to_string()).or_default().accepts = Some(accepts);
        accepted
    }

    /// Changes the behaviour of `address` for new connections.
    pub fn set_mode(&self, address: &Address, mode: ConnectMode) {
        locked(&self.shared.state).places.entry(address.to_string()).or_default().mode = mode;
    }

    /// Sets the properties of later connections to `address`; `None` for properties by chance.
    pub fn set_settings(&self, address: &Address, settings: Option<PipeSettings>) {
        locked(&self.shared.state).places.entry(address.to_string()).or_default().settings = settings;
    }

    /// Makes a connection of a visitor to the edge: the visitor's end, and the end that the caller
    /// gives to the edge. Without settings its properties are by chance.
    pub fn visit(&self, settings: Option<PipeSettings>) -> (Pipe, Pipe) {
        let (settings, random) = self.properties(settings);
        pipe(&settings, random)
    }

    /// The number of ends of connections that are open.
    pub fn open_pipes(&self) -> usize {
        self.shared.open.count()
    }

    /// The count of open ends, for settings of connections.
    pub fn open(&self) -> &OpenPipes {
        &self.shared.open
    }

    /// The properties of a connection, whose ends this network counts.
    fn properties(&self, settings: Option<PipeSettings>) -> (PipeSettings, Random) {
        let mut state = locked(&self.shared.state);
        let mut random = Random::new(state.random.number());
        drop(state);
        let settings = settings.map_or_else(
            || PipeSettings::by_chance(&mut random, &self.shared.open),
            |settings| PipeSettings { open: self.shared.open.clone(), ..settings },
        );
        (settings, random)
    }

    /// Looks how an attempt to connect to `address` goes on now.
    fn attempt(&self, address: &str) -> Attempt {
        let state = locked(&self.shared.state);
        let Some(place) = state.places.get(address) else { return Attempt::Refuse };
        let accepts = place.accepts.clone().filter(|accepts| !accepts.is_closed());
        match (place.mode, accepts) {
            (ConnectMode::Hang, _) => Attempt::Hang,
            (ConnectMode::Refuse, _) | (_, None) => Attempt::Refuse,
            (ConnectMode::Accept | ConnectMode::Slow(_), Some(accepts)) => {
                let settings = place.settings.clone();
                drop(state);
                let (settings, random) = self.properties(settings);
                Attempt::Accept(accepts, Box::new(settings), random)
            }
        }
    }

    /// The time that connecting to `address` takes.
    fn delay(&self, address: &str) -> Option<Duration> {
        match locked(&self.shared.state).places.get(address)?.mode {
            ConnectMode::Slow(millis) => Some(Duration::from_millis(millis)),
            _ => None,
        }
    }

    async fn make(&self, address: &Address) -> io::Result<Stream> {
        let address = address.to_string();
        if let Some(delay) = self.delay(&address) {
            self.shared.faults.hit(FaultKind::ConnectSlow);
            tokio::time::sleep(delay).await;
        }
        let made = match self.attempt(&address) {
            Attempt::Hang => {
                self.shared.faults.hit(FaultKind::ConnectHangs);
                return pending().await;
            }
            Attempt::Refuse => {
                self.shared.faults.hit(FaultKind::ConnectRefused);
                Err(io::ErrorKind::ConnectionRefused)
            }
            Attempt::Accept(accepts, settings, random) => match accepts.reserve().await {
                Ok(place) => {
                    let (near, far) = pipe(&settings, random);
                    place.send(far);
                    Ok(Stream::Other(Box::new(near)))
                }
                // The origin has ended while the connection waited to be accepted.
                Err(_) => Err(io::ErrorKind::ConnectionReset),
            },
        };
        self.shared.trace.event("connect", u64::from(made.is_ok()), || {
            format!("{address}: {}", if made.is_ok() { "connected" } else { "refused" })
        });
        made.map_err(io::Error::from)
    }
}

impl Network for SimulatedNetwork {
    fn connect<'a>(&'a self, address: &'a Address) -> Connecting<'a> {
        Box::pin(self.make(address))
    }
}

impl fmt::Debug for SimulatedNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedNetwork").field("open_pipes", &self.open_pipes()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectMode, SimulatedNetwork};
    use crate::{FaultCounts, FaultKind, Random, Trace};
    use address::Address;
    use net::Network;
    use std::io::ErrorKind;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{Instant, timeout};

    fn network() -> (SimulatedNetwork, FaultCounts, Address) {
        let faults = FaultCounts::default();
        let network = SimulatedNetwork::new(Random::new(1), Trace::new(0), faults.clone());
        (network, faults, "app.internal:8000".parse().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn connection_reaches_the_origin_that_listens() {
        let (network, faults, address) = network();
        let refused = network.connect(&address).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let mut accepted = network.listen(&address, 4);
        let mut near = network.connect(&address).await.unwrap();
        let mut far = accepted.recv().await.unwrap();
        assert_eq!(network.open_pipes(), 2);
        near.write_all(b"ping").await.unwrap();
        let mut read = [0; 4];
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"ping");
        drop((near, far));
        assert_eq!(network.open_pipes(), 0);
        drop(accepted);
        assert!(network.connect(&address).await.is_err(), "nobody listens any more");
        assert_eq!(faults.of(FaultKind::ConnectRefused), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn modes_refuse_hang_and_delay() {
        let (network, faults, address) = network();
        let _accepted = network.listen(&address, 4);
        network.set_mode(&address, ConnectMode::Refuse);
        assert_eq!(network.connect(&address).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        network.set_mode(&address, ConnectMode::Hang);
        assert!(timeout(Duration::from_secs(9999), network.connect(&address)).await.is_err());
        network.set_mode(&address, ConnectMode::Slow(300));
        let start = Instant::now();
        network.connect(&address).await.unwrap();
        assert_eq!(start.elapsed().as_millis(), 300);
        for kind in [FaultKind::ConnectRefused, FaultKind::ConnectHangs, FaultKind::ConnectSlow] {
            assert_eq!(faults.of(kind), 1, "{kind}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn full_backlog_delays_further_connections() {
        let (network, _, address) = network();
        let mut accepted = network.listen(&address, 1);
        let _first = network.connect(&address).await.unwrap();
        let mut second = network.connect(&address);
        assert!(timeout(Duration::from_secs(9), &mut second).await.is_err());
        accepted.recv().await.unwrap();
        second.await.unwrap();
    }
}
