//! Hottest pages, expensive misses, cookies and parameters, and certificates.

use super::{empty, table, url_link};
use crate::View;
use crate::figure::{grouped, micros, span, utc};
use api::dashboard::{CostFigures, CostKind, MissFigures, PageFigures};
use maud::{Markup, html};

pub(super) fn pages(view: &View<'_>) -> Markup {
    html! {
        div.pair {
            div {
                h3 { "Hottest" }
                (hottest(&view.data.hottest))
            }
            div {
                h3 { "Misses and passes by time of the origin" }
                (misses(&view.data.misses))
            }
        }
    }
}

fn hottest(pages: &[PageFigures]) -> Markup {
    if pages.is_empty() {
        return empty("No page was requested often enough yet.");
    }
    let head = html! { th scope="col" { "Page" } th.n scope="col" { "Requests" } };
    let body = html! {
        @for page in pages {
            tr { th scope="row" { (url_link(&page.url)) } td.n { (grouped(page.requests)) } }
        }
    };
    table("Hottest pages", &head, &body)
}

fn misses(misses: &[MissFigures]) -> Markup {
    if misses.is_empty() {
        return empty("No request went to an origin in the recent past.");
    }
    let head = html! {
        th scope="col" { "Page" } th scope="col" { "Reason" } th.n scope="col" { "Requests" }
        th.n scope="col" { "Origin time" }
    };
    let body = html! {
        @for miss in misses {
            tr {
                th scope="row" { (url_link(&miss.url)) }
                td.reason { (miss.reason) }
                td.n { (grouped(miss.requests)) }
                td.n { (micros(miss.origin_micros)) }
            }
        }
    };
    table("Misses and passes", &head, &body)
}

pub(super) fn costs(view: &View<'_>) -> Markup {
    if view.data.costs.is_empty() {
        return empty("No cookie or parameter has sent a request to an origin in the recent past.");
    }
    let head = html! {
        th scope="col" { "Name" } th scope="col" { "Site" } th.n scope="col" { "Requests" }
        th.n scope="col" { "Origin time" }
    };
    let row = |cost: &CostFigures| {
        html! {
            tr {
                th.url scope="row" {
                    span.quiet { (if cost.kind == CostKind::Cookie { "cookie " } else { "parameter " }) }
                    (cost.name)
                }
                td.url { (cost.site) }
                td.n { (grouped(cost.requests)) }
                td.n { (micros(cost.origin_micros)) }
            }
        }
    };
    let body = html! { @for cost in &view.data.costs { (row(cost)) } };
    html! {
        (table("Cookies and parameters", &head, &body))
        p.note {
            "A cookie that changes no page can be ignored, and a parameter too: see the profile settings."
        }
    }
}

pub(super) fn certificates(view: &View<'_>) -> Markup {
    let obtained = &view.data.status.certificates;
    if view.certificates.is_empty() && obtained.is_empty() {
        return empty("No listener has TLS.");
    }
    let head = html! {
        th scope="col" { "Names" } th scope="col" { "Expires" } th scope="col" { "Renewal" }
    };
    let now = view.data.at_secs;
    let body = html! {
        @for certificate in view.certificates {
            @let left = certificate.expires_secs.saturating_sub(now);
            @let is_obtained = obtained.iter().any(|known| known.names == certificate.names);
            tr {
                th.url scope="row" { (certificate.names.join(", ")) }
                td.bad[left < 14 * 86_400] {
                    (utc(certificate.expires_secs)) br;
                    span.quiet { @if left == 0 { "expired" } @else { "in " (span(left)) } }
                }
                td { @if is_obtained { "by Petasos" } @else { "its files are read again when they change" } }
            }
        }
        @for certificate in obtained {
            tr {
                th.url scope="row" { (certificate.names.join(", ")) span.quiet { " by ACME" } }
                td { (certificate.expires.as_deref().unwrap_or("not obtained yet")) }
                td.text {
                    "next attempt " (certificate.next_attempt)
                    @if let Some(error) = &certificate.last_error {
                        br; span.bad { (certificate.failures) " failed: " (error) }
                    }
                }
            }
        }
    };
    table("Certificates", &head, &body)
}
