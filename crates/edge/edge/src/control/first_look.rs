//! Checks at the start whether the origins can be reached, and warns the operator if not.
//!
//! Invariant: the result is only a message, because an origin may be started after the edge.

use crate::shared::Shared;
use std::collections::BTreeMap;
use std::io;

/// Connects once to each origin, and reports those that cannot be reached.
pub(crate) async fn look(shared: &Shared) {
    // Several sites may share an origin.
    let mut origins = BTreeMap::new();
    for site in shared.sites.iter() {
        let origin = &site.plan.origin;
        let (_, sites) = origins.entry(origin.to_string()).or_insert_with(|| (origin.address(), Vec::new()));
        sites.push(site.label());
    }
    for (origin, (address, sites)) in origins {
        let connecting = shared.system.network.connect(address);
        let connected = tokio::time::timeout(shared.limits.connect_timeout, connecting).await;
        if let Err(error) = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            tracing::warn!(
                "warning: the origin {origin} of site {} cannot be reached: {error}; start it, or correct `origin`",
                sites.join(", ")
            );
        }
    }
}
