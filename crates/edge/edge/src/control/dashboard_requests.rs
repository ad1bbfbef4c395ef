//! Live requests on the dashboard: the last records of a follower of the log.
//!
//! Invariant: what is not shown is counted: the records that the follower has missed, and those
//! beyond [`ROWS_MAX`] of one event.

use crate::control::dashboard_access::Caller;
use crate::control::dashboard_page::{Parameters, html};
use crate::memory::followers::{FOLLOWERS_MAX, Following};
use crate::shared::Shared;
use ::dashboard::fields;
use api::log::{LogLine, LoggedRequest};
use purge::PurgeReply;
use request_log::filter::Filter;
use semantics::Verdict;
use std::time::Duration;

/// Maximum number of requests in the page and in one event.
const ROWS_MAX: usize = 100;

/// Maximum number of bytes of records that are taken at once. All that may wait.
const TAKEN_BYTES_MAX: usize = 1 << 20;

/// How long the page waits for requests, so that it shows some without its script.
const PAGE_WAIT: Duration = Duration::from_secs(1);

/// A follower, and the number of requests that it has left out.
pub(crate) struct RequestWatch {
    following: Following,
    skipped: u64,
}

/// Begins to follow the requests that the parameters describe.
///
/// # Errors
/// Status and reason.
pub(crate) fn watch(shared: &Shared, parameters: &Parameters) -> Result<RequestWatch, (u16, String)> {
    let filter = filter(parameters).map_err(|fault| (400, fault))?;
    let following = shared
        .followers
        .follow(filter)
        .ok_or_else(|| (503, format!("{FOLLOWERS_MAX} clients follow the log already. End one of them.")))?;
    Ok(RequestWatch { following, skipped: 0 })
}

/// The page with the requests of the next moment.
pub(crate) async fn page(shared: &Shared, caller: &Caller, parameters: &Parameters) -> PurgeReply {
    let verdict = parameters.get(fields::VERDICT).filter(|verdict| !verdict.is_empty());
    let condition = parameters.get(fields::WHERE).unwrap_or_default();
    let show = |code, requests: &[LoggedRequest], skipped, problem: Option<&str>| {
        html(code, ::dashboard::requests_page(verdict, condition, requests, skipped, problem, &caller.viewer))
    };
    match watch(shared, parameters) {
        Ok(mut watch) => {
            tokio::time::sleep(PAGE_WAIT).await;
            let requests = watch.requests().await;
            show(200, &requests, watch.skipped, None)
        }
        Err((code, why)) => show(code, &[], 0, Some(&why)),
    }
}

impl RequestWatch {
    /// Rows with the requests since the last call, and what was left out, as HTML and text. `None`
    /// if there was none.
    pub(crate) async fn take(&mut self) -> Option<(String, String)> {
        let requests = self.requests().await;
        (!requests.is_empty()).then(|| ::dashboard::request_rows(&requests, self.skipped))
    }

    /// The last requests since the last call, the newest first.
    async fn requests(&mut self) -> Vec<LoggedRequest> {
        let mut text = Vec::new();
        // Ready at once, or nothing has arrived.
        let _ = tokio::time::timeout(Duration::ZERO, self.following.next(&mut text, TAKEN_BYTES_MAX)).await;
        let mut requests = Vec::new();
        for line in text.rsplit(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            // Older requests are counted and not read.
            if requests.len() == ROWS_MAX && !line.starts_with(b"{\"skipped\"") {
                self.skipped += 1;
                continue;
            }
            match serde_json::from_slice(line) {
                Ok(LogLine::Request(request)) => requests.push(*request),
                Ok(LogLine::Skipped { skipped }) => self.skipped += skipped,
                Err(_) => self.skipped += 1,
            }
        }
        requests
    }
}

/// The filter of the parameters: a verdict, a condition, or both.
fn filter(parameters: &Parameters) -> Result<Option<Filter>, String> {
    let condition = parameters.get(fields::WHERE).unwrap_or_default().trim();
    let verdict = parameters.get(fields::VERDICT).filter(|verdict| !verdict.is_empty());
    let read = |text: &str| Filter::parse(text).map_err(|error| format!("The condition: {error}."));
    // Checked alone, so that a fault names its column.
    let own = if condition.is_empty() { None } else { Some(read(condition)?) };
    let Some(verdict) = verdict else { return Ok(own) };
    let Some(verdict) = Verdict::ALL.into_iter().find(|known| known.name() == verdict) else {
        return Err("There is no such verdict.".to_owned());
    };
    let text = match own {
        Some(_) => format!("verdict = {verdict} and ({condition})"),
        None => format!("verdict = {verdict}"),
    };
    read(&text).map(Some)
}
