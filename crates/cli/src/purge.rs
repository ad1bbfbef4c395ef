//! `petasos purge`: sends a purge to a running edge.
//!
//! Exit codes:
//!
//! - 0: the edge carried out the purge, whether or not anything was stored.
//! - 2: it did not (bad arguments, no edge answers, no permission to purge). Standard error has the
//!   reason.

use crate::admin::AdminArgs;
use crate::bench::measure;
use ::purge::PurgeOutcome;
use ::purge::api::{self, ApiCall, CallSelectors};
use anyhow::{Context as _, bail};
use message::Status;
use std::io;
use std::process::ExitCode;

/// Remove pages from a running edge's cache, or mark them stale.
///
/// Once the command has succeeded, no visitor receives a purged page. If the edge demands a token,
/// give it in the environment variable PETASOS_TOKEN or with --token-file.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    what: PurgeSelection,
    /// With several --tag: purge only responses that have all of the tags
    #[arg(long, requires = "tag", conflicts_with_all = ["url", "host", "prefix", "ban", "all"])]
    all_tags: bool,
    /// Mark the responses stale and do not remove them. The next request refreshes each; if the
    /// application fails, visitors get the stale response
    #[arg(long)]
    soft: bool,
    /// Fetch the most requested of the purged pages again before a visitor requests them, at the
    /// rate of the edge's setting refill.rate
    #[arg(long)]
    refill: bool,
    #[command(flatten)]
    edge: AdminArgs,
}

/// The pages to purge: one of these.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct PurgeSelection {
    /// Page to purge, http[s]://HOST[:PORT]/PATH, with all its variants, for http and https
    #[arg(value_name = "URL")]
    url: Vec<String>,
    /// Purge all responses with this tag; repeatable, then one of the tags is enough
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Purge all pages of this host; repeatable
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
    /// Purge all pages whose URL begins with this text; repeatable
    #[arg(long, value_name = "URL")]
    prefix: Vec<String>,
    /// Purge all responses that match a ban expression; repeatable. An example is
    /// 'req.url ~ "^/news" && obj.status == 404'
    #[arg(long, value_name = "EXPR")]
    ban: Vec<String>,
    /// Purge everything that the edge has stored
    #[arg(long)]
    all: bool,
}

/// Sends the purge and prints the outcome.
///
/// # Errors
/// If the arguments are invalid, or the edge did not carry out the purge.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (flag, selectors) = args.selectors();
    let content = ApiCall { selectors, soft: args.soft, refill: args.refill }.content();
    api::check(content.as_bytes()).map_err(|fault| anyhow::anyhow!("{flag}: {fault}"))?;
    let answer = args.edge.call(api::NATIVE_PATH, content.as_bytes())?;
    let admin = &args.edge.admin;
    let outcome = match answer.head.status {
        Status::OK => PurgeOutcome::of_answer(&answer.content),
        _ if PurgeOutcome::of_answer(&answer.content).is_some() => {
            let detail = api::detail_of_refusal(&answer.content).unwrap_or_default();
            bail!("{admin}: the purge is {detail}")
        }
        status => bail!("{admin} refuses: {status} {}", reason(&answer)),
    };
    let outcome = outcome
        .with_context(|| format!("the response of {admin} is not from a Petasos edge; correct --admin"))?;
    measure::write_text(io::stdout(), &told(outcome, args.soft))?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// The selectors of the purge, and the argument that gave them.
    fn selectors(&self) -> (&'static str, CallSelectors) {
        let PurgeSelection { url, tag, host, prefix, ban, .. } = &self.what;
        let all_needed = self.all_tags;
        [
            ("URL", url, CallSelectors::Pages as fn(_) -> _),
            ("--host", host, CallSelectors::Hosts),
            ("--prefix", prefix, CallSelectors::Prefixes),
            ("--ban", ban, CallSelectors::Bans),
        ]
        .into_iter()
        .find(|(_, given, _)| !given.is_empty())
        .map(|(flag, given, selectors)| (flag, selectors(given.clone())))
        .or_else(|| {
            (!tag.is_empty()).then(|| ("--tag", CallSelectors::Tags { tags: tag.clone(), all_needed }))
        })
        .unwrap_or(("--all", CallSelectors::Everything))
    }
}

/// The reason that the edge gives for a refusal.
pub(crate) fn reason(answer: &why::FetchedResponse) -> String {
    if let Some(detail) = api::detail_of_refusal(&answer.content) {
        return detail;
    }
    let text = String::from_utf8_lossy(&answer.content);
    text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).collect()
}

/// The outcome in a sentence.
fn told(outcome: PurgeOutcome, soft: bool) -> String {
    let count = outcome.purged.saturating_add(outcome.softened);
    let done = if soft { "marked stale" } else { "removed" };
    let counted = match count {
        0 => "Nothing".to_owned(),
        1 => "1 stored response".to_owned(),
        _ => format!("{count} stored responses"),
    };
    let were = if count > 1 { "were" } else { "was" };
    match outcome.uncounted {
        0 => format!("{counted} {were} {done}.\n"),
        _ => format!(
            "{counted} {were} {done} at once. Petasos serves no other purged response, and each is {done} \
             when it is found.\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::told;
    use ::purge::PurgeOutcome;

    #[test]
    fn outcome_of_a_purge_is_told_in_a_sentence() {
        let outcome = |purged, uncounted| PurgeOutcome { purged, uncounted, ..PurgeOutcome::default() };
        let softened = PurgeOutcome { softened: 2, ..PurgeOutcome::default() };
        let rest = "at once. Petasos serves no other purged response, and each is removed when it is found.";
        for (outcome, soft, expected) in [
            (outcome(0, 0), false, "Nothing was removed."),
            (outcome(1, 0), false, "1 stored response was removed."),
            (softened, true, "2 stored responses were marked stale."),
            (outcome(0, 1), false, &format!("Nothing was removed {rest}")),
            (outcome(3, 1), false, &format!("3 stored responses were removed {rest}")),
        ] {
            assert_eq!(told(outcome, soft), format!("{expected}\n"));
        }
    }
}
