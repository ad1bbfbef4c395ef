//! The steps of a request, one file each, and what they share.

pub(crate) mod asked_target;
pub(crate) mod asking;
pub(crate) mod client;
pub(crate) mod client_address;
pub(crate) mod conclude;
pub(crate) mod date;
pub(crate) mod decoded;
pub(crate) mod deliver;
pub(crate) mod delivery;
pub(crate) mod event_stream;
pub(crate) mod excerpt;
pub(crate) mod foreign_ports;
pub(crate) mod forward;
pub(crate) mod guard;
pub(crate) mod gunzip;
pub(crate) mod leak_check;
pub(crate) mod lookup;
pub(crate) mod pace;
pub(crate) mod parameter_flood;
pub(crate) mod pass;
pub(crate) mod pipeline;
pub(crate) mod refusal;
pub(crate) mod respond;
pub(crate) mod tunnel;
pub(crate) mod wait;
pub(crate) mod writes;
