//! `POST /profile`: an operator undoes or restarts the detection of a site's profile.

use serde::{Deserialize, Serialize};

/// The path of the call.
pub const PATH: &str = "/profile";

/// The content of a call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// One of the site's names, or `any` for the site that answers to any name.
    pub site: String,
    /// False: drop the detected profile and switch off detection. True: drop it and detect anew.
    pub detect: bool,
}

/// The reply to a call that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ProfileReply {
    /// The profile whose rules were in force before.
    pub before: String,
    /// As in the call.
    pub detect: bool,
    /// The profile whose rules are in force now.
    pub rules: String,
    /// The site's first name, or `any`.
    pub site: String,
}

/// The reply to a call that was not carried out, or not completely.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ProfileRefusal {
    /// Whether a restart keeps the change; only for a change in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<bool>,
    /// The fault, in a sentence.
    pub error: String,
    /// Whether the change is in force nevertheless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<bool>,
}
