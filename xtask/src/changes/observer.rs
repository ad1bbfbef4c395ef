//! Clients that compare each page with the last purge of it, and the client that purges.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use testkit::{Client, Http2Client, Response, Trust};

/// The number of pages.
pub(super) const PAGES: usize = 8;

/// Pause between two purges, and between two requests of an observer.
const PURGE_PAUSE: Duration = Duration::from_millis(20);
const LOOK_PAUSE: Duration = Duration::from_millis(2);

/// How a client reaches the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Tls,
    Http2,
}

impl Protocol {
    pub(super) const ALL: [Self; 3] = [Self::Http1, Self::Tls, Self::Http2];
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http1 => "HTTP/1.1",
            Self::Tls => "HTTP/1.1 over TLS",
            Self::Http2 => "HTTP/2",
        })
    }
}

/// Counts over all clients.
#[derive(Debug, Default)]
pub(super) struct Observations {
    is_over: AtomicBool,
    good: AtomicU64,
    /// Requests without a complete response with status 200.
    failed: AtomicU64,
    /// Requests that the server has not processed, by the rules of HTTP/2. A browser sends them
    /// again.
    refused: AtomicU64,
    /// Pages older than an answered purge.
    stale: AtomicU64,
    purges: AtomicU64,
    /// Purges with another answer than 200.
    purges_failed: AtomicU64,
}

impl Observations {
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Prints the counts, and returns the number of failures.
    pub(super) fn print(&self) -> u64 {
        let of = |count: &AtomicU64| count.load(Ordering::SeqCst);
        println!(
            "observers: {} good, {} failed, {} not processed, {} stale; purges: {}, {} failed",
            of(&self.good),
            of(&self.failed),
            of(&self.refused),
            of(&self.stale),
            of(&self.purges),
            of(&self.purges_failed)
        );
        let nothing = u64::from(of(&self.good) == 0) + u64::from(of(&self.purges) == 0);
        of(&self.failed) + of(&self.stale) + of(&self.purges_failed) + nothing
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::SeqCst);
}

/// A client of one protocol.
pub(super) struct Observer {
    pub(super) protocol: Protocol,
    pub(super) address: SocketAddr,
    pub(super) trust: Trust,
    pub(super) floors: Arc<[AtomicU64; PAGES]>,
}

/// A connection of an observer.
enum Connection {
    Http1(Client),
    Http2(Box<Http2Client>),
}

/// How a request ended.
enum Outcome {
    Answered(Response),
    /// The server said that it did not process the request.
    NotProcessed,
    Broken,
}

impl Observer {
    /// Requests pages until the end.
    pub(super) fn look(&self, seen: &Observations) {
        let mut connection = None;
        let mut page = 0;
        while !seen.is_over() {
            thread::sleep(LOOK_PAUSE);
            let Some(mut open) = connection.take().or_else(|| self.connect()) else {
                count(&seen.failed);
                continue;
            };
            page = (page + 1) % PAGES;
            // Read before the request: a purge answered later may miss it.
            let floor = self.floors.get(page).map_or(0, |floor| floor.load(Ordering::SeqCst));
            match open.get(page) {
                Outcome::Answered(answer) if answer.status == 200 && answer.complete => {
                    count(match answer.text().parse::<u64>() {
                        Ok(version) if version < floor => &seen.stale,
                        Ok(_) => &seen.good,
                        Err(_) => &seen.failed,
                    });
                    if answer.field("Connection") != Some("close") {
                        connection = Some(open);
                    }
                }
                Outcome::NotProcessed => count(&seen.refused),
                Outcome::Answered(_) | Outcome::Broken => count(&seen.failed),
            }
        }
    }

    fn connect(&self) -> Option<Connection> {
        match self.protocol {
            Protocol::Http1 => Client::try_connect(self.address).map(Connection::Http1),
            Protocol::Tls => {
                Client::secured(self.address, "localhost", &self.trust).ok().map(Connection::Http1)
            }
            Protocol::Http2 => {
                let client = Http2Client::secured(self.address, "localhost", &self.trust).ok()?;
                Some(Connection::Http2(Box::new(client)))
            }
        }
    }
}

impl Connection {
    fn get(&mut self, page: usize) -> Outcome {
        match self {
            Self::Http1(client) => {
                let answer = client.try_ask(format!("GET /{page} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
                answer.map_or(Outcome::Broken, Outcome::Answered)
            }
            Self::Http2(client) => {
                let request = client.request("GET", &format!("/{page}"), &[]);
                // RFC 9113 section 6.8: after GOAWAY, the server has not processed a stream that it
                // does not accept, nor one that the client could not begin.
                let Ok(stream) = client.begin(request, true) else { return Outcome::NotProcessed };
                match client.try_read(stream) {
                    Ok(answer) => Outcome::Answered(answer),
                    Err(error) if error.is_go_away() && error.is_remote() => Outcome::NotProcessed,
                    Err(_) => Outcome::Broken,
                }
            }
        }
    }
}

/// A client that changes pages at the origin and purges them.
pub(super) struct Purger {
    pub(super) address: SocketAddr,
    pub(super) versions: Arc<[AtomicU64; PAGES]>,
    pub(super) floors: Arc<[AtomicU64; PAGES]>,
}

impl Purger {
    /// Purges pages until the end, over connections that are kept while they can be.
    pub(super) fn purge(&self, seen: &Observations) {
        let mut connection: Option<Client> = None;
        let mut page = 0;
        while !seen.is_over() {
            thread::sleep(PURGE_PAUSE);
            page = (page + 1) % PAGES;
            let (Some(version), Some(floor)) = (self.versions.get(page), self.floors.get(page)) else {
                return;
            };
            let wanted = version.fetch_add(1, Ordering::SeqCst) + 1;
            let Some(mut client) = connection.take().or_else(|| Client::try_connect(self.address)) else {
                count(&seen.purges_failed);
                continue;
            };
            let order = format!("PURGE /{page} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            count(&seen.purges);
            match client.try_ask(order) {
                Some(answer) if answer.status == 200 => {
                    floor.store(wanted, Ordering::SeqCst);
                    if answer.field("Connection") != Some("close") {
                        connection = Some(client);
                    }
                }
                Some(_) | None => count(&seen.purges_failed),
            }
        }
    }
}
