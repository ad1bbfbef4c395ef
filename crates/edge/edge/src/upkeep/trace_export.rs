//! The thread that sends spans to a collector of OpenTelemetry, by OTLP over HTTP.
//!
//! Invariants: one batch is on its way at a time, and each attempt, the number of attempts and the
//! pauses between them are limited. Meanwhile the queue fills up to its limit. Whatever the
//! collector does, requests do not wait for it, and the edge ends without it.

use crate::memory::trace_export::{SpanBatch, TraceExport};
use crate::shared::Shared;
use crate::upkeep::supervisor::{self, ThreadEnd};
use address::HttpUrl;
use bytes::{Bytes, BytesMut};
use config::TracePlan;
use h1::ExchangeError;
use h1::client::{Exchange, ResponseEvent, Terms};
use message::{Fields, Method, RequestHead, Version, names};
use net::Stream;
use request_log::otlp::{self, Resource};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use threads::JoinHandle;
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::Builder;
use tokio::time::Instant;

/// Longest time that spans wait for others that they are sent with.
const GATHERING: Duration = Duration::from_secs(1);

/// Size of the spans, in bytes, that are sent at once.
const BATCH_BYTES: usize = 256 * 1024;

/// How often the thread looks whether something is due.
const TICK: Duration = Duration::from_millis(50);

/// Longest time from the start of connecting to the last byte of the response.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);

/// As [`ATTEMPT_MAX`], for the last spans when the edge quits. It is shorter than the time in which
/// the shutdown waits for a thread.
const LAST_ATTEMPT_MAX: Duration = Duration::from_secs(1);

/// Largest number of attempts to send a batch.
const ATTEMPTS_MAX: u32 = 5;

/// Pause after the first failed attempt. It doubles each time.
const PAUSE: Duration = Duration::from_secs(1);

/// Longest pause that a collector can ask for.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Largest content of a response that is read, in bytes.
const CONTENT_BYTES_MAX: usize = 64 * 1024;

/// Buffer space for one read, in bytes.
const READ_BYTES: usize = 4096;

/// What became of an attempt.
enum Attempt {
    /// The collector has the batch, and rejected this many of its spans.
    Accepted { rejected: u64 },
    /// The collector will never accept the batch.
    Refused(String),
    /// Another attempt may succeed, after this pause if the collector asked for one.
    Failed(String, Option<Duration>),
}

/// Starts the thread, if the plan exports traces.
///
/// # Errors
/// If the system cannot create a thread.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Option<JoinHandle<()>>> {
    let Some((export, plan)) = shared.traces.clone().zip(shared.plan.traces.clone()) else { return Ok(None) };
    let shared = Arc::clone(shared);
    let thread = supervisor::start("petasos-traces", move || {
        if let Err(error) = run(Exporter::new(&shared, &export, &plan).work()) {
            tracing::error!("spans cannot be exported: {error}");
        }
        ThreadEnd::of(&shared.ending)
    });
    thread.map(Some)
}

/// Runs the thread's work in an event loop of its own. A simulation has one for all threads.
fn run(work: impl Future<Output = ()>) -> io::Result<()> {
    if threads::is_simulated() {
        // Without a limit, the work ends before this does.
        let _ = threads::wait_for(Duration::MAX, work);
        return Ok(());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work);
    // A resolver that hangs would otherwise hold up the end.
    runtime.shutdown_background();
    Ok(())
}

struct Exporter<'a> {
    shared: &'a Shared,
    export: &'a TraceExport,
    collector: HttpUrl,
    target: String,
    resource: Resource,
}

impl<'a> Exporter<'a> {
    fn new(shared: &'a Shared, export: &'a TraceExport, plan: &TracePlan) -> Self {
        let resource = Resource {
            service: plan.service.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instance: shared.instance().to_owned(),
            host: shared.system.host.clone(),
            pid: shared.system.pid,
        };
        let target = format!("{}{}", plan.collector.path().trim_end_matches('/'), otlp::TRACES_PATH);
        Self { shared, export, collector: plan.collector.clone(), target, resource }
    }

    /// Sends what is due, until the edge quits.
    async fn work(&self) {
        let mut sent_at = Instant::now();
        while !self.shared.is_quitting() {
            tokio::time::sleep(TICK).await;
            let waiting = self.export.waiting_bytes();
            if waiting >= BATCH_BYTES || waiting > 0 && sent_at.elapsed() >= GATHERING {
                sent_at = Instant::now();
                self.deliver(self.export.take()).await;
            }
        }
        let last = self.export.take();
        if last.spans > 0 {
            self.deliver(last).await;
        }
    }

