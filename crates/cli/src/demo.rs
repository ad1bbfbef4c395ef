//! `petasos demo site`: the embedded site alone.

use crate::demo_site;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::process::ExitCode;

/// The subcommand with its own subcommand.
pub(crate) fn command() -> Command {
    Command::new("demo")
        .about("The embedded site")
        .subcommand_required(true)
        .subcommand(demo_site::Args::augment_args(Command::new("site")))
}

pub(crate) fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    match matches.subcommand() {
        Some(("site", matches)) => demo_site::run(&demo_site::Args::from_arg_matches(matches)?),
        _ => unreachable!("a subcommand is required"),
    }
}
