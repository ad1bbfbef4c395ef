//! The store alone: runs the programs of `bench/store`, one for each allocator, as separate
//! processes, and turns their figures into rows.
//!
//! Invariant: every figure that a program prints becomes a row.

use super::super::optimised;
use super::table::{FigureTable, FigureTarget};
use anyhow::{Context, Result, ensure};
use std::process::{Command, Stdio};

/// Programs and suffixes of their rows: one with the release binary's allocator, one with the
/// system's.
const PROGRAMS: [(&str, &str); 2] = [("store-mimalloc", ""), ("store-system", ", system's allocator")];
/// Maximum resident memory, in mebibytes: the store's 512, a tenth more, and another 64.
const RESIDENT_MOST: f64 = 512.0 * 1.1 + 64.0;
const OVERHEAD_MOST: f64 = 300.0;
const PURGE_MS_MOST: f64 = 5.0;
const P99_RATIO_MOST: f64 = 1.2;

/// Measurements of the store alone.
pub(super) struct StoreOnly {
    /// Whether the system's allocator is measured as well.
    pub(super) system: bool,
}

struct StoreFigure {
    name: String,
    value: f64,
    unit: String,
}

impl StoreOnly {
    /// Hit ratio. The target is the hit ratio of an exact LRU.
    pub(super) fn ratio(&self) -> Result<FigureTable> {
        self.table("ratio", |figure, figures| {
            let lru = figure.name.strip_prefix("store, ").map(|trace| format!("LRU, {trace}"));
            let lru = figures.iter().find(|other| Some(&other.name) == lru.as_ref());
            lru.map_or(FigureTarget::None, |lru| FigureTarget::Least(lru.value))
        })
    }

    /// Resident memory under churn.
    pub(super) fn rss(&self) -> Result<FigureTable> {
        self.table("rss", |figure, _| match figure.name.starts_with("highest resident") {
            true => FigureTarget::Most(RESIDENT_MOST),
            false => FigureTarget::None,
        })
    }

    /// Memory for each object.
    pub(super) fn overhead(&self) -> Result<FigureTable> {
        self.table("overhead", |figure, _| match figure.name.starts_with("beside them") {
            true => FigureTarget::Most(OVERHEAD_MOST),
            false => FigureTarget::None,
        })
    }

    /// Duration of a look-up. It has no target; only a whole hit has one.
    pub(super) fn hits(&self) -> Result<FigureTable> {
        self.table("hits", |_, _| FigureTarget::None)
    }

    /// Duration of purges, and of look-ups during purges.
    pub(super) fn purges(&self) -> Result<FigureTable> {
        self.table("purges", |figure, figures| match &*figure.name {
            "purge by tags" => FigureTarget::Most(PURGE_MS_MOST),
            name if name.starts_with("p99 of look-ups beside") => {
                let alone = figures.iter().find(|figure| figure.name == "p99 of look-ups alone");
                alone.map_or(FigureTarget::None, |alone| FigureTarget::Most(alone.value * P99_RATIO_MOST))
            }
            _ => FigureTarget::None,
        })
    }

    fn table(
        &self,
        part: &str,
        target: impl Fn(&StoreFigure, &[StoreFigure]) -> FigureTarget,
    ) -> Result<FigureTable> {
        let mut table = FigureTable::default();
        for (program, with) in PROGRAMS.iter().take(if self.system { 2 } else { 1 }) {
            eprintln!("{program} {part}");
            let figures = figures(program, part)?;
            for figure in &figures {
                let name = format!("store alone: {}{with}", figure.name);
                table.add(name, figure.unit.clone(), Some(figure.value), None, target(figure, &figures));
            }
        }
        Ok(table)
    }
}

/// Runs a program and returns the figures that it prints.
fn figures(program: &str, part: &str) -> Result<Vec<StoreFigure>> {
    let output = Command::new(optimised(program)?).arg(part).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    ensure!(output.status.success(), "{program} {part} ended with {}", output.status);
    let figures: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().filter_map(figure).collect();
    ensure!(!figures.is_empty(), "{program} {part} printed no figure");
    Ok(figures)
}

/// Parses a line of the form `name: value unit`.
fn figure(line: &str) -> Option<StoreFigure> {
    let (name, rest) = line.rsplit_once(": ")?;
    let (value, unit) = rest.split_once(' ')?;
    Some(StoreFigure {
        name: name.trim_start().to_owned(),
        value: value.parse().ok()?,
        unit: unit.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn figure_is_parsed_from_its_line() {
        let found = figure("  look-up: any page: 12.5 ns").unwrap();
        assert_eq!((&*found.name, found.value, &*found.unit), ("look-up: any page", 12.5, "ns"));
        assert_eq!(
            figure("  objects: 3 ").map(|found| (found.value, found.unit)),
            Some((3.0, String::new()))
        );
        assert!(figure("allocator: mimalloc").is_none() && figure("rss").is_none());
    }
}
