//! `petasos demo site`: only the embedded site, as the process that a ladder starts.

use demo::{Options, Switches};
use platform::SystemClock;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs the embedded site "Mission Bicycles" until SIGTERM, SIGINT or the end of the process that
/// started it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// Directory for the database and the scripts; filled at the first start
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Threads that make pages, each with its own script engine and database connection
    #[arg(long, value_name = "N", default_value_t = Options::WORKERS_DEFAULT)]
    workers: usize,
    /// Start with the page cache on: whole pages are kept in the database
    #[arg(long)]
    page_cache: bool,
    /// Start with the opcode cache on: the compiled form of the scripts is kept in memory
    #[arg(long)]
    opcode_cache: bool,
    /// Start with the aggressive mode on: a kept page is looked up before modules are loaded
    #[arg(long)]
    aggressive: bool,
    /// Start with the object cache on: variables, menus, listings, filtered texts and kept pages
    /// are in memory
    #[arg(long)]
    object_cache: bool,
    /// End each page, kept ones included, with a comment that says how long this answer took
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
