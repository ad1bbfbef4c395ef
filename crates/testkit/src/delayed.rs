//! A server for thousands of connections that answers each request after one delay, and writes down when its kernel had
//! each request and when it was answered: the truth that an account of users' time is held against.
//!
//! Invariant: one thread does everything and sleeps until the next answer is due, so that the server does not compete
//! with what is measured. It may answer late, and writes down that it did.

use net::{StampClock, ask_for_stamps, receive};
use platform::{Clock, Monotonic, SystemClock};
use rustix::event::{Timespec, epoll};
use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The events of the listener; connections have their places.
const LISTENER: u64 = u64::MAX;

/// The server looks at least this often whether it should stop.
const TICK: Duration = Duration::from_millis(20);

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// A running server; it stops when dropped.
pub struct Delayed {
    address: SocketAddr,
    is_stopped: Arc<AtomicBool>,
    serving: Option<JoinHandle<Vec<Served>>>,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// When the kernel had received it.
    pub came: Monotonic,
    /// When its response was written, the client closed the connection, or the server was stopped.
    pub left: Monotonic,
}

struct Serving {
    clock: SystemClock,
    delay: Duration,
    listener: TcpListener,
    epoll: std::os::fd::OwnedFd,
    connections: Vec<Option<TcpStream>>,
    /// Requests in the order in which they are due, with the places of their connections.
    due: VecDeque<(Monotonic, usize)>,
    served: Vec<Served>,
}

impl Delayed {
    /// Starts a server on a free loopback port. Its thread runs where the caller's may run.
    pub fn start(delay: Duration) -> Self {
        let listener = listen();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, data, epoll::EventFlags::IN).unwrap();
        let is_stopped = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&is_stopped);
        let serving = Serving {
            clock: SystemClock::new(),
            delay,
            listener,
            epoll,
            connections: Vec::new(),
            due: VecDeque::new(),
            served: Vec::new(),
        };
        let serving = std::thread::spawn(move || serving.run(&theirs));
        Self { address, is_stopped, serving: Some(serving) }
    }

    /// `http://ADDRESS/`.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Stops the server; gives its requests in the order in which they were answered.
    pub fn stop(mut self) -> Vec<Served> {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.serving.take().unwrap().join().unwrap()
    }
}

impl Drop for Delayed {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

/// A listener whose queue takes all users at once: a connection that finds it full is tried again a second later.
fn listen() -> TcpListener {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(BACKLOG).unwrap();
    socket.into()
}

impl Serving {
    fn run(mut self, is_stopped: &AtomicBool) -> Vec<Served> {
        let mut events = Vec::with_capacity(1024);
        while !is_stopped.load(Ordering::SeqCst) {
            let now = self.clock.monotonic();
            let wait = self.due.front().map_or(TICK, |(came, _)| came.plus(self.delay).since(now).min(TICK));
            events.clear();
            let wait = Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as i64 };
            // An interruption is as good as no event.
            let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&wait));
            let stamps = StampClock::compare(&self.clock);
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    place => self.read(place as usize, stamps),
                }
            }
            self.answer();
        }
        let now = self.clock.monotonic();
        self.served.extend(self.due.iter().map(|(came, _)| Served { came: *came, left: now }));
        self.served
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(true).unwrap();
            ask_for_stamps(&stream).unwrap();
            let data = epoll::EventData::new_u64(self.connections.len() as u64);
            epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN).unwrap();
            self.connections.push(Some(stream));
        }
    }

    /// Reads a request, whose head fits one read, or the end of the connection.
    fn read(&mut self, place: usize, stamps: StampClock) {
        let Some(stream) = &self.connections[place] else { return };
        let mut room = [0; 4096];
        match receive(stream, &mut room) {
            Ok((1.., stamp)) => {
                let came = stamps.moment(stamp, self.clock.monotonic());
                self.due.push_back((came, place));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => {
                self.connections[place] = None;
                let now = self.clock.monotonic();
                let ended = self.due.iter().filter(|(_, of)| *of == place);
                self.served.extend(ended.map(|(came, _)| Served { came: *came, left: now }));
                self.due.retain(|(_, of)| *of != place);
            }
        }
    }

    /// Answers what is due.
    fn answer(&mut self) {
        while let Some((came, place)) = self.due.front().copied() {
            let now = self.clock.monotonic();
            if came.plus(self.delay) > now {
                return;
            }
            self.due.pop_front();
            self.served.push(Served { came, left: now });
            if let Some(stream) = &mut self.connections[place] {
                // A client that is gone is noticed when it is read from.
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        }
    }
}
