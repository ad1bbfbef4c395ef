//! The dashboard at the admin address: which request gets which page.
//!
//! Invariants: the head decides whether a client may send a request; its content is read after
//! that. Reading changes nothing. Purge and reload need a form with its token, and a purge is
//! confirmed on a page of its own. The files of the pages and the page for logging in are for
//! everyone who names the address correctly; they reveal nothing.

use crate::control::counters::Metric;
use crate::control::dashboard_access::{Caller, is_from_elsewhere, opens_tab, session_cookie, session_ids};
use crate::control::dashboard_events::{self, EventKind};
use crate::control::dashboard_forms::{self, Form, FormFault};
use crate::control::dashboard_page::{
    Parameters, content, history, html, notice, redirect, reply, with_view,
};
use crate::control::status::status;
use crate::control::{changes, dashboard_reports, dashboard_requests, figures, token, why};
use crate::memory::dashboard::{SESSION_LIFE, is_same_secret};
use crate::request::client::ClientConnection;
use crate::shared::Shared;
use ::dashboard::{
    PATH, POLICY, PurgeKind, REPORT_POLICY, Range, Report, Reports, View, fields, origins_csv,
};
use api::dashboard::{DATA_PATH, HISTORY_PATH, SUMMARY_PATH};
use api::why::Question;
use h1::Request;
use message::{Method, RequestHead};
use net::Peer;
use purge::PurgeReply;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// How a request was answered.
pub(crate) enum Answered {
    /// With this.
    Reply(PurgeReply),
    /// With events, which have ended. So does the connection.
    Streamed,
}

/// Whether the dashboard answers requests with this path.
pub(crate) fn is_path(path: &[u8]) -> bool {
    let is_below = || path.strip_prefix(PATH.as_bytes()).is_some_and(|rest| matches!(rest, [] | [b'/', ..]));
    path == b"/"
        || is_below() && ![DATA_PATH, HISTORY_PATH, SUMMARY_PATH].iter().any(|other| path == other.as_bytes())
}

/// Answers a request that names this address correctly.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    client: &mut ClientConnection,
    request: &Request,
    is_certified: bool,
) -> Answered {
    let head = &request.head;
    let caller = Caller::of(shared, client.arrival(), is_certified, head);
    // A stream of events is no page that a link leads to.
    let is_stream = rest(head).ends_with("/events");
    if is_from_elsewhere(head) && (is_stream || !opens_tab(head)) {
        return Answered::Reply(notice(403, "Refused", "A page of another site has sent this request."));
    }
    if head.method == Method::Post {
        return Answered::Reply(change(shared, client, request, &caller).await);
    }
    if !matches!(head.method, Method::Get | Method::Head) {
        return Answered::Reply(notice(405, "Not here", "The dashboard serves GET, HEAD and POST."));
    }
    let events = match rest(head) {
        "/events" => EventKind::Sections,
        "/requests/events" => EventKind::Requests,
        _ => return Answered::Reply(page(shared, head, &caller).await),
    };
    if !caller.may_read {
        return Answered::Reply(notice(403, "Refused", "Log in to read here."));
    }
    match dashboard_events::begin(shared, events, &Parameters::of(head)) {
        Ok(stream) => {
            Box::pin(stream.run(shared, client, request, is_certified)).await;
            Answered::Streamed
        }
        Err((code, why)) => Answered::Reply(notice(code, "No events", &why)),
    }
}

/// The path below the dashboard's own.
fn rest(head: &RequestHead) -> &str {
    let path = head.target.split(|&octet| octet == b'?').next().unwrap_or_default();
    std::str::from_utf8(path).ok().and_then(|path| path.strip_prefix(PATH)).unwrap_or_default()
}

