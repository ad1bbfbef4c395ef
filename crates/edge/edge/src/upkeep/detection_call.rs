//! `POST /profile` at the admin address, by which an operator undoes a detection.
//!
//! Invariant: it needs the same permission as a purge, because it invalidates everything of a site.

use crate::shared::Shared;
use crate::sites::Site;
use crate::upkeep::detection;
use api::profile::{Call, ProfileRefusal, ProfileReply};
use std::sync::Arc;

/// The path of the call.
pub(crate) const PATH: &[u8] = api::profile::PATH.as_bytes();

/// Maximum size of a call's content in bytes.
pub(crate) const CONTENT_BYTES_MAX: usize = 4 * 1024;

/// Carries out a call.
///
/// # Errors
/// The status and the reply of a call that was not carried out, or not completely.
pub(crate) async fn carry_out(
    shared: &Arc<Shared>,
    content: &[u8],
) -> Result<ProfileReply, (u16, ProfileRefusal)> {
    let refused = |code, error| Err((code, ProfileRefusal { durable: None, error, in_force: None }));
    let call: Call = match serde_json::from_slice(content) {
        Ok(call) => call,
        Err(error) => return refused(400, format!("The call cannot be read: {error}.")),
    };
    let has_label = |site: &&Arc<Site>| site.label() == call.site;
    // A name means the site itself; the label of a route means its pages alone.
    let has_name = |site: &&Arc<Site>| site.plan.route.is_none() && site.plan.names.contains(&call.site);
    let found = shared.sites.iter().find(has_label).or_else(|| shared.sites.iter().find(has_name));
    let Some(site) = found else {
        return refused(404, format!("There is no site `{}`.", call.site));
    };
    if site.plan.recognisable.is_empty() {
        let error =
            format!("The site has the fixed profile `{}`; Petasos detects none for it.", site.plan.profile);
        return refused(409, error);
    }
    let before = site.policy().name.clone();
    if !detection::set_detection(shared, site, call.detect).await {
        let error =
            "The change is in force, but it could not be written to the disk, so a restart may undo it.";
        return Err((
            503,
            ProfileRefusal { durable: Some(false), error: error.to_owned(), in_force: Some(true) },
        ));
    }
    let rules = site.policy().name.clone();
    Ok(ProfileReply { before, detect: call.detect, rules, site: site.label().to_owned() })
}
