//! `petasos doctor`: examines whether this machine can run a configuration. With `--stack` it
//! examines which layers the application behind Petasos lacks.
//!
//! Exit codes: 0 if everything is good, 1 with warnings, 2 if something does not work.

use crate::bench::measure;
use crate::{check, serve};
use ::doctor::{Account, AccountError, Finding, Level, Report, StackTerms};
use address::HttpUrl;
use anyhow::{Context as _, anyhow, ensure};
use config::Overrides;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Examine whether this machine can run a configuration: ports, permissions, file descriptors,
/// memory, clock, disk, name servers and origins.
///
/// With --stack, examine which layers the application behind Petasos lacks: opcode cache, object
/// cache, database buffers, workers, compression, kept connections, lifetimes of static files.
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
    /// Examine the layers of the application instead of a configuration
    #[arg(long, conflicts_with_all = ["file", "user"])]
    stack: bool,
    /// With --stack: a page of the site to measure [default: ports 80 and 443 of this machine]
    #[arg(long, value_name = "URL", requires = "stack")]
    url: Option<String>,
    /// With --stack: read the configuration files below DIR, such as those of a container's image
    #[arg(long, value_name = "DIR", requires = "stack", default_value = "/")]
    root: PathBuf,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Examines the machine and prints the report.
///
/// # Errors
/// If the machine has no user of the given name, or the URL is none.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let report = Report::new(if args.stack { stack(args)? } else { configuration(args)? });
    measure::write_text(io::stdout(), &if args.json { report.json() } else { report.text() })?;
    Ok(ExitCode::from(match report.worst {
        Level::Ok | Level::Unseen => 0,
        Level::Warning => 1,
        Level::Failure => 2,
    }))
}

/// Findings about the machine for a configuration.
fn configuration(args: &Args) -> anyhow::Result<Vec<Finding>> {
    let account = Account::of(args.user.as_deref())
        .map_err(|AccountError::Unknown(name)| anyhow!("this machine has no user {name}; correct --user"))?;
    let mut machine = serve::machine();
    if !account.is_own() {
        // The environment of this command is not that of a service.
        machine.state_directory = Some(PathBuf::from("/var/lib/petasos"));
        machine.runtime_directory = Some(PathBuf::from("/run/petasos"));
    }
    Ok(match serve::read_on(&machine, Some(&args.file), &Overrides::new()) {
        Ok(plan) => {
            let problems = plan.warnings.iter().chain(&plan.cautions).cloned();
            let problems: Vec<_> = problems.chain(check::problems(&plan)).collect();
            let mut findings: Vec<_> = problems.iter().map(Finding::of_problem).collect();
            findings.extend(::doctor::examine(&plan, &args.file, &account));
            findings
        }
        Err(error) => vec![Finding::of_unusable(&format!("{error:#}"))],
    })
}

/// Findings about the layers of the application.
fn stack(args: &Args) -> anyhow::Result<Vec<Finding>> {
    let url = args.url.as_deref().map(HttpUrl::parse).transpose()?;
    ensure!(args.root.is_dir(), "{} is no directory; correct --root", args.root.display());
    let terms = StackTerms { root: args.root.clone(), url };
    ::doctor::examine_stack(&terms)
        .context("cannot start the event loop; raise the limit of open files (ulimit -n)")
}
