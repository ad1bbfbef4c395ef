//! `report.html`: one file that opens anywhere.

use crate::results::Results;

/// The page.
pub fn page(results: &Results) -> String {
    results.title.clone()
}
