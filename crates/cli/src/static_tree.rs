//! `petasos static-tree`: prints the rules with which a web server serves the static tree.
//!
//! Exit codes: 0 if the rules were printed; 2 if not (bad arguments).

use crate::bench::measure;
use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use profiles::Profile;
use static_tree::Layout;
use static_tree::rules::{RuleInputs, ServerProgram};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Let a web server send the pages that the edge writes as files.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: TreeAction,
}

#[derive(Debug, clap::Subcommand)]
enum TreeAction {
    Rules(RulesArgs),
}

/// Print rules for a web server: configuration for nginx and Apache, or a script for lighttpd.
///
/// With these rules, the web server answers requests without a session from the static tree. It
/// does so even if the edge and the application do not run. The rules do not change any other
/// request.
#[derive(Debug, clap::Args)]
struct RulesArgs {
    /// Web server that the rules are for
    #[arg(value_name = "SERVER", value_parser = PossibleValuesParser::new(ServerProgram::ALL.map(ServerProgram::name)))]
    server: String,
    /// Value of the edge's setting static_tree.layout
    #[arg(
        long,
        value_name = "NAME",
        default_value = Layout::ALL[0].name(),
        value_parser = PossibleValuesParser::new(Layout::ALL.map(Layout::name))
    )]
    layout: String,
    /// Value of the edge's setting static_tree.directory: the path as the web server sees it
    #[arg(long, value_name = "DIR", default_value = "/var/cache/petasos/tree")]
    directory: PathBuf,
    /// Profile whose session cookies exclude a request from the static tree [default: the profile
    /// of the layout's system]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Profile::names()))]
    profile: Option<String>,
}

/// Prints the rules.
///
/// # Errors
/// If the rules cannot be made or cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let TreeAction::Rules(args) = &args.what;
    // clap accepts only names from these lists, so the lookups succeed.
    let server = ServerProgram::ALL
        .into_iter()
        .find(|server| server.name() == args.server)
        .context("the server is unknown")?;
    let layout = Layout::by_name(&args.layout).context("the layout is unknown")?;
    let profile = args.profile.as_deref().unwrap_or_else(|| layout.profile());
    let profile = Profile::shipped(profile).context("the profile is unknown")?;
    let rules = RuleInputs::new(layout, &args.directory, &profile.policy)
        .with_context(|| format!("--directory {}", args.directory.display()))?;
    measure::write_text(io::stdout(), &rules.text(server))?;
    Ok(ExitCode::SUCCESS)
}
