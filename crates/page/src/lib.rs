//! What a browser loads with a page, and what its visitor keeps of it: cookies and a private cache; and what the head
//! of a page says of the system behind it.
//!
//! ```text
//! Loading::page -> fetch -> document   -> items (extract), stylesheets -> fetch -> imports ... -> styles -> files,
//! fonts                           dom <- html5ever      css, selector, media, srcset                     style ```
//!
//! The window is 1280 by 720 CSS pixels, one device pixel to each, with scripting on. Scripts do not run, and there
//! is no layout: what they would add is not loaded, and lazy images are told, not loaded.
//!
//! Invariant: pure. Octets and `now` in, addresses out; no socket, clock, disk or random source. Every bound has a
//! name in [`Limits`] and a count in [`LimitCounts`], so that a page that lies costs little and is seen.

mod cache;
mod coding;
mod cookies;
mod css;
mod css_text;
mod css_value;
mod dom;
mod extract;
mod head;
mod limits;
mod loading;
mod media;
mod selector;
mod srcset;
mod style;

pub use cache::{CACHE_BYTES_MAX, CACHE_ENTRIES_MAX, Kept, PrivateCache};
pub use coding::{CodingError, decoded};
pub use cookies::{COOKIE_BYTES_MAX, COOKIES_MAX, Jar};
pub use extract::Class;
pub use head::{HEAD_BYTES_MAX, document_head, target_on_host};
pub use limits::{Limit, LimitCounts, Limits};
pub use loading::{Asset, Loading, Memo};
pub use media::Viewport;
