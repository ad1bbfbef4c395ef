//! Listening sockets that a service manager (`sd_listen_fds(3)`: the variables `LISTEN_FDS` and
//! `LISTEN_PID`) or an earlier process has opened and passed on.
//!
//! Invariant: a passed socket serves the listener with its address, or is closed and reported. No
//! second socket is bound beside it, so the connections in its queue are not lost.

use crate::listen::{BindError, BoundSocket, Listener, bind, resolve};
use address::Address;
use listenfd::ListenFd;
use rustix::net::AddressFamily;
use std::io;
use std::os::fd::OwnedFd;

/// The passed sockets.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    sockets: Vec<Listener>,
}

impl InheritedSockets {
    /// Takes the sockets that were passed to this process. Call it once, before other threads run.
    ///
    /// # Errors
    /// If a passed descriptor is no listening stream socket.
    pub fn from_environment() -> io::Result<Self> {
        let mut passed = ListenFd::from_env();
        let sockets = (0..passed.len()).map(|number| take(&mut passed, number));
        Ok(Self { sockets: sockets.collect::<io::Result<_>>()? })
    }

    /// Adds a socket that an earlier process has passed on.
    ///
    /// # Errors
    /// If it is no listening TCP or Unix socket, or the system's error.
    pub fn add(&mut self, descriptor: OwnedFd) -> io::Result<()> {
        let domain = rustix::net::sockopt::socket_domain(&descriptor)?;
        if !rustix::net::sockopt::socket_acceptconn(&descriptor)? {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the socket does not listen"));
        }
        let socket = match domain {
            AddressFamily::INET | AddressFamily::INET6 => BoundSocket::Tcp(descriptor.into()),
            AddressFamily::UNIX => BoundSocket::Unix(descriptor.into()),
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        self.sockets.push(Listener::passed(socket)?);
        Ok(())
    }

    /// The sockets of `count` workers for an address: the passed ones, or else new ones; see
    /// [`bind`]. With more passed sockets than workers, a worker has several.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind(&mut self, address: &Address, count: usize) -> Result<Vec<Vec<Listener>>, BindError> {
        let resolved = resolve(address).ok();
        let is_exact = |socket: &Listener| resolved.as_ref() == Some(socket.local());
        let mut passed: Vec<_> = self.sockets.extract_if(.., |socket| is_exact(socket)).collect();
        if passed.is_empty() {
            let is_meant = |socket: &Listener| is_for(socket.local(), address);
            passed = self.sockets.extract_if(.., |socket| is_meant(socket)).collect();
        }
        if passed.is_empty() {
            return bind(address, count).map(|sockets| sockets.into_iter().map(|one| vec![one]).collect());
        }
        share(&passed, count).map_err(|error| BindError::System { address: address.clone(), error })
    }

    /// The addresses of the sockets that no listener has taken. They are closed.
    pub fn unused(self) -> Vec<Address> {
        self.sockets.iter().map(|socket| socket.local().clone()).collect()
    }
}

/// Distributes sockets over workers. Each worker has at least one, and each socket at least one
/// worker.
fn share(sockets: &[Listener], count: usize) -> io::Result<Vec<Vec<Listener>>> {
    let mut workers: Vec<Vec<Listener>> = (0..count).map(|_| Vec::new()).collect();
    for number in 0..count.max(sockets.len()) {
        let socket = sockets.get(number % sockets.len().max(1));
        if let (Some(socket), Some(worker)) = (socket, workers.get_mut(number % count.max(1))) {
            worker.push(socket.try_clone()?);
        }
    }
    Ok(workers)
}

fn take(passed: &mut ListenFd, number: usize) -> io::Result<Listener> {
    let socket = match passed.take_tcp_listener(number) {
        Ok(Some(listener)) => BoundSocket::Tcp(listener),
        Ok(None) => return Err(io::ErrorKind::NotFound.into()),
        Err(_) => {
            let listener = passed.take_unix_listener(number)?;
            BoundSocket::Unix(listener.ok_or(io::ErrorKind::NotFound)?)
        }
    };
    Listener::passed(socket)
}

/// Whether a socket at `local` is the one that the setting `listen` describes.
fn is_for(local: &Address, stated: &Address) -> bool {
    match (local, stated) {
        // The process that bound the socket resolved the name.
        (Address::Ip(local), Address::Host { port, .. }) => local.port() == *port,
        // One for all addresses of the machine may be of either family.
        (Address::Ip(local), Address::Ip(stated)) if stated.ip().is_unspecified() => {
            local.ip().is_unspecified() && local.port() == stated.port()
        }
        _ => local == stated,
    }
}

#[cfg(test)]
mod tests {
    use super::{InheritedSockets, is_for, share};
    use crate::bind;
    use address::Address;
    use std::os::fd::AsFd;

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn every_worker_and_every_socket_is_served() {
        for (passed, workers) in [(1, 1), (1, 3), (3, 1), (3, 2), (2, 3), (4, 4)] {
            let sockets = bind(&address("127.0.0.1:0"), passed).unwrap();
            let shared = share(&sockets, workers).unwrap();
            assert_eq!(shared.len(), workers);
            assert!(shared.iter().all(|own| !own.is_empty()), "{passed} sockets, {workers} workers");
            let total: usize = shared.iter().map(Vec::len).sum();
            assert_eq!(total, passed.max(workers));
        }
    }

    #[test]
    fn sockets_are_found_by_their_address() {
        for (local, stated, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "localhost:80", true),
            ("0.0.0.0:80", ":80", true),
            ("[::]:80", ":80", true),
            ("127.0.0.1:80", ":80", false),
            ("unix:/run/a", "unix:/run/a", true),
            ("unix:/run/a", "unix:/run/b", false),
        ] {
            assert_eq!(is_for(&address(local), &address(stated)), expected, "{local} {stated}");
        }
    }

    #[test]
    fn only_listening_sockets_are_taken_from_another_process() {
        let mut inherited = InheritedSockets::default();
        let sockets = bind(&address("127.0.0.1:0"), 1).unwrap();
        inherited.add(sockets[0].as_fd().try_clone_to_owned().unwrap()).unwrap();
        let connected = std::os::unix::net::UnixStream::pair().unwrap().0;
        assert!(inherited.add(connected.into()).is_err());
        let taken = inherited.bind(sockets[0].local(), 2).unwrap();
        assert!(taken.iter().all(|own| own.len() == 1 && own[0].local() == sockets[0].local()));
    }

    #[test]
    fn address_without_a_passed_socket_is_bound() {
        let mut inherited = InheritedSockets { sockets: bind(&address("127.0.0.1:0"), 2).unwrap() };
        let passed = inherited.sockets[0].local().clone();
        assert_eq!(inherited.bind(&address("127.0.0.1:0"), 2).unwrap().len(), 2);
        assert_eq!(inherited.unused(), [passed.clone(), passed]);
    }
}