/// The page of a GET request.
async fn page(shared: &Arc<Shared>, head: &RequestHead, caller: &Caller) -> PurgeReply {
    let rest = rest(head);
    match rest {
        "/style.css" => return content("text/css; charset=utf-8", ::dashboard::STYLE),
        "/script.js" => return content("text/javascript; charset=utf-8", ::dashboard::SCRIPT),
        "/icon.svg" => return content("image/svg+xml", ::dashboard::ICON),
        "/login" => return html(200, ::dashboard::login(caller.viewer.may_log_in, None)),
        _ if head.target.first() == Some(&b'/') && !head.target.starts_with(PATH.as_bytes()) => {
            return redirect(PATH, None);
        }
        _ if !caller.may_read => return redirect("/dashboard/login", None),
        _ => {}
    }
    let parameters = Parameters::of(head);
    match rest {
        "" | "/" => main_page(shared, caller, parameters.range()).await,
        "/search" => search(shared, &parameters).await,
        "/purge" => confirm(caller, &parameters),
        "/change" => {
            let number = parameters.get(fields::NUMBER).and_then(|number| number.parse().ok());
            match number.and_then(|number| shared.dashboard.changes.by_number(number)) {
                Some(change) => html(200, ::dashboard::result_page(&change)),
                None => notice(404, "Not found", "This change is no longer remembered. The log has it."),
            }
        }
        "/origins.csv" => reply(200, "text/csv; charset=utf-8", POLICY, origins_csv(&status(shared)).into()),
        "/requests" => dashboard_requests::page(shared, caller, &parameters).await,
        _ => match rest.strip_prefix("/reports/") {
            Some(name) => report(shared, name).await,
            None => notice(404, "Not found", "The dashboard has no such page."),
        },
    }
}

async fn main_page(shared: &Arc<Shared>, caller: &Caller, range: Range) -> PurgeReply {
    let reports = reports(shared).await;
    let summary = figures::last_week(shared).await;
    let history = history(shared, range).await;
    let reports = match &reports {
        None => Reports::NoDirectory,
        Some(Some(reports)) => Reports::Listed(reports),
        Some(None) => Reports::Unreadable,
    };
    let text = with_view(shared, range, &history, |view| {
        let view = View { reports, summary: summary.as_deref(), ..view };
        ::dashboard::main_page(&view, &caller.viewer)
    });
    html(200, text)
}

/// The reports; `None` without a directory, and `Some(None)` if it cannot be read now.
async fn reports(shared: &Shared) -> Option<Option<Vec<Report>>> {
    let directory = shared.plan.reports_directory.clone()?;
    // While the disk hangs, the page shows no report.
    let Ok(turn) = Arc::clone(&shared.dashboard.report_readers).try_acquire_owned() else {
        return Some(None);
    };
    let listed = threads::run_aside(move || {
        let listed = dashboard_reports::list(&directory);
        drop(turn);
        listed
    });
    let listed = tokio::time::timeout(shared.limits.disk_timeout, listed).await;
    Some(listed.ok().flatten())
}

async fn report(shared: &Shared, name: &str) -> PurgeReply {
    let missing = || notice(404, "Not found", "There is no such report.");
    let Some(directory) = shared.plan.reports_directory.clone() else { return missing() };
    let Ok(turn) = Arc::clone(&shared.dashboard.report_readers).try_acquire_owned() else {
        return notice(503, "Busy", "Other reports are being read. Try again in a moment.");
    };
    let name = name.to_owned();
    let read = threads::run_aside(move || {
        let read = dashboard_reports::read(&directory, &name);
        drop(turn);
        read
    });
    match tokio::time::timeout(shared.limits.disk_timeout, read).await.ok().flatten() {
        Some(Ok(Some((content, media_type)))) => reply(200, media_type, REPORT_POLICY, content),
        Some(Ok(None)) => missing(),
        Some(Err(error)) => notice(500, "Not readable", &format!("The report cannot be read: {error}.")),
        None => notice(500, "Not readable", "The report cannot be read."),
    }
}

async fn search(shared: &Arc<Shared>, parameters: &Parameters) -> PurgeReply {
    let url = parameters.get(fields::URL).unwrap_or_default().trim().to_owned();
    let question = Question { url, method: "GET".to_owned(), headers: Vec::new() };
    match Box::pin(why::answer(shared, &question)).await {
        Ok(found) => html(200, ::dashboard::search_page(&question.url, Ok(&found))),
        Err(problem) => html(400, ::dashboard::search_page(&question.url, Err(&format!("{problem}.")))),
    }
}

/// The page that asks whether a purge is meant.
fn confirm(caller: &Caller, parameters: &Parameters) -> PurgeReply {
    let Some(form_token) = &caller.viewer.form_token else { return may_not_change(caller) };
    let (kind, value, is_soft) = dashboard_forms::purge_of(|name| parameters.get(name));
    match dashboard_forms::call_of(kind, &value, is_soft) {
        Ok(_) => html(200, ::dashboard::confirmation(kind, &value, is_soft, form_token)),
        Err(fault) => {
            let again = Some((kind, &value[..], is_soft));
            html(400, ::dashboard::notice("This cannot be purged", &fault, again))
        }
    }
}

