//! The record of one request, and its uses: lines in several formats, and a filter.
//!
//! Invariant: text from clients cannot leave its place in a line. A combined line is printable
//! ASCII, a JSON line is one line of valid UTF-8, and a field of the journal or of a span has a
//! length.
//!
//! This crate writes into memory. `edge` collects records and sends them.

mod anonymise;
mod combined;
mod date;
mod decimal;
pub mod filter;
mod journal;
mod json;
pub mod otlp;
mod protobuf;
mod record;
mod syslog;
mod trace;

pub use anonymise::without_last_bits;
pub use combined::{COMBINED_FORMAT, push_combined};
pub use date::push_rfc3339;
pub use journal::push_journal_entry;
pub use json::push_json;
pub use record::{ClientName, FetchPhases, PageKey, Phases, Protocol, RequestRecord};
pub use syslog::{push_local_syslog_header, push_syslog_header};
pub use trace::{SAMPLED, SpanContext, TraceId, trace_of};
