//! `petasos doctor`: examines whether this machine can run a configuration.
//!
//! Exit codes: 0 if everything is good, 1 with warnings, 2 if something does not work.

use crate::bench::measure;
use crate::{check, serve};
use ::doctor::{Account, AccountError, Finding, Level, Report};
use anyhow::anyhow;
use config::Overrides;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Examine whether this machine can run a configuration: ports, permissions, file descriptors,
/// memory, clock, disk, name servers and origins.
///
/// Nothing of the machine is changed. The exit code is 0 if everything is good, 1 with warnings,
/// and 2 if something does not work.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Configuration file of `petasos serve`
    #[arg(value_name = "FILE", default_value = "/etc/petasos/petasos.toml")]
    file: PathBuf,
    /// User that runs Petasos, for whom permissions are judged [default: petasos for root, if it
    /// exists, else the user of this command]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let account = Account::of(args.user.as_deref())
        .map_err(|AccountError::Unknown(name)| anyhow!("this machine has no user {name}; correct --user"))?;
    let mut machine = serve::machine();
    if !account.is_own() {
        // The environment of this command is not that of a service.
        machine.state_directory = Some(PathBuf::from("/var/lib/petasos"));
        machine.runtime_directory = Some(PathBuf::from("/run/petasos"));
    }
    let findings = match serve::read_on(&machine, Some(&args.file), &Overrides::new()) {
        Ok(plan) => {
            let problems = plan.warnings.iter().chain(&plan.cautions).cloned();
            let problems: Vec<_> = problems.chain(check::problems(&plan)).collect();
            let mut findings: Vec<_> = problems.iter().map(Finding::of_problem).collect();
            findings.extend(::doctor::examine(&plan, &args.file, &account));
            findings
        }
        Err(error) => vec![Finding::of_unusable(&format!("{error:#}"))],
    };
    let report = Report::new(findings);
    measure::write_text(io::stdout(), &if args.json { report.json() } else { report.text() })?;
    Ok(ExitCode::from(match report.worst {
        Level::Ok => 0,
        Level::Warning => 1,
        Level::Failure => 2,
    }))
}
