//! Explains why a page is, or could be, answered from a cache. A running edge is asked at its admin
//! address. Any other site is probed with a few requests.
//!
//! ```text
//!   HttpUrl, HeaderLine -> ask (Fetcher) -> api::why::Answer -> answer_text
//!                       -> Probe -> visit (Fetcher) -> Answers -> inspect -> Findings
//!                          -> report, JSON
//! ```
//!
//! Invariants:
//!
//! - A site is probed gently: few requests, one at a time, with pauses and limits. Only the named
//!   host is contacted.
//! - `semantics` decides whether a response may be shared. This crate adds which cookie or field is
//!   the cause, which software it belongs to, and what to do about it.

mod admin;
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
mod text;
mod verdict;
mod visit;

pub use admin::{EdgeAccess, EdgeStream, StreamReply};
pub use answer_text::answer_text;
pub use ask::{ADMIN_DEFAULT, AskError, EdgeReply, ask};
pub use fetch::{CONTENT_BYTES_MAX, FetchedResponse, Fetcher, ProbeError, TIME_MAX};
pub use front::{CacheAction, CacheStatement};
pub use header_line::{HeaderLine, HeaderLineError};
pub use inspect::inspect;
pub use lines::{COLUMNS, TextLines, bytes_text, seconds_text};
pub use probe::{Probe, plain_request};
pub use reference::{ANSWER_MEMBERS, DIRECT_MEMBERS, why_reference};
pub use remedy::has_password_field;
pub use text::report;
pub use visit::{PAUSE_DEFAULT, ProbeResponses, visit};
