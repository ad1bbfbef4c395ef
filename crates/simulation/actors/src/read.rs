//! Reads responses from a stream, strictly.
//!
//! Invariant: the framing alone decides whether a response is complete. The ledger judges the
//! content.

use crate::body::CountedBody;
use crate::exchange::{Ending, Reply};
use crate::moment::Timeline;
use crate::visit::Manner;
use bytes::BytesMut;
use h1::{BodyDecoder, Decoded, Limits, Strictness, parse_response};
use message::Method;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use world::MemoryMeter;

/// Largest number of informational responses before the final one.
const INFORMATIONAL_MAX: usize = 8;

/// Room for one read in bytes.
pub(crate) const READ_BYTES: usize = 16 << 10;

/// A stream that is read response by response.
pub(crate) struct Reader<R> {
    pub(crate) stream: R,
    /// Bytes that arrived and are not read yet.
    pub(crate) input: BytesMut,
    /// Counts the bodies.
    pub(crate) memory: MemoryMeter,
}

/// How to read one response.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) timeline: Timeline,
    pub(crate) manner: Manner,
    /// The visitor waits until then.
    pub(crate) deadline: Instant,
}

/// The state of reading one response.
struct Progress {
    reply: Reply,
    /// Bytes that arrived since the request.
    bytes: usize,
}

/// Orders something from the admin address by a POST without content, and reads the answer until
/// the deadline.
pub async fn order<S>(
    stream: S,
    path: &str,
    token: Option<&str>,
    timeline: Timeline,
    within: Duration,
) -> Reply
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let text = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{token}Content-Length: 0\r\n\r\n"
    );
    let reading = Reading { timeline, manner: Manner::Plain, deadline: Instant::now() + within };
    // The answer is short, so its memory is counted nowhere.
    ask(stream, &Method::Post, &text, reading, MemoryMeter::default()).await
}

/// Sends a request on a stream of its own, and reads the response meanwhile, whose body `memory`
/// counts. The edge may answer
/// before it has read everything, so that writing may fail.
pub(crate) async fn ask<S>(
    stream: S,
    method: &Method,
    text: &str,
    reading: Reading,
    memory: MemoryMeter,
) -> Reply
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (reader, mut writer) = tokio::io::split(stream);
    let write = async {
        let _ = writer.write_all(text.as_bytes()).await;
        let _ = writer.flush().await;
        std::future::pending::<()>().await;
    };
    let mut reader = Reader { stream: reader, input: BytesMut::new(), memory };
    tokio::select! {
        biased;
        (reply, _) = reader.response(method, reading) => reply,
        () = write => Reply::default(),
    }
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// Reads the final response to a request with this method. Returns it, and whether the
    /// connection may carry another exchange.
    pub(crate) async fn response(&mut self, method: &Method, reading: Reading) -> (Reply, bool) {
        let mut progress = Progress { reply: Reply::default(), bytes: self.input.len() };
        if !self.input.is_empty() {
            progress.reply.first_byte = Some(reading.timeline.now());
        }
        let is_persistent = match self.read(method, reading, &mut progress).await {
            Ok(is_persistent) => {
                progress.reply.ending = Ending::Complete;
                is_persistent
            }
            Err(ending) => {
                progress.reply.ending = ending;
                false
            }
        };
        (progress.reply, is_persistent)
    }

    async fn read(
        &mut self,
        method: &Method,
        reading: Reading,
        progress: &mut Progress,
    ) -> Result<bool, Ending> {
        let mut informational = 0;
        let response = loop {
            match parse_response(&mut self.input, method, &Limits::DEFAULT, Strictness::Strict) {
                Ok(Some(response)) if response.head.status.is_informational() => {
                    informational += 1;
                    if informational > INFORMATIONAL_MAX {
                        return Err(Ending::Malformed("endless informational responses".to_owned()));
                    }
                }
                Ok(Some(response)) => break response,
                Ok(None) => {
                    if !self.receive(reading, progress).await? {
                        let is_empty = self.input.is_empty();
                        return Err(if is_empty { Ending::Closed } else { Ending::Cut });
                    }
                }
                Err(error) => return Err(Ending::Malformed(error.to_string())),
            }
        };
        progress.reply.status = Some(response.head.status.code());
        progress.reply.fields = response.head.fields;
        let mut decoder = BodyDecoder::new(response.framing);
        let mut body = CountedBody::new(&self.memory);
        let result = self.read_body(&mut decoder, &mut body, reading, progress).await;
        progress.reply.body = body.freeze();
        result.map(|()| response.persistent)
    }

    async fn read_body(
        &mut self,
        decoder: &mut BodyDecoder,
        body: &mut CountedBody,
        reading: Reading,
        progress: &mut Progress,
    ) -> Result<(), Ending> {
        loop {
            match decoder.decode(&mut self.input) {
                Ok(Decoded::Data(octets)) => body.push(&octets),
                Ok(Decoded::End(_)) => return Ok(()),
                Ok(Decoded::NeedMore) => {
                    if !self.receive(reading, progress).await? {
                        return decoder.eof().map_err(|_| Ending::Cut);
                    }
                }
                Err(error) => return Err(Ending::Malformed(error.to_string())),
            }
        }
    }

    /// Waits for more input, in the visitor's manner. Returns false at the end of the stream.
    async fn receive(&mut self, reading: Reading, progress: &mut Progress) -> Result<bool, Ending> {
        if let Manner::SlowRead { pause_ms } = reading.manner {
            let pause = Duration::from_millis(pause_ms);
            tokio::time::sleep(pause).await;
            progress.reply.own_delay += pause;
        }
        if let Manner::Abort { after_bytes } = reading.manner
            && progress.bytes >= after_bytes
        {
            return Err(Ending::GivenUp);
        }
        self.input.reserve(READ_BYTES);
        let read = self.stream.read_buf(&mut self.input);
        // A reset counts as the end of the stream if nothing is expected, as `Cut` within a body.
        let bytes = match tokio::time::timeout_at(reading.deadline, read).await {
            Err(_) => return Err(Ending::TimedOut),
            Ok(Ok(bytes)) => bytes,
            Ok(Err(_)) if progress.reply.status.is_some() => return Err(Ending::Cut),
            Ok(Err(_)) => return Err(Ending::Closed),
        };
        progress.bytes += bytes;
        if bytes > 0 && progress.reply.first_byte.is_none() {
            progress.reply.first_byte = Some(reading.timeline.now());
        }
        Ok(bytes > 0)
    }
}
