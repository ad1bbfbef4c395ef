//! HTTP messages as Petasos passes them between its crates: methods, status codes, header fields,
//! heads.
//!
//! Invariant: a value of these types carries the bytes that were received or will be sent, in order
//! and unfolded. Nothing here normalises them. Field names are compared without regard to ASCII
//! case (RFC 9110 section 5.1). This crate neither parses nor writes a wire format (`h1` does) and
//! makes no decisions (`semantics` does).

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
