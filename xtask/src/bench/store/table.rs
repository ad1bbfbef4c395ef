//! The printed table of a part: a row for each figure, with its target and a verdict.
//!
//! Invariant: a verdict depends only on the figure and the target of its row. A row without a
//! target has no verdict.

use super::super::markdown;

/// Target of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FigureTarget {
    /// At most this value.
    Most(f64),
    /// At least this value.
    Least(f64),
    /// No target: the figure is for comparison only.
    None,
}

/// One row.
#[derive(Clone, Debug)]
pub(super) struct FigureRow {
    what: String,
    petasos: Option<f64>,
    varnish: Option<f64>,
    unit: String,
    target: FigureTarget,
}

/// The rows of a part.
#[derive(Debug, Default)]
pub(super) struct FigureTable(Vec<FigureRow>);

impl FigureTable {
    /// Adds a figure of Petasos, and Varnish's figure if there is one.
    pub(super) fn add(
        &mut self,
        what: impl Into<String>,
        unit: impl Into<String>,
        petasos: Option<f64>,
        varnish: Option<f64>,
        target: FigureTarget,
    ) {
        self.0.push(FigureRow { what: what.into(), petasos, varnish, unit: unit.into(), target });
    }

    /// Prints the rows, if there are any.
    pub(super) fn print(&self, title: &str) {
        if !self.0.is_empty() {
            let rows: Vec<_> = self.0.iter().map(FigureRow::cells).collect();
            println!("\n## {title}\n");
            println!("{}", markdown(&["figure", "unit", "Petasos", "Varnish", "target", "verdict"], &rows));
        }
    }
}

impl FigureRow {
    fn verdict(&self) -> &'static str {
        let is_met = match (self.target, self.petasos) {
            (FigureTarget::None, _) => return "",
            (_, None) => return "not measured",
            (FigureTarget::Most(most), Some(figure)) => figure <= most,
            (FigureTarget::Least(least), Some(figure)) => figure >= least,
        };
        if is_met { "met" } else { "missed" }
    }

    fn cells(&self) -> Vec<String> {
        let target = match self.target {
            FigureTarget::Most(most) => format!("at most {}", number(most)),
            FigureTarget::Least(least) => format!("at least {}", number(least)),
            FigureTarget::None => String::new(),
        };
        let figure = |figure: Option<f64>| figure.map(number).unwrap_or_default();
        vec![
            self.what.clone(),
            self.unit.clone(),
            figure(self.petasos),
            figure(self.varnish),
            target,
            self.verdict().to_owned(),
        ]
    }
}

/// Formats a figure with its significant decimal places only.
fn number(figure: f64) -> String {
    let places = match figure.abs() {
        _ if figure.fract() == 0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{figure:.places$}")
}

#[cfg(test)]
mod tests {
    use super::{FigureRow, FigureTarget, number};

    #[test]
    fn verdict_depends_on_the_figure_and_its_target() {
        let row = |petasos, target| FigureRow {
            what: String::new(),
            petasos,
            varnish: Some(9.0),
            unit: String::new(),
            target,
        };
        for (petasos, target, verdict) in [
            (Some(1.3), FigureTarget::Most(1.3), "met"),
            (Some(1.31), FigureTarget::Most(1.3), "missed"),
            (Some(5.0), FigureTarget::Least(5.0), "met"),
            (Some(4.9), FigureTarget::Least(5.0), "missed"),
            (None, FigureTarget::Least(5.0), "not measured"),
            (Some(4.9), FigureTarget::None, ""),
        ] {
            assert_eq!(row(petasos, target).verdict(), verdict);
        }
        assert_eq!([1000.0, 523.4, 12.34, 1.289].map(number), ["1000", "523", "12.3", "1.29"]);
    }
}
