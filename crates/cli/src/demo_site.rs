//! `petasos demo site`: only the embedded site, as the process that a ladder starts.

use demo::{Options, Switches};
use platform::SystemClock;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Run the embedded site "Mission Bicycles" until SIGTERM, SIGINT or the end of the process that
/// started it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address to listen on; port 0 means any free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// Directory for the database and the scripts; the first start fills it
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Threads that generate pages, each with its own script engine and database connection
    #[arg(long, value_name = "N", default_value_t = Options::WORKERS_DEFAULT)]
    workers: usize,
    /// Start with the page cache on, which stores whole pages in the database
    #[arg(long)]
    page_cache: bool,
    /// Start with the opcode cache on, which keeps compiled scripts in memory
    #[arg(long)]
    opcode_cache: bool,
    /// Start with the aggressive mode on, which looks up a cached page before it loads modules
    #[arg(long)]
    aggressive: bool,
    /// Start with the object cache on, which keeps variables, menus, listings, filtered texts and
    /// cached pages in memory
    #[arg(long)]
    object_cache: bool,
    /// End each page, cached or not, with a comment that states the processing time of the response
    #[arg(long)]
    parse_time: bool,
}

/// Runs the site until a signal ends it, or the process that started it ends.
///
/// # Errors
/// If the site cannot start.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        listen: args.listen,
        data: args.data.clone(),
        workers: args.workers,
        switches: Switches {
            page_cache: args.page_cache,
            opcode: args.opcode_cache,
            aggressive: args.aggressive,
            objects: args.object_cache,
        },
        parse_time: args.parse_time,
    };
    demo::run(&options, Arc::new(SystemClock::new()))?;
    Ok(ExitCode::SUCCESS)
}
