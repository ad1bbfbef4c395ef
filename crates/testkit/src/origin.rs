//! A scripted origin: a server that answers each request with a list of actions. A test can
//! truncate a response, stall, state a wrong length or end the connection at an exact byte.
//!
//! It records every request. It parses only the parts that it needs to find the end of a request.

use crate::port::{self, bound};
use socket2::{SockRef, Socket};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// One action of the origin on a connection.
#[derive(Clone, Debug)]
pub enum Action {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Waits until the gate is opened, or the origin is stopped.
    Await(Gate),
    /// Waits this long.
    Pause(Duration),
    /// Closes the connection normally.
    Close,
    /// Closes the connection with a reset.
    Reset,
}

/// A request as the origin received it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Request line and header fields as received, without the final empty line.
    pub head: String,
    /// The content, including any chunked coding.
    pub body: Vec<u8>,
}

impl Seen {
    /// The request target.
    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or("")
    }

    /// The value of the first header field with this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }
}

/// The value of the first field line with this name in a head.
pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// A gate, closed until a test opens it.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Opens the gate for all current and later waiters.
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn wait(&self, stop: &AtomicBool) {
        let mut open = self.0.0.lock().unwrap();
        while !*open && !stop.load(Ordering::SeqCst) {
            open = self.0.1.wait_timeout(open, Duration::from_millis(20)).unwrap().0;
        }
    }
}

type RequestHandler = dyn Fn(&Seen) -> Vec<Action> + Send + Sync;

/// A running origin. It stops when it is dropped.
pub struct Origin {
    address: SocketAddr,
    script: Arc<RequestHandler>,
    seen: Arc<Mutex<Vec<Seen>>>,
    life: Mutex<Life>,
    /// A bound socket that does not listen. It reserves the port while the origin is stopped.
    spare: Mutex<Socket>,
}

/// The time between a start and a stop.
struct Life {
    stop: Arc<AtomicBool>,
    /// The accepted connections. Entries of closed connections cannot be upgraded.
    open: Arc<Mutex<Vec<Weak<TcpStream>>>>,
    listening: Option<JoinHandle<()>>,
}

impl Origin {
    /// Starts an origin on a free loopback port. `script` returns the actions that answer a
    /// request.
    pub fn start(script: impl Fn(&Seen) -> Vec<Action> + Send + Sync + 'static) -> Self {
        let socket = bound(SocketAddr::from(([127, 0, 0, 1], 0)));
        let address = port::address(&socket);
        let (script, seen): (Arc<RequestHandler>, _) = (Arc::new(script), Arc::default());
        let spare = Mutex::new(bound(address));
        let life = Mutex::new(Life::begin(&socket, &script, &seen));
        Self { address, script, seen, life, spare }
    }

    /// Stops the origin: open connections end, and new ones are refused until [`Origin::revive`].
    pub fn kill(&self) {
        self.life.lock().unwrap().end(self.address);
    }

    /// Starts the origin again, at the same address and with the same script.
    pub fn revive(&self) {
        let mut spare = self.spare.lock().unwrap();
        let socket = std::mem::replace(&mut *spare, bound(self.address));
        *self.life.lock().unwrap() = Life::begin(&socket, &self.script, &self.seen);
    }

    /// The origin's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://ADDRESS`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far, in order of arrival.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Clears the record of requests.
    pub fn forget(&self) {
        self.seen.lock().unwrap().clear();
    }

    /// Number of requests for this target so far.
    pub fn count(&self, target: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|seen| seen.target() == target).count()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        // The lock is poisoned if a test has failed; then do not panic a second time.
        if let Ok(life) = self.life.get_mut() {
            life.end(self.address);
        }
    }
}

impl Life {
    /// Listens on a bound socket.
    fn begin(socket: &Socket, script: &Arc<RequestHandler>, record: &Arc<Mutex<Vec<Seen>>>) -> Self {
        socket.listen(1024).unwrap();
        let listener = TcpListener::from(socket.try_clone().unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let open = Arc::new(Mutex::new(Vec::new()));
        let script = script.clone();
        let record = record.clone();
        let stopped = stop.clone();
        let opened = open.clone();
        let listening = std::thread::spawn(move || {
            for connection in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(connection) = connection else { continue };
                let connection = Arc::new(connection);
                opened.lock().unwrap().push(Arc::downgrade(&connection));
                let script = script.clone();
                let record = record.clone();
                let stopped = stopped.clone();
                std::thread::spawn(move || converse(&connection, &*script, &record, &stopped));
            }
        });
        Self { stop, open, listening: Some(listening) }
    }

