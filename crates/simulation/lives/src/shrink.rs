//! Shrinks a failing plan: removes what the failure does not need.
//!
//! Invariant: the result fails by the same rule as the first run did. Shrinking ends after a number
//! of runs, so the result is small but not always minimal.

use crate::plan::{Element, RunPlan};
use std::collections::BTreeSet;

/// Shrinks `plan` with at most `runs_max` runs. `fails` runs a plan and returns whether it fails in
/// the same way. Returns the plan and the number of runs.
pub fn shrink(plan: &RunPlan, runs_max: usize, mut fails: impl FnMut(&RunPlan) -> bool) -> (RunPlan, usize) {
    let mut kept: Vec<Element> = plan.elements();
    let mut runs = 0;
    let mut chunk = kept.len().div_ceil(2).max(1);
    loop {
        let mut from = 0;
        while from < kept.len() {
            if runs >= runs_max {
                return (retained(plan, &kept), runs);
            }
            let end = (from + chunk).min(kept.len());
            let fewer: Vec<Element> = kept
                .iter()
                .enumerate()
                .filter(|(at, _)| !(from..end).contains(at))
                .map(|(_, kept)| *kept)
                .collect();
            runs += 1;
            if fails(&retained(plan, &fewer)) {
                kept = fewer;
            } else {
                from = end;
            }
        }
        if chunk == 1 {
            return (retained(plan, &kept), runs);
        }
        chunk = chunk.div_ceil(2);
    }
}

fn retained(plan: &RunPlan, kept: &[Element]) -> RunPlan {
    let kept: BTreeSet<Element> = kept.iter().copied().collect();
    plan.retained(&kept)
}
