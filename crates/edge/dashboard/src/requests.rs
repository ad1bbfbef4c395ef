//! Live requests.
//!
//! Invariant: a row is the same in the page and in the events of its script.

use crate::figure;
use crate::page::{frame, requests_form};
use crate::sections::{url_link, verdict};
use crate::{Viewer, fields};
use api::log::LoggedRequest;
use maud::{Markup, html};

/// The page of live requests. `requests` are those of the last moment, the newest first;
/// `skipped` others were left out. `problem` is the fault of the condition.
pub fn requests_page(
    verdict: Option<&str>,
    condition: &str,
    requests: &[LoggedRequest],
    skipped: u64,
    problem: Option<&str>,
    viewer: &Viewer,
) -> String {
    let content = html! {
        p { a href="/dashboard" { "Dashboard" } }
        h1 { "Live requests" }
        (requests_form(verdict, condition))
        @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
        p.controls {
            button #pause type="button" aria-pressed="false" hidden { "Pause" }
            " " span #skipped { (skipped_text(skipped)) }
        }
        div.scroll role="region" aria-label="Live requests" tabindex="0" {
            table.requests {
                thead {
                    tr {
                        th scope="col" { "Time (UTC)" } th scope="col" { "Verdict" } th scope="col" { "Status" }
                        th scope="col" { "Request" } th.n scope="col" { "Took" } th.n scope="col" { "Bytes" }
                        th scope="col" { "Client" }
                    }
                }
                tbody #request-rows { (rows(requests)) }
            }
        }
        @if requests.is_empty() && problem.is_none() {
            p.empty #no-requests { "No such request came while this page was made. The list goes on by itself." }
        }
    };
    let [verdict, condition] = [verdict.unwrap_or_default(), condition].map(figure::parameter);
    let events =
        format!("/dashboard/requests/events?{}={verdict}&{}={condition}", fields::VERDICT, fields::WHERE);
    frame("Live requests", problem.is_none().then_some((viewer, &events[..])), &content)
}

/// Rows of the table and the text about omitted requests, for the script.
pub fn request_rows(requests: &[LoggedRequest], skipped: u64) -> (String, String) {
    (rows(requests).into_string(), skipped_text(skipped))
}

fn skipped_text(skipped: u64) -> String {
    match skipped {
        0 => String::new(),
        1 => "1 request was left out, because they come too fast to be shown.".to_owned(),
        skipped => {
            format!(
                "{} requests were left out, because they come too fast to be shown.",
                figure::grouped(skipped)
            )
        }
    }
}

fn rows(requests: &[LoggedRequest]) -> Markup {
    html! { @for request in requests { (row(request)) } }
}

fn row(request: &LoggedRequest) -> Markup {
    let time = request.at.split('T').nth(1).unwrap_or(&request.at);
    let time = time.get(..12).unwrap_or(time);
    let url = request.key.clone();
    html! {
        tr {
            td.moment { (time) }
            td.reason { (verdict(&request.verdict)) br; span.name { (request.reason) } }
            td { (request.status) }
            td.text {
                (request.method) " "
                @match url {
                    Some(url) => (url_link(&url)),
                    None => span.url { (request.host.as_deref().unwrap_or_default()) (request.target) },
                }
                @if let Some(agent) = &request.agent { br; span.quiet { (agent) } }
            }
            td.n { (figure::micros(request.time)) }
            td.n { (figure::bytes(request.bytes)) }
            td.url { (request.client) }
        }
    }
}
