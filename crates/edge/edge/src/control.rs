//! Operators and systems: the admin interface, purges, metrics and logs.

pub(crate) mod access_log;
pub(crate) mod admin;
mod changes;
pub(crate) mod counters;
mod dashboard;
mod dashboard_access;
mod dashboard_events;
mod dashboard_forms;
mod dashboard_reports;
mod dashboard_requests;
pub(crate) mod figures;
pub(crate) mod first_look;
pub(crate) mod identity;
pub(crate) mod log_output;
mod log_reference;
pub(crate) mod log_socket;
mod log_stream;
pub(crate) mod metrics;
pub(crate) mod operator;
pub(crate) mod purge_access;
pub(crate) mod purge_orders;
pub(crate) mod reach;
pub(crate) mod reference;
pub(crate) mod request_times;
pub(crate) mod token;
pub(crate) mod uncompressed;
pub(crate) mod why;
