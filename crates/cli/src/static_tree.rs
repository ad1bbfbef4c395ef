//! `petasos static-tree`: prints the rules with which a web server serves the static tree.
//!
//! Exit codes: 0 if the rules were printed; 2 if not (bad arguments).

use crate::bench::measure;
use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use profiles::Profile;
use static_tree::Layout;
use static_tree::rules::{Rules, Server};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Have a web server serve the pages that the edge writes as files.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Rules(RulesArgs),
}

/// Print a server's rules: a part of a configuration for nginx and Apache, a script for lighttpd.
///
/// With them the server answers requests without a session from the tree by itself, whether the
/// edge and the application run or not; all other requests go on as if the rules were not there.
#[derive(Debug, clap::Args)]
struct RulesArgs {
    #[arg(value_name = "SERVER", value_parser = PossibleValuesParser::new(Server::ALL.map(Server::name)))]
    server: String,
    /// The setting static_tree.layout
    #[arg(
        long,
        value_name = "NAME",
        default_value = Layout::ALL[0].name(),
        value_parser = PossibleValuesParser::new(Layout::ALL.map(Layout::name))
    )]
    layout: String,
    /// The setting static_tree.directory, as the web server sees it
    #[arg(long, value_name = "DIR", default_value = "/var/cache/petasos/tree")]
    directory: PathBuf,
    /// The profile whose cookies keep a request from the tree; the one of the layout's system if
    /// left out
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Profile::names()))]
    profile: Option<String>,
}

/// Prints the rules.
///
/// # Errors
/// If the rules cannot be made or cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let What::Rules(args) = &args.what;
    // clap accepts only names from these lists, so the lookups succeed.
    let server =
        Server::ALL.into_iter().find(|server| server.name() == args.server).context("no such server")?;
    let layout = Layout::by_name(&args.layout).context("no such layout")?;
    let profile = args.profile.as_deref().unwrap_or_else(|| layout.profile());
    let profile = Profile::shipped(profile).context("no such profile")?;
    let rules = Rules::new(layout, &args.directory, &profile.policy)
        .with_context(|| format!("--directory {}", args.directory.display()))?;
    measure::write_text(io::stdout(), &rules.text(server))?;
    Ok(ExitCode::SUCCESS)
}
