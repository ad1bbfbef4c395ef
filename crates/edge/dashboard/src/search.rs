//! The answer to a search: the responses stored for a URL, and the verdict of its next request.

use crate::figure::{bytes, parameter, span};
use crate::page::{frame, search_form};
use crate::sections::verdict;
use api::why::{Cause, OriginDemand, RememberedAnswer, StoredAnswer, WhyReply};
use maud::{Markup, html};

/// The page with the answer for `url`, or the reason why there is none.
pub fn search_page(url: &str, answer: Result<&WhyReply, &str>) -> String {
    let content = html! {
        p { a href="/dashboard" { "Dashboard" } }
        h1 { "Look up" }
        (search_form(url))
        @match answer {
            Ok(reply) => (found(url, reply)),
            Err(problem) => p.problem role="alert" { (problem) },
        }
    };
    frame("Look up", None, &content)
}

fn found(url: &str, reply: &WhyReply) -> Markup {
    html! {
        section aria-labelledby="title-next" {
            h2 #title-next { "The next request" }
            p.lead { (verdict(&reply.verdict)) " " strong { (reply.reason) } }
            p { (reply.advice) }
            dl.facts {
                dt { "Asks the origin for" } dd { (demand(reply.asks)) }
                @if let Some(culprit) = &reply.culprit { dt { "Because of" } dd.value { (cause(culprit)) } }
                @if let Some(site) = &reply.site {
                    dt { "Site" } dd.value { (site.name) }
                    dt { "Profile" } dd { (site.rules) }
                    dt { "Origin" } dd.value { (site.origin) }
                }
                @if let Some(key) = &reply.key {
                    dt { "Cache key" } dd.value { (key.scheme) "://" (key.host) (key.target) }
                    @if !key.variant_fields.is_empty() {
                        dt { "Variants by" } dd.value { (key.variant_fields.join(", ")) }
                    }
                }
                @if reply.is_being_fetched { dt { "Fetch" } dd { "under way now" } }
                @if let Some(instead) = &reply.if_origin_fails {
                    dt { "If the origin fails" } dd { (verdict(&instead.verdict)) " " (instead.reason) }
                }
            }
        }
        section aria-labelledby="title-stored" {
            h2 #title-stored { "Stored" }
            @match &reply.stored {
                Some(stored) => { (metadata(stored)) },
                None if reply.other_variants_only => p.empty { "Only other variants of this page are stored." },
                None => p.empty { "Nothing is stored for this URL." },
            }
            @if let Some(remembered) = &reply.remembered { (hit_for_miss(remembered)) }
        }
        @if reply.key.is_some() {
            p { a.button href={ "/dashboard/purge?kind=url&value=" (parameter(url)) } { "Purge this URL …" } }
        }
    }
}

fn metadata(stored: &StoredAnswer) -> Markup {
    let ttl = match u64::try_from(stored.ttl_secs) {
        Ok(left) => format!("{} left", span(left)),
        Err(_) => format!("stale since {}", span(stored.ttl_secs.unsigned_abs())),
    };
    html! {
        dl.facts {
            dt { "Status" } dd { (stored.status) }
            dt { "Content" } dd { (bytes(stored.content_bytes)) @if stored.is_part { ", a part of the whole" } }
            @for form in &stored.forms { dt { "Coded as " (form.coding) } dd { (bytes(form.content_bytes)) } }
            dt { "Age" } dd { (span(stored.age_secs)) " of " (span(stored.lifetime_secs)) ", " (ttl) }
            dt { "While it is refreshed" } dd { "usable for " (span(stored.stale_while_revalidate_secs)) " more" }
            dt { "While the origin fails" } dd {
                "usable for " (span(stored.stale_if_error_secs)) " more"
                @if stored.stale_if_error_overrides { ", by the setting stale_on_error" }
            }
            @if stored.is_validated_always { dt { "Validation" } dd { "before each use" } }
            @if stored.is_purged_softly { dt { "Purge" } dd { "a soft purge has made it stale" } }
            @if let Some(location) = &stored.location { dt { "Location" } dd.value { (location) } }
            @if let Some(control) = &stored.cache_control { dt { "Cache-Control" } dd.value { (control) } }
            @if let Some(sent) = &stored.sent_cache_control { dt { "Sent instead" } dd.value { (sent) } }
        }
    }
}

fn hit_for_miss(remembered: &RememberedAnswer) -> Markup {
    html! {
        p {
            "The last response could not be shared: " strong { (remembered.reason) } ". " (remembered.advice)
            @if let Some(culprit) = &remembered.culprit { " It was " (cause(culprit)) "." }
        }
    }
}

fn cause(cause: &Cause) -> String {
    format!("the {} {}", cause.kind, cause.name)
}

const fn demand(demand: OriginDemand) -> &'static str {
    match demand {
        OriginDemand::Nothing => "nothing",
        OriginDemand::Renewal => "a new copy, in the background",
        OriginDemand::Confirmation => "a confirmation of the stored response",
        OriginDemand::Page => "the page, once for all who want it",
        OriginDemand::OwnAnswer => "a response for this request alone",
    }
}
