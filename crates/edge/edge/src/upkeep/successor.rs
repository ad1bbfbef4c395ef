//! The old process of an upgrade: hands its sockets and its disk directory to the new one.
//!
//! Invariant: until the new process serves, this one serves, and a new process that ends or fails
//! before that costs at most the disk tier. From then on this one answers no request from its
//! store.

use crate::memory::succession::Links;
use crate::shared::{Shared, SuccessorStart};
use crate::upkeep::handover::{Call, PATIENCE, Reply, VERSION, pass_on, receive, send};
use crate::upkeep::service_manager;
use net::{Listener, MessageChannel, MessageListener};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Interval between attempts to bind the name, which the predecessor may still hold.
const NAME_EVERY: Duration = Duration::from_millis(50);

/// Total time of these attempts.
const NAME_WAIT: Duration = Duration::from_secs(5);

/// Pause after a new process could not be accepted for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Waits for new processes under `name` until the drain, and hands `sockets` to one.
pub(crate) async fn serve(shared: Arc<Shared>, name: Arc<str>, sockets: Arc<Vec<Listener>>) {
    tokio::select! {
        biased;
        () = shared.drained() => {}
        () = attend_all(&shared, &name, &sockets) => shared.drained().await,
    }
}

/// Starts a process that takes over, and reports if it ends before that. A process that has handed
/// over starts none: the signal was for its successor, and service managers send it to both.
pub(crate) fn start(shared: &Arc<Shared>, start_process: &SuccessorStart) {
    if shared.is_handed_over() {
        tracing::info!("SIGUSR2: another process has taken over already");
        return;
    }
    let mut child = match start_process() {
        Ok(child) => child,
        Err(error) => {
            tracing::error!("SIGUSR2: cannot start a process that takes over: {error}");
            return;
        }
    };
    let process = child.id();
    tracing::info!("SIGUSR2: process {process} was started to take over");
    // A weak reference, because the child may live longer than this process.
    let own = Arc::downgrade(shared);
    let waiting = threads::spawn("petasos-upgrade", move || {
        let ended = child.wait();
        if let (Ok(status), Some(false)) = (ended, own.upgrade().map(|own| own.is_handed_over())) {
            tracing::error!("process {process} ended before it took over: {status}");
        }
    });
    if let Err(error) = waiting {
        tracing::warn!("cannot watch process {process}, which was started to take over: {error}");
    }
}

async fn attend_all(shared: &Arc<Shared>, name: &str, sockets: &Arc<Vec<Listener>>) {
    let listener = match listen(name).await {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(
                "a later `petasos serve --upgrade` will not find this process, because its upgrade socket cannot be \
                 opened: {error}"
            );
            return;
        }
    };
    while !shared.is_handed_over() {
        let Ok(channel) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (own, sockets) = (Arc::clone(shared), Arc::clone(sockets));
        // A second process waits here for the end of the first, because there is one directory.
        let _ = threads::run_aside(move || attend(&own, sockets, &channel)).await;
    }
}

async fn listen(name: &str) -> io::Result<MessageListener> {
    let tries = NAME_WAIT.as_millis() / NAME_EVERY.as_millis();
    for _ in 1..tries {
        match MessageListener::bind(name) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => tokio::time::sleep(NAME_EVERY).await,
            other => return other,
        }
    }
    MessageListener::bind(name)
}

/// Serves one new process to its end or to the hand-over. Blocks.
pub(crate) fn attend(shared: &Arc<Shared>, sockets: Arc<Vec<Listener>>, channel: &MessageChannel) {
    let process = channel.peer_process().unwrap_or_default();
    let outcome = hand_over(shared, sockets, (channel, process));
    if shared.is_handed_over() {
        return;
    }
    let was_released = shared.persistence.is_released();
    if was_released {
        shared.persistence.abandon_succession();
    }
    let why = outcome.map_or_else(|error| error.to_string(), |()| "it ended".to_owned());
    match was_released && shared.plan.disk.is_some() {
        true => tracing::error!(
            "process {process} did not take over: {why}; this one goes on without the disk cache until \
             another attempt or a restart"
        ),
        false => tracing::warn!("process {process} did not take over: {why}"),
    }
}

fn hand_over(
    shared: &Arc<Shared>,
    sockets: Arc<Vec<Listener>>,
    (channel, process): (&MessageChannel, u32),
) -> io::Result<()> {
    channel.limit_time(PATIENCE)?;
    let refuse = |why: &str| {
        send(channel, &Reply::Refused { why: why.to_owned() }, None)?;
        Err(io::Error::other(why.to_owned()))
    };
    match receive(channel)? {
        Some((Call::Hello { version: VERSION }, _)) => {}
        Some((Call::Hello { .. }, _)) => {
            return refuse("the new process speaks another version of the upgrade protocol; restart instead");
        }
        Some(_) => return Err(io::ErrorKind::InvalidData.into()),
        None => return Ok(()),
    }
    if shared.is_draining() {
        return refuse("the old process is already shutting down");
    }
    let (durability, of_durability) = channel.pair_to_pass_on()?;
    let (invalidations, of_invalidations) = channel.pair_to_pass_on()?;
    durability.limit_time(PATIENCE)?;
    invalidations.limit_time(PATIENCE)?;
    for socket in sockets.iter() {
        send(channel, &Reply::Socket, Some(socket.as_fd()))?;
    }
    pass_on(channel, &Reply::Durability, of_durability)?;
    pass_on(channel, &Reply::Link, of_invalidations)?;
    // This thread can outlast the start of a drain, and its copies would keep the listeners open.
    drop(sockets);
    tracing::info!("process {process} prepares to take over");
    let mut links = Some(Links { invalidations, durability });
    while let Some((call, _)) = receive(channel)? {
        match call {
            Call::Release => {
                let Some(links) = links.take() else { return Err(io::ErrorKind::InvalidData.into()) };
                if !release(shared, links) {
                    return refuse("the disk of the old process does not answer");
                }
                send(channel, &Reply::Released, None)?;
            }
            Call::TakeOver => {
                if links.is_some() || shared.persistence.commit_succession().is_err() {
                    return refuse("the new process does not know all purges");
                }
                shared.ending.hand_over();
                tracing::info!("process {process} serves from now on; this one ends with its connections");
                service_manager::main_process(process);
                return send(channel, &Reply::TakenOver, None);
            }
            Call::Hello { .. } => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Ok(())
}

/// Closes the directories that the new process needs, after which it learns of each invalidation.
/// Returns false if the disk hangs.
fn release(shared: &Arc<Shared>, links: Links) -> bool {
    let current = shared.current();
    // Held, so that no thread writes the file into the other process's directory.
    let _writing = shared.detections_file.lock();
    let is_released = shared.persistence.release(&shared.store, &current.sites, links);
    if is_released {
        shared.static_tree.give_up();
    }
    is_released
}
