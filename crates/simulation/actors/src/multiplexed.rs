//! A visitor's connection with HTTP/2, on which several requests run at once.
//!
//! Invariant: the protocol alone decides whether a response is complete. The ledger judges the
//! content.

use crate::body::CountedBody;
use crate::content::slice;
use crate::exchange::{Ending, Reply};
use crate::moment::{Moment, Timeline};
use crate::read::READ_BYTES;
use crate::visit::{Manner, Upload, Visit, VisitMethod};
use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Version};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use world::MemoryMeter;

/// The window of a connection in bytes: one slow response must not hold up the others.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// Fields that HTTP/2 has no use for, or that this client does not wait for.
const LEFT_OUT: [&str; 3] = ["host", "transfer-encoding", "expect"];

/// A connection.
pub(crate) struct Multiplexed {
    send: SendRequest<Bytes>,
    driver: JoinHandle<()>,
    is_abrupt: bool,
    /// Responses that it has carried.
    pub(crate) carried: usize,
    /// When it began.
    pub(crate) since: Moment,
}

/// One request, as the task needs it that carries it out.
pub(crate) struct Exchange {
    send: SendRequest<Bytes>,
    request: Request<()>,
    /// The content with its manner.
    upload: Option<(Bytes, Upload)>,
    manner: Manner,
    is_given_up: bool,
    timeline: Timeline,
    deadline: Instant,
    /// Counts the body of the response.
    memory: MemoryMeter,
}

impl Multiplexed {
    /// Begins a connection at this moment. `is_abrupt`: it will end without a word.
    pub(crate) async fn begin<S>(stream: S, since: Moment, is_abrupt: bool) -> Option<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = Builder::new();
        builder.initial_connection_window_size(CONNECTION_WINDOW_BYTES).enable_push(false);
        let (send, connection) = builder.handshake(stream).await.ok()?;
        let driver = tokio::spawn(async move {
            // The streams report what becomes of them.
            let _ = connection.await;
        });
        Some(Self { send, driver, is_abrupt, carried: 0, since })
    }

    /// Whether it may take further requests.
    pub(crate) fn is_open(&self) -> bool {
        !self.driver.is_finished()
    }

    /// Prepares a request. `head` is its head in HTTP/1.1. `None` if it cannot be translated, which
    /// no planned request is.
    pub(crate) fn exchange(
        &self,
        visit: &Visit,
        head: &str,
        timeline: Timeline,
        within: Duration,
        memory: &MemoryMeter,
    ) -> Option<Exchange> {
        let gives_up = matches!(visit.manner, Manner::HalfHead { .. } | Manner::Abort { after_bytes: 0 });
        let content = |upload: Upload| (Bytes::from(slice(&visit.upload_id(), 0, upload.bytes)), upload);
        Some(Exchange {
            send: self.send.clone(),
            request: translate(visit.method, head)?,
            upload: visit.upload.map(content),
            manner: visit.manner,
            is_given_up: gives_up,
            timeline,
            deadline: Instant::now() + within,
            memory: memory.clone(),
        })
    }
}

impl Drop for Multiplexed {
    fn drop(&mut self) {
        if self.is_abrupt {
            self.driver.abort();
        }
    }
}

/// A head of HTTP/1.1 as a request of HTTP/2.
fn translate(method: VisitMethod, head: &str) -> Option<Request<()>> {
    let mut lines = head.split("\r\n");
    let target = lines.next()?.split(' ').nth(1)?;
    let fields: Vec<_> = lines.filter_map(|line| line.split_once(": ")).collect();
    let host = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"))?.1;
    let mut request = Request::builder()
        .method(method.token())
        .uri(format!("http://{host}{target}"))
        .version(Version::HTTP_2);
    for (name, value) in fields {
        if !LEFT_OUT.iter().any(|left_out| name.eq_ignore_ascii_case(left_out)) {
            request = request.header(name, value);
        }
    }
    request.body(()).ok()
}

impl Exchange {
    /// Sends the request and reads its response.
    pub(crate) async fn run(self) -> Reply {
        let mut reply = Reply::default();
        if let Err(ending) = self.carry_out(&mut reply).await {
            reply.ending = ending;
        } else {
            reply.ending = Ending::Complete;
        }
        reply
    }

    async fn carry_out(self, reply: &mut Reply) -> Result<(), Ending> {
        let Self { send, request, upload, manner, is_given_up, timeline, deadline, memory } = self;
        let mut ready = match timeout_at(deadline, send.ready()).await {
            Ok(ready) => ready.map_err(|_| Ending::Closed)?,
            Err(_) => return Err(Ending::TimedOut),
        };
        let is_whole = upload.is_none();
        let (response, mut sending) = ready.send_request(request, is_whole).map_err(|_| Ending::Closed)?;
        // Held to the end, because a connection without a handle closes.
        let _ready = ready;
        if is_given_up {
            sending.send_reset(Reason::CANCEL);
            return Err(Ending::GivenUp);
        }
        let pauses = upload.as_ref().map_or(Duration::ZERO, |(_, upload)| upload.pauses());
        reply.own_delay += pauses;
        let read = read(response, manner, timeline, deadline, &memory, reply);
        let Some((content, upload)) = upload else { return read.await };
        tokio::pin!(read);
        tokio::select! {
            biased;
            read = &mut read => return read,
            gives_up = send_content(sending, content, upload) => {
                if gives_up {
                    return Err(Ending::GivenUp);
                }
            }
        }
        read.await
    }
}

