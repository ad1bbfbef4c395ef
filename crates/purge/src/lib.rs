//! What cache clients ask to be invalidated, in every dialect they speak: purge methods and headers of content systems,
//! fields in an application's answers, and a JSON API; and how they are answered.
//!
//! Pure: heads and content in, orders and replies out. This crate knows no socket and no clock. Who may purge, which
//! site a host belongs to, and carrying an order out are its callers' business.
//!
//! ```text
//!   PURGE, BAN, ...  -- read ---------> Order -- carried out --> Outcome -- reply --> Reply
//!   POST to the API  -- api::read ----> Order        "                        "
//!   answer's fields  -- signals ------> invalidations
//!   stored response  -- tags_of ------> tags
//! ```

pub mod api;
mod ban;
mod ban_expression;
mod dialect;
mod equivalents;
mod expression;
mod malformed;
mod order;
mod pattern;
mod reference;
mod reply;
mod signals;
mod tags;
mod target;

pub use ban::{Ban, Condition, Pages, Subject, Test};
pub use ban_expression::{BAN_BYTES_MAX, BanError, BanFault, CONDITIONS_MAX};
pub use dialect::{is_purge_method, read, refresh_by_get, strip_order};
pub use expression::TagExpression;
pub use malformed::{Fault, Malformed, Place};
pub use order::{Invalidation, Order, Reach, Style, Want};
pub use pattern::{PATTERN_BYTES_MAX, Pattern, PatternError};
pub use reference::purging_reference;
pub use reply::{Outcome, PURGED_COUNT, Reply, reply};
pub use signals::{Signals, is_hidden, purges_itself, signals};
pub use tags::{
    Side, Syntax, TAG_BYTES_MAX, TAG_HEADERS, TAGS_MAX, TagHeader, TagsError, group_tag, tags_of,
};
