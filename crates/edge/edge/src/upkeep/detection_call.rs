//! `POST /profile` at the admin address, by which an operator undoes a detection.
//!
//! Invariant: it needs the same permission as a purge, because it invalidates everything of a site.

use crate::shared::Shared;
use crate::sites::Site;
use crate::upkeep::detection;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The path of the call.
pub(crate) const PATH: &[u8] = b"/profile";

/// Maximum size of a call's content in bytes.
pub(crate) const CONTENT_BYTES_MAX: usize = 4 * 1024;

/// The content of a call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    /// One of the site's names, or `any` for the site that answers to any name.
    site: String,
    /// False: drop the detected profile and switch off detection. True: drop it and detect anew.
    detect: bool,
}

/// Carries out a call; returns the status and the JSON of the answer.
pub(crate) async fn carry_out(shared: &Arc<Shared>, content: &[u8]) -> (u16, Value) {
    let call: Call = match serde_json::from_slice(content) {
        Ok(call) => call,
        Err(error) => return (400, json!({ "error": format!("The call cannot be read: {error}.") })),
    };
    let is_meant = |site: &&Arc<Site>| site.label() == call.site || site.plan.names.contains(&call.site);
    let Some(site) = shared.sites.iter().find(is_meant) else {
        return (404, json!({ "error": format!("There is no site `{}`.", call.site) }));
    };
    if site.plan.recognisable.is_empty() {
        let error =
            format!("The site has the fixed profile `{}`; Petasos detects none for it.", site.plan.profile);
        return (409, json!({ "error": error }));
    }
    let before = site.policy().name.clone();
    if !detection::set_detection(shared, site, call.detect).await {
        let error =
            "The change is in force, but it could not be written to the disk, so a restart may undo it.";
        return (503, json!({ "in_force": true, "durable": false, "error": error }));
    }
    (
        200,
        json!({ "site": site.label(), "before": before, "rules": site.policy().name, "detect": call.detect }),
    )
}