    /// Sends a batch, again if that may help.
    async fn deliver(&self, batch: SpanBatch) {
        let SpanBatch { bytes, spans } = batch;
        let message = Bytes::from(otlp::export_message(&self.resource, &bytes));
        drop(bytes);
        let mut pause = PAUSE;
        for attempt in 1..=ATTEMPTS_MAX {
            let (why, asked) = match self.attempt(&message).await {
                Attempt::Accepted { rejected } => {
                    let rejected = rejected.min(spans);
                    self.export.count_exported(spans - rejected);
                    self.export.drop_spans(rejected);
                    return;
                }
                Attempt::Refused(why) => {
                    self.complain(&why);
                    break;
                }
                Attempt::Failed(why, asked) => (why, asked),
            };
            self.complain(&why);
            if attempt == ATTEMPTS_MAX || !self.rest(asked.unwrap_or(pause).min(PAUSE_MAX)).await {
                break;
            }
            pause *= 2;
        }
        self.export.drop_spans(spans);
    }

    fn complain(&self, why: &str) {
        self.export.count_failure();
        let text = format!("the collector of traces at {} did not take spans: {why}", self.collector);
        self.shared.complaints.tell(&text, self.shared.clock.monotonic());
    }

    /// Pauses. Returns false if the edge quits meanwhile.
    async fn rest(&self, pause: Duration) -> bool {
        let end = Instant::now() + pause;
        while Instant::now() < end && !self.shared.is_quitting() {
            tokio::time::sleep(TICK.min(end.saturating_duration_since(Instant::now()))).await;
        }
        !self.shared.is_quitting()
    }

    async fn attempt(&self, message: &Bytes) -> Attempt {
        let began = Instant::now();
        let timed = async {
            // A collector that hangs must not delay the end of the edge.
            loop {
                let limit = if self.shared.is_quitting() { LAST_ATTEMPT_MAX } else { ATTEMPT_MAX };
                if began.elapsed() >= limit {
                    return;
                }
                tokio::time::sleep(TICK).await;
            }
        };
        tokio::select! {
            biased;
            answered = self.post(message) => answered.unwrap_or_else(|error| Attempt::Failed(error, None)),
            () = timed => Attempt::Failed("it gave no complete response in time".to_owned(), None),
        }
    }

    /// Sends a message on a connection of its own.
    async fn post(&self, message: &Bytes) -> Result<Attempt, String> {
        let mut octets = BytesMut::new();
        h1::write_request_head(&mut octets, &self.head(message.len())).map_err(|error| error.to_string())?;
        let connected = self.shared.system.network.connect(&self.collector.address()).await;
        let mut stream = connected.map_err(|error| format!("no connection: {error}"))?;
        let broken = |error: io::Error| format!("the connection broke: {error}");
        stream.write_all(&octets).await.map_err(broken)?;
        stream.write_all(message).await.map_err(broken)?;
        stream.flush().await.map_err(broken)?;
        receive(stream).await
    }

    fn head(&self, content_bytes: usize) -> RequestHead {
        let mut fields = Fields::new();
        fields.push(names::HOST, self.collector.authority().to_owned());
        fields.push(names::CONNECTION, "close");
        fields.push(names::USER_AGENT, concat!("petasos/", env!("CARGO_PKG_VERSION")));
        fields.push(names::CONTENT_TYPE, otlp::MEDIA_TYPE);
        fields.push(names::CONTENT_LENGTH, content_bytes.to_string());
        let target = Bytes::copy_from_slice(self.target.as_bytes());
        RequestHead { method: Method::Post, target, version: Version::Http11, fields }
    }
}

/// Reads a response, and judges it as the protocol says.
async fn receive(mut stream: Stream) -> Result<Attempt, String> {
    let malformed = |error: ExchangeError| format!("its response cannot be read: {error}");
    let mut exchange = Exchange::new(&Method::Post, Terms::TOLERANT);
    let (mut input, mut head, mut content) = (BytesMut::new(), None, BytesMut::new());
    loop {
        match exchange.next(&mut input).map_err(malformed)? {
            Some(ResponseEvent::Informational(_)) => {}
            Some(ResponseEvent::Head(response)) => head = Some(response.head),
            Some(ResponseEvent::Data(octets)) => {
                if content.len() + octets.len() > CONTENT_BYTES_MAX {
                    return Err("its response is too large".to_owned());
                }
                content.extend_from_slice(&octets);
            }
            Some(ResponseEvent::End(_)) => break,
            None => {
                let read = net::read_more(&mut stream, &mut input, READ_BYTES).await;
                if read.map_err(|error| format!("the connection broke: {error}"))? == 0 {
                    exchange.close().map_err(malformed)?;
                    break;
                }
            }
        }
    }
    let head = head.ok_or_else(|| "it closed the connection".to_owned())?;
    let status = head.status.code();
    let why = format!("it answers with status {status}");
    Ok(match status {
        200..=299 => Attempt::Accepted { rejected: otlp::rejected_spans(&content) },
        // The only ones after which OTLP/HTTP permits another attempt.
        429 | 502 | 503 | 504 => Attempt::Failed(why, pause_of(&head.fields)),
        _ => Attempt::Refused(why),
    })
}

/// The pause that a response asks for, in seconds. A date is taken for no pause.
fn pause_of(fields: &Fields) -> Option<Duration> {
    let text = std::str::from_utf8(fields.first(names::RETRY_AFTER)?).ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}
