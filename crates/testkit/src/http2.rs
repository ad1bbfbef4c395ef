//! A client with HTTP/2: one that obeys the protocol, and one that sends exactly the given frames.

use crate::PATIENCE;
use crate::client::Response;
use crate::wire::{Trust, Wire};
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{RecvStream, SendStream};
use http::{Method, Request, Version};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;

/// A connection that obeys the protocol.
pub struct Http2Client {
    runtime: Runtime,
    send: SendRequest<Bytes>,
    scheme: &'static str,
    host: String,
}

/// A response whose content is still arriving.
pub struct Http2Stream {
    response: h2::client::ResponseFuture,
    /// Sends the rest of the request.
    pub send: SendStream<Bytes>,
}

/// The window of a client's connection.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

impl Http2Client {
    /// Connects without TLS, by prior knowledge.
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).unwrap()
    }

    /// As [`Http2Client::connect`], to a server that may have ended. `None` if it refuses.
    pub fn try_connect(address: SocketAddr) -> Option<Self> {
        let runtime = runtime();
        let stream = runtime.block_on(tokio::net::TcpStream::connect(address)).ok()?;
        Some(Self::over(runtime, stream, "http", "example.test"))
    }

    /// Connects and secures the connection, with the server called `name`.
    ///
    /// # Errors
    /// If the handshake fails, or the server does not speak HTTP/2.
    pub fn secured(address: SocketAddr, name: &str, trust: &Trust) -> io::Result<Self> {
        let runtime = runtime();
        let secured = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(address).await?;
            trust.secure_http2(stream, name).await
        })?;
        Ok(Self::over(runtime, secured, "https", name))
    }

    fn over(
        runtime: Runtime,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        scheme: &'static str,
        host: &str,
    ) -> Self {
        // The responses to read later must not use up the window of the one to read first.
        let mut builder = Builder::new();
        builder.initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        let (send, connection) = runtime.block_on(builder.handshake(stream)).unwrap();
        runtime.spawn(connection);
        Self { runtime, send, scheme, host: host.to_owned() }
    }

    /// Uses this host for further requests.
    pub fn call_host(&mut self, host: &str) {
        host.clone_into(&mut self.host);
    }

    /// A request with these header lines.
    pub fn request(&self, method: &str, target: &str, fields: &[&str]) -> Request<()> {
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap())
            .uri(format!("{}://{}{target}", self.scheme, self.host))
            .version(Version::HTTP_2);
        for field in fields {
            let (name, value) = field.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        request.body(()).unwrap()
    }

    /// Sends a GET and reads the response.
    pub fn get(&mut self, target: &str, fields: &[&str]) -> Response {
        let request = self.request("GET", target, fields);
        let stream = self.begin(request, true).unwrap();
        self.read(stream)
    }

    /// Sends a request with content and reads the response.
    pub fn post(&mut self, target: &str, fields: &[&str], content: &[u8]) -> Response {
        let request = self.request("POST", target, fields);
        let mut stream = self.begin(request, false).unwrap();
        stream.send.send_data(Bytes::copy_from_slice(content), true).unwrap();
        self.read(stream)
    }

    /// Begins a request. `is_whole`: it has no content.
    ///
    /// # Errors
    /// If the server accepts none.
    pub fn begin(&mut self, request: Request<()>, is_whole: bool) -> Result<Http2Stream, h2::Error> {
        let (runtime, send) = (&self.runtime, self.send.clone());
        let mut ready =
            runtime.block_on(async { tokio::time::timeout(PATIENCE, send.ready()).await.unwrap() })?;
        let (response, send) = ready.send_request(request, is_whole)?;
        Ok(Http2Stream { response, send })
    }

    /// Reads a whole response.
    pub fn read(&mut self, stream: Http2Stream) -> Response {
        self.try_read(stream).unwrap()
    }

    /// Reads a whole response. A stream that ends early makes it incomplete.
    ///
    /// # Errors
    /// If the stream ends before its head, or the response takes longer than [`PATIENCE`].
    pub fn try_read(&mut self, stream: Http2Stream) -> Result<Response, h2::Error> {
        let reading = async {
            let (parts, mut content) = stream.response.await?.into_parts();
            let mut head = format!("HTTP/2 {}", parts.status.as_u16());
            for (name, value) in &parts.headers {
                head.push_str(&format!("\r\n{name}: {}", String::from_utf8_lossy(value.as_bytes())));
            }
            let mut response = Response {
                status: parts.status.as_u16(),
                head,
                body: Vec::new(),
                trailers: String::new(),
                complete: false,
            };
            response.complete = read_content(&mut content, &mut response).await.is_ok();
            Ok(response)
        };
        let reading = async { tokio::time::timeout(PATIENCE, reading).await };
        self.runtime.block_on(reading).unwrap_or_else(|_| Err(h2::Reason::CANCEL.into()))
    }

    /// Runs the connection for a moment.
    pub fn rest(&mut self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// Runs a task on the runtime of the connection.
    pub fn run<T>(&mut self, task: impl Future<Output = T>) -> T {
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, task).await.unwrap() })
    }
}

impl Http2Stream {
    /// Waits for the head; returns the status and the rest.
    ///
    /// # Errors
    /// If the stream ends before its head.
    pub async fn head(self) -> Result<(u16, RecvStream, SendStream<Bytes>), h2::Error> {
        let response = self.response.await?;
        Ok((response.status().as_u16(), response.into_body(), self.send))
    }
}

