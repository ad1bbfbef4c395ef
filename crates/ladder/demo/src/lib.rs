//! "Mission Bicycles": a small content management system with a catalogue, made to be accelerated.
//!
//! Like PHP, it reads and compiles its few dozen script files at the start of every request. Its
//! content is in SQLite. So the layers that a site can add are real and can be switched at run
//! time: page cache, opcode cache, aggressive page cache, object cache. A page costs the work that
//! it takes; no delay is simulated. The content is synthetic and generated from a fixed seed.
//!
//! ```text
//! front thread --complete request--> queue --> workers: core scripts -> [page?]
//!      ^                               |                  -> modules -> [page?] -> page
//!      +------ open connection --------+--> thread aside: /assets, /_status, /_switch, /_flush
//! ```
//!
//! Invariants:
//!
//! - A page made for one visitor is never cached for another.
//! - Nothing made from data older than a write is cached after the write.
//! - Input from visitors reaches HTML only escaped, and SQL only as a bound parameter.
//!
//! Three accounts can log in: `editor` (password `two-wheels`), `alice` (`bell-and-lamp`) and
//! `bruno` (`chain-and-oil`). These passwords are public. A site that others can reach needs
//! different ones.
//!
//! This crate is not a framework. It serves only this site, over HTTP/1, for demonstration and
//! measurement.

mod answer;
mod assets;
mod cache;
mod content;
mod counters;
mod database;
mod limits;
mod process;
mod script;
mod scripts;
mod secret;
mod server;
mod switches;
mod text;
mod visit;
mod worker;

use clock::Clock;
use counters::Counters;
use script::context::Shared;
use scripts::Scripts;
use server::{Parts, Server};
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use switches::SharedSwitches;

pub use process::run;
pub use switches::{SwitchError, Switches};

/// The settings of a site.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on. Port 0 takes a free port.
    pub listen: SocketAddr,
    /// The directory for the database and the scripts. Created if it does not exist. Each running
    /// site needs its own.
    pub data: PathBuf,
    /// Number of workers, from 1 to [`Options::WORKERS_MAX`].
    pub workers: usize,
    /// The layers that are on at the start.
    pub switches: Switches,
    /// Whether each page, also a cached one, ends with a comment that states the time this response
    /// took.
    pub parse_time: bool,
}

impl Options {
    /// The default number of workers.
    pub const WORKERS_DEFAULT: usize = limits::WORKERS_DEFAULT;
    /// The greatest number of workers.
    pub const WORKERS_MAX: usize = limits::WORKERS_MAX;
}

/// A site cannot be started. The text names the file or address.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(String);

impl StartError {
    fn new(place: impl std::fmt::Display, error: &dyn std::fmt::Display) -> Self {
        Self(format!("{place}: {error}"))
    }
}

/// A running site.
pub struct Site {
    server: Server,
    /// The locked file. Held while the site runs, so that no second site uses the same directory.
    _lock: File,
}

impl Site {
    /// Binds the address, prepares the data directory and starts all threads. After it returns, the
    /// site answers requests.
    ///
    /// # Errors
    /// If the directory is in use or cannot be written, or if the address cannot be bound. Also if
    /// the number of workers is out of range.
    pub fn start(options: &Options, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        if options.workers == 0 || options.workers > Options::WORKERS_MAX {
            let max = Options::WORKERS_MAX;
            return Err(StartError(format!("workers: {} is not between 1 and {max}", options.workers)));
        }
        let data = options.data.display();
        let listener =
            TcpListener::bind(options.listen).map_err(|error| StartError::new(options.listen, &error))?;
        fs::create_dir_all(&options.data).map_err(|error| StartError::new(&data, &error))?;
        let lock = lock(&options.data).map_err(|error| StartError::new(&data, &error))?;
        let scripts =
            Scripts::install(options.data.join("site")).map_err(|error| StartError(error.to_string()))?;
        let mut shared = Shared {
            clock,
            counters: Counters::default(),
            caches: cache::Caches::default(),
            secret: String::new(),
            parse_time: options.parse_time,
        };
        let path = database::prepare(&options.data, &scripts, &shared)
            .map_err(|error| StartError(error.to_string()))?;
        let sqlite = |error: rusqlite::Error| StartError::new(path.display(), &error);
        let connect = || database::open(&path).map_err(sqlite);
        let admin = connect()?;
        shared.secret = database::signing_key(&admin).map_err(sqlite)?;
        let workers = (0..options.workers).map(|_| connect()).collect::<Result<_, _>>()?;
        let server = Server::start(Parts {
            listener,
            shared: Arc::new(shared),
            scripts: Arc::new(scripts),
            switches: Arc::new(SharedSwitches::new(options.switches)),
            workers,
            admin,
        });
        let server = server.map_err(|error| StartError::new(options.listen, &error))?;
        Ok(Self { server, _lock: lock })
    }

    /// The address where the site listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Stops accepting connections, answers the complete requests, and ends all threads of the
    /// site.
    pub fn stop(self) {
        self.server.stop();
    }
}

/// Locks the directory for this process.
fn lock(directory: &Path) -> io::Result<File> {
    let file = File::create(directory.join("lock"))?;
    file.try_lock().map_err(|error| match error {
        fs::TryLockError::WouldBlock => io::Error::other("another site uses this directory"),
        fs::TryLockError::Error(error) => error,
    })?;
    Ok(file)
}
