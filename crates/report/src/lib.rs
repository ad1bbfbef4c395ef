//! Results for people and programs: text tables, `report.html`, `results.json`, ab's layout.
//!
//! Invariant: nothing here measures, decides or opens a file; texts come out, and are the same for the same
//! results.

pub mod ab;
mod grid;
pub mod html;
pub mod number;
mod processes;
pub mod results;
pub mod run;
mod sentence;
pub mod summary;
pub mod table;
