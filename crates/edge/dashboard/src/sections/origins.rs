//! The figures of each origin, as a table and as comma-separated values.

use super::sites::first;
use super::table;
use crate::View;
use crate::figure::{bytes, grouped, span};
use api::status::{CheckStatus, EdgeStatus, OriginStatus, SiteStatus};
use maud::{Markup, html};
use std::cmp::Reverse;
use std::fmt::Write as _;

/// Maximum number of origins that are shown. Those that are not well come first, then those with
/// the most requests.
const ORIGINS_MAX: usize = 50;

/// Maximum number of names of a site that are shown.
const NAMES_MAX: usize = 3;

/// The columns of the comma-separated values.
const COLUMNS: &str = "site,origin,state,breaker,state_secs,downs,down_secs,check_result,check_millis,\
                       check_ago_secs,checks_failed,requests,retries,connect_errors,response_errors,\
                       server_errors,bytes_received,bytes_sent,fetches_active,fetches_max,fetches_waiting,\
                       connections_idle";

/// An origin with its site.
type Row<'a> = (&'a SiteStatus, &'a OriginStatus);

fn rows(status: &EdgeStatus) -> Vec<Row<'_>> {
    status.sites.iter().flat_map(|site| site.origins.iter().map(move |origin| (site, origin))).collect()
}

fn is_well((site, origin): Row<'_>) -> bool {
    origin.state == "well" && site.breaker == "closed"
}

pub(super) fn origins(view: &View<'_>) -> Markup {
    let order = |row: &Row<'_>| (is_well(*row), Reverse(row.1.requests));
    let (rows, more) = first(rows(&view.data.status), ORIGINS_MAX, order);
    let head = html! {
        th scope="col" { "Origin" } th scope="col" { "State" } th scope="col" { "Last check" }
        th.n scope="col" { "Not well" } th.n scope="col" { "Requests" } th.n scope="col" { "Errors" }
        th.n scope="col" { "Received" } th.n scope="col" { "Active" }
    };
    let body = html! { @for row in rows { (origin_row(row)) } };
    html! {
        (table("Origins", &head, &body))
        @if more > 0 { p.note { (grouped(more)) " more origins are well." } }
        p.note {
            "Counts are since the start, or since the origin was configured. Errors: no connection, no usable "
            "response, status 5xx. All of it as " a href="/dashboard/origins.csv" { "comma-separated values" } "."
        }
    }
}

fn origin_row(row: Row<'_>) -> Markup {
    let (site, origin) = row;
    let errors = origin.connect_errors + origin.response_errors + origin.server_errors;
    html! {
        tr {
            th.url scope="row" { (origin.url) br; span.quiet { (names(site)) } }
            td {
                span.verdict.good[is_well(row)].bad[!is_well(row)] { (state(row)) } br;
                span.quiet { "for " (span(origin.state_secs)) }
            }
            td { (check(origin)) }
            td.n {
                (grouped(origin.downs)) " times"
                @if origin.downs > 0 { br; span.quiet { (span(origin.down_secs)) } }
            }
            td.n {
                (grouped(origin.requests))
                @if origin.retries > 0 { br; span.quiet { (grouped(origin.retries)) " sent again" } }
            }
            td.n.bad[errors > 0] {
                (grouped(errors))
                @if errors > 0 {
                    br;
                    span.quiet {
                        (grouped(origin.connect_errors)) " + " (grouped(origin.response_errors)) " + "
                        (grouped(origin.server_errors))
                    }
                }
            }
            td.n { (bytes(origin.bytes_received)) br; span.quiet { (bytes(origin.bytes_sent)) " sent" } }
            td.n {
                (origin.fetches_active) " of " (origin.fetches_max) br;
                span.quiet { (origin.fetches_waiting) " waiting, " (origin.connections_idle) " idle" }
            }
        }
    }
}

fn state((site, origin): Row<'_>) -> String {
    if origin.state == "well" && site.breaker != "closed" {
        return format!("breaker {}", site.breaker);
    }
    origin.state.clone()
}

fn check(origin: &OriginStatus) -> Markup {
    let Some(CheckStatus { ago_secs, millis, result }) = &origin.last_check else {
        return html! { span.quiet { "–" } };
    };
    html! {
        (result) " in " (millis) " ms" br;
        span.quiet {
            (span(*ago_secs)) " ago"
            @if origin.checks_failed > 0 { ", " (grouped(origin.checks_failed)) " failed" }
        }
    }
}

/// The first names of a site.
fn names(site: &SiteStatus) -> String {
    match site.names.len().saturating_sub(NAMES_MAX) {
        _ if site.names.is_empty() => "any".to_owned(),
        0 => site.names.join(", "),
        more => format!(
            "{} and {more} more",
            site.names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ")
        ),
    }
}

/// All origins as comma-separated values (RFC 4180), in the order of the configuration.
pub fn origins_csv(status: &EdgeStatus) -> String {
    let mut text = format!("{COLUMNS}\r\n");
    for (site, origin) in rows(status) {
        let name = site.names.first().map_or("any", String::as_str);
        let check = origin.last_check.as_ref();
        let texts = [name, &origin.url, &origin.state, &site.breaker].map(quoted).join(",");
        let known = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        let result = quoted(check.map_or("", |check| &check.result));
        // Writing to a String cannot fail.
        let _ = write!(text, "{texts},{},{},{}", origin.state_secs, origin.downs, origin.down_secs);
        let _ = write!(text, ",{result},{}", known(check.map(|check| check.millis)));
        let _ = write!(text, ",{}", known(check.map(|check| check.ago_secs)));
        for count in [
            origin.checks_failed,
            origin.requests,
            origin.retries,
            origin.connect_errors,
            origin.response_errors,
            origin.server_errors,
            origin.bytes_received,
            origin.bytes_sent,
            origin.fetches_active as u64,
            origin.fetches_max as u64,
            origin.fetches_waiting as u64,
            origin.connections_idle as u64,
        ] {
            let _ = write!(text, ",{count}");
        }
        text.push_str("\r\n");
    }
    text
}

/// A text as a value that a comma or quote inside does not end.
fn quoted(text: &str) -> String {
    let is_plain = !text.contains([',', '"', '\r', '\n']);
    if is_plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, quoted};

    #[test]
    fn values_with_commas_and_quotes_are_quoted() {
        assert_eq!([quoted("a.test"), quoted("a,b"), quoted("a\"b")], ["a.test", "\"a,b\"", "\"a\"\"b\""]);
        assert_eq!(COLUMNS.split(',').count(), 22);
    }
}
