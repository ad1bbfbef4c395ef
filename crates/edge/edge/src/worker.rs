//! A worker: a thread with its own runtime and its own listening sockets, at least one for each
//! listener. It accepts connections and serves the requests of each in order.
//!
//! Invariants: no more connections than the limit are open. After the drain has begun, no new
//! connection is accepted and idle ones are closed. A worker ends only when no worker has a
//! connection left, because a fetch of one worker feeds clients of others.

use crate::accepted::{Prepared, prepare};
use crate::control::counters::Metric;
use crate::control::purge_access::Entrance;
use crate::control::purge_orders;
use crate::fetch::breaker;
use crate::http2::connection;
use crate::request::arrival::Arrival;
use crate::request::client::{ClientConnection, ReceiveOutcome};
use crate::request::pipeline;
use crate::request::refusal::Refusal;
use crate::request::respond::{self, Recipient};
use crate::request::tunnel::tunnel;
use crate::request::visit::AfterResponse;
use crate::shared::{ConnectionSlot, Shared};
use crate::upkeep::origin_checks;
use crate::upkeep::service_manager;
use crate::upkeep::supervisor::{self, ThreadEnd};
use h1::{HeadError, RequestError};
use message::{Method, Version};
use net::{Acceptor, Listener, Peer, Stream};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use threads::JoinHandle;
use tokio::task::JoinSet;

/// Pause after a connection could not be accepted for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How often a drain checks whether the last connection is closed.
const TICK: Duration = Duration::from_millis(20);

/// Time after the begin of a drain in which a handshake may end and its first request may begin.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// Time after a hand-over in which a handshake may end, and an idle connection with HTTP/1 may send
/// another request. The response says that it is the last one. Closing at once could meet a request
/// on its way, which the client would have to repeat.
const HAND_OVER_GRACE: Duration = Duration::from_secs(10);

/// A worker spends at most one part in this many of its time on returning memory.
const GIVING_BACK_PART: u32 = 100;

/// How often idle connections to origins are checked.
const SWEEP: Duration = Duration::from_secs(1);

/// The listening sockets of a worker, each with the number of its listener.
pub(crate) type WorkerSockets = Vec<(usize, Listener)>;

/// Starts the thread of a worker, which serves until the drain is over or the edge quits. `index`
/// is the worker's number.
///
/// The thread is restarted with its sockets, because clients that connect to them have no other
/// worker. Connections of the worker are lost with its runtime.
///
/// # Errors
/// If the system cannot create a thread.
pub(crate) fn start(shared: Arc<Shared>, index: usize, sockets: WorkerSockets) -> io::Result<JoinHandle<()>> {
    let mut sockets = Some(sockets);
    supervisor::start(&format!("petasos-worker-{index}"), move || {
        if let Err(error) = run(&shared, index, &mut sockets) {
            tracing::error!("worker {index} cannot serve: {error}");
        }
        if shared.is_draining() { ThreadEnd::Due } else { ThreadEnd::Early }
    })
}

/// Serves until the drain is over or the edge quits. The drain closes the sockets, which are then
/// `None`.
fn run(shared: &Arc<Shared>, index: usize, sockets: &mut Option<WorkerSockets>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let Some(listeners) = sockets.as_ref() else { return Ok(()) };
        let acceptor = |(number, socket): &(usize, Listener)| Ok((*number, socket.acceptor()?));
        let acceptors: io::Result<Vec<_>> = listeners.iter().map(acceptor).collect();
        if index == 0 {
            supervisor::start_task("origins", shared, sweep);
        }
        supervisor::start_task("give-memory-back", shared, give_memory_back);
        supervisor::start_task("beat", shared, move |shared| service_manager::beat(shared, index));
        accept_everywhere(shared, index, acceptors?).await?;
        *sockets = None;
        while shared.connections() > 0 && !shared.is_quitting() {
            tokio::time::sleep(TICK).await;
        }
        Ok(())
    });
    // Remaining connections end here. Their blocking threads are not waited for.
    runtime.shutdown_background();
    served
}

/// Returns free memory of this thread to the system when memory is short. Blocks the worker's
/// connections meanwhile, so the pause after it grows with its duration.
async fn give_memory_back(shared: Arc<Shared>) {
    loop {
        shared.memory_short.notified().await;
        let began = shared.clock.monotonic();
        allocator::collect();
        tokio::time::sleep(GIVING_BACK_PART * shared.clock.monotonic().since(began)).await;
    }
}

