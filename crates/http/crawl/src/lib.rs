//! Which pages of a site a program may visit on its own, in which order, and how fast.
//!
//! ```text
//! robots.txt -> Robots ----------------+
//! sitemap, feed, list -> SitemapPlan --+-> Frontier -> next page -> (caller) -> document
//! document -> page::document_links ----+      ^                        |
//!             link_refusal (rules)            +------------------------+
//!                                          Pace: when the next request may start
//! ```
//!
//! The edge fills its cache with it ([`Warming`]). `petasos try` visits a few pages of any site.
//!
//! Invariant: the crate is pure. Its inputs are bytes and `now`; it uses no socket, clock, disk or
//! random source. The same inputs in the same order give the same pages in the same order. Every
//! list that a site can lengthen has a limit with a name, and URLs left out by a limit or rule are
//! counted.

mod frontier;
mod link_rules;
pub mod pace;
mod queue;
mod reference;
mod robots;
mod scope;
mod sitemap;
mod sitemap_plan;
mod skipped;
mod w3c_date;
mod warming;

pub use frontier::{
    Frontier, FrontierError, FrontierLimits, FrontierState, PageHints, PageSource, PlannedPage,
    RESTRICTED_PER_PATH_MAX,
};
pub use link_rules::{LinkRule, RULES, RuleClass, RuleRow, link_refusal};
pub use reference::crawling_reference;
pub use robots::{CRAWL_DELAY_MAX, PRODUCT_TOKEN, ROBOTS_BYTES_MAX, Robots};
pub use scope::{OutOfScope, Scope, URL_BYTES_MAX};
pub use sitemap::{
    SITEMAP_BYTES_MAX, SITEMAP_ENTRIES_MAX, Sitemap, SitemapEntry, SitemapError, SitemapKind, read_sitemap,
};
pub use sitemap_plan::{INDEX_DEPTH_MAX, SITEMAPS_MAX, SitemapPlan, USUAL_SITEMAPS};
pub use skipped::{SkipCause, SkipCount, Skipped};
pub use warming::{
    DocumentOutcome, PageOutcome, URLS_BYTES_MAX, WarmCounts, WarmEnd, WarmError, WarmOrder, WarmState,
    WarmStep, Warming, listed_pages,
};
