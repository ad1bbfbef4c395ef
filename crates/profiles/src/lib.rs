//! Profiles: what kinds of sites need of a cache, as data.
//!
//! A profile is a TOML file: which cookies mean a session, which change nothing, what is never shared, which lifetime
//! an answer gets that states none. What it resolves to is a [`Policy`], which `semantics` decides by. Those that are
//! shipped stand in `data/`, each row with the source that says so; a site may bring one of its own.
//!
//! What a site runs on, and so which profile is for it, is recognised here too.
//!
//! Invariant: nothing here decides about a message. A file with an unknown key, or a value that means nothing, is an
//! error that names the place; a profile widens what it extends and forgets nothing of it.

mod answers;
mod document_head;
mod evidence;
mod file;
mod identity;
mod known;
mod pattern;
mod policy;
mod profile;
mod recognition;
mod reference;
mod shipped;
mod software;

pub use document_head::DocumentHead;
pub use evidence::{FieldPattern, JsonFact, LocationPattern};
pub use identity::{IdentityRule, NumberPattern, is_identity};
pub use known::{KNOWN_COOKIES, KnownCookie, Use, known_cookie};
pub use pattern::Pattern;
pub use policy::{
    BeyondLimit, BriefRule, Changes, ClientAddress, Credentials, DeviceClass, Downstream, Forwarding,
    MaintenanceRule, NOBODYS_ADDRESS, Policy, RouteRule, StaleOnError, TargetedField, UnknownCookie,
    UnknownParameters, WriteRule,
};
pub use profile::{Profile, ProfileError};
pub use recognition::{Recognised, Shown};
pub use reference::profiles_reference;
pub use shipped::{AUTO, DEFAULT, LETTER};
pub use software::{Software, cookies_set, recognise};
