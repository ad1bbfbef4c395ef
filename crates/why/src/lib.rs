//! Why a page is, or could be, answered from a cache: of a running edge, by asking it at its admin address, and of
//! any site, by asking it a few questions.
//!
//! ```text
//!   SiteUrl, HeaderLine -> ask (Fetcher) -> edge::why::Answer -> answer_text
//!                       -> Probe -> visit (Fetcher) -> Answers -> inspect -> Findings -> report, JSON
//! ```
//!
//! Invariant: a site is asked gently (one request at a time, few of them, with pauses and limits), only the host
//! that was named is contacted, and nothing is judged here that `semantics` judges. What an accelerator in front of
//! the site would do is its verdict; this crate adds whose cookie or field is the cause and what to do about it.

mod answer_text;
mod ask;
mod change;
mod fetch;
pub mod findings;
mod front;
mod header_line;
mod inspect;
mod lines;
mod probe;
mod reference;
mod remedy;
mod settings;
mod site_url;
mod text;
mod verdict;
mod visit;

pub use answer_text::answer_text;
pub use ask::{ADMIN_DEFAULT, AskError, Reply, ask, call_edge};
pub use fetch::{Answer, CONTENT_BYTES_MAX, FetchError, Fetcher, TIME_MAX};
pub use findings::Findings;
pub use front::{Front, Says};
pub use header_line::{HeaderLine, HeaderLineError};
pub use inspect::inspect;
pub use probe::Probe;
pub use reference::{ANSWER_MEMBERS, DIRECT_MEMBERS, why_reference};
pub use site_url::{SiteUrl, SiteUrlError};
pub use text::report;
pub use visit::{PAUSE_DEFAULT, Visit, visit};
