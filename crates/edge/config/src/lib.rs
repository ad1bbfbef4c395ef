//! Settings of the edge: the table of all settings, the configuration file as the user wrote it,
//! and the resolved [`EdgePlan`]. The document keeps the place of every value for messages. The
//! plan is immutable, and the edge runs on it.
//!
//! Invariant: a value reaches the plan only through its row in [`SETTINGS`]. An unknown key and a
//! value of the wrong kind or out of range become a [`Diagnostic`] with place and fix. They are
//! never ignored.
//!
//! This crate binds no address, opens no file and reads no variable by itself, so `petasos check`
//! runs the same code as a start.

mod admin_table;
mod cdn;
mod certificates;
mod compression_table;
mod context_table;
mod document;
mod guard_table;
mod levels;
mod listener_table;
mod log_level;
mod log_table;
mod machine;
mod origin_member;
mod peers;
mod plan;
mod reference;
mod route_table;
mod row;
mod rules;
mod sense;
mod setting;
mod site_table;
mod table;
mod void;
mod warm_table;

pub use self::document::{ConfigDocument, Overrides};
pub use cdn::{CDNS, Cdn};
pub use log_level::LogLevel;
pub use machine::Machine;
pub use origin_member::OriginMember;
pub use peers::PeerEntry;
pub use plan::{
    AccessLogTarget, AcmePlan, AdminTlsPlan, ContextKey, ContextPlan, ContextSource, DiskPlan, EdgeLimits,
    EdgePlan, FieldRules, FilesPlan, FixedAnswer, GuardPlan, ListenerPlan, LogFormat, LogTerms, LoggedIn,
    MaintenancePlan, MissingFile, OriginBalance, OriginTlsPlan, PasswordPlan, RateLimit, RedirectAnswer,
    RedirectPlan, RouteAction, RouteMatcher, RoutePlan, SiteLimits, SitePlan, StaticTreePlan, TlsPlan,
    TracePlan, WarmPlan, is_about_storing,
};
pub use reference::settings_reference;
pub use setting::{CertificatePaths, CertificateSource, Setting, SettingKind, SettingScope, SettingValue};
pub use table::SETTINGS;

use ::document::Diagnostic;

/// Reads the text of a file, given its path as the configuration wrote it.
pub type ReadFile<'a> = dyn Fn(&str) -> std::io::Result<String> + 'a;

/// Reads a configuration text and the command line's overrides into a plan.
///
/// - `name` is the text's name in messages, usually its path.
/// - `overrides` are `(key, value)` pairs from flags; they win over the text.
/// - `machine` supplies the figures and directories that defaults are derived from.
/// - `read` reads the further files that the text names: included files, profiles, lists of peers,
///   pages and the token file.
///
/// # Errors
/// All problems found. If the text has a syntax error, an unknown key or an illegal value, only the
/// problems of the text are returned, in its order.
pub fn load(
    name: &str,
    text: &str,
    overrides: &Overrides,
    machine: &Machine,
    read: &ReadFile<'_>,
) -> Result<EdgePlan, Vec<Diagnostic>> {
    let document = ConfigDocument::parse(name, text)?.with_includes(name, read)?;
    plan::resolve(&document, overrides, machine, read)
}