/// Accepts connections at all sockets until the drain begins. Each has the number of its listener
/// in the plan.
///
/// # Errors
/// If an accepting task panicked.
async fn accept_everywhere(
    shared: &Arc<Shared>,
    index: usize,
    acceptors: Vec<(usize, Acceptor)>,
) -> io::Result<()> {
    let mut tasks = JoinSet::new();
    for (number, acceptor) in acceptors {
        let shared = Arc::clone(shared);
        tasks.spawn(async move {
            accept(&shared, (index, number), &acceptor).await;
            if !shared.is_handed_over() {
                accept_waiting(&shared, (index, number), &acceptor).await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(io::Error::other)?;
    }
    Ok(())
}

/// Accepts the connections of one listener until the drain begins. `place` is the number of the
/// worker and that of the listener.
async fn accept(shared: &Arc<Shared>, place: (usize, usize), acceptor: &Acceptor) {
    let mut drained = std::pin::pin!(shared.drained());
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut drained => return,
            accepted = acceptor.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => take(shared, place, stream, peer),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Accepts the connections in the socket's backlog, which closing the socket would reset. Another
/// process that has the socket would accept them itself.
async fn accept_waiting(shared: &Arc<Shared>, place: (usize, usize), acceptor: &Acceptor) {
    loop {
        tokio::select! {
            biased;
            Ok((stream, peer)) = acceptor.accept() => take(shared, place, stream, peer),
            () = std::future::ready(()) => return,
        }
    }
}

/// Serves a connection to a listener in a task, if the limits allow it. `index` is the worker's
/// number, `listener` that of the listener.
pub(crate) fn take(shared: &Arc<Shared>, (index, listener): (usize, usize), stream: Stream, peer: Peer) {
    let shared = &shared.current();
    let cells = shared.cells(index);
    // The address of a proxy does not count: it holds the connections of all its clients.
    let expects_header =
        shared.plan.listeners.get(listener).is_some_and(|listener| listener.expects_header(peer.ip()));
    match shared.take_slot(if expects_header { Peer::Unknown } else { peer }) {
        Ok(slot) => {
            cells.count(Metric::ConnectionsAccepted);
            let arrival = Arrival { listener, ..Arrival::from(peer) };
            tokio::spawn(converse(Arc::clone(shared), index, stream, arrival, slot));
        }
        Err(refusal) => cells.count(refusal.metric()),
    }
}

/// Serves one connection to its end.
async fn converse(shared: Arc<Shared>, index: usize, stream: Stream, arrival: Arrival, slot: ConnectionSlot) {
    let mut slot = slot;
    // A connection still silent when the drain begins would hold it up.
    let prepared = tokio::select! {
        biased;
        prepared = prepare(&shared, index, stream, arrival, &mut slot) => prepared,
        () = idle_for(&shared, DRAIN_GRACE) => None,
    };
    if let Some(prepared) = prepared {
        serve_client(&shared, index, prepared).await;
    }
    drop(slot);
}

/// Serves the requests of a connection whose protocol is known.
async fn serve_client(shared: &Arc<Shared>, index: usize, prepared: Prepared) {
    let Prepared { stream, early, arrival, is_http2 } = prepared;
    if is_http2 {
        let mut stop = Box::pin(shared.drained());
        return Box::pin(connection::serve(shared, index, (stream, early), arrival, stop.as_mut())).await;
    }
    let client = ClientConnection::begun(stream, early, arrival, Arc::clone(&shared.limits));
    // Boxed, so that a handshake needs no memory for it.
    Box::pin(serve_requests(shared, index, client)).await;
}

/// Ready when a handshake or an idle connection with HTTP/1 is to be ended: `grace` after the drain
/// has begun, or later after a hand-over.
fn idle_for(shared: &Shared, grace: Duration) -> impl Future<Output = ()> + Send + use<> {
    let (drained, state) = (shared.drained(), Arc::clone(shared.state()));
    async move {
        drained.await;
        let grace = if state.ending.is_handed_over() { HAND_OVER_GRACE } else { grace };
        if !grace.is_zero() {
            tokio::time::sleep(grace).await;
        }
    }
}

async fn serve_requests(shared: &Arc<Shared>, index: usize, mut client: ClientConnection) {
    let mut shared = Arc::clone(shared);
    // The first request of a client with TLS follows its handshake, so it may be on its way when
    // the drain begins.
    let grace = if client.arrival().is_secured { DRAIN_GRACE } else { Duration::ZERO };
    let mut stop = Box::pin(idle_for(&shared, grace));
    let state = Arc::clone(shared.state());
    let cells = state.cells(index);
    loop {
        let request = match client.receive(stop.as_mut()).await {
            ReceiveOutcome::Request(request) => request,
            ReceiveOutcome::Malformed(error) if goes_on(&shared, Entrance::Visitors, &mut client, error) => {
                continue;
            }
            // The last steps are boxed, so that a connection needs no memory for them until then.
            ReceiveOutcome::Malformed(error) => {
                cells.count(Metric::RequestsMalformed);
                return Box::pin(refuse(&shared, index, client, &Refusal::malformed(error))).await;
            }
            ReceiveOutcome::TimedOut => {
                cells.count(Metric::VisitorTimeouts);
                let refusal = Refusal::head_timed_out();
                return Box::pin(async {
                    shared.closing_turns.take(index).await;
                    refuse(&shared, index, client, &refusal).await;
                })
                .await;
            }
            ReceiveOutcome::Idle => {
                return Box::pin(async {
                    shared.closing_turns.take(index).await;
                    client.close().await;
                })
                .await;
            }
            ReceiveOutcome::Closed => return,
        };
        if !grace.is_zero() {
            stop.set(idle_for(&shared, Duration::ZERO));
        }
        if !shared.is_current() {
            shared = shared.current();
            client.change_limits(Arc::clone(&shared.limits));
        }
        match Box::pin(pipeline::run(&shared, index, &mut client, &request)).await {
            // A client that pipelines hits without pause never yields by itself, so this gives
            // other connections their turn.
            AfterResponse::Keep => tokio::task::coop::consume_budget().await,
            AfterResponse::Close => return Box::pin(client.close()).await,
            AfterResponse::Gone => return,
            AfterResponse::Linger => return Box::pin(client.linger()).await,
            AfterResponse::Tunnel(stream, early) => {
                let idle_timeout = shared.limits.tunnel_idle_timeout;
                let tunnel = tunnel(client.into_tunnel(), (stream, early), idle_timeout);
                // Both sides learn of the end when their connections close.
                let _ = Box::pin(shared.until_streams_end(cells, tunnel)).await;
                return;
            }
        }
    }
}

/// Whether a head beyond the usual limit may be read further, as a purge order.
pub(crate) fn goes_on(
    shared: &Shared,
    entrance: Entrance,
    client: &mut ClientConnection,
    error: RequestError,
) -> bool {
    matches!(error, RequestError::Head(HeadError::TooLarge))
        && purge_orders::admits_longer_head(shared, entrance, client.peer(), client.begun_head())
        && client.lengthen_head()
}

/// Answers bytes that are no request, and closes. Without a request there is nothing to log.
pub(crate) async fn refuse(shared: &Shared, index: usize, mut client: ClientConnection, refusal: &Refusal) {
    let recipient = Recipient::new(&Method::Get, Version::Http11, false);
    let (written, page) = respond::write_refusal(refusal, shared.clock.now(), recipient);
    client.push_head(&written);
    client.push(page);
    let flushed = client.flush().await;
    let cells = shared.cells(index);
    shared.sites.measures().no_site().count(index, refusal.reason);
    let (received, sent) = client.take_octet_counts();
    cells.add(Metric::BytesReceived, received);
    cells.add(Metric::BytesSent, sent);
    if flushed.is_ok() {
        client.linger().await;
    }
}

/// Closes connections to origins and files that were idle for too long, checks origins, and logs
/// the changes of their breakers.
pub(crate) async fn sweep(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let shared = shared.current();
        shared.sites.iter().flat_map(|site| site.origin.origins()).for_each(|origin| origin.sweep());
        origin_checks::start_due(&shared);
        let now = shared.clock.monotonic();
        shared.sites.directories().for_each(|directory| directory.files.sweep(now));
        breaker::log_changes(&shared);
    }
}
