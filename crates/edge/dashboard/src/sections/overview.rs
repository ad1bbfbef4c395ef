//! The first section: the figures that an operator looks at first, and problems that need
//! attention.

use super::bar;
use crate::View;
use crate::chart::{Chart, Line};
use crate::figure::{bytes, grouped, percent, share, short, span};
use crate::sample::Counts;
use api::status::{DiskStatus, EdgeStatus};
use maud::{Markup, html};

/// Maximum number of sentences about problems.
const ATTENTION_MAX: usize = 20;

/// A certificate needs attention when it expires within this time.
const EXPIRY_NEAR_SECS: u64 = 14 * 86_400;

pub(super) fn overview(view: &View<'_>) -> Markup {
    let attention = attention(view);
    html! {
        @if !attention.is_empty() {
            div.attention {
                p { strong { "Needs attention" } }
                ul { @for text in &attention { li { (text) } } }
            }
        }
        div.now {
            (tiles(view))
            (last_minutes(view))
        }
    }
}

fn tiles(view: &View<'_>) -> Markup {
    let (data, rates, counts) = (view.data, view.samples.rates(), Counts::of(view.data));
    let status = &data.status;
    let sum = |count: fn(&api::status::SiteStatus) -> usize| status.sites.iter().map(count).sum::<usize>();
    let recent = rates.and_then(|rates| rates.hit_ratio);
    html! {
        dl.tiles {
            div {
                dt { "Requests per second" }
                dd { (rates.map_or_else(|| "–".to_owned(), |rates| short(rates.requests))) }
                dd.more { span #requests-total data-value=(status.requests) { (grouped(status.requests)) }
                    " in " (span(status.uptime_secs)) }
            }
            div {
                dt { "From the cache" }
                dd { (recent.or_else(|| share(counts.hits, counts.pages)).map_or_else(|| "–".to_owned(), percent)) }
                dd.more {
                    @match share(counts.hits, counts.pages) {
                        Some(all) => { (percent(all)) " of " (grouped(counts.pages)) " since the start" },
                        None => { "no page was requested yet" },
                    }
                }
            }
            div {
                dt { "Fetches from origins" }
                dd { (grouped(sum(|site| site.fetches_active) as u64)) }
                dd.more { (sum(|site| site.fetches_waiting)) " waiting in queues" }
            }
            div {
                dt { "Connections" }
                dd { (grouped(status.connections as u64)) }
                dd.more { (status.workers) " workers, version " (status.version) }
            }
            (memory(view))
            (processor(view))
            @if let Some(disk) = &status.disk { (disk_tile(disk)) }
        }
    }
}

fn memory(view: &View<'_>) -> Markup {
    let (machine, store) = (&view.data.machine, &view.data.status.store);
    html! {
        div {
            dt { "Stored in memory" }
            dd { (bytes(store.bytes)) }
            dd.more { (bar(share(store.bytes, store.bytes_max))) }
            dd.more {
                "of " (bytes(store.bytes_max)) ", " (grouped(store.objects)) " objects"
                @if let Some(resident) = machine.resident_bytes {
                    ". The process has " (bytes(resident)) " of " (bytes(machine.memory_bytes_max))
                }
            }
        }
    }
}

fn processor(view: &View<'_>) -> Markup {
    let machine = &view.data.machine;
    let Some(all) = machine.cpu_percent else { return html! {} };
    html! {
        div {
            dt { "Processor" }
            dd { (short(all)) "%" }
            dd.more { (bar(Some(all / 100.0))) }
            dd.more {
                "Petasos " (machine.own_cpu_percent.map_or_else(|| "?".to_owned(), short)) "%"
                @if let Some(database) = machine.database_cpu_percent { ", database " (short(database)) "%" }
            }
        }
    }
}

fn disk_tile(disk: &DiskStatus) -> Markup {
    html! {
        div {
            dt { "Stored on disk" }
            dd { (bytes(disk.bytes)) }
            dd.more { (bar(share(disk.bytes, disk.bytes_max))) }
            dd.more { "of " (bytes(disk.bytes_max)) ", " (grouped(disk.objects)) " objects" }
        }
    }
}

/// The chart of the samples.
fn last_minutes(view: &View<'_>) -> Markup {
    let requests = view.samples.slots(|counts| counts.requests);
    if requests.iter().flatten().count() < 2 {
        return html! {};
    }
    let hits = view.samples.slots(|counts| counts.hits);
    let failed = view.samples.slots(|counts| counts.failed);
    let line = |name, values| Line { name, values, usual: &[] };
    html! {
        div {
            (Chart {
                id: "recent",
                title: "Requests of the last two minutes",
                unit: "1/s",
                lines: &[line("all", &requests), line("from the cache", &hits), line("failed", &failed)],
                ticks: &[(0.0, "-2 min".to_owned()), (0.5, "-1 min".to_owned()), (1.0, "now".to_owned())],
                period: "the last two minutes",
            }.draw())
        }
    }
}

/// Warnings for an operator, as sentences.
fn attention(view: &View<'_>) -> Vec<String> {
    let status = &view.data.status;
    let mut found = Vec::new();
    if status.draining {
        found.push("The edge drains and takes no new connection.".to_owned());
    }
    for site in &status.sites {
        let name = site.names.first().map_or("any", String::as_str);
        if site.breaker != "closed" {
            found.push(format!("The breaker of {} ({name}) is {}.", site.origin, site.breaker));
        }
        let unwell = site.unwell_origins();
        found.extend(unwell.map(|origin| format!("The origin {} ({name}) is {}.", origin.url, origin.state)));
        found.extend(site.uncompressed.clone());
    }
    found.extend(status.disk.iter().filter_map(disk_fault));
    if view.data.history_off {
        found.push("The values of each minute do not reach their file; the log says why.".to_owned());
    }
    found.extend(certificate_faults(view, status));
    let more = found.len().saturating_sub(ATTENTION_MAX);
    if more > 0 {
        found.truncate(ATTENTION_MAX);
        found.push(format!("{more} more."));
    }
    found
}

fn disk_fault(disk: &DiskStatus) -> Option<String> {
    let what = if disk.off {
        "is not used; the log says why"
    } else if disk.hung || disk.stuck > 0 {
        "does not answer"
    } else {
        return None;
    };
    Some(format!("The disk {} {what}.", disk.directory))
}

fn certificate_faults(view: &View<'_>, status: &EdgeStatus) -> Vec<String> {
    let failing = status.certificates.iter().filter_map(|certificate| {
        let error = certificate.last_error.as_ref()?;
        Some(format!("No certificate for {} was obtained: {error}", certificate.names.join(", ")))
    });
    let near = view.certificates.iter().filter_map(|certificate| {
        let left = certificate.expires_secs.saturating_sub(view.data.at_secs);
        let names = certificate.names.join(", ");
        (left < EXPIRY_NEAR_SECS).then(|| match left {
            0 => format!("The certificate of {names} has expired."),
            left => format!("The certificate of {names} expires in {}.", span(left)),
        })
    });
    failing.chain(near).collect()
}
