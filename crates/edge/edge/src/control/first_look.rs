//! Checks at the start whether the origins can be reached, and warns the operator if not.
//!
//! Invariant: the result is only a message, because an origin may be started after the edge.

use crate::shared::Shared;
use origin::FetchClient;
use profiles::NOBODYS_ADDRESS;
use std::collections::BTreeMap;

/// Connects once to each origin, and reports those that cannot be reached or verified.
pub(crate) async fn look(shared: &Shared) {
    // Several sites may share an origin.
    let mut origins = BTreeMap::new();
    for site in shared.sites.iter() {
        for origin in site.origin.origins() {
            let url = origin.url().to_string();
            let (_, sites) = origins.entry(url).or_insert_with(|| (origin, Vec::new()));
            sites.push(site.label());
        }
    }
    for (url, (origin, sites)) in origins {
        if let Err(error) = origin.try_connect(FetchClient::Any(NOBODYS_ADDRESS)).await {
            tracing::warn!(
                "warning: the origin {url} of site {} cannot be reached: {error}; start it, or correct `origin`",
                sites.join(", ")
            );
        }
    }
}