/// Sends the content piece by piece. Returns whether the visitor gives up. That the peer wants no
/// more of it is left to the reader.
async fn send_content(mut sending: SendStream<Bytes>, content: Bytes, upload: Upload) -> bool {
    let kept = if upload.is_aborted { upload.bytes / 2 } else { upload.bytes };
    let mut rest = content.slice(..kept.min(content.len()));
    let piece_bytes = (upload.bytes / 4).max(1);
    while !rest.is_empty() {
        let piece = rest.split_to(piece_bytes.min(rest.len()));
        let is_last = rest.is_empty() && !upload.is_aborted;
        // Without capacity, the piece waits in the connection.
        if sending.send_data(piece, is_last).is_err() {
            return false;
        }
        sleep(Duration::from_millis(upload.pause_ms)).await;
    }
    if upload.is_aborted {
        sending.send_reset(Reason::CANCEL);
        return true;
    }
    if kept == 0 {
        // An error means that the peer wants nothing more.
        let _ = sending.send_data(Bytes::new(), true);
    }
    false
}

/// Reads a response in the visitor's manner.
async fn read(
    response: ResponseFuture,
    manner: Manner,
    timeline: Timeline,
    deadline: Instant,
    memory: &MemoryMeter,
    reply: &mut Reply,
) -> Result<(), Ending> {
    let response = match timeout_at(deadline, response).await {
        Ok(response) => response.map_err(|_| Ending::Closed)?,
        Err(_) => return Err(Ending::TimedOut),
    };
    reply.first_byte = Some(timeline.now());
    let (parts, content) = response.into_parts();
    reply.status = Some(parts.status.as_u16());
    for (name, value) in &parts.headers {
        reply.fields.push(name.as_str().to_owned(), value.as_bytes().to_vec());
    }
    let mut body = CountedBody::new(memory);
    let ended = read_content(content, &mut body, (manner, deadline), &mut reply.own_delay).await;
    reply.body = body.freeze();
    ended
}

async fn read_content(
    mut content: RecvStream,
    body: &mut CountedBody,
    (manner, deadline): (Manner, Instant),
    own_delay: &mut Duration,
) -> Result<(), Ending> {
    // Bytes that the current read may still take. A slow visitor pauses between two reads, as with
    // HTTP/1, and each read takes what has arrived. A pause after each frame would let the lengths
    // of the frames decide about its rate, which then falls below `limits.response_rate_min`.
    let mut left = 0;
    loop {
        let arrived = match left {
            0 => Poll::Pending,
            _ => poll_fn(|context| Poll::Ready(content.poll_data(context))).await,
        };
        let frame = match arrived {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                if let Manner::SlowRead { pause_ms } = manner {
                    let pause = Duration::from_millis(pause_ms);
                    sleep(pause).await;
                    *own_delay += pause;
                }
                left = READ_BYTES;
                timeout_at(deadline, content.data()).await.map_err(|_| Ending::TimedOut)?
            }
        };
        match frame {
            None => return Ok(()),
            Some(Err(_)) => return Err(Ending::Cut),
            Some(Ok(octets)) => {
                left = left.saturating_sub(octets.len());
                body.push(&octets);
                content.flow_control().release_capacity(octets.len()).map_err(|_| Ending::Cut)?;
            }
        }
        if matches!(manner, Manner::Abort { after_bytes } if body.octets().len() >= after_bytes) {
            return Err(Ending::GivenUp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{read, translate};
    use crate::exchange::Reply;
    use crate::moment::Timeline;
    use crate::visit::{Manner, VisitMethod};
    use bytes::Bytes;
    use http::{Request, Response};
    use std::time::Duration;
    use tokio::io::DuplexStream;
    use tokio::time::Instant;
    use world::MemoryMeter;

    /// Answers one request with `frames` frames of 300 bytes.
    async fn answer_in_frames(stream: DuplexStream, frames: usize) {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let (_, mut respond) = connection.accept().await.unwrap().unwrap();
        let mut send = respond.send_response(Response::new(()), false).unwrap();
        for _ in 0..frames {
            send.send_data(Bytes::from_static(&[b'a'; 300]), false).unwrap();
        }
        send.send_data(Bytes::new(), true).unwrap();
        while let Some(Ok(_)) = connection.accept().await {}
    }

    #[tokio::test(start_paused = true)]
    async fn slow_visitor_reads_all_frames_that_have_arrived() {
        let (own, its) = tokio::io::duplex(1 << 16);
        tokio::spawn(answer_in_frames(its, 130));
        let (send, connection) = h2::client::handshake(own).await.unwrap();
        tokio::spawn(connection);
        let mut send = send.ready().await.unwrap();
        let request = Request::get("http://a.test/").body(()).unwrap();
        let (response, _) = send.send_request(request, true).unwrap();
        let (mut reply, manner) = (Reply::default(), Manner::SlowRead { pause_ms: 1000 });
        let deadline = Instant::now() + Duration::from_secs(60);
        assert_eq!(
            read(response, manner, Timeline::start(0), deadline, &MemoryMeter::default(), &mut reply).await,
            Ok(())
        );
        assert_eq!(reply.body.len(), 39_000);
        assert!(reply.own_delay <= Duration::from_secs(10), "{:?}", reply.own_delay);
    }

    #[test]
    fn head_is_translated_without_the_fields_of_http_1() {
        let head =
            "POST /a?b=1 HTTP/1.1\r\nHost: a.test:81\r\nCookie: c=1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let request = translate(VisitMethod::Post, head).unwrap();
        assert_eq!(request.uri(), "http://a.test:81/a?b=1");
        assert_eq!(request.method(), "POST");
        assert_eq!(request.headers().len(), 1);
        assert_eq!(request.headers()["cookie"], "c=1");
    }
}