fn may_not_change(caller: &Caller) -> PurgeReply {
    if caller.viewer.may_log_in {
        return redirect("/dashboard/login", None);
    }
    notice(403, "Refused", "From another machine, this needs a token. Set token_file and reload.")
}

/// Carries out what a form asks for.
async fn change(
    shared: &Arc<Shared>,
    client: &mut ClientConnection,
    request: &Request,
    caller: &Caller,
) -> PurgeReply {
    let rest = rest(&request.head);
    let is_login = rest == "/login";
    if !is_login && caller.viewer.form_token.is_none() {
        return may_not_change(caller);
    }
    if !["/login", "/logout", "/purge", "/reload"].contains(&rest) {
        return notice(404, "Not found", "The dashboard has no such form.");
    }
    let form = match Form::read(client, request).await {
        Ok(form) => form,
        Err(FormFault { code, why }) => return notice(code, "Refused", why),
    };
    if is_login {
        return log_in(shared, client, caller, &form);
    }
    if !caller.may_change(form.get(fields::FORM_TOKEN).unwrap_or_default()) {
        return notice(
            403,
            "Refused",
            "The form is too old, or not from this page. Go back, and send it again.",
        );
    }
    match rest {
        "/logout" => {
            let is_secured = client.arrival().is_secured;
            for id in session_ids(&request.head.fields, is_secured) {
                shared.dashboard.sessions.end(id);
            }
            redirect("/dashboard/login", Some(&session_cookie("", 0, is_secured)))
        }
        "/reload" => {
            let (number, _) = changes::reload_for(shared, &format!("{} (dashboard)", caller.who)).await;
            result(number)
        }
        _ => {
            let (kind, value, is_soft) = dashboard_forms::purge_of(|name| form.get(name));
            match dashboard_forms::purge(shared, &caller.who, (kind, &value, is_soft)).await {
                Ok(number) => result(number),
                Err(fault) => {
                    let again: Option<(PurgeKind, &str, bool)> = Some((kind, &value, is_soft));
                    html(400, ::dashboard::notice("This cannot be purged", &fault, again))
                }
            }
        }
    }
}

fn log_in(shared: &Shared, client: &ClientConnection, caller: &Caller, form: &Form) -> PurgeReply {
    let (sessions, now) = (&shared.dashboard.sessions, shared.clock.monotonic());
    let Some(token) = shared.purge_access.token() else {
        return html(403, ::dashboard::login(false, None));
    };
    let refused = |code, problem| {
        shared.cells(0).count(Metric::DashboardLoginsRefused);
        html(code, ::dashboard::login(true, Some(problem)))
    };
    let address = client_address(client.arrival().peer);
    if !sessions.may_attempt(address, now) {
        return refused(429, "Too many attempts. Wait a minute and try again.");
    }
    let shown = form.get(fields::TOKEN).unwrap_or_default().trim();
    if !is_same_secret(shown.as_bytes(), token.as_bytes()) {
        tracing::warn!("{}: a log-in to the dashboard with a wrong token", caller.who);
        return refused(403, "This is not the token.");
    }
    let (Ok(id), Ok(form_token)) = (token::random(), token::random()) else {
        return notice(500, "Not possible", "The system gives no random bytes.");
    };
    sessions.forget_attempts(address);
    tracing::info!("{}: logged in to the dashboard", caller.who);
    sessions.begin(&id, form_token, token, now);
    let cookie = session_cookie(&id, SESSION_LIFE.as_secs(), client.arrival().is_secured);
    redirect(PATH, Some(&cookie))
}

/// The address whose attempts are counted. A client at a Unix socket is on this machine, too.
fn client_address(peer: Peer) -> Option<IpAddr> {
    if peer.is_loopback() { Some(Ipv4Addr::LOCALHOST.into()) } else { peer.ip() }
}

/// Leads to the page of a change, so that a browser that loads it again repeats nothing.
fn result(number: u64) -> PurgeReply {
    redirect(&format!("/dashboard/change?{}={number}", fields::NUMBER), None)
}

#[cfg(test)]
mod tests {
    use super::is_path;

    #[test]
    fn dashboard_has_its_paths_and_no_others() {
        for path in ["/", "/dashboard", "/dashboard/", "/dashboard/login", "/dashboard/none"] {
            assert!(is_path(path.as_bytes()), "{path}");
        }
        for path in [
            "/dashboards",
            "/metrics",
            "/dashboard/data",
            "/dashboard/history",
            "/dashboard/summary",
            "//dashboard",
            "",
        ] {
            assert!(!is_path(path.as_bytes()), "{path}");
        }
    }
}
