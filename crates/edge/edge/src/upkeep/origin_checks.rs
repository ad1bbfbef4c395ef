//! Health checks of origins: each that has one configured, and each of several whose breaker is
//! open.
//!
//! Invariant: a change of the verdict is one line in the log.

use crate::shared::Shared;
use crate::sites::Site;
use bytes::Bytes;
use origin::{FetchClient, HealthCheck, Origin};
use profiles::NOBODYS_ADDRESS;
use std::sync::Arc;

/// Starts the checks that are due. Must be called about once a second.
pub(crate) fn start_due(shared: &Shared) {
    for site in shared.sites.of_each_origin() {
        let is_always = site.plan.balance.check_path.is_some();
        let needs_check = |origin: &&Arc<Origin>| is_always || site.origin.is_plural() && origin.is_open();
        for origin in site.origin.origins().filter(needs_check) {
            let (origin, label) = (Arc::clone(origin), site.label().to_owned());
            let is_plural = site.origin.is_plural();
            let check = check(site, &origin, shared);
            tokio::spawn(async move {
                if let Some(is_well) = origin.check(&check).await {
                    log(&origin, (&label, is_plural), is_well);
                }
            });
        }
    }
}

fn check(site: &Site, origin: &Origin, shared: &Shared) -> HealthCheck {
    let own_name = || site.plan.names.iter().find(|name| !name.starts_with('*')).cloned();
    let host = site.plan.public_host.clone().or_else(own_name);
    let host = host.unwrap_or_else(|| origin.url().authority());
    let path = site.plan.balance.check_path.as_deref();
    HealthCheck {
        head: head(path.unwrap_or("/"), &host),
        interval: site.plan.balance.check_interval,
        timeout: shared.limits.probe_pause_max,
        is_strict: path.is_some(),
        client: FetchClient::Any(NOBODYS_ADDRESS),
    }
}

/// The head of a check.
fn head(path: &str, host: &str) -> Bytes {
    let agent = concat!("Petasos/", env!("CARGO_PKG_VERSION"), " (health check)");
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\nAccept: */*\r\n\r\n").into()
}

/// Reports a new verdict. `is_plural`: the site has other origins.
fn log(origin: &Origin, (site, is_plural): (&str, bool), is_well: bool) {
    let url = origin.url();
    let effect =
        if is_plural { "other origins of the site get its requests" } else { "the site has no other" };
    if is_well {
        tracing::info!("origin {url} (site {site}) passes its health checks again");
    } else {
        tracing::warn!("origin {url} (site {site}) fails its health checks; {effect}");
    }
}
