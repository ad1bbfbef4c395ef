//! Addresses as users write them: of listeners and origins, of the pages that are requested, and
//! prefixes of client addresses.
//!
//! Invariant: nothing is resolved, opened or connected here. An error says how to write the text.

mod address;
mod http_url;
mod origin_url;
mod prefixes;

pub use address::{Address, AddressError};
pub use http_url::{HttpUrl, HttpUrlError};
pub use origin_url::{OriginUrl, OriginUrlError};
pub use prefixes::{Prefix, PrefixError, Prefixes};