    fn end(&mut self, address: SocketAddr) {
        let Some(listening) = self.listening.take() else { return };
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the accepting thread so that it sees the flag. The connection itself may fail.
        let _ = TcpStream::connect(address);
        // A panic of the thread was already reported.
        let _ = listening.join();
        for connection in self.open.lock().unwrap().drain(..).filter_map(|open| open.upgrade()) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

/// A whole response: status line, the given fields, `Content-Length` and the content.
pub fn response(status: &str, fields: &[&str], body: &[u8]) -> Vec<Action> {
    let mut octets = format!("HTTP/1.1 {status}\r\n").into_bytes();
    for field in fields {
        octets.extend_from_slice(field.as_bytes());
        octets.extend_from_slice(b"\r\n");
    }
    octets.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    octets.extend_from_slice(body);
    vec![Action::Send(octets)]
}

fn converse(connection: &TcpStream, script: &RequestHandler, record: &Mutex<Vec<Seen>>, stop: &AtomicBool) {
    let mut reader = BufReader::new(connection);
    while let Some(seen) = read_request(&mut reader) {
        let actions = script(&seen);
        record.lock().unwrap().push(seen);
        for action in actions {
            if !act(connection, action, stop) {
                return;
            }
        }
    }
}

/// Performs one action. Returns whether the connection continues.
fn act(mut connection: &TcpStream, action: Action, stop: &AtomicBool) -> bool {
    match action {
        Action::Send(octets) => return connection.write_all(&octets).is_ok(),
        Action::Await(gate) => gate.wait(stop),
        Action::Pause(duration) => std::thread::sleep(duration),
        Action::Close => {
            // The client may have closed the connection already.
            let _ = connection.shutdown(Shutdown::Both);
            return false;
        }
        Action::Reset => {
            // A linger time of zero makes the system send a reset when the socket is closed.
            let _ = socket_reset(connection);
            return false;
        }
    }
    !stop.load(Ordering::SeqCst)
}

fn socket_reset(connection: &TcpStream) -> std::io::Result<()> {
    SockRef::from(connection).set_linger(Some(Duration::ZERO))?;
    connection.shutdown(Shutdown::Read)
}

fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<Seen> {
    let head = read_head(reader)?;
    let mut body = Vec::new();
    if let Some(length) = field(&head, "Content-Length") {
        body.resize(length.parse().ok()?, 0);
        reader.read_exact(&mut body).ok()?;
    } else if field(&head, "Transfer-Encoding").is_some() {
        read_chunked(reader, &mut body)?;
    }
    Some(Seen { head, body })
}

/// Reads a chunked body without decoding it, including its trailer section.
fn read_chunked(reader: &mut impl BufRead, body: &mut Vec<u8>) -> Option<()> {
    loop {
        let size = read_line(reader, body)?;
        let bytes = usize::from_str_radix(size.split(';').next()?, 16).ok()?;
        if bytes == 0 {
            break;
        }
        let start = body.len();
        body.resize(start + bytes + 2, 0);
        reader.read_exact(&mut body[start..]).ok()?;
    }
    while !read_line(reader, body)?.is_empty() {}
    Some(())
}

/// Appends a line to `octets`, and returns it without its line end.
fn read_line(reader: &mut impl BufRead, octets: &mut Vec<u8>) -> Option<String> {
    let start = octets.len();
    reader.read_until(b'\n', octets).ok()?;
    let line = std::str::from_utf8(&octets[start..]).ok()?;
    line.strip_suffix("\r\n").map(str::to_owned)
}

/// Reads up to the first empty line. Returns the lines before it.
pub(crate) fn read_head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match reader.read_until(b'\n', &mut head) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    head.truncate(head.len() - 4);
    Some(String::from_utf8(head).expect("heads in tests are ASCII"))
}
