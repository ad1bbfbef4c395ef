//! Examines which layers of a web application this machine lacks: opcode cache, settings and
//! workers of PHP, object cache, database buffers, compression, kept connections, lifetimes of
//! static files.
//!
//! ```text
//!   Root -> read (configuration files)  -> facts -> judge_* (facts -> Finding, pure) -> Report
//!   processes, ports, web server -> probe -^
//! ```
//!
//! Invariant: nothing changes, and a layer that was not seen is never said to be missing. A folder
//! that is examined instead of the machine's root has files only: the processes and ports of the
//! machine are not its own.

mod assignments;
mod facts;
mod judge_database;
mod judge_objects;
mod judge_php;
mod judge_web;
mod probe;
mod read;
mod root;

use crate::finding::Finding;
use address::HttpUrl;
use facts::{DatabaseFact, MachineFact};
use judge_php::WorkersRoom;
use root::Root;
use std::path::{Path, PathBuf};

/// Addresses that are requested unless the user names one.
const OWN_URLS: [&str; 2] = ["http://127.0.0.1/", "https://127.0.0.1/"];
/// Debian's socket of the database server.
const DATABASE_SOCKET: &str = "/run/mysqld/mysqld.sock";

/// The machine to examine.
#[derive(Clone, Debug)]
pub struct StackTerms {
    /// The root directory: `/` for this machine, or a folder with a copy of another one.
    pub root: PathBuf,
    /// A page of the site. `None`: the start page at ports 80 and 443 of this machine, unless the
    /// root is another.
    pub url: Option<HttpUrl>,
}

/// Examines the layers.
///
/// # Errors
/// If the system gives no event loop for the requests.
pub fn examine_stack(terms: &StackTerms) -> std::io::Result<Vec<Finding>> {
    let root = Root::new(&terms.root);
    let cores = u64::try_from(platform::cores()).unwrap_or(1);
    let machine = MachineFact { memory_bytes: platform::memory_bytes(), cores };
    let applications = read::applications(&root);
    let mut phps = read::php(&root);
    // Of PHP-FPM alone: Apache's module runs in Apache's own processes.
    for fact in phps.iter_mut().filter(|_| root.is_machine()) {
        for pool in &mut fact.pools {
            pool.workers = probe::php_workers(&fact.version, &pool.name);
        }
    }
    let mut found = Vec::new();
    if phps.is_empty() {
        found.push(Finding::unseen(
            "opcode cache",
            "no PHP of Debian's packages serves visitors here, so its settings cannot be seen",
            "for a PHP elsewhere, look at `opcache.enable` in phpinfo(); other languages need none",
        ));
    }
    let database = database(&root);
    let buffers = database.as_ref().map_or(0, judge_database::buffer_bytes);
    let room = WorkersRoom::new(&phps, machine, buffers);
    for fact in &phps {
        found.extend(judge_php::php(fact, &applications, machine, room));
    }
    let has_apcu = phps.iter().any(judge_php::has_apcu);
    let servers = root.is_machine().then(probe::object_servers);
    found.extend(judge_objects::objects(
        &applications,
        has_apcu,
        servers.as_deref(),
        read::redis(&root).as_ref(),
    ));
    found.extend(judge_database::database(database.as_ref(), machine, !phps.is_empty()));
    found.extend(web(terms, &root)?);
    Ok(found)
}

/// The database server, asked if it runs here.
fn database(root: &Root) -> Option<DatabaseFact> {
    let mut fact = read::database(root)?;
    if root.is_machine() {
        let socket = fact.settings.last("socket").map_or(DATABASE_SOCKET, |set| &set.value);
        fact.live = probe::database(Path::new(socket));
    }
    Some(fact)
}

/// The web servers of this machine, or the one that the user names.
fn web(terms: &StackTerms, root: &Root) -> std::io::Result<Vec<Finding>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Some(url) = &terms.url {
        return Ok(match runtime.block_on(probe::web(url)) {
            Ok(fact) => judge_web::web(&fact),
            Err(error) => {
                let message = format!("{url}: {error}", url = url.as_str());
                vec![Finding::unseen("web server", message, "start the web server, or correct the URL")]
            }
        });
    }
    let urls = OWN_URLS.iter().filter(|_| root.is_machine()).filter_map(|url| HttpUrl::parse(url).ok());
    let facts = urls.filter_map(|url| runtime.block_on(probe::web(&url)).ok());
    let found: Vec<_> = facts.flat_map(|fact| judge_web::web(&fact)).collect();
    if found.is_empty() {
        return Ok(vec![Finding::unseen(
            "web server",
            "no web server was asked for a page, so compression and lifetimes cannot be seen",
            "name a page of your site: petasos doctor --stack --url http://www.example.org/",
        )]);
    }
    Ok(found)
}
