//! A server for thousands of connections that answers each request after a fixed delay. It records
//! when its kernel received each request and when it was answered. Tests compare a load tester's
//! latencies with this record.
//!
//! Invariant: a single thread does all work and sleeps until the next response is due, so that the
//! server does not compete with the measured program. It may answer late, and records that.

use clock::{Clock, Monotonic};
use net::{StampClock, ask_for_stamps, receive};
use platform::SystemClock;
use rustix::event::{Timespec, epoll};
use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Event data of the listener. Other values are indices of connections.
const LISTENER: u64 = u64::MAX;

/// Longest time between two checks of the stop flag.
const TICK: Duration = Duration::from_millis(20);

/// Length of the listener's queue.
const BACKLOG: i32 = 4096;

/// A running server. It stops when it is dropped.
pub struct Delayed {
    address: SocketAddr,
    is_stopped: Arc<AtomicBool>,
    serving: Option<JoinHandle<Vec<ServedRequest>>>,
}

/// The record of one request.
#[derive(Clone, Copy, Debug)]
pub struct ServedRequest {
    /// The time when the kernel received the request.
    pub came: Monotonic,
    /// The time when the response was written, the client closed the connection, or the server was
    /// stopped. Time in which the server could not write because the client did not read is
    /// subtracted.
    pub left: Monotonic,
}

/// A client's connection.
struct DelayedClient {
    stream: TcpStream,
    /// The response that is being written.
    writing: Option<Writing>,
    /// Whether epoll watches for room in the send buffer.
    awaits_room: bool,
}

/// A response that is partly written.
struct Writing {
    came: Monotonic,
    /// Bytes that are written.
    bytes: usize,
    /// Start of the current time without progress, and the sum of the earlier ones.
    stuck_since: Monotonic,
    stuck_before: Duration,
}

impl Writing {
    /// The record of the request whose response is complete or abandoned at `now`.
    fn served(&self, now: Monotonic) -> ServedRequest {
        let stuck = self.stuck_before + now.since(self.stuck_since);
        ServedRequest { came: self.came, left: self.came.plus(now.since(self.came).saturating_sub(stuck)) }
    }
}

struct Serving {
    clock: SystemClock,
    delay: Duration,
    listener: TcpListener,
    epoll: std::os::fd::OwnedFd,
    response: Vec<u8>,
    connections: Vec<Option<DelayedClient>>,
    /// Requests in the order of arrival, with the indices of their connections. The delay is the
    /// same for all, so this is also the order in which they are due.
    due: VecDeque<(Monotonic, usize)>,
    served: Vec<ServedRequest>,
}

impl Delayed {
    /// Starts a server on a free loopback port. Its thread inherits the caller's CPU affinity.
    pub fn start(delay: Duration) -> Self {
        Self::start_with(delay, 2)
    }

    /// As [`Delayed::start`], with `content_bytes` bytes of content in each response.
    pub fn start_with(delay: Duration, content_bytes: usize) -> Self {
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
            response: response(content_bytes),
            connections: Vec::new(),
            due: VecDeque::new(),
            served: Vec::new(),
        };
        let serving = std::thread::spawn(move || serving.run(&theirs));
        Self { address, is_stopped, serving: Some(serving) }
    }

    /// The address where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://ADDRESS/`.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Stops the server. Returns the records of all requests, in the order in which they were
    /// answered.
    pub fn stop(mut self) -> Vec<ServedRequest> {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.serving.take().unwrap().join().unwrap()
    }
}

impl Drop for Delayed {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        if let Some(serving) = self.serving.take() {
            // A panic of the thread was already reported.
            let _ = serving.join();
        }
    }
}

/// A listener whose queue holds all users at once. A client whose connection finds the queue full
/// retries only after a second.
fn listen() -> TcpListener {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(BACKLOG).unwrap();
    socket.into()
}

fn response(content_bytes: usize) -> Vec<u8> {
    let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {content_bytes}\r\n\r\n").into_bytes();
    response.resize(response.len() + content_bytes, b'x');
    response
}

