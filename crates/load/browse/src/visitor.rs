//! A visitor: cookies, a cache, and the connections of one page load.
//!
//! Invariant: a visitor has at most as many exchanges with one host at a time as the plan allows.
//! Over HTTP/2 it has any number, on one connection. A page load begins without connections, even
//! if those of an earlier one still linger. If a used connection ends before a response, the
//! request is sent again on another one, as browsers do.

use crate::connection::{ContentBuffer, Http1Connection, NoAnswer, ResourceResponse};
use crate::http2::Http2Connection;
use crate::lingering::Idle;
use crate::plan::PagePlan;
use crate::worker::BrowseWorker;
use message::RequestHead;
use page::{Jar, PrivateCache};
use record::FetchFailure;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use tokio::sync::{Mutex, Semaphore};
use url::Url;

/// The state that a visitor keeps between visits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visitor {
    pub(crate) jar: Jar,
    pub(crate) cache: PrivateCache,
    /// Whether the page's icon was requested before.
    pub(crate) has_icon: bool,
    /// Whether the page's document has arrived before.
    pub(crate) has_visited: bool,
}

/// The connections of one page load.
pub(crate) struct Connections {
    hosts: RefCell<HashMap<UrlOrigin, Rc<HostConnections>>>,
    per_host_max: usize,
    /// Whether the page load belongs to the measured part.
    pub(crate) is_measured: bool,
}

/// Scheme, host and port.
type UrlOrigin = (String, String, u16);

struct HostConnections {
    permits: Semaphore,
    idle: RefCell<Vec<Http1Connection>>,
    /// The single HTTP/2 connection. The lock is held while it is established, so that other
    /// requests wait for it.
    shared: Mutex<Option<Rc<Http2Connection>>>,
}

impl HostConnections {
    /// Takes an idle connection that can carry another request. Closes those that cannot.
    fn quiet(&self) -> Option<Http1Connection> {
        let mut idle = self.idle.borrow_mut();
        while let Some(mut connection) = idle.pop() {
            if connection.is_quiet() {
                return Some(connection);
            }
        }
        None
    }
}

impl Connections {
    pub(crate) fn new(plan: &PagePlan, is_measured: bool) -> Self {
        Self { hosts: RefCell::default(), per_host_max: plan.connections_per_host_max, is_measured }
    }

    /// Sends a request as soon as a connection to the host is free, and reads the response into a
    /// copy of `content`. Stores the time when the connection was free in `began`, in nanoseconds.
    pub(crate) async fn exchange(
        &self,
        worker: &BrowseWorker,
        url: &Url,
        request: &RequestHead,
        content: &ContentBuffer,
        began: &Cell<u64>,
    ) -> Result<ResourceResponse, FetchFailure> {
        let host = self.host(url);
        if worker.shared.plan.is_http2 {
            began.set(worker.shared.clock.monotonic().as_nanos());
            let whole = self.attempt_http2(worker, &host, url, request, content);
            let whole = tokio::time::timeout(worker.shared.plan.timeout, whole).await;
            return whole.unwrap_or(Err(FetchFailure::Timeout));
        }
        let _permit = host.permits.acquire().await.map_err(|_| FetchFailure::Closed)?;
        began.set(worker.shared.clock.monotonic().as_nanos());
        let whole = self.attempt(worker, &host, url, request, content);
        tokio::time::timeout(worker.shared.plan.timeout, whole).await.unwrap_or(Err(FetchFailure::Timeout))
    }

    async fn attempt(
        &self,
        worker: &BrowseWorker,
        host: &HostConnections,
        url: &Url,
        request: &RequestHead,
        content: &ContentBuffer,
    ) -> Result<ResourceResponse, FetchFailure> {
        loop {
            let mut connection = match host.quiet() {
                Some(connection) => connection,
                None => Http1Connection::new(worker.connect(url, self.is_measured).await?),
            };
            let was_used = connection.is_used;
            match connection.exchange(request, content.clone(), &*worker.shared.clock).await {
                Ok(answer) => {
                    if answer.is_persistent {
                        host.idle.borrow_mut().push(connection);
                    }
                    return Ok(answer);
                }
                // The connection ended while it was idle, so the request is sent again on another
                // one.
                Err(no_answer) if no_answer.is_silent && was_used => {}
                Err(no_answer) => return Err(no_answer.failure),
            }
        }
    }

    /// Sends a request on the host's single HTTP/2 connection. Establishes the connection if there
    /// is none.
    async fn attempt_http2(
        &self,
        worker: &BrowseWorker,
        host: &HostConnections,
        url: &Url,
        request: &RequestHead,
        content: &ContentBuffer,
    ) -> Result<ResourceResponse, FetchFailure> {
        loop {
            let mut shared = host.shared.lock().await;
            let standing = shared.as_ref().filter(|connection| !connection.is_over()).map(Rc::clone);
            let connection = match standing {
                Some(connection) => connection,
                None => {
                    let wire = worker.connect(url, self.is_measured).await?;
                    let connection = Rc::new(Http2Connection::open(wire).await?);
                    *shared = Some(Rc::clone(&connection));
                    connection
                }
            };
            drop(shared);
            let was_used = connection.is_used();
            match connection.exchange(url, request, content.clone(), &*worker.shared.clock).await {
                Ok(answer) => return Ok(answer),
                // The server has not processed the request, so it is sent again on a new
                // connection.
                Err(NoAnswer { is_silent: true, .. }) if was_used => connection.leave(),
                Err(no_answer) => return Err(no_answer.failure),
            }
        }
    }

    /// The connections that are open and idle after the page load.
    pub(crate) fn idle(self) -> impl Iterator<Item = Idle> {
        let hosts = self.hosts.into_inner().into_values().filter_map(Rc::into_inner);
        hosts.flat_map(|host| {
            let shared = host.shared.into_inner().and_then(Rc::into_inner).filter(|one| !one.is_over());
            host.idle.into_inner().into_iter().map(Idle::Http1).chain(shared.map(Idle::Http2))
        })
    }

    fn host(&self, url: &Url) -> Rc<HostConnections> {
        let port = url.port_or_known_default().unwrap_or_default();
        let origin = (url.scheme().to_owned(), url.host_str().unwrap_or_default().to_owned(), port);
        let make = || {
            let permits = Semaphore::new(self.per_host_max);
            Rc::new(HostConnections { permits, idle: RefCell::default(), shared: Mutex::default() })
        };
        Rc::clone(self.hosts.borrow_mut().entry(origin).or_insert_with(make))
    }
}
