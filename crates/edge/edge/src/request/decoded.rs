//! Sends gzip responses decoded to clients that refuse gzip.
//!
//! Invariants: beside the client's queue, at most one decoded piece of the content is held. If the
//! content cannot be decoded, the response stays visibly incomplete.

use crate::control::counters::Metric;
use crate::fetch::body_repair::BodyRepair;
use crate::memory::budget::MemoryShare;
use crate::request::client::ClientConnection;
use crate::request::deliver::Beginning;
use crate::request::delivery::ContentSource;
use crate::request::event_stream::while_open;
use crate::request::gunzip::Gunzip;
use crate::request::interrupted::Interrupted;
use crate::request::lookup::stored_without_gzip;
use crate::request::respond::ResponseAccount;
use crate::request::visit::{RequestOutcome, Visit};
use bytes::Bytes;
use h1::BodyFraming;
use message::ResponseHead;
use origin::{NoUpload, OriginEvent, OriginExchange};
use semantics::{AcceptedCodings, WithoutGzip, decoded_head, refuses_gzip, without_gzip};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use store::{FillingReader, Object, OnDisk};

/// Bytes of a body on disk that are read at once. A client that refuses gzip holds no more of the
/// body in memory.
const READ_BYTES: usize = 64 * 1024;

/// The source of the coded content.
pub(crate) enum CodedSource<'a> {
    /// Pieces in memory.
    Pieces(VecDeque<Bytes>),
    /// The disk, starting at the byte `at`.
    Disk { body: Arc<OnDisk>, at: u64, repair: &'a BodyRepair<'a> },
    /// A response whose body is arriving.
    Filling(FillingReader),
    /// An origin. The beginning of the coded content is kept for the detection.
    Exchange(Box<OriginExchange>, Option<&'a mut Beginning>),
}

impl<'a> CodedSource<'a> {
    /// The content of a stored response.
    pub(crate) fn stored(object: &Arc<Object>, repair: &'a BodyRepair<'a>) -> Self {
        match object.on_disk() {
            Some(body) => Self::Disk { body: Arc::clone(body), at: 0, repair },
            None => Self::Pieces(object.body().chunks().iter().cloned().collect()),
        }
    }

    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Interrupted> {
        match self {
            Self::Pieces(pieces) => Ok(pieces.pop_front()),
            Self::Disk { body, at, .. } if *at >= body.len() => Ok(None),
            Self::Disk { body, at, repair } => {
                let (reader, from) = (Arc::clone(body), *at);
                // Fits a usize, because the limit does.
                let bytes_max = (body.len() - from).min(READ_BYTES as u64) as usize;
                let Some(turn) = repair.turn().await else { return Err(Interrupted::Damage) };
                let read = move || (reader.read_at(from, bytes_max), turn).0;
                match repair.read(read).await {
                    Some(Ok(bytes)) if !bytes.is_empty() => {
                        *at += bytes.len() as u64;
                        Ok(Some(bytes))
                    }
                    // A decoder cannot continue with bytes of another response, so the object is
                    // removed and the next request fetches the page.
                    Some(Ok(_) | Err(_)) => {
                        repair.forget(body);
                        Err(Interrupted::Damage)
                    }
                    None => Err(Interrupted::Damage),
                }
            }
            Self::Filling(reader) => match poll_fn(|context| reader.poll_next(context)).await {
                Some(Ok(bytes)) => Ok(Some(bytes)),
                Some(Err(_)) => Err(Interrupted::Source(None)),
                None => Ok(None),
            },
            Self::Exchange(exchange, wanted) => loop {
                match exchange.next(&mut NoUpload).await {
                    Ok(OriginEvent::Data(bytes)) => {
                        if let Some(wanted) = wanted {
                            wanted.keep(&bytes);
                        }
                        return Ok(Some(bytes));
                    }
                    Ok(OriginEvent::End(_)) => return Ok(None),
                    Ok(OriginEvent::Informational(_) | OriginEvent::Head { .. }) => {}
                    Err(error) => return Err(Interrupted::Source(Some(error))),
                }
            },
        }
    }
}

