//! The server, built like a web server with a pool of script processes. One front thread reads
//! requests, a fixed number of workers make pages, and one thread serves assets and the operator's
//! pages.

mod admin;
mod connection;
mod front;
mod queue;

use crate::answer::Answer;
use crate::script::context::Shared;
use crate::scripts::Scripts;
use crate::switches::SharedSwitches;
use crate::worker::{self, Worker};
use crate::{assets, limits};
use admin::Admin;
use clock::Clock;
use connection::{Connection, Delivery, Incoming};
use front::Front;
use mio::{Poll, Waker};
use queue::Queue;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// A complete request with its connection.
struct Job {
    connection: Connection,
    incoming: Incoming,
}

/// The state that all threads of the server share.
struct Link {
    shared: Arc<Shared>,
    stopping: AtomicBool,
    waker: Waker,
    /// Number of open connections, in all threads and queues.
    open: AtomicUsize,
    /// Connections that stay open after their response, on their way back to the front.
    returned: Mutex<Vec<Connection>>,
}

impl Link {
    fn clock(&self) -> &dyn Clock {
        self.shared.clock.as_ref()
    }

    /// Sends a response. Then closes the connection, or returns it to the front.
    fn finish(&self, mut connection: Connection, answer: &Answer, how: Delivery) {
        if self.send(&mut connection, answer, how) {
            self.returned.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            // If waking fails, the front's next sweep finds the connection.
            let _ = self.waker.wake();
        } else {
            self.closed(connection);
        }
    }

    /// Sends a response. Returns false if the connection must be closed.
    fn send(&self, connection: &mut Connection, answer: &Answer, how: Delivery) -> bool {
        let mut answer = answer.clone();
        worker::complete(&mut answer.fields, self.clock().now());
        connection.send(&answer, how, self.clock())
    }

    /// Closes a connection.
    fn closed(&self, connection: Connection) {
        drop(connection);
        let before = self.open.fetch_sub(1, Ordering::SeqCst);
        if before >= limits::CONNECTIONS_MAX {
            // The front may have stopped accepting at the limit.
            let _ = self.waker.wake();
        }
    }

    fn take_returned(&self) -> Vec<Connection> {
        std::mem::take(&mut *self.returned.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The components of a server.
pub(crate) struct Parts {
    pub(crate) listener: TcpListener,
    pub(crate) shared: Arc<Shared>,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) switches: Arc<SharedSwitches>,
    /// One database connection for each worker.
    pub(crate) workers: Vec<rusqlite::Connection>,
    /// The database connection for the operator's pages.
    pub(crate) admin: rusqlite::Connection,
}

/// A running server. Dropping it does not stop it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    link: Arc<Link>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts all threads. Connections are accepted once it returns.
    ///
    /// # Errors
    /// The errors of the system.
    pub(crate) fn start(parts: Parts) -> io::Result<Self> {
        parts.listener.set_nonblocking(true)?;
        let address = parts.listener.local_addr()?;
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), front::WAKER)?;
        let link = Arc::new(Link {
            shared: Arc::clone(&parts.shared),
            stopping: AtomicBool::new(false),
            waker,
            open: AtomicUsize::new(0),
            returned: Mutex::new(Vec::new()),
        });
        let pages = Arc::new(Queue::new(limits::QUEUE_MAX));
        let aside = Arc::new(Queue::new(limits::QUEUE_MAX));
        let listener = mio::net::TcpListener::from_std(parts.listener);
        let front = Front::new(poll, listener, Arc::clone(&link), Arc::clone(&pages), Arc::clone(&aside))?;
        let admin = Admin {
            shared: Arc::clone(&parts.shared),
            scripts: Arc::clone(&parts.scripts),
            switches: Arc::clone(&parts.switches),
            connection: parts.admin,
            workers: parts.workers.len(),
        };
        let mut threads = vec![
            spawn("front", move || front.run())?,
            spawn("aside", {
                let link = Arc::clone(&link);
                move || serve(&link, &aside, |visit| answer_aside(&admin, visit))
            })?,
        ];
        for connection in parts.workers {
            let (link, pages) = (Arc::clone(&link), Arc::clone(&pages));
            let worker = Worker::new(Arc::clone(&parts.shared), Arc::clone(&parts.scripts), connection);
            let switches = Arc::clone(&parts.switches);
            threads.push(spawn("worker", move || {
                serve(&link, &pages, |visit| worker.answer(visit, switches.load()));
            })?);
        }
        Ok(Self { address, link, threads })
    }

    /// Stops accepting connections, answers the complete requests, and waits for all threads.
    pub(crate) fn stop(self) {
        self.link.stopping.store(true, Ordering::SeqCst);
        // If waking fails, the front sees the flag at its next sweep.
        let _ = self.link.waker.wake();
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Answers the requests of a queue until it is closed.
fn serve(link: &Link, queue: &Queue<Job>, answer: impl Fn(&crate::visit::Visit) -> Answer) {
    while let Some(job) = queue.pop() {
        let visit = &job.incoming.visit;
        let response = answer(visit);
        let persistent = job.incoming.persistent && !link.stopping.load(Ordering::SeqCst);
        let how = Delivery {
            version: visit.head.version,
            persistent,
            head_only: visit.is_head(),
            patience: limits::SEND_TIMEOUT,
        };
        link.finish(job.connection, &response, how);
    }
}

fn answer_aside(admin: &Admin, visit: &crate::visit::Visit) -> Answer {
    if visit.path().starts_with(b"/_") { admin.answer(visit) } else { assets::answer(visit) }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(format!("site-{name}")).spawn(run)
}