impl Serving {
    fn run(mut self, is_stopped: &AtomicBool) -> Vec<ServedRequest> {
        let mut events = Vec::with_capacity(1024);
        while !is_stopped.load(Ordering::SeqCst) {
            let now = self.clock.monotonic();
            let wait = self.due.front().map_or(TICK, |(came, _)| came.plus(self.delay).since(now).min(TICK));
            events.clear();
            let wait = Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as i64 };
            // An interrupted wait is treated like a wait without events.
            let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&wait));
            let stamps = StampClock::compare(&self.clock);
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    place => {
                        let place = place as usize;
                        let flags = event.flags;
                        if flags.contains(epoll::EventFlags::OUT) {
                            self.write_on(place);
                        }
                        if flags != epoll::EventFlags::OUT {
                            self.read(place, stamps);
                        }
                    }
                }
            }
            self.answer();
        }
        let now = self.clock.monotonic();
        self.served.extend(self.due.iter().map(|(came, _)| ServedRequest { came: *came, left: now }));
        let writing = self.connections.iter().flatten().filter_map(|peer| peer.writing.as_ref());
        self.served.extend(writing.map(|writing| writing.served(now)));
        self.served
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(true).unwrap();
            ask_for_stamps(&stream).unwrap();
            let data = epoll::EventData::new_u64(self.connections.len() as u64);
            epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN).unwrap();
            self.connections.push(Some(DelayedClient { stream, writing: None, awaits_room: false }));
        }
    }

    /// Reads a request, whose head must fit one read, or the end of the connection.
    fn read(&mut self, place: usize, stamps: StampClock) {
        let Some(peer) = &self.connections[place] else { return };
        let mut room = [0; 4096];
        match receive(&peer.stream, &mut room) {
            Ok((1.., stamp)) => {
                let came = stamps.moment(stamp, self.clock.monotonic());
                self.due.push_back((came, place));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => {
                let now = self.clock.monotonic();
                let writing = self.connections[place].take().and_then(|peer| peer.writing);
                self.served.extend(writing.map(|writing| writing.served(now)));
                let ended = self.due.iter().filter(|(_, of)| *of == place);
                self.served.extend(ended.map(|(came, _)| ServedRequest { came: *came, left: now }));
                self.due.retain(|(_, of)| *of != place);
            }
        }
    }

    /// Answers the requests that are due.
    fn answer(&mut self) {
        while let Some((came, place)) = self.due.front().copied() {
            let now = self.clock.monotonic();
            if came.plus(self.delay) > now {
                return;
            }
            self.due.pop_front();
            match &mut self.connections[place] {
                Some(peer) => {
                    let bytes = 0;
                    let stuck_before = Duration::ZERO;
                    peer.writing = Some(Writing { came, bytes, stuck_since: now, stuck_before });
                    self.write_on(place);
                }
                None => self.served.push(ServedRequest { came, left: now }),
            }
        }
    }

    /// Writes as much of the response as the client takes.
    fn write_on(&mut self, place: usize) {
        let Some(peer) = &mut self.connections[place] else { return };
        let Some(writing) = &mut peer.writing else { return };
        let begun = self.clock.monotonic();
        writing.stuck_before += begun.since(writing.stuck_since);
        let is_stuck = loop {
            match peer.stream.write(&self.response[writing.bytes..]) {
                Ok(bytes) => writing.bytes += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break true,
                // The end of the connection is handled when it is read.
                Err(_) => break false,
            }
            if writing.bytes == self.response.len() {
                break false;
            }
        };
        writing.stuck_since = self.clock.monotonic();
        if !is_stuck {
            self.served.push(writing.served(writing.stuck_since));
            peer.writing = None;
        }
        if std::mem::replace(&mut peer.awaits_room, is_stuck) != is_stuck {
            let room = if is_stuck { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(place as u64);
            epoll::modify(&self.epoll, &peer.stream, data, epoll::EventFlags::IN | room).unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Delayed, Writing};
    use clock::Monotonic;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::time::Duration;

    #[test]
    fn time_without_progress_is_not_charged_to_the_server() {
        let at = |millis: u64| Monotonic::from_nanos(millis * 1_000_000);
        let stuck_before = Duration::from_millis(30);
        let writing = Writing { came: at(100), bytes: 1, stuck_since: at(180), stuck_before };
        let served = writing.served(at(200));
        assert_eq!((served.came, served.left), (at(100), at(150)));
    }

    #[test]
    fn response_larger_than_socket_buffers_arrives_whole() {
        // The largest receive and send buffers on the loopback interface are 6 MiB and 4 MiB.
        const CONTENT_BYTES: usize = 16 * 1024 * 1024;
        let server = Delayed::start_with(Duration::ZERO, CONTENT_BYTES);
        let mut client = TcpStream::connect(server.address()).unwrap();
        let mut room = vec![0; 1024 * 1024];
        for _ in 0..2 {
            client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            let mut received = client.read(&mut room).unwrap();
            let head_bytes = room.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
            while received < head_bytes + CONTENT_BYTES {
                received += client.read(&mut room).unwrap();
            }
            assert_eq!(received, head_bytes + CONTENT_BYTES);
        }
        drop(client);
        assert_eq!(server.stop().len(), 2);
    }
}