impl Visit<'_> {
    /// Whether the client must not receive gzip, although a shared fetch has offered it.
    pub(crate) fn refuses_gzip(&self) -> bool {
        let accepted = || AcceptedCodings::of(&self.request.head.fields);
        self.site.is_some_and(|site| refuses_gzip(accepted(), site.policy()))
    }

    /// The head of the decoded response, if the response must be decoded for this client. Responses
    /// to the client's own request need no decoding: the origin saw the client's Accept-Encoding.
    pub(crate) fn decoded(&self, content: &ContentSource, accepted: AcceptedCodings) -> Option<ResponseHead> {
        if !self.site.is_some_and(|site| refuses_gzip(accepted, site.policy())) {
            return None;
        }
        let head = match content {
            ContentSource::Stored(object) if stored_without_gzip(object) == WithoutGzip::AsIs => return None,
            ContentSource::Stored(object) => Cow::Owned(object.head()),
            ContentSource::Filling { answer, own, .. } => {
                Cow::Borrowed(answer.own_head.as_ref().filter(|_| *own).unwrap_or(&answer.head))
            }
            ContentSource::Claimed(response) | ContentSource::Watched(response, _) => {
                Cow::Borrowed(&response.head)
            }
            ContentSource::Own(_)
            | ContentSource::SuspectedWrite(..)
            | ContentSource::Switch(..)
            | ContentSource::File(..) => return None,
        };
        (without_gzip(&head.fields) == WithoutGzip::Decoded).then(|| decoded_head(&head))
    }

    /// Sends a decoded response. Also returns whether it was complete.
    pub(crate) async fn send_decoded(
        &mut self,
        head: &ResponseHead,
        source: CodedSource<'_>,
        account: &ResponseAccount,
    ) -> (RequestOutcome, bool) {
        self.cells().count(Metric::ResponsesDecoded);
        let written = self.write_head(head, BodyFraming::Chunked, account);
        self.begin(&written);
        let mut content_bytes = 0;
        let bytes_max = self.shared.limits.decoded_bytes_max;
        let cells = self.cells();
        let target = (&mut *self.client, self.shared.buffers.memory());
        let sending = send(target, source, written.framing, bytes_max, &mut content_bytes);
        let sent =
            while_open(self.shared, cells, head, pin!(sending)).await.unwrap_or(Err(Interrupted::Drain));
        let whole = sent.is_ok();
        (self.outcome(head.status, account.reason, content_bytes, sent, &written), whole)
    }
}

/// Sends the queue. An origin that waits for a slow client meanwhile gives up its turn.
async fn flush(client: &mut ClientConnection, source: &mut CodedSource<'_>) -> Result<(), Interrupted> {
    client.begin_flush();
    let flushed = poll_fn(|context| {
        let flushed = client.poll_flush(context);
        if flushed.is_pending()
            && let CodedSource::Exchange(exchange, _) = source
        {
            exchange.stall();
        }
        flushed
    });
    flushed.await.map_err(Interrupted::from)
}

/// Sends the queue and then at most `bytes_max` bytes of decoded content, in memory of `share`.
/// Adds the bytes of content to `content_bytes`.
async fn send(
    (client, share): (&mut ClientConnection, &Arc<MemoryShare>),
    mut source: CodedSource<'_>,
    framing: BodyFraming,
    bytes_max: u64,
    content_bytes: &mut u64,
) -> Result<(), Interrupted> {
    if framing == BodyFraming::Empty {
        return client.flush().await.map_err(Interrupted::from);
    }
    let mut gunzip = Gunzip::new(bytes_max);
    let mut push = |client: &mut ClientConnection, plain: Bytes| {
        *content_bytes += plain.len() as u64;
        // An empty chunk would end the content.
        if !plain.is_empty() {
            client.push_content(framing, plain);
        }
    };
    loop {
        // Flushed before waiting for more, so that the client has everything decoded so far.
        flush(client, &mut source).await?;
        let Some(mut coded) = source.next().await? else { break };
        while !coded.is_empty() {
            push(client, gunzip.step(&mut coded)?);
            if !client.has_room(share) {
                flush(client, &mut source).await?;
                // A client on the same machine accepts everything at once, so this gives other
                // connections their turn.
                tokio::task::yield_now().await;
            }
        }
    }
    // Frees the origin before the client has all of the content.
    drop(source);
    push(client, gunzip.end()?);
    client.push_end(framing, None);
    client.flush().await.map_err(Interrupted::from)
}
