//! `petasos why`: explains why a page is served from the cache or not. With `--direct` it examines
//! a site that has no Petasos in front.
//!
//! Exit codes:
//!
//! - 0: the question was answered, whatever the answer.
//! - 2: it could not be asked (bad URL or header line, unreachable, no valid certificate).

use crate::admin::AdminArgs;
use crate::bench::measure;
use crate::output::note;
use crate::values::time;
use address::HttpUrl;
use anyhow::Context as _;
use net::TlsClient;
use platform::SystemClock;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use why::{Fetcher, HeaderLine};

/// Explain whether a page is answered from the cache, and if not, the cause and the fix.
///
/// The command asks the running edge at its admin address. It fetches nothing and changes nothing.
/// With --direct it judges a page of any site, which needs no Petasos in front. It then fetches the
/// page a few times, one after the other. Some requests have cookies and parameters that analytics
/// and advertisements add.
///
/// TIME is a number with a unit, such as 500ms or 2s; a bare number means seconds.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// URL of the page: http[s]://HOST[:PORT]/PATH
    url: String,
    /// Add a header field to the request, such as 'Cookie: theme=dark'; repeatable
    #[arg(short = 'H', value_name = "LINE")]
    header: Vec<String>,
    #[command(flatten)]
    edge: AdminArgs,
    /// Fetch the page from the site itself, which needs no Petasos in front
    #[arg(long, conflicts_with_all = ["admin", "token_file", "admin_ca", "admin_certificate"])]
    direct: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// With --direct: accept any certificate
    #[arg(long, requires = "direct")]
    insecure: bool,
    /// With --direct: pause between two requests
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "500ms", requires = "direct")]
    pause: Duration,
}

/// Asks the edge or examines the site, and prints the answer.
///
/// # Errors
/// If the question could not be asked.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let url = HttpUrl::parse(&args.url)?;
    let lines = args.header.iter().map(|line| line.parse()).collect::<Result<Vec<HeaderLine>, _>>()?;
    let text = if args.direct { direct(args, &url, &lines)? } else { ask(args, &url, &lines)? };
    measure::write_text(io::stdout(), &text)?;
    Ok(ExitCode::SUCCESS)
}

/// Asks the running edge at its admin address.
fn ask(args: &Args, url: &HttpUrl, lines: &[HeaderLine]) -> anyhow::Result<String> {
    let token = args.edge.token()?;
    let fetcher = args.edge.fetcher()?;
    let reply = runtime()?.block_on(why::ask(&fetcher, &args.edge.admin, token.as_deref(), url, lines))?;
    Ok(if args.json { reply.document } else { why::answer_text(url, &reply.answer) })
}

/// Examines the page of any site by fetching it.
fn direct(args: &Args, url: &HttpUrl, lines: &[HeaderLine]) -> anyhow::Result<String> {
    lines.iter().try_for_each(HeaderLine::refuse_ours)?;
    let fetcher = Fetcher { tls: tls(args, url)?, clock: Arc::new(SystemClock::new()) };
    let visit = runtime()?.block_on(why::visit(&fetcher, url, lines, args.pause));
    let findings = why::inspect(&visit.with_context(|| format!("{url} cannot be judged"))?);
    Ok(if args.json { findings.to_json() } else { why::report(&findings) })
}

/// The TLS client for an https URL; `None` for http.
fn tls(args: &Args, url: &HttpUrl) -> anyhow::Result<Option<TlsClient>> {
    if !url.is_https() {
        return Ok(None);
    }
    if args.insecure {
        note(format_args!(
            "petasos: --insecure: the server's certificate is not verified; the response may be an attacker's"
        ));
        return Ok(Some(TlsClient::insecure()?));
    }
    Ok(Some(TlsClient::with_system_authorities()?))
}

/// A single-threaded runtime for one question.
///
/// # Errors
/// If the system has no file descriptors left.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the event loop; raise the limit of open files (ulimit -n)")
}

#[cfg(test)]
mod tests {
    #[test]
    fn default_admin_address_is_that_of_the_setting() {
        let setting = config::SETTINGS.iter().find(|setting| setting.key == "admin");
        assert_eq!(setting.and_then(|setting| setting.default), Some(why::ADMIN_DEFAULT));
    }
}
