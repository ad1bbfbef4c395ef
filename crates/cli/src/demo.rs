//! `petasos demo`: walks the built-in ladder on the embedded site. `petasos demo site` starts only
//! the site.

use crate::{demo_site, ladder};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::process::ExitCode;

/// The subcommand with its own subcommand.
pub(crate) fn command() -> Command {
    ladder::DemoArgs::augment_args(Command::new("demo"))
        .args_conflicts_with_subcommands(true)
        .subcommand(demo_site::Args::augment_args(Command::new("site")))
}

pub(crate) fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    match matches.subcommand() {
        Some(("site", matches)) => demo_site::run(&demo_site::Args::from_arg_matches(matches)?),
        _ => ladder::run_demo(&ladder::DemoArgs::from_arg_matches(matches)?),
    }
}
