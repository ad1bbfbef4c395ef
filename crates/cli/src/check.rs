//! `petasos check`: reads, resolves and explains a configuration, and examines the directories and
//! certificates that it names. It binds no address and leaves nothing in the directories.

use crate::bench::measure;
use crate::serve;
use clap::{Arg, ArgAction, ArgMatches, Command};
use config::{EdgePlan, Overrides};
use document::{Diagnostic, Severity};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// The subcommand with its flags.
pub(crate) fn command() -> Command {
    Command::new("check")
        .about("Check a configuration file and explain its mistakes, without opening a port")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .value_parser(clap::value_parser!(PathBuf))
                .help("Configuration file of `petasos serve`"),
        )
        .arg(
            Arg::new("print")
                .long("print")
                .action(ArgAction::SetTrue)
                .help("Print the settings that the file resolves to"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let mut plan = serve::read(matches.get_one::<PathBuf>("file").map(PathBuf::as_path), &Overrides::new())?;
    let (errors, warnings): (Vec<_>, Vec<_>) =
        problems(&plan).into_iter().partition(|problem| problem.severity == Severity::Error);
    plan.warnings.extend(warnings);
    plan.warnings.append(&mut plan.cautions);
    serve::tell_warnings(&plan);
    if !errors.is_empty() {
        return Err(serve::unusable(&errors));
    }
    let text = if matches.get_flag("print") {
        plan.explain()
    } else {
        "petasos: the configuration is good\n".to_owned()
    };
    measure::write_text(io::stdout(), &text)?;
    Ok(ExitCode::SUCCESS)
}

/// The problems with the directories and certificates of a plan.
pub(crate) fn problems(plan: &EdgePlan) -> Vec<Diagnostic> {
    let mut found = edge::check_directories(plan);
    found.extend(edge::check_certificates(plan, edge::System::of_machine().clock.now()));
    found
}
