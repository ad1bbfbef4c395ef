//! The browser side of a page: its resources, the visitor's cookies and private cache, the links to
//! other pages, and the evidence in its head that identifies the CMS.
//!
//! ```text
//! Loading::page -> fetch -> document -> resources -> fetch              (dom, extract, srcset)
//!                                    -> stylesheets -> fetch            (css, selector, media)
//!                                           -> imports -> fetch
//!                                           -> images, fonts -> fetch   (style)
//! ```
//!
//! The window is 1280 by 720 CSS pixels, with one device pixel per CSS pixel and scripting enabled.
//! Scripts do not run and there is no layout. Resources that a script would add are therefore
//! missing. Lazy images and frames are listed but not loaded.
//!
//! Invariant: the crate is pure. Its inputs are bytes and `now`, its outputs are URLs. It uses no
//! socket, clock, disk or random source. Every bound has a name in [`resource::PageLimits`] and a
//! count in [`resource::LimitCounts`], so a hostile page costs little and is visible in the report.

mod cache;
mod coding;
mod cookies;
mod css;
mod css_text;
mod css_value;
mod dom;
mod extract;
mod head;
mod links;
mod loading;
mod media;
mod selector;
mod srcset;
mod style;

pub use cache::{CACHE_BYTES_MAX, CACHE_ENTRIES_MAX, CacheLookup, PrivateCache};
pub use coding::{CodingError, decoded, gunzip};
pub use cookies::{COOKIE_BYTES_MAX, COOKIES_MAX, Jar};
pub use head::{HEAD_BYTES_MAX, document_head, target_on_host};
pub use links::{DocumentLink, DocumentLinks, LINKS_MAX, LinkKind, document_links, forbids_following};
pub use loading::{Loading, Memo, Subresource};
pub use media::Viewport;
