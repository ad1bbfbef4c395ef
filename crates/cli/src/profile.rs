//! `petasos profile`: undoes or restarts the profile detection of a site at a running edge.
//!
//! Exit codes: 0 if the edge carried it out; 2 if it did not, with the reason on standard error.

use crate::admin::AdminArgs;
use crate::bench::measure;
use crate::purge::reason;
use anyhow::{Context as _, anyhow, bail};
use api::profile::{Call, ProfileRefusal, ProfileReply};
use message::Status;
use std::io;
use std::process::ExitCode;

/// Drop the profile that a running edge has detected for a site, or look for one again.
///
/// When the profile of a site changes, the edge invalidates everything that it has stored of the
/// site. `/status` at the admin address and `petasos why` report the profile and its signs. If the
/// edge demands a token, give it in the environment variable PETASOS_TOKEN or with --token-file.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    what: ProfileAction,
    #[command(flatten)]
    edge: AdminArgs,
}

/// What is to be done: one of these.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct ProfileAction {
    /// Drop the detected profile of this site and stop detecting one. SITE is one of the site's
    /// names, or `any`
    #[arg(long, value_name = "SITE")]
    forget: Option<String>,
    /// Drop the detected profile of this site and detect one again. SITE is one of the site's
    /// names, or `any`
    #[arg(long, value_name = "SITE")]
    detect: Option<String>,
}

/// Sends the request and prints the outcome.
///
/// # Errors
/// If the edge did not carry it out.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let detect = args.what.detect.is_some();
    let site = args
        .what
        .forget
        .as_ref()
        .or(args.what.detect.as_ref())
        .context("no site is named; give --forget SITE or --detect SITE")?;
    let call = Call { site: site.clone(), detect };
    // Plain data with names as keys always serialises.
    let content = serde_json::to_vec(&call).unwrap_or_default();
    let answer = args.edge.call(api::profile::PATH, &content)?;
    let admin = &args.edge.admin;
    if answer.head.status != Status::OK {
        let refused = serde_json::from_slice::<ProfileRefusal>(&answer.content);
        let error = refused.map_or_else(|_| reason(&answer), |refused| refused.error);
        bail!("{admin} refuses: {} {error}", answer.head.status);
    }
    let ProfileReply { before, rules, .. } = serde_json::from_slice(&answer.content)
        .map_err(|_| anyhow!("the response of {admin} is not from a Petasos edge; correct --admin"))?;
    let change = if before == rules {
        format!("has profile {rules}")
    } else {
        format!("had profile {before} and has {rules}")
    };
    let from_now = if detect { "detected from now on" } else { "not detected any more" };
    measure::write_text(io::stdout(), &format!("Site {site} {change}; its profile is {from_now}.\n"))?;
    Ok(ExitCode::SUCCESS)
}
