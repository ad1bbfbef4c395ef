//! Tries Petasos on a running site, without a change of the site.
//!
//! ```text
//!   URL -> Visitor (crawl, why, temporary edge) -> PageFacts -> judge -+-> TrialReport
//!          measure (load, directly and through the edge) -> judge_load +     |
//!                                             screen, html_page, share, JSON +
//! ```
//!
//! Invariants:
//!
//! - The site gets GET requests only. The visit sends one at a time, at the pace of `crawl`. Only
//!   the host of the URL is contacted, and it is loaded only if it is this machine.
//! - The temporary edge listens at free loopback ports and writes no file.
//! - Statements about a page were observed: a page counts as answered from memory only if the
//!   temporary edge did so, and as the same only if the responses were compared.

mod configuration;
mod factor;
mod html_page;
mod judge;
mod judge_load;
mod latency_guard;
mod layers;
mod load_text;
mod local;
mod measure;
mod preview;
mod report;
mod rewrite;
mod sameness;
mod screen;
mod share;
mod temporary_edge;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
mod testing;
mod visitor;

pub use factor::FactorRange;
pub use html_page::trial_html;
pub use judge::trial_report;
pub use judge_load::{load_target, with_load};
pub use local::is_on_this_machine;
pub use measure::{
    FAILURES_MAX, LoadResult, LoadTarget, LoadTerms, RoundFigures, SideFigures, USERS, measure,
};
pub use preview::Preview;
pub use report::{
    Comparison, EverybodysCookie, FORMAT, Factors, FailedPage, LayerReport, LoadFigures, LoadReport,
    PageClass, PageReport, SkippedLinks, TrialReport,
};
pub use sameness::Sameness;
pub use screen::screen;
pub use share::share_text;
pub use temporary_edge::{EdgeError, TemporaryEdge};
pub use visitor::{
    DELAYED_TIME_MAX, PAGES_MAX, PageFacts, SiteVisit, TrialError, VisitNews, VisitTerms, Visitor,
};
