//! HTTP messages as Petasos passes them between its rooms: methods, status codes, header fields, heads.
//!
//! Invariant: a value of these types carries the octets that were received or will be sent, in order and
//! unfolded; nothing here normalises. Equality of field names ignores ASCII case (RFC 9110 section 5.1).
//! This crate does not parse or write any wire format (`h1` does) and takes no decisions (`semantics` does).

mod body;
mod fields;
mod head;
mod method;
pub mod names;
mod status;

pub use body::Frame;
pub use fields::{Field, Fields, list_members};
pub use head::{RequestHead, ResponseHead, Version};
pub use method::Method;
pub use status::Status;
