//! Reads purge requests in every dialect that cache clients speak, and writes the replies.
//!
//! Purges arrive as purge methods and headers of content management systems, as fields in an
//! origin's responses, and as calls of a JSON API.
//!
//! The crate does no I/O and reads no clock: request heads and contents go in, orders and replies
//! come out. Its callers decide which client may purge and which site a host belongs to, and they
//! carry out the orders.
//!
//! ```text
//!   PURGE, BAN, ...  -- read ---------> Order -- carried out --> Outcome -- reply --> Reply
//!   POST to the API  -- api::read ----> Order        "                        "
//!   response fields  -- signals ------> invalidations
//!   stored response  -- tags_of ------> tags
//! ```

pub mod api;
mod ban;
mod ban_expression;
mod dialect;
mod equivalents;
mod excerpt;
mod expression;
mod malformed;
mod order;
mod order_fields;
mod pattern;
mod reference;
mod reply;
mod signals;
mod tag_headers;
mod tags;
mod target;

pub use ban::{BanCondition, BanSubject, BanTest, ConditionBan, HostPages};
pub use ban_expression::{BAN_BYTES_MAX, BanError, BanFault, CONDITIONS_MAX};
pub use dialect::{is_purge_method, read, refresh_by_get, strip_order};
pub use expression::TagExpression;
pub use malformed::{Malformed, MalformedFault, MalformedPlace};
pub use order::{OrderItem, PurgeOrder, PurgeScope, Reach, Style};
pub use order_fields::presented_tokens;
pub use pattern::{BanPattern, PATTERN_BYTES_MAX, PatternError};
pub use reference::purging_reference;
pub use reply::{PURGED_COUNT, PurgeOutcome, PurgeReply, reply};
pub use signals::{Signals, is_hidden, purges_itself, signals};
pub use tag_headers::{Syntax, TAG_BYTES_MAX, TAG_HEADERS, TAGS_MAX, TagHeader, TagMessages};
pub use tags::{TagsError, group_tag, tags_of};
