//! Results for people and programs: text tables, `report.html`, `results.json`, ab's layout.
//!
//! Invariant: nothing here measures, decides or opens a file; texts come out, and are the same for the same
//! results.

pub mod ab;
pub mod bench_text;
pub mod compare;
pub mod csv;
mod grid;
pub mod hdr;
pub mod html;
pub mod import;
pub mod jtl;
pub mod live;
mod loads;
pub mod number;
pub mod page;
mod processes;
pub mod results;
pub mod run;
mod sentence;
pub mod staircase;
pub mod summary;
pub mod table;
pub mod thresholds;
