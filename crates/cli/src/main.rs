//! The `petasos` command. It parses the arguments, calls the library crate that does the work and
//! turns the outcome into an exit code. It holds no logic beyond that.
//!
//! The exit codes are a contract:
//!
//! - 0: the command finished and every threshold was met.
//! - 1: a threshold was missed, or the run was interrupted.
//! - 2: the command could not run (bad arguments, bad file, unreachable target). Standard error
//!   gives the reason.

mod ab;
mod admin;
mod adopt;
mod bench;
mod check;
mod compare;
mod completions;
mod demo;
mod demo_site;
mod doctor;
mod follow;
mod import;
mod keyboard;
mod ladder;
mod ladder_report;
mod log;
mod log_command;
mod manual;
mod output;
mod profile;
mod purge;
mod record_text;
mod serve;
mod snapshot;
mod static_tree;
mod status;
mod top;
mod try_site;
mod values;
mod warm;
mod why;

use crate::output::note;
use allocator::Allocator;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Exit code of a command that could not run at all.
const EXIT_COULD_NOT_RUN: u8 = 2;

fn main() -> ExitCode {
    let matches = match command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return usage(&error),
    };
    match run(&matches) {
        Ok(code) => code,
        Err(error) => {
            note(format_args!("petasos: {error:#}"));
            ExitCode::from(EXIT_COULD_NOT_RUN)
        }
    }
}

/// Builds the whole command line with all subcommands.
fn command() -> Command {
    Command::new("petasos")
        .about("Accelerates a web application, measures it, and proves what each caching layer contributes")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(serve::command())
        .subcommand(check::command())
        .subcommand(doctor::Args::augment_args(Command::new("doctor")))
        .subcommand(try_site::Args::augment_args(Command::new("try")))
        .subcommand(adopt::Args::augment_args(Command::new("adopt")))
        .subcommand(bench::Args::augment_args(Command::new("bench")))
        .subcommand(ab::Args::augment_args(Command::new("ab")))
        .subcommand(compare::Args::augment_args(Command::new("compare")))
        .subcommand(import::Args::augment_args(Command::new("import")))
        .subcommand(ladder::Args::augment_args(Command::new("ladder")))
        .subcommand(ladder_report::Args::augment_args(Command::new("report")))
        .subcommand(demo::command())
        .subcommand(why::Args::augment_args(Command::new("why")))
        .subcommand(purge::Args::augment_args(Command::new("purge")))
        .subcommand(warm::Args::augment_args(Command::new("warm")))
        .subcommand(status::Args::augment_args(Command::new("status")))
        .subcommand(top::Args::augment_args(Command::new("top")))
        .subcommand(log_command::Args::augment_args(Command::new("log")))
        .subcommand(profile::Args::augment_args(Command::new("profile")))
        .subcommand(static_tree::Args::augment_args(Command::new("static-tree")))
        .subcommand(completions::Args::augment_args(Command::new("completions")))
        .subcommand(manual::Args::augment_args(Command::new("manual")))
}

fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    match matches.subcommand() {
        Some(("serve", matches)) => serve::run(matches),
        Some(("check", matches)) => check::run(matches),
        Some(("doctor", matches)) => doctor::run(&doctor::Args::from_arg_matches(matches)?),
        Some(("try", matches)) => try_site::run(&try_site::Args::from_arg_matches(matches)?),
        Some(("adopt", matches)) => adopt::run(&adopt::Args::from_arg_matches(matches)?),
        Some(("bench", matches)) => bench::run(&bench::Args::from_arg_matches(matches)?),
        Some(("ab", matches)) => ab::run(&ab::Args::from_arg_matches(matches)?),
        Some(("compare", matches)) => compare::run(matches),
        Some(("import", matches)) => import::run(&import::Args::from_arg_matches(matches)?),
        Some(("ladder", matches)) => ladder::run(&ladder::Args::from_arg_matches(matches)?),
        Some(("report", matches)) => ladder_report::run(&ladder_report::Args::from_arg_matches(matches)?),
        Some(("demo", matches)) => demo::run(matches),
        Some(("why", matches)) => why::run(&why::Args::from_arg_matches(matches)?),
        Some(("purge", matches)) => purge::run(&purge::Args::from_arg_matches(matches)?),
        Some(("warm", matches)) => warm::run(&warm::Args::from_arg_matches(matches)?),
        Some(("status", matches)) => status::run(&status::Args::from_arg_matches(matches)?),
        Some(("top", matches)) => top::run(&top::Args::from_arg_matches(matches)?),
        Some(("log", matches)) => log_command::run(&log_command::Args::from_arg_matches(matches)?),
        Some(("profile", matches)) => profile::run(&profile::Args::from_arg_matches(matches)?),
        Some(("static-tree", matches)) => static_tree::run(&static_tree::Args::from_arg_matches(matches)?),
        Some(("completions", matches)) => completions::run(&completions::Args::from_arg_matches(matches)?),
        Some(("manual", matches)) => manual::run(&manual::Args::from_arg_matches(matches)?),
        _ => unreachable!("a subcommand is required and all are listed"),
    }
}

/// Prints a clap message and returns its exit code. Help and version go to standard output with
/// exit code 0. Everything else is a usage error on standard error.
fn usage(error: &clap::Error) -> ExitCode {
    // If the pipe is closed, its reader does not want the text, so the error is ignored.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(EXIT_COULD_NOT_RUN) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod help;

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
