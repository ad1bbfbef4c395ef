//! A client that sends exactly the given bytes and reads one response at a time.

use crate::PATIENCE;
use crate::origin::{field, read_head};
use crate::port::bound;
use crate::wire::{Handshake, Trust, Wire};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A response as the client received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Status line and header fields without the final empty line.
    pub head: String,
    /// The content, without transfer coding.
    pub body: Vec<u8>,
    /// The trailer fields of a chunked response, one per line.
    pub trailers: String,
    /// Whether the content was as long as its framing stated.
    pub complete: bool,
}

impl Response {
    /// The value of the first header field with this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }

    /// The content as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// One connection.
pub struct Client {
    reader: BufReader<Wire>,
}

impl Client {
    /// Connects to a server.
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    /// Connects to a server that may have ended. `None` if it refuses.
    pub fn try_connect(address: SocketAddr) -> Option<Self> {
        TcpStream::connect(address).ok().map(Self::over)
    }

    /// As [`Client::connect_from`], for a server that may have ended. `None` if it refuses.
    pub fn try_connect_from(from: [u8; 4], address: SocketAddr, receive_bytes: usize) -> Option<Self> {
        let socket = bound(SocketAddr::from((from, 0)));
        socket.set_recv_buffer_size(receive_bytes).unwrap();
        socket.connect(&address.into()).ok()?;
        Some(Self::over(socket.into()))
    }

    /// Connects from a loopback address. `receive_bytes` is the approximate size of the receive
    /// buffer; a small one makes a slow reader.
    pub fn connect_from(from: [u8; 4], address: SocketAddr, receive_bytes: usize) -> Self {
        Self::try_connect_from(from, address, receive_bytes).unwrap()
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { reader: BufReader::new(Wire::Plain(stream)) }
    }

    /// Connects to a server and secures the connection, with the server called `name`.
    ///
    /// # Errors
    /// If the handshake fails.
    pub fn secured(address: SocketAddr, name: &str, trust: &Trust) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        // A server that sends no session ticket would make the first request wait for 40 ms.
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { reader: BufReader::new(trust.secure(stream, name)?) })
    }

    /// Sends these bytes on a plain connection and then secures it.
    ///
    /// # Errors
    /// If the handshake fails.
    ///
    /// # Panics
    /// If the connection is secured already.
    pub fn secure_after(mut self, octets: &[u8], name: &str, trust: &Trust) -> io::Result<Self> {
        self.reader.get_mut().write_all(octets)?;
        let Wire::Plain(stream) = self.reader.into_inner() else { panic!("already secured") };
        Ok(Self { reader: BufReader::new(trust.secure(stream, name)?) })
    }

    /// The terms of a secured connection.
    ///
    /// # Panics
    /// If the connection is plain.
    pub fn handshake(&self) -> Handshake {
        self.reader.get_ref().handshake()
    }

    /// Sends these bytes.
    pub fn send(&mut self, octets: impl AsRef<[u8]>) {
        self.reader.get_mut().write_all(octets.as_ref()).unwrap();
    }

    /// Sends these bytes to a server that may end, and reads the response. `None` if the server
    /// ended before the head.
    pub fn try_ask(&mut self, octets: impl AsRef<[u8]>) -> Option<Response> {
        self.try_send(octets)?;
        self.try_read()
    }

    /// Sends these bytes to a server that may end. `None` if it has.
    pub fn try_send(&mut self, octets: impl AsRef<[u8]>) -> Option<()> {
        self.reader.get_mut().write_all(octets.as_ref()).ok()
    }

    /// As [`Client::try_ask`]. With `is_head`, only the head is read, because a response to HEAD
    /// has no content.
    pub fn try_answer(&mut self, octets: impl AsRef<[u8]>, is_head: bool) -> Option<Response> {
        self.try_send(octets)?;
        if is_head { self.try_read_head() } else { self.try_read() }
    }

    /// Sends a GET with `Host: example.test` and these header lines, and reads the response.
    pub fn get(&mut self, target: &str, fields: &[&str]) -> Response {
        let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        self.send(format!("GET {target} HTTP/1.1\r\nHost: example.test\r\n{lines}\r\n"));
        self.read()
    }

    /// Reads the head of the next response.
    ///
    /// # Panics
    /// If the connection ends first.
    pub fn read_head(&mut self) -> Response {
        self.try_read_head().expect("the connection ended before a response")
    }

    /// As [`Client::read_head`]. `None` if the connection ends or times out first.
    pub fn try_read_head(&mut self) -> Option<Response> {
        let head = read_head(&mut self.reader)?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some(Response { status, head, body: Vec::new(), trailers: String::new(), complete: true })
    }

    /// Reads the whole next response. The request must not have been HEAD.
    pub fn read(&mut self) -> Response {
        self.try_read().expect("the connection ended before a response")
    }

    fn try_read(&mut self) -> Option<Response> {
        let mut response = self.try_read_head()?;
        let no_content = response.status < 200 || matches!(response.status, 204 | 304);
        response.complete = no_content || self.read_body(&mut response);
        Some(response)
    }

    /// Whether the server closed the connection and nothing is left to read.
    pub fn is_closed(&mut self) -> bool {
        match self.reader.fill_buf() {
            Ok(octets) => octets.is_empty(),
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    /// Reads and drops everything up to the end of the connection. Returns whether the connection
    /// ended without an error.
    pub fn read_to_end(&mut self) -> bool {
        io::copy(&mut self.reader, &mut io::sink()).is_ok()
    }

    /// Reads exactly `count` bytes.
    pub fn read_octets(&mut self, count: usize) -> Vec<u8> {
        self.try_read_octets(count).unwrap()
    }

    /// As [`Client::read_octets`]. `None` if the connection ends or times out first.
    pub fn try_read_octets(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut octets = vec![0; count];
        self.reader.read_exact(&mut octets).ok()?;
        Some(octets)
    }

    /// Reads the next chunk of chunked content. `None` if the connection ends or the chunk is
    /// malformed.
    pub fn try_read_chunk(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(self.read_line()?.split(';').next()?, 16).ok()?;
        let octets = self.try_read_octets(size)?;
        self.read_line()?;
        Some(octets)
    }

    /// Reads the content that belongs to a head. Returns whether it was as long as its framing
    /// stated.
    pub fn read_body(&mut self, response: &mut Response) -> bool {
        if response.field("Transfer-Encoding").is_some() {
            return self.read_chunks(response).is_some();
        }
        let Some(length) = response.field("Content-Length") else {
            return self.reader.read_to_end(&mut response.body).is_ok();
        };
        let length: u64 = length.parse().unwrap();
        let read = (&mut self.reader).take(length).read_to_end(&mut response.body);
        read.is_ok_and(|octets| octets as u64 == length)
    }

    fn read_chunks(&mut self, response: &mut Response) -> Option<()> {
        loop {
            let size = usize::from_str_radix(self.read_line()?.split(';').next()?, 16).ok()?;
            if size == 0 {
                break;
            }
            let start = response.body.len();
            response.body.resize(start + size, 0);
            if self.reader.read_exact(&mut response.body[start..]).is_err() {
                response.body.truncate(start);
                return None;
            }
            self.read_line()?;
        }
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                return Some(());
            }
            response.trailers.push_str(&line);
            response.trailers.push('\n');
        }
    }

    fn read_line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line).ok()?;
        line.strip_suffix("\r\n").map(str::to_owned)
    }
}

/// Sends a GET on a new connection.
pub fn get(address: SocketAddr, target: &str, fields: &[&str]) -> Response {
    Client::connect(address).get(target, fields)
}
