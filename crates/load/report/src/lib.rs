//! Presents results to people and programs: text tables, `report.html`, `results.json` and
//! ApacheBench's layout.
//!
//! Invariant: this crate measures nothing, decides nothing about a run and opens no file. The same
//! results always give the same text.

pub mod ab;
pub mod bench_text;
pub mod compare;
pub mod csv;
mod details;
pub mod difference;
mod grid;
pub mod hdr;
mod headline;
pub mod html;
pub mod import;
pub mod jtl;
pub mod live;
mod loads;
pub mod markdown;
pub mod number;
pub mod page;
mod processes;
mod repeat;
pub mod results;
pub mod run;
mod sentence;
pub mod staircase;
pub mod star;
pub mod summary;
pub mod table;
pub mod thresholds;