async fn read_content(content: &mut RecvStream, response: &mut Response) -> Result<(), h2::Error> {
    while let Some(octets) = content.data().await {
        let octets = octets?;
        response.body.extend_from_slice(&octets);
        content.flow_control().release_capacity(octets.len())?;
    }
    for (name, value) in content.trailers().await?.iter().flatten() {
        response.trailers.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    Ok(())
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http2Frame {
    /// Its type (RFC 9113 section 6).
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream.
    pub stream: u32,
    /// Its content.
    pub payload: Vec<u8>,
}

/// A connection that sends exactly the given frames.
pub struct Http2Frames {
    stream: Wire,
}

/// The longest wait until a server accepts the bytes of a flood.
const FLOOD_PATIENCE: Duration = Duration::from_secs(2);

impl Http2Frames {
    /// Connects without TLS, and sends the preface and empty settings.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self::over(Wire::Plain(stream), &[])
    }

    /// Connects with TLS, and sends the preface and these settings.
    ///
    /// # Errors
    /// If the server refuses the connection or ends it during the handshake.
    pub fn secured(address: SocketAddr, name: &str, trust: &Trust, settings: &[u8]) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(FLOOD_PATIENCE))?;
        stream.set_write_timeout(Some(FLOOD_PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self::over(trust.secure(stream, name)?, settings))
    }

    fn over(stream: Wire, settings: &[u8]) -> Self {
        let mut frames = Self { stream };
        frames.send_octets(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        frames.send(&[Http2Frame::new(4, 0, settings)]);
        frames
    }

    /// Reads and discards the received bytes; false if the server has closed the connection.
    pub fn drain(&mut self) -> bool {
        self.stream.socket().set_nonblocking(true).unwrap();
        let mut discarded = [0; 16 << 10];
        let is_open = loop {
            match self.stream.read(&mut discarded) {
                Ok(0) => break false,
                Ok(_) => {}
                Err(error) => break error.kind() == io::ErrorKind::WouldBlock,
            }
        };
        self.stream.socket().set_nonblocking(false).unwrap();
        is_open
    }

    /// Sends these bytes; false if the server has closed the connection.
    pub fn send_octets(&mut self, octets: &[u8]) -> bool {
        self.stream.write_all(octets).is_ok()
    }

    /// Sends frames; false if the server has closed the connection.
    pub fn send(&mut self, frames: &[Http2Frame]) -> bool {
        let octets: Vec<u8> = frames.iter().flat_map(Http2Frame::octets).collect();
        self.send_octets(&octets)
    }

    /// The next frame; `None` at the end of the connection.
    pub fn read(&mut self) -> Option<Http2Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let bytes = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; bytes];
        self.stream.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Http2Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// Reads frames until one of this type, or the end of the connection.
    pub fn read_until(&mut self, kind: u8) -> Option<Http2Frame> {
        loop {
            let frame = self.read()?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// The same connection again, for another thread.
    ///
    /// # Panics
    /// If the connection is secured.
    pub fn again(&self) -> Self {
        let Wire::Plain(stream) = &self.stream else { panic!("the connection is secured") };
        Self { stream: Wire::Plain(stream.try_clone().unwrap()) }
    }

    /// The error code of the frame with which the server ends the connection (RFC 9113 section 7);
    /// `None` if there is none.
    pub fn goodbye(&mut self) -> Option<u32> {
        let payload = self.read_until(7)?.payload;
        Some(u32::from_be_bytes([payload[4], payload[5], payload[6], payload[7]]))
    }
}

impl Http2Frame {
    /// A frame without flags.
    pub fn new(kind: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Self {
        Self { kind, flags: 0, stream, payload: payload.into() }
    }

    /// The head of a request, with the end of the head and of the stream.
    pub fn request(stream: u32, fields: &[(&str, &str)]) -> Self {
        Self { kind: 1, flags: 5, stream, payload: field_block(fields) }
    }

    /// A frame that ends a stream early (RFC 9113 section 6.4), with the code CANCEL.
    pub fn reset(stream: u32) -> Self {
        Self::new(3, stream, 8_u32.to_be_bytes())
    }

    /// A frame that opens the window of a stream by this many bytes (RFC 9113 section 6.9).
    pub fn window_update(stream: u32, bytes: u32) -> Self {
        Self::new(8, stream, bytes.to_be_bytes())
    }

    /// The frame on the wire.
    pub fn octets(&self) -> Vec<u8> {
        let bytes = (self.payload.len() as u32).to_be_bytes();
        let mut octets = vec![bytes[1], bytes[2], bytes[3], self.kind, self.flags];
        octets.extend_from_slice(&self.stream.to_be_bytes());
        octets.extend_from_slice(&self.payload);
        octets
    }
}

/// Fields in the simplest form of HPACK: literal, without index and without Huffman coding (RFC
/// 7541 section 6.2.2).
pub fn field_block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            push_length(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// An integer with a prefix of seven bits (RFC 7541 section 5.1).
fn push_length(block: &mut Vec<u8>, length: usize) {
    if length < 127 {
        return block.push(length as u8);
    }
    block.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        block.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    block.push(rest as u8);
}
