//! "Mission Bicycles": a small content management system and shop, made to be accelerated.
//!
//! Its program is a few dozen script files that are read and compiled at the start of every request, as PHP
//! does it, and its content is in SQLite, so that the layers which a site can be given (page cache, opcode
//! cache, aggressive page cache, object cache) are the real ones and can be switched while it runs. The cost
//! of a page is the work it takes. The site is synthetic: its content is generated from a fixed seed.
//!
//! ```text
//! front thread --complete request--> queue --> workers: core scripts -> [page?] -> modules -> [page?] -> page
//!      ^                               |
//!      +------ open connection --------+--> thread aside: /assets, /_status, /_switch, /_flush
//! ```
//!
//! Invariants: a page made for one visitor is never kept for another; nothing made from data older than a
//! write is kept after it; what visitors send reaches HTML escaped and SQL as a bound parameter.
//!
//! Three accounts can log in: `editor` (password `two-wheels`), `alice` (`bell-and-lamp`) and `bruno`
//! (`chain-and-oil`). They are known to everybody; a site that anybody else can reach needs others.
//!
//! This crate is no framework: it serves this one site, over HTTP/1, for demonstration and measurement.

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

use counters::Counters;
use platform::Clock;
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

/// How a site is to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where its database and its scripts are kept; made if it does not exist. One running site each.
    pub data: PathBuf,
    /// Workers, 1 to [`Options::WORKERS_MAX`].
    pub workers: usize,
    /// The layers that are on at the start.
    pub switches: Switches,
    /// Whether each page ends with a comment that says how long this answer took, kept pages included.
    pub parse_time: bool,
}

impl Options {
    /// How many workers there are if nobody says otherwise.
    pub const WORKERS_DEFAULT: usize = limits::WORKERS_DEFAULT;
    /// The most workers.
    pub const WORKERS_MAX: usize = limits::WORKERS_MAX;
}

/// Why a site cannot be started. The text names the place.
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
    /// Held as long as the site runs, so that no second one uses the same directory.
    _lock: File,
}

impl Site {
    /// Prepares the data directory, binds the address and starts. When this returns, the site answers.
    ///
    /// # Errors
    /// If the directory is in use or cannot be written, if the address cannot be bound, or if the number of
    /// workers is out of range.
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

    /// Where the site answers.
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Stops accepting, answers what was asked, and ends all threads of the site.
    pub fn stop(self) {
        self.server.stop();
    }
}

/// Makes this process the only one that uses the directory.
fn lock(directory: &Path) -> io::Result<File> {
    let file = File::create(directory.join("lock"))?;
    file.try_lock().map_err(|error| match error {
        fs::TryLockError::WouldBlock => io::Error::other("another site uses this directory"),
        fs::TryLockError::Error(error) => error,
    })?;
    Ok(file)
}
