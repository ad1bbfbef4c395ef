//! Profiles: the caching rules for kinds of sites, as data.
//!
//! A profile is a TOML file. Its rows name, for example, the cookies that mark a session, the
//! cookies that change nothing, and the paths that are never shared. It resolves to a [`Policy`],
//! the basis of decisions in `semantics`. The shipped profiles are in `data/`, where each row names
//! its source. A site may bring its own profile.
//!
//! The crate also detects the system that a site runs on, and so the profile for it.
//!
//! Invariant: this crate decides nothing about a message. An unknown key or a meaningless value in
//! a file is an error that names the place. A profile adds to the one that it extends; it replaces
//! single values but removes no row.

mod answers;
mod document_head;
mod evidence;
mod file;
mod identity;
mod known;
mod pattern;
mod policy;
mod profile;
mod read_file;
mod recognition;
mod reference;
mod shipped;
mod software;

pub use document_head::DocumentHead;
pub use evidence::{FieldPattern, JsonFact, LocationPattern};
pub use identity::{IdentityRule, NumberPattern, is_identity};
pub use known::{CookiePurpose, KNOWN_COOKIES, KnownCookie, known_cookie};
pub use pattern::Pattern;
pub use policy::{
    BeyondLimit, BriefRule, Changes, ClientAddress, Credentials, DeviceClass, Downstream, Forwarding,
    MaintenanceRule, NOBODYS_ADDRESS, Policy, RouteRule, StaleOnError, TargetedField, UnknownCookie,
    UnknownParameters, WriteRule,
};
pub use profile::Profile;
pub use recognition::{RecognisedProfile, ResponseEvidence};
pub use reference::profiles_reference;
pub use shipped::{AUTO, DEFAULT, LETTER};
pub use software::{Software, cookies_set, recognise};
